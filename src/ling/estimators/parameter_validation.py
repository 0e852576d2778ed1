"""Validation of parameters: by scikit-learn, once for equal ones, and of alpha and tol."""

from __future__ import annotations

import math
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import OptionError, ShapeError
from ling.estimators.sklearn_private import validate_parameters
from ling.estimators.validation import name_argument_in_errors

# Types of parameters whose values cannot change after they were found valid.
IMMUTABLE_PARAMETER_TYPES = frozenset([bool, int, float, str, type(None)])
# Stands for a parameter that is validated each time.
UNIQUE = object()
MAX_REMEMBERED_PARAMETERS = 256
_valid_parameters: set[tuple[Any, ...]] = set()


class ParameterValidationMixin:
    """Validates parameters as scikit-learn does, and equal parameters only once in a process.

    The checks take longer than a small fit.
    """

    _parameter_constraints: dict[str, Any]

    def _validate_params(self) -> None:
        kind: Any = type(self)
        values = {name: getattr(self, name) for name in _parameter_names(kind)}
        key = kind, *map(_as_key, values.values())
        if key in _valid_parameters:
            return
        validate_parameters(kind._parameter_constraints, values, kind.__name__)
        if UNIQUE not in key:
            if len(_valid_parameters) >= MAX_REMEMBERED_PARAMETERS:
                _valid_parameters.clear()
            _valid_parameters.add(key)


@cache
def _parameter_names(kind: Any) -> list[str]:
    """The names of the parameters of an estimator class, in alphabetical order."""
    names: list[str] = kind._get_param_names()
    return names


def _as_key(value: Any) -> Any:
    """What tells a parameter from others that may not be valid.

    The type is part of it: 1 is no truth value, although it equals True. Constraints of arrays are
    about their type and dimensions only.
    """
    kind = type(value)
    if kind is np.ndarray:
        return kind, value.ndim
    return (kind, value) if kind in IMMUTABLE_PARAMETER_TYPES else UNIQUE


def check_tol(tol: Any) -> None:
    """Raise OptionError unless tol is a number >= 0."""
    if isinstance(tol, bool) or not isinstance(tol, Real) or not float(tol) >= 0:
        raise OptionError("tol", f"is {tol!r}", "pass a number >= 0")


def check_alpha_per_target(alpha: Any, n_targets: int) -> Array:
    """Validated penalties (n_targets,) from one alpha, or from one alpha per target."""
    if type(alpha) is float and 0 <= alpha < math.inf:
        return np.full(n_targets, alpha)
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
