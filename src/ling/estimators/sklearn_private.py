"""Names of scikit-learn that are not public, in one place, for versions that lack one of them.

Where a replacement is short, ling has its own. Otherwise the import fails with a message that says
what to install.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import sklearn


def sklearn_name(module: str, name: str, fallback: Any = None) -> Any:
    """`module.name`; if this version of scikit-learn lacks it, `fallback`, or an ImportError."""
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        if fallback is not None:
            return fallback
        raise ImportError(
            f"ling needs {module}.{name}, which scikit-learn {sklearn.__version__} does not have; "
            "install scikit-learn 1.9, or a newer version of ling."
        ) from error


def fit_context_fallback(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replacement for `sklearn.base._fit_context`, without its `options`.

    It validates the parameters of the estimator, unless scikit-learn is configured not to, and
    tears down callbacks.
    """
    with_callbacks = sklearn_name("sklearn.callback", "with_callbacks", lambda method: method)

    def decorate(method: Callable[..., Any]) -> Any:
        @wraps(method)
        def validated(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            validate = getattr(estimator, "_validate_params", None)
            if validate is not None and not sklearn.get_config()["skip_parameter_validation"]:
                validate()
            return method(estimator, *args, **kwargs)

        return with_callbacks(validated)

    return decorate


Interval = sklearn_name("sklearn.utils._param_validation", "Interval")
StrOptions = sklearn_name("sklearn.utils._param_validation", "StrOptions")
sklearn_fit_context = sklearn_name("sklearn.base", "_fit_context", fit_context_fallback)
validate_parameters = sklearn_name(
    "sklearn.utils._param_validation",
    "validate_parameter_constraints",
    lambda constraints, parameters, caller: None,
)
