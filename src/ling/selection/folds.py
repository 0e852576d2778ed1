"""Direct cross-validation: a tridiagonal form for every training set, and all alphas from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ling.design import Array, DenseDesign, Design
from ling.engines.graded import Graded, form_of
from ling.engines.tridiagonal import Tridiagonal
from ling.minorant import EPS
from ling.selection.samples import Samples, Validation
from ling.selection.splits import Rows, Splits
from ling.selection.sums import Sums, by_split, centred, means, over, total, training_mass
from ling.selection.tally import Measure

# A training set's Gram matrix is what is left of the total; less than this has lost digits.
LEFT = 1e-4
# Relative errors, by rounding, up to which fits count as exact.
EXACT = 1e-3
# Numbers that the coefficients of several alphas may take at once.
ROOM = 2**23


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
        self._sums: dict[int, Sums] = {}
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
        """(n_splits, n_alphas, s, 3), one pass for all splits."""

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
            found = self._made(number, float(alphas.min()))
            self.samples.problem.design.meter.add(4 / 3 * float(len(found.form)) ** 3)
            if self._keeps:
                self._kept[number] = found
        self._errors[number] = found.form.error(alphas)
        return found

    def _made(self, number: int, least: float) -> Fitted:
        n, p = self.samples.shape
        if p > n:
            return _dual(self.samples, self.splits, number, least)
        return _primal(self.samples, self.splits, number, least, self._left_out(number))

    @property
    def _keeps(self) -> bool:
        """Whether more alphas may follow, as they do in turns where scores add up, and fit."""
        n, p = self.samples.shape
        squares = 16.0 * self.n_splits * min(n, p) ** 2
        if self.adds_up:
            return squares <= 0.25 * self.samples.budget
        return self.keep and squares + 16.0 * n * min(n, p) <= 0.5 * self.samples.budget

    def _left_out(self, number: int) -> Sums | None:
        """Over the rows that a split leaves out; None if the others are not what is left.

        Where rows lie apart, sums of as many splits as there is room for come from one pass.
        """
        samples, splits = self.samples, self.splits
        if not (samples.by_blocks and splits.tested_by is not None):
            rows = splits.left_out(number)
            # Rows that are there twice, as in a bootstrap, are not what the others leave.
            few = rows is not None and 2 * len(rows) < samples.shape[0]
            return over(samples, rows) if rows is not None and few else None
        if 2 * np.count_nonzero(splits.tested_by == number) >= samples.shape[0]:
            return None
        if number not in self._sums:
            n_bytes = 16.0 * samples.shape[1] * (samples.shape[1] + samples.n_targets)
            several = int(np.clip(0.25 * samples.budget / n_bytes, 1, self.n_splits))
            some = range(number, min(number + several, self.n_splits))
            self._sums = by_split(samples, splits, some)
        return self._sums.pop(number)


def _primal(
    samples: Samples, splits: Splits, number: int, least: float, left_out: Sums | None
) -> Fitted:
    """From X'X of all rows, less that of the rows left out, or from the rows trained on."""
    sums = None
    if left_out is not None:
        everything = total(samples)
        mass = training_mass(samples, splits, number)
        sums = centred(samples, replace(everything - left_out, mass=mass))
        before, after = np.diag(everything.gram), np.diag(sums.gram)
        if EPS * before[after < LEFT * before].sum() > 1e-10 * least:  # rounding that would show
            sums = None
    if sums is None:
        train = splits.train(number)
        x, y = means(samples, train)
        sums = replace(over(samples, train, x, y), x=x, y=y)

    def to_predict() -> Design:
        return samples.design.subset(splits.test(number))

    return Fitted(form_of(sums.gram, least), sums.xy, to_predict, sums.x, sums.y)


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
