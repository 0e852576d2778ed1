"""Fits to one training set for all alphas, from a form of its Gram matrix or kernel matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ling._typing import Array
from ling.design import Design, as_design
from ling.linalg.cholesky import CholeskyForm
from ling.linalg.singular_values import SingularForm
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.cv_problem import CVProblem, FoldCoefs
from ling.model_selection.fold_errors import (
    FormErrors,
    Ratios,
    SystemScales,
    TestRows,
    form_errors,
)
from ling.model_selection.splits import RowIndices

# Fraction of the memory budget for the test rows of one split in the coordinates of a form.
MAX_ROTATED_ROWS_FRACTION = 0.25

Form = HouseholderTridiagonal | CholeskyForm | SingularForm


@dataclass(frozen=True, eq=False)
class FormFit:
    """The fits to one training set for all alphas, and their predictions for other rows.

    With A, (m, m), in the form `form`, and C, (m, t), the coefficients are W = (A + alpha I)^-1 C.
    `rotated_rhs` is Q'C. Predictions for the rows M, (n_test, m), are M W + intercept, with the
    intercept y_shift - x_shift'W. `make_test_design` returns M, x_shift is (m,), y_shift (t,). In
    the primal formulation A = X'X, C = X'Y and m = p. In the dual one A = X X', C = Y, W are dual
    coefficients and M is a kernel matrix. `scales` is what error bounds need, and `known_errors`
    are their `FormErrors` by alphas.
    """

    form: Form
    rotated_rhs: Array
    make_test_design: Callable[[], Design]
    x_shift: Array
    y_shift: Array
    scales: SystemScales
    known_errors: dict[bytes, FormErrors] = field(default_factory=dict, repr=False, kw_only=True)

    @cached_property
    def test_design(self) -> Design:
        """The test rows M, (n_test, m)."""
        return self.make_test_design()

    @cached_property
    def rotated_test_rows(self) -> Array:
        """M Q as a dense array, (n_test, m)."""
        Q = self.form.Q
        return self.test_design.map_rows(lambda rows: rows @ Q)

    def errors(self, alphas: Array) -> FormErrors:
        """The rounding errors of the solutions for these alphas; those of the last call are kept.

        All alphas of a grid should be passed together, because bounds of a `CholeskyForm` need a
        few factors whatever their number.
        """
        key = alphas.tobytes()
        if key not in self.known_errors:
            self.known_errors.clear()
            self.known_errors[key] = form_errors(self.form, alphas, self.scales)
        return self.known_errors[key]

    def rotated_coef(self, alphas: Array) -> Array:
        """Q'W for all alphas, (m, n_alphas * t); the targets of the first alpha come first."""
        return np.hstack([self.form.solve(self.rotated_rhs, float(alpha)) for alpha in alphas])

    def rotates_rows(self, samples: CVProblem, n_test: int, n_alphas: int) -> bool:
        """True if the rotated test rows M Q are formed, and fit in memory.

        For more columns of W than test rows, rotating M takes fewer FLOPs than unrotating W.
        """
        n_bytes = 8.0 * n_test * len(self.form)
        return self.rotated_rhs.shape[1] * n_alphas > n_test and samples.memory.allows(
            n_bytes, MAX_ROTATED_ROWS_FRACTION
        )

    def predict(
        self, rotated: Array, samples: CVProblem, rows: RowIndices | slice, rotate_rows: bool
    ) -> Array:
        """Predictions of centred y for the test rows with the coefficients Q'W = `rotated`.

        `rows` are the test rows in `samples`; a slice stands for all. With `rotate_rows` M Q is
        formed.
        """
        intercepts = np.tile(self.y_shift, rotated.shape[1] // len(self.y_shift))
        if rotate_rows:
            x_shift = self.form.rotate(self.x_shift[:, None])[:, 0]
            P = as_design(self.rotated_test_rows).matmat(rotated)
            P += intercepts - x_shift @ rotated
            return P
        W = self.form.unrotate(rotated)
        is_kernel = self.scales.is_dual
        P = self.test_design.matmat(W) if is_kernel else samples.predict_rows(rows, W)
        P += intercepts - self.x_shift @ W
        return P


@dataclass(frozen=True, eq=False)
class FoldFit(FormFit):
    """The fits to the training set of a split, with error bounds for its test rows.

    `test` says what bounds need to know about the test rows, and `ratios` how errors of
    coefficients may show in them, if that is known.
    """

    test: TestRows
    ratios: Ratios | None = None

    def coefs(self, alphas: Array, batch: slice) -> FoldCoefs:
        """The fits for a batch of `alphas`: W (m, n_batch * t), intercepts, and bounds."""
        rotated = self.rotated_coef(alphas[batch])
        W = self.form.unrotate(rotated)
        intercepts = np.tile(self.y_shift, len(alphas[batch])) - self.x_shift @ W
        return FoldCoefs(W, intercepts, self.error_bounds(rotated, alphas, batch))

    def error_bounds(self, rotated: Array, alphas: Array, batch: slice) -> Array:
        """Bounds (n_batch, t) on the norms of the errors of predictions by Q'W = `rotated`."""
        errors = self.errors(alphas).take(batch)
        W = rotated.reshape(len(rotated), len(errors.floors), -1)
        coef_norms = np.linalg.norm(W, axis=0)
        energy, floors = errors.energy(W, coef_norms), errors.floors
        if self.scales.is_dual:
            # The errors rho of the dual system give X'(K + alpha I)^-1 rho, of norm at most
            # `energy`, and a kernel k'c has an error relative to ||x|| ||X|| ||c||. With w = X'c,
            # ||w||^2 <= c'y.
            energy = energy + self.scales.noise * np.sqrt(self.scales.size) * coef_norms
            coef_norms, floors = np.sqrt(coef_norms * self.scales.targets), np.ones_like(floors)
        ratios = None if self.ratios is None else self.ratios(alphas[batch])
        return self.test.norm_bounds(energy, floors, coef_norms, ratios)

    def prediction_batches(
        self, alphas: Array, samples: CVProblem, rows: RowIndices
    ) -> Iterator[tuple[slice, Array, Array]]:
        """For batches of `alphas`: predictions of centred y for the test rows, and bounds.

        The predictions have shape (n_test, n_batch, t), the bounds (n_batch, t). `rows` are the
        test rows in `samples`.
        """
        t, n_test = self.rotated_rhs.shape[1], len(rows)
        rotate_rows = self.rotates_rows(samples, n_test, len(alphas))
        n_numbers = float(t * (len(self.form) + n_test))
        for batch in samples.prediction_batches(len(alphas), n_numbers):
            W = self.rotated_coef(alphas[batch])
            bounds = self.error_bounds(W, alphas, batch)
            P = self.predict(W, samples, rows, rotate_rows)
            yield batch, P.reshape(n_test, len(bounds), t), bounds
