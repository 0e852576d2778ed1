"""The ridge problem of a summary: what is known of X is X'X."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import linalg

from ling.design import Array, Metered
from ling.design.base import Design, Storage
from ling.design.between import Between
from ling.design.maps import Affine
from ling.design.metered import Meter
from ling.errors import NotFinite
from ling.minorant import sum_noise
from ling.problem import LEAST_UNIT, SAFE, Centring, Problem, _in_units, _unit
from ling.summary import Summary


class NoRows(Exception):
    """An algorithm needs rows of X, where only X'X is known: `with_rows` makes some."""


class Products(Storage):
    """X as far as X'X tells: p rows of some X with the same products, or none.

    `dtype` is that of the data, in which coefficients are kept.
    """

    centres_rows = False
    compiled_columns = 0

    def __init__(self, gram: Array, dtype: DTypeLike, rows: Array | None = None) -> None:
        self.products = gram
        self.rows = rows
        self.shape = gram.shape[0], gram.shape[0]
        self.dtype = np.dtype(dtype)

    def gram_matmat(self, V: Array, between: Between | None = None) -> Array:
        """(X'X) V."""
        if between is not None:
            self._refuse()
        return np.asarray(self.products @ V)

    def affine_gram(self, affine: Affine, dtype: DTypeLike | None = None) -> Array:
        """X'X itself."""
        if not affine.is_identity:
            self._refuse()
        return self.products.astype(dtype or np.float64, copy=False)

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some of the rows that were made."""
        if self.rows is None:
            self._refuse()
        return self.rows[rows]

    def affine_gram_flops(self, affine: Affine) -> float:
        """None: it is there."""
        return 0.0

    @property
    def n_stored(self) -> int:
        """p^2."""
        return self.products.size

    @property
    def matvec_flops(self) -> float:
        """Of (X'X) v, half of which is counted for each of X and X'."""
        return float(self.products.size)

    def _refuse(self) -> NoReturn:
        raise NoRows("only X'X is known")

    def matmat(self, V: Array) -> Array:
        """Not without rows."""
        self._refuse()

    def rmatmat(self, U: Array) -> Array:
        """Not without rows."""
        self._refuse()

    def subset(self, rows: NDArray[np.intp]) -> Design:
        """Not without rows."""
        self._refuse()

    def affine_row_gram(self, affine: Affine, dtype: DTypeLike | None = None) -> Array:
        """Not without rows."""
        self._refuse()

    def affine_row_gram_flops(self, affine: Affine) -> float:
        """Not without rows."""
        self._refuse()

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Not without rows."""
        self._refuse()

    def first_not_finite(self, limit: float = 0.0) -> tuple[int, int] | None:
        """None: sums with such numbers are refused."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Summed(Problem):
    """A problem of which X'X, X'Y and `squares` = ||y||^2 are known, and no rows.

    X'X is off by at most sum_noise(p) raw_norms_j raw_norms_k, X'y by as much with raw_spread, and
    means, times the root of all weight, by sum_noise(p) times `x_slip` and `y_slip`.
    """

    squares: Array
    x_slip: Array
    y_slip: Array

    @property
    def n_targets(self) -> int:
        """Columns of Y."""
        return len(self.squares)

    @cached_property
    def spread(self) -> Array:
        """||y||, target by target: as much of it as rounding leaves sure, and hardly any if none.

        Only a y of which nothing but 0 was ever added has none at all.
        """
        sure = self.squares - sum_noise(self.shape[0]) * self.raw_spread**2
        least = np.where(self.raw_spread > 0, SAFE[0], 0.0)
        return np.asarray(np.sqrt(np.maximum(sure, least)))

    def gradient(self, W: Array) -> tuple[Array, Array]:
        """X'Y - X'X W - W diag(alphas), and bounds on ||y - X w||; no pass.

        Sums in X'X and X'Y are long gone, and rounding in them is relative to ||y|| + sum_j ||x_j||
        |w_j|, however small y - X w is; so this is the bound.
        """
        gradient = self.moments - self.gram() @ W - W * self.alphas
        return gradient, self.raw_spread + self.raw_norms @ np.abs(W)

    def residual_squares(self, W: Array) -> Array:
        """||y - X w||^2, as far as it is above rounding."""
        twice = 2 * self.moments - self.gram() @ W
        left = self.squares - np.einsum("ij,ij->j", W, twice)
        return np.asarray(np.maximum(left, 0.0))

    def shift(self, W: Array) -> Array:
        """How far rounding in the means may move all predictions, in units of `spread`."""
        moved = sum_noise(self.shape[0]) * (self.y_slip + self.x_slip @ np.abs(W))
        return np.divide(moved, self.spread, out=np.zeros_like(moved), where=self.spread > 0)


def posed(
    summary: Summary, alphas: Array, meter: Meter, dtype: DTypeLike, with_rows: bool = False
) -> tuple[Summed, Centring]:
    """The problem of a summary's samples; `with_rows` for algorithms that cannot do without."""
    p = summary.n_features
    x_unit, y_unit = _units(summary, alphas)
    units = np.concatenate([np.full(p, x_unit), y_unit])
    # So that sum_noise(p), which is what a problem of p rows has, stands for both: what the sums
    # are off by, and what products with them add.
    root = np.sqrt(1 + summary.noise / sum_noise(p))
    norms = root * np.sqrt(summary.peak) / units
    slips = root**2 * summary.slip / np.sqrt(summary.mass) / units
    gram = summary.gram if x_unit == 1.0 else summary.gram / x_unit / x_unit
    moments = summary.cross / x_unit / y_unit
    squares = np.maximum(summary.squares / y_unit**2, 0.0)
    made = _rows(gram, moments, norms[:p]) if with_rows else None
    rows, targets = made or (None, np.empty((0, summary.n_targets)))
    problem = Summed(
        design=Metered(Products(gram, dtype, rows), meter, share=0.0),
        targets=targets,
        moments=moments,
        alphas=_in_units(alphas, x_unit),
        column_norms=np.sqrt(np.maximum(np.diag(gram), 0.0)),
        raw_norms=norms[:p],
        raw_spread=norms[p:],
        made={"gram": gram},
        squares=squares,
        x_slip=slips[:p],
        y_slip=slips[p:],
    )
    x_mean, y_mean = summary.x_mean, summary.y_mean
    return problem, Centring(x_mean, y_mean, x_unit, y_unit, summary.mass, summary.n_counted)


def _units(summary: Summary, alphas: Array) -> tuple[float, Array]:
    """Those in which squares of squares are in the range of float64; powers of two."""
    p = summary.n_features
    for name, peak in ("X", summary.peak[:p].max(initial=0.0)), ("y", _least(summary.peak[p:])):
        if 0 < peak < SAFE[0]:
            raise NotFinite(
                f"{name} varies so little, by {np.sqrt(peak):.1g} in all, that its squares leave "
                "the range of float64; multiply it by a constant."
            )
    x_unit = _unit(float(np.sqrt(summary.peak[:p].max(initial=0.0))))
    root = float(np.sqrt(alphas.max(initial=0.0))) * LEAST_UNIT
    x_unit = max(x_unit, _unit(root)) if root > x_unit else x_unit
    return x_unit, np.array([_unit(float(size)) for size in np.sqrt(summary.peak[p:])])


def _least(peaks: Array) -> float:
    """The least above 0."""
    return float(peaks[peaks > 0].min(initial=SAFE[1]))


def _rows(gram: Array, moments: Array, norms: Array) -> tuple[Array, Array]:
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
