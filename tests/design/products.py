"""All that a design can do, against the same done with the dense matrix that it stands for."""

from dataclasses import dataclass

import numpy as np

from ling.design import AffineRowTransform, FoldMask, as_design
from ling.design.rows import RowReduction, per_row
from tests.design.laws import Multiply

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def agree(found, wanted):
    np.testing.assert_allclose(found, wanted, **CLOSE)


def products(design, X, rng):
    """Plain products, Gram matrices, rows."""
    storage, design = design, as_design(design)
    n, p = X.shape
    for V in (rng.standard_normal(p), rng.standard_normal((p, 1)), rng.standard_normal((p, 40))):
        agree(design.matmat(V), X @ V)
        agree(design.gram_matmat(V), X.T @ (X @ V))
    for U in (rng.standard_normal(n), rng.standard_normal((n, 3))):
        agree(design.rmatmat(U), X.T @ U)
    agree(design.gram(np.float64), X.T @ X)
    agree(design.row_gram(np.float64), X @ X.T)
    agree(design.map_rows(lambda rows: rows[:, :1] ** 2), X[:, :1] ** 2)
    some = rng.integers(0, n, 9)
    agree(design.take(some), X[some])
    assert design.take(some[:0]).shape == (0, p)
    assert storage.find_nonfinite() is None


def moments(design, X, rng):
    """Sums, with and without weights."""
    U, weights = rng.standard_normal((len(X), 2)), rng.uniform(0.5, 2.0, len(X))
    for w in (None, weights):
        scale = np.ones(len(X)) if w is None else w
        wanted = (scale @ X, X.T @ U, scale @ X**2)
        for found, want in zip(design.moments(w, U), wanted, strict=True):
            agree(found, want)


@dataclass(frozen=True, eq=False)
class Squares(RowReduction):
    """X'left, and sums of x^2."""

    left: np.ndarray = per_row()

    def __call__(self, X):
        return X.T @ self.left, (X**2).sum(axis=0)


def transform(design, X, rng):
    """What can happen between the two halves of X'(X V), over a map that has everything."""
    transform_over_maps(design, X, rng, slice(3, 4))


def transform_over_maps(design, X, rng, maps=slice(None)):
    """The same over maps of every kind."""
    n, p = X.shape
    weights = rng.uniform(0.5, 2.0, n)
    left, right = rng.standard_normal((n, 2)), rng.standard_normal((p, 2))
    pairs = [(as_design(design), as_design(X))]
    pairs += [tuple(as_design(d).centered(w) for d in pairs[0]) for w in (None, weights)]
    pairs += [tuple(as_design(d).low_rank_corrected(left, right) for d in pairs[2])]
    V = rng.standard_normal((p, 3))
    for mine, dense in pairs[maps]:
        agree(mine.gram_matmat(V), dense.gram_matmat(V))
        agree(mine.gram(np.float64), dense.gram(np.float64))
        agree(mine.rmatmat(left), dense.rmatmat(left))
        agree(mine.map_rows(lambda rows: rows @ V), dense.map_rows(lambda rows: rows @ V))
        _row_maps(mine, dense, V, rng)
        for training in (rng.integers(0, 3, (n, 2)), rng.integers(-1, 2, n).astype(np.int16)):
            masked = FoldMask(
                membership=training,
                weights=weights,
                column_splits=np.array([0, 1, 1]),
                column_shifts=rng.standard_normal(3),
            )
            agree(mine.gram_matmat(V, masked), dense.gram_matmat(V, masked))
        for a, b in zip(
            mine.reduce_rows(Squares(left)), dense.reduce_rows(Squares(left)), strict=True
        ):
            agree(a, b)
        scaled = Multiply(rng.standard_normal((n, 3)))
        agree(mine.gram_matmat(V, scaled), dense.gram_matmat(V, scaled))


def _row_maps(mine, dense, V, rng):
    shift = rng.standard_normal((mine.shape[0], 3))
    transform = AffineRowTransform.from_values(2.0, shift, -1.0)
    agree(mine.gram_matmat(V, transform), dense.gram_matmat(V, transform))
    for method, arguments in (
        ("gram_matmat_with_rows", (V, transform)),
        ("residual_gradient", (V, shift)),
    ):
        for a, b in zip(*(getattr(d, method)(*arguments) for d in (mine, dense)), strict=True):
            agree(a, b)


def subsets(design, X, rng):
    """Some rows, and some of these."""
    n, p = X.shape
    V = rng.standard_normal((p, 2))
    choices = [
        np.arange(n // 3, n - 2),
        np.flatnonzero(rng.integers(0, 2, n)),
        np.array([0, n - 1]),
        np.arange(0),
    ]
    for rows in choices:
        some = as_design(design).subset(rows)
        agree(some.gram_matmat(V), X[rows].T @ (X[rows] @ V))
        agree(some.matmat(V), X[rows] @ V)
        again = np.arange(0, len(rows), 2)
        agree(some.subset(again).rmatmat(np.ones(len(again))), X[rows][again].sum(axis=0))


EVERYTHING = (products, moments, transform, subsets)
