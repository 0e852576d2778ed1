"""What every algorithm of the paper returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ling._typing import Array, MatrixLike
from ling.design import as_design
from ling.errors import ShapeError
from ling.results import Cost


class ReadOnlyArrays:
    """A frozen dataclass whose arrays cannot be written to either."""

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Fit(ReadOnlyArrays):
    """A linear fit: `fitted` = X `coef` on the training rows, for `cost`."""

    coef: Array = field(repr=False)
    fitted: Array = field(repr=False)
    cost: Cost

    def predict(self, X: MatrixLike) -> Array:
        """X coef, for new rows."""
        design = as_design(X)
        if design.shape[1] != self.coef.size:
            raise ShapeError(
                "X",
                f"has {design.shape[1]} columns, but the fit was made with {self.coef.size}",
                "pass the same features in the same order",
            )
        return design.matmat(self.coef)
