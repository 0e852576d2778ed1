"""The ridge problem that the engines solve: centred and weighted X and Y, with X'Y and norms."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import Design, QuantizedMatrix
from ling.design.affine import subtract_outer
from ling.design.arrays import FLOAT64_MAX, weighted_magnitudes
from ling.errors import NonFiniteError
from ling.linalg.rounding import sum_noise
from ling.plain_state import register_plain
from ling.solvers.gram_cache import GramCache
from ling.solvers.targets import center_targets_exactly, scaled_targets, weighted_column_norms

log = logging.getLogger("ling")
# Norms in this range are used as they are. X or y with other norms is divided by a power of two, so
# that squares, and squares of squares, stay within the range of float64.
UNSCALED_RANGE = 1e-25, 1e25
# The scale of X is at least this times sqrt(alpha). Then alpha / x_scale^2 <= 1e290 (up to rounding
# to a power of two), which is within the range of float64.
MIN_SCALE_TO_ROOT_ALPHA = 1e-145

# If ||y - X w||^2 is below this fraction of ||y||^2, its expansion into sums of squares has
# cancelled, and it is computed from X itself.
CANCELLATION_THRESHOLD = 1e-6
# Relative rounding error of ||y - X w||^2 up to which statistics are computed from X'X.
MAX_EXPANSION_ERROR = 1e-8


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The validated data of a fit.

    Attributes
    ----------
    X : array, sparse matrix or Storage of shape (n, p)
        X in the form in which splitters and scorers receive it.
    design : Design
        X before centring and weighting. Its meter counts the passes of the fit.
    targets : array of shape (n, t)
        In any real dtype; classes are -1 and 1 in int8.
    weights : array of shape (n,) or None
    encoding : Encoding or None
        How the columns of a table became the columns of X.
    resident_bytes : float
        Bytes of X that ling itself holds in memory; they count towards the memory budget.
    notes : tuple of str
        Remarks for the report of the fit about how X was opened.
    """

    X: Any
    design: Design
    targets: NDArray[Any]
    weights: Array | None = None
    encoding: Any = None
    resident_bytes: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def n_targets(self) -> int:
        """Number of targets t."""
        return int(self.targets.shape[1])


