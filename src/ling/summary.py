"""All that ridge regression needs of rows that are gone: sums, to which rows can be added or taken.

With z = (x, y) a sample, w its weight and m the mean, the sums of w and of w (z - m)(z - m)' over
two sets of rows, a and b, give those over both (Chan, Golub & LeVeque 1983):

    S = S_a + S_b + g (m_b - m_a)(m_b - m_a)',    g = w_a w_b / (w_a + w_b)

and, with the signs of w_b and S_b changed, those over a without b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ling.design import AffineDesign, Array, as_design
from ling.design.affine import storage_and_map
from ling.design.base import Storage
from ling.design.gram import add_gram
from ling.errors import BadOption, NotFinite, WrongShape
from ling.minorant import sum_noise
from ling.problem import _refuse_not_finite, center_targets
from ling.report import Cost

# Bytes of rows that are centred together.
BLOCK = 2**25
# What is 0 for a single sample, its rounding too.
PRODUCTS = "gram", "cross", "squares", "peak"
NOT_PART = (
    "so this batch was not part of what was fitted. Remove rows with the values and weights that "
    "they were added with; the model is as it was."
)


@dataclass(frozen=True, eq=False)
class Summary:
    """Weight, mean and products of samples z = (x, y); vectors are of x, then y: (p + t,).

    gram = sum w (x - m_x)(x - m_x)', cross = sum w (x - m_x)(y - m_y)' and squares = sum w
    (y - m_y)^2; unless they are `centred`, m is 0. The mean m is `mean`, which is rounded, plus
    `rest`, so that a large one takes no digits from what is around it.

    Rounding stays when rows go: `n_summed` samples of weight `moved` were ever added or removed.
    gram is off by at most a few noise sqrt(peak_j peak_k), likewise cross and squares; the sums
    mass m by noise slip, and mass by noise moved.
    """

    mass: float
    n_counted: int
    centred: bool
    mean: Array
    rest: Array
    gram: Array
    cross: Array
    squares: Array
    n_summed: int
    moved: float
    peak: Array
    slip: Array

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
    def of(cls, X: Any, Y: Array, weights: Array | None = None, centred: bool = True) -> Summary:
        """Those of the rows of X and Y; two passes, n p^2 FLOPs, and no copy of X."""
        storage, _ = storage_and_map(as_design(X))
        n, p = storage.shape
        mass = float(n) if weights is None else float(weights.sum())
        counted = n if weights is None else int(np.count_nonzero(weights))
        y_mean, Y = _centred(np.asarray(Y, dtype=np.float64), weights, mass, centred)
        rough = _about_rounded_mean(storage, Y, weights, mass, centred)
        rest = rough.sums / mass if centred else np.zeros(len(rough.peak))
        rough.gram[...] -= mass * np.outer(rest[:p], rest[:p])
        rough.cross[...] -= mass * np.outer(rest[:p], rest[p:])
        squares = rough.peak[p:] - mass * rest[p:] ** 2
        slip = np.sqrt(mass) * np.sqrt(rough.peak) * centred
        _refuse_overflow(rough.peak, slip)
        return cls(
            mass, counted, centred, np.concatenate([rough.x_mean, y_mean]), rest,
            rough.gram, rough.cross, squares, counted, mass, rough.peak, slip,
        )  # fmt: skip

    @property
    def n_features(self) -> int:
        """p."""
        return len(self.gram)

    @property
    def n_targets(self) -> int:
        """t."""
        return len(self.squares)

    @property
    def x_mean(self) -> Array:
        """m_x."""
        return self.mean[: self.n_features]

    @property
    def y_mean(self) -> Array:
        """m_y."""
        return self.mean[self.n_features :]

    @property
    def diagonal(self) -> Array:
        """sum w (z - m)^2."""
        return np.concatenate([np.diag(self.gram), self.squares])

    @property
    def noise(self) -> float:
        """What rounding errors are, relative to `peak`, `slip` and `moved`."""
        return sum_noise(self.n_summed)

    def __add__(self, other: Summary) -> Summary:
        self._refuse_unlike(other)
        return self._joined(other, 1)

    def __sub__(self, other: Summary) -> Summary:
        self._refuse_unlike(other)
        if other.n_counted > self.n_counted:
            raise BadOption(
                f"remove=True has {other.n_counted} samples to remove and {self.n_counted} are "
                f"there, {NOT_PART}"
            )
        if other.n_counted == self.n_counted:
            raise BadOption(
                f"remove=True with {other.n_counted} samples leaves none; keep one at least, or "
                "start again with a new model."
            )
        if self.mass - other.mass <= self.noise * self.moved:
            raise BadOption(
                f"remove=True has samples of weight {other.mass:g} in all to remove and those that "
                f"are there have {self.mass:g}, {NOT_PART}"
            )
        left = self._joined(other, -1)
        below = np.flatnonzero(left.diagonal < -4 * left.noise * left.peak)
        if below.size:
            at, p = int(below[0]), self.n_features
            name = f"column {at} of X" if at < p else f"target {at - p} of y"
            raise BadOption(f"remove=True leaves {name} with squares below 0, {NOT_PART}")
        return left._alone() if left.centred and left.n_counted == 1 else left

    def _alone(self) -> Summary:
        """Without products: one sample is its own mean, whatever rounding says."""
        products = {name: np.zeros_like(getattr(self, name)) for name in PRODUCTS}
        return replace(self, **products)

    @np.errstate(over="ignore", invalid="ignore")  # likewise
    def _joined(self, other: Summary, sign: int) -> Summary:
        """With the rows of `other` (sign 1), or without them (sign -1)."""
        mass, moved = self.mass + sign * other.mass, self.moved + other.moved
        gap = (other.mean - self.mean) + (other.rest - self.rest)
        root = np.sqrt(self.mass / mass * other.mass)
        step = root * gap
        mean, rest = _two_sum(self.mean, self.rest + sign * (other.mass / mass) * gap)
        # Step is off by noise times this, because the means are; g is as far as the masses are.
        off = root * (self.slip / self.mass + other.slip / other.mass)
        peak = self.peak + other.peak + (np.sqrt(moved / mass) * np.abs(step) + off) ** 2
        slip = np.hypot(np.hypot(self.slip, other.slip), moved / mass * other.mass * gap)
        p = self.n_features
        _refuse_overflow(peak, slip)
        return Summary(
            mass, self.n_counted + sign * other.n_counted, self.centred, mean, rest,
            _changed(self.gram, other.gram, step[:p], step[:p], sign),
            _changed(self.cross, other.cross, step[:p], step[p:], sign),
            self.squares + sign * (other.squares + step[p:] ** 2),
            self.n_summed + other.n_summed, moved, peak, slip,
        )  # fmt: skip

    def _refuse_unlike(self, other: Summary) -> None:
        if other.n_targets != self.n_targets:
            raise WrongShape(
                f"y has {other.n_targets} targets in this batch and had {self.n_targets} before; "
                f"pass y with {self.n_targets}, or start again with a new model."
            )
        if other.centred is not self.centred:
            raise BadOption(
                f"fit_intercept is {other.centred} and was {self.centred} for the batches before, "
                f"whose sums are of no other use; set it back, or start again with a new model."
            )


@dataclass(frozen=True, eq=False)
class _Rough:
    """Products about (x_mean, y_mean), rounded means, and the sums that are left: (p + t,).

    Rounding of the products is relative to `peak`.
    """

    x_mean: Array
    gram: Array
    cross: Array
    sums: Array
    peak: Array


def summing_cost(X: Any, n_targets: int) -> Cost:
    """What `Summary.of` takes."""
    storage, _ = storage_and_map(as_design(X))
    return Cost(storage.gram_flops + (2 * n_targets + 3) * storage.matvec_flops, 2.0)


def _centred(Y: Array, weights: Array | None, mass: float, centred: bool) -> tuple[Array, Array]:
    """The mean of y, rounded, and y without it."""
    counted = Y if weights is None else Y[weights > 0]
    squares = np.einsum("ij,ij->j", Y, Y if weights is None else weights[:, None] * Y)
    if not np.isfinite(squares).all():
        raise NotFinite("the squares of y leave the range of float64; divide y by a constant.")
    if (counted.any(axis=0) & (squares == 0)).any():
        raise NotFinite(
            "y is so small that its squares leave the range of float64; multiply it by a constant, "
            "or pass 0."
        )
    if not centred:
        return np.zeros(Y.shape[1]), Y
    return center_targets(Y, weights, mass)


def _about_rounded_mean(
    storage: Storage, Y: Array, weights: Array | None, mass: float, centred: bool
) -> _Rough:
    """Y is centred already."""
    weighted = Y if weights is None else weights[:, None] * Y
    y_sums, squares = weighted.sum(axis=0), np.einsum("ij,ij->j", Y, weighted)
    x_sums, products, raw = storage.moments(weights, weighted)
    _refuse_not_finite(storage, products, x_sums, raw)
    if not raw.any() and storage.first_not_finite(0.0) is not None:
        raise NotFinite(
            "X is so small that its squares leave the range of float64; multiply it by a constant "
            "(and alpha by its square), or pass 0."
        )
    x_mean = x_sums / mass if centred else np.zeros_like(x_sums)
    if storage.is_dense and not storage.by_blocks:
        gram, cross, left = _by_blocks(storage, x_mean, Y, weights)
        peak = np.diag(gram)
    else:
        # Centring sparse rows would fill them up, and rows that lie elsewhere stay there: the map
        # is applied to weighted rows, or afterwards, so that raw squares count.
        shift = x_mean if centred else None
        gram = AffineDesign.standardised(storage, shift, weights=weights).gram(np.float64)
        cross = products - np.outer(x_mean, y_sums)
        left, peak = np.zeros_like(x_mean), raw
    sums, peak = np.concatenate([left, y_sums]), np.concatenate([peak, squares])
    return _Rough(x_mean, gram, cross, sums, peak)


def _by_blocks(
    storage: Storage, shift: Array, Y: Array, weights: Array | None
) -> tuple[Array, Array, Array]:
    """sum w (x - shift)(x - shift)', sum w (x - shift) y' and sum w (x - shift); one pass.

    Rows are centred before they are weighted: then rounding is relative to what is left of them.
    """
    n, p = storage.shape
    gram, cross, sums = np.zeros((p, p)), np.zeros((p, Y.shape[1])), np.zeros(p)
    height = max(1, BLOCK // (8 * max(1, p)))
    for start in range(0, n, height):
        rows = slice(start, min(start + height, n))
        block = storage.take(np.arange(rows.start, rows.stop)) - shift
        if weights is None:
            sums += block.sum(axis=0)
            cross += block.T @ Y[rows]
        else:
            sums += weights[rows] @ block
            cross += block.T @ (weights[rows, None] * Y[rows])
            block *= np.sqrt(weights[rows, None])
        add_gram(gram, block)
    return gram, cross, sums


def _refuse_overflow(*sums: Array) -> None:
    if not all(np.isfinite(each).all() for each in sums):
        raise NotFinite(
            "the sums of squares of X and y leave the range of float64; divide X, y or "
            "sample_weight by a constant, in all batches."
        )


def _changed(A: Array, B: Array, u: Array, v: Array, sign: int) -> Array:
    """A + sign (B + u v')."""
    found = np.outer(u, v)
    found += B
    found *= sign
    found += A
    return found


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b, rounded, and what rounding left out (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
