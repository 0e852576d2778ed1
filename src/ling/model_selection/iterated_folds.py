"""Iterative cross-validation: one Davidson subspace for every training set, no factorisations.

Training sets differ only by a mask of rows, so one pass over X extends all subspaces. Each subspace
contains the solutions for all alphas.
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
from ling.model_selection.cv_problem import CVProblem, FoldCoefs, HeldOutPredictor
from ling.model_selection.davidson import (
    N_RESIDUAL_COPIES,
    RESIDUAL_BATCH_ELEMENTS,
    DavidsonSubspace,
)
from ling.model_selection.fold_errors import TestRows
from ling.model_selection.fold_scales import test_rows_of_split
from ling.model_selection.held_out import HeldOut
from ling.model_selection.leverage_bounds import LeverageBound, leverage_bounds
from ling.model_selection.right_hand_sides import (
    TrainingRightHandSides,
    TrainingSystem,
    training_systems,
)
from ling.model_selection.score_accumulators import SampleLoss
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.cv_cost import subspace_bytes
from ling.solvers.engine import as_generator
from ling.solvers.row_sampling import leading_directions

# Number of directions by which every subspace grows in one pass.
DIRECTIONS_PER_PASS = 4
# Maximum number of initial directions that are estimated from a sample of rows.
MAX_INITIAL_DIRECTIONS = 32
# Alpha, as a fraction of trace(X'X), with which initial directions are chosen. Directions that are
# weaker than this are not worth starting with.
MIN_DIRECTION_OVER_TRACE = 1e-6
# The error bounds of a subspace are computed again when its dimension has grown by this factor.
CHECK_GROWTH_FACTOR = 1.15
# Relative error of held-out predictions to which they are certified, as a multiple of that of
# training predictions. Its bound is much looser: it allows for test rows in the worst direction.
HELD_OUT_TOL_FACTOR = 10.0
# If scores need more accuracy than that, tol is divided by this factor, so many times at most.
TIGHTENING_FACTOR, MAX_TIGHTENINGS = 4.0, 4
# Leverages of test rows are bounded anew, by a pass, when the subspaces have grown by this factor.
LEVERAGE_GROWTH_FACTOR = 1.5
# Fractions of the memory budget: all subspaces together, and residuals of several alphas at once.
MAX_BUDGET_FRACTION, RESIDUAL_BUDGET_FRACTION = 0.7, 0.1
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
        self.n_tightenings = 0
        self.leverages: list[LeverageBound] = []
        self.leverage_dimension = 1
        self.splits, self.n_splits = splits, len(splits)
        self.tol = tol
        self.training_membership = splits.training_membership
        self._init_spaces(n_probes, as_generator(rng))

    def test_rows(self, number: int) -> RowIndices:
        """Indices of the test rows of split `number`."""
        return self.splits.test_rows(number)

    def _init_spaces(self, n_probes: int, rng: np.random.Generator) -> None:
        """Set up the systems of all training sets and create their subspaces.

        One pass for the right-hand sides. If rows can be sampled, the subspaces start with leading
        directions of a sample, which takes a second pass.
        """
        samples, n = self.cv_problem, self.cv_problem.shape[0]
        columns = TrainingRightHandSides.from_problem(
            samples, self.training_membership, self.n_splits, n_probes, rng
        )
        products = self._right_hand_sides(columns)
        self.systems = training_systems(samples, self.splits, columns, products)
        self.spaces = [self._make_subspace(system) for system in self.systems]
        probe_tols = np.full(n_probes, PROBE_RTOL * np.sqrt(n))
        self.tols = [np.append(self.tol * system.spread, probe_tols) for system in self.systems]
        self.tests = [self._test_rows_of(number) for number in range(self.n_splits)]
        if samples.can_sample_rows:
            # The alphas are not known yet: use all directions that exceed rounding and noise.
            min_alpha = MIN_DIRECTION_OVER_TRACE * gram_trace(samples.problem)
            problem = replace(samples.problem, alphas=np.full(samples.n_targets, min_alpha))
            directions = leading_directions(problem, rng, MAX_INITIAL_DIRECTIONS)
            if directions.shape[1]:
                self._extend_spaces([directions] * len(self.spaces))

    def _make_subspace(self, system: TrainingSystem) -> DavidsonSubspace:
        """An empty subspace for the solutions of a training set."""
        samples, problem = self.cv_problem, self.cv_problem.problem
        raw_norm = float(np.linalg.norm(problem.raw_column_norms))
        residual_elements = samples.memory.count(
            8.0 * N_RESIDUAL_COPIES, RESIDUAL_BATCH_ELEMENTS, RESIDUAL_BUDGET_FRACTION
        )
        return DavidsonSubspace(
            system.rhs,
            system.weight_fraction * problem.column_norms**2,
            product_noise(samples.shape) * raw_norm**2,
            residual_elements,
        )

    def _test_rows_of(self, number: int) -> TestRows:
        """What bounds need to know about the test rows of a split."""
        system = self.systems[number]
        return test_rows_of_split(
            self.cv_problem, self.splits, number, system.x_shift, system.y_shift
        )

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
        dimensions = [space.dimension + DIRECTIONS_PER_PASS for space in self.spaces]
        n_bytes = subspace_bytes(self.cv_problem.shape[1], dimensions)
        return not self.cv_problem.memory.allows(n_bytes, MAX_BUDGET_FRACTION)

    @property
    def can_refine(self) -> bool:
        """True if a subspace can still grow."""
        has_room = not self.is_memory_exhausted and not self.gave_up
        return has_room and not all(space.exhausted for space in self.spaces)

    def refine(self, alphas: Array) -> bool:
        """Extend the subspaces until these alphas are within tol; return True if any was extended.

        If they already are, a tighter tol is used from now on. Stops early if memory is exhausted
        or the pass limit is reached.
        """
        initial_passes = self.passes
        self._extend_to_bounds(alphas)
        while self.passes == initial_passes and self.can_refine:
            if self.n_tightenings == MAX_TIGHTENINGS:
                return False
            self.n_tightenings += 1
            self._extend_to_bounds(alphas)
        return self.passes > initial_passes

    def _extend_to_bounds(self, alphas: Array) -> None:
        """Extend the subspaces until training and held-out predictions are within their tols.

        Bounds on leverages are renewed, by a pass, if they are missing or the subspaces have grown.
        """
        self._extend_to_tol(alphas)
        dimension = sum(space.dimension for space in self.spaces)
        if dimension >= LEVERAGE_GROWTH_FACTOR * self.leverage_dimension:
            self._update_leverages()
            self.leverage_dimension = max(1, dimension)
            self._extend_to_tol(alphas)

    def _update_leverages(self) -> None:
        """Bound the leverages of the test rows with the current subspaces; one pass."""
        self.passes += 1
        minorants = [space.minorant() for space in self.spaces]
        x_shifts = [system.x_shift for system in self.systems]
        self.leverages = leverage_bounds(self.cv_problem, self.splits, minorants, x_shifts)

    def _extend_to_tol(self, alphas: Array) -> None:
        """Extend the subspaces until these alphas are within tol, if possible."""
        unfinished = list(range(len(self.spaces)))
        while True:
            unfinished = [number for number in unfinished if not self._is_finished(number, alphas)]
            if not unfinished or self.is_memory_exhausted or self.gave_up:
                return
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

    def prediction_batches(self, alphas: Array) -> Iterator[tuple[int, slice, HeldOut]]:
        """Yield (split index, batch, predictions for the test rows of that split)."""
        for number in range(len(self.spaces)):
            rows, bounds = self.test_rows(number), self._error_bounds(number, alphas)
            for batch, P in self._split_predictions(number, alphas):
                yield number, batch, self.cv_problem.held_out(P, bounds[batch], rows)

    def _split_predictions(self, number: int, alphas: Array) -> Iterator[tuple[slice, Array]]:
        """Batches of alphas, and predictions of centred y (n_test, n_batch, t)."""
        samples, rows = self.cv_problem, self.test_index(number)
        n_test = samples.shape[0] if isinstance(rows, slice) else len(rows)
        numbers = float(samples.n_targets * (n_test + samples.shape[1]))
        for batch in samples.prediction_batches(len(alphas), numbers):
            W, intercepts = self._coef_and_intercepts(number, alphas[batch])
            P = samples.predict_rows(rows, W)
            P += intercepts
            yield batch, P.reshape(n_test, -1, samples.n_targets)

    def _coef_and_intercepts(self, number: int, alphas: Array) -> tuple[Array, Array]:
        """Coefficients of a split, (p, n_alphas * t), and their intercepts, (n_alphas * t,)."""
        space, t = self.spaces[number], self.cv_problem.n_targets
        system = self.systems[number]
        Y = space.solution_coordinates(alphas)[:, :, :t]
        W = space.basis @ Y.reshape(len(Y), len(alphas) * t)
        return W, np.tile(system.y_shift, len(alphas)) - system.x_shift @ W

    def _error_bounds(self, number: int, alphas: Array) -> Array:
        """Bounds (n_alphas, t) on the norms of errors of predictions for the test rows."""
        space, t = self.spaces[number], self.cv_problem.n_targets
        energy = self._energy_bounds(number, alphas)[:, :t]
        coef_norms = np.linalg.norm(space.solution_coordinates(alphas)[:, :, :t], axis=0)
        leverages = self._leverages(number, alphas)
        return self.tests[number].norm_bounds(energy, alphas, coef_norms, leverages)

    @property
    def has_additive_scores(self) -> bool:
        """True if X is out of core or memory is short, and no split repeats a test row."""
        return self.cv_problem.sums_scores and not self.splits.has_repeated_test_rows

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> tuple[tuple[Array, ...], Array]:
        """Score sums of all splits, and bounds; one pass for all splits."""

        def fold_coefs(number: int, batch: slice) -> FoldCoefs:
            W, intercepts = self._coef_and_intercepts(number, alphas[batch])
            return FoldCoefs(W, intercepts, self._error_bounds(number, alphas[batch]))

        return self.cv_problem.accumulate_fold_scores(self.splits, fold_coefs, alphas, sample_loss)

    def is_refined(self, alphas: Array) -> bool:
        """True if all subspaces have reached tol for these alphas, or cannot grow."""
        return all(self._is_finished(number, alphas) for number in range(len(self.spaces)))

    def _is_finished(self, number: int, alphas: Array) -> bool:
        if self.spaces[number].exhausted:
            return True
        bounds = self._energy_bounds(number, alphas)
        return bool((bounds <= self._tols(number, alphas)).all())

    def _energy_bounds(self, number: int, alphas: Array) -> Array:
        """Energy norms (n_alphas, t + n_probes) of the errors of a split's coefficients.

        They include the rounding errors of the right-hand sides, which are divided by sqrt(alpha).
        """
        with single_threaded_blas():
            energy = self.spaces[number].bounds(alphas)
        system, t = self.systems[number], self.cv_problem.n_targets
        energy[:, :t] += system.rhs_errors / np.sqrt(alphas)[:, None] + system.constant_errors
        return energy

    def _tols(self, number: int, alphas: Array) -> Array:
        """Energy norms (n_alphas, t + n_probes) of errors that are small enough.

        Training predictions are then within tol, and held-out ones within HELD_OUT_TOL_FACTOR tol,
        relative to the spread of y.
        """
        t = self.cv_problem.n_targets
        tols = np.broadcast_to(self.tols[number], (len(alphas), len(self.tols[number]))).copy()
        leverages = self._leverages(number, alphas)
        if leverages is not None and leverages.any():
            held_out_tols = HELD_OUT_TOL_FACTOR * self.tol * self.tests[number].spread
            limits = held_out_tols / np.sqrt(leverages)[:, None]
            tols[:, :t] = np.minimum(tols[:, :t], limits)
        return tols / TIGHTENING_FACTOR**self.n_tightenings

    def _leverages(self, number: int, alphas: Array) -> Array | None:
        """Bounds (n_alphas,) on the sum of leverages of the test rows, if they are known yet."""
        return self.leverages[number](alphas) if self.leverages else None

    def _grow_spaces(self, numbers: list[int], alphas: Array) -> None:
        """Extend these subspaces by one block of directions each; one pass."""
        with single_threaded_blas():
            blocks = [
                self.spaces[n].propose_directions(
                    alphas, self._tols(n, alphas), DIRECTIONS_PER_PASS
                )
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
                [self.systems[n].x_shift @ block for n, block in zip(numbers, blocks, strict=True)]
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