@dataclass(frozen=True, eq=False)
class Problem:
    """The ridge problem min_W ||Y - X W||^2 + sum_t alphas[t] ||W[:, t]||^2, without an intercept.

    X (n, p) and Y (n, t) are already centred, weighted and scaled. Rounding errors are proportional
    to the norms *before* centring, so these are stored too.

    Attributes
    ----------
    design : Design
        X, which is never formed: centring and weights are applied in each product.
    targets : array of shape (n, t)
        Y.
    known_moments : array of shape (p, t) or None
        X'Y, if the first pass has formed it.
    alphas : array of shape (t,)
        The regularisation strength of each target.
    column_norms : array of shape (p,)
        Norms of the columns of X.
    raw_column_norms, raw_target_norms : arrays of shape (p,) and (t,)
        Norms of the columns of X and Y before centring.
    gram_cache : GramCache
        Gram matrices of X that have been formed so far.
    """

    design: Design
    targets: Array
    known_moments: Array | None
    alphas: Array
    column_norms: Array
    raw_column_norms: Array
    raw_target_norms: Array
    gram_cache: GramCache = field(default_factory=GramCache, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p): the numbers of samples and features."""
        return self.design.shape

    @property
    def n_targets(self) -> int:
        """Number of targets t."""
        return int(self.targets.shape[1])

    @cached_property
    def moments(self) -> Array:
        """X'Y (p, t); a pass on first use if the first pass has not formed it."""
        if self.known_moments is not None:
            return self.known_moments
        return self.design.rmatmat(self.targets)

    def project_moments(self, weights: Array) -> Array:
        """The weighted sums (t,) over the rows of X'Y, for `weights` (p,); at most one pass."""
        if self.known_moments is not None:
            return np.asarray(weights @ self.known_moments)
        return np.asarray(self.design.matmat(weights) @ self.targets)

    @cached_property
    def target_norms(self) -> Array:
        """||y|| for each target, (t,); `tol` is relative to it."""
        return weighted_column_norms(self.targets, None)

    @cached_property
    def error_scale(self) -> Array:
        """The error E of the coefficients, (t,), up to which predictions are off by at most ||y||.

        See `error_scale_for`.
        """
        return self.error_scale_for(self.alphas)

    def error_scale_for(self, alphas: Array) -> Array:
        """The error scale for other alphas, (t,) or (k, t).

        Errors e of the coefficients are measured as E = sqrt(||X e||^2 + alpha ||e||^2). If
        X'X <= L I, then ||X e||^2 <= L / (L + alpha) E^2, so that E = ||y|| sqrt(1 + alpha / L).
        L is the trace of X'X, an upper bound of its largest eigenvalue.
        """
        gram_trace = float((self.safe_column_norms**2).sum())
        if gram_trace == 0:  # X = 0: all coefficients give the same predictions
            return np.where(self.target_norms > 0, FLOAT64_MAX, np.zeros(alphas.shape))
        with np.errstate(over="ignore"):  # X is constant up to rounding, and tiny
            ratio = np.minimum(alphas / gram_trace, FLOAT64_MAX)
        return np.asarray(self.target_norms * np.sqrt(1 + ratio))

    @cached_property
    def safe_column_norms(self) -> Array:
        """Upper bounds of the column norms of X, (p,), that cover their rounding errors.

        The squares of `column_norms` are differences, sum x^2 - n mean^2, in which digits cancel.
        """
        return np.asarray(
            np.sqrt(self.column_norms**2 + self._centering_noise * self.raw_column_norms**2)
        )

    def fitted_norm_bounds(self, W: Array) -> Array:
        """Bounds (t,) of ||X w|| for W (p, t), also before centring: sum_j ||x_j|| |w_j|."""
        return weighted_magnitudes(self.raw_column_norms, W)

    @property
    def varying_columns(self) -> NDArray[np.bool_]:
        """Mask (p,) of the columns that are not constant up to rounding."""
        return np.asarray(self.column_norms**2 > self._centering_noise * self.raw_column_norms**2)

    @property
    def _centering_noise(self) -> float:
        """Rounding error of a column's centred sum of squares, relative to its raw one."""
        return 1e-14 + 4 * sum_noise(self.shape[0])

    def is_within_tol(self, bounds: Array, tol: float) -> bool:
        """True if bounds (t,) on E, see `error_scale`, prove all predictions within tol."""
        if (bounds <= tol * self.error_scale).all():
            return True
        # Predictions are exact where y = 0, for which w = 0 is exact, or X = 0.
        inexact = (self.error_scale > 0) & (self.error_scale < FLOAT64_MAX)
        return bool((bounds[inexact] <= tol * self.error_scale[inexact]).all())

    @property
    def can_quantize(self) -> bool:
        """True if X can be quantised, and alpha is large enough for the copy to be accurate enough.

        The expected quantisation error ||E||_F^2 has to be below half of the smallest alpha.
        """
        # An estimate of `QuantizedMatrix.squared_error_bound` for normally distributed entries.
        squared_error = 1e-9 * float((self.column_norms**2).sum())
        return self.design.can_quantize and squared_error < 0.5 * float(self.alphas.min())

    @property
    def gram_error_scale(self) -> Array:
        """Scales s (p,) of the rounding errors of X'X.

        The error of entry (i, j) is proportional to eps sqrt(s_i s_j). For centred rows s_j is the
        raw norm of column j times its centred norm. Otherwise it is the square of the raw norm,
        because X'X is a difference of raw sums.
        """
        return self.raw_column_norms * (
            self.safe_column_norms if self.centers_rows else self.raw_column_norms
        )

    @property
    def centers_rows(self) -> bool:
        """True if Gram matrices are formed from centred rows, which avoids cancellation."""
        return self.design.storage.centers_rows

    @property
    def uses_compiled_loops(self) -> bool:
        """True if compiled loops form products with X; other work should then avoid BLAS too.

        The threads of BLAS spin for a while after each call, on the cores that the loops need.
        """
        return self.design.storage.max_compiled_columns > 0

    @cached_property
    def distinct_alphas(self) -> Array:
        """The sorted distinct alphas."""
        if (self.alphas == self.alphas[:1]).all():
            return self.alphas[:1]
        return np.unique(self.alphas)

    @property
    def alpha_groups(self) -> list[tuple[float, slice | NDArray[np.bool_]]]:
        """Each distinct alpha with the index of its targets: a mask (t,), or a slice for all."""
        if len(self.distinct_alphas) == 1:
            return [(float(self.alphas[0]), slice(None))]
        return [(float(alpha), self.alphas == alpha) for alpha in self.distinct_alphas]

    def gram(self) -> Array:
        """X'X (p, p) in float64; one pass on first use, then cached."""
        return self.gram_cache.gram(self.design)

    def row_gram(self) -> Array:
        """X X' (n, n) in float64; `Storage.row_gram_passes` passes on first use, then cached."""
        return self.gram_cache.kernel(self.design)

    def gradient(self, W: Array) -> tuple[Array, Array]:
        """X'(Y - X W) - W diag(alphas) (p, t), and ||y - X w|| (t,); one pass in float64."""
        G, squares = self.design.residual_gradient(W, self.targets)
        return G - W * self.alphas, np.sqrt(squares)

    def residual_squares(self, W: Array) -> Array:
        """||y - X w||^2 (t,); from X'X if it is there and the difference does not cancel.

        Otherwise one pass.
        """
        gram = self.gram_cache.formed_gram
        if gram is not None:
            twice = 2 * self.moments - gram @ W
            squares = self.target_norms**2 - np.einsum("ij,ij->j", W, twice)
            if (squares > CANCELLATION_THRESHOLD * self.target_norms**2).all():
                return np.asarray(squares)
        return np.asarray(self.gradient(W)[1] ** 2)

    def residual_norms(self, W: Array) -> tuple[Array, Array]:
        """||y - X w|| (t,), and bounds (t,) on its rounding error; at most one pass.

        The expansion into sums of squares that X'X allows is used if its rounding is small beside
        the result. The sums are of terms as large as y and X before centring.
        """
        n, p = self.shape
        sizes = self.raw_target_norms + self.fitted_norm_bounds(W)
        squares, rounding = self.residual_squares(W), 4 * sum_noise(n) * sizes**2
        if (
            self.gram_cache.formed_gram is not None
            and (rounding <= MAX_EXPANSION_ERROR * squares).all()
        ):
            norms = np.sqrt(squares)
            return norms, np.divide(rounding, norms, out=np.zeros_like(norms), where=norms > 0)
        norms = self.gradient(W)[1]
        return norms, sum_noise(p) * sizes + sum_noise(n) * norms

    def quantize(self) -> QuantizedMatrix:
        """X, centred and weighted, quantised to 16-bit integers; one pass."""
        root_mean_squares = self.safe_column_norms / np.sqrt(self.shape[0])
        copy = self.design.quantize(np.where(root_mean_squares > 0, root_mean_squares, 1.0))
        log.info("Iterations are done on a copy of X in 16-bit integers.")
        return copy

    def metered_gram_matmat(self, copy: QuantizedMatrix) -> Callable[[Array], Array]:
        """Function V -> Z'(Z V) for the quantised copy Z, metered as one pass per column of V."""

        def gram(V: Array) -> Array:
            n_columns = V.shape[1]
            self.design.meter.add(2.0 * self.design.matvec_flops * n_columns, float(n_columns))
            return copy.gram_matmat(V)

        return gram


