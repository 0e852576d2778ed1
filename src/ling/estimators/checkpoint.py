"""`checkpoint=`: a fit that can be killed and started again."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ling._typing import Array
from ling.design import ArraySource, ChunkedStorage, DenseStorage, as_design
from ling.design.blocked import BlockedStorage
from ling.design.pass_cache import PassCache, PassCachedStorage, digest
from ling.errors import BadOption
from ling.estimators.fit import FitOptions
from ling.solvers.machine import Machine, measured_machine, parse_memory_budget

log = logging.getLogger("ling")
# Rows of X that tell it from others.
N_FINGERPRINT_ROWS = 64
# Parameters that do not change what is computed from the same passes.
PARAMETERS_NOT_IN_FINGERPRINT = "checkpoint", "memory_budget", "copy_X", "warm_start", "verbose"


@contextmanager
def checkpoint_session(
    model: Any, X: Any, Y: Array, weights: Array | None, splits: Any = None
) -> Iterator[tuple[Any, FitOptions]]:
    """X with its passes kept, and the settings of the first start.

    The checkpoint is deleted when the block ends without an error, and kept after any error.
    """
    settings = FitOptions.from_estimator(model)
    if model.checkpoint is None:
        yield X, settings
        return
    design = _as_blocked_storage(X)
    lazy = design.resident_bytes > 0 and not isinstance(X, np.ndarray)

    def free() -> dict[str, Any]:
        return {
            "seed": _integer_seed(settings.random_state),
            "asked": _describe_value(settings.memory_budget),
            "budget": parse_memory_budget(settings.memory_budget, of_total_memory=lazy),
            "machine": asdict(measured_machine()),
            "rate": design.read_bandwidth if lazy else None,
        }

    mine = _fingerprint(model, design, Y, weights, splits)
    journal = PassCache.open(model.checkpoint, mine, free)
    for note in journal.notes:
        log.info(note)
    chosen = journal.frozen_choices
    if chosen["asked"] != _describe_value(
        settings.memory_budget
    ):  # what is kept is as good with it
        chosen |= {name: free()[name] for name in ("asked", "budget")}
        journal.write_header(mine, chosen)
    settings = replace(
        settings, random_state=chosen["seed"], memory_budget=chosen["budget"],
        machine=Machine(**chosen["machine"]),
    )  # fmt: skip
    try:
        yield PassCachedStorage(design, journal), settings
    except BaseException:
        # No error deletes a checkpoint: whether a second start would fail again is not known here,
        # and passes may have taken hours.
        journal.release_lock()
        raise
    journal.delete()


def _as_blocked_storage(X: Any) -> BlockedStorage:
    """Only what is done in blocks can be kept."""
    design = as_design(X)
    if isinstance(design, BlockedStorage):
        return design
    if isinstance(design, DenseStorage):
        found = ChunkedStorage(ArraySource(design.array))
        found.feature_names, found.resident_bytes = design.feature_names, design.resident_bytes
        found.notes = design.notes
        return found
    raise BadOption("checkpoint is for dense X, and X is sparse; pass checkpoint=None.")


def _integer_seed(state: Any) -> int:
    if isinstance(state, (int, np.integer)) and not isinstance(state, bool):
        return int(state)
    rng = state if isinstance(state, np.random.RandomState) else np.random.RandomState()
    return int(rng.randint(2**31 - 1))


def _fingerprint(
    model: Any, design: BlockedStorage, Y: Array, weights: Array | None, splits: Any
) -> dict[str, Any]:
    """What makes a fit the same fit."""
    n, p = design.shape
    count = min(n, N_FINGERPRINT_ROWS)
    some = (
        np.linspace(0, n - 1, count).astype(np.intp) if design.has_row_access else np.arange(count)
    )
    parameters = {
        name: _describe_value(value)
        for name, value in sorted(model.get_params(deep=False).items())
        if name not in PARAMETERS_NOT_IN_FINGERPRINT
    }
    return {
        "estimator": type(model).__name__,
        "shape of X": [n, p],
        "dtype of X": str(design.dtype),
        "X": digest(design.take(np.unique(some)), design.fingerprint, design.feature_names),
        "y": digest(Y),
        "sample_weight": digest(weights),
        "splits of cv": digest(splits),
        **parameters,
    }


def _describe_value(value: Any) -> str:
    return digest(value) or re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))
