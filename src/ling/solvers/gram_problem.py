"""The ridge problem for sufficient statistics: X'X and X'Y are known, but no rows of X."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ling._typing import Array
from ling.design import AffineMap, AffineRowTransform, Design, Meter, RowTransform, Storage
from ling.design.storage import IDENTITY
from ling.errors import NonFiniteError
from ling.linalg.decompositions import eigh
from ling.linalg.rounding import sum_noise
from ling.solvers.gram_cache import GramCache
from ling.solvers.problem import (
    Problem,
    Standardization,
    power_of_two_scales,
    scale_alphas,
)
from ling.solvers.sufficient_statistics import SufficientStatistics
from ling.solvers.targets import SAFE_SQUARES_RANGE


class RowsUnavailableError(Exception):
    """Raised if an algorithm needs rows of X but only X'X is known.

    `build_gram_problem(..., with_rows=True)` provides surrogate rows.
    """


class GramStorage(Storage):
    """A storage that holds X'X (p, p) instead of X, and optionally surrogate rows.

    Surrogate rows are p rows of a matrix with the same X'X; only `take` uses them. All other
    operations that need rows raise RowsUnavailableError. `dtype` is that of the data, in which
    coefficients are stored.
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
        """Return (X'X) V; 2 p^2 FLOPs per column."""
        if transform is not None or not affine.is_identity:
            self._raise_rows_unavailable()
        return np.asarray(self.gram_matrix @ V)

    def gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return X'X (p, p), without a copy if the dtype fits."""
        if not affine.is_identity:
            self._raise_rows_unavailable()
        return self.gram_matrix.astype(dtype or np.float64, copy=False)

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given surrogate rows, (len(rows), p)."""
        if self.surrogate_rows is None:
            self._raise_rows_unavailable()
        return self.surrogate_rows[rows]

    def gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of X'X: 0, because it is already known."""
        return 0.0

    @property
    def n_stored(self) -> int:
        """Number of stored entries: p^2."""
        return self.gram_matrix.size

    @property
    def matvec_flops(self) -> float:
        """FLOPs of X v: p^2, half of those of (X'X) v; the other half counts for X'."""
        return float(self.gram_matrix.size)

    def _raise_rows_unavailable(self) -> NoReturn:
        raise RowsUnavailableError("only X'X is known")

    def matmat(self, V: Array) -> Array:
        """Raise RowsUnavailableError."""
        self._raise_rows_unavailable()

    def rmatmat(self, U: Array) -> Array:
        """Raise RowsUnavailableError."""
        self._raise_rows_unavailable()

    def subset(self, rows: NDArray[np.intp]) -> Storage:
        """Raise RowsUnavailableError."""
        self._raise_rows_unavailable()

    def gram_matmat_with_rows(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Raise RowsUnavailableError."""
        self._raise_rows_unavailable()

    def gram_matmat_with_squares(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Raise RowsUnavailableError."""
        self._raise_rows_unavailable()

    def row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Raise RowsUnavailableError."""
        self._raise_rows_unavailable()

    def row_gram_flops(self, affine: AffineMap) -> float:
        """Raise RowsUnavailableError."""
        self._raise_rows_unavailable()

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Raise RowsUnavailableError."""
        self._raise_rows_unavailable()

    def find_nonfinite(self, limit: float = 0.0) -> tuple[int, int] | None:
        """Return None: sufficient statistics are never formed from non-finite sums."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class GramProblem(Problem):
    """A ridge problem of which X'X, X'Y and `squares` = ||y||^2 (t,) are known, but no rows.

    These sums, and the means, have rounding errors. Entry (j, k) of X'X is off by at most
    sum_noise(p) raw_column_norms_j raw_column_norms_k, and entry (j, t) of X'Y by at most
    sum_noise(p) raw_column_norms_j raw_target_norms_t. Means times sqrt(total_weight) are off by at
    most sum_noise(p) times `x_mean_error_scale` (p,) and `y_mean_error_scale` (t,).
    """

    squares: Array
    x_mean_error_scale: Array
    y_mean_error_scale: Array

    @property
    def n_targets(self) -> int:
        """Number of targets t."""
        return len(self.squares)

    @cached_property
    def target_norms(self) -> Array:
        """A lower bound of ||y|| for each target, (t,): the computed norm minus its rounding error.

        It is positive, if tiny, unless all values of y that were ever added are 0.
        """
        lower = self.squares - sum_noise(self.shape[0]) * self.raw_target_norms**2
        floor = np.where(self.raw_target_norms > 0, SAFE_SQUARES_RANGE[0], 0.0)
        return np.asarray(np.sqrt(np.maximum(lower, floor)))

    def gradient(self, W: Array) -> tuple[Array, Array]:
        """X'Y - X'X W - W diag(alphas) (p, t), and bounds on ||y - X w|| (t,); no pass.

        The bounds are ||y|| + sum_j ||x_j|| |w_j|. The certificate multiplies them by the rounding
        error, and that of X'Y - X'X W is relative to this sum, however small y - X w is.
        """
        gradient = self.moments - self.gram() @ W - W * self.alphas
        return gradient, self.raw_target_norms + self.fitted_norm_bounds(W)

    def residual_squares(self, W: Array) -> Array:
        """||y - X w||^2 = ||y||^2 - w'(2 X'y - X'X w), (t,); 0 where rounding makes it negative."""
        factor = 2 * self.moments - self.gram() @ W
        squares = self.squares - np.einsum("ij,ij->j", W, factor)
        return np.asarray(np.maximum(squares, 0.0))

    def residual_norms(self, W: Array) -> tuple[Array, Array]:
        """||y - X w|| (t,), and bounds (t,) on its rounding error, which may be all of it."""
        sizes = self.raw_target_norms + self.fitted_norm_bounds(W)
        squares, rounding = self.residual_squares(W), 4 * sum_noise(self.shape[0]) * sizes**2
        return np.sqrt(squares), np.sqrt(squares + rounding) - np.sqrt(
            np.maximum(squares - rounding, 0.0)
        )

    def mean_shift_error(self, W: Array) -> Array:
        """Bound (t,) on the error of y_mean - x_mean'w, times sqrt(total weight)."""
        return np.asarray(
            sum_noise(self.shape[0])
            * (self.y_mean_error_scale + self.x_mean_error_scale @ np.abs(W))
        )

    @property
    def column_mean_error(self) -> float:
        """Bound on the norm of the error of x_mean, times sqrt(total weight)."""
        return float(sum_noise(self.shape[0]) * np.linalg.norm(self.x_mean_error_scale))

    def mean_shift_bound(self, W: Array) -> Array:
        """Bound (t,) on the prediction error from rounding in the means, relative to ||y||."""
        error = self.mean_shift_error(W)
        return np.divide(
            error, self.target_norms, out=np.zeros_like(error), where=self.target_norms > 0
        )


def build_gram_problem(
    statistics: SufficientStatistics,
    alphas: Array,
    meter: Meter,
    dtype: DTypeLike,
    with_rows: bool = False,
) -> tuple[GramProblem, Standardization]:
    """Build the problem for sufficient statistics and alphas (t,); no pass.

    `dtype` is that of the data. `with_rows` adds p surrogate rows, for algorithms that need rows of
    X; they cost an eigendecomposition of X'X.
    """
    p = statistics.n_features
    x_scale, y_scale = _power_of_two_scales(statistics, alphas)
    scales = np.concatenate([np.full(p, x_scale), y_scale])
    # The error bounds of a problem with p rows use sum_noise(p), the rounding of products with X'X.
    # The sums themselves are off by `noise`. Both are relative to sqrt(s_j s_k), s being
    # `gram_error_scale`. The norms are inflated, so that sum_noise(p) norm_j norm_k equals
    # (sum_noise(p) + noise) sqrt(s_j s_k), which covers both errors.
    inflation = np.sqrt(1 + statistics.noise / sum_noise(p))
    norms = inflation * np.sqrt(statistics.gram_error_scale) / scales
    mean_errors = (
        inflation**2 * statistics.mean_error_scale / np.sqrt(statistics.total_weight) / scales
    )
    gram = statistics.gram if x_scale == 1.0 else statistics.gram / x_scale / x_scale
    moments = statistics.cross / x_scale / y_scale
    squares = np.maximum(statistics.squares / y_scale**2, 0.0)
    rows: Array | None = None
    targets: Array = np.empty((0, statistics.n_targets))
    if with_rows:
        rows, targets = _make_surrogate_rows(gram, moments, norms[:p])
    problem = GramProblem(
        design=Design(GramStorage(gram, dtype, rows), IDENTITY, meter, pass_fraction=0.0),
        targets=targets,
        known_moments=moments,
        alphas=scale_alphas(alphas, x_scale),
        column_norms=np.sqrt(np.maximum(np.diag(gram), 0.0)),
        raw_column_norms=norms[:p],
        raw_target_norms=norms[p:],
        gram_cache=GramCache(formed_gram=gram),
        squares=squares,
        x_mean_error_scale=mean_errors[:p],
        y_mean_error_scale=mean_errors[p:],
    )
    x_mean, y_mean = statistics.x_mean, statistics.y_mean
    return problem, Standardization(
        x_mean, y_mean, x_scale, y_scale, statistics.total_weight, statistics.n_counted
    )


def _power_of_two_scales(statistics: SufficientStatistics, alphas: Array) -> tuple[float, Array]:
    """Scales of X and of each target (t,): powers of two, as for `build_problem`.

    Raises NonFiniteError if X, or a target that is not 0, is so small that its squares have
    underflowed.
    """
    p = statistics.n_features
    for name, square in (
        ("X", statistics.gram_error_scale[:p].max(initial=0.0)),
        ("y", _min_positive(statistics.gram_error_scale[p:])),
    ):
        if 0 < square < SAFE_SQUARES_RANGE[0]:
            raise NonFiniteError(
                name,
                f"varies so little, by {np.sqrt(square):.1g} in all, that its squares underflow "
                "to 0",
                f"multiply `{name}` by a constant",
            )
    norms = np.sqrt(statistics.gram_error_scale)
    return power_of_two_scales(norms[:p], norms[p:], alphas)


def _min_positive(squares: Array) -> float:
    """The smallest positive value, at most SAFE_SQUARES_RANGE[1], which is returned for none."""
    return float(squares[squares > 0].min(initial=SAFE_SQUARES_RANGE[1]))


def _make_surrogate_rows(gram: Array, moments: Array, norms: Array) -> tuple[Array, Array]:
    """Rows X (p, p) and Y (p, t) that have the given X'X (p, p) and X'Y (p, t), up to rounding.

    `norms` (p,) are the raw norms of the columns. With D = diag(norms) and the eigendecomposition
    D^-1 X'X D^-1 = Z diag(theta) Z', X = theta^1/2 Z'D and Y = theta^-1/2 Z'D^-1 X'Y.
    """
    p = len(gram)
    scale = np.where(norms > 0, norms, 1.0)
    theta, Z = eigh(gram / scale[:, None] / scale)
    # Entries of the scaled matrix are off by at most sum_noise(p), so its eigenvalues are off by at
    # most p sum_noise(p) (Weyl's inequality). Smaller ones may be rounding errors and become 0.
    significant = theta > p * sum_noise(p)
    roots = np.sqrt(np.where(significant, theta, 1.0))[:, None]
    X = np.where(significant[:, None], roots * Z.T, 0.0) * scale
    Y = np.where(significant[:, None], Z.T @ (moments / scale[:, None]) / roots, 0.0)
    return X, Y
