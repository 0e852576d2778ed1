"""The data as cross-validation sees it: rows that can be left out, and predictions for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ling.design import AffineDesign, Array, Metered
from ling.design.affine import storage_and_map
from ling.design.maps import Affine
from ling.problem import Centring, Problem

Rows = NDArray[np.intp]
# Rows that are gathered at a time, in bytes.
CHUNK = 2**25
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
        centred = (np.asarray(Y, dtype=np.float64) - centring.y_mean) / centring.y_unit
        ones = np.ones(len(Y)) if weights is None else weights
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
        left = None if affine.left is None else np.ones((self.shape[0], 1))
        plain = Affine(None, affine.col_scale, left, affine.right)
        return Metered(AffineDesign(storage, plain), self.problem.design.meter)

    @property
    def samples_rows(self) -> bool:
        """Whether single rows can be had cheaply, and are enough to tell something of all."""
        storage, _ = storage_and_map(self.problem.design.design)
        return storage.picks and self.shape[0] >= ENOUGH

    @cached_property
    def roots(self) -> Array:
        """Square roots of the weights."""
        return np.sqrt(self.weights)

    def in_units(self, P: Array) -> Array:
        """Predictions in the units of y, in the place of those of centred y."""
        if (self.centring.y_unit != 1).any():
            P *= self.centring.y_unit
        P += self.centring.y_mean
        return P

    def chunks(self, rows: Rows) -> list[Rows]:
        """`rows` in parts that can be gathered; all, where rows lie in blocks anyway."""
        if storage_and_map(self.problem.design.design)[0].by_blocks:
            return [rows]
        height = max(256, CHUNK // (8 * max(1, self.shape[1])))
        return [rows[a : a + height] for a in range(0, len(rows), height)]


class Validation(ABC):
    """Predictions for samples by fits that have not seen them; exact, unless said otherwise."""

    samples: Samples
    tests: list[Rows]

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
