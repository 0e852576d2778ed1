"""The cross-validation problem, and the interface of predictors for held-out rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ling._typing import Array
from ling.design import AffineMap, Design
from ling.design.arrays import broadcast_scalar, row_slices
from ling.linalg.rounding import EPS
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.held_out import HeldOut
from ling.model_selection.score_accumulators import FoldScores, SampleLoss, ScoreAccumulator
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.cv_cost import cv_vector_bytes, fold_factorization_bytes
from ling.solvers.engine import Candidate
from ling.solvers.memory_budget import UNLIMITED_MEMORY, MemoryBudget
from ling.solvers.problem import Problem, Standardization, TrainingData
from ling.solvers.targets import center_targets_exactly

# Bytes of float64 rows of X that are gathered at a time.
GATHER_BYTES = 2**25
# Largest number of elements of the coefficients and predictions of one batch of alphas.
PREDICTION_BATCH_ELEMENTS = 2**23
# Fraction of the memory budget for arrays that hold the results of several alphas at once.
ALPHA_BATCH_BUDGET_FRACTION = 0.5
# Fraction of the memory budget for the predictions of several alphas at once, with the copies of
# them that a product makes. A batch of one alpha may take more.
PREDICTION_BUDGET_FRACTION, N_PREDICTION_COPIES = 0.2, 3
# Rows of X with which bounds of rows are computed at a time, times the number of targets.
BOUND_BATCH_ELEMENTS = 2**16
# Number of samples from which on a random sample of rows can stand for all of them.
MIN_ROWS_TO_SAMPLE = 2000


@dataclass(frozen=True, eq=False)
class CVProblem:
    """A ridge problem on all rows, and access to the same rows without sample weights.

    `Y`, of shape (n, n_targets), is y - mean in the units of the problem, without weights.
    `weights`, of shape (n,), are the sample weights.
    """

    problem: Problem
    standardization: Standardization
    Y: Array
    weights: Array
    fit_intercept: bool
    memory: MemoryBudget = UNLIMITED_MEMORY

    @classmethod
    def from_problem(
        cls, problem: Problem, standardization: Standardization, data: TrainingData,
        fit_intercept: bool, memory: MemoryBudget = UNLIMITED_MEMORY,
    ) -> CVProblem:  # fmt: skip
        """Cross-validation problem from a problem and from the data that it was built of."""
        targets, row_weights = problem.targets, broadcast_scalar(len(data.targets))
        if data.weights is not None:
            row_weights = data.weights
            targets = np.asarray(data.targets, dtype=np.float64)
            if fit_intercept:
                total_weight = standardization.total_weight
                is_copy = data.targets.dtype != np.float64
                targets = center_targets_exactly(targets, row_weights, total_weight, is_copy)[1]
            if (standardization.y_scale != 1).any():
                targets = targets / standardization.y_scale
        return cls(problem, standardization, targets, row_weights, fit_intercept, memory)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and number of features of X."""
        return self.problem.shape

    @property
    def n_targets(self) -> int:
        """Number of columns of Y."""
        return int(self.Y.shape[1])

    @cached_property
    def design(self) -> Design:
        """Centred rows x - mean without weights; its passes count towards those of the problem."""
        weighted = self.problem.design
        affine = weighted.affine
        left = None if affine.left is None else broadcast_scalar(self.shape[0])[:, None]
        unweighted_map = AffineMap(None, affine.column_scale, left, affine.right)
        return Design(weighted.storage, unweighted_map, weighted.meter)

    @property
    def can_sample_rows(self) -> bool:
        """True if single rows can be read cheaply and there are enough for a useful sample."""
        return self.problem.design.has_row_access and self.shape[0] >= MIN_ROWS_TO_SAMPLE

    @property
    def is_out_of_core(self) -> bool:
        """True if X is read block by block, from disk or elsewhere."""
        return self.problem.design.is_out_of_core

    @cached_property
    def sums_scores(self) -> bool:
        """True if scores are summed in the pass that predicts, without predictions of all rows.

        That is so if X is read block by block, or if memory is short.
        """
        return self.is_out_of_core or not self.memory.allows(self._vector_bytes(False))

    def _vector_bytes(self, sums_scores: bool) -> float:
        n, is_weighted = self.shape[0], self.weights.strides != (0,)
        return cv_vector_bytes(n, self.n_targets, is_weighted, sums_scores)

    @property
    def vector_bytes(self) -> float:
        """Bytes of the arrays of all rows."""
        return self._vector_bytes(self.sums_scores)

    @cached_property
    def sqrt_weights(self) -> Array:
        """Square roots of the sample weights, of shape (n,)."""
        return self.weights if self.weights.strides == (0,) else np.sqrt(self.weights)

    @cached_property
    def length(self) -> float:
        """A bound on sqrt(sum_i w_i ||x_i||^2), the Frobenius norm of the weighted, centred X."""
        return float(np.linalg.norm(self.problem.safe_column_norms))

    def held_out(self, P: Array, bounds: Array, rows: RowIndices | slice) -> HeldOut:
        """Predictions `P` (n_test, k, t) of centred y for `rows`, and their bounds (k, t).

        The result is in the units of y; `P` is overwritten.
        """
        return HeldOut(self.to_data_units(P), self.bounds_in_data_units(bounds, rows))

    def bounds_in_data_units(self, bounds: Array, rows: RowIndices | slice) -> Array:
        """Bounds (..., t) on errors of predictions for `rows`, converted to the units of y."""
        return bounds * self.standardization.y_scale + self.rounding_of_y * self.root_weight(rows)

    @cached_property
    def rounding_of_y(self) -> Array:
        """Rounding errors (t,) of adding the mean of y to a prediction, in the units of y.

        They are 0 for a constant y, whose mean is exact and to which 0 is added.
        """
        is_constant = self.problem.target_norms == 0
        return np.where(is_constant, 0.0, 2 * EPS * np.abs(self.standardization.y_mean))

    def root_weight(self, rows: RowIndices | slice) -> float:
        """The square root of the total weight of `rows`."""
        return float(np.sqrt(self.weights[rows].sum()))

    def to_data_units(self, P: Array) -> Array:
        """Convert predictions `P` of centred y to the units of y, in place."""
        if (self.standardization.y_scale != 1).any():
            P *= self.standardization.y_scale
        P += self.standardization.y_mean
        return P

    @cached_property
    def batch_memory(self) -> MemoryBudget:
        """Memory for batches of alphas: what factorisations and arrays of all rows leave."""
        n, p = self.shape
        vectors, factors = self.vector_bytes, fold_factorization_bytes(n, p)
        # If factorisations do not fit, there are none.
        return self.memory.after(vectors + factors if self.memory.allows(factors) else vectors)

    def alpha_batches(self, n_alphas: int, numbers: float) -> Iterator[slice]:
        """Batches of alphas that fit in memory, if each alpha takes `numbers` float64 numbers.

        A batch may use ALPHA_BATCH_BUDGET_FRACTION of the memory budget.
        """
        step = self.batch_memory.count(8.0 * numbers, n_alphas, ALPHA_BATCH_BUDGET_FRACTION)
        return row_slices(n_alphas, step)

    def prediction_batches(self, n_alphas: int, numbers: float) -> Iterator[slice]:
        """Batches of alphas whose coefficients and predictions fit in memory.

        They have `numbers` elements for each alpha.
        """
        most = max(1, int(PREDICTION_BATCH_ELEMENTS / max(1.0, numbers)))
        n_bytes = 8.0 * N_PREDICTION_COPIES * max(1.0, numbers)
        step = self.batch_memory.count(n_bytes, most, PREDICTION_BUDGET_FRACTION)
        return row_slices(n_alphas, step)

    def bound_norms(
        self, row_bounds: Callable[[slice], Array], shape: tuple[int, ...] | None = None
    ) -> Array:
        """sqrt(sum_i w_i b_i^2) for bounds b_i that `row_bounds(rows)` (n_rows, *shape) returns.

        `shape` is (t,) by default. Only some rows are in memory at a time. Bounds of rows of weight
        0 may be infinite.
        """
        shape = (self.n_targets,) if shape is None else shape
        squares = np.zeros(shape)
        for rows in row_slices(self.shape[0], max(1, BOUND_BATCH_ELEMENTS // squares.size)):
            weights = self.weights[rows]
            bounds = row_bounds(rows)
            bounds[weights == 0] = 0.0
            squares += np.einsum("i,i...,i...->...", weights, bounds, bounds)
        return np.asarray(np.sqrt(squares))

    def predict_rows(self, rows: RowIndices | slice, W: Array) -> Array:
        """X W (n_rows, k) of centred rows, without a copy of all of them; a slice has all rows."""
        if isinstance(rows, slice):  # all rows
            return self.design.matmat(W)
        batches = self.row_batches(rows)
        if len(batches) == 1:
            return self.design.subset(rows).matmat(W)
        P, start = np.empty((len(rows), W.shape[1])), 0
        for batch in batches:
            P[start : start + len(batch)] = self.design.subset(batch).matmat(W)
            start += len(batch)
        return P

    def accumulate_fold_scores(
        self, splits: Splits, fold_coefs: Callable[[int, slice], FoldCoefs],
        alphas: Array, sample_loss: SampleLoss,
    ) -> tuple[tuple[Array, ...], Array]:  # fmt: skip
        """Score sums over the test rows of every split, and bounds (n_splits, n_alphas, t).

        See `ScoreAccumulator` for the sums; the bounds are those of `HeldOut`.
        `fold_coefs(number, batch)` returns the fits of a split for `alphas[batch]`. One pass over X
        for each batch of alphas, shared by all splits.
        """
        bounds: list[list[Array]] = []

        def make_accumulator(batch: slice) -> ScoreAccumulator:
            coefs = [fold_coefs(number, batch) for number in range(len(splits))]
            bounds.append(
                [
                    self.bounds_in_data_units(fold.bounds, splits.test_rows(number))
                    for number, fold in enumerate(coefs)
                ]
            )
            return FoldScores(
                sample_loss=sample_loss,
                y_mean=self.standardization.y_mean,
                y_scale=self.standardization.y_scale,
                n_alphas=len(alphas[batch]),
                test_membership=splits.test_membership,
                W=np.stack([fold.W for fold in coefs]),
                intercepts=np.stack([fold.intercepts for fold in coefs]),
            )

        return self.accumulate_scores(alphas, make_accumulator, len(splits)), np.concatenate(
            bounds, axis=1
        )

    def accumulate_scores(
        self, alphas: Array, make_accumulator: Callable[[slice], ScoreAccumulator], n_fits: int = 1
    ) -> tuple[Array, ...]:
        """The sums of an accumulator, with all alphas along axis 1; one pass per batch of alphas.

        `make_accumulator(batch)` returns the accumulator of `alphas[batch]`. Batches are so small
        that `n_fits` sets of coefficients per alpha fit in memory.
        """
        batches = self.alpha_batches(len(alphas), n_fits * self.n_targets * self.shape[1])
        results = [self.design.reduce_rows(make_accumulator(batch)) for batch in batches]
        return tuple(np.concatenate(parts, axis=1) for parts in zip(*results, strict=True))

    def row_batches(self, rows: RowIndices, numbers: int = 0) -> list[RowIndices]:
        """`rows` split into batches of about GATHER_BYTES; one batch if X lies in blocks.

        `numbers` is the size of what is computed for each row, in float64 numbers.
        """
        if self.is_out_of_core:
            return [rows]
        storage, (n, p) = self.problem.design.storage, self.shape
        row_bytes = 8.0 * p if storage.is_dense else 12.0 * storage.n_stored / n + 8
        n_bytes = min(GATHER_BYTES, storage.workspace_bytes)
        height = max(256, int(n_bytes / (row_bytes + 8.0 * numbers + 1)))
        return [rows[a : a + height] for a in range(0, len(rows), height)]


@dataclass(frozen=True, eq=False)
class FoldCoefs:
    """Fits to one training set.

    Coefficients `W` (p, n_alphas * t), intercepts (n_alphas * t,), and bounds (n_alphas, t) on the
    norms of the errors of predictions for the test rows, in the units of the problem.
    """

    W: Array
    intercepts: Array
    bounds: Array


class HeldOutPredictor(ABC):
    """Interface: predictions for held-out samples by fits to the other samples, with error bounds.

    The bounds are about the difference to the predictions of exact ridge fits.
    """

    cv_problem: CVProblem
    n_splits: int
    #: True if the fits are iterated: alphas that were not refined may have large errors.
    is_iterated = False

    @abstractmethod
    def test_rows(self, number: int) -> RowIndices:
        """Indices of the test rows of split `number`."""

    def test_index(self, number: int) -> RowIndices | slice:
        """Test rows of split `number` as an index; a slice if they are all rows."""
        return self.test_rows(number)

    @property
    def has_additive_scores(self) -> bool:
        """True if scores that are sums over samples should come from `score_sums`.

        Otherwise they come from `predictions`.
        """
        return False

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> tuple[tuple[Array, ...], Array]:
        """Sums of a `ScoreAccumulator`, and bounds (n_splits, n_alphas, t) as those of `HeldOut`.

        One pass for all alphas.
        """
        raise NotImplementedError

    @abstractmethod
    def prediction_batches(self, alphas: Array) -> Iterator[tuple[int, slice, HeldOut]]:
        """Yield (split index, batch, predictions for the test rows of that split).

        They are those of `alphas[batch]`. Split by split, and alphas in their order.
        """

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, HeldOut]]:
        """Yield (split index, alpha index, predictions (n_test, t) for its test rows)."""
        for number, batch, held_out in self.prediction_batches(alphas):
            for index, bounds in enumerate(held_out.bounds):
                yield number, batch.start + index, HeldOut(held_out.predictions[:, index], bounds)

    def effective_dof(self, alphas: Array) -> tuple[Array, Array] | None:
        """Effective degrees of freedom of a fit to all samples, and their errors.

        Both have shape (n_alphas,). The errors are standard errors of random estimates, and 0 for
        those from a factorisation. None if the degrees of freedom are not known.
        """
        return None

    def final_fit(self, problem: Problem) -> Candidate | None:
        """The fit to all samples with `problem.alphas`, if it follows from what was computed."""
        return None

    @property
    def gram_form(self) -> HouseholderTridiagonal | None:
        """The tridiagonal form of X'X, if it was computed."""
        return None

    def smallest_direction(self, alphas: Array) -> float | None:
        """The smallest eigenvalue of X'X of the training rows above rounding, if it is known.

        `alphas` are the alphas that will be scored.
        """
        return None

    @property
    def can_refine(self) -> bool:
        """True if `refine` could still do something."""
        return False

    def refine(self, alphas: Array) -> bool:
        """Spend more work on the fits of these alphas; return True if any fit changed."""
        return False

    def is_refined(self, alphas: Array) -> bool:
        """True unless fits are iterated and have not reached tol for these alphas."""
        return True

    @property
    def is_memory_exhausted(self) -> bool:
        """True if the memory budget does not allow further refinement."""
        return False

    @property
    def lacks_memory(self) -> bool:
        """True if a larger memory budget would allow more to be proved."""
        return self.is_memory_exhausted

    @property
    def gave_up(self) -> bool:
        """True if this strategy has used more passes than the fallback would need in total."""
        return False
