"""Proven bounds on the errors of held-out predictions, for fits that are exact up to rounding.

Let w solve the computed system (A + E + alpha I) w = c + d, where E and d are rounding errors, and
let w* solve (A + alpha I) w* = c. Then w - w* = (A + alpha I)^-1 (d - E w), so that

    ||w - w*||_{A + alpha I} <= ||d - E w|| / sqrt(floor)    if A + alpha I >= floor I.

A bound in this norm, the *energy* norm, bounds every prediction: by Cauchy-Schwarz
|x'(w - w*)| <= ||w - w*||_{A + alpha I} sqrt(x'(A + alpha I)^-1 x).
"""

from __future__ import annotations

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
# Alphas for which that is tried, in units of the smallest alpha that rounding allows.
ENERGY_RATIO_TRIALS = 1.0, 1e3, 1e6


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
    `noise` is the relative rounding error of a prediction, a sum over features. `dominated_from` is
    the smallest alpha for which ENERGY_RATIO is proved, or infinite.
    """

    __test__ = False  # pytest would collect it

    length: float
    root_weight: float
    x_shift: float
    y_shift: Array
    intercept_error: Array
    intercept_slope: float
    noise: float
    dominated_from: float = np.inf

    def norm_bounds(
        self, energy: Array, floors: Array, coef_norms: Array, alphas: Array,
        leverages: Array | None = None,
    ) -> Array:  # fmt: skip
        """Bounds (n_alphas, t) on sqrt(sum_i w_i e_i^2) for the errors e_i of predictions.

        They follow from the energy norms (n_alphas, t) of the errors of coefficients, for which
        A + alpha I >= floors (n_alphas,). `coef_norms` (n_alphas, t) bound the norms of the
        coefficients. `leverages` (n_alphas,), if they are known, bound the sum over the test rows
        of w_i x_i'(A + alpha I)^-1 x_i.
        """
        full_length = self.length + self.root_weight * self.x_shift
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratios = np.fmin(
                full_length**2 / floors,
                ENERGY_RATIO * np.maximum(1.0, self.dominated_from / alphas),
            )
            if leverages is not None:
                ratios = np.fmin(ratios, leverages)
            rounding = self.intercept_error + self.noise * np.abs(self.y_shift)
            rounding = rounding + (self.intercept_slope + self.noise * self.x_shift) * coef_norms
            norms = np.sqrt(ratios)[:, None] * energy + self.root_weight * rounding
            norms = norms + self.noise * coef_norms * self.length
        return np.where(np.isnan(norms), np.inf, norms)  # 0 / 0, or 0 times infinity


@singledispatch
def energy_errors(form: Any, W: Array, alphas: Array, scales: SystemScales) -> tuple[Array, Array]:
    """Energy norms (n_alphas, t) of the errors of W, and floors (n_alphas,) of A + alpha I.

    `W` (m, n_alphas, t) solves (A + alpha I) W = C in the coordinates of `form`.
    """
    raise NotImplementedError(type(form).__name__)


@energy_errors.register
def _tridiagonal_energy_errors(
    form: HouseholderTridiagonal, W: Array, alphas: Array, scales: SystemScales
) -> tuple[Array, Array]:
    # Householder reflections and the recurrences add errors relative to the largest entries.
    form_noise = sum_noise(len(form))
    gram_error = (scales.noise + 2 * form_noise) * scales.size + form.diagonal_raise
    floors = np.maximum(form.min_eigenvalue - gram_error, 0.0) + alphas
    coef_norms = np.linalg.norm(W, axis=0)
    rhs_scale = 1.0 if scales.is_dual else np.sqrt(scales.size)
    rhs_errors = (scales.noise + form_noise) * rhs_scale * scales.targets
    with np.errstate(divide="ignore", invalid="ignore"):
        energy = (gram_error * coef_norms + rhs_errors) / np.sqrt(floors)[:, None]
    rotation_errors = form_noise * np.sqrt(scales.size + alphas)[:, None] * coef_norms
    return energy + rotation_errors, floors


@energy_errors.register
def _cholesky_energy_errors(
    form: CholeskyForm, W: Array, alphas: Array, scales: SystemScales
) -> tuple[Array, Array]:
    # Rounding in a factor is relative to the diagonal D of A + alpha I (Higham 2002, theorem 10.3),
    # and A + alpha I >= mu D, where mu is the smallest eigenvalue of the scaled matrix.
    noise = scales.noise + 2 * sum_noise(len(form))
    error_diagonals = scales.columns**2 + alphas[:, None]
    diagonals = np.maximum(np.diag(form.A), 0.0) + alphas[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        amplification = (error_diagonals / diagonals).sum(axis=1)
        scaled_floors = form.scaled_floors(alphas)
        mu = np.maximum(scaled_floors - noise * amplification, 0.0)
        scaled_factors = np.sqrt(amplification / mu)
        plain_factors = np.sqrt((scales.size + len(form) * alphas) / alphas)
        fitted = np.einsum("am,mat->at", np.sqrt(error_diagonals), np.abs(W))
        factors = np.fmin(scaled_factors, plain_factors)[:, None]
        rhs_factors = 1 / np.sqrt(alphas)[:, None] if scales.is_dual else factors
        energy = noise * (scales.targets * rhs_factors + fitted * factors)
    # A factor with a raised diagonal solves another system.
    energy = np.where(scaled_floors[:, None] > 0, energy, np.inf)
    return energy, np.maximum(alphas, mu * diagonals.min(axis=1))


@energy_errors.register
def _singular_energy_errors(
    form: SingularForm, W: Array, alphas: Array, scales: SystemScales
) -> tuple[Array, Array]:
    # The decomposition is that of X + dX. With r = y - X w the system is off by dX'r - X'dX w, and
    # the second term is at most ||dX|| ||w|| in the energy norm, since X (A + alpha I)^-1 X' <= I.
    n, p = len(form.left), len(form.Q)
    noise = scales.noise + sum_noise(n, p)
    x_error = noise * np.sqrt(scales.size)
    smallest = float(form.values[-1]) if len(form) == p else 0.0
    floors = np.maximum(smallest - x_error, 0.0) ** 2 + alphas
    with np.errstate(divide="ignore", invalid="ignore"):
        residual_terms = scales.targets / np.sqrt(floors)[:, None]
    coef_norms = np.linalg.norm(W, axis=0)
    return x_error * (residual_terms + coef_norms) + noise * scales.targets, floors


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


@np.errstate(divide="ignore")
def leave_one_out_errors(
    form: Any, W: Array, alphas: Array, scales: SystemScales, root_weight: float,
    intercept_leverage: float,
) -> LeaveOneOutErrors:  # fmt: skip
    """Errors of leave-one-out from `form`; see `energy_errors` for the first arguments.

    `root_weight` is the square root of the sum of all weights. If A~ = A + E and the norm of
    (A + alpha I)^-1/2 E (A + alpha I)^-1/2 is eta < 1, then x'(A~ + alpha I)^-1 x is within
    eta / (1 - eta) of x'(A + alpha I)^-1 x, relatively.
    """
    energy, floors = energy_errors(form, W, alphas, scales)
    coef_norms = np.linalg.norm(W, axis=0)
    noise = scales.noise + 3 * sum_noise(len(form))
    energy = energy + noise * np.sqrt(scales.size + alphas)[:, None] * coef_norms
    # The means of x and y are sums over all rows.
    offsets = noise * (np.sqrt(scales.size) * coef_norms + scales.targets) / root_weight
    if isinstance(form, SingularForm):
        # (X + dX)'(X + dX) differs from A by at most 2 ||dX|| in these coordinates, divided by the
        # square root of the floor, and by its square.
        root = noise * np.sqrt(scales.size / floors)
        relative = 2 * root + root**2
    elif isinstance(form, CholeskyForm):
        diagonals = np.maximum(np.diag(form.A), 0.0) + alphas[:, None]
        amplification = ((scales.columns**2 + alphas[:, None]) / diagonals).sum(axis=1)
        scaled_floors = form.scaled_floors(alphas)
        relative = noise * np.fmin(
            amplification / scaled_floors, (scales.size + alphas * len(form)) / floors
        )
    else:
        relative = (noise * scales.size + form.diagonal_raise) / floors
    relative = relative + noise
    form_errors = np.where(relative < 0.5, relative / (1 - np.minimum(relative, 0.5)), np.inf)
    return LeaveOneOutErrors(
        energy, offsets * (intercept_leverage > 0), form_errors, intercept_leverage, noise
    )


def dominated_from(
    train_gram: Array, test_gram: Array, smallest_alpha: float, gram_error: float
) -> float:
    """An alpha for which test_gram <= ENERGY_RATIO (train_gram + alpha I) is proved, or inf.

    Both are (p, p), `test_gram` about the mean of the training rows, and known up to `gram_error`
    in norm. p^3 / 3 FLOPs for each trial; `test_gram` is overwritten.
    """
    p = len(train_gram)
    error = gram_error + 2 * sum_noise(p) * (
        ENERGY_RATIO * float(np.trace(train_gram)) + float(np.trace(test_gram))
    )
    # An alpha that hardly exceeds the error could not be proved.
    alpha = max(smallest_alpha, 4 * error / ENERGY_RATIO)
    np.multiply(test_gram, -1 / ENERGY_RATIO, out=test_gram)
    test_gram += train_gram
    diagonal = np.diag(test_gram).copy()
    for factor in ENERGY_RATIO_TRIALS:
        trial = test_gram.copy(order="F")
        trial[np.diag_indices(p)] = diagonal + factor * alpha - error / ENERGY_RATIO
        if np.isfinite(diagonal).all() and potrf(trial, lower=True, overwrite=True)[1] == 0:
            return factor * alpha
    return np.inf
