"""A copy of X quantised to 16-bit integers, for iterations that are corrected afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.linalg import threads

# Number of consecutive rows that share a quantisation scale in each column.
GROUP_SIZE = 32


@dataclass(frozen=True, eq=False)
class QuantizedMatrix:
    """The quantised matrix Z = X + E with one 16-bit integer per entry, a quarter of float64.

    Z[i, j] = codes[i, j] scales[i // GROUP_SIZE, j] column_scales[j]. Only GROUP_SIZE rows share a
    scale, so an outlier reduces the precision of its own group only. `codes` is padded with rows of
    zeros to a multiple of GROUP_SIZE; `scales` has one row per group.
    """

    codes: NDArray[np.int16]
    scales: NDArray[np.float32]
    column_scales: Array

    @cached_property
    def squared_error_bound(self) -> float:
        """Upper bound on ||E||_F^2: no entry is off by more than half a quantisation step."""
        squares = np.einsum("ij,ij->j", self.scales, self.scales, dtype=np.float64)
        # 0.51 instead of 0.5 covers the rounding to float32 of the scales and of products with
        # them.
        return float(GROUP_SIZE * (0.51**2) * (squares @ self.column_scales**2))

    def with_scaled_columns(self, scale: Array) -> QuantizedMatrix:
        """Return Z diag(scale), which shares the codes."""
        return replace(self, column_scales=self.column_scales * scale)

    def gram_matmat(self, V: Array) -> Array:
        """Return Z'(Z V), column by column; Z is read once per column."""
        if V.ndim == 1:
            return self._gram_matvec(V)
        return np.column_stack([self._gram_matvec(v) for v in V.T])

    def _gram_matvec(self, v: Array) -> Array:
        from ling.design.quantized_kernels import quantized_gram_matvec

        scaled = self.column_scales * v
        largest = float(np.abs(scaled).max(initial=0.0))
        if not largest:
            return np.zeros_like(v)
        normalized = (scaled / largest).astype(np.float32)

        def sweep(part: slice) -> Array:
            out = np.zeros(len(v))
            quantized_gram_matvec(self.codes, self.scales, normalized, part.start, part.stop, out)
            return out

        n_parts = threads.n_slices(self.codes.nbytes, 8 * len(v))
        parts = threads.split_rows(slice(0, len(self.scales)), n_parts)
        return np.asarray(self.column_scales * threads.parallel_sum(sweep, parts) * largest)


def quantize(
    array: Any, vectors: tuple[Array, Array, Array], column_scales: Array
) -> QuantizedMatrix:
    """Return diag(scale) X - left right' quantised, for vectors = (scale, left, right); one pass.

    `column_scales`, (p,), are positive and about the magnitude of the entries of each column.
    """
    from ling.design.quantized_kernels import dense_quantize

    n, p = array.shape
    n_groups = -(-n // GROUP_SIZE)
    codes = np.empty((n_groups * GROUP_SIZE, p), np.int16)
    codes[n:] = 0
    scales = np.empty((n_groups, p), np.float32)

    def sweep(part: slice) -> None:
        rows = part.start * GROUP_SIZE, min(part.stop * GROUP_SIZE, n)
        dense_quantize(array, *vectors, column_scales, *rows, codes, scales)

    n_parts = threads.n_slices(codes.nbytes)
    threads.parallel_map(sweep, threads.split_rows(slice(0, n_groups), n_parts))
    return QuantizedMatrix(codes, scales, column_scales)
