"""Cross-validation without factorisations: one subspace for every training set.

Training sets differ by a mask of rows only, so all spaces grow from the same passes over X. Each
gives the solutions for all alphas. With all rows as the one training set, random probes among the
right-hand sides estimate the degrees of freedom, and with them generalised cross-validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from ling.design import Array, Masked
from ling.design.threads import quiet_blas
from ling.engines.from_sample import strong_directions
from ling.minorant import product_noise
from ling.selection.columns import Columns
from ling.selection.grid import size
from ling.selection.samples import Samples, Validation
from ling.selection.splits import Rows, Splits
from ling.selection.subspace import Subspace
from ling.selection.tally import Generalised, Measure, Tally

# Directions by which every space grows in a pass.
WIDTH = 4
# Directions that a sample of rows may give to start with.
STRONG = 32
# Of trace(X'X): directions below it are not worth a start.
LOW = 1e-6
CONSTANT = 1e-13
# A space is looked at again when it has grown by this much.
GROWTH = 1.15
# Share of the memory budget that all spaces together may take.
ROOM = 0.8
# Relative error of a probe's solution that is good enough: it enters squared.
PROBED = 0.03
# Numbers that the coefficients of several alphas may take at once.
AT_ONCE = 2**24


class IteratedFolds(Validation):
    """Predictions for the test rows of every split, from spaces that grow until they are near.

    `tol` is what training predictions are certified to. `probes` are random vectors whose
    solutions are sought besides those of y, `worth` the passes after which another way would have
    been faster.
    """

    def __init__(
        self, samples: Samples, splits: Splits, tol: float, probes: int = 0,
        rng: np.random.Generator | None = None, worth: float = float("inf"),
    ) -> None:  # fmt: skip
        self.samples = samples
        self.passes, self.worth = 0, worth
        self.splits, self.n_splits = splits, len(splits)
        self.tol = tol
        self.training = splits.training
        self._start(probes, np.random.default_rng() if rng is None else rng)

    def test(self, number: int) -> Rows:
        """The rows that a split tests."""
        return self.splits.test(number)

    def _start(self, probes: int, rng: np.random.Generator) -> None:
        """Means and right-hand sides of all training sets; one pass."""
        samples, n, t = self.samples, self.samples.shape[0], self.samples.n_targets
        columns = Columns.of(samples, self.training, self.n_splits, probes, rng)
        products = self._right_hand_sides(columns)
        masses, totals = columns.totals()
        squares = samples.problem.column_norms**2
        noise = product_noise(samples.shape) * float((samples.problem.raw_norms**2).max())
        self.x_shifts: list[Array] = []
        self.y_shifts: list[Array] = []
        self.tols: list[Array] = []
        self.spaces: list[Subspace] = []
        y_shifts = np.zeros((self.n_splits, t))
        if samples.fit_intercept:
            y_shifts = totals[:, :t] / masses[:, None]
        spreads, lengths = columns.spreads(y_shifts)
        for number, mine in enumerate(products):
            mass, spread, y_shift = float(masses[number]), spreads[number], y_shifts[number]
            sums, xy, probed = mine[:, 0], mine[:, 1 : 1 + t], mine[:, 1 + t :]
            x_shift = np.zeros_like(sums)
            if samples.fit_intercept:
                x_shift = sums / mass
                probed = probed - np.outer(x_shift, totals[number, t:])
            self.x_shifts.append(x_shift)
            self.y_shifts.append(y_shift)
            self.tols.append(np.append(self.tol * spread, np.full(probes, PROBED * np.sqrt(n))))
            # A target that is constant in a training set, but for rounding, is predicted by 0.
            xy = np.where(spread > CONSTANT * lengths[number], xy, np.outer(sums, y_shift))
            wanted = np.hstack([xy - np.outer(sums, y_shift), probed])
            share = mass / max(float(samples.weights.sum()), 1e-300)
            self.spaces.append(Subspace(wanted, share * squares, noise))
        if samples.samples_rows:
            # What stands out of rounding and noise counts, whatever the alphas will be.
            low = np.full(t, LOW * size(samples.problem))
            strong = strong_directions(replace(samples.problem, alphas=low), rng, STRONG)
            if strong.shape[1]:
                self._add([strong] * len(self.spaces))

    def _right_hand_sides(self, columns: Columns) -> list[Array]:
        """For each training set X'w, X'(w y) and X'(sqrt(w) signs), w being its weights."""
        samples = self.samples
        if self._whole and not columns.probes:  # X is centred, and the rest is known
            none = np.zeros((samples.shape[1], 1))
            return [np.hstack([none, samples.problem.moments])] * self.n_splits
        nothing = np.zeros((samples.shape[1], columns.width))
        return np.split(samples.design.gram_matmat(nothing, columns), self.n_splits, axis=1)

    @cached_property
    def _whole(self) -> bool:
        """Whether every training set is all of the samples, centred as they are."""
        return self.splits.trains_on_all and bool((self.samples.weights == 1).all())

    @property
    def gave_up(self) -> bool:
        """Whether another way would have been there by now."""
        return self.passes > self.worth

    @property
    def full(self) -> bool:
        """Whether memory does not allow another block."""
        dimensions = sum(space.dimension + WIDTH for space in self.spaces)
        return bool(32.0 * self.samples.shape[1] * dimensions > ROOM * self.samples.budget)

    def certified(self, alphas: Array) -> Array:
        """For which alphas every training fit is proved to be within tol."""
        found = np.ones(len(alphas), dtype=bool)
        for number in range(len(self.spaces)):
            found &= self._within(number, alphas)
        return found

    def work(self, alphas: Array) -> bool:
        """Grow the spaces until these alphas are certified; whether they have grown."""
        before = self.passes
        waiting = list(range(len(self.spaces)))
        while True:
            waiting = [number for number in waiting if not self._done(number, alphas)]
            if not waiting or self.full or self.gave_up:
                return self.passes > before
            sizes = {number: self.spaces[number].dimension for number in waiting}
            growing = waiting
            while growing and not self.full and not self.gave_up:
                self._grow(growing, alphas)
                growing = [n for n in growing if not self.spaces[n].exhausted
                           and self.spaces[n].dimension < GROWTH * sizes[n]]  # fmt: skip

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """The number of the split and of the alpha, and predictions for its test rows."""
        for number in range(len(self.spaces)):
            for at, P in enumerate(self._predictions(number, alphas)):
                yield number, at, self.samples.in_units(P)

    def _predictions(self, number: int, alphas: Array) -> Iterator[Array]:
        t = self.samples.n_targets
        rows = self.samples.design.subset(self.test(number))
        step = max(1, AT_ONCE // max(1, t * sum(rows.shape)))
        for start in range(0, len(alphas), step):
            some = alphas[start : start + step]
            W, constant = self._coefficients(number, some)
            yield from np.split(rows.matmat(W) + constant, len(some), axis=1)

    def _coefficients(self, number: int, alphas: Array) -> tuple[Array, Array]:
        """(p, n_alphas * t), and the constants that go with them."""
        space, t = self.spaces[number], self.samples.n_targets
        Y = space.solutions(alphas)[:, :, :t]
        W = space.basis @ Y.reshape(len(Y), len(alphas) * t)
        return W, np.tile(self.y_shifts[number], len(alphas)) - self.x_shifts[number] @ W

    @property
    def adds_up(self) -> bool:
        """Where rows lie apart."""
        return self.samples.by_blocks and not self.splits.tests_repeatedly

    def sums(self, alphas: Array, measure: Measure) -> Array:
        """(n_splits, n_alphas, s, 3), one pass for all splits."""
        return self.samples.split_sums(self.splits, self._coefficients, alphas, measure)

    def _done(self, number: int, alphas: Array) -> bool:
        return self.spaces[number].exhausted or bool(self._within(number, alphas).all())

    def _within(self, number: int, alphas: Array) -> Array:
        """For which alphas the bounds on all solutions are met."""
        with quiet_blas():
            bounds = self.spaces[number].bounds(alphas)
        return np.asarray((bounds <= self.tols[number]).all(axis=1))

    def _grow(self, numbers: list[int], alphas: Array) -> None:
        """A block more for these spaces; one pass."""
        with quiet_blas():
            blocks = [self.spaces[n].proposed(alphas, self.tols[n], WIDTH) for n in numbers]
        self._add(blocks, numbers)

    def _add(self, blocks: list[Array], numbers: list[int] | None = None) -> None:
        """These directions to those spaces, all of them if not said; one pass."""
        numbers = list(range(len(blocks))) if numbers is None else numbers
        owner = np.repeat(numbers, [block.shape[1] for block in blocks])
        V = np.hstack(blocks)
        self.passes += 1
        products = np.zeros_like(V)
        if V.shape[1]:
            shifts = np.concatenate(
                [self.x_shifts[n] @ block for n, block in zip(numbers, blocks, strict=True)]
            )
            # All rows with equal weights need no mask, and no call from inside the sweep.
            masked = None if self._whole else Masked(
                self.training, self.samples.weights, owner, shifts
            )  # fmt: skip
            products = self.samples.design.gram_matmat(V, masked)
        with quiet_blas():
            for number, block in zip(numbers, blocks, strict=True):
                self.spaces[number].extend(block, products[:, owner == number])


class StochasticLeaveOneOut(IteratedFolds):
    """Generalised cross-validation: leave-one-out with the mean of all samples' leverages.

    The residual of sample i is r_i / (1 - edf / n). edf, the trace of the matrix that makes
    predictions of y, is the mean of z'H z over random signs z (Hutchinson 1990).
    """

    def __init__(self, samples: Samples, tol: float, probes: int, rng: np.random.Generator) -> None:
        super().__init__(samples, Splits.everything(samples.shape[0]), tol, probes, rng)

    def test(self, number: int) -> Rows:
        """All rows."""
        return np.arange(self.samples.shape[0])

    def tested(self, number: int) -> slice:
        """The same."""
        return slice(None)

    def degrees(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom, without the intercept's, and their standard errors."""
        space, t = self.spaces[0], self.samples.n_targets
        Y = space.solutions(alphas)[:, :, t:]
        inner = space.basis.T @ space.wanted[:, t:]
        each = np.einsum("mat,mt->at", Y, inner)
        return each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(each.shape[1])

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """For each alpha in turn, those of all samples, as if each had been left out."""
        samples, kept = self.samples, self._kept(alphas)
        for at, P in enumerate(self._predictions(0, alphas)):
            yield 0, at, samples.in_units(samples.Y - (samples.Y - P) / kept[at])

    def _kept(self, alphas: Array) -> Array:
        """What a residual is divided by."""
        n = self.samples.centring.n_counted
        degrees, _ = self.degrees(alphas)
        return np.maximum(1 - (degrees + self.samples.fit_intercept) / n, 1 / n)

    def sums(self, alphas: Array, measure: Measure) -> Array:
        """(1, n_alphas, s, 3), one pass."""
        samples = self.samples

        def tally(some: Array) -> Tally:
            return Generalised(
                measure, *samples.of_y, len(some), samples.Y, *self._coefficients(0, some),
                self._kept(some),
            )  # fmt: skip

        return samples.tallied(alphas, tally)
