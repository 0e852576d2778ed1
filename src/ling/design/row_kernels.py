"""Row transforms inside compiled loops."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(nogil=True, error_model="numpy", inline="always")
def transform_row(
    scale: Any, shift: Any, post: Any, row_output: Any, i: int, u: Any, out: Any
) -> Any:
    """Write scale[i] u - shift[i] to row_output[i]; return post[i] times that."""
    row_output[i] = scale[i] * u - shift[i]
    return out.dtype.type(post[i] * row_output[i])
