"""Right-hand sides of all training sets, computed next to the rows of X in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import row_slices
from ling.design.rows import GeneratedColumns, per_row, training_multiplicity
from ling.linalg.rounding import sum_noise
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.fold_scales import largest_multiplicity, target_scales
from ling.model_selection.splits import ROWS_PER_SLICE, Splits

# A target counts as constant in a training set if ||y - mean|| is at most this fraction of ||y||.
CONSTANT_TARGET_RTOL = 1e-13


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


@dataclass(frozen=True, eq=False)
class TrainingSystem:
    """The system (X'X + alpha I) W = `rhs` of one training set, without X'X.

    `rhs` (p, t + n_probes) are X'y and X'z of the training rows about their means `x_shift` (p,)
    and `y_shift` (t,), with the probes z. `spread` (t,) are the norms ||y - y_shift||, and
    `weight_fraction` is the part of the total weight that the training set has. `rhs_errors` (t,)
    bound the rounding of X'y, and `constant_errors` (t,) the energy norm of solutions that were
    replaced by 0.
    """

    rhs: Array
    x_shift: Array
    y_shift: Array
    spread: Array
    weight_fraction: float
    rhs_errors: Array
    constant_errors: Array


def training_systems(
    samples: CVProblem, splits: Splits, columns: TrainingRightHandSides, products: list[Array]
) -> list[TrainingSystem]:
    """The systems of all training sets, from X'`columns` (p, 1 + t + n_probes) of each."""
    t = samples.n_targets
    weights, column_totals = columns.column_sums()
    y_shifts = np.zeros((len(products), t))
    if samples.fit_intercept:
        y_shifts = column_totals[:, :t] / weights[:, None]
    spreads, lengths = columns.target_norms(y_shifts)
    raw_norm = float(np.linalg.norm(samples.problem.raw_column_norms))
    rounding = 4 * sum_noise(samples.shape[0]) * raw_norm * target_scales(samples.problem)
    systems = []
    for number, (sums, y_shift, spread) in enumerate(zip(products, y_shifts, spreads, strict=True)):
        x_sums, xy, probe_rhs = sums[:, 0], sums[:, 1 : 1 + t], sums[:, 1 + t :]
        x_shift = np.zeros_like(x_sums)
        if samples.fit_intercept:
            x_shift = x_sums / float(weights[number])
            probe_rhs = probe_rhs - np.outer(x_shift, column_totals[number, t:])
        # A target that is constant in a training set, up to rounding, gets a zero right-hand side,
        # so that its coefficients are 0. The energy of the exact ones is at most ||y||.
        is_constant = spread <= CONSTANT_TARGET_RTOL * lengths[number]
        xy = np.where(is_constant, 0.0, xy - np.outer(x_sums, y_shift))
        systems.append(
            TrainingSystem(
                rhs=np.hstack([xy, probe_rhs]),
                x_shift=x_shift,
                y_shift=y_shift,
                spread=spread,
                weight_fraction=float(weights[number]) / max(float(samples.weights.sum()), 1e-300),
                rhs_errors=np.where(is_constant, 0.0, _multiplicity(splits, number) * rounding),
                constant_errors=np.where(is_constant, spread, 0.0),
            )
        )
    return systems


def _multiplicity(splits: Splits, number: int) -> int:
    """How often a row may occur in the training set of split `number`."""
    return 1 if splits.test_fold is not None else largest_multiplicity(splits.train_rows(number))
