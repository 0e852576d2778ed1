"""Direct cross-validation: a tridiagonal form for every training set, and all alphas from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ling.design import AffineDesign, Array, DenseDesign, Design, Metered
from ling.engines.graded import Graded, form_of
from ling.engines.tridiagonal import Tridiagonal
from ling.minorant import EPS
from ling.selection.samples import Samples, Validation
from ling.selection.splits import Rows, Splits, runs
from ling.selection.tally import Measure

# A training set's Gram matrix is what is left of the total; less than this has lost digits.
LEFT = 1e-4
# Relative errors, by rounding, up to which fits count as exact.
EXACT = 1e-3
# Numbers that the coefficients of several alphas may take at once.
ROOM = 2**23


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted sums over some rows: of 1, x, y, x y' and x x'; means of x and y once centred."""

    mass: float
    x: Array
    y: Array
    xy: Array
    gram: Array

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            self.mass - other.mass, self.x - other.x, self.y - other.y, self.xy - other.xy,
            self.gram - other.gram,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Fitted:
    """All coefficients of one training set: M (A + alpha I)^-1 C + constant are predictions.

    `form` is A's, `C` the right-hand side, `to_predict` gives M as a design, `constant` what the
    intercept takes: y_shift - x_shift'w.
    """

    form: Tridiagonal | Graded
    C: Array
    to_predict: Callable[[], Design]
    x_shift: Array
    y_shift: Array

    @cached_property
    def rows(self) -> Design:
        """M."""
        return self.to_predict()

    @cached_property
    def turned(self) -> Array:
        """Q'C."""
        return self.form.to(self.C)

    @cached_property
    def turned_rows(self) -> tuple[DenseDesign, Array]:
        """M Q and Q'x_shift: worth it if there are more columns to predict than rows."""
        Q = self.form.Q
        turned = self.rows.each_row(lambda rows: rows @ Q)
        return DenseDesign(turned), self.form.to(self.x_shift[:, None])[:, 0]

    def turned_coefficients(self, alphas: Array) -> Array:
        """Q'(A + alpha I)^-1 C for all alphas, side by side."""
        return np.hstack([self.form.solve(self.turned, float(alpha)) for alpha in alphas])

    def coefficients(self, alphas: Array) -> tuple[Array, Array]:
        """(p, n_alphas * t), and the constants that go with them."""
        W = self.form.back(self.turned_coefficients(alphas))
        return W, np.tile(self.y_shift, len(alphas)) - self.x_shift @ W

    def predictions(self, alphas: Array) -> Iterator[Array]:
        """(n_rows, t) for each alpha in turn."""
        targets = self.C.shape[1]
        many = targets * len(alphas) > self.rows.shape[0]
        rows: Design = self.turned_rows[0] if many else self.rows
        shift = self.turned_rows[1] if many else self.x_shift
        step = max(1, ROOM // max(1, targets * (len(self.form) + self.rows.shape[0])))
        for start in range(0, len(alphas), step):
            some = alphas[start : start + step]
            W = self.turned_coefficients(some)
            W = W if many else self.form.back(W)
            P = rows.matmat(W) + (np.tile(self.y_shift, len(some)) - shift @ W)
            for at in range(len(some)):
                yield P[:, at * targets : (at + 1) * targets]


class DirectFolds(Validation):
    """Exact predictions for the test rows of every split.

    `keep` says whether more alphas may follow, for which factorisations are kept if they fit.
    """

    def __init__(self, samples: Samples, splits: Splits, keep: bool = False) -> None:
        self.samples = samples
        self.keep = keep
        self.splits = splits
        self.n_splits = len(splits)
        self._kept: dict[int, Fitted] = {}
        self._errors: dict[int, Array] = {}

    def test(self, number: int) -> Rows:
        """The rows that a split tests."""
        return self.splits.test(number)

    @property
    def adds_up(self) -> bool:
        """Where rows lie apart, and Gram matrices are what there is of them."""
        n, p = self.samples.shape
        return self.samples.by_blocks and p <= n and not self.splits.tests_repeatedly

    def sums(self, alphas: Array, measure: Measure) -> Array:
        """(n_splits, n_alphas, s, 2), one pass for all splits."""

        def coefficients(number: int, some: Array) -> tuple[Array, Array]:
            return self._fitted(number, alphas).coefficients(some)

        return self.samples.split_sums(self.splits, coefficients, alphas, measure)

    def certified(self, alphas: Array) -> Array:
        """For which of the alphas predicted last rounding leaves enough digits in every fit."""
        return np.asarray(np.max(list(self._errors.values()), axis=0) <= EXACT)

    def degrees(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom of a fit to all samples; their errors, which are 0."""
        problem = self.samples.problem
        wide = self.samples.shape[1] > self.samples.shape[0]
        form = form_of(problem.row_gram() if wide else problem.gram(), float(alphas.min()))
        return form.degrees(alphas), np.zeros(len(alphas))

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """The number of the split and of the alpha, and predictions for its test rows."""
        for number in range(self.n_splits):
            fitted = self._fitted(number, alphas)
            for at, P in enumerate(fitted.predictions(alphas)):
                yield number, at, self.samples.in_units(P)

    def _fitted(self, number: int, alphas: Array) -> Fitted:
        """Kept for the next alphas, if all of them fit."""
        found = self._kept.get(number)
        if found is None:
            n, p = self.samples.shape
            make = _primal if p <= n else _dual
            found = make(self.samples, self.splits, number, float(alphas.min()))
            self.samples.problem.design.meter.add(4 / 3 * float(len(found.form)) ** 3)
            rows = 0 if self.adds_up else n
            n_bytes = 16.0 * (self.n_splits * min(n, p) ** 2 + rows * min(n, p))
            if self.keep and n_bytes <= 0.5 * self.samples.budget:
                self._kept[number] = found
        self._errors[number] = found.form.error(alphas)
        return found


def _primal(samples: Samples, splits: Splits, number: int, least: float) -> Fitted:
    """From X'X of all rows, less that of the rows left out, or from the rows trained on."""
    left_out = splits.left_out(number)
    sums = None
    # Rows that are there twice, as in a bootstrap, are not what the others leave.
    if left_out is not None and 2 * len(left_out) < samples.shape[0]:
        total = _total(samples)
        sums = total - _sums(samples, left_out)
        sums = _centred(samples, replace(sums, mass=_mass_without(samples, left_out)))
        before, after = np.diag(total.gram), np.diag(sums.gram)
        if EPS * before[after < LEFT * before].sum() > 1e-10 * least:  # rounding that would show
            sums = None
    if sums is None:
        train = splits.train(number)
        x, y = _means(samples, train)
        sums = replace(_sums(samples, train, x, y), x=x, y=y)

    def to_predict() -> Design:
        return samples.design.subset(splits.test(number))

    return Fitted(form_of(sums.gram, least), sums.xy, to_predict, sums.x, sums.y)


def _mass_without(samples: Samples, left_out: Rows) -> float:
    """Weights of all other rows; a difference would have lost digits."""
    kept = np.ones(samples.shape[0], dtype=bool)
    kept[left_out] = False
    return float(sum(samples.weights[run][kept[run]].sum() for run in runs(len(kept))))


def _centred(samples: Samples, sums: Sums) -> Sums:
    """Products of what is left of x and y when their means, which are x and y now, are taken."""
    if not samples.fit_intercept:
        return replace(sums, x=np.zeros_like(sums.x), y=np.zeros_like(sums.y))
    x, y = sums.x / sums.mass, sums.y / sums.mass
    xy = sums.xy - np.outer(sums.mass * x, y)
    return replace(sums, x=x, y=y, xy=xy, gram=sums.gram - np.outer(sums.mass * x, x))


def _total(samples: Samples) -> Sums:
    """Sums of x and y are 0 if they are centred, and not needed if they are not."""
    none = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    problem = samples.problem
    return Sums(float(samples.weights.sum()), *none, problem.moments, problem.gram())


def _sums(
    samples: Samples, rows: Rows, x_shift: Array | None = None, y_shift: Array | None = None
) -> Sums:
    """Over `rows`, of x and y less their shifts: means far off would otherwise take the digits."""
    p, weights, Y = samples.shape[1], samples.weights[rows], samples.Y[rows]
    Y = Y if y_shift is None else Y - y_shift
    roots = np.sqrt(weights)[:, None]
    right = np.hstack([roots, roots * Y])
    gram, products = np.zeros((p, p)), np.zeros((p, right.shape[1]))
    at = 0
    for some in samples.chunks(rows):
        block = samples.problem.design.subset(some)
        here = slice(at, at + len(some))
        if x_shift is not None:
            moved = AffineDesign.corrected(block.design, roots[here], x_shift[:, None])
            block = Metered(moved, block.meter, block.share)
        gram += block.gram(np.float64)
        products += block.rmatmat(right[here])
        at += len(some)
    return Sums(float(weights.sum()), products[:, 0], weights @ Y, products[:, 1:], gram)


def _means(samples: Samples, rows: Rows) -> tuple[Array, Array]:
    """Weighted means of x and y over `rows`; zeros without an intercept."""
    x, y = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    if samples.fit_intercept:
        weights = samples.weights[rows]
        for some in samples.chunks(rows):
            x += samples.problem.design.subset(some).rmatmat(samples.roots[some])
        return x / weights.sum(), weights @ samples.Y[rows] / weights.sum()
    return x, y


def _dual(samples: Samples, splits: Splits, number: int, least: float) -> Fitted:
    """From X X' of all rows: that of the training rows, centred on their own mean."""
    K = kernel(samples)
    train, test = splits.train(number), splits.test(number)
    roots, Y = samples.roots[train], samples.problem.targets[train]
    inner = K[np.ix_(train, train)]
    across = K[np.ix_(test, train)]
    y_shift = np.zeros(samples.n_targets)
    if samples.fit_intercept:
        # Weighted rows lose their part along u, the direction of the roots of the weights.
        mass = float(roots @ roots)
        across -= (roots**2 @ inner) / mass
        y_shift = roots @ Y / mass
        Y = Y - np.outer(roots, y_shift)
    inner *= roots[:, None]
    inner *= roots
    across *= roots
    if samples.fit_intercept:
        u = roots / np.linalg.norm(roots)
        Ku = inner @ u
        inner -= np.outer(u, Ku - 0.5 * (u @ Ku) * u)
        inner -= np.outer(Ku - 0.5 * (u @ Ku) * u, u)
        across -= np.outer(across @ u, u)  # or rounding of c along u would be divided by alpha
    none = np.zeros(len(train))
    return Fitted(form_of(inner, least), Y, lambda: DenseDesign(across), none, y_shift)


def kernel(samples: Samples) -> Array:
    """X X' of centred rows without weights, made once; one pass."""
    if (samples.weights == 1).all():
        return samples.problem.row_gram()
    made = samples.problem.made
    if "kernel" not in made:
        made["kernel"] = samples.design.row_gram(np.float64)
    return np.asarray(made["kernel"])
