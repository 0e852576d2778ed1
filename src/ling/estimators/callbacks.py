"""Support for scikit-learn's callbacks (1.9 or later): `Ridge().set_callbacks(ProgressBar())`.

A fit is the task "fit". Its subtasks are the passes over X, as many as are predicted. If more
passes are needed, the last subtask covers all of them. Reading X into memory comes before the first
subtask. Callbacks get X, y and sample_weight as they were passed (of a Dataset, its X and y), and
the fitted estimator only at the end of "fit". A callback that asks to stop at the end of a pass
ends the fit with the error `FitStoppedError`, and the estimator is restored, because nothing is
proved about the coefficients reached by then. A fit with `checkpoint=` continues from there when it
is started again.
"""

from __future__ import annotations

import math
from typing import Any

from ling.errors import FitStoppedError
from ling.progress import READ_STAGE, Event

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Empty replacement for scikit-learn before 1.9, which has no callbacks."""


class CallbackAdapter:
    """Progress listener that reports passes over X as tasks to scikit-learn's callbacks.

    Call `close` when the estimator is fitted.
    """

    def __init__(self, model: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self.model = model
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.callback_arguments = {"estimator": model, "X": X, "y": y, "metadata": metadata}
        self.fit_task: Any = None
        self.pass_task: Any = None
        self.n_passes_started = 0

    def __call__(self, event: Event) -> None:
        """End the tasks of finished passes and begin the next; FitStoppedError on request."""
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
        """End all tasks of a fitted estimator; requests to stop no longer have an effect."""
        self._begin_fit_task(0.0)
        if self.pass_task is not None:
            self.pass_task.call_on_fit_task_end(**self.callback_arguments)
        # The estimator already has all fitted attributes, so none have to be reconstructed.
        self.fit_task.call_on_fit_task_end(**self.callback_arguments, reconstruction_attributes={})

    def _begin_fit_task(self, expected: float | None) -> None:
        """Begin the fit task, if it has not begun; `expected` is the predicted number of passes."""
        if self.fit_task is None:
            # The subtraction keeps rounding in `expected` from adding a pass.
            max_subtasks = math.ceil((expected or 0.0) - 1e-6)
            self.fit_task = self.model._init_callback_context(max_subtasks=max_subtasks)
            self.fit_task.call_on_fit_task_begin(**self.callback_arguments)

    def _end_pass_task(self, passes: float) -> None:
        """End the current pass task, if any; raises FitStoppedError if a callback asks for it."""
        if self.pass_task is not None and self.pass_task.call_on_fit_task_end(
            **self.callback_arguments
        ):
            self.pass_task = None
            raise FitStoppedError(
                f"a callback stopped this fit after {passes:.3g} passes over X; the estimator is "
                "as it was before. For a rougher fit pass a larger tol or a smaller max_iter."
            )
