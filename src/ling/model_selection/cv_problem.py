"""The data as cross-validation sees it: rows that can be left out, and predictions for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ling._typing import Array
from ling.design import AffineDesign, Metered
from ling.design.affine import storage_and_map
from ling.design.affine_map import AffineMap
from ling.design.arrays import broadcast_scalar
from ling.model_selection.score_accumulators import FoldScores, SampleLoss, ScoreAccumulator
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.problem import Problem, Standardization

# Rows that are gathered at a time, in bytes.
GATHER_BYTES = 2**25
# Of the memory budget, for what is made for every alpha at once.
ALPHA_BATCH_BUDGET_FRACTION = 0.5
# Samples of which some can stand for all.
MIN_ROWS_TO_SAMPLE = 2000


@dataclass(frozen=True, eq=False)
class CVProblem:
    """A problem on all rows, and the same rows without their weights.

    `Y` is y - mean in the units of the problem, `weights` are one for each row.
    """

    problem: Problem
    standardization: Standardization
    Y: Array
    weights: Array
    fit_intercept: bool
    memory_budget: float = float("inf")

    @classmethod
    def from_problem(
        cls, problem: Problem, standardization: Standardization, Y: Array, weights: Array | None,
        fit_intercept: bool, memory_budget: float = float("inf"),
    ) -> CVProblem:  # fmt: skip
        """From what the problem was built of."""
        centred, ones = problem.targets, broadcast_scalar(len(Y))
        if weights is not None:
            centred = (
                np.asarray(Y, dtype=np.float64) - standardization.y_mean
            ) / standardization.y_scale
            ones = weights
        return cls(problem, standardization, centred, ones, fit_intercept, memory_budget)

    @property
    def shape(self) -> tuple[int, int]:
        """n_samples, n_features."""
        return self.problem.shape

    @property
    def n_targets(self) -> int:
        """Columns of Y."""
        return int(self.Y.shape[1])

    @cached_property
    def design(self) -> Metered:
        """Rows x - mean, without weights, counted together with the problem's."""
        storage, affine = storage_and_map(self.problem.design.design)
        left = None if affine.left is None else broadcast_scalar(self.shape[0])[:, None]
        plain = AffineMap(None, affine.col_scale, left, affine.right)
        return Metered(AffineDesign(storage, plain), self.problem.design.meter)

    @property
    def can_sample_rows(self) -> bool:
        """Whether single rows can be had cheaply, and are enough to tell something of all."""
        storage, _ = storage_and_map(self.problem.design.design)
        return storage.has_row_access and self.shape[0] >= MIN_ROWS_TO_SAMPLE

    @property
    def is_out_of_core(self) -> bool:
        """Whether rows lie apart, on disk or elsewhere."""
        return storage_and_map(self.problem.design.design)[0].is_out_of_core

    @cached_property
    def sqrt_weights(self) -> Array:
        """Square roots of the weights."""
        return self.weights if self.weights.strides == (0,) else np.sqrt(self.weights)

    def to_data_units(self, P: Array) -> Array:
        """Predictions in the units of y, in the place of those of centred y."""
        if (self.standardization.y_scale != 1).any():
            P *= self.standardization.y_scale
        P += self.standardization.y_mean
        return P

    def alpha_batches(self, alphas: Array, numbers: float) -> Iterator[Array]:
        """As many alphas at a time as there is room for, each taking so many numbers."""
        step = int(
            np.clip(
                ALPHA_BATCH_BUDGET_FRACTION * self.memory_budget / (8.0 * numbers), 1, len(alphas)
            )
        )
        for first in range(0, len(alphas), step):
            yield alphas[first : first + step]

    def accumulate_fold_scores(
        self, splits: Splits, coef_and_intercepts: Callable[[int, Array], tuple[Array, Array]],
        alphas: Array, sample_loss: SampleLoss,
    ) -> Array:  # fmt: skip
        """`ScoreAccumulator` of the rows that each split tests, one pass for all of them.

        `coef_and_intercepts` are those of a split for some alphas, side by side, and their
        constants.
        """

        def tally(some: Array) -> ScoreAccumulator:
            columns = len(some) * self.n_targets
            W = np.empty((len(splits), self.shape[1], columns))
            constants = np.empty((len(splits), columns))
            for number in range(len(splits)):
                W[number], constants[number] = coef_and_intercepts(number, some)
            return FoldScores(
                sample_loss,
                *self.y_standardization,
                len(some),
                splits.test_membership,
                W,
                constants,
            )

        return self.accumulate_scores(alphas, tally, len(splits))

    def accumulate_scores(
        self, alphas: Array, tally: Callable[[Array], ScoreAccumulator], n_fits: int = 1
    ) -> Array:
        """Sums of all alphas, from tallies of as many as `n_fits` sets of coefficients leave room.

        A pass for each turn.
        """
        turns = self.alpha_batches(alphas, n_fits * self.n_targets * self.shape[1])
        return np.concatenate([self.design.reduce_rows(tally(some))[0] for some in turns], axis=1)

    @property
    def y_standardization(self) -> tuple[Array, Array]:
        """The mean and the unit that were taken of y."""
        return self.standardization.y_mean, self.standardization.y_scale

    def row_batches(self, rows: RowIndices) -> list[RowIndices]:
        """`rows` in parts that can be gathered; all, where rows lie in blocks anyway."""
        if self.is_out_of_core:
            return [rows]
        height = max(256, GATHER_BYTES // (8 * max(1, self.shape[1])))
        return [rows[a : a + height] for a in range(0, len(rows), height)]


class HeldOutPredictor(ABC):
    """Predictions for samples by fits that have not seen them; exact, unless said otherwise."""

    cv_problem: CVProblem
    n_splits: int
    #: Whether the fits are iterated; if so, one that is not certified may be far off.
    is_iterated = False

    @abstractmethod
    def test_rows(self, number: int) -> RowIndices:
        """The rows that a split tests."""

    def test_index(self, number: int) -> RowIndices | slice:
        """The same, but a slice if these are all."""
        return self.test_rows(number)

    @property
    def has_additive_scores(self) -> bool:
        """Whether scores that samples add to one by one are better had without predictions."""
        return False

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """Sums (n_splits, n_alphas, s, 3), see `ScoreAccumulator`; one pass for all alphas."""
        raise NotImplementedError

    @abstractmethod
    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """The number of the split and of the alpha, and predictions for its test rows."""

    def certified(self, alphas: Array) -> Array:
        """For which alphas the fits are exact, or proved to be within tol."""
        return np.ones(len(alphas), dtype=bool)

    def effective_dof(self, alphas: Array) -> tuple[Array, Array] | None:
        """Effective degrees of freedom of a fit to all samples, and their errors, if known."""
        return None

    def refine(self, alphas: Array) -> bool:
        """Do what it takes to have these alphas certified; whether anything was done."""
        return False

    @property
    def is_memory_exhausted(self) -> bool:
        """Whether there is no memory left to work with."""
        return False

    @property
    def gave_up(self) -> bool:
        """Whether another way would have been there by now."""
        return False
