"""Right-hand sides of all training sets, computed next to the rows of X in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import row_slices
from ling.design.rows import GeneratedColumns, per_row, training_multiplicity
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.splits import ROWS_PER_SLICE


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingRightHandSides(GeneratedColumns):
    """The columns w, w y and sqrt(w) z of every training set, side by side.

    w are the weights of the rows in a training set and z are random signs, the probes. The columns
    are computed where the rows are, and need not be stored or sent. `sign_bits`, of shape (n,),
    holds one bit per probe.
    """

    training_membership: Array = per_row()
    weights: Array = per_row()
    Y: Array = per_row()
    sign_bits: NDArray[np.uint32] = per_row()
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
        """Right-hand sides of all training sets, with `n_probes` random sign vectors."""
        n = samples.shape[0]
        sign_bits = np.broadcast_to(np.uint32(0), (n,))
        if n_probes:
            sign_bits = rng.integers(0, 2**n_probes, n, np.uint32)
        return cls(
            training_membership=training_membership,
            weights=samples.weights,
            Y=samples.Y,
            sign_bits=sign_bits,
            n_splits=n_splits,
            n_probes=n_probes,
        )

    @property
    def n_columns(self) -> int:
        """Number of columns: 1 + n_targets + n_probes for each split."""
        return self.n_splits * (1 + int(self.Y.shape[1]) + self.n_probes)

    def __call__(self) -> Array:
        """The columns of all rows, (n_rows, n_columns)."""
        blocks = []
        for w, signs in self._split_weights_and_signs(slice(None)):
            blocks += [w[:, None], w[:, None] * self.Y, np.sqrt(w)[:, None] * signs]
        return np.hstack(blocks)

    def column_sums(self) -> tuple[Array, Array]:
        """Total weight of each training set, (n_splits,), and the sums of its other columns.

        The latter have shape (n_splits, n_targets + n_probes).
        """
        total_weights = np.zeros(self.n_splits)
        sums = np.zeros((self.n_splits, self.Y.shape[1] + self.n_probes))
        for rows in row_slices(len(self.Y), ROWS_PER_SLICE):
            for number, (w, signs) in enumerate(self._split_weights_and_signs(rows)):
                total_weights[number] += w.sum()
                sums[number] += np.hstack([w @ self.Y[rows], np.sqrt(w) @ signs])
        return total_weights, sums

    def target_norms(self, shifts: Array) -> tuple[Array, Array]:
        """Weighted norms ||y - shift|| and ||y|| on every training set, each (n_splits, n_targets).

        `shifts` has shape (n_splits, n_targets).
        """
        squares = np.zeros((2, self.n_splits, self.Y.shape[1]))
        for rows in row_slices(len(self.Y), ROWS_PER_SLICE):
            Y = self.Y[rows]
            for number, (w, _) in enumerate(self._split_weights_and_signs(rows)):
                squares[0, number] += w @ (Y - shifts[number]) ** 2
                squares[1, number] += w @ Y**2
        return np.sqrt(squares[0]), np.sqrt(squares[1])

    def _split_weights_and_signs(self, rows: slice) -> Iterator[tuple[Array, Array]]:
        """For each split: weights of these rows in its training set, and their signs.

        The shapes are (n_rows,) and (n_rows, n_probes). The signs are the same for all splits.
        """
        bits = (self.sign_bits[rows, None] >> np.arange(self.n_probes, dtype=np.uint32)) & 1
        signs = 2.0 * bits - 1.0
        for number in range(self.n_splits):
            multiplicity = training_multiplicity(
                self.training_membership[rows], np.array([number])
            )[:, 0]
            yield multiplicity * self.weights[rows], signs
