"""Leave-one-out: exact for every alpha, from one tridiagonal form.

Leaving sample i out of a ridge fit moves its residual from r_i to r_i / (1 - h_i), where h_i is the
weight of y_i in its own prediction: h_i = w_i (x_i'(X'X + alpha I)^-1 x_i + 1 / sum w).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ling.design import Array
from ling.engines.graded import Graded, form_of
from ling.engines.tridiagonal import FORM, Tridiagonal, tridiagonal
from ling.problem import Problem
from ling.selection.folds import EXACT, Fitted, kernel
from ling.selection.samples import Samples, Validation
from ling.selection.splits import Rows
from ling.selection.tally import LeftOut, Measure, Tally


class ExactLeaveOneOut(Validation):
    """Predictions for each sample by the fit to all others, from X'X or from X X'."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.n_splits = 1
        n, p = samples.shape
        # With as many coefficients as samples all leverages go to 1 with alpha, and 1 - h cancels.
        self._left_out = _Primal(samples) if p + samples.fit_intercept < n else _Dual(samples)

    def test(self, number: int) -> Rows:
        """All rows."""
        return np.arange(self.samples.shape[0])

    def tested(self, number: int) -> slice:
        """The same."""
        return slice(None)

    @property
    def adds_up(self) -> bool:
        """Where rows lie apart, and X'X is what there is of them."""
        return self.samples.by_blocks and self._left_out.adds_up

    def sums(self, alphas: Array, measure: Measure) -> Array:
        """(1, n_alphas, s, 3), one pass."""
        return self._left_out.sums(alphas, measure)

    def degrees(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom, without the intercept's; their errors, which are 0."""
        found = self._left_out.form(alphas).degrees(alphas)
        return found - self._left_out.added(alphas), np.zeros(len(alphas))

    def certified(self, alphas: Array) -> Array:
        """For which alphas rounding leaves enough digits."""
        return np.asarray(self._left_out.form(alphas).error(alphas) <= EXACT)

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """For each alpha in turn, those of all samples."""
        for at, residuals in enumerate(self._left_out.residuals(alphas)):
            P = np.subtract(self.samples.Y, residuals, out=residuals)
            yield 0, at, self.samples.in_units(P)


def forget_form(problem: Problem) -> None:
    """Drop the form that leave-one-out left for the fit, if rounding may have made it singular."""
    form = problem.made.get(FORM)
    if form is not None and form.error(problem.alphas).max() > EXACT:
        del problem.made[FORM]


class _Primal:
    adds_up = True

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.fitted: Fitted | None = None

    def form(self, alphas: Array) -> Tridiagonal | Graded:
        """Made for the first alphas; more of them hardly need another."""
        return self._fitted(alphas).form

    def _fitted(self, alphas: Array) -> Fitted:
        if self.fitted is None:
            samples = self.samples
            form = form_of(samples.problem.gram(), float(alphas.min()))
            samples.problem.design.meter.add(4 / 3 * float(len(form)) ** 3)
            if isinstance(form, Tridiagonal):
                samples.problem.made[FORM] = form
            p, t = samples.shape[1], samples.n_targets
            self.fitted = Fitted(
                form, samples.problem.moments, lambda: samples.design, np.zeros(p), np.zeros(t)
            )
        return self.fitted

    def added(self, alphas: Array) -> Array:
        return np.zeros(len(alphas))

    def residuals(self, alphas: Array) -> Iterator[Array]:
        fitted = self._fitted(alphas)
        # A number for each sample and alpha, twice over.
        for some in self.samples.turns(alphas, 2 * self.samples.shape[0]):
            kept = self._leverages(fitted, some)
            np.subtract(1, kept, out=kept)
            for at, P in enumerate(fitted.predictions(some)):
                residuals = np.subtract(self.samples.Y, P, out=P)
                residuals /= kept[:, at, None]
                yield residuals

    def sums(self, alphas: Array, measure: Measure) -> Array:
        samples, fitted = self.samples, self._fitted(alphas)
        share = 1 / float(samples.weights.sum()) if samples.fit_intercept else 0.0

        def tally(some: Array) -> Tally:
            return LeftOut(
                measure, *samples.of_y, len(some), fitted.form, fitted.form.Q,
                fitted.turned_coefficients(some), some, share, samples.Y, samples.weights,
            )  # fmt: skip

        return samples.tallied(alphas, tally)

    def _leverages(self, fitted: Fitted, alphas: Array) -> Array:
        samples, form = self.samples, fitted.form
        # Where predictions need the same rows turned, they are.
        if samples.n_targets * len(alphas) > samples.shape[0]:
            found = form.forms(fitted.turned_rows[0].array, alphas)
        else:
            Q = form.Q
            found = samples.design.each_row(lambda rows: form.forms(rows @ Q, alphas))
        if samples.fit_intercept:
            found += 1 / float(samples.weights.sum())
        found *= samples.weights[:, None]
        return found


class _Dual:
    """With c = (K + alpha I)^-1 y, K = X X': the residual is c_i / (K + alpha I)^-1_ii.

    With an intercept, K has the direction u of the roots of the weights as a null vector, where
    1 / alpha would drown everything else; K + size u u' has not, and c is the same.
    """

    adds_up = False

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        roots = samples.roots
        K = kernel(samples) * roots * roots[:, None]
        self.size, self.u = 0.0, roots / np.linalg.norm(roots)
        if samples.fit_intercept:
            self.size = float(np.trace(K)) / len(K) or 1.0
            K += np.outer(self.size * self.u, self.u)
        self.tridiagonal = tridiagonal(K)
        samples.problem.design.meter.add(4 / 3 * float(len(K)) ** 3)
        if samples.shape[1] > samples.shape[0]:  # or a fit to all samples is made from X'X
            # Targets have no part along u, so that this form does for it as well.
            samples.problem.made[FORM] = self.tridiagonal
        self.turned = self.tridiagonal.to(samples.problem.targets)

    def form(self, alphas: Array) -> Tridiagonal:
        return self.tridiagonal

    def added(self, alphas: Array) -> Array:
        """What the direction u, which is none of X's, adds to the degrees of freedom."""
        return np.asarray(self.size / (self.size + alphas))

    def sums(self, alphas: Array, measure: Measure) -> Array:
        raise NotImplementedError

    def residuals(self, alphas: Array) -> Iterator[Array]:
        form = self.tridiagonal
        diagonals = form.forms(form.Q, alphas)
        if self.samples.fit_intercept:
            diagonals -= self.u[:, None] ** 2 / (self.size + alphas)
        for at, alpha in enumerate(alphas):
            c = form.Q @ form.solve(self.turned, float(alpha))
            found = np.divide(
                c, self.samples.roots[:, None] * diagonals[:, at, None],
                out=np.zeros_like(c), where=self.samples.roots[:, None] > 0,
            )  # fmt: skip
            yield self._with_weightless(found, c)

    def _with_weightless(self, residuals: Array, c: Array) -> Array:
        """Samples of weight 0 are left out anyway."""
        without = self.samples.weights == 0
        if without.any():
            K = kernel(self.samples)[without]
            residuals[without] = self.samples.Y[without] - K @ (self.samples.roots[:, None] * c)
        return residuals
