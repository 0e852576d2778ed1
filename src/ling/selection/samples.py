"""The data as cross-validation sees it: rows that can be left out, and predictions for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ling.design import AffineDesign, Array, Metered
from ling.design.affine import storage_and_map
from ling.design.arrays import constant
from ling.design.maps import Affine
from ling.problem import Centring, Problem
from ling.selection.splits import Rows, Splits
from ling.selection.tally import BySplit, Measure, Tally

# Rows that are gathered at a time, in bytes.
CHUNK = 2**25
# Of the memory budget, for what is made for every alpha at once.
SHARE = 0.5
# Samples of which some can stand for all.
ENOUGH = 2000


@dataclass(frozen=True, eq=False)
class Samples:
    """A problem on all rows, and the same rows without their weights.

    `Y` is y - mean in the units of the problem, `weights` are one for each row.
    """

    problem: Problem
    centring: Centring
    Y: Array
    weights: Array
    fit_intercept: bool
    budget: float = float("inf")

    @classmethod
    def of(
        cls, problem: Problem, centring: Centring, Y: Array, weights: Array | None,
        fit_intercept: bool, budget: float = float("inf"),
    ) -> Samples:  # fmt: skip
        """From what the problem was built of."""
        centred, ones = problem.targets, constant(len(Y))
        if weights is not None:
            centred = (np.asarray(Y, dtype=np.float64) - centring.y_mean) / centring.y_unit
            ones = weights
        return cls(problem, centring, centred, ones, fit_intercept, budget)

    @property
    def shape(self) -> tuple[int, int]:
        """n_samples, n_features."""
        return self.problem.shape

    @property
    def n_targets(self) -> int:
        """Columns of Y."""
        return int(self.Y.shape[1])

    @cached_property
    def design(self) -> Metered:
        """Rows x - mean, without weights, counted together with the problem's."""
        storage, affine = storage_and_map(self.problem.design.design)
        left = None if affine.left is None else constant(self.shape[0])[:, None]
        plain = Affine(None, affine.col_scale, left, affine.right)
        return Metered(AffineDesign(storage, plain), self.problem.design.meter)

    @property
    def samples_rows(self) -> bool:
        """Whether single rows can be had cheaply, and are enough to tell something of all."""
        storage, _ = storage_and_map(self.problem.design.design)
        return storage.picks and self.shape[0] >= ENOUGH

    @property
    def by_blocks(self) -> bool:
        """Whether rows lie apart, on disk or elsewhere."""
        return storage_and_map(self.problem.design.design)[0].by_blocks

    @cached_property
    def roots(self) -> Array:
        """Square roots of the weights."""
        return self.weights if self.weights.strides == (0,) else np.sqrt(self.weights)

    def in_units(self, P: Array) -> Array:
        """Predictions in the units of y, in the place of those of centred y."""
        if (self.centring.y_unit != 1).any():
            P *= self.centring.y_unit
        P += self.centring.y_mean
        return P

    def turns(self, alphas: Array, numbers: float) -> Iterator[Array]:
        """As many alphas at a time as there is room for, each taking so many numbers."""
        step = int(np.clip(SHARE * self.budget / (8.0 * numbers), 1, len(alphas)))
        for first in range(0, len(alphas), step):
            yield alphas[first : first + step]

    def split_sums(
        self, splits: Splits, coefficients: Callable[[int, Array], tuple[Array, Array]],
        alphas: Array, measure: Measure,
    ) -> Array:  # fmt: skip
        """`Tally` of the rows that each split tests, one pass for all of them.

        `coefficients` are those of a split for some alphas, side by side, and their constants.
        """

        def tally(some: Array) -> Tally:
            columns = len(some) * self.n_targets
            W = np.empty((len(splits), self.shape[1], columns))
            constants = np.empty((len(splits), columns))
            for number in range(len(splits)):
                W[number], constants[number] = coefficients(number, some)
            return BySplit(measure, *self.of_y, len(some), splits.testing, W, constants)

        return self.tallied(alphas, tally, len(splits))

    def tallied(self, alphas: Array, tally: Callable[[Array], Tally], n_fits: int = 1) -> Array:
        """Sums of all alphas, from tallies of as many as `n_fits` sets of coefficients leave room.

        A pass for each turn.
        """
        turns = self.turns(alphas, n_fits * self.n_targets * self.shape[1])
        return np.concatenate([self.design.sum_rows(tally(some))[0] for some in turns], axis=1)

    @property
    def of_y(self) -> tuple[Array, Array]:
        """The mean and the unit that were taken of y."""
        return self.centring.y_mean, self.centring.y_unit

    def chunks(self, rows: Rows) -> list[Rows]:
        """`rows` in parts that can be gathered; all, where rows lie in blocks anyway."""
        if self.by_blocks:
            return [rows]
        height = max(256, CHUNK // (8 * max(1, self.shape[1])))
        return [rows[a : a + height] for a in range(0, len(rows), height)]


class Validation(ABC):
    """Predictions for samples by fits that have not seen them; exact, unless said otherwise."""

    samples: Samples
    n_splits: int

    @abstractmethod
    def test(self, number: int) -> Rows:
        """The rows that a split tests."""

    def tested(self, number: int) -> Rows | slice:
        """The same, but a slice if these are all."""
        return self.test(number)

    @property
    def adds_up(self) -> bool:
        """Whether scores that samples add to one by one are better had without predictions."""
        return False

    def sums(self, alphas: Array, measure: Measure) -> Array:
        """(n_splits, n_alphas, s, 3): see `Tally`; one pass, where it `adds_up`."""
        raise NotImplementedError

    @abstractmethod
    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """The number of the split and of the alpha, and predictions for its test rows."""

    def certified(self, alphas: Array) -> Array:
        """For which alphas the fits are exact, or proved to be within tol."""
        return np.ones(len(alphas), dtype=bool)

    def degrees(self, alphas: Array) -> tuple[Array, Array] | None:
        """Effective degrees of freedom of a fit to all samples, and their errors, if known."""
        return None

    def work(self, alphas: Array) -> bool:
        """Do what it takes to have these alphas certified; whether anything was done."""
        return False

    @property
    def full(self) -> bool:
        """Whether there is no memory left to work with."""
        return False

    @property
    def gave_up(self) -> bool:
        """Whether another way would have been there by now."""
        return False
