"""One ridge problem, ready to be solved: X and y centred and weighted, and what a pass can tell."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import Design, QuantizedMatrix
from ling.design.arrays import FLOAT64_MAX
from ling.errors import NotFinite
from ling.linalg.rounding import sum_noise
from ling.solvers.gram_cache import GramCache

log = logging.getLogger("ling")
# Outside of this range squares, and squares of squares, would leave float64; X and y are rescaled.
UNSCALED_RANGE = 1e-25, 1e25
# Sums of squares in this range have lost nothing to underflow or overflow.
SAFE_SQUARES_RANGE = 1e-200, 1e200
# Units of X are at least this much of sqrt(alpha), so that alpha stays in range as well.
MIN_SCALE_TO_ROOT_ALPHA = 1e-145


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The validated data of a fit.

    Attributes
    ----------
    X : array, sparse matrix or Storage of shape (n, p)
        What splitters and scorers are given.
    design : Design
        X, neither centred nor weighted. Its meter counts the passes of the fit.
    targets : array of shape (n, t)
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
    targets: Array
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
    """minimise ||Y - X W||^2 + sum_t alphas[t] ||W[:, t]||^2, without an intercept.

    `design` is X, centred and weighted and never materialised; `targets` is Y, likewise; `moments`
    is X'Y and `column_norms` those of X. `raw_column_norms` are the norms of X's columns, and
    `raw_target_norms` those of Y's, *before* centring: rounding errors are proportional to these.
    """

    design: Design
    targets: Array
    moments: Array
    alphas: Array
    column_norms: Array
    raw_column_norms: Array
    raw_target_norms: Array
    gram_cache: GramCache = field(default_factory=GramCache, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """n_samples, n_features."""
        return self.design.shape

    @property
    def n_targets(self) -> int:
        """Columns of Y."""
        return int(self.targets.shape[1])

    @cached_property
    def target_norms(self) -> Array:
        """||y||, target by target: what `tol` is relative to."""
        return _weighted_column_norms(self.targets, None)

    @cached_property
    def error_scale(self) -> Array:
        """The error sqrt(||X e||^2 + alpha ||e||^2) with which predictions may be off by ||y||.

        It is larger where alpha is: ||X e||^2 <= L / (L + alpha) of that square if X'X <= L I.
        """
        largest = float((self.safe_column_norms**2).sum())
        if largest == 0:  # predictions cannot be off at all
            return np.where(self.target_norms > 0, FLOAT64_MAX, 0.0)
        return np.asarray(self.target_norms * np.sqrt(1 + self.alphas / largest))

    @cached_property
    def safe_column_norms(self) -> Array:
        """Column norms that are not too small by rounding: they are differences of squares."""
        return np.asarray(
            np.sqrt(self.column_norms**2 + self._centering_noise * self.raw_column_norms**2)
        )

    @property
    def varying_columns(self) -> NDArray[np.bool_]:
        """Which columns are not constant, as far as rounding allows to tell."""
        return np.asarray(self.column_norms**2 > self._centering_noise * self.raw_column_norms**2)

    @property
    def _centering_noise(self) -> float:
        """What rounding may leave of a column's square when its mean is taken, in parts of it."""
        return 1e-14 + 4 * sum_noise(self.shape[0])

    def is_within_tol(self, bounds: Array, tol: float) -> bool:
        """Whether errors of at most `bounds` leave all predictions within tol."""
        if (bounds <= tol * self.error_scale).all():
            return True
        real = (self.error_scale > 0) & (
            self.error_scale < FLOAT64_MAX
        )  # others cannot be off at all
        return bool((bounds[real] <= tol * self.error_scale[real]).all())

    @property
    def can_quantize(self) -> bool:
        """Whether a short copy of X is likely to be near enough, as alpha is not too small."""
        error = 1e-9 * float((self.column_norms**2).sum())  # of normally distributed numbers
        return self.design.can_quantize and error < 0.5 * float(self.alphas.min())

    @property
    def gram_error_scale(self) -> Array:
        """What the rounding of X'X, in units of eps, is proportional to, column by column."""
        return self.raw_column_norms * (
            self.safe_column_norms if self.centers_rows else self.raw_column_norms
        )

    @property
    def centers_rows(self) -> bool:
        """Whether Gram matrices are made from centred rows."""
        return self.design.storage.centers_rows

    @property
    def uses_compiled_loops(self) -> bool:
        """Whether products with X are done by compiled loops, so that other work should be too.

        BLAS lets its threads spin for a while after each call, on the cores that the loops need.
        """
        return self.design.storage.max_compiled_columns > 0

    @cached_property
    def distinct_alphas(self) -> Array:
        """The alphas, each once."""
        if (self.alphas == self.alphas[:1]).all():
            return self.alphas[:1]
        return np.unique(self.alphas)

    def gram(self) -> Array:
        """X'X in float64, made once; one pass."""
        if self.gram_cache.gram is None:
            self.gram_cache.gram = self.design.gram(np.float64)
        return self.gram_cache.gram

    def row_gram(self) -> Array:
        """X X' in float64, made once; one pass."""
        if self.gram_cache.kernel is None:
            self.gram_cache.kernel = self.design.row_gram(np.float64)
        return self.gram_cache.kernel

    def gradient(self, W: Array) -> tuple[Array, Array]:
        """X'(Y - X W) - W diag(alphas), and the norms ||y - X w||; one pass in float64."""
        G, squares = self.design.residual_gradient(W, self.targets)
        return G - W * self.alphas, np.sqrt(squares)

    def quantize(self) -> QuantizedMatrix:
        """X, centred and weighted, in integers of 16 bits; one pass."""
        sizes = self.safe_column_norms / np.sqrt(self.shape[0])
        copy = self.design.quantize(np.where(sizes > 0, sizes, 1.0))
        log.info("Iterations are done on a copy of X in 16-bit integers.")
        return copy

    def metered_gram_matmat(self, copy: QuantizedMatrix) -> Callable[[Array], Array]:
        """V -> Z'(Z V) for the copy Z, counted like passes over X."""

        def gram(V: Array) -> Array:
            columns = V.shape[1]
            self.design.meter.add(2.0 * self.design.matvec_flops * columns, float(columns))
            return copy.gram_matmat(V)

        return gram


