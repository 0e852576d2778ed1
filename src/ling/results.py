"""Results that describe a fit: cost, status, certificate and report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.error_region import ErrorRegion
from ling.html_repr import html_table
from ling.plain_state import register_plain


@register_plain
@dataclass(frozen=True)
class Cost:
    """Floating-point operations and passes over the data.

    Products with X, dense factorisations and the row updates of SVRG are counted, with 2 FLOPs per
    multiply-add, and one triangle only for a Gram matrix. Vector operations between the products,
    O(n + p) per pass, are not counted. One pass is one sweep over all of X, whatever the number of
    columns it is multiplied with.

    Attributes
    ----------
    flops, passes : float
        Number of floating-point operations, and number of passes over X.
    """

    flops: float = 0.0
    passes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.passes + other.passes)


@register_plain
class Status(Enum):
    """Status of a completed fit."""

    CERTIFIED = "certified"
    ROUNDED = "not certified: rounding coef_ and intercept_ to the dtype of X exceeds tol"
    NOT_REACHED = "not certified: tol is not reached"
    UNCERTIFIED = "not certified: alpha is 0, where no bound exists"

    @property
    def is_final(self) -> bool:
        """True unless more work could still reach tol."""
        return self is not Status.NOT_REACHED


@register_plain
@dataclass(frozen=True, eq=False)
class Certificate:
    """A proven bound on ||X(w - w*)|| / ||y - mean(y)||, where w* is the exact solution.

    The bound includes rounding errors. Norms are weighted by sample_weight. Without an intercept
    the denominator is ||y||.

    `coef_norm_bounds` and `coef_bounds()` are about the coefficients themselves, in the units of
    the data. They hold for `coef_` as it is stored, also if that is in float32.

    Attributes
    ----------
    bounds : array of shape (n_targets,)
        The bound of every target.
    tol : float
        The tolerance that was requested.
    region : ErrorRegion or None
        What bounds the error of the coefficients and of predictions for new rows.
    note : str
        What `certify` has to say of the bound; "" for fits.
    """

    bounds: NDArray[np.floating[Any]]
    tol: float
    region: ErrorRegion | None = field(default=None, repr=False)
    note: str = ""

    @property
    def bound(self) -> float:
        """The largest bound over the targets."""
        return float(self.bounds.max(initial=0.0))

    @property
    def holds(self) -> bool:
        """True if the largest bound is within tol."""
        return self.bound <= self.tol

    @property
    def coef_norm_bounds(self) -> Array:
        """Bounds (n_targets,) on ||w - w*||; infinite where alpha is 0.

        With e = w - w* and E the absolute bound on sqrt(||X e||^2 + alpha ||e||^2), ||e|| is at
        most E / sqrt(d), where d >= alpha is a lower bound of the eigenvalues of X'X + alpha I.
        """
        if self.region is None:
            return np.full(len(self.bounds), np.inf)
        return self.region.coef_norm_bounds

    def coef_bounds(self) -> Array:
        """Bounds on the error of every coefficient, (n_targets, n_features).

        The error w_j - w*_j is at most E sqrt(d_j) in magnitude, where d_j is an upper bound of the
        j-th diagonal entry of (X'X + alpha I)^-1. Where the fit knows no more of it than 1 / alpha,
        the bound of all coefficients of a target is that of their norm.
        """
        if self.region is None:
            return np.full((len(self.bounds), 1), np.inf)
        return np.asarray(self.region.coef_bounds.T)

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        if self.bound > 1:  # predicting the mean of y for all samples has an error of at most 1
            return f"nothing is proved of the training predictions (tol {self.tol:g}){note}"
        proved = f"training predictions within {self.bound:.1e} of the exact ones"
        return f"{proved} (tol {self.tol:g}){note}"


@register_plain
@dataclass(frozen=True, eq=False)
class FitReport:
    """Report of a fit: the engine and why it was chosen, the cost and the error bound.

    `print(report)` shows it as text, and a notebook as a table.

    Attributes
    ----------
    engine, reason : str
        The engine that solved the problem, and why it was chosen.
    status : Status
        Whether the solution is certified and, if not, why.
    certificate : Certificate
        The error bound of the training predictions.
    cost : Cost
        FLOPs and passes over X.
    seconds : dict
        Seconds of every stage, by its name.
    predicted_seconds, predicted_bytes : float or None
        Time and memory that the plan predicted.
    rank, n_iter : int or None
        Rank of the sketch and number of iterations, if there were any.
    shape : tuple of two ints
        Number of rows and columns of X.
    notes : tuple of str
        Further remarks, as sentences.
    seed : int or None
        The seed of the random sketches; None if `random_state` was an object that advances.
    plan : dict
        The plan of the fit in plain numbers and text. "steps" has the engine, predicted seconds,
        bytes and passes, and the largest rank, of every engine that fits the memory budget, in
        order of preference. "speeds" and "memory_budget" are values for the parameters of these
        names; "speeds" is None for small problems, which are planned with fixed speeds.
        "threads" is the number of threads of the fit.
    """

    engine: str
    reason: str
    status: Status
    certificate: Certificate
    cost: Cost
    seconds: dict[str, float]
    predicted_seconds: float | None = None
    predicted_bytes: float | None = None
    rank: int | None = None
    n_iter: int | None = None
    shape: tuple[int, int] = (0, 0)
    notes: tuple[str, ...] = field(default=())
    seed: int | None = None
    plan: dict[str, Any] = field(default_factory=dict)

    @property
    def total_seconds(self) -> float:
        """Seconds of all stages together."""
        return sum(self.seconds.values())

    @property
    def _summary(self) -> dict[str, str]:
        """What `print` and notebooks show, by its name."""
        rank = f" of rank {self.rank}" if self.rank is not None else ""
        steps = f" and {self.n_iter} iterations" if self.n_iter is not None else ""
        stages = ", ".join(f"{name} {value:.3g} s" for name, value in self.seconds.items())
        predicted = (
            "" if self.predicted_seconds is None
            else f", predicted {self.predicted_seconds:.2g} s"
        )  # fmt: skip
        gflops = self.cost.flops / 1e9
        status = self.status.value[0].upper() + self.status.value[1:]
        proof = "" if self.status is Status.UNCERTIFIED else f": {self.certificate}"
        return {
            "Engine": f"{self.engine}{rank} ({self.reason})",
            "Cost": f"{self.cost.passes:.3g} passes over X{steps}, {gflops:.3g} GFLOPs",
            "Time": f"{self.total_seconds:.3g} s ({stages}{predicted})",
            "Accuracy": f"{status}{proof}",
        }

    def __str__(self) -> str:
        n, p = self.shape
        engine, cost, time, accuracy = self._summary.values()
        return " ".join(
            [f"{n} x {p} solved by {engine} in {cost}, {time}. {accuracy}.", *self.notes]
        )

    def __repr__(self) -> str:
        n, p = self.shape
        bound = self.certificate.bound
        proof = f" (error bound {bound:.1e})" if np.isfinite(bound) else ""
        return (
            f"<FitReport: {n} x {p} solved by {self.engine} in {self.total_seconds:.3g} s, "
            f"{self.status.value}{proof}>"
        )

    def _repr_html_(self) -> str:
        n, p = self.shape
        return html_table(f"Fit of {n:,} rows and {p:,} columns", self._summary.items(), self.notes)
