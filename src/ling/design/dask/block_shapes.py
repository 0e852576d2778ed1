"""Checks that the chunks of Dask arrays have the shapes that the arrays declare."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isnan
from typing import Any

import numpy as np

from ling.errors import ShapeError


def check_block_shape(
    name: str, number: Sequence[int], shape: Sequence[int], declared: Sequence[float]
) -> None:
    """Raise ShapeError unless the chunk has the declared shape.

    `number` is its position among the chunks of the array `name`. Declared sizes that are NaN are
    unknown, and are not compared.
    """
    pairs = list(zip(shape, declared, strict=False))
    if len(shape) == len(declared) and all(isnan(b) or a == b for a, b in pairs):
        return
    where = ", ".join(map(str, number))
    sizes = ", ".join("unknown" if isnan(size) else str(int(size)) for size in declared)
    sizes += "," if len(declared) == 1 else ""
    raise ShapeError(
        name,
        f"chunk ({where}) of `{name}` has shape {tuple(shape)}, but the Dask array declares "
        f"({sizes}): a function passed to map_blocks may have changed the number of rows or "
        "columns",
        f"pass {name}.compute_chunk_sizes()",
        "tell map_blocks the chunks that its function returns (chunks=...)",
    )


def with_checked_shapes(array: Any, name: str) -> Any:
    """Return the Dask array with a check of each chunk, which raises ShapeError on a mismatch."""
    return array.map_blocks(partial(_check_block, name), dtype=array.dtype, meta=array._meta)


def _check_block(name: str, chunk: Any, block_info: Any = None) -> Any:
    """Return the chunk after the check; `map_blocks` passes `block_info`."""
    info = block_info[None]
    check_block_shape(name, info["chunk-location"], np.shape(chunk), info["chunk-shape"])
    return chunk
