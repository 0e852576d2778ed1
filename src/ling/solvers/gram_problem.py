"""The ridge problem of a summary: what is known of X is X'X."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import linalg

from ling._typing import Array
from ling.design import AffineMap, AffineRowTransform, Design, Meter, RowTransform, Storage
from ling.design.storage import IDENTITY
from ling.errors import NotFinite
from ling.linalg.rounding import sum_noise
from ling.solvers.gram_cache import GramCache
from ling.solvers.problem import (
    MIN_SCALE_TO_ROOT_ALPHA,
    SAFE_SQUARES_RANGE,
    Problem,
    Standardization,
    _power_of_two_scale,
    _scale_alphas,
)
from ling.solvers.sufficient_statistics import SufficientStatistics


class RowsUnavailableError(Exception):
    """An algorithm needs rows of X, where only X'X is known: `with_rows` makes some."""


class GramStorage(Storage):
    """X as far as X'X tells: p rows of some X with the same products, or none.

    `dtype` is that of the data, in which coefficients are kept.
    """

    centers_rows = False
    max_compiled_columns = 0

    def __init__(self, gram: Array, dtype: DTypeLike, rows: Array | None = None) -> None:
        self.gram_matrix = gram
        self.surrogate_rows = rows
        self.shape = gram.shape[0], gram.shape[0]
        self.dtype = np.dtype(dtype)

    def gram_matmat(
        self, affine: AffineMap, V: Array, transform: RowTransform | None = None
    ) -> Array:
        """(X'X) V."""
        if transform is not None or not affine.is_identity:
            self._raise_rows_unavailable()
        return np.asarray(self.gram_matrix @ V)

    def gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """X'X itself."""
        if not affine.is_identity:
            self._raise_rows_unavailable()
        return self.gram_matrix.astype(dtype or np.float64, copy=False)

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some of the rows that were made."""
        if self.surrogate_rows is None:
            self._raise_rows_unavailable()
        return self.surrogate_rows[rows]

    def gram_flops(self, affine: AffineMap) -> float:
        """None: it is there."""
        return 0.0

    @property
    def n_stored(self) -> int:
        """p^2."""
        return self.gram_matrix.size

    @property
    def matvec_flops(self) -> float:
        """Of (X'X) v, half of which is counted for each of X and X'."""
        return float(self.gram_matrix.size)

    def _raise_rows_unavailable(self) -> NoReturn:
        raise RowsUnavailableError("only X'X is known")

    def matmat(self, V: Array) -> Array:
        """Not without rows."""
        self._raise_rows_unavailable()

    def rmatmat(self, U: Array) -> Array:
        """Not without rows."""
        self._raise_rows_unavailable()

    def subset(self, rows: NDArray[np.intp]) -> Storage:
        """Not without rows."""
        self._raise_rows_unavailable()

    def gram_matmat_with_rows(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Not without rows."""
        self._raise_rows_unavailable()

    def residual_gradient(self, Y: Array, affine: AffineMap, W: Array) -> tuple[Array, Array]:
        """Not without rows."""
        self._raise_rows_unavailable()

    def row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Not without rows."""
        self._raise_rows_unavailable()

    def row_gram_flops(self, affine: AffineMap) -> float:
        """Not without rows."""
        self._raise_rows_unavailable()

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Not without rows."""
        self._raise_rows_unavailable()

    def find_nonfinite(self, limit: float = 0.0) -> tuple[int, int] | None:
        """None: sums with such numbers are refused."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class GramProblem(Problem):
    """A problem of which X'X, X'Y and `squares` = ||y||^2 are known, and no rows.

    X'X is off by at most sum_noise(p) raw_norms_j raw_norms_k, X'y by as much with raw_spread, and
    means, times the root of all weight, by sum_noise(p) times `x_mean_error_scale` and
    `y_mean_error_scale`.
    """

    squares: Array
    x_mean_error_scale: Array
    y_mean_error_scale: Array

    @property
    def n_targets(self) -> int:
        """Columns of Y."""
        return len(self.squares)

    @cached_property
    def target_norms(self) -> Array:
        """||y||, target by target: as much of it as rounding leaves sure, and hardly any if none.

        Only a y of which nothing but 0 was ever added has none at all.
        """
        sure = self.squares - sum_noise(self.shape[0]) * self.raw_target_norms**2
        least = np.where(self.raw_target_norms > 0, SAFE_SQUARES_RANGE[0], 0.0)
        return np.asarray(np.sqrt(np.maximum(sure, least)))

    def gradient(self, W: Array) -> tuple[Array, Array]:
        """X'Y - X'X W - W diag(alphas), and bounds on ||y - X w||; no pass.

        Sums in X'X and X'Y are long gone, and rounding in them is relative to ||y|| + sum_j ||x_j||
        |w_j|, however small y - X w is; so this is the bound.
        """
        gradient = self.moments - self.gram() @ W - W * self.alphas
        return gradient, self.raw_target_norms + self.raw_column_norms @ np.abs(W)

    def residual_squares(self, W: Array) -> Array:
        """||y - X w||^2, as far as it is above rounding."""
        twice = 2 * self.moments - self.gram() @ W
        left = self.squares - np.einsum("ij,ij->j", W, twice)
        return np.asarray(np.maximum(left, 0.0))

    def mean_shift_bound(self, W: Array) -> Array:
        """How far rounding in the means may move all predictions, in units of `spread`."""
        moved = sum_noise(self.shape[0]) * (
            self.y_mean_error_scale + self.x_mean_error_scale @ np.abs(W)
        )
        return np.divide(
            moved, self.target_norms, out=np.zeros_like(moved), where=self.target_norms > 0
        )


def build_gram_problem(
    summary: SufficientStatistics,
    alphas: Array,
    meter: Meter,
    dtype: DTypeLike,
    with_rows: bool = False,
) -> tuple[GramProblem, Standardization]:
    """The problem of a summary's samples; `with_rows` for algorithms that cannot do without."""
    p = summary.n_features
    x_scale, y_scale = _power_of_two_scales(summary, alphas)
    units = np.concatenate([np.full(p, x_scale), y_scale])
    # So that sum_noise(p), which is what a problem of p rows has, stands for both: what the sums
    # are off by, and what products with them add.
    root = np.sqrt(1 + summary.noise / sum_noise(p))
    norms = root * np.sqrt(summary.gram_error_scale) / units
    slips = root**2 * summary.mean_error_scale / np.sqrt(summary.total_weight) / units
    gram = summary.gram if x_scale == 1.0 else summary.gram / x_scale / x_scale
    moments = summary.cross / x_scale / y_scale
    squares = np.maximum(summary.squares / y_scale**2, 0.0)
    made = _make_surrogate_rows(gram, moments, norms[:p]) if with_rows else None
    rows, targets = made or (None, np.empty((0, summary.n_targets)))
    problem = GramProblem(
        design=Design(GramStorage(gram, dtype, rows), IDENTITY, meter, pass_fraction=0.0),
        targets=targets,
        moments=moments,
        alphas=_scale_alphas(alphas, x_scale),
        column_norms=np.sqrt(np.maximum(np.diag(gram), 0.0)),
        raw_column_norms=norms[:p],
        raw_target_norms=norms[p:],
        gram_cache=GramCache(gram=gram),
        squares=squares,
        x_mean_error_scale=slips[:p],
        y_mean_error_scale=slips[p:],
    )
    x_mean, y_mean = summary.x_mean, summary.y_mean
    return problem, Standardization(
        x_mean, y_mean, x_scale, y_scale, summary.total_weight, summary.n_counted
    )


def _power_of_two_scales(summary: SufficientStatistics, alphas: Array) -> tuple[float, Array]:
    """Those in which squares of squares are in the range of float64; powers of two."""
    p = summary.n_features
    for name, peak in (
        ("X", summary.gram_error_scale[:p].max(initial=0.0)),
        ("y", _min_positive(summary.gram_error_scale[p:])),
    ):
        if 0 < peak < SAFE_SQUARES_RANGE[0]:
            raise NotFinite(
                f"{name} varies so little, by {np.sqrt(peak):.1g} in all, that its squares leave "
                "the range of float64; multiply it by a constant."
            )
    x_scale = _power_of_two_scale(float(np.sqrt(summary.gram_error_scale[:p].max(initial=0.0))))
    root = float(np.sqrt(alphas.max(initial=0.0))) * MIN_SCALE_TO_ROOT_ALPHA
    x_scale = max(x_scale, _power_of_two_scale(root)) if root > x_scale else x_scale
    return x_scale, np.array(
        [_power_of_two_scale(float(size)) for size in np.sqrt(summary.gram_error_scale[p:])]
    )


def _min_positive(peaks: Array) -> float:
    """The least above 0."""
    return float(peaks[peaks > 0].min(initial=SAFE_SQUARES_RANGE[1]))


def _make_surrogate_rows(gram: Array, moments: Array, norms: Array) -> tuple[Array, Array]:
    """p rows of X, and as many of Y, with these X'X and X'Y, but for what is rounding in them.

    In columns of length 1 eigenvalues of X'X are off by p times its noise: those below are 0.
    """
    p = len(gram)
    scale = np.where(norms > 0, norms, 1.0)
    theta, Z = linalg.eigh(gram / scale[:, None] / scale, check_finite=False)
    kept = theta > p * sum_noise(p)
    roots = np.sqrt(np.where(kept, theta, 1.0))[:, None]
    X = np.where(kept[:, None], roots * Z.T, 0.0) * scale
    Y = np.where(kept[:, None], Z.T @ (moments / scale[:, None]) / roots, 0.0)
    return X, Y
