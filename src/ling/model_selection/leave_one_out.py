"""Leave-one-out: exact for every alpha, from one tridiagonal form.

Leaving sample i out of a ridge fit moves its residual from r_i to r_i / (1 - h_i), where h_i is the
weight of y_i in its own prediction: h_i = w_i (x_i'(X'X + alpha I)^-1 x_i + 1 / sum w).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ling._typing import Array
from ling.linalg.cholesky import CholeskyForm, symmetric_form
from ling.linalg.tridiagonal import HouseholderTridiagonal, tridiagonalize
from ling.model_selection.cv_problem import CVProblem, HeldOutPredictor
from ling.model_selection.direct_folds import MAX_ROUNDING_ERROR, FoldFit, unweighted_kernel
from ling.model_selection.score_accumulators import LeaveOneOutScores, SampleLoss, ScoreAccumulator
from ling.model_selection.splits import RowIndices
from ling.solvers.problem import Problem


class ExactLeaveOneOut(HeldOutPredictor):
    """Predictions for each sample by the fit to all others, from X'X or from X X'."""

    def __init__(self, samples: CVProblem) -> None:
        self.cv_problem = samples
        self.n_splits = 1
        n, p = samples.shape
        # With as many coefficients as samples all leverages go to 1 with alpha, and 1 - h cancels.
        self._formulation = (
            _PrimalLeaveOneOut(samples)
            if p + samples.fit_intercept < n
            else _DualLeaveOneOut(samples)
        )

    def test_rows(self, number: int) -> RowIndices:
        """All rows."""
        return np.arange(self.cv_problem.shape[0])

    def test_index(self, number: int) -> slice:
        """The same."""
        return slice(None)

    @property
    def has_additive_scores(self) -> bool:
        """Where rows lie apart, and X'X is what there is of them."""
        return self.cv_problem.is_out_of_core and self._formulation.has_additive_scores

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """(1, n_alphas, s, 3), one pass."""
        return self._formulation.score_sums(alphas, sample_loss)

    def effective_dof(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom, without the intercept's; their errors, which are 0."""
        found = self._formulation.form(alphas).effective_dof(alphas)
        return found - self._formulation.null_vector_dof(alphas), np.zeros(len(alphas))

    def certified(self, alphas: Array) -> Array:
        """For which alphas rounding leaves enough digits."""
        return np.asarray(
            self._formulation.form(alphas).relative_error(alphas) <= MAX_ROUNDING_ERROR
        )

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """For each alpha in turn, those of all samples."""
        for at, residuals in enumerate(self._formulation.residuals(alphas)):
            P = np.subtract(self.cv_problem.Y, residuals, out=residuals)
            yield 0, at, self.cv_problem.to_data_units(P)


def discard_inexact_form(problem: Problem) -> None:
    """Drop the form that leave-one-out left for the fit, if rounding may have made it singular."""
    form = problem.gram_cache.form
    if form is not None and form.relative_error(problem.alphas).max() > MAX_ROUNDING_ERROR:
        problem.gram_cache.form = None


class _PrimalLeaveOneOut:
    has_additive_scores = True

    def __init__(self, samples: CVProblem) -> None:
        self.cv_problem = samples
        self.full_fit: FoldFit | None = None

    def form(self, alphas: Array) -> HouseholderTridiagonal | CholeskyForm:
        """Made for the first alphas; more of them hardly need another."""
        return self._full_fit(alphas).form

    def _full_fit(self, alphas: Array) -> FoldFit:
        if self.full_fit is None:
            samples = self.cv_problem
            form = symmetric_form(samples.problem.gram(), float(alphas.min()))
            samples.problem.design.meter.add(4 / 3 * float(len(form)) ** 3)
            if isinstance(form, HouseholderTridiagonal):
                samples.problem.gram_cache.form = form
            p, t = samples.shape[1], samples.n_targets
            self.full_fit = FoldFit(
                form, samples.problem.moments, lambda: samples.design, np.zeros(p), np.zeros(t)
            )
        return self.full_fit

    def null_vector_dof(self, alphas: Array) -> Array:
        return np.zeros(len(alphas))

    def residuals(self, alphas: Array) -> Iterator[Array]:
        full_fit = self._full_fit(alphas)
        # A number for each sample and alpha, twice over.
        for some in self.cv_problem.alpha_batches(alphas, 2 * self.cv_problem.shape[0]):
            kept = self._leverages(full_fit, some)
            np.subtract(1, kept, out=kept)
            for at, P in enumerate(full_fit.predictions(some)):
                residuals = np.subtract(self.cv_problem.Y, P, out=P)
                residuals /= kept[:, at, None]
                yield residuals

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        samples, full_fit = self.cv_problem, self._full_fit(alphas)
        share = 1 / float(samples.weights.sum()) if samples.fit_intercept else 0.0

        def tally(some: Array) -> ScoreAccumulator:
            return LeaveOneOutScores(
                sample_loss=sample_loss,
                y_mean=samples.standardization.y_mean,
                y_scale=samples.standardization.y_scale,
                n_alphas=len(some),
                form=full_fit.form,
                Q=full_fit.form.Q,
                W=full_fit.rotated_coef(some),
                alphas=some,
                intercept_leverage=share,
                Y=samples.Y,
                weights=samples.weights,
            )

        return samples.accumulate_scores(alphas, tally)

    def _leverages(self, full_fit: FoldFit, alphas: Array) -> Array:
        samples, form = self.cv_problem, full_fit.form
        # Where predictions need the same rows turned, they are.
        if samples.n_targets * len(alphas) > samples.shape[0]:
            found = form.quadratic_forms(full_fit.rotated_test_rows, alphas)
        else:
            Q = form.Q
            found = samples.design.map_rows(lambda rows: form.quadratic_forms(rows @ Q, alphas))
        if samples.fit_intercept:
            found += 1 / float(samples.weights.sum())
        found *= samples.weights[:, None]
        return found


class _DualLeaveOneOut:
    """With c = (K + alpha I)^-1 y, K = X X': the residual is c_i / (K + alpha I)^-1_ii.

    With an intercept, K has the direction u of the roots of the weights as a null vector, where
    1 / alpha would drown everything else; K + size u u' has not, and c is the same.
    """

    has_additive_scores = False

    def __init__(self, samples: CVProblem) -> None:
        self.cv_problem = samples
        roots = samples.sqrt_weights
        K = unweighted_kernel(samples) * roots * roots[:, None]
        self.null_eigenvalue, self.u = 0.0, roots / np.linalg.norm(roots)
        if samples.fit_intercept:
            self.null_eigenvalue = float(np.trace(K)) / len(K) or 1.0
            K += np.outer(self.null_eigenvalue * self.u, self.u)
        self.tridiagonal = tridiagonalize(K)
        samples.problem.design.meter.add(4 / 3 * float(len(K)) ** 3)
        if samples.shape[1] > samples.shape[0]:  # or a fit to all samples is made from X'X
            # Targets have no part along u, so that this form does for it as well.
            samples.problem.gram_cache.form = self.tridiagonal
        self.rotated_targets = self.tridiagonal.rotate(samples.problem.targets)

    def form(self, alphas: Array) -> HouseholderTridiagonal:
        return self.tridiagonal

    def null_vector_dof(self, alphas: Array) -> Array:
        """What the direction u, which is none of X's, adds to the degrees of freedom."""
        return np.asarray(self.null_eigenvalue / (self.null_eigenvalue + alphas))

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        raise NotImplementedError

    def residuals(self, alphas: Array) -> Iterator[Array]:
        form = self.tridiagonal
        diagonals = form.quadratic_forms(form.Q, alphas)
        if self.cv_problem.fit_intercept:
            diagonals -= self.u[:, None] ** 2 / (self.null_eigenvalue + alphas)
        for at, alpha in enumerate(alphas):
            c = form.Q @ form.solve(self.rotated_targets, float(alpha))
            found = np.divide(
                c, self.cv_problem.sqrt_weights[:, None] * diagonals[:, at, None],
                out=np.zeros_like(c), where=self.cv_problem.sqrt_weights[:, None] > 0,
            )  # fmt: skip
            yield self._fill_zero_weight_residuals(found, c)

    def _fill_zero_weight_residuals(self, residuals: Array, c: Array) -> Array:
        """Samples of weight 0 are left out anyway."""
        without = self.cv_problem.weights == 0
        if without.any():
            K = unweighted_kernel(self.cv_problem)[without]
            residuals[without] = self.cv_problem.Y[without] - K @ (
                self.cv_problem.sqrt_weights[:, None] * c
            )
        return residuals
