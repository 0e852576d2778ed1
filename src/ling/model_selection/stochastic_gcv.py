"""Generalised cross-validation: all rows are the only training set of an iteration.

Random probes among the right-hand sides estimate the effective degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ling._typing import Array
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.fold_errors import TestRows
from ling.model_selection.fold_scales import test_rows_of_all
from ling.model_selection.held_out import HeldOut
from ling.model_selection.iterated_folds import IteratedFolds
from ling.model_selection.score_accumulators import GCVScores, SampleLoss, ScoreAccumulator
from ling.model_selection.splits import RowIndices, Splits


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
        """Effective degrees of freedom without the intercept, and their errors, (n_alphas,).

        The errors are standard errors, plus what the subspace may miss: for a probe, that is the
        squared energy norm of the error of its solution.
        """
        probe_dof, t = self._probe_dof(alphas), self.cv_problem.n_targets
        std_errors = probe_dof.std(axis=1, ddof=1) / np.sqrt(probe_dof.shape[1])
        missed = (self._energy_bounds(0, alphas)[:, t:] ** 2).mean(axis=1)
        return probe_dof.mean(axis=1), std_errors + missed

    def _probe_dof(self, alphas: Array) -> Array:
        """z'H z of every random vector z, (n_alphas, n_probes)."""
        space, t = self.spaces[0], self.cv_problem.n_targets
        Y = space.solution_coordinates(alphas)[:, :, t:]
        return np.asarray(np.einsum("mat,mt->at", Y, space.basis.T @ space.rhs[:, t:]))

    def _update_leverages(self) -> None:
        """Not needed: the test rows are the training rows."""

    def _test_rows_of(self, number: int) -> TestRows:
        """All rows, which are also the training rows."""
        return test_rows_of_all(self.cv_problem)

    def _leverages(self, number: int, alphas: Array) -> Array:
        """Ones: errors of predictions for training rows are at most the energy norm."""
        return np.ones(len(alphas))

    def prediction_batches(self, alphas: Array) -> Iterator[tuple[int, slice, HeldOut]]:
        """Yield (0, batch, predictions for all samples as if each had been left out)."""
        samples, divisors = self.cv_problem, self._residual_divisors(alphas)
        bounds, rows = self._error_bounds(0, alphas), self.test_rows(0)
        Y = samples.Y[:, None]
        for batch, P in self._split_predictions(0, alphas):
            # y - (y - P) / divisor, without further arrays of the size of P.
            np.subtract(Y, P, out=P)
            P /= divisors[batch, None]
            np.subtract(Y, P, out=P)
            yield 0, batch, samples.held_out(P, bounds[batch], rows)

    def _error_bounds(self, number: int, alphas: Array) -> Array:
        """Bounds on the errors of held-out predictions, given the degrees of freedom."""
        return super()._error_bounds(number, alphas) / self._residual_divisors(alphas)[:, None]

    def _residual_divisors(self, alphas: Array) -> Array:
        """Divisors 1 - edf / n of the residuals, (n_alphas,), at least 1 / n.

        The edf include the intercept, and n counts the samples of nonzero weight.
        """
        n = self.cv_problem.standardization.n_counted
        effective_dof = self._probe_dof(alphas).mean(axis=1)
        divisors = 1 - (effective_dof + self.cv_problem.fit_intercept) / n
        return np.asarray(np.maximum(divisors, 1 / n))

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> tuple[tuple[Array, ...], Array]:
        """Score sums of all samples, and bounds; one pass for each batch of alphas."""
        samples = self.cv_problem

        def make_accumulator(batch: slice) -> ScoreAccumulator:
            W, intercepts = self._coef_and_intercepts(0, alphas[batch])
            return GCVScores(
                sample_loss=sample_loss,
                y_mean=samples.standardization.y_mean,
                y_scale=samples.standardization.y_scale,
                n_alphas=len(alphas[batch]),
                Y=samples.Y,
                W=W,
                intercepts=intercepts,
                residual_divisors=self._residual_divisors(alphas[batch]),
            )

        sums = samples.accumulate_scores(alphas, make_accumulator)
        bounds = self._error_bounds(0, alphas)[None]
        return sums, samples.bounds_in_data_units(bounds, slice(None))
