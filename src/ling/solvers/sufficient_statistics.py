"""Sufficient statistics of ridge regression: sums to which rows can be added or removed.

Let z = (x, y) be a sample, w its weight and m the mean. The sums of w and of w (z - m)(z - m)' over
two sets of rows, a and b, give those over both (Chan, Golub & LeVeque 1983):

    S = S_a + S_b + g (m_b - m_a)(m_b - m_a)',    g = w_a w_b / (w_a + w_b)

With the signs of w_b and S_b changed, they give the sums over a without b. Batches of `partial_fit`
are added and removed this way, and a training set of cross-validation is all rows without those
that are held out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ling._typing import Array
from ling.design import Storage, as_design
from ling.design.arrays import row_slices
from ling.errors import Change, NonFiniteError, OptionError, ShapeError
from ling.linalg.gram import add_gram
from ling.linalg.rounding import sum_noise
from ling.plain_state import register_plain
from ling.results import Cost
from ling.solvers.problem import check_sums_finite
from ling.solvers.targets import center_targets

# Bytes of the block of rows that is centred at a time.
CENTERED_BLOCK_BYTES = 2**25
# Fields that are exactly 0 for a single sample.
CENTERED_SUMS = "gram", "cross", "squares", "gram_error_scale"
REMOVE_WHAT_WAS_ADDED = (
    "remove only rows that were added, with the same values and weights (the model is unchanged)"
)


@register_plain
@dataclass(frozen=True, eq=False)
class SufficientStatistics:
    """Weight, mean and products of samples z = (x, y); vectors (p + t,) hold x, then y.

    gram = sum w (x - m_x)(x - m_x)' (p, p), cross = sum w (x - m_x)(y - m_y)' (p, t) and
    squares = sum w (y - m_y)^2 (t,). If `centred` is False, m is 0. The mean m is `mean`, which is
    rounded, plus `mean_correction`, so that a large mean does not cost digits of the deviations.
    `n_counted` samples have a weight above 0.

    Rounding errors remain when rows are removed. `n_summed` samples of weight `weight_processed`
    were ever added or removed. With s = gram_error_scale, the error of gram is at most a few
    noise sqrt(s_j s_k), and likewise for cross and squares. The error of total_weight m is
    noise mean_error_scale, and that of total_weight is noise weight_processed.
    """

    total_weight: float
    n_counted: int
    centred: bool
    mean: Array
    mean_correction: Array
    gram: Array
    cross: Array
    squares: Array
    n_summed: int
    weight_processed: float
    gram_error_scale: Array
    mean_error_scale: Array

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # non-finite sums are rejected
    def from_rows(
        cls, X: Any, Y: Array, weights: Array | None = None, centred: bool = True
    ) -> SufficientStatistics:
        """Statistics of the rows of X (n, p) and Y (n, t); two passes, n p^2 FLOPs, no copy."""
        storage = as_design(X).storage
        n = storage.shape[0]
        total_weight = float(n) if weights is None else float(weights.sum())
        n_counted = n if weights is None else int(np.count_nonzero(weights))
        y_mean, Y = _check_and_center_targets(
            np.asarray(Y, dtype=np.float64), weights, total_weight, centred
        )
        moments = _moments_about_rounded_mean(storage, Y, weights, total_weight, centred)
        statistics = cls.from_sums(
            total_weight,
            n_counted,
            centred,
            shift=np.concatenate([moments.x_mean, y_mean]),
            sums=moments.sums if centred else None,
            gram=moments.gram,
            cross=moments.cross,
            squares=moments.y_squares,
            x_squares=moments.x_squares,
        )
        statistics._check_overflow()
        return statistics

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # callers reject non-finite sums, or discard them
    def from_sums(
        cls, total_weight: float, n_counted: int, centred: bool, shift: Array, sums: Array | None,
        gram: Array, cross: Array, squares: Array, x_squares: Array | None = None,
    ) -> SufficientStatistics:  # fmt: skip
        """Statistics of n_counted samples from sums of d = z - shift; `shift` is (p + t,).

        `sums` = sum w d (p + t,) is None if the mean equals `shift`, or if `centred` is False,
        where `shift` has to be 0. gram = sum w d_x d_x' (p, p), cross = sum w d_x d_y' (p, t) and
        squares = sum w d_y^2 (t,); no array is changed. `x_squares` (p,) are the squares to which
        the rounding errors of gram are relative; None stands for its diagonal.
        """
        p = len(gram)
        gram_error_scale = np.concatenate(
            [np.diag(gram) if x_squares is None else x_squares, squares]
        )
        mean_error_scale = np.sqrt(total_weight) * np.sqrt(gram_error_scale) * centred
        mean, mean_correction = shift, np.zeros_like(shift)
        if sums is not None and total_weight > 0:
            offset = sums / total_weight
            gram = _subtract_rank_one(gram, total_weight, offset[:p], offset[:p])
            cross = _subtract_rank_one(cross, total_weight, offset[:p], offset[p:])
            squares = squares - total_weight * offset[p:] ** 2
            mean, mean_correction = _two_sum(shift, offset)
        return cls(
            total_weight,
            n_counted,
            centred,
            mean,
            mean_correction,
            gram,
            cross,
            squares,
            n_counted,
            total_weight,
            gram_error_scale,
            mean_error_scale,
        )

    @property
    def n_features(self) -> int:
        """Number of features p."""
        return len(self.gram)

    @property
    def n_targets(self) -> int:
        """Number of targets t."""
        return len(self.squares)

    @property
    def x_mean(self) -> Array:
        """The rounded mean of x (p,)."""
        return self.mean[: self.n_features]

    @property
    def y_mean(self) -> Array:
        """The rounded mean of y (t,)."""
        return self.mean[self.n_features :]

    @property
    def diagonal(self) -> Array:
        """sum w (z - m)^2 (p + t,)."""
        return np.concatenate([np.diag(self.gram), self.squares])

    @property
    def noise(self) -> float:
        """Rounding error relative to the two error scales and to `weight_processed`."""
        return sum_noise(self.n_summed)

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        self._check_compatible(other)
        total = self._combine(other, 1)
        total._check_overflow()
        return total

    def __sub__(self, other: SufficientStatistics) -> SufficientStatistics:
        self._check_compatible(other)
        if other.n_counted > self.n_counted:
            raise OptionError(
                "remove",
                f"is True for {other.n_counted} samples, but only {self.n_counted} were added",
                REMOVE_WHAT_WAS_ADDED,
            )
        if other.n_counted == self.n_counted:
            raise OptionError(
                "remove",
                f"is True for all {other.n_counted} samples, which leaves none",
                "keep at least one",
                "start again with a new model",
            )
        if self.total_weight - other.total_weight <= self.noise * self.weight_processed:
            raise OptionError(
                "remove",
                f"`remove`=True has samples with a total weight of {other.total_weight:g} to "
                f"remove, but those that the model was fitted to have {self.total_weight:g}",
                REMOVE_WHAT_WAS_ADDED,
            )
        remaining = self._combine(other, -1)
        remaining._check_overflow()
        negative = np.flatnonzero(
            remaining.diagonal < -4 * remaining.noise * remaining.gram_error_scale
        )
        if negative.size:
            index, p = int(negative[0]), self.n_features
            name = f"column {index} of `X`" if index < p else f"target {index - p} of `y`"
            raise OptionError(
                "remove",
                f"`remove`=True would leave {name} with a negative sum of squares, so this batch "
                "was not part of the fit",
                REMOVE_WHAT_WAS_ADDED,
            )
        return remaining._with_exact_single_sample()

    def without(
        self, other: SufficientStatistics, total_weight: float | None = None
    ) -> SufficientStatistics:
        """Statistics with the rows of `other` removed, which have to be among those of `self`.

        Unlike `self - other`, this checks nothing. `total_weight` is the weight of the remaining
        rows, where it is known: the difference of two weights loses digits if little remains.
        """
        if other.total_weight == 0:
            return self
        return self._combine(other, -1, total_weight)._with_exact_single_sample()

    def _with_exact_single_sample(self) -> SufficientStatistics:
        """The statistics with all products set to 0 if one centred sample remains.

        A single sample equals its own mean.
        """
        if not self.centred or self.n_counted != 1:
            return self
        products = {name: np.zeros_like(getattr(self, name)) for name in CENTERED_SUMS}
        return replace(self, **products)

    @np.errstate(over="ignore", invalid="ignore")  # as in from_sums
    def _combine(
        self, other: SufficientStatistics, sign: int, total_weight: float | None = None
    ) -> SufficientStatistics:
        """Statistics with the rows of `other` added (sign 1) or removed (sign -1).

        `total_weight` is that of the result, None to compute it.
        """
        if total_weight is None:
            total_weight = self.total_weight + sign * other.total_weight
            weight_processed = self.weight_processed + other.weight_processed
        else:
            weight_processed = total_weight
        gap = (other.mean - self.mean) + (other.mean_correction - self.mean_correction)
        root = np.sqrt(self.total_weight / total_weight * other.total_weight)
        step = root * gap
        mean, mean_correction = _two_sum(
            self.mean, self.mean_correction + sign * (other.total_weight / total_weight) * gap
        )
        # The error of step is noise times this, from the errors of the means. The relative error of
        # g is that of the weights.
        step_error = root * (
            self.mean_error_scale / self.total_weight + other.mean_error_scale / other.total_weight
        )
        gram_error_scale = (
            self.gram_error_scale
            + other.gram_error_scale
            + (np.sqrt(weight_processed / total_weight) * np.abs(step) + step_error) ** 2
        )
        mean_error_scale = np.hypot(
            np.hypot(self.mean_error_scale, other.mean_error_scale),
            weight_processed / total_weight * other.total_weight * gap,
        )
        p = self.n_features
        return SufficientStatistics(
            total_weight,
            self.n_counted + sign * other.n_counted,
            self.centred,
            mean,
            mean_correction,
            _add_rank_one(self.gram, other.gram, step[:p], step[:p], sign),
            _add_rank_one(self.cross, other.cross, step[:p], step[p:], sign),
            self.squares + sign * (other.squares + step[p:] ** 2),
            self.n_summed + other.n_summed,
            weight_processed,
            gram_error_scale,
            mean_error_scale,
        )

    def _check_overflow(self) -> None:
        """Raise NonFiniteError if a sum of squares exceeds the range of float64."""
        if not (
            np.isfinite(self.gram_error_scale).all() and np.isfinite(self.mean_error_scale).all()
        ):
            raise NonFiniteError(
                "X",
                "the sums of squares of `X` and `y` overflow float64",
                "divide `X`, `y` or `sample_weight` by a constant in all batches",
            )

    def _check_compatible(self, other: SufficientStatistics) -> None:
        """Raise if `other` has another number of targets, or is centred where `self` is not."""
        if other.n_targets != self.n_targets:
            raise ShapeError(
                "y",
                f"has {other.n_targets} targets in this batch and had {self.n_targets} before",
                f"pass {self.n_targets} targets",
                "start again with a new model",
            )
        if other.centred is not self.centred:
            raise OptionError(
                "fit_intercept",
                f"is {other.centred} and was {self.centred} for earlier batches, whose sums "
                "cannot be converted",
                Change("fit_intercept", self.centred),
                "start again with a new model",
            )


@dataclass(frozen=True, eq=False)
class _MomentsAboutRoundedMean:
    """Sums of the deviations d from the rounded means `x_mean` (p,) and y_mean.

    gram = sum w d_x d_x' (p, p), cross = sum w d_x d_y' (p, t), sums = sum w d (p + t,) and
    y_squares = sum w d_y^2 (t,). The rounding errors of gram are relative to `x_squares` (p,).
    """

    x_mean: Array
    gram: Array
    cross: Array
    sums: Array
    x_squares: Array
    y_squares: Array


def sufficient_statistics_cost(X: Any, n_targets: int) -> Cost:
    """Cost of `SufficientStatistics.from_rows` in FLOPs and passes."""
    design = as_design(X)
    return Cost(design.gram_flops + (2 * n_targets + 3) * design.matvec_flops, 2.0)


def _check_and_center_targets(
    Y: Array, weights: Array | None, total_weight: float, centred: bool
) -> tuple[Array, Array]:
    """The rounded mean of y (t,), and y minus it (n, t); raises if squares leave float64."""
    counted = Y if weights is None else Y[weights > 0]
    squares = np.einsum("ij,ij->j", Y, Y if weights is None else weights[:, None] * Y)
    if not np.isfinite(squares).all():
        raise NonFiniteError("y", "the squares of `y` overflow float64", "divide `y` by a constant")
    if (counted.any(axis=0) & (squares == 0)).any():
        raise NonFiniteError(
            "y",
            "is so small that its squares underflow to 0",
            "multiply `y` by a constant",
            "replace such small numbers by 0",
        )
    if not centred:
        return np.zeros(Y.shape[1]), Y
    return center_targets(Y, weights, total_weight)


def _moments_about_rounded_mean(
    storage: Storage, Y: Array, weights: Array | None, total_weight: float, centred: bool
) -> _MomentsAboutRoundedMean:
    """Moments of X and Y about the rounded mean of X; Y (n, t) is already centred."""
    weighted = Y if weights is None else weights[:, None] * Y
    y_sums, y_squares = weighted.sum(axis=0), np.einsum("ij,ij->j", Y, weighted)
    x_sums, products, raw_squares = storage.moments(weights, weighted)
    check_sums_finite(storage, products, x_sums, raw_squares)
    if not raw_squares.any() and storage.find_nonfinite(0.0) is not None:
        raise NonFiniteError(
            "X",
            "is so small that its squares underflow to 0",
            "multiply `X` by a constant and `alpha` by its square",
            "replace such small numbers by 0",
        )
    x_mean = x_sums / total_weight if centred else np.zeros_like(x_sums)
    if storage.is_dense and not storage.is_out_of_core:
        gram, cross, x_deviations = _blockwise_moments(storage, x_mean, Y, weights)
        x_squares = np.diag(gram)
    else:
        # Centring would make sparse rows dense, and out-of-core rows stay where they are. The
        # affine map is applied to weighted rows, or afterwards, so that rounding is relative to
        # the raw squares.
        shift = x_mean if centred else None
        gram = as_design(storage).standardized(shift, weights=weights).gram(np.float64)
        cross = products - np.outer(x_mean, y_sums)
        x_deviations, x_squares = np.zeros_like(x_mean), raw_squares
    sums = np.concatenate([x_deviations, y_sums])
    return _MomentsAboutRoundedMean(x_mean, gram, cross, sums, x_squares, y_squares)


def _blockwise_moments(
    storage: Storage,
    shift: Array,
    Y: Array,
    weights: Array | None,
    block_bytes: int = CENTERED_BLOCK_BYTES,
) -> tuple[Array, Array, Array]:
    """sum w (x - shift)(x - shift)', sum w (x - shift) y' and sum w (x - shift); one pass.

    Rows are centred before they are weighted, so that rounding is relative to the centred values.
    """
    n, p = storage.shape
    gram, cross, sums = np.zeros((p, p)), np.zeros((p, Y.shape[1])), np.zeros(p)
    height = max(1, block_bytes // (8 * max(1, p)))
    for rows in row_slices(n, height):
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


def _subtract_rank_one(A: Array, weight: float, u: Array, v: Array) -> Array:
    """A - weight u v' in a new array, the only one of this size that is allocated."""
    result = np.outer(u, v)
    result *= -weight
    result += A
    return result


def _add_rank_one(A: Array, B: Array, u: Array, v: Array, sign: int) -> Array:
    """A + sign (B + u v')."""
    result = np.outer(u, v)
    result += B
    result *= sign
    result += A
    return result


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum a + b and its rounding error (Knuth's TwoSum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
