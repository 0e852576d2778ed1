"""Right-hand sides of all training sets, made row by row where the rows are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ling.design import Array
from ling.design.between import RowWise, times_trained
from ling.selection.samples import Samples
from ling.selection.splits import runs


@dataclass(frozen=True, eq=False)
class Columns(RowWise):
    """w, w y and sqrt(w) signs, w being the weights of each training set, side by side.

    Made where the rows are, whatever X V is there: there are many of them. `bits` are the signs,
    a bit for each.
    """

    training: Array
    weights: Array
    Y: Array
    bits: NDArray[np.uint32]
    n_splits: int
    probes: int

    @classmethod
    def of(
        cls, samples: Samples, training: Array, n_splits: int, probes: int, rng: np.random.Generator
    ) -> Columns:
        """With random signs."""
        n = samples.shape[0]
        bits = np.broadcast_to(np.uint32(0), (n,))
        if probes:
            bits = rng.integers(0, 2**probes, n, np.uint32)
        return cls(training, samples.weights, samples.Y, bits, n_splits, probes)

    @property
    def width(self) -> int:
        """Columns of it."""
        return self.n_splits * (1 + int(self.Y.shape[1]) + self.probes)

    def per_row(self) -> dict[str, Any]:
        """Everything that it is made of."""
        names = "training", "weights", "Y", "bits"
        return {name: getattr(self, name) for name in names}

    def with_rows(self, arrays: dict[str, Any]) -> Self:
        """For some of the rows."""
        return replace(self, **arrays)

    def __call__(self, U: Array, rows: slice) -> Array:
        """On these rows."""
        blocks = []
        for w, signs in self._by_split(rows):
            blocks += [w[:, None], w[:, None] * self.Y[rows], np.sqrt(w)[:, None] * signs]
        return np.hstack(blocks).astype(U.dtype, copy=False)

    def totals(self) -> tuple[Array, Array]:
        """The mass of each training set, and the sums of its other columns."""
        masses = np.zeros(self.n_splits)
        found = np.zeros((self.n_splits, self.Y.shape[1] + self.probes))
        for rows in runs(len(self.Y)):
            for number, (w, signs) in enumerate(self._by_split(rows)):
                masses[number] += w.sum()
                found[number] += np.hstack([w @ self.Y[rows], np.sqrt(w) @ signs])
        return masses, found

    def spreads(self, shifts: Array) -> tuple[Array, Array]:
        """||y - shift|| and ||y|| on every training set."""
        squares = np.zeros((2, self.n_splits, self.Y.shape[1]))
        for rows in runs(len(self.Y)):
            Y = self.Y[rows]
            for number, (w, _) in enumerate(self._by_split(rows)):
                squares[0, number] += w @ (Y - shifts[number]) ** 2
                squares[1, number] += w @ Y**2
        return np.sqrt(squares[0]), np.sqrt(squares[1])

    def _by_split(self, rows: slice) -> Iterator[tuple[Array, Array]]:
        """Weights of these rows in each training set, and their signs."""
        ones = (self.bits[rows, None] >> np.arange(self.probes, dtype=np.uint32)) & 1
        signs = 2.0 * ones - 1.0
        for number in range(self.n_splits):
            times = times_trained(self.training[rows], np.array([number]))[:, 0]
            yield times * self.weights[rows], signs