@register_plain
@dataclass(frozen=True, eq=False)
class Standardization:
    """Means and scales of X and Y, which convert coefficients to the units of the data.

    Apart from weights, the problem is that of (X - x_mean) / x_scale and (Y - y_mean) / y_scale.
    `x_mean` is (p,), `y_mean` and `y_scale` are (t,); the scales are powers of two. `total_weight`
    is the sum of all weights, and `n_counted` the number of samples with a weight above 0.
    """

    x_mean: Array
    y_mean: Array
    x_scale: float
    y_scale: Array
    total_weight: float
    n_counted: int

    def coef(self, W: Array) -> Array:
        """Coefficients (p, t) in the units of the data; infinite where float64 overflows."""
        if self.x_scale == 1.0 and (self.y_scale == 1.0).all():
            return W
        with np.errstate(over="ignore"):
            return W * (self.y_scale / self.x_scale)

    def intercept(self, coef: Array) -> Array:
        """Intercepts (t,) for coefficients (p, t), in the units of the data: y_mean - x_mean'w."""
        return np.asarray(self.y_mean - self.x_mean @ coef)


@dataclass(frozen=True, eq=False)
class TermSizes:
    """Sizes of the terms of sums with coefficients, to which rounding errors are proportional.

    Attributes
    ----------
    fitted_norms : array of shape (t,)
        sum_j ||x_j|| |w_j|, with column norms before centring; see `Problem.fitted_norm_bounds`.
    offsets : array of shape (t,)
        |y_mean| + sum_j |x_mean_j w_j|: the terms of the intercept, in the units of the problem.
    """

    fitted_norms: Array
    offsets: Array

    @classmethod
    def of(cls, problem: Problem, standardization: Standardization, W: Array) -> TermSizes:
        """The sizes for coefficients W (p, t) of the problem, or (k, p, t) for (k, t) sizes."""
        x_mean, y_mean = standardization.x_mean, standardization.y_mean
        means = np.abs(x_mean) / standardization.x_scale
        with np.errstate(over="ignore", invalid="ignore"):  # such coefficients are not certified
            sums = weighted_magnitudes(np.stack([problem.raw_column_norms, means]), W)
        return cls(sums[..., 0, :], np.abs(y_mean) / standardization.y_scale + sums[..., 1, :])


