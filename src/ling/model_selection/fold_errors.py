"""Proven bounds on the errors of held-out predictions, for fits that are exact up to rounding.

Let w solve the computed system (A + E + alpha I) w = c + d, where E and d are rounding errors, and
let w* solve (A + alpha I) w* = c. Then w - w* = (A + alpha I)^-1 (d - E w), so that

    ||w - w*||_{A + alpha I} <= ||d - E w|| / sqrt(floor)    if A + alpha I >= floor I.

A bound in this norm, the *energy* norm, bounds every prediction: by Cauchy-Schwarz
|x'(w - w*)| <= ||w - w*||_{A + alpha I} sqrt(x'(A + alpha I)^-1 x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from ling._typing import Array
from ling.linalg.cholesky import CholeskyForm, potrf
from ling.linalg.rounding import EPS, sum_noise
from ling.linalg.singular_values import SingularForm
from ling.linalg.tridiagonal import HouseholderTridiagonal

# The test rows of a fold are compared with its training rows: it is proved, by one Cholesky
# factorisation, that their Gram matrix is below this number times A + alpha I. The true ratio is
# about 1 / (n_splits - 1) for rows of one distribution, so that 4 covers two folds as well.
ENERGY_RATIO = 4.0
# A Cholesky factor is not computed for this if errors of predictions are below this fraction of the
# spread of y without it: scores are then known to ten digits.
NEGLIGIBLE_ERROR = 1e-11
# Alphas for which that is tried, in units of the smallest alpha that rounding allows.
ENERGY_RATIO_TRIALS = 1.0, 1e3, 1e6

#: Numbers k (n_alphas,) for alphas (n_alphas,), such that for the test rows of a split the sum of
#: w_i (x_i'e)^2 is at most k e'(A + alpha I) e, for every e.
Ratios = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class SystemScales:
    """Magnitudes to which the rounding errors of a system (A + alpha I) W = C are proportional.

    The error of entry (j, k) of A is at most noise columns_j columns_k, and that of entry (j, t) of
    C is at most noise columns_j targets_t. `columns` is (m,), `targets` is (t,). If C is Y itself,
    as in the dual, `is_dual` is True: its error is at most noise targets_t in norm.
    """

    columns: Array
    targets: Array
    noise: float
    is_dual: bool = False

    @property
    def size(self) -> float:
        """The sum of squares of `columns`, a bound on the trace of A."""
        return float(self.columns @ self.columns)


@dataclass(frozen=True, eq=False)
class TestRows:
    """What bounds need to know about the test rows of a split and about their intercepts.

    `length` is a bound on sqrt(sum_i w_i ||x_i - m||^2), where m is the mean of all rows, and
    `root_weight` on the square root of the sum of their weights. The intercept is
    y_shift - x_shift'w, where `x_shift` is the norm ||x_shift|| and `y_shift` has shape (t,).
    `intercept_error` (t,) and `intercept_slope` bound its error, divided by 1 and by ||w||.
    `noise` is the relative rounding error of a prediction, a sum over features. `spread` (t,) are
    the weighted norms ||y - y_shift|| of the test rows.
    """

    __test__ = False  # pytest would collect it

    length: float
    root_weight: float
    x_shift: float
    y_shift: Array
    intercept_error: Array
    intercept_slope: float
    noise: float
    spread: Array

    def norm_bounds(
        self, energy: Array, floors: Array, coef_norms: Array, ratios: Array | None = None
    ) -> Array:
        """Bounds (n_alphas, t) on sqrt(sum_i w_i e_i^2) for the errors e_i of predictions.

        They follow from the energy norms (n_alphas, t) of the errors of coefficients, for which
        A + alpha I >= floors (n_alphas,). `coef_norms` (n_alphas, t) bound the norms of the
        coefficients. `ratios` (n_alphas,) are those of `Ratios`, if they are known.
        """
        full_length = self.length + self.root_weight * self.x_shift
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            all_ratios = full_length**2 / floors
            if ratios is not None:
                all_ratios = np.fmin(all_ratios, ratios)
            rounding = self.intercept_error + self.noise * np.abs(self.y_shift)
            rounding = rounding + (self.intercept_slope + self.noise * self.x_shift) * coef_norms
            norms = np.sqrt(all_ratios)[:, None] * energy + self.root_weight * rounding
            norms = norms + self.noise * coef_norms * self.length
        return np.where(np.isnan(norms), np.inf, norms)  # 0 / 0, or 0 times infinity


@dataclass(frozen=True, eq=False)
class FormErrors:
    """Rounding errors of solutions W of (A + alpha I) W = C by a form of A, for some alphas.

    A + alpha I >= floors (n_alphas,). The form is that of A + E, and `relative` (n_alphas,) bounds
    the norm of (A + alpha I)^-1/2 E (A + alpha I)^-1/2. Errors of W have an energy norm of at most
    constants (n_alphas, t) + slopes (n_alphas,) times a norm of W: the Euclidean one or, with
    `column_scales` (n_alphas, m), the sum of these times |W|.
    """

    floors: Array
    relative: Array
    constants: Array
    slopes: Array
    column_scales: Array | None = None

    def take(self, part: slice) -> FormErrors:
        """The errors for some of the alphas."""
        scales = None if self.column_scales is None else self.column_scales[part]
        return FormErrors(
            self.floors[part], self.relative[part], self.constants[part], self.slopes[part], scales
        )

    @np.errstate(invalid="ignore", over="ignore")
    def energy(self, W: Array, coef_norms: Array) -> Array:
        """Energy norms (n_alphas, t) of the errors of W (m, n_alphas, t), of norm `coef_norms`."""
        sizes = coef_norms
        if self.column_scales is not None:
            sizes = np.einsum("am,mat->at", self.column_scales, np.abs(W))
        return np.asarray(self.constants + self.slopes[:, None] * sizes)


@singledispatch
def form_errors(form: Any, alphas: Array, scales: SystemScales) -> FormErrors:
    """Errors of solutions by `form` for `alphas` (n_alphas,), in the coordinates of the form."""
    raise NotImplementedError(type(form).__name__)


@form_errors.register
@np.errstate(divide="ignore", invalid="ignore")
def _tridiagonal_errors(
    form: HouseholderTridiagonal, alphas: Array, scales: SystemScales
) -> FormErrors:
    # Householder reflections and the recurrences add errors relative to the largest entries.
    form_noise = sum_noise(len(form))
    gram_error = (scales.noise + 2 * form_noise) * scales.size + form.diagonal_raise
    floors = np.maximum(form.min_eigenvalue - gram_error, 0.0) + alphas
    rhs_scale = 1.0 if scales.is_dual else np.sqrt(scales.size)
    rhs_errors = (scales.noise + form_noise) * rhs_scale * scales.targets
    roots = np.sqrt(floors)
    return FormErrors(
        floors=floors,
        relative=(gram_error + form_noise * scales.size) / floors,
        constants=rhs_errors / roots[:, None],
        slopes=gram_error / roots + form_noise * np.sqrt(scales.size + alphas),
    )


@form_errors.register
@np.errstate(divide="ignore", invalid="ignore")
def _cholesky_errors(form: CholeskyForm, alphas: Array, scales: SystemScales) -> FormErrors:
    # Rounding in a factor is relative to the diagonal D of A + alpha I (Higham 2002, theorem 10.3),
    # and A + alpha I >= mu D, where mu is the smallest eigenvalue of the scaled matrix.
    noise = scales.noise + 2 * sum_noise(len(form))
    error_diagonals = scales.columns**2 + alphas[:, None]
    diagonals = np.maximum(np.diag(form.A), 0.0) + alphas[:, None]
    amplification = (error_diagonals / diagonals).sum(axis=1)
    scaled_floors = form.scaled_floors(alphas)
    mu = np.maximum(scaled_floors - noise * amplification, 0.0)
    floors = np.maximum(alphas, mu * diagonals.min(axis=1))
    trace = scales.size + len(form) * alphas
    factors = np.fmin(np.sqrt(amplification / mu), np.sqrt(trace / alphas))
    rhs_factors = 1 / np.sqrt(alphas) if scales.is_dual else factors
    constants = noise * scales.targets * rhs_factors[:, None]
    relative = np.fmin(amplification / scaled_floors, trace / floors)
    return FormErrors(
        floors=floors,
        relative=(noise + sum_noise(len(form))) * relative,
        # A factor with a raised diagonal solves another system.
        constants=np.where(scaled_floors[:, None] > 0, constants, np.inf),
        slopes=noise * factors,
        column_scales=np.sqrt(error_diagonals),
    )


@form_errors.register
@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def _singular_errors(form: SingularForm, alphas: Array, scales: SystemScales) -> FormErrors:
    # The decomposition is that of X + dX. With r = y - X w the system is off by dX'r - X'dX w, and
    # the second term is at most ||dX|| ||w|| in the energy norm, since X (A + alpha I)^-1 X' <= I.
    x_error = singular_row_error(form, scales)
    smallest = float(form.values[-1]) if len(form) == len(form.Q) else 0.0
    floors = np.maximum(smallest - x_error, 0.0) ** 2 + alphas
    # (X + dX)'(X + dX) differs from A by at most 2 ||dX|| in these coordinates, divided by the
    # square root of the floor, and by its square.
    roots = x_error / np.sqrt(floors)
    noise = scales.noise + sum_noise(form.n_rows, len(form.Q))
    return FormErrors(
        floors=floors,
        relative=2 * roots + roots**2,
        constants=scales.targets * (roots + noise)[:, None],
        slopes=np.full(len(alphas), x_error),
    )


def singular_row_error(form: SingularForm, scales: SystemScales) -> float:
    """A bound on ||dX||, if the form is that of X + dX in the place of X."""
    return (scales.noise + sum_noise(form.n_rows, len(form.Q))) * float(np.sqrt(scales.size))


@dataclass(frozen=True, eq=False)
class LeaveOneOutErrors:
    """Rounding errors of leave-one-out residuals r_i / (1 - h_i), from a fit to all rows.

    `energy` (n_alphas, t) bounds the errors of the fit in the energy norm, so that the residual
    r_i of a row is off by at most energy sqrt(f_i) + offsets, f_i = x_i'(A + alpha I)^-1 x_i.
    `offsets` (n_alphas, t) covers the intercept. f_i itself has a relative error of at most
    `form_errors` (n_alphas,), infinite if nothing is known. h_i = w_i (f_i + intercept_leverage).
    """

    energy: Array
    offsets: Array
    form_errors: Array
    intercept_leverage: float
    noise: float

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def row_bounds(
        self, residuals: Array, Y: Array, forms: Array, divisors: Array, weights: Array
    ) -> Array:
        """Bounds (n, n_alphas, t) on the errors of leave-one-out residuals of that shape.

        `Y` broadcasts to it, `forms` are f_i and `divisors` 1 - h_i, both (n, n_alphas). Bounds are
        0 for rows of weight 0: their errors do not count in weighted norms.
        """
        w = weights[:, None]
        slack = w * forms * self.form_errors + 4 * EPS + w * self.intercept_leverage * self.noise
        safe_divisors = divisors - slack
        roots = np.sqrt(forms * (1 + self.form_errors))
        errors = roots[:, :, None] * self.energy + self.offsets
        errors = errors + 4 * EPS * (np.abs(Y) + np.abs(residuals * divisors[:, :, None]))
        errors = errors + np.abs(residuals) * slack[:, :, None]
        bounds = errors / safe_divisors[:, :, None]
        bounds = np.where((safe_divisors > 0)[:, :, None] & ~np.isnan(bounds), bounds, np.inf)
        return np.where(w[:, :, None] > 0, bounds, 0.0)


def leave_one_out_errors(
    form: Any, errors: FormErrors, W: Array, alphas: Array, scales: SystemScales,
    root_weight: float, intercept_leverage: float,
) -> LeaveOneOutErrors:  # fmt: skip
    """Errors of leave-one-out from solutions W (m, n_alphas, t) by `form`, with these `errors`.

    `root_weight` is the square root of the sum of all weights. If A~ = A + E and the norm of
    (A + alpha I)^-1/2 E (A + alpha I)^-1/2 is eta < 1, then x'(A~ + alpha I)^-1 x is within
    eta / (1 - eta) of x'(A + alpha I)^-1 x, relatively.
    """
    coef_norms = np.linalg.norm(W, axis=0)
    noise = scales.noise + 3 * sum_noise(len(form))
    energy = errors.energy(W, coef_norms)
    energy = energy + noise * np.sqrt(scales.size + alphas)[:, None] * coef_norms
    # The means of x and y are sums over all rows.
    offsets = noise * (np.sqrt(scales.size) * coef_norms + scales.targets) / root_weight
    relative = errors.relative + noise
    quadratic_errors = np.where(relative < 0.5, relative / (1 - np.minimum(relative, 0.5)), np.inf)
    return LeaveOneOutErrors(
        energy, offsets * (intercept_leverage > 0), quadratic_errors, intercept_leverage, noise
    )


@dataclass(frozen=True, eq=False)
class GramComparison:
    """T'T compared with A, for the test rows T (n_test, p) and A = X'X of the training rows.

    `difference` is A - T'T / ENERGY_RATIO (p, p), about the mean of the training rows. It is known
    up to `error` / ENERGY_RATIO in norm.
    """

    difference: Array
    error: float

    @classmethod
    def from_grams(cls, train_gram: Array, test_gram: Array, gram_error: float) -> GramComparison:
        """The comparison of two matrices known up to `gram_error`; `test_gram` is overwritten."""
        traces = ENERGY_RATIO * float(np.trace(train_gram)) + float(np.trace(test_gram))
        np.multiply(test_gram, -1 / ENERGY_RATIO, out=test_gram)
        test_gram += train_gram
        return cls(test_gram, gram_error + 2 * sum_noise(len(train_gram)) * traces)

    def _dominated_from(self, smallest_alpha: float, workspace: Array) -> float:
        """An alpha for which T'T <= ENERGY_RATIO (A + alpha I) is proved, or infinity.

        p^3 / 3 FLOPs for each trial, in `workspace`.
        """
        # An alpha that hardly exceeds the error could not be proved.
        alpha = max(smallest_alpha, 4 * self.error / ENERGY_RATIO)
        diagonal = np.diag(self.difference)
        if not np.isfinite(diagonal).all():
            return np.inf
        for factor in ENERGY_RATIO_TRIALS:
            np.copyto(workspace, self.difference)
            np.fill_diagonal(workspace, diagonal + factor * alpha - self.error / ENERGY_RATIO)
            if potrf(workspace, lower=True, overwrite=True)[1] == 0:
                return factor * alpha
        return np.inf

    def ratios(self, smallest_alpha: float, workspace: Array | None = None) -> Ratios:
        """Numbers k(alpha) for which T'T <= k (A + alpha I); infinite if nothing is proved.

        `workspace` (p, p), in Fortran order, is overwritten if it is given.
        """
        if workspace is None:
            workspace = np.empty_like(self.difference, order="F")
        dominated_from = self._dominated_from(smallest_alpha, workspace)

        def dominance_ratios(alphas: Array) -> Array:
            with np.errstate(divide="ignore"):
                return np.asarray(ENERGY_RATIO * np.maximum(1.0, dominated_from / alphas))

        return dominance_ratios
