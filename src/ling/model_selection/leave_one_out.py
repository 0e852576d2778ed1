"""Exact leave-one-out cross-validation for every alpha, from one factorisation of all rows.

If r_i is the residual of sample i in the fit to all samples, its residual in the fit to the others
is r_i / (1 - h_i). The leverage h_i = w_i (x_i'(X'X + alpha I)^-1 x_i + 1 / sum w) is the
derivative of the prediction for sample i with respect to y_i. The term 1 / sum w belongs to the
intercept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.linalg.cholesky import CholeskyForm, symmetric_form
from ling.linalg.tridiagonal import HouseholderTridiagonal, tridiagonalize
from ling.model_selection.cv_problem import CVProblem, HeldOutPredictor
from ling.model_selection.direct_folds import MAX_ROUNDING_ERROR, FoldFit, unweighted_kernel
from ling.model_selection.score_accumulators import LeaveOneOutScores, SampleLoss, ScoreAccumulator
from ling.model_selection.splits import RowIndices
from ling.solvers.direct import solve_with_form
from ling.solvers.engine import Candidate
from ling.solvers.problem import Problem


class ExactLeaveOneOut(HeldOutPredictor):
    """Predictions for each sample by the fit to all others.

    They come from X'X if there are fewer coefficients than samples, otherwise from X X'. With as
    many coefficients as samples, all leverages tend to 1 as alpha tends to 0, and 1 - h cancels.
    """

    def __init__(self, samples: CVProblem) -> None:
        self.cv_problem = samples
        self.n_splits = 1
        n, p = samples.shape
        self._formulation = (
            _PrimalLeaveOneOut(samples)
            if p + samples.fit_intercept < n
            else _DualLeaveOneOut(samples)
        )

    def test_rows(self, number: int) -> RowIndices:
        """Indices of all rows, which the only split tests."""
        return np.arange(self.cv_problem.shape[0])

    def test_index(self, number: int) -> slice:
        """All rows as a slice."""
        return slice(None)

    @property
    def has_additive_scores(self) -> bool:
        """True if X is out of core and the fits come from X'X."""
        return self.cv_problem.is_out_of_core and self._formulation.has_additive_scores

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """Score sums over all samples, (1, n_alphas, s, 3); one pass for each batch of alphas."""
        return self._formulation.score_sums(alphas, sample_loss)

    def effective_dof(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom without the intercept, and their errors, which are 0."""
        dof = self._formulation.form(alphas).effective_dof(alphas)
        return dof - self._formulation.null_vector_dof(alphas), np.zeros(len(alphas))

    def certified(self, alphas: Array) -> NDArray[np.bool_]:
        """(n_alphas,): True where rounding leaves enough digits."""
        return np.asarray(
            self._formulation.form(alphas).relative_error(alphas) <= MAX_ROUNDING_ERROR
        )

    def final_fit(self, problem: Problem) -> Candidate | None:
        """The fit to all samples with the form of leave-one-out.

        None for alphas below its rounding errors, and if it is not that of the smaller Gram matrix.
        The form of X X' can be used although u u' was added to it, as y is orthogonal to u.
        """
        form, (n, p) = self._formulation.form(problem.alphas), problem.shape
        is_smaller_gram = self._formulation.is_primal == (p <= n)
        if not is_smaller_gram or not isinstance(form, HouseholderTridiagonal):
            return None
        if form.relative_error(problem.alphas).max() > MAX_ROUNDING_ERROR:
            return None
        return solve_with_form(problem, form)

    @property
    def gram_form(self) -> HouseholderTridiagonal | None:
        """The tridiagonal form of X'X, if it was computed."""
        return self._formulation.gram_form

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """0, index of alpha, and predictions for all samples, (n, t)."""
        for index, residuals in enumerate(self._formulation.residuals(alphas)):
            P = np.subtract(self.cv_problem.Y, residuals, out=residuals)
            yield 0, index, self.cv_problem.to_data_units(P)


class _PrimalLeaveOneOut:
    """Leave-one-out residuals from the fit to all rows and its leverages, both by X'X."""

    has_additive_scores = is_primal = True

    def __init__(self, samples: CVProblem) -> None:
        self.cv_problem = samples
        self.full_fit: FoldFit | None = None

    def form(self, alphas: Array) -> HouseholderTridiagonal | CholeskyForm:
        """Form of X'X (p, p). The first call chooses its kind, by the smallest of its alphas."""
        return self._full_fit(alphas).form

    def _full_fit(self, alphas: Array) -> FoldFit:
        """The fit to all rows, which are also the rows to predict; cached."""
        if self.full_fit is None:
            samples = self.cv_problem
            form = symmetric_form(samples.problem.gram(), float(alphas.min()))
            samples.problem.design.meter.add(4 / 3 * float(len(form)) ** 3)
            p, t = samples.shape[1], samples.n_targets
            self.full_fit = FoldFit(
                form, samples.problem.moments, lambda: samples.design, np.zeros(p), np.zeros(t)
            )
        return self.full_fit

    @property
    def gram_form(self) -> HouseholderTridiagonal | None:
        """The tridiagonal form of X'X, if it was computed."""
        form = None if self.full_fit is None else self.full_fit.form
        return form if isinstance(form, HouseholderTridiagonal) else None

    def null_vector_dof(self, alphas: Array) -> Array:
        """Zeros (n_alphas,), because nothing is added to X'X."""
        return np.zeros(len(alphas))

    def residuals(self, alphas: Array) -> Iterator[Array]:
        """Leave-one-out residuals (n, t) in the units of the problem, for each alpha in turn."""
        full_fit = self._full_fit(alphas)
        # Leverages take n numbers for each alpha, and as many for temporary arrays.
        for batch in self.cv_problem.alpha_batches(alphas, 2 * self.cv_problem.shape[0]):
            one_minus_leverages = self._leverages(full_fit, batch)
            np.subtract(1, one_minus_leverages, out=one_minus_leverages)
            for index, P in enumerate(full_fit.predictions(batch)):
                residuals = np.subtract(self.cv_problem.Y, P, out=P)
                residuals /= one_minus_leverages[:, index, None]
                yield residuals

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """Score sums (1, n_alphas, s, 3); see `ScoreAccumulator`. One pass per batch of alphas."""
        samples, full_fit = self.cv_problem, self._full_fit(alphas)

        def make_accumulator(batch: Array) -> ScoreAccumulator:
            return LeaveOneOutScores(
                sample_loss=sample_loss,
                y_mean=samples.standardization.y_mean,
                y_scale=samples.standardization.y_scale,
                n_alphas=len(batch),
                form=full_fit.form,
                Q=full_fit.form.Q,
                W=full_fit.rotated_coef(batch),
                alphas=batch,
                intercept_leverage=self._intercept_leverage,
                Y=samples.Y,
                weights=samples.weights,
            )

        return samples.accumulate_scores(alphas, make_accumulator)

    @property
    def _intercept_leverage(self) -> float:
        """Leverage of the intercept for a sample of weight 1: 1 / sum w, or 0 without one."""
        samples = self.cv_problem
        return 1 / float(samples.weights.sum()) if samples.fit_intercept else 0.0

    def _leverages(self, full_fit: FoldFit, alphas: Array) -> Array:
        """Leverages (n, n_alphas) of all samples."""
        samples, form = self.cv_problem, full_fit.form
        # Predictions for so many columns use rotated rows, which are cached.
        if samples.n_targets * len(alphas) > samples.shape[0]:
            leverages = form.quadratic_forms(full_fit.rotated_test_rows, alphas)
        else:
            Q = form.Q
            leverages = samples.design.map_rows(lambda rows: form.quadratic_forms(rows @ Q, alphas))
        if samples.fit_intercept:
            leverages += self._intercept_leverage
        leverages *= samples.weights[:, None]
        return leverages


class _DualLeaveOneOut:
    """Leave-one-out residuals from K = X X' of the weighted rows, (n, n).

    With c = (K + alpha I)^-1 y, the residual of sample i is c_i / ((K + alpha I)^-1)_ii, up to the
    square root of its weight. With an intercept, rows are centred, and u = sqrt(w) / ||sqrt(w)|| is
    a null vector of K. The inverse would have 1 / alpha in this direction, and the other digits
    would be lost for small alphas. So K + null_eigenvalue u u' is factorised. As y is orthogonal to
    u, c does not change.
    """

    has_additive_scores = is_primal = False
    gram_form = None

    def __init__(self, samples: CVProblem) -> None:
        self.cv_problem = samples
        sqrt_weights = samples.sqrt_weights
        K = unweighted_kernel(samples) * sqrt_weights * sqrt_weights[:, None]
        self.null_eigenvalue, self.u = 0.0, sqrt_weights / np.linalg.norm(sqrt_weights)
        if samples.fit_intercept:
            self.null_eigenvalue = float(np.trace(K)) / len(K) or 1.0
            K += np.outer(self.null_eigenvalue * self.u, self.u)
        self.tridiagonal = tridiagonalize(K)
        samples.problem.design.meter.add(4 / 3 * float(len(K)) ** 3)
        self.rotated_targets = self.tridiagonal.rotate(samples.problem.targets)

    def form(self, alphas: Array) -> HouseholderTridiagonal:
        """Tridiagonal form of K + null_eigenvalue u u' (n, n)."""
        return self.tridiagonal

    def null_vector_dof(self, alphas: Array) -> Array:
        """Degrees of freedom (n_alphas,) that the added direction u has in `form`."""
        return np.asarray(self.null_eigenvalue / (self.null_eigenvalue + alphas))

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """Not available: `has_additive_scores` is False."""
        raise NotImplementedError

    def residuals(self, alphas: Array) -> Iterator[Array]:
        """Leave-one-out residuals (n, t) in the units of the problem, for each alpha in turn."""
        form, sqrt_weights = self.tridiagonal, self.cv_problem.sqrt_weights[:, None]
        inverse_diagonals = form.quadratic_forms(form.Q, alphas)
        if self.cv_problem.fit_intercept:
            inverse_diagonals -= self.u[:, None] ** 2 / (self.null_eigenvalue + alphas)
        for index, alpha in enumerate(alphas):
            c = form.Q @ form.solve(self.rotated_targets, float(alpha))
            residuals = np.divide(
                c, sqrt_weights * inverse_diagonals[:, index, None],
                out=np.zeros_like(c), where=sqrt_weights > 0,
            )  # fmt: skip
            self._set_zero_weight_residuals(residuals, c)
            yield residuals

    def _set_zero_weight_residuals(self, residuals: Array, c: Array) -> None:
        """Set the rows of `residuals` (n, t) for samples of weight 0, in place.

        The fit to all samples, with the dual coefficients c (n, t), leaves these samples out.
        """
        samples = self.cv_problem
        has_zero_weight = samples.weights == 0
        if has_zero_weight.any():
            K = unweighted_kernel(samples)[has_zero_weight]
            P = K @ (samples.sqrt_weights[:, None] * c)
            residuals[has_zero_weight] = samples.Y[has_zero_weight] - P
