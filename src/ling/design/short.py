"""A copy of X in 16-bit integers, for iterations that are corrected afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.design import threads
from ling.design.arrays import Array

# Rows that share a step.
SHARED = 32


@dataclass(frozen=True, eq=False)
class ShortCopy:
    """Z = X + E, an integer of 16 bits a number, a quarter of X in float64.

    Z[i, j] = short[i, j] steps[i // SHARED, j] units[j]. As a few rows share a step, a number far
    out costs its neighbours precision, and nobody else. Rows are filled up with zeros.
    """

    short: NDArray[np.int16]
    steps: NDArray[np.float32]
    units: Array

    @cached_property
    def error(self) -> float:
        """No less than the sum of all squares of E: no number is off by more than half a step."""
        squares = np.einsum("ij,ij->j", self.steps, self.steps, dtype=np.float64)
        # Steps are rounded to float32 themselves, and products with them too.
        return float(SHARED * (0.51**2) * (squares @ self.units**2))

    def gram_matmat(self, V: Array) -> Array:
        """Z'(Z V), column by column; Z is read once for each."""
        if V.ndim == 1:
            return self._gram(V)
        return np.column_stack([self._gram(v) for v in V.T])

    def _gram(self, v: Array) -> Array:
        from ling.design.kernels import short_gram

        scaled = self.units * v
        largest = float(np.abs(scaled).max(initial=0.0))
        if not largest:
            return np.zeros_like(v)
        near = (scaled / largest).astype(np.float32)

        def sweep(part: slice) -> Array:
            out = np.zeros(len(v))
            short_gram(self.short, self.steps, near, part.start, part.stop, out)
            return out

        parts = threads.cut(slice(0, len(self.steps)), threads.n_pieces(8 * len(v)))
        return np.asarray(self.units * threads.total(sweep, parts) * largest)


def shortened(array: Any, vectors: tuple[Array, Array, Array], units: Array) -> ShortCopy:
    """The copy of diag(scale) X - left right', `vectors` being the three; one pass.

    `units` are about the sizes of the numbers in each column, and above 0.
    """
    from ling.design.kernels import dense_shorten

    n, p = array.shape
    blocks = -(-n // SHARED)
    short = np.empty((blocks * SHARED, p), np.int16)
    short[n:] = 0
    steps = np.empty((blocks, p), np.float32)

    def sweep(part: slice) -> None:
        rows = part.start * SHARED, min(part.stop * SHARED, n)
        dense_shorten(array, *vectors, units, *rows, short, steps)

    threads.run(sweep, threads.cut(slice(0, blocks), threads.n_pieces(1)))
    return ShortCopy(short, steps, units)
