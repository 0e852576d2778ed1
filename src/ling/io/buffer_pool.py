"""Memory for blocks, used again when a block is no longer needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ling._typing import Array


class BufferPool:
    """Gives out blocks in Fortran's order, all of at most `size` numbers.

    Fresh memory takes the system about as long to hand over as decoding takes to fill it.
    """

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self.size = size
        self.dtype = dtype
        self.free: list[Array] = []

    def allocate_block(self, height: int, width: int) -> Array:
        """An empty block, whose memory comes back when nothing refers to it any more."""
        memory = self.free.pop() if self.free else np.empty(self.size, self.dtype)
        lent = np.asarray(_RecycledBuffer(memory, self.free))
        return lent[: height * width].reshape((height, width), order="F")


class _RecycledBuffer:
    """What an array and all its views refer to: it outlives them all, and no longer."""

    def __init__(self, memory: Array, free: list[Array]) -> None:
        self.memory = memory
        self.free = free
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self.free.append(self.memory)