@dataclass(frozen=True, eq=False)
class Standardization:
    """How a problem's coefficients become those of the data as given, and their intercept.

    `total_weight` is the sum of all weights, and `n_counted` the number of samples with any.
    """

    x_mean: Array
    y_mean: Array
    x_scale: float
    y_scale: Array
    total_weight: float
    n_counted: int

    def coef(self, W: Array) -> Array:
        """(p, t) coefficients in the units of the data; infinite where these are too large."""
        with np.errstate(over="ignore"):
            return W * (self.y_scale / self.x_scale)

    def intercept(self, coef: Array) -> Array:
        """ybar - xbar'coef."""
        return np.asarray(self.y_mean - self.x_mean @ coef)


def intercept_error(problem: Problem, standardization: Standardization, W: Array) -> Array:
    """Bound on the rounding error of the intercept, in units of y's norm, for W (p, t).

    It moves all predictions by the same amount. The means are sums, which are off by a few
    roundings of their terms; ybar - xbar'coef adds a rounding for each of its terms.
    """
    coef = standardization.coef(W)
    offsets = np.abs(standardization.y_mean) + np.abs(standardization.x_mean) @ np.abs(coef)
    error = (
        sum_noise(len(coef))
        * offsets
        / standardization.y_scale
        * np.sqrt(standardization.total_weight)
    )
    error += sum_noise(problem.shape[0]) * (
        problem.target_norms + problem.raw_column_norms @ np.abs(W)
    )
    return relative_to_target_norm(problem, error)


def relative_to_target_norm(problem: Problem, error: Array) -> Array:
    """`error` in units of ||y||; 0 where y is constant, whose intercept is exact."""
    spread = problem.target_norms
    return np.divide(error, spread, out=np.zeros_like(error), where=spread > 0)


def build_problem(
    data: TrainingData, alphas: Array, fit_intercept: bool
) -> tuple[Problem, Standardization]:
    """The problem of the data with one alpha per target; one pass for means, X'Y and norms.

    Non-finite data show in those sums, so there is no pass to look for them.
    """
    storage, weights = data.design.storage, data.weights
    n, p = storage.shape
    Y: Array = np.asarray(data.targets, dtype=np.float64)
    with np.errstate(over="ignore"):
        raw_target_norms = _weighted_column_norms(Y, weights)
    if not np.isfinite(raw_target_norms).all():
        raise NotFinite("the norm of y leaves the range of float64; divide y by a constant.")
    total_weight = float(n) if weights is None else float(weights.sum())
    counted = n if weights is None else int(np.count_nonzero(weights))
    y_mean: Array = np.zeros(Y.shape[1])
    if fit_intercept:
        y_mean, Y = center_targets(Y, weights, total_weight)
        # The mean of what is left: then y_mean is off by about one rounding of itself.
        left = _weighted_mean(Y, weights, total_weight)
        Y -= left
        y_mean = y_mean + left
    weighted = Y if weights is None else weights[:, None] * Y
    sums, products, squares = storage.moments(weights, weighted)
    check_sums_finite(storage, products, sums, squares)
    x_mean = sums / total_weight if fit_intercept else np.zeros(p)
    # Centred y sums to zero but for rounding, which a large x_mean would blow up.
    moments = products - np.outer(x_mean, weighted.sum(axis=0))
    squares = np.maximum(squares, total_weight * x_mean**2)  # as they would be without rounding
    norms = np.sqrt(squares - total_weight * x_mean**2)
    x_scale = _power_of_two_scale(np.sqrt(squares.max(initial=0.0)))
    root = float(np.sqrt(alphas.max(initial=0.0))) * MIN_SCALE_TO_ROOT_ALPHA
    x_scale = max(x_scale, _power_of_two_scale(root)) if root > x_scale else x_scale
    y_scale = np.array([_power_of_two_scale(size) for size in raw_target_norms])
    alphas = _scale_alphas(alphas, x_scale)
    scale = None if x_scale == 1.0 else np.full(p, 1.0 / x_scale)
    design = data.design
    if fit_intercept or weights is not None or scale is not None:
        shift = x_mean if fit_intercept else None
        design = design.standardized(shift, scale, weights)
    targets = Y if weights is None else np.sqrt(weights)[:, None] * Y
    problem = Problem(
        design,
        targets / y_scale if (y_scale != 1.0).any() else targets,
        moments / x_scale / y_scale,
        alphas,
        norms / x_scale,
        np.sqrt(squares) / x_scale,
        raw_target_norms / y_scale,
    )
    problem.design.meter.add((Y.shape[1] + 2) * storage.matvec_flops, 1.0)
    return problem, Standardization(x_mean, y_mean, x_scale, y_scale, total_weight, counted)


