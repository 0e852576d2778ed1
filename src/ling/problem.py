"""One ridge problem, ready to be solved: X and y centred and weighted, and what a pass can tell."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.design import AffineDesign, Array, Design, Metered, RowMap, ShortCopy, as_design
from ling.design.affine import storage_and_map
from ling.design.arrays import LARGEST
from ling.errors import NotFinite
from ling.minorant import sum_noise

log = logging.getLogger("ling")
# Outside of this range squares, and squares of squares, would leave float64; X and y are rescaled.
USABLE = 1e-25, 1e25
# Sums of squares in this range have lost nothing to underflow or overflow.
SAFE = 1e-200, 1e200
# Units of X are at least this much of sqrt(alpha), so that alpha stays in range as well.
LEAST_UNIT = 1e-145


@dataclass(frozen=True, eq=False)
class Problem:
    """minimise ||Y - X W||^2 + sum_t alphas[t] ||W[:, t]||^2, without an intercept.

    `design` is X, centred and weighted and never materialised; `targets` is Y, likewise;
    `moments` is X'Y and `column_norms` those of X. `raw_norms` are the norms of X's columns, and
    `raw_spread` those of Y's, *before* centring: rounding errors are proportional to these.
    """

    design: Metered
    targets: Array
    moments: Array
    alphas: Array
    column_norms: Array
    raw_norms: Array
    raw_spread: Array
    # What is made of X alone, and stays with it when alphas change.
    made: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """n_samples, n_features."""
        return self.design.shape

    @property
    def n_targets(self) -> int:
        """Columns of Y."""
        return int(self.targets.shape[1])

    @cached_property
    def spread(self) -> Array:
        """||y||, target by target: what `tol` is relative to."""
        return _norms(self.targets, None)

    @cached_property
    def unit(self) -> Array:
        """The error sqrt(||X e||^2 + alpha ||e||^2) with which predictions may be off by ||y||.

        It is larger where alpha is: ||X e||^2 <= L / (L + alpha) of that square if X'X <= L I.
        """
        largest = float((self.safe_norms**2).sum())
        if largest == 0:  # predictions cannot be off at all
            return np.where(self.spread > 0, LARGEST, 0.0)
        return np.asarray(self.spread * np.sqrt(1 + self.alphas / largest))

    @cached_property
    def safe_norms(self) -> Array:
        """Column norms that are not too small by rounding: they are differences of squares."""
        return np.asarray(np.sqrt(self.column_norms**2 + self._noise * self.raw_norms**2))

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which columns are not constant, as far as rounding allows to tell."""
        return np.asarray(self.column_norms**2 > self._noise * self.raw_norms**2)

    @property
    def _noise(self) -> float:
        """What rounding may leave of a column's square when its mean is taken, in parts of it."""
        return 1e-14 + 4 * sum_noise(self.shape[0])

    def within(self, bounds: Array, tol: float) -> bool:
        """Whether errors of at most `bounds` leave all predictions within tol."""
        if (bounds <= tol * self.unit).all():
            return True
        real = (self.unit > 0) & (self.unit < LARGEST)  # others cannot be off at all
        return bool((bounds[real] <= tol * self.unit[real]).all())

    @property
    def can_shorten(self) -> bool:
        """Whether a short copy of X is likely to be near enough, as alpha is not too small."""
        storage, affine = storage_and_map(self.design.design)
        error = 1e-9 * float((self.column_norms**2).sum())  # of normally distributed numbers
        return storage.shortens(affine) and error < 0.5 * float(self.alphas.min())

    @property
    def gram_squares(self) -> Array:
        """What the rounding of X'X, in units of eps, is proportional to, column by column."""
        return self.raw_norms * (self.safe_norms if self.centres_rows else self.raw_norms)

    @property
    def centres_rows(self) -> bool:
        """Whether Gram matrices are made from centred rows."""
        return storage_and_map(self.design.design)[0].centres_rows

    @property
    def compiled(self) -> bool:
        """Whether products with X are done by compiled loops, so that other work should be too.

        BLAS lets its threads spin for a while after each call, on the cores that the loops need.
        """
        storage, _ = storage_and_map(self.design.design)
        return storage.compiled_columns > 0

    @cached_property
    def distinct_alphas(self) -> Array:
        """The alphas, each once."""
        if (self.alphas == self.alphas[:1]).all():
            return self.alphas[:1]
        return np.unique(self.alphas)

    def gram(self) -> Array:
        """X'X in float64, made once; one pass."""
        if "gram" not in self.made:
            self.made["gram"] = self.design.gram(np.float64)
        return np.asarray(self.made["gram"])

    def row_gram(self) -> Array:
        """X X' in float64, made once; one pass."""
        if "row gram" not in self.made:
            self.made["row gram"] = self.design.row_gram(np.float64)
        return np.asarray(self.made["row gram"])

    def gradient(self, W: Array) -> tuple[Array, Array]:
        """X'(Y - X W) - W diag(alphas), and the norms ||y - X w||; one pass in float64."""
        residual = RowMap.of(1.0, self.targets, -1.0, whole=False)
        G = self.design.gram_matmat(W, residual)
        return G - W * self.alphas, np.sqrt(residual.squares)

    def short_copy(self) -> ShortCopy:
        """X, centred and weighted, in integers of 16 bits; one pass."""
        storage, affine = storage_and_map(self.design.design)
        sizes = self.safe_norms / np.sqrt(self.shape[0])
        copy = storage.shortened(affine, np.where(sizes > 0, sizes, 1.0))
        self.design.meter.add(0.0, 1.0)
        log.info("Iterations are done on a copy of X in 16-bit integers.")
        return copy

    def gram_of(self, copy: ShortCopy) -> Callable[[Array], Array]:
        """V -> Z'(Z V) for the copy Z, counted like passes over X."""

        def gram(V: Array) -> Array:
            columns = V.shape[1]
            self.design.meter.add(2.0 * self.design.matvec_flops * columns, float(columns))
            return copy.gram_matmat(V)

        return gram


