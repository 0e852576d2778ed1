"""`checkpoint=`: fits that can be killed and resumed from their last pass over X."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ling.design import ArraySource, ChunkedStorage, DenseStorage, Design
from ling.design.blocked import BlockedStorage
from ling.design.pass_cache import (
    HEADER_FILE,
    PassCache,
    PassCachedStorage,
    digest,
    refuse_damaged_file,
)
from ling.errors import Change, OptionError
from ling.estimators.fit import fit_options
from ling.solvers.dimensions import problem_dimensions
from ling.solvers.engine import as_generator, integer_seed
from ling.solvers.machine import parse_memory_budget, parse_speeds
from ling.solvers.options import FitOptions
from ling.solvers.planning import machine_for
from ling.solvers.problem import TrainingData

log = logging.getLogger("ling")
# Number of rows of X whose values are part of the fingerprint that identifies a fit.
N_FINGERPRINT_ROWS = 64
# Parameters that do not change the result of the same passes. A fit can be resumed with other
# values of them.
PARAMETERS_NOT_IN_FINGERPRINT = (
    "checkpoint", "memory_budget", "speeds", "copy_X", "warm_start", "verbose",
)  # fmt: skip


@contextmanager
def checkpoint_session(
    model: Any, data: TrainingData, splits: Any = None
) -> Iterator[tuple[TrainingData, FitOptions]]:
    """Context manager that yields data with its passes cached on disk, and the options of the fit.

    A resumed fit gets the seed, the memory budget and the machine speeds of its first start, so
    that it makes the same passes. If `memory_budget` has been changed since, the new budget is
    used. Without `checkpoint=` the data is yielded unchanged. The checkpoint is deleted when the
    block ends without an error, and kept after any error.
    """
    options = fit_options(model)
    if model.checkpoint is None:
        yield data, options
        return
    reads_source = isinstance(data.design.storage, ChunkedStorage)
    storage = _as_blocked_storage(data.design)

    dimensions = problem_dimensions(
        data.design, data.n_targets, n_alphas=1, read_bandwidth=options.read_bandwidth
    )

    def make_choices() -> dict[str, Any]:
        """Choices that are made at the first start and stored in the checkpoint."""
        return {
            "seed": _integer_seed(options.random_state),
            "asked": _describe_value(options.memory_budget),
            "budget": parse_memory_budget(options.memory_budget),
            "machine": asdict(options.machine or machine_for(dimensions, options)),
            "rate": (options.read_bandwidth or storage.read_bandwidth) if reads_source else None,
        }

    fingerprint = _fingerprint(model, storage, data, splits)
    cache = PassCache.open(model.checkpoint, fingerprint, make_choices)
    for note in cache.notes:
        log.info(note)
    try:
        options = _reuse_choices(cache, options, make_choices)
        design = Design(PassCachedStorage(storage, cache), meter=data.design.meter)
        yield replace(data, design=design, notes=(*data.notes, *cache.notes)), options
    except BaseException:
        # An error never deletes the checkpoint. It is not known here whether a second start would
        # fail again, and the cached passes may have taken hours.
        cache.release_lock()
        raise
    cache.delete()


def _reuse_choices(
    cache: PassCache, options: FitOptions, make_choices: Callable[[], dict[str, Any]]
) -> FitOptions:
    """The options with the choices of the first start, after a check that they can be used."""
    choices = cache.frozen_choices
    with refuse_damaged_file(cache.folder / HEADER_FILE):
        machine, rate = parse_speeds({**choices["machine"], "read_bandwidth": choices["rate"]})
        parse_memory_budget(choices["budget"])
        if type(choices["seed"]) is not int or choices["seed"] < 0 or "asked" not in choices:
            raise ValueError("it has no seed, or not the budget that was asked for")
    if choices["asked"] != _describe_value(options.memory_budget):
        # Cached passes remain valid with another budget.
        choices |= {name: make_choices()[name] for name in ("asked", "budget")}
        cache.write_header(cache.fingerprint, choices)
    return replace(
        options, random_state=choices["seed"], memory_budget=choices["budget"],
        machine=machine, read_bandwidth=rate, is_default_budget=options.memory_budget is None,
    )  # fmt: skip


def _as_blocked_storage(design: Design) -> BlockedStorage:
    """The storage of a design as one whose passes can be cached; raises if X is sparse."""
    storage = design.storage
    if isinstance(storage, BlockedStorage):
        return storage
    if isinstance(storage, DenseStorage):
        source = ArraySource(storage.array, storage.feature_names)
        return ChunkedStorage(source, progress=design.meter.progress)
    kind = f"a {type(storage).__name__}" if storage.is_dense else "sparse"
    raise OptionError(
        "checkpoint", f"works for dense X only, and `X` is {kind}", Change("checkpoint", None)
    )


def _integer_seed(state: Any) -> int:
    """`random_state` as an integer, which can be stored; drawn from an object that advances."""
    seed = integer_seed(state)
    return int(as_generator(state).integers(2**31 - 1)) if seed is None else seed


def _fingerprint(
    model: Any, storage: BlockedStorage, data: TrainingData, splits: Any
) -> dict[str, Any]:
    """Values that identify a fit: its estimator, parameters, data and splits.

    X enters by shape, dtype, feature names, the fingerprint of its storage and up to
    `N_FINGERPRINT_ROWS` rows. These are evenly spaced, or the first rows if the storage has no row
    access.
    """
    n, p = storage.shape
    n_rows = min(n, N_FINGERPRINT_ROWS)
    rows = (
        np.linspace(0, n - 1, n_rows).astype(np.intp)
        if storage.has_row_access
        else np.arange(n_rows)
    )
    parameters = {
        name: _describe_value(value)
        for name, value in sorted(model.get_params(deep=False).items())
        if name not in PARAMETERS_NOT_IN_FINGERPRINT
    }
    return {
        "estimator": type(model).__name__,
        "shape of X": [n, p],
        "dtype of X": str(storage.dtype),
        "X": digest(storage.take(np.unique(rows)), storage.fingerprint, storage.feature_names),
        "y": digest(data.targets),
        "sample_weight": digest(data.weights),
        "splits of cv": digest(splits),
        **parameters,
    }


def _describe_value(value: Any) -> str:
    """A digest of the value, or its repr without memory addresses if it has no digest."""
    return digest(value) or re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))
