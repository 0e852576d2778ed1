"""Validation of parameters: by scikit-learn, once for equal ones, and of alpha and tol."""

from __future__ import annotations

from functools import cache, lru_cache
from numbers import Real
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import OptionError, ShapeError
from ling.estimators.sklearn_private import validate_parameters
from ling.estimators.validation import name_argument_in_errors

# Types of parameters whose values cannot change after they were found valid.
IMMUTABLE_PARAMETER_TYPES = frozenset([bool, int, float, str, type(None)])


class ParameterValidationMixin:
    """Validates parameters as scikit-learn does, and equal parameters only once in a process.

    The checks take longer than a small fit.
    """

    _parameter_constraints: dict[str, Any]

    def _validate_params(self) -> None:
        kind: Any = type(self)
        values = [getattr(self, name) for name in _parameter_names(kind)]
        if IMMUTABLE_PARAMETER_TYPES.issuperset(map(type, values)):
            _check_parameters_once(kind, *values)
        else:
            _check_parameters(kind, *values)


@cache
def _parameter_names(kind: Any) -> list[str]:
    """The names of the parameters of an estimator class, in alphabetical order."""
    names: list[str] = kind._get_param_names()
    return names


def _check_parameters(kind: Any, *values: Any) -> None:
    """Raise scikit-learn's InvalidParameterError unless the values of all parameters are valid."""
    parameters = dict(zip(_parameter_names(kind), values, strict=True))
    validate_parameters(kind._parameter_constraints, parameters, kind.__name__)


# Errors are not cached. `typed`: 1 is not a valid truth value, although it equals True.
_check_parameters_once = lru_cache(maxsize=256, typed=True)(_check_parameters)


def check_tol(tol: Any) -> None:
    """Raise OptionError unless tol is a number >= 0."""
    if isinstance(tol, bool) or not isinstance(tol, Real) or not float(tol) >= 0:
        raise OptionError("tol", f"is {tol!r}", "pass a number >= 0")


def check_alpha_per_target(alpha: Any, n_targets: int) -> Array:
    """Validated penalties (n_targets,) from one alpha, or from one alpha per target."""
    with name_argument_in_errors(alpha=alpha):
        alphas = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if alphas.ndim != 1 or len(alphas) not in (1, n_targets):
        raise ShapeError(
            "alpha",
            # The words of scikit-learn, which its tests look for.
            f"Number of targets and number of penalties do not correspond: {alphas.size} != "
            f"{n_targets} (`alpha` has {alphas.size} values, `y` has {n_targets} columns)",
            "pass one number, or one for each target",
        )
    if not np.isfinite(alphas).all() or (alphas < 0).any():
        raise OptionError("alpha", f"is {alpha}", "pass finite numbers >= 0")
    return np.full(n_targets, alphas[0]) if len(alphas) == 1 else alphas
