"""What surrounds a fit: who is shown how far it is, and that nothing is left of one that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ling.design.source import unchanged_maps
from ling.estimators.callbacks import Tasks
from ling.progress import Listener, following, watching
from ling.progress_bar import bar, say

# What a fit that failed leaves on purpose: where it was, and what scikit-learn has to tidy up.
LEFT = "_iterate", "_callback_fit_ctx", "_skl_callbacks_to_teardown"


@contextmanager
def watched(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Iterator[None]:
    """A fit that is shown as asked for; if it does not get there, the model is as it was."""
    before = dict(vars(model))
    try:
        if model.verbose or "_skl_callbacks" in before or watching():
            with _shown(model, X, y, sample_weight), unchanged_maps(X, y, sample_weight):
                yield
        else:
            with unchanged_maps(X, y, sample_weight):
                yield
    except BaseException:
        state = vars(model)
        left = {name: state[name] for name in LEFT if name in state}
        state.clear()
        state.update(before | left)
        raise


@contextmanager
def _shown(model: Any, X: Any, y: Any, sample_weight: Any) -> Iterator[None]:
    listeners: list[Listener] = []
    tasks = None
    with ExitStack() as stack:
        if model.verbose:
            listeners.append(stack.enter_context(bar(title=type(model).__name__)))
        if hasattr(model, "_skl_callbacks"):
            tasks = Tasks(model, X, y, sample_weight)
            listeners.append(tasks)
        with following(*listeners):
            yield
    if tasks is not None:
        tasks.close()
    if model.verbose > 1:
        say(str(model.report_))
