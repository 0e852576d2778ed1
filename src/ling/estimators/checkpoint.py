"""`checkpoint=`: a fit that can be killed and started again."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ling.design import Array, ArraySource, ChunkedDesign, DenseDesign, as_design
from ling.design.blocked import Blocked
from ling.design.journal import Journal, Journaled, digest
from ling.errors import BadOption
from ling.estimators.fitting import Settings
from ling.machine import Machine, measured_machine, memory_budget_bytes

log = logging.getLogger("ling")
# Rows of X that tell it from others.
LOOKED_AT = 64
# Parameters that do not change what is computed from the same passes.
NO_MATTER = "checkpoint", "memory_budget", "copy_X", "warm_start", "verbose"


@contextmanager
def checkpointed(
    model: Any, X: Any, Y: Array, weights: Array | None, splits: Any = None
) -> Iterator[tuple[Any, Settings]]:
    """X with its passes kept, and the settings of the first start.

    The checkpoint is deleted when the block ends without an error, and kept after any error.
    """
    settings = Settings.of(model)
    if model.checkpoint is None:
        yield X, settings
        return
    design = _in_blocks(X)
    lazy = design.taken > 0 and not isinstance(X, np.ndarray)

    def free() -> dict[str, Any]:
        return {
            "seed": _seed(settings.random_state),
            "asked": _described(settings.memory_budget),
            "budget": memory_budget_bytes(settings.memory_budget, of_all=lazy),
            "machine": asdict(measured_machine()),
            "rate": design.rate if lazy else None,
        }

    mine = _mine(model, design, Y, weights, splits)
    journal = Journal.open(model.checkpoint, mine, free)
    for note in journal.notes:
        log.info(note)
    chosen = journal.free
    if chosen["asked"] != _described(settings.memory_budget):  # what is kept is as good with it
        chosen |= {name: free()[name] for name in ("asked", "budget")}
        journal.choose(mine, chosen)
    settings = replace(
        settings, random_state=chosen["seed"], memory_budget=chosen["budget"],
        machine=Machine(**chosen["machine"]),
    )  # fmt: skip
    try:
        yield Journaled(design, journal), settings
    except BaseException:
        # No error deletes a checkpoint: whether a second start would fail again is not known here,
        # and passes may have taken hours.
        journal.leave()
        raise
    journal.close()


def _in_blocks(X: Any) -> Blocked:
    """Only what is done in blocks can be kept."""
    design = as_design(X)
    if isinstance(design, Blocked):
        return design
    if isinstance(design, DenseDesign):
        found = ChunkedDesign(ArraySource(design.array))
        found.names, found.taken = design.names, design.taken
        found.notes = design.notes
        return found
    raise BadOption("checkpoint is for dense X, and X is sparse; pass checkpoint=None.")


def _seed(state: Any) -> int:
    if isinstance(state, (int, np.integer)) and not isinstance(state, bool):
        return int(state)
    rng = state if isinstance(state, np.random.RandomState) else np.random.RandomState()
    return int(rng.randint(2**31 - 1))


def _mine(
    model: Any, design: Blocked, Y: Array, weights: Array | None, splits: Any
) -> dict[str, Any]:
    """What makes a fit the same fit."""
    n, p = design.shape
    count = min(n, LOOKED_AT)
    some = np.linspace(0, n - 1, count).astype(np.intp) if design.picks else np.arange(count)
    parameters = {
        name: _described(value)
        for name, value in sorted(model.get_params(deep=False).items())
        if name not in NO_MATTER
    }
    return {
        "estimator": type(model).__name__,
        "shape of X": [n, p],
        "dtype of X": str(design.dtype),
        "X": digest(design.take(np.unique(some)), design.identity, design.names),
        "y": digest(Y),
        "sample_weight": digest(weights),
        "splits of cv": digest(splits),
        **parameters,
    }


def _described(value: Any) -> str:
    return digest(value) or re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))
