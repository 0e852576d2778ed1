"""The region around computed coefficients in which the exact ones are proved to lie.

With e = w - w* and H = X'X + alpha I, the certificate proves e'He <= E^2. For every row x this
bounds x'e by Cauchy-Schwarz: |x'e| <= E sqrt(x'H^-1 x). H^-1 itself is not stored. What is known of
it is an upper bound, from up to three lower bounds of H:

- H >= min_eigenvalue I, so that x'H^-1 x <= ||x||^2 / min_eigenvalue;
- (H^-1)_jj <= inverse_diagonal_j, so that |e_j| <= E sqrt(inverse_diagonal_j), and |x'e| is at most
  the sum of |x_j| times these;
- H >= U diag(values) U' + (alpha - slack) I with a few directions U, in which most of x may lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.plain_state import register_plain

FLOAT64_TINY = float(np.finfo(np.float64).tiny)
EPS = float(np.finfo(np.float64).eps)


@register_plain
@dataclass(frozen=True, eq=False)
class ErrorRegion:
    """All w* with e'(X'X + alpha I)e <= errors^2, e = w - w*, and the error of the intercept.

    Numbers are in the units of the solved problem, which is that of (X - x_mean) / x_scale and
    y / y_scale; both scales are powers of two. Arrays of p numbers are in float32, rounded so that
    all bounds still hold; `x_mean` is in float64 if it is out of the range of float32.

    Attributes
    ----------
    errors, alphas, min_eigenvalues : arrays of shape (t,)
        E, alpha, and a lower bound of the eigenvalues of X'X + alpha I, for each target.
    intercept_errors : array of shape (t,)
        Bound of |b - (y_mean - x_mean'w)|, for the exact means.
    x_scale : float
    y_scale : array of shape (t,)
    x_mean : array of shape (p,) or None
        Column means divided by `x_scale`; None without an intercept.
    center_error : float
        Bound of the norm of the error of `x_mean`.
    inverse_diagonal : array of shape (p,) or None
        Upper bounds of the diagonal of (X'X + alpha I)^-1, for every alpha.
    directions, values : arrays of shape (p, r) and (r,), or None
        U and v with U diag(v) U' <= X'X + slack I.
    slack : float
    n_features : int
    """

    errors: Array
    alphas: Array
    min_eigenvalues: Array
    intercept_errors: Array
    x_scale: float
    y_scale: Array
    x_mean: Array | None = None
    center_error: float = 0.0
    inverse_diagonal: NDArray[np.float32] | None = None
    directions: NDArray[np.float32] | None = None
    values: Array | None = None
    slack: float = 0.0
    n_features: int = 0

    @property
    def _max_variances(self) -> Array:
        """Upper bounds (t,) of the eigenvalues of H^-1; infinite where alpha is 0."""
        with np.errstate(divide="ignore", over="ignore"):
            bounds = np.where(self.min_eigenvalues > 0, 1 / self.min_eigenvalues, np.inf)
        if self.inverse_diagonal is not None:  # H^-1 <= trace(H^-1) I
            bounds = np.minimum(bounds, self.inverse_diagonal.sum(dtype=np.float64))
        return np.where(self.alphas > 0, bounds, np.inf)

    @property
    def coef_norm_bounds(self) -> Array:
        """Bounds (t,) of ||w - w*||, in the units of the data."""
        return self._coef_to_data_units(_product(self.errors, np.sqrt(self._max_variances)))

    @property
    def coef_bounds(self) -> Array:
        """Bounds (p, t) of |w_j - w*_j|, in the units of the data."""
        variances = np.broadcast_to(self._max_variances, (self.n_features, len(self.errors)))
        if self.inverse_diagonal is not None:
            variances = np.minimum(variances, self.inverse_diagonal[:, None])
        variances = np.where(self.alphas > 0, variances, np.inf)
        return self._coef_to_data_units(_product(self.errors, np.sqrt(variances)))

    def _coef_to_data_units(self, bounds: Array) -> Array:
        """Bounds (..., t) of coefficients, in the units of the data, rounded up."""
        with np.errstate(over="ignore", under="ignore"):
            scaled = bounds * (1 + 8 * EPS) * self.y_scale / self.x_scale
        return np.asarray(np.where(bounds > 0, np.maximum(scaled, FLOAT64_TINY), 0.0))

    def with_mean_error(self, intercept_errors: Array, center_error: float) -> ErrorRegion:
        """The region with further errors (t,) of the intercepts and of the column means."""
        return replace(
            self,
            intercept_errors=self.intercept_errors + intercept_errors,
            center_error=self.center_error + center_error,
        )

    @property
    def root_inverse_diagonal(self) -> Array | None:
        """Square roots (p,) of `inverse_diagonal`, in float64."""
        if self.inverse_diagonal is None:
            return None
        return np.asarray(np.sqrt(self.inverse_diagonal.astype(np.float64)))

    def prediction_bounds(
        self, squares: Array, weighted_sums: Array | None, inside: Array | None,
        known_forms: Array | None = None,
    ) -> Array:  # fmt: skip
        """Bounds (n, t) of |x'(w - w*) + b - b*| for n rows, in the units of the data.

        For the centred and scaled rows x, `squares` (n,) are ||x||^2, `weighted_sums` (n,) the sums
        of |x_j| sqrt(inverse_diagonal_j), and `inside` (n, r) the products x'U; None if the region
        has no such part. The rounding of sums over the columns is included. `known_forms`
        (n, t) are upper bounds of sqrt(x'H^-1 x) from elsewhere, or None.
        """
        noise = (self.n_features + 16) * EPS
        norms = np.sqrt(squares) * (1 + noise)
        root_variances = np.sqrt(self._max_variances)
        forms = _product(norms[:, None], root_variances)
        if weighted_sums is not None:
            forms = np.minimum(forms, weighted_sums[:, None] * (1 + noise))
        if inside is not None:
            forms = np.minimum(forms, self._direction_forms(norms**2, inside, noise))
        if known_forms is not None:
            forms = np.fmin(forms, known_forms)
        forms = np.where(self.alphas > 0, forms, np.inf)
        center = _product(root_variances, self.center_error)
        with np.errstate(over="ignore", under="ignore"):
            bounds = _product(self.errors, forms + center) + self.intercept_errors
            bounds = bounds * self.y_scale * (1 + noise)
        return np.where(np.isnan(bounds), np.inf, bounds)

    def _direction_forms(self, squares: Array, inside: Array, noise: float) -> Array:
        """Upper bounds (n, t) of sqrt(x'H^-1 x) from the directions, for `inside` = x'U (n, r).

        x'(U diag(v) U' + s I)^-1 x is the minimum over c of sum c_k^2 / v_k + ||x - U c||^2 / s, so
        every c gives an upper bound. For orthonormal U the minimum is at c_k = v_k / (v_k + s)
        x'u_k. U is orthonormal up to rounding, which its Gram matrix accounts for.
        """
        assert self.directions is not None
        assert self.values is not None
        U = self.directions.astype(np.float64)
        gram = U.T @ U
        alphas, of_target = np.unique(self.alphas, return_inverse=True)
        forms = np.full((len(squares), len(alphas)), np.inf)
        for t, alpha in enumerate(alphas):
            shift = alpha - self.slack
            if shift <= 0:
                continue
            C = inside * (self.values / (self.values + shift))
            products = np.einsum("ij,ij->i", C, inside)
            sizes = np.einsum("ij,ij->i", C @ gram, C)
            # Rounding: every term is at most a few ||x||^2.
            outside = np.maximum(squares - 2 * products + sizes, 0.0) + 8 * noise * squares
            forms[:, t] = np.sqrt((C**2 / self.values).sum(axis=1) * (1 + noise) + outside / shift)
        return forms[:, of_target]


def row_functionals(region: ErrorRegion, rows: Array) -> Array:
    """What `prediction_bounds` needs of centred rows (m, p): (m, 1 + weighted sums + r) numbers."""
    columns: list[Any] = [np.einsum("ij,ij->i", rows, rows)[:, None]]
    roots = region.root_inverse_diagonal
    if roots is not None:
        columns.append((np.abs(rows) @ roots)[:, None])
    if region.directions is not None:
        columns.append(rows @ region.directions.astype(np.float64))
    return np.hstack(columns)


def bounds_from_functionals(
    region: ErrorRegion, functionals: Array, known_forms: Array | None = None
) -> Array:
    """`prediction_bounds` (n, t) for the result (n, k) of `row_functionals`."""
    first = 1 + (region.inverse_diagonal is not None)
    return region.prediction_bounds(
        functionals[:, 0],
        functionals[:, 1] if first == 2 else None,
        functionals[:, first:] if region.directions is not None else None,
        known_forms,
    )


def round_up_to_float32(values: Array) -> NDArray[np.float32]:
    """Values >= 0 in float32, rounded up; infinite above its range."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float32)
        above = np.nextafter(rounded, np.float32(np.inf))
    return np.where(rounded.astype(np.float64) < values, above, rounded).astype(np.float32)


def _product(errors: Any, factors: Any) -> Array:
    """errors * factors, where 0 times infinity is infinite if the error is not known to be 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.asarray(errors * factors)
    return np.where(np.isnan(product), np.inf, product)
