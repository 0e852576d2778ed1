"""What goes wrong, and what to do instead.

Every message names the argument, says what is wrong with it, and says what to pass.
"""

from typing import Any


class LingError(ValueError):
    """Base class of everything ling raises on purpose."""


class WrongType(LingError, TypeError):
    """The data is of a kind that ridge regression cannot use."""


class WrongShape(LingError):
    """The dimensions of an argument do not fit, or do not fit the others."""


class NotFinite(LingError):
    """The data holds a NaN or an infinity."""


class BadOption(LingError):
    """An option (a penalty, a rank, a number of iterations) is out of its range."""


class NegativeWeight(LingError):
    """A sample weight is negative."""


class MissingData(LingError):
    """A data file is nowhere to be found, or is not what it should be."""


class MissingValue(LingError):
    """A table has no value where one is needed."""


class UnknownCategory(LingError):
    """A text column holds a value that was not there when its categories were found."""


class UnknownColumn(LingError):
    """A table has no column of that name."""


class BadCheckpoint(LingError):
    """A checkpoint is damaged, or of another fit."""


class BadModelFile(LingError):
    """A model file is damaged, of a newer version of ling, or no model file at all."""


class CannotWrite(LingError, OSError):
    """A file cannot be written where it should be."""


class ClusterLost(LingError, RuntimeError):
    """There is no worker left.

    `partial_coef` (p, t) are the coefficients that an iteration had reached, in the units of the
    problem; None if there was no iteration.
    """

    def __init__(self, message: str, partial_coef: Any = None) -> None:
        super().__init__(message)
        self.partial_coef = partial_coef


class ClusterMemory(LingError, MemoryError):
    """A block of X does not fit into a worker's memory."""


class Stopped(LingError, RuntimeError):
    """A callback asked to stop a fit before it was there."""


class NotInstalled(LingError, ImportError):
    """An optional package is needed for this."""


class EdgeOfGrid(UserWarning):
    """The best alpha is at an end of those that were tried: a better one may lie beyond."""


class Diverged(LingError):
    """An iteration left the finite numbers; its step was too long."""
