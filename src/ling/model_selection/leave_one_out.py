"""Exact leave-one-out cross-validation for every alpha, from one factorisation of all rows.

If r_i is the residual of sample i in the fit to all samples, its residual in the fit to the others
is r_i / (1 - h_i). The leverage h_i = w_i (x_i'(X'X + alpha I)^-1 x_i + 1 / sum w) is the
derivative of the prediction for sample i with respect to y_i. The term 1 / sum w belongs to the
intercept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np

from ling._typing import Array
from ling.linalg.rounding import EPS, sum_noise
from ling.linalg.tridiagonal import HouseholderTridiagonal, tridiagonalize
from ling.model_selection.cv_problem import CVProblem, HeldOutPredictor
from ling.model_selection.fold_errors import LeaveOneOutErrors, form_errors, leave_one_out_errors
from ling.model_selection.fold_fit import Form, FormFit
from ling.model_selection.fold_scales import scales_of_kernel
from ling.model_selection.held_out import HeldOut
from ling.model_selection.make_fold_fit import (
    gram_fit_of_all,
    singular_fit_of_all,
    unweighted_kernel,
)
from ling.model_selection.score_accumulators import LeaveOneOutScores, SampleLoss, ScoreAccumulator
from ling.model_selection.splits import RowIndices
from ling.solvers.cost_model import is_svd_affordable, lacks_memory_for_svd
from ling.solvers.direct import (
    ILL_CONDITIONED_NOTE,
    solve_by_singular_values,
    solve_with_form,
)
from ling.solvers.engine import Candidate
from ling.solvers.problem import Problem

# Largest rounding error of the eigenvalues of a form, relative to alpha, with which the form also
# serves the fit to all samples. That fit has a bound of its own.
MAX_ROUNDING_ERROR = 1e-3


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
        """True if X is out of core or memory is short, and the fits come from X'X."""
        return self.cv_problem.sums_scores and self._formulation.has_additive_scores

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> tuple[tuple[Array, ...], Array]:
        """Score sums over all samples, and bounds; one pass for each batch of alphas."""
        return self._formulation.score_sums(alphas, sample_loss)

    def effective_dof(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom without the intercept, and their errors, which are 0."""
        dof = self._formulation.form(alphas).effective_dof(alphas)
        return dof - self._formulation.null_vector_dof(alphas), np.zeros(len(alphas))

    def final_fit(self, problem: Problem) -> Candidate | None:
        """The fit to all samples with the form of leave-one-out.

        None if it is not a tridiagonal form of the smaller Gram matrix. The form of X X' can be
        used although u u' was added to it, as y is orthogonal to u.
        """
        if self._formulation.uses_singular_values:
            memory = self.cv_problem.memory
            return solve_by_singular_values(problem, memory, ILL_CONDITIONED_NOTE)
        form, (n, p) = self._formulation.form(problem.alphas), problem.shape
        is_smaller_gram = self._formulation.is_primal == (p <= n)
        if not is_smaller_gram or not isinstance(form, HouseholderTridiagonal):
            return None
        if (form.eigenvalue_noise > MAX_ROUNDING_ERROR * problem.alphas).any():
            return None
        return solve_with_form(problem, form)

    def smallest_direction(self, alphas: Array) -> float | None:
        """The smallest eigenvalue of X'X or X X' above rounding, if the form is tridiagonal."""
        form = self._formulation.form(alphas)
        return form.smallest_significant() if isinstance(form, HouseholderTridiagonal) else None

    @property
    def can_refine(self) -> bool:
        """True if singular values of X are not used yet, would help, and are affordable."""
        if not self._formulation.is_primal or self._formulation.uses_singular_values:
            return False
        return is_svd_affordable(*self.cv_problem.shape, self.cv_problem.memory)

    @property
    def lacks_memory(self) -> bool:
        """True if nothing but memory prevents the use of singular values of X."""
        samples = self.cv_problem
        return self._formulation.is_primal and lacks_memory_for_svd(*samples.shape, samples.memory)

    def refine(self, alphas: Array) -> bool:
        """Use singular values of X from now on, if that is possible and pays; True if it is new."""
        if not self.can_refine:
            return False
        self._formulation = _PrimalLeaveOneOut(self.cv_problem, uses_singular_values=True)
        return True

    @property
    def gram_form(self) -> HouseholderTridiagonal | None:
        """The tridiagonal form of X'X, if it was computed."""
        return self._formulation.gram_form

    def prediction_batches(self, alphas: Array) -> Iterator[tuple[int, slice, HeldOut]]:
        """0, batch of alphas, and predictions for all samples."""
        samples, all_rows = self.cv_problem, slice(None)
        for batch, residuals, bounds in self._formulation.residuals(alphas):
            P = np.subtract(samples.Y[:, None], residuals, out=residuals)
            yield 0, batch, samples.held_out(P, bounds, all_rows)


class _PrimalLeaveOneOut:
    """Leave-one-out residuals from the fit to all rows and its leverages.

    Both come from X'X, or with `uses_singular_values` from the singular values of X.
    """

    has_additive_scores = is_primal = True

    def __init__(self, samples: CVProblem, uses_singular_values: bool = False) -> None:
        self.cv_problem = samples
        self.uses_singular_values = uses_singular_values
        self.full_fit: FormFit | None = None

    def form(self, alphas: Array) -> Form:
        """Form of X'X (p, p). The first call chooses its kind, by the smallest of its alphas."""
        return self._full_fit(alphas).form

    def _full_fit(self, alphas: Array) -> FormFit:
        """The fit to all rows, which are also the rows to predict; cached."""
        if self.full_fit is None and self.uses_singular_values:
            self.full_fit = singular_fit_of_all(self.cv_problem)
        elif self.full_fit is None:
            self.full_fit = gram_fit_of_all(self.cv_problem, float(alphas.min()))
            meter = self.cv_problem.problem.design.meter
            meter.add(4 / 3 * float(len(self.full_fit.form)) ** 3)
        return self.full_fit

    @property
    def gram_form(self) -> HouseholderTridiagonal | None:
        """The tridiagonal form of X'X, if it was computed."""
        form = None if self.full_fit is None else self.full_fit.form
        return form if isinstance(form, HouseholderTridiagonal) else None

    def null_vector_dof(self, alphas: Array) -> Array:
        """Zeros (n_alphas,), because nothing is added to X'X."""
        return np.zeros(len(alphas))

    def residuals(self, alphas: Array) -> Iterator[tuple[slice, Array, Array]]:
        """For batches of alphas: leave-one-out residuals (n, k, t) in units of the problem.

        They come with bounds (k, t) on the weighted norms of their errors.
        """
        full_fit, samples = self._full_fit(alphas), self.cv_problem
        n, p, t = *samples.shape, samples.n_targets
        rotate_rows = full_fit.rotates_rows(samples, n, len(alphas))
        # For each alpha: quadratic forms, divisors, residuals, coefficients, and copies of them.
        for batch in samples.alpha_batches(len(alphas), 3 * n + 2 * p * t + 3 * n * t):
            forms = self._quadratic_forms(full_fit, alphas[batch])
            divisors = forms + self._intercept_leverage
            divisors *= -samples.weights[:, None]
            divisors += 1
            W = full_fit.rotated_coef(alphas[batch])
            P = full_fit.predict(W, samples, slice(None), rotate_rows).reshape(n, -1, t)
            residuals = np.subtract(samples.Y[:, None], P, out=P)
            residuals /= divisors[:, :, None]
            errors = self._errors(full_fit, alphas, batch, W)
            row_bounds = partial(self._row_bounds, errors, residuals, forms, divisors)
            bounds = samples.bound_norms(row_bounds, (forms.shape[1], t))
            yield batch, residuals, bounds

    def _row_bounds(
        self, errors: LeaveOneOutErrors, residuals: Array, forms: Array, divisors: Array,
        rows: slice,
    ) -> Array:  # fmt: skip
        """Bounds (n_rows, n_alphas, t) on the errors of the residuals of some rows."""
        samples = self.cv_problem
        return errors.row_bounds(
            residuals[rows], samples.Y[rows, None], forms[rows], divisors[rows],
            samples.weights[rows],
        )  # fmt: skip

    def _errors(
        self, full_fit: FormFit, alphas: Array, batch: slice, W: Array
    ) -> LeaveOneOutErrors:
        """Errors of leave-one-out for a batch of `alphas`, whose coefficients are W."""
        W = W.reshape(len(W), len(alphas[batch]), -1)
        return leave_one_out_errors(
            full_fit.form, full_fit.errors(alphas).take(batch), W, alphas[batch], full_fit.scales,
            self.cv_problem.root_weight(slice(None)), self._intercept_leverage,
        )  # fmt: skip

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> tuple[tuple[Array, ...], Array]:
        """Score sums over all samples, and bounds; one pass for each batch of alphas."""
        samples, full_fit = self.cv_problem, self._full_fit(alphas)

        def make_accumulator(batch: slice) -> ScoreAccumulator:
            W = full_fit.rotated_coef(alphas[batch])
            return LeaveOneOutScores(
                sample_loss=sample_loss,
                y_mean=samples.standardization.y_mean,
                y_scale=samples.standardization.y_scale,
                n_alphas=len(alphas[batch]),
                form=full_fit.form,
                Q=full_fit.form.Q,
                W=W,
                alphas=alphas[batch],
                intercept_leverage=self._intercept_leverage,
                errors=self._errors(full_fit, alphas, batch, W),
                Y=samples.Y,
                weights=samples.weights,
            )

        sums = samples.accumulate_scores(alphas, make_accumulator)
        return sums, samples.bounds_in_data_units(np.sqrt(sums[-1]), slice(None))

    @property
    def _intercept_leverage(self) -> float:
        """Leverage of the intercept for a sample of weight 1: 1 / sum w, or 0 without one."""
        samples = self.cv_problem
        return 1 / float(samples.weights.sum()) if samples.fit_intercept else 0.0

    def _quadratic_forms(self, full_fit: FormFit, alphas: Array) -> Array:
        """x'(X'X + alpha I)^-1 x of all samples, (n, n_alphas)."""
        samples, form = self.cv_problem, full_fit.form
        # Predictions for so many columns use rotated rows, which are cached.
        if full_fit.rotates_rows(samples, samples.shape[0], len(alphas)):
            return form.quadratic_forms(full_fit.rotated_test_rows, alphas)
        Q = form.Q
        return samples.design.map_rows(lambda rows: form.quadratic_forms(rows @ Q, alphas))


class _DualLeaveOneOut:
    """Leave-one-out residuals from K = X X' of the weighted rows, (n, n).

    With c = (K + alpha I)^-1 y, the residual of sample i is c_i / ((K + alpha I)^-1)_ii, up to the
    square root of its weight. With an intercept, rows are centred, and u = sqrt(w) / ||sqrt(w)|| is
    a null vector of K. The inverse would have 1 / alpha in this direction, and the other digits
    would be lost for small alphas. So K + null_eigenvalue u u' is factorised. As y is orthogonal to
    u, c does not change.
    """

    has_additive_scores = is_primal = uses_singular_values = False
    gram_form = None

    def __init__(self, samples: CVProblem) -> None:
        self.cv_problem = samples
        sqrt_weights = samples.sqrt_weights
        K = unweighted_kernel(samples) * sqrt_weights * sqrt_weights[:, None]
        self.null_eigenvalue, self.u = 0.0, sqrt_weights / np.linalg.norm(sqrt_weights)
        if samples.fit_intercept:
            self.null_eigenvalue = float(np.trace(K)) / len(K) or 1.0
            K += np.outer(self.null_eigenvalue * self.u, self.u)
        self.scales = scales_of_kernel(samples, self.null_eigenvalue)
        self.tridiagonal = tridiagonalize(K)
        samples.problem.design.meter.add(4 / 3 * float(len(K)) ** 3)
        self.rotated_targets = self.tridiagonal.rotate(samples.problem.targets)

    def form(self, alphas: Array) -> HouseholderTridiagonal:
        """Tridiagonal form of K + null_eigenvalue u u' (n, n)."""
        return self.tridiagonal

    def null_vector_dof(self, alphas: Array) -> Array:
        """Degrees of freedom (n_alphas,) that the added direction u has in `form`."""
        return np.asarray(self.null_eigenvalue / (self.null_eigenvalue + alphas))

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> tuple[tuple[Array, ...], Array]:
        """Not available: `has_additive_scores` is False."""
        raise NotImplementedError

    def residuals(self, alphas: Array) -> Iterator[tuple[slice, Array, Array]]:
        """For batches of alphas: leave-one-out residuals (n, k, t) in units of the problem.

        They come with bounds (k, t) on the weighted norms of their errors.
        """
        form, samples = self.tridiagonal, self.cv_problem
        n, t = samples.shape[0], samples.n_targets
        root_weights = samples.sqrt_weights[:, None, None]
        full_diagonals = form.quadratic_forms(form.Q, alphas)
        diagonals = full_diagonals
        if samples.fit_intercept:
            diagonals = full_diagonals - self.u[:, None] ** 2 / (self.null_eigenvalue + alphas)
        all_errors = form_errors(form, alphas, self.scales)
        # For each alpha: rotated and dual coefficients, residuals, and copies of them.
        for batch in samples.alpha_batches(len(alphas), 5 * n * t):
            rotated = [form.solve(self.rotated_targets, float(alpha)) for alpha in alphas[batch]]
            C = (form.Q @ np.hstack(rotated)).reshape(n, -1, t)
            residuals = np.divide(
                C, root_weights * diagonals[:, batch, None],
                out=np.zeros_like(C), where=root_weights > 0,
            )  # fmt: skip
            errors = all_errors.take(batch)
            energy = errors.energy(C, np.linalg.norm(C, axis=0))
            row_bounds = partial(
                self._row_bounds, energy, errors.floors, residuals, full_diagonals[:, batch],
                diagonals[:, batch],
            )  # fmt: skip
            bounds = samples.bound_norms(row_bounds, energy.shape)
            self._set_zero_weight_residuals(residuals, C)
            yield batch, residuals, bounds

    @np.errstate(divide="ignore", invalid="ignore")
    def _row_bounds(
        self, errors: Array, floors: Array, residuals: Array, full_diagonals: Array,
        diagonals: Array, rows: slice,
    ) -> Array:  # fmt: skip
        """Bounds (n_rows, k, t) on the errors of residuals c_i / d_i, d_i = ((K + alpha I)^-1)_ii.

        With an error rho in the system, c_i is off by at most ||rho|| sqrt(d_i / floor), where
        K + alpha I >= floor I. d_i has the relative error of the inverse. `errors` (k, t) are those
        of `FormErrors.energy`: ||rho|| / sqrt(floor). `floors` (k,) has a number for each alpha,
        and both diagonals are (n, k).
        """
        full_diagonals, diagonals = full_diagonals[rows], diagonals[rows]
        root_weights = self.cv_problem.sqrt_weights[rows, None, None]
        relative = self._system_error / floors
        relative = np.where(relative < 0.5, relative / (1 - relative), np.inf)
        roots = np.sqrt(full_diagonals * (1 + relative))
        # The difference of the two diagonals, and the mean of y, are rounded too.
        diagonal_errors = (relative + 4 * EPS) * full_diagonals
        safe = (diagonals - diagonal_errors)[:, :, None]
        weighted_errors = np.abs(residuals[rows])
        weighted_errors *= root_weights * diagonal_errors[:, :, None]
        weighted_errors += roots[:, :, None] * errors
        bounds = weighted_errors / safe / root_weights
        bounds += 4 * EPS * np.abs(self.cv_problem.Y[rows, None]) + self._mean_errors
        return np.where((safe > 0) & ~np.isnan(bounds), bounds, np.inf)

    @cached_property
    def _mean_errors(self) -> Array:
        """Bounds (t,) on the error of the mean of y, a sum over all rows."""
        samples = self.cv_problem
        noise = sum_noise(samples.shape[0]) * samples.fit_intercept
        return noise * self.scales.targets / samples.root_weight(slice(None))

    @property
    def _system_error(self) -> float:
        """A bound on the norm of the error of K and of its tridiagonal form."""
        form_noise = 3 * sum_noise(len(self.tridiagonal))
        rounding = (self.scales.noise + form_noise) * self.scales.size
        return rounding + self.tridiagonal.diagonal_raise

    def _set_zero_weight_residuals(self, residuals: Array, C: Array) -> None:
        """Set the rows of `residuals` (n, k, t) for samples of weight 0, in place.

        The fit to all samples, with the dual coefficients C (n, k, t), leaves these samples out.
        """
        samples = self.cv_problem
        has_zero_weight = samples.weights == 0
        if has_zero_weight.any():
            K = unweighted_kernel(samples)[has_zero_weight]
            weighted = samples.sqrt_weights[:, None, None] * C
            P = (K @ weighted.reshape(len(weighted), -1)).reshape(len(K), *weighted.shape[1:])
            residuals[has_zero_weight] = samples.Y[has_zero_weight, None] - P
