"""What surrounds a fit: parameter validation, rollback after an error, progress and callbacks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

from ling.design.row_source import verify_memmaps_unchanged
from ling.estimators.callbacks import CallbackAdapter
from ling.estimators.open_data import split_dataset
from ling.estimators.sklearn_private import sklearn_fit_context
from ling.progress import FitProgress, Listener, track_fit
from ling.progress_bar import progress_listener, write_stderr

# Parameters that decide what a fit computes.
FIT_PARAMETERS = "alpha", "alphas", "class_weight", "fit_intercept", "positive", "tol"
Method = TypeVar("Method", bound=Callable[..., Any])
# Attributes that survive the rollback of a failed fit: the coefficients reached so far, from which
# warm_start continues, and two attributes that scikit-learn needs to tear down its callbacks.
KEPT_ON_FAILURE = "_partial_coef", "_callback_fit_ctx", "_skl_callbacks_to_teardown"


def as_fitted(model: Any) -> Any:
    """The model with the parameters of its fit, whatever `set_params` has changed since.

    For everything that describes a fit, or computes parts of it again.
    """
    parameters = getattr(model, "_fit_parameters", {})
    if all(getattr(model, name) is value for name, value in parameters.items()):
        return model
    fitted = copy.copy(model)
    vars(fitted).update(parameters)
    return fitted


def fitted_alpha(model: Any) -> Any:
    """The alpha of a fitted model, one number or one for each target: chosen, or as given."""
    return getattr(model, "alpha_", getattr(as_fitted(model), "alpha", None))


def fit_context(method: Method) -> Method:
    """Decorator of `fit` and `partial_fit`: validates parameters, and undoes a call that fails.

    After any exception, also KeyboardInterrupt and warnings that are errors, all attributes of the
    estimator are what they were, except for those in `KEPT_ON_FAILURE`. It applies scikit-learn's
    untyped `_fit_context` without losing the method's type.
    """

    @wraps(method)
    def fit_or_restore(model: Any, *args: Any, **kwargs: Any) -> Any:
        with _restore_on_error(model):
            result = method(model, *args, **kwargs)
            model._fit_parameters = {
                name: getattr(model, name) for name in FIT_PARAMETERS if hasattr(model, name)
            }
            return result

    return cast(Method, sklearn_fit_context(prefer_skip_nested_validation=True)(fit_or_restore))


@contextmanager
def _restore_on_error(model: Any) -> Iterator[None]:
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        state = vars(model)
        surviving = {name: state[name] for name in KEPT_ON_FAILURE if name in state}
        state.clear()
        state.update(before | surviving)
        raise


@contextmanager
def fit_session(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Iterator[FitProgress]:
    """Context manager for a fit: yields its progress.

    The progress is shown if the model is verbose, and reported to callbacks and listeners.
    Memory-mapped arguments are checked for changes during the fit.
    """
    with (
        _report_progress(model, X, y, sample_weight) as progress,
        verify_memmaps_unchanged(X, y, sample_weight),
    ):
        yield progress


@contextmanager
def _report_progress(model: Any, X: Any, y: Any, sample_weight: Any) -> Iterator[FitProgress]:
    """Report progress of a fit to a progress bar and to scikit-learn's callbacks, where used."""
    listeners: list[Listener] = []
    callbacks = None
    with ExitStack() as stack:
        if model.verbose:
            title = getattr(model, "estimator_name", type(model).__name__)
            listeners.append(stack.enter_context(progress_listener(title=title)))
        if hasattr(model, "_skl_callbacks"):
            callbacks = CallbackAdapter(model, *split_dataset(X, y), sample_weight)
            listeners.append(callbacks)
        with track_fit(*listeners) as progress:
            yield progress
    if callbacks is not None:
        callbacks.close()
    if model.verbose > 1:
        write_stderr(str(model.report_))
