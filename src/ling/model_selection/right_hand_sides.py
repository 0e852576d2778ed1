"""Right-hand sides of all training sets, made row by row where the rows are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.row_transform import SliceableRowTransform, training_multiplicity
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.splits import row_slices


@dataclass(frozen=True, eq=False)
class TrainingRightHandSides(SliceableRowTransform):
    """w, w y and sqrt(w) signs, w being the weights of each training set, side by side.

    Made where the rows are, whatever X V is there: there are many of them. `sign_bits` are the
    signs, a bit for each.
    """

    training_membership: Array
    weights: Array
    Y: Array
    sign_bits: NDArray[np.uint32]
    n_splits: int
    n_probes: int

    @classmethod
    def from_problem(
        cls,
        samples: CVProblem,
        training_membership: Array,
        n_splits: int,
        n_probes: int,
        rng: np.random.Generator,
    ) -> TrainingRightHandSides:
        """With random signs."""
        n = samples.shape[0]
        sign_bits = np.broadcast_to(np.uint32(0), (n,))
        if n_probes:
            sign_bits = rng.integers(0, 2**n_probes, n, np.uint32)
        return cls(training_membership, samples.weights, samples.Y, sign_bits, n_splits, n_probes)

    @property
    def width(self) -> int:
        """Columns of it."""
        return self.n_splits * (1 + int(self.Y.shape[1]) + self.n_probes)

    def row_arrays(self) -> dict[str, Any]:
        """Everything that it is made of."""
        names = "training_membership", "weights", "Y", "sign_bits"
        return {name: getattr(self, name) for name in names}

    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """For some of the rows."""
        return replace(self, **arrays)

    def __call__(self, U: Array, rows: slice) -> Array:
        """On these rows."""
        blocks = []
        for w, signs in self._split_weights_and_signs(rows):
            blocks += [w[:, None], w[:, None] * self.Y[rows], np.sqrt(w)[:, None] * signs]
        return np.hstack(blocks).astype(U.dtype, copy=False)

    def column_sums(self) -> tuple[Array, Array]:
        """The mass of each training set, and the sums of its other columns."""
        masses = np.zeros(self.n_splits)
        found = np.zeros((self.n_splits, self.Y.shape[1] + self.n_probes))
        for rows in row_slices(len(self.Y)):
            for number, (w, signs) in enumerate(self._split_weights_and_signs(rows)):
                masses[number] += w.sum()
                found[number] += np.hstack([w @ self.Y[rows], np.sqrt(w) @ signs])
        return masses, found

    def target_norms(self, shifts: Array) -> tuple[Array, Array]:
        """||y - shift|| and ||y|| on every training set."""
        squares = np.zeros((2, self.n_splits, self.Y.shape[1]))
        for rows in row_slices(len(self.Y)):
            Y = self.Y[rows]
            for number, (w, _) in enumerate(self._split_weights_and_signs(rows)):
                squares[0, number] += w @ (Y - shifts[number]) ** 2
                squares[1, number] += w @ Y**2
        return np.sqrt(squares[0]), np.sqrt(squares[1])

    def _split_weights_and_signs(self, rows: slice) -> Iterator[tuple[Array, Array]]:
        """Weights of these rows in each training set, and their signs."""
        ones = (self.sign_bits[rows, None] >> np.arange(self.n_probes, dtype=np.uint32)) & 1
        signs = 2.0 * ones - 1.0
        for number in range(self.n_splits):
            times = training_multiplicity(self.training_membership[rows], np.array([number]))[:, 0]
            yield times * self.weights[rows], signs