def center_targets(Y: Array, weights: Array | None, total_weight: float) -> tuple[Array, Array]:
    """The weighted mean of every target, rounded, and Y without it; 0 for a constant target."""
    with np.errstate(over="ignore", invalid="ignore"):
        y_mean = _weighted_mean(Y, weights, total_weight)
        centered = Y - y_mean
    if not np.isfinite(y_mean).all():
        raise NotFinite("the sum of y leaves the range of float64; divide y by a constant.")
    # The rounded mean of a constant target may differ from it.
    constant = _constant_columns(centered, weights)
    first = 0 if weights is None else int(np.argmax(weights > 0))
    y_mean[constant] = Y[first, constant]
    centered[:, constant] = Y[:, constant] - Y[first, constant]
    return y_mean, centered


def _weighted_mean(Y: Array, weights: Array | None, total_weight: float) -> Array:
    return np.asarray(Y.mean(axis=0) if weights is None else weights @ Y / total_weight)


def _constant_columns(Y: Array, weights: Array | None) -> NDArray[np.bool_]:
    """Which columns hold one value only, in all rows with a weight above 0."""
    rows = None if weights is None else np.flatnonzero(weights)
    some = Y if rows is None else Y[rows[:: max(1, len(rows) // 2)]]
    few = some[:: max(1, len(some) // 2)]
    constant = np.asarray((few == few[0]).all(axis=0))
    if constant.any():  # few targets need a look at all of their rows
        candidates = Y[:, constant] if rows is None else Y[:, constant][rows]
        constant[constant] = np.ptp(candidates, axis=0) == 0
    return constant


def _scale_alphas(alphas: Array, x_scale: float) -> Array:
    with np.errstate(over="ignore"):
        scaled = alphas / x_scale / x_scale
    if not np.isfinite(scaled).all() or ((scaled == 0) & (alphas > 0)).any():
        raise NotFinite(
            f"alpha = {alphas.max():.3g} with X of size {x_scale:.3g} leaves the range of float64; "
            "multiply X by a constant, and alpha by its square."
        )
    return scaled


def _weighted_column_norms(Y: Array, weights: Array | None) -> Array:
    """sqrt(sum_i w_i y_i^2), column by column, whatever the size of y."""
    squares = np.einsum("ij,ij->j", Y, Y if weights is None else weights[:, None] * Y)
    if ((squares > SAFE_SQUARES_RANGE[0]) & (squares < SAFE_SQUARES_RANGE[1])).all():
        return np.asarray(np.sqrt(squares))
    largest = np.abs(Y).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    squares = (Y / unit) ** 2
    return np.asarray(unit * np.sqrt(squares.sum(axis=0) if weights is None else weights @ squares))


def _power_of_two_scale(size: float) -> float:
    """1, or the power of two nearest to `size` where that is too far from 1 to work with."""
    if size == 0 or UNSCALED_RANGE[0] <= size <= UNSCALED_RANGE[1]:
        return 1.0
    largest_exponent = np.finfo(np.float64).maxexp - 1
    return 2.0 ** min(round(float(np.log2(size))), largest_exponent)


def check_sums_finite(storage: Any, *sums: Array) -> None:
    """Raise NotFinite if a sum over X is not finite, naming the entry of X that caused it."""
    if all(np.isfinite(some).all() for some in sums):
        return
    storage.check_finite(1e150)
    raise NotFinite(
        "the sums of X, or of X and y, leave the range of float64; divide X, y or "
        "sample_weight by a constant."
    )
