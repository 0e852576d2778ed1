"""What a computation tells about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Cost:
    """Floating-point operations and passes over the data.

    Counted are the products with X, the dense factorisations, and the row updates of SVRG: 2 FLOPs
    per multiply-add, one triangle only for a Gram matrix. What an algorithm does with vectors
    between its products, O(n + p) a pass, is not.
    One pass is one sweep over all of X, whatever the number of columns it is multiplied with.

    Attributes
    ----------
    flops, passes : float
    """

    flops: float = 0.0
    passes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.passes + other.passes)


class Status(Enum):
    """How a fit ended."""

    CERTIFIED = "certified"
    NOT_REACHED = "not certified: tol is not reached"
    UNCERTIFIED = "not certified: alpha is 0, where no bound exists"

    @property
    def is_final(self) -> bool:
        """Whether nothing could be gained by going on."""
        return self is not Status.NOT_REACHED


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proven bound on ||X(w - w*)|| / ||y - mean(y)||, w* being the exact solution.

    Rounding errors are part of it. Norms are weighted by sample_weight; without an intercept the
    unit is ||y||.

    Attributes
    ----------
    bounds : array of shape (n_targets,)
        The bound of every target.
    tol : float
        What was asked for.
    """

    bounds: NDArray[np.floating[Any]]
    tol: float

    @property
    def bound(self) -> float:
        """The largest over the targets."""
        return float(self.bounds.max(initial=0.0))

    @property
    def holds(self) -> bool:
        """Whether it is within tol."""
        return self.bound <= self.tol

    def __str__(self) -> str:
        if self.bound > 1:  # predictions that are all the mean of y are not further off
            return f"nothing is proved of the training predictions (tol {self.tol:g})"
        return f"training predictions within {self.bound:.1e} of the exact ones (tol {self.tol:g})"


@dataclass(frozen=True, eq=False)
class FitReport:
    """What a fit did, why, what it cost and how good it is. `print` it.

    Attributes
    ----------
    engine, reason : str
        Who solved it, and why that one.
    status : Status
    certificate : Certificate
    cost : Cost
        FLOPs, and passes over X.
    seconds : dict
        Of every stage, by its name.
    predicted_seconds, predicted_bytes : float or None
        What the plan had expected.
    rank, n_iter : int or None
        Of the sketch, and of the iteration, if there was one.
    shape : tuple of two ints
        Rows and columns of X.
    notes : tuple of str
        What else there is to say.
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

    @property
    def total_seconds(self) -> float:
        """All stages together."""
        return sum(self.seconds.values())

    def __str__(self) -> str:
        n, p = self.shape
        rank = f" of rank {self.rank}" if self.rank is not None else ""
        steps = f" and {self.n_iter} iterations" if self.n_iter is not None else ""
        stages = ", ".join(f"{name} {value:.3g} s" for name, value in self.seconds.items())
        predicted = (
            "" if self.predicted_seconds is None
            else f", predicted {self.predicted_seconds:.2g} s"
        )  # fmt: skip
        lines = [
            f"{n} x {p} solved by {self.engine}{rank} ({self.reason})",
            f"in {self.cost.passes:.3g} passes over X{steps}, {self.cost.flops / 1e9:.3g} GFLOPs,",
            f"{self.total_seconds:.3g} s ({stages}{predicted}).",
        ]
        status = self.status.value[0].upper() + self.status.value[1:]
        proof = "" if self.status is Status.UNCERTIFIED else f": {self.certificate}"
        lines.append(f"{status}{proof}.")
        return " ".join([*lines, *self.notes])
