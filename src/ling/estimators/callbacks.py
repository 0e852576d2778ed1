"""scikit-learn's callbacks, where it has them (1.9): `Ridge().set_callbacks(ProgressBar())`.

A fit is the task "fit"; its subtasks are the passes over X, as many as are expected. If more are
needed, the last subtask lasts for all of them; reading X into memory comes before the first.
Callbacks get X, y and sample_weight as they were passed, and the fitted estimator at the end of
"fit" only. One that asks to stop at the end of a pass ends the fit with an error (`Stopped`), and
the estimator is as it was: of what has been found by then nothing is proved. A fit with
`checkpoint=` goes on from there when it is started again.
"""

from __future__ import annotations

import math
from typing import Any

from ling.errors import Stopped
from ling.progress import READ_STAGE, Event

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """There are no callbacks to support."""


class CallbackAdapter:
    """A listener that makes tasks of passes; `close` when the estimator is fitted."""

    def __init__(self, model: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self.model = model
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.callback_arguments = {"estimator": model, "X": X, "y": y, "metadata": metadata}
        self.fit_task: Any = None
        self.pass_task: Any = None
        self.n_passes_started = 0

    def __call__(self, event: Event) -> None:
        """End the tasks whose passes have been made, and begin the next."""
        if event.stage == READ_STAGE or (self.fit_task is None and event.expected is None):
            return
        self._begin_fit_task(event.expected)
        while (
            self.n_passes_started < self.fit_task.max_subtasks
            and event.passes >= self.n_passes_started
        ):
            self._end_pass_task(event.passes)
            self.pass_task = self.fit_task.subcontext(task_name="pass")
            self.n_passes_started += 1
            self.pass_task.call_on_fit_task_begin(**self.callback_arguments)

    def close(self) -> None:
        """The estimator is fitted: nothing is left to be stopped."""
        self._begin_fit_task(0.0)
        if self.pass_task is not None:
            self.pass_task.call_on_fit_task_end(**self.callback_arguments)
        # The estimator has all of its attributes by now; there is nothing to add to a copy of it.
        self.fit_task.call_on_fit_task_end(**self.callback_arguments, reconstruction_attributes={})

    def _begin_fit_task(self, expected: float | None) -> None:
        if self.fit_task is None:
            most = math.ceil((expected or 0.0) - 1e-6)
            self.fit_task = self.model._init_callback_context(max_subtasks=most)
            self.fit_task.call_on_fit_task_begin(**self.callback_arguments)

    def _end_pass_task(self, passes: float) -> None:
        if self.pass_task is not None and self.pass_task.call_on_fit_task_end(
            **self.callback_arguments
        ):
            self.pass_task = None
            raise Stopped(
                f"a callback stopped this fit after {passes:.3g} passes over X; the estimator is "
                "as it was before. For a rougher fit pass a larger tol or a smaller max_iter."
            )