def intercept_error(problem: Problem, standardization: Standardization, sizes: TermSizes) -> Array:
    """Bound (t,) on the prediction error that the intercept's rounding causes, relative to ||y||.

    An error of the intercept moves all predictions by the same amount. It has two sources: the
    means are sums of n terms, and y_mean - x_mean'coef is a sum of p + 1 terms. Each is off by
    `sum_noise` times the magnitude of its terms. `sizes` may be (k, t), for a bound (k, t).
    """
    n, p = problem.shape
    error = sum_noise(p) * math.sqrt(standardization.total_weight) * sizes.offsets
    error += sum_noise(n) * (problem.target_norms + sizes.fitted_norms)
    return relative_to_target_norm(problem, error)


def relative_to_target_norm(problem: Problem, error: Array) -> Array:
    """`error` (t,) divided by ||y||; 0 where the centred y is 0, because its intercept is exact."""
    norms = problem.target_norms
    return np.divide(error, norms, out=np.zeros_like(error), where=norms > 0)


def build_problem(
    data: TrainingData, alphas: Array, fit_intercept: bool
) -> tuple[Problem, Standardization]:
    """Build the problem for data and alphas (t,); one pass for the means, X'Y and norms.

    If p > n and X'Y takes long, it is formed on first use.

    Non-finite entries of X make these sums non-finite, so no separate pass has to look for them.
    """
    storage, weights = data.design.storage, data.weights
    n, p = storage.shape
    Y: Array = np.asarray(data.targets, dtype=np.float64)
    # Only another dtype is certain to be a copy: asarray may return a view of the user's y.
    is_copy = data.targets.dtype != np.float64
    with np.errstate(over="ignore"):
        raw_target_norms = weighted_column_norms(Y, weights)
    if not np.isfinite(raw_target_norms).all():
        raise NonFiniteError("y", "the norm of `y` overflows float64", "divide `y` by a constant")
    total_weight = float(n) if weights is None else float(weights.sum())
    n_counted = n if weights is None else int(np.count_nonzero(weights))
    y_mean: Array = np.zeros(Y.shape[1])
    if fit_intercept:
        y_mean, Y = center_targets_exactly(Y, weights, total_weight, is_copy)
    weighted = Y if weights is None else weights[:, None] * Y
    # For p > n, X X' may be all that is needed.
    needs_moments = p <= n or not storage.has_costly_products(Y.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite sums are rejected
        sums, products, squares = storage.moments(
            weights, weighted if needs_moments else weighted[:, :0]
        )
    check_sums_finite(storage, products, sums, squares)
    x_mean = sums / total_weight if fit_intercept else np.zeros(p)
    if needs_moments:
        # Without rounding the centred y would sum to 0, and this term would vanish. A large x_mean
        # magnifies the rounding error of the sum, so the term is subtracted.
        products = subtract_outer(products, x_mean[:, None], weighted.sum(axis=0)[None])
    del weighted
    # Without rounding, squares >= total_weight x_mean^2 by the Cauchy-Schwarz inequality.
    squares = np.maximum(squares, total_weight * x_mean**2)
    norms = np.sqrt(squares - total_weight * x_mean**2)
    x_scale, y_scale = power_of_two_scales(np.sqrt(squares), raw_target_norms, alphas)
    alphas = scale_alphas(alphas, x_scale)
    scale = None if x_scale == 1.0 else np.full(p, 1.0 / x_scale)
    design = data.design
    if fit_intercept or weights is not None or scale is not None:
        shift = x_mean if fit_intercept else None
        design = design.standardized(shift, scale, weights)
    problem = Problem(
        design,
        scaled_targets(Y, weights, y_scale, is_copy or fit_intercept),
        _divide_in_place(products, x_scale, y_scale) if needs_moments else None,
        alphas,
        norms / x_scale,
        np.sqrt(squares) / x_scale,
        raw_target_norms / y_scale,
    )
    n_products = 2 + products.shape[1]
    problem.design.meter.add(n_products * storage.matvec_flops, 1.0)
    return problem, Standardization(x_mean, y_mean, x_scale, y_scale, total_weight, n_counted)


def _divide_in_place(moments: Array, x_scale: float, y_scale: Array) -> Array:
    """X'Y (p, t) divided by the scales of X and Y, which are 1 for most data."""
    if x_scale != 1.0:
        moments /= x_scale
    if (y_scale != 1.0).any():
        moments /= y_scale
    return moments


def scale_alphas(alphas: Array, x_scale: float) -> Array:
    """The alphas for X / x_scale: alphas / x_scale^2; NonFiniteError on over- or underflow."""
    if x_scale == 1.0:
        return alphas
    with np.errstate(over="ignore"):
        scaled = alphas / x_scale / x_scale
    if not np.isfinite(scaled).all() or ((scaled == 0) & (alphas > 0)).any():
        raise NonFiniteError(
            "alpha",
            f"`alpha` is {alphas.max():.3g} and the entries of `X` are about {x_scale:.3g}: "
            "`alpha` divided by their square overflows or underflows in float64",
            "multiply `X` by a constant and `alpha` by its square",
        )
    return scaled


def power_of_two_scales(
    column_norms: Array, target_norms: Array, alphas: Array
) -> tuple[float, Array]:
    """Powers of two by which X (one for all columns) and the targets (t,) are divided.

    With them squares, and squares of squares, stay in the range of float64.
    """
    x_scale = _power_of_two_scale(float(column_norms.max(initial=0.0)))
    min_scale = math.sqrt(float(alphas.max(initial=0.0))) * MIN_SCALE_TO_ROOT_ALPHA
    x_scale = max(x_scale, _power_of_two_scale(min_scale)) if min_scale > x_scale else x_scale
    return x_scale, np.array([_power_of_two_scale(norm) for norm in target_norms.tolist()])


def _power_of_two_scale(size: float) -> float:
    """The power of two nearest to `size`, or 1 if `size` is 0 or within UNSCALED_RANGE."""
    if size == 0 or UNSCALED_RANGE[0] <= size <= UNSCALED_RANGE[1]:
        return 1.0
    largest_exponent = np.finfo(np.float64).maxexp - 1
    return 2.0 ** min(round(math.log2(size)), largest_exponent)


def check_sums_finite(storage: Any, *sums: Array) -> None:
    """Raise NonFiniteError if one of these sums over X is not finite.

    The error names the entry of X that is not finite, if there is one.
    """
    if all(np.isfinite(array).all() for array in sums):
        return
    storage.check_finite(1e150)  # sums of squares of larger entries may overflow
    raise NonFiniteError(
        "X",
        "the sums of `X`, or of `X` and `y`, overflow float64",
        "divide `X`, `y` or `sample_weight` by a constant",
    )
