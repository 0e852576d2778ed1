"""What goes wrong, and what to do instead.

Every message names the argument, says what is wrong with it, and says what to pass.
"""


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


class EdgeOfGrid(UserWarning):
    """The best alpha is at an end of those that were tried: a better one may lie beyond."""


class Diverged(LingError):
    """An iteration left the finite numbers; its step was too long."""
