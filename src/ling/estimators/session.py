"""What surrounds a fit: who is shown how far it is, and that nothing is left of one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ling.design.row_source import verify_memmaps_unchanged
from ling.estimators.callbacks import CallbackAdapter
from ling.progress import Listener, has_listeners, track_fit
from ling.progress_bar import progress_listener, write_stderr

# What a fit that failed leaves on purpose: where it was, and what scikit-learn has to tidy up.
KEPT_ON_FAILURE = "_partial_coef", "_callback_fit_ctx", "_skl_callbacks_to_teardown"


@contextmanager
def rollback_on_error(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Iterator[None]:
    """A fit that is shown as asked for; if it does not get there, the model is as it was."""
    before = dict(vars(model))
    try:
        if model.verbose or "_skl_callbacks" in before or has_listeners():
            with (
                _show_progress(model, X, y, sample_weight),
                verify_memmaps_unchanged(X, y, sample_weight),
            ):
                yield
        else:
            with verify_memmaps_unchanged(X, y, sample_weight):
                yield
    except BaseException:
        state = vars(model)
        left = {name: state[name] for name in KEPT_ON_FAILURE if name in state}
        state.clear()
        state.update(before | left)
        raise


@contextmanager
def _show_progress(model: Any, X: Any, y: Any, sample_weight: Any) -> Iterator[None]:
    listeners: list[Listener] = []
    tasks = None
    with ExitStack() as stack:
        if model.verbose:
            listeners.append(stack.enter_context(progress_listener(title=type(model).__name__)))
        if hasattr(model, "_skl_callbacks"):
            tasks = CallbackAdapter(model, X, y, sample_weight)
            listeners.append(tasks)
        with track_fit(*listeners):
            yield
    if tasks is not None:
        tasks.close()
    if model.verbose > 1:
        write_stderr(str(model.report_))
