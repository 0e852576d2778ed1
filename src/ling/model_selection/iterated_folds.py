"""Cross-validation without factorisations: one subspace for every training set.

Training sets differ by a mask of rows only, so all spaces grow from the same passes over X. Each
gives the solutions for all alphas. With all rows as the one training set, random probes among the
right-hand sides estimate the degrees of freedom, and with them generalised cross-validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from ling._typing import Array
from ling.design import FoldMask
from ling.linalg.rounding import product_noise
from ling.linalg.threads import single_threaded_blas
from ling.model_selection.alpha_grid import gram_trace
from ling.model_selection.cv_problem import CVProblem, HeldOutPredictor
from ling.model_selection.davidson import DavidsonSubspace
from ling.model_selection.right_hand_sides import TrainingRightHandSides
from ling.model_selection.score_accumulators import GCVScores, SampleLoss, ScoreAccumulator
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.row_sampling import leading_directions

# Directions by which every space grows in a pass.
DIRECTIONS_PER_PASS = 4
# Directions that a sample of rows may give to start with.
MAX_INITIAL_DIRECTIONS = 32
# Of trace(X'X): directions below it are not worth a start.
MIN_DIRECTION_OVER_TRACE = 1e-6
CONSTANT_TARGET_RTOL = 1e-13
# A space is looked at again when it has grown by this much.
CHECK_GROWTH_FACTOR = 1.15
# Share of the memory budget that all spaces together may take.
MAX_BUDGET_FRACTION = 0.8
# Relative error of a probe's solution that is good enough: it enters squared.
PROBE_RTOL = 0.03
# Numbers that the coefficients of several alphas may take at once.
PREDICTION_BATCH_ELEMENTS = 2**24


class IteratedFolds(HeldOutPredictor):
    """Predictions for the test rows of every split, from spaces that grow until they are near.

    `tol` is what training predictions are certified to. `n_probes` are random vectors whose
    solutions are sought besides those of y, `max_passes` the passes after which another way would
    have been faster.
    """

    is_iterated = True

    def __init__(
        self, samples: CVProblem, splits: Splits, tol: float, n_probes: int = 0,
        rng: np.random.Generator | None = None, max_passes: float = float("inf"),
    ) -> None:  # fmt: skip
        self.cv_problem = samples
        self.passes, self.max_passes = 0, max_passes
        self.splits, self.n_splits = splits, len(splits)
        self.tol = tol
        self.training_membership = splits.training_membership
        self._init_spaces(n_probes, np.random.default_rng() if rng is None else rng)

    def test_rows(self, number: int) -> RowIndices:
        """The rows that a split tests."""
        return self.splits.test_rows(number)

    def _init_spaces(self, n_probes: int, rng: np.random.Generator) -> None:
        """Means and right-hand sides of all training sets; one pass."""
        samples, n, t = self.cv_problem, self.cv_problem.shape[0], self.cv_problem.n_targets
        columns = TrainingRightHandSides.from_problem(
            samples, self.training_membership, self.n_splits, n_probes, rng
        )
        products = self._right_hand_sides(columns)
        masses, totals = columns.column_sums()
        squares = samples.problem.column_norms**2
        noise = product_noise(samples.shape) * float((samples.problem.raw_column_norms**2).max())
        self.x_shifts: list[Array] = []
        self.y_shifts: list[Array] = []
        self.tols: list[Array] = []
        self.spaces: list[DavidsonSubspace] = []
        y_shifts = np.zeros((self.n_splits, t))
        if samples.fit_intercept:
            y_shifts = totals[:, :t] / masses[:, None]
        spreads, lengths = columns.target_norms(y_shifts)
        for number, mine in enumerate(products):
            total_weight, spread, y_shift = float(masses[number]), spreads[number], y_shifts[number]
            sums, xy, probed = mine[:, 0], mine[:, 1 : 1 + t], mine[:, 1 + t :]
            x_shift = np.zeros_like(sums)
            if samples.fit_intercept:
                x_shift = sums / total_weight
                probed = probed - np.outer(x_shift, totals[number, t:])
            self.x_shifts.append(x_shift)
            self.y_shifts.append(y_shift)
            self.tols.append(
                np.append(self.tol * spread, np.full(n_probes, PROBE_RTOL * np.sqrt(n)))
            )
            # A target that is constant in a training set, but for rounding, is predicted by 0.
            xy = np.where(
                spread > CONSTANT_TARGET_RTOL * lengths[number], xy, np.outer(sums, y_shift)
            )
            rhs = np.hstack([xy - np.outer(sums, y_shift), probed])
            share = total_weight / max(float(samples.weights.sum()), 1e-300)
            self.spaces.append(DavidsonSubspace(rhs, share * squares, noise))
        if samples.can_sample_rows:
            # What stands out of rounding and noise counts, whatever the alphas will be.
            low = np.full(t, MIN_DIRECTION_OVER_TRACE * gram_trace(samples.problem))
            strong = leading_directions(
                replace(samples.problem, alphas=low), rng, MAX_INITIAL_DIRECTIONS
            )
            if strong.shape[1]:
                self._extend_spaces([strong] * len(self.spaces))

    def _right_hand_sides(self, columns: TrainingRightHandSides) -> list[Array]:
        """For each training set X'w, X'(w y) and X'(sqrt(w) signs), w being its weights."""
        samples = self.cv_problem
        if self._is_unmasked and not columns.n_probes:  # X is centred, and the rest is known
            none = np.zeros((samples.shape[1], 1))
            return [np.hstack([none, samples.problem.moments])] * self.n_splits
        nothing = np.zeros((samples.shape[1], columns.width))
        return np.split(samples.design.gram_matmat(nothing, columns), self.n_splits, axis=1)

    @cached_property
    def _is_unmasked(self) -> bool:
        """Whether every training set is all of the samples, centred as they are."""
        return self.splits.is_all_training and bool((self.cv_problem.weights == 1).all())

    @property
    def gave_up(self) -> bool:
        """Whether another way would have been there by now."""
        return self.passes > self.max_passes

    @property
    def is_memory_exhausted(self) -> bool:
        """Whether memory does not allow another block."""
        dimensions = sum(space.dimension + DIRECTIONS_PER_PASS for space in self.spaces)
        return bool(
            32.0 * self.cv_problem.shape[1] * dimensions
            > MAX_BUDGET_FRACTION * self.cv_problem.memory_budget
        )

    def certified(self, alphas: Array) -> Array:
        """For which alphas every training fit is proved to be within tol."""
        found = np.ones(len(alphas), dtype=bool)
        for number in range(len(self.spaces)):
            found &= self._certified_alphas(number, alphas)
        return found

    def refine(self, alphas: Array) -> bool:
        """Grow the spaces until these alphas are certified; whether they have grown."""
        before = self.passes
        waiting = list(range(len(self.spaces)))
        while True:
            waiting = [number for number in waiting if not self._is_finished(number, alphas)]
            if not waiting or self.is_memory_exhausted or self.gave_up:
                return self.passes > before
            sizes = {number: self.spaces[number].dimension for number in waiting}
            growing = waiting
            while growing and not self.is_memory_exhausted and not self.gave_up:
                self._grow_spaces(growing, alphas)
                growing = [
                    n
                    for n in growing
                    if not self.spaces[n].exhausted
                    and self.spaces[n].dimension < CHECK_GROWTH_FACTOR * sizes[n]
                ]

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """The number of the split and of the alpha, and predictions for its test rows."""
        for number in range(len(self.spaces)):
            for at, P in enumerate(self._split_predictions(number, alphas)):
                yield number, at, self.cv_problem.to_data_units(P)

    def _split_predictions(self, number: int, alphas: Array) -> Iterator[Array]:
        t = self.cv_problem.n_targets
        rows = self.cv_problem.design.subset(self.test_rows(number))
        step = max(1, PREDICTION_BATCH_ELEMENTS // max(1, t * sum(rows.shape)))
        for start in range(0, len(alphas), step):
            some = alphas[start : start + step]
            W, constant = self._coef_and_intercepts(number, some)
            yield from np.split(rows.matmat(W) + constant, len(some), axis=1)

    def _coef_and_intercepts(self, number: int, alphas: Array) -> tuple[Array, Array]:
        """(p, n_alphas * t), and the constants that go with them."""
        space, t = self.spaces[number], self.cv_problem.n_targets
        Y = space.solution_coordinates(alphas)[:, :, :t]
        W = space.basis @ Y.reshape(len(Y), len(alphas) * t)
        return W, np.tile(self.y_shifts[number], len(alphas)) - self.x_shifts[number] @ W

    @property
    def has_additive_scores(self) -> bool:
        """Where rows lie apart."""
        return self.cv_problem.is_out_of_core and not self.splits.has_repeated_test_rows

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """(n_splits, n_alphas, s, 3), one pass for all splits."""
        return self.cv_problem.accumulate_fold_scores(
            self.splits, self._coef_and_intercepts, alphas, sample_loss
        )

    def _is_finished(self, number: int, alphas: Array) -> bool:
        return self.spaces[number].exhausted or bool(self._certified_alphas(number, alphas).all())

    def _certified_alphas(self, number: int, alphas: Array) -> Array:
        """For which alphas the bounds on all solutions are met."""
        with single_threaded_blas():
            bounds = self.spaces[number].bounds(alphas)
        return np.asarray((bounds <= self.tols[number]).all(axis=1))

    def _grow_spaces(self, numbers: list[int], alphas: Array) -> None:
        """A block more for these spaces; one pass."""
        with single_threaded_blas():
            blocks = [
                self.spaces[n].propose_directions(alphas, self.tols[n], DIRECTIONS_PER_PASS)
                for n in numbers
            ]
        self._extend_spaces(blocks, numbers)

    def _extend_spaces(self, blocks: list[Array], numbers: list[int] | None = None) -> None:
        """These directions to those spaces, all of them if not said; one pass."""
        numbers = list(range(len(blocks))) if numbers is None else numbers
        owner = np.repeat(numbers, [block.shape[1] for block in blocks])
        V = np.hstack(blocks)
        self.passes += 1
        products = np.zeros_like(V)
        if V.shape[1]:
            shifts = np.concatenate(
                [self.x_shifts[n] @ block for n, block in zip(numbers, blocks, strict=True)]
            )
            # All rows with equal weights need no mask, and no call from inside the sweep.
            masked = None if self._is_unmasked else FoldMask(
                self.training_membership, self.cv_problem.weights, owner, shifts
            )  # fmt: skip
            products = self.cv_problem.design.gram_matmat(V, masked)
        with single_threaded_blas():
            for number, block in zip(numbers, blocks, strict=True):
                self.spaces[number].extend(block, products[:, owner == number])


class StochasticGCV(IteratedFolds):
    """Generalised cross-validation: leave-one-out with the mean of all samples' leverages.

    The residual of sample i is r_i / (1 - edf / n). edf, the trace of the matrix that makes
    predictions of y, is the mean of z'H z over random signs z (Hutchinson 1990).
    """

    def __init__(
        self, samples: CVProblem, tol: float, n_probes: int, rng: np.random.Generator
    ) -> None:
        super().__init__(samples, Splits.all_training(samples.shape[0]), tol, n_probes, rng)

    def test_rows(self, number: int) -> RowIndices:
        """All rows."""
        return np.arange(self.cv_problem.shape[0])

    def test_index(self, number: int) -> slice:
        """The same."""
        return slice(None)

    def effective_dof(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom, without the intercept's, and their standard errors."""
        space, t = self.spaces[0], self.cv_problem.n_targets
        Y = space.solution_coordinates(alphas)[:, :, t:]
        inner = space.basis.T @ space.rhs[:, t:]
        each = np.einsum("mat,mt->at", Y, inner)
        return each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(each.shape[1])

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """For each alpha in turn, those of all samples, as if each had been left out."""
        samples, kept = self.cv_problem, self._residual_divisors(alphas)
        for at, P in enumerate(self._split_predictions(0, alphas)):
            yield 0, at, samples.to_data_units(samples.Y - (samples.Y - P) / kept[at])

    def _residual_divisors(self, alphas: Array) -> Array:
        """What a residual is divided by."""
        n = self.cv_problem.standardization.n_counted
        effective_dof, _ = self.effective_dof(alphas)
        return np.maximum(1 - (effective_dof + self.cv_problem.fit_intercept) / n, 1 / n)

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """(1, n_alphas, s, 3), one pass."""
        samples = self.cv_problem

        def tally(some: Array) -> ScoreAccumulator:
            return GCVScores(
                sample_loss,
                *samples.y_standardization,
                len(some),
                samples.Y,
                *self._coef_and_intercepts(0, some),
                self._residual_divisors(some),
            )

        return samples.accumulate_scores(alphas, tally)
