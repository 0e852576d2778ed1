"""The dimensions of a ridge problem, on which its cost depends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ling.design import AffineMap, Design
from ling.design.tuning import MAX_WORKSPACE_BYTES


@dataclass(frozen=True)
class ProblemDimensions:
    """The dimensions and storage properties that the cost of a ridge problem depends on.

    Attributes
    ----------
    n, p, nnz, itemsize : int
        Rows, columns and stored entries of X, and the bytes of one entry.
    dense : bool
    n_targets, n_alphas : int
    read_bandwidth : float or None
        Bytes per second at which X is read; None if it is in memory.
    is_out_of_core : bool
        Whether X is stored in blocks, each of which has partial sums of its own.
    block_bytes : float
        Bytes of one block.
    workspace_bytes : float
        Bytes of a temporary block of rows.
    can_quantize : bool
        Whether a copy of X in 16-bit integers can be made.
    is_weighted : bool
        Whether samples have weights.
    can_iterate : bool
        Whether conjugate gradients without a sketch are one compiled loop.
    row_gram_passes : float
        Passes over X that X X' takes.
    gram_flops : float or None
        FLOPs of the smaller Gram matrix of a sparse X; None if they follow from n and p.
    has_compiled_gram : bool
        Whether a compiled loop forms the smaller Gram matrix, because BLAS is slower.
    """

    n: int
    p: int
    nnz: int
    itemsize: int
    dense: bool
    n_targets: int
    n_alphas: int
    read_bandwidth: float | None = None
    is_out_of_core: bool = False
    block_bytes: float = np.inf
    can_quantize: bool = True
    workspace_bytes: float = MAX_WORKSPACE_BYTES
    is_weighted: bool = False
    can_iterate: bool = False
    row_gram_passes: float = 1.0
    gram_flops: float | None = None
    has_compiled_gram: bool = False

    @property
    def block_rows(self) -> float:
        """Rows of one block; all if X is in memory."""
        row_bytes = max(1, self.p * self.itemsize)
        return min(float(self.n), max(1.0, self.block_bytes / row_bytes))

    @property
    def max_blas_flops(self) -> float:
        """Multiply-adds of the largest call of BLAS in a fit, a Gram matrix or a product with y."""
        return float(self.nnz) * max(min(self.n, self.p), self.n_targets)

    @property
    def n_bytes(self) -> int:
        """Bytes that one pass over X reads."""
        return self.nnz * (self.itemsize if self.dense else self.itemsize + 4)


def problem_dimensions(
    design: Design, n_targets: int, n_alphas: int, is_read_once: bool = False,
    read_bandwidth: float | None = None, is_weighted: bool = False,
) -> ProblemDimensions:  # fmt: skip
    """The dimensions of the ridge problem of a design.

    With `is_read_once`, X will be in memory before the fit: its bandwidth, which is measured by
    reading, is not asked for. Nor is it if `read_bandwidth` is given.
    """
    storage = design.storage
    is_out_of_core = storage.is_out_of_core and not is_read_once
    bandwidth = None
    if is_out_of_core:
        bandwidth = read_bandwidth or storage.read_bandwidth
    return ProblemDimensions(
        *design.shape,
        storage.n_stored,
        storage.dtype.itemsize,
        storage.is_dense,
        n_targets,
        n_alphas,
        bandwidth,
        is_out_of_core,
        storage.block_bytes,
        design.can_quantize,
        storage.workspace_bytes,
        is_weighted,
        design.can_iterate,
        storage.row_gram_passes,
        None if storage.is_dense else _smaller_gram_flops(design),
        storage.has_compiled_gram and not is_out_of_core,
    )


def _smaller_gram_flops(design: Design) -> float:
    """FLOPs of X'X, or of X X' if p > n."""
    n, p = design.shape
    storage, affine = design.storage, AffineMap()
    return storage.gram_flops(affine) if p <= n else storage.row_gram_flops(affine)
