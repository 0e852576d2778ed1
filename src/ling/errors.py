"""Errors that ling raises.

Every message names the argument, says what is wrong with it, and says what to pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `import ling` alone does not load NumPy
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CheckpointError",
    "ClusterLostError",
    "ClusterMemoryError",
    "DataFileError",
    "DivergenceError",
    "FileWriteError",
    "FitStoppedError",
    "InputTypeError",
    "InvalidInputError",
    "LingError",
    "MissingPackageError",
    "MissingValueError",
    "ModelFileError",
    "NegativeWeightError",
    "NonFiniteError",
    "OptionError",
    "ShapeError",
    "UnknownCategoryError",
    "UnknownColumnError",
]


class LingError(Exception):
    """Base class of all errors that ling raises on purpose."""


class InvalidInputError(LingError, ValueError):
    """An argument, or the data in it, cannot be used."""


class InputTypeError(InvalidInputError, TypeError):
    """An argument has a type or dtype that ridge regression cannot use."""


class ShapeError(InvalidInputError):
    """The shape of an argument is wrong, or does not match the shape of another argument."""


class NonFiniteError(InvalidInputError):
    """The data contain NaN or infinity, or a result leaves the range of floating-point numbers."""


class OptionError(InvalidInputError):
    """An option has a value outside its range, or does not go with another option."""


class NegativeWeightError(InvalidInputError):
    """A sample weight is negative."""


class DataFileError(InvalidInputError):
    """A data file does not exist, cannot be read, or is damaged."""


class MissingValueError(InvalidInputError):
    """A table has a missing value where a value is needed."""


class UnknownCategoryError(InvalidInputError):
    """A text column has a value that it did not have in the fit."""


class UnknownColumnError(InvalidInputError):
    """A table has no column of that name."""


class CheckpointError(InvalidInputError):
    """A checkpoint is damaged, or belongs to another fit."""


class ModelFileError(InvalidInputError):
    """A model file is damaged, was written by a newer version of ling, or is no model file."""


class FileWriteError(LingError, OSError):
    """A file cannot be written."""


class ClusterLostError(LingError, RuntimeError):
    """The cluster has no workers left.

    `partial_coef` (p, t) are the coefficients that an iteration had reached, in the units of the
    problem; None if there was no iteration.
    """

    def __init__(self, message: str, partial_coef: NDArray[np.floating[Any]] | None = None) -> None:
        super().__init__(message)
        self.partial_coef = partial_coef


class ClusterMemoryError(LingError, MemoryError):
    """A block of X does not fit into a worker's memory."""


class FitStoppedError(LingError, RuntimeError):
    """A callback stopped a fit before it was done."""


class MissingPackageError(LingError, ImportError):
    """An optional package that is needed is not installed."""


class DivergenceError(LingError, ArithmeticError):
    """An iteration diverged: its step was too long."""


def __dir__() -> list[str]:
    return __all__
