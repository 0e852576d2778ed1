"""Iterative cross-validation: one Davidson subspace for every training set, no factorisations.

Training sets differ only by a mask of rows, so one pass over X extends all subspaces. Each subspace
contains the solutions for all alphas. With all rows as the only training set, random probes among
the right-hand sides estimate the effective degrees of freedom for generalised cross-validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import FoldMask
from ling.linalg.rounding import product_noise
from ling.linalg.threads import single_threaded_blas
from ling.model_selection.alpha_grid import gram_trace
from ling.model_selection.cv_problem import PREDICTION_BATCH_ELEMENTS, CVProblem, HeldOutPredictor
from ling.model_selection.davidson import DavidsonSubspace
from ling.model_selection.right_hand_sides import TrainingRightHandSides
from ling.model_selection.score_accumulators import GCVScores, SampleLoss, ScoreAccumulator
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.cost_model import subspace_bytes
from ling.solvers.engine import as_generator
from ling.solvers.row_sampling import leading_directions

# Number of directions by which every subspace grows in one pass.
DIRECTIONS_PER_PASS = 4
# Maximum number of initial directions that are estimated from a sample of rows.
MAX_INITIAL_DIRECTIONS = 32
# Alpha, as a fraction of trace(X'X), with which initial directions are chosen. Directions that are
# weaker than this are not worth starting with.
MIN_DIRECTION_OVER_TRACE = 1e-6
# A target counts as constant in a training set if ||y - mean|| is at most this fraction of ||y||.
CONSTANT_TARGET_RTOL = 1e-13
# The error bounds of a subspace are computed again when its dimension has grown by this factor.
CHECK_GROWTH_FACTOR = 1.15
# Fraction of the memory budget that all subspaces together may take.
MAX_BUDGET_FRACTION = 0.8
# Relative error to which the solutions of probes are computed. A low accuracy is enough, because
# the error enters the degrees of freedom squared.
PROBE_RTOL = 0.03


class IteratedFolds(HeldOutPredictor):
    """Predictions for the test rows of every split, from subspaces that grow until certified.

    `tol` is the relative error bound to which training predictions are certified. `n_probes` is
    the number of random right-hand sides that are solved for besides y. `max_passes` is the number
    of passes after which the fallback would have been faster.
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
        self._init_spaces(n_probes, as_generator(rng))

    def test_rows(self, number: int) -> RowIndices:
        """Indices of the test rows of split `number`."""
        return self.splits.test_rows(number)

    def _init_spaces(self, n_probes: int, rng: np.random.Generator) -> None:
        """Compute the means and right-hand sides of all training sets and create their subspaces.

        One pass for the right-hand sides. If rows can be sampled, the subspaces start with leading
        directions of a sample, which takes a second pass.
        """
        samples, n, t = self.cv_problem, self.cv_problem.shape[0], self.cv_problem.n_targets
        right_hand_sides = TrainingRightHandSides.from_problem(
            samples, self.training_membership, self.n_splits, n_probes, rng
        )
        products = self._right_hand_sides(right_hand_sides)
        total_weights, column_totals = right_hand_sides.column_sums()
        column_squares = samples.problem.column_norms**2
        noise = product_noise(samples.shape) * float((samples.problem.raw_column_norms**2).max())
        self.x_shifts: list[Array] = []
        self.y_shifts: list[Array] = []
        self.tols: list[Array] = []
        self.spaces: list[DavidsonSubspace] = []
        y_shifts = np.zeros((self.n_splits, t))
        if samples.fit_intercept:
            y_shifts = column_totals[:, :t] / total_weights[:, None]
        spreads, target_lengths = right_hand_sides.target_norms(y_shifts)
        for number, split_products in enumerate(products):
            total_weight, spread, y_shift = (
                float(total_weights[number]),
                spreads[number],
                y_shifts[number],
            )
            x_sums, xy, probe_rhs = (
                split_products[:, 0],
                split_products[:, 1 : 1 + t],
                split_products[:, 1 + t :],
            )
            x_shift = np.zeros_like(x_sums)
            if samples.fit_intercept:
                x_shift = x_sums / total_weight
                probe_rhs = probe_rhs - np.outer(x_shift, column_totals[number, t:])
            self.x_shifts.append(x_shift)
            self.y_shifts.append(y_shift)
            self.tols.append(
                np.append(self.tol * spread, np.full(n_probes, PROBE_RTOL * np.sqrt(n)))
            )
            # A target that is constant in a training set, up to rounding, gets a zero right-hand
            # side, so that its coefficients are 0.
            xy = np.where(
                spread > CONSTANT_TARGET_RTOL * target_lengths[number],
                xy,
                np.outer(x_sums, y_shift),
            )
            rhs = np.hstack([xy - np.outer(x_sums, y_shift), probe_rhs])
            weight_fraction = total_weight / max(float(samples.weights.sum()), 1e-300)
            self.spaces.append(DavidsonSubspace(rhs, weight_fraction * column_squares, noise))
        if samples.can_sample_rows:
            # The alphas are not known yet: use all directions that exceed rounding and noise.
            min_alphas = np.full(t, MIN_DIRECTION_OVER_TRACE * gram_trace(samples.problem))
            directions = leading_directions(
                replace(samples.problem, alphas=min_alphas), rng, MAX_INITIAL_DIRECTIONS
            )
            if directions.shape[1]:
                self._extend_spaces([directions] * len(self.spaces))

    def _right_hand_sides(self, columns: TrainingRightHandSides) -> list[Array]:
        """For each training set with weights w: X'w, X'(w y) and X'(sqrt(w) signs), side by side.

        Each array has shape (p, 1 + n_targets + n_probes). One pass, or none if they are known.
        """
        samples = self.cv_problem
        # X is centred, so X'w is 0, and X'y is part of the problem.
        if self._is_unmasked and not columns.n_probes:
            zero_sums = np.zeros((samples.shape[1], 1))
            return [np.hstack([zero_sums, samples.problem.moments])] * self.n_splits
        return np.split(samples.design.rmatmat_generated(columns), self.n_splits, axis=1)

    @cached_property
    def _is_unmasked(self) -> bool:
        """True if the only training set is all samples, with weights of 1."""
        return self.splits.is_all_training and bool((self.cv_problem.weights == 1).all())

    @property
    def gave_up(self) -> bool:
        """True if more passes were made than the fallback would need in total."""
        return self.passes > self.max_passes

    @property
    def is_memory_exhausted(self) -> bool:
        """True if the memory budget does not allow another block of directions."""
        dimensions = sum(space.dimension + DIRECTIONS_PER_PASS for space in self.spaces)
        n_bytes = subspace_bytes(self.cv_problem.shape[1], dimensions)
        return not self.cv_problem.memory.allows(n_bytes, MAX_BUDGET_FRACTION)

    def certified(self, alphas: Array) -> NDArray[np.bool_]:
        """Boolean mask (n_alphas,): True where every training fit is proved to be within tol."""
        is_certified = np.ones(len(alphas), dtype=bool)
        for number in range(len(self.spaces)):
            is_certified &= self._certified_alphas(number, alphas)
        return is_certified

    def refine(self, alphas: Array) -> bool:
        """Extend the subspaces until these alphas are certified; return True if any was extended.

        Stops early if memory is exhausted or the pass limit is reached.
        """
        initial_passes = self.passes
        unfinished = list(range(len(self.spaces)))
        while True:
            unfinished = [number for number in unfinished if not self._is_finished(number, alphas)]
            if not unfinished or self.is_memory_exhausted or self.gave_up:
                return self.passes > initial_passes
            dimensions_at_check = {number: self.spaces[number].dimension for number in unfinished}
            growing = unfinished
            while growing and not self.is_memory_exhausted and not self.gave_up:
                self._grow_spaces(growing, alphas)
                growing = [
                    n
                    for n in growing
                    if not self.spaces[n].exhausted
                    and self.spaces[n].dimension < CHECK_GROWTH_FACTOR * dimensions_at_check[n]
                ]

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield (split index, alpha index, predictions for the test rows of that split)."""
        for number in range(len(self.spaces)):
            for alpha_index, P in enumerate(self._split_predictions(number, alphas)):
                yield number, alpha_index, self.cv_problem.to_data_units(P)

    def _split_predictions(self, number: int, alphas: Array) -> Iterator[Array]:
        t = self.cv_problem.n_targets
        rows = self.cv_problem.design.subset(self.test_rows(number))
        step = max(1, PREDICTION_BATCH_ELEMENTS // max(1, t * sum(rows.shape)))
        for start in range(0, len(alphas), step):
            batch = alphas[start : start + step]
            W, intercepts = self._coef_and_intercepts(number, batch)
            yield from np.split(rows.matmat(W) + intercepts, len(batch), axis=1)

    def _coef_and_intercepts(self, number: int, alphas: Array) -> tuple[Array, Array]:
        """Coefficients of a split, (p, n_alphas * t), and their intercepts, (n_alphas * t,)."""
        space, t = self.spaces[number], self.cv_problem.n_targets
        Y = space.solution_coordinates(alphas)[:, :, :t]
        W = space.basis @ Y.reshape(len(Y), len(alphas) * t)
        return W, np.tile(self.y_shifts[number], len(alphas)) - self.x_shifts[number] @ W

    @property
    def has_additive_scores(self) -> bool:
        """True if X is out of core, unless a split tests a row more than once."""
        return self.cv_problem.is_out_of_core and not self.splits.has_repeated_test_rows

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """Score sums (n_splits, n_alphas, s, 3); one pass for all splits."""
        return self.cv_problem.accumulate_fold_scores(
            self.splits, self._coef_and_intercepts, alphas, sample_loss
        )

    def _is_finished(self, number: int, alphas: Array) -> bool:
        return self.spaces[number].exhausted or bool(self._certified_alphas(number, alphas).all())

    def _certified_alphas(self, number: int, alphas: Array) -> Array:
        """Boolean mask (n_alphas,): True where all right-hand sides are within tol."""
        with single_threaded_blas():
            bounds = self.spaces[number].bounds(alphas)
        return np.asarray((bounds <= self.tols[number]).all(axis=1))

    def _grow_spaces(self, numbers: list[int], alphas: Array) -> None:
        """Extend these subspaces by one block of directions each; one pass."""
        with single_threaded_blas():
            blocks = [
                self.spaces[n].propose_directions(alphas, self.tols[n], DIRECTIONS_PER_PASS)
                for n in numbers
            ]
        self._extend_spaces(blocks, numbers)

    def _extend_spaces(self, blocks: list[Array], numbers: list[int] | None = None) -> None:
        """Add each block of directions to its subspace, by default one block for each; one pass."""
        numbers = list(range(len(blocks))) if numbers is None else numbers
        owner = np.repeat(numbers, [block.shape[1] for block in blocks])
        V = np.hstack(blocks)
        self.passes += 1
        products = np.zeros_like(V)
        if V.shape[1]:
            shifts = np.concatenate(
                [self.x_shifts[n] @ block for n, block in zip(numbers, blocks, strict=True)]
            )
            # Without a mask, X'X V needs no callback from inside the sweep over X.
            mask = None if self._is_unmasked else FoldMask(
                membership=self.training_membership, weights=self.cv_problem.weights,
                column_splits=owner, column_shifts=shifts,
            )  # fmt: skip
            products = self.cv_problem.design.gram_matmat(V, mask)
        with single_threaded_blas():
            for number, block in zip(numbers, blocks, strict=True):
                self.spaces[number].extend(block, products[:, owner == number])


class StochasticGCV(IteratedFolds):
    """Generalised cross-validation: leave-one-out with every leverage replaced by their mean.

    The held-out residual of sample i is r_i / (1 - edf / n). The effective degrees of freedom edf
    are the trace of the hat matrix H, estimated by the mean of z'H z over random sign vectors z
    (Hutchinson 1990).
    """

    def __init__(
        self, samples: CVProblem, tol: float, n_probes: int, rng: np.random.Generator
    ) -> None:
        super().__init__(samples, Splits.all_training(samples.shape[0]), tol, n_probes, rng)

    def test_rows(self, number: int) -> RowIndices:
        """Indices of all rows."""
        return np.arange(self.cv_problem.shape[0])

    def test_index(self, number: int) -> slice:
        """All rows, as a slice."""
        return slice(None)

    def effective_dof(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom without the intercept, and their standard errors.

        Both have shape (n_alphas,).
        """
        space, t = self.spaces[0], self.cv_problem.n_targets
        Y = space.solution_coordinates(alphas)[:, :, t:]
        projected_probes = space.basis.T @ space.rhs[:, t:]
        probe_dof = np.einsum("mat,mt->at", Y, projected_probes)
        return probe_dof.mean(axis=1), probe_dof.std(axis=1, ddof=1) / np.sqrt(probe_dof.shape[1])

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield (0, alpha index, predictions for all samples as if each had been left out)."""
        samples, residual_divisors = self.cv_problem, self._residual_divisors(alphas)
        for alpha_index, P in enumerate(self._split_predictions(0, alphas)):
            yield (
                0,
                alpha_index,
                samples.to_data_units(samples.Y - (samples.Y - P) / residual_divisors[alpha_index]),
            )

    def _residual_divisors(self, alphas: Array) -> Array:
        """Divisors 1 - edf / n of the residuals, (n_alphas,), at least 1 / n.

        The edf include the intercept, and n counts the samples of nonzero weight.
        """
        n = self.cv_problem.standardization.n_counted
        effective_dof, _ = self.effective_dof(alphas)
        return np.maximum(1 - (effective_dof + self.cv_problem.fit_intercept) / n, 1 / n)

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """Score sums (1, n_alphas, s, 3); one pass for each batch of alphas."""
        samples = self.cv_problem

        def make_accumulator(batch: Array) -> ScoreAccumulator:
            W, intercepts = self._coef_and_intercepts(0, batch)
            return GCVScores(
                sample_loss=sample_loss,
                y_mean=samples.standardization.y_mean,
                y_scale=samples.standardization.y_scale,
                n_alphas=len(batch),
                Y=samples.Y,
                W=W,
                intercepts=intercepts,
                residual_divisors=self._residual_divisors(batch),
            )

        return samples.accumulate_scores(alphas, make_accumulator)