@dataclass(frozen=True, eq=False)
class Centring:
    """How a problem's coefficients become those of the data as given, and their intercept.

    `mass` is the sum of all weights, and `n_counted` the number of samples with any.
    """

    x_mean: Array
    y_mean: Array
    x_unit: float
    y_unit: Array
    mass: float
    n_counted: int

    def coef(self, W: Array) -> Array:
        """(p, t) coefficients in the units of the data; infinite where these are too large."""
        with np.errstate(over="ignore"):
            return W * (self.y_unit / self.x_unit)

    def intercept(self, coef: Array) -> Array:
        """ybar - xbar'coef."""
        return np.asarray(self.y_mean - self.x_mean @ coef)


def intercept_error(problem: Problem, centring: Centring, W: Array) -> Array:
    """Bound on the rounding error of the intercept, in units of y's norm, for W (p, t).

    It moves all predictions by the same amount. The means are sums, which are off by a few
    roundings of their terms; ybar - xbar'coef adds a rounding for each of its terms.
    """
    coef = centring.coef(W)
    offsets = np.abs(centring.y_mean) + np.abs(centring.x_mean) @ np.abs(coef)
    error = sum_noise(len(coef)) * offsets / centring.y_unit * np.sqrt(centring.mass)
    error += sum_noise(problem.shape[0]) * (problem.spread + problem.raw_norms @ np.abs(W))
    return relative_shift(problem, error)


def relative_shift(problem: Problem, error: Array) -> Array:
    """`error` in units of ||y||; 0 where y is constant, whose intercept is exact."""
    spread = problem.spread
    return np.divide(error, spread, out=np.zeros_like(error), where=spread > 0)


