"""A copy of X in 16-bit integers, for iterations that are corrected afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.linalg import threads

# Rows that share a step.
GROUP_SIZE = 32


@dataclass(frozen=True, eq=False)
class QuantizedMatrix:
    """Z = X + E, an integer of 16 bits a number, a quarter of X in float64.

    Z[i, j] = short[i, j] steps[i // SHARED, j] units[j]. As a few rows share a step, a number far
    out costs its neighbours precision, and nobody else. Rows are filled up with zeros.
    """

    codes: NDArray[np.int16]
    scales: NDArray[np.float32]
    column_scales: Array

    @cached_property
    def squared_error_bound(self) -> float:
        """No less than the sum of all squares of E: no number is off by more than half a step."""
        squares = np.einsum("ij,ij->j", self.scales, self.scales, dtype=np.float64)
        # Steps are rounded to float32 themselves, and products with them too.
        return float(GROUP_SIZE * (0.51**2) * (squares @ self.column_scales**2))

    def gram_matmat(self, V: Array) -> Array:
        """Z'(Z V), column by column; Z is read once for each."""
        if V.ndim == 1:
            return self._gram_matvec(V)
        return np.column_stack([self._gram_matvec(v) for v in V.T])

    def _gram_matvec(self, v: Array) -> Array:
        from ling.design.kernels import quantized_gram_matvec

        scaled = self.column_scales * v
        largest = float(np.abs(scaled).max(initial=0.0))
        if not largest:
            return np.zeros_like(v)
        near = (scaled / largest).astype(np.float32)

        def sweep(part: slice) -> Array:
            out = np.zeros(len(v))
            quantized_gram_matvec(self.codes, self.scales, near, part.start, part.stop, out)
            return out

        parts = threads.split_rows(slice(0, len(self.scales)), threads.n_slices(8 * len(v)))
        return np.asarray(self.column_scales * threads.parallel_sum(sweep, parts) * largest)


def quantize(
    array: Any, vectors: tuple[Array, Array, Array], column_scales: Array
) -> QuantizedMatrix:
    """The copy of diag(scale) X - left right', `vectors` being the three; one pass.

    `column_scales` are about the sizes of the numbers in each column, and above 0.
    """
    from ling.design.kernels import dense_quantize

    n, p = array.shape
    blocks = -(-n // GROUP_SIZE)
    short = np.empty((blocks * GROUP_SIZE, p), np.int16)
    short[n:] = 0
    scales = np.empty((blocks, p), np.float32)

    def sweep(part: slice) -> None:
        rows = part.start * GROUP_SIZE, min(part.stop * GROUP_SIZE, n)
        dense_quantize(array, *vectors, column_scales, *rows, short, scales)

    threads.parallel_map(sweep, threads.split_rows(slice(0, blocks), threads.n_slices(1)))
    return QuantizedMatrix(short, scales, column_scales)
