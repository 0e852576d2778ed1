"""Bounds on the leverages of test rows, from minorants of the Gram matrix of the training rows.

A minorant B <= X'X of the training rows gives x'(X'X + alpha I)^-1 x <= x'(B + alpha I)^-1 x. With
B = U diag(v) U' the latter is sum_j (u_j'x)^2 / (v_j + alpha) + (||x||^2 - ||U'x||^2) / alpha, so
that sums of (u_j'x)^2 and of ||x||^2 over the test rows give the sum of leverages for every alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import Design
from ling.design.rows import RowReduction, per_row
from ling.linalg.rounding import EPS, sum_noise
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.fold_scales import largest_multiplicity
from ling.model_selection.splits import RowIndices, Splits, tested_rows
from ling.solvers.certificate import LowRankMinorant, Minorant


@dataclass(frozen=True, eq=False)
class LeverageBound:
    """A bound on the sum of w x'(X'X + alpha I)^-1 x over the test rows of a split.

    `values` are v (rank,), `squares` (rank,) the sums of w (u_j'x)^2, and `total` is that of
    w ||x||^2. The minorant lies below X'X + slack I. The products U'x of all test rows, weighted,
    have errors of at most `product_error` in norm. `is_complete` says that the rank is the number
    of features.
    """

    values: Array
    squares: Array
    total: float
    slack: float
    product_error: float
    is_complete: bool

    def __call__(self, alphas: Array) -> Array:
        """The bounds (n_alphas,)."""
        smallest = float(self.values.min()) if self.is_complete else 0.0
        shifts = alphas - self.slack
        is_usable = smallest + shifts > (smallest + alphas) / 2
        shifts = np.where(is_usable, shifts, 1.0)
        forms = (self.squares[:, None] / (self.values[:, None] + shifts)).sum(axis=0)
        if not self.is_complete:
            forms = forms + max(self.total - float(self.squares.sum()), 0.0) / shifts
        # An error d of U'x adds at most ||d|| / sqrt(smallest + shift) to the root of a form.
        roots = np.sqrt(forms) + self.product_error / np.sqrt(smallest + shifts)
        with np.errstate(divide="ignore"):
            return np.where(is_usable, roots**2, self.total / alphas)


def leverage_bound(
    samples: CVProblem, rows: RowIndices, minorant: LowRankMinorant, x_shift: Array
) -> LeverageBound:
    """The bound for one split with the test rows `rows`, which are read.

    `x_shift` (p,) is the mean of its training rows, about the mean of all rows.
    """
    sums = _squares_in_memory(samples, rows, minorant.vectors, x_shift)
    return _bound_from_sums(samples, minorant, sums, largest_multiplicity(rows))


def leverage_bounds(
    samples: CVProblem, splits: Splits, minorants: Sequence[Minorant], x_shifts: Sequence[Array]
) -> list[LeverageBound]:
    """Bounds for every split; one pass over X with as many columns as the largest rank.

    `x_shifts` (p,) are the means of the training rows, about the mean of all rows.
    """
    low_rank = [_as_low_rank(minorant, samples.shape[1]) for minorant in minorants]
    vectors = tuple(minorant.vectors for minorant in low_rank)
    if samples.is_out_of_core:
        reduction = TestRowSquares(
            test_membership=splits.test_membership, weights=samples.weights,
            vectors=vectors, shifts=np.stack(x_shifts),
        )  # fmt: skip
        sums = list(samples.design.reduce_rows(reduction)[0])
    else:
        sums = [
            _squares_in_memory(samples, splits.test_rows(number), U, x_shifts[number])
            for number, U in enumerate(vectors)
        ]
    bounds = []
    for number, (split_sums, minorant) in enumerate(zip(sums, low_rank, strict=True)):
        repeats = 1
        if splits.has_repeated_test_rows:
            repeats = largest_multiplicity(splits.test_rows(number))
        if samples.is_out_of_core:  # the sums have every row once
            split_sums = repeats * split_sums
        bounds.append(_bound_from_sums(samples, minorant, split_sums, repeats))
    return bounds


def _as_low_rank(minorant: Minorant, p: int) -> LowRankMinorant:
    """A Nyström minorant with the rounding of its decomposition as slack; rank 0 for others."""
    if not isinstance(minorant, LowRankMinorant):
        return LowRankMinorant(np.zeros((p, 0)), np.zeros(0), 0.0)
    rounding = 16 * EPS * float(minorant.values.max(initial=0.0))
    return replace(minorant, slack=minorant.slack + rounding)


def _bound_from_sums(
    samples: CVProblem, minorant: LowRankMinorant, sums: Array, repeats: int
) -> LeverageBound:
    """The bound from the sums of w ||x||^2 and of w (u_j'x)^2; those after the rank are ignored.

    No test row is repeated more than `repeats` times.
    """
    n, p = samples.shape
    rank = len(minorant.values)
    total = (1 + 4 * sum_noise(n, p)) * float(sums[0])
    # Rows are centred by subtraction, so that errors are relative to their norms before that too.
    raw_length = np.sqrt(repeats) * float(np.linalg.norm(samples.problem.raw_column_norms))
    return LeverageBound(
        values=minorant.values,
        squares=sums[1 : 1 + rank],
        total=total,
        slack=minorant.slack,
        product_error=2 * sum_noise(p) * float(np.sqrt(rank)) * (np.sqrt(total) + raw_length),
        is_complete=rank == p,
    )


def _squares_in_memory(samples: CVProblem, rows: RowIndices, U: Array, shift: Array) -> Array:
    """The sums of `TestRowSquares` for one split, without dense copies of sparse rows."""
    total, squares = 0.0, np.zeros(U.shape[1])
    shift_products = shift @ U
    for batch in samples.row_batches(rows, 3 * U.shape[1]):
        design, weights = samples.design.subset(batch), samples.weights[batch]
        total += _total_squares(design, weights, shift)
        if U.shape[1]:
            products = design.matmat(U)
            products -= shift_products
            products *= products
            squares += weights @ products
    return np.append(total, squares)


def _total_squares(design: Design, weights: Array, shift: Array) -> float:
    """An upper bound on the sum of w ||x - shift||^2 over the rows of a centred, scaled design.

    It is formed from raw sums, in which digits may cancel; their rounding error is added.
    """
    sums, _, squares = design.storage.moments(weights, weights[:, None])
    affine = design.affine
    scale = np.ones_like(shift) if affine.column_scale is None else affine.column_scale
    center = shift / scale
    if affine.right is not None:
        center = center + affine.right[:, 0]
    total_weight = float(weights.sum())
    centered = squares - 2 * center * sums + total_weight * center**2
    rounding = 8 * sum_noise(len(weights)) * (squares + total_weight * center**2)
    return float(scale**2 @ np.maximum(centered + rounding, 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class TestRowSquares(RowReduction):
    """Sums over the test rows of each split of w ||x - m||^2 and of w (u_j'(x - m))^2.

    `vectors` are the u_j of each split, (p, rank), and `shifts` (n_splits, p) their means m.
    `test_membership` is that of `Splits`. The sums have shape (n_splits, 1 + largest rank).
    """

    __test__ = False  # pytest would collect it

    test_membership: NDArray[Any] = per_row()
    weights: Array = per_row()
    vectors: tuple[Array, ...]
    shifts: Array

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """Contribution of these rows to the sums."""
        sums = np.zeros((len(self.vectors), 1 + self._largest_rank))
        for number, U in enumerate(self.vectors):
            is_test_row = tested_rows(self.test_membership, number)
            rows, weights = X[is_test_row] - self.shifts[number], self.weights[is_test_row]
            sums[number, 0] = weights @ np.einsum("ij,ij->i", rows, rows)
            sums[number, 1 : 1 + U.shape[1]] = weights @ (rows @ U) ** 2
        return (sums,)

    @property
    def _largest_rank(self) -> int:
        return max(int(U.shape[1]) for U in self.vectors)

    @property
    def workspace_per_row(self) -> int:
        """Numbers of temporary memory per row: the centred row and its products."""
        return 2 * (int(self.shifts.shape[1]) + self._largest_rank)

    @property
    def flops_per_row(self) -> float:
        """FLOPs of the products of one row, by one split."""
        return 2.0 * float(self.vectors[0].size)