def build(
    X: Any, Y: Array, alphas: Array, weights: Array | None, fit_intercept: bool
) -> tuple[Problem, Centring]:
    """The problem that data, alphas and weights stand for; one pass for means, X'Y and norms.

    Non-finite data show in those sums, so there is no pass to look for them.
    """
    storage, _ = storage_and_map(as_design(X))
    n, p = storage.shape
    Y = np.asarray(Y, dtype=np.float64)
    with np.errstate(over="ignore"):
        raw_spread = _norms(Y, weights)
    if not np.isfinite(raw_spread).all():
        raise NotFinite("the norm of y leaves the range of float64; divide y by a constant.")
    mass = float(n) if weights is None else float(weights.sum())
    counted = n if weights is None else int(np.count_nonzero(weights))
    y_mean: Array = np.zeros(Y.shape[1])
    if fit_intercept:
        y_mean, Y = center_targets(Y, weights, mass)
        # The mean of what is left: then y_mean is off by about one rounding of itself.
        left = _mean(Y, weights, mass)
        Y -= left
        y_mean = y_mean + left
    weighted = Y if weights is None else weights[:, None] * Y
    sums, products, squares = storage.moments(weights, weighted)
    _refuse_not_finite(storage, products, sums, squares)
    x_mean = sums / mass if fit_intercept else np.zeros(p)
    # Centred y sums to zero but for rounding, which a large x_mean would blow up.
    moments = products - np.outer(x_mean, weighted.sum(axis=0))
    squares = np.maximum(squares, mass * x_mean**2)  # as they would be without rounding
    norms = np.sqrt(squares - mass * x_mean**2)
    x_unit = _unit(np.sqrt(squares.max(initial=0.0)))
    root = float(np.sqrt(alphas.max(initial=0.0))) * LEAST_UNIT
    x_unit = max(x_unit, _unit(root)) if root > x_unit else x_unit
    y_unit = np.array([_unit(size) for size in raw_spread])
    alphas = _in_units(alphas, x_unit)
    scale = None if x_unit == 1.0 else np.full(p, 1.0 / x_unit)
    design: Design = storage
    if fit_intercept or weights is not None or scale is not None:
        shift = x_mean if fit_intercept else None
        design = AffineDesign.standardised(storage, shift, scale, weights)
    targets = Y if weights is None else np.sqrt(weights)[:, None] * Y
    problem = Problem(
        Metered(design),
        targets / y_unit if (y_unit != 1.0).any() else targets,
        moments / x_unit / y_unit,
        alphas,
        norms / x_unit,
        np.sqrt(squares) / x_unit,
        raw_spread / y_unit,
    )
    problem.design.meter.add((Y.shape[1] + 2) * storage.matvec_flops, 1.0)
    return problem, Centring(x_mean, y_mean, x_unit, y_unit, mass, counted)


def center_targets(Y: Array, weights: Array | None, mass: float) -> tuple[Array, Array]:
    """The weighted mean of every target, rounded, and Y without it; 0 for a constant target."""
    with np.errstate(over="ignore", invalid="ignore"):
        y_mean = _mean(Y, weights, mass)
        centered = Y - y_mean
    if not np.isfinite(y_mean).all():
        raise NotFinite("the sum of y leaves the range of float64; divide y by a constant.")
    # The rounded mean of a constant target may differ from it.
    constant = _constant_columns(centered if weights is None else centered[weights > 0])
    first = 0 if weights is None else int(np.argmax(weights > 0))
    y_mean[constant] = Y[first, constant]
    centered[:, constant] = Y[:, constant] - Y[first, constant]
    return y_mean, centered


def _mean(Y: Array, weights: Array | None, mass: float) -> Array:
    return np.asarray(Y.mean(axis=0) if weights is None else weights @ Y / mass)


def _constant_columns(Y: Array) -> NDArray[np.bool_]:
    """Which columns hold one value only."""
    constant = np.asarray((Y[0] == Y[-1]) & (Y[0] == Y[len(Y) // 2]))
    if constant.any():  # most targets need no look at all of their rows
        constant[constant] = np.ptp(Y[:, constant], axis=0) == 0
    return constant


def _in_units(alphas: Array, x_unit: float) -> Array:
    with np.errstate(over="ignore"):
        scaled = alphas / x_unit / x_unit
    if not np.isfinite(scaled).all() or ((scaled == 0) & (alphas > 0)).any():
        raise NotFinite(
            f"alpha = {alphas.max():.3g} with X of size {x_unit:.3g} leaves the range of float64; "
            "multiply X by a constant, and alpha by its square."
        )
    return scaled


def _norms(Y: Array, weights: Array | None) -> Array:
    """sqrt(sum_i w_i y_i^2), column by column, whatever the size of y."""
    squares = np.einsum("ij,ij->j", Y, Y if weights is None else weights[:, None] * Y)
    if ((squares > SAFE[0]) & (squares < SAFE[1])).all():
        return np.asarray(np.sqrt(squares))
    largest = np.abs(Y).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    squares = (Y / unit) ** 2
    return np.asarray(unit * np.sqrt(squares.sum(axis=0) if weights is None else weights @ squares))


def _unit(size: float) -> float:
    """1, or the power of two nearest to `size` where that is too far from 1 to work with."""
    if size == 0 or USABLE[0] <= size <= USABLE[1]:
        return 1.0
    largest_exponent = np.finfo(np.float64).maxexp - 1
    return 2.0 ** min(round(float(np.log2(size))), largest_exponent)


def _refuse_not_finite(storage: Any, *sums: Array) -> None:
    if all(np.isfinite(some).all() for some in sums):
        return
    storage.refuse_not_finite(1e150)
    raise NotFinite(
        "the sums of X, or of X and y, leave the range of float64; divide X, y or "
        "sample_weight by a constant."
    )
