"""X that is not an array: files, tables and clusters, opened as what can be multiplied with."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ling.design import ArraySource, ChunkedDesign, Design, Storage
from ling.design.affine import storage_and_map
from ling.design.chunked import in_memory
from ling.errors import WrongType
from ling.planning import memory_budget_bytes

log = logging.getLogger("ling")
# Data that takes no more than this share of the memory budget is read once and kept.
KEPT = 0.5


def opened(X: Any, model: Any = None) -> Storage | None:
    """The storage behind X if it is lazy, and None for what scikit-learn understands.

    Tables become numbers as they did when `model` was fitted, if it was.
    """
    from ling.scan import Dataset, scan_arrow

    if isinstance(X, Dataset):
        raise WrongType("X is a Dataset; pass its two parts: fit(data.X, data.y).")
    if isinstance(X, Design):
        return storage_and_map(X)[0]
    library = type(X).__module__.partition(".")[0]
    if library == "pyarrow":
        encoding = getattr(model, "encoding_", None)
        return scan_arrow(X, like=encoding).X
    if library in ("dask", "dask_expr"):
        return _on_cluster(X)
    if isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > _budget(model):
        return ChunkedDesign(ArraySource(X))
    return None


def fitting_memory(storage: Storage, model: Any) -> Storage:
    """The same within the model's memory budget: read once, or in blocks of a size that fits."""
    if not isinstance(storage, ChunkedDesign):
        return storage
    storage = fits_memory(storage, model)
    if storage.n_bytes <= KEPT * _budget(model):
        log.info("X is %.3g MB: read into memory", storage.n_bytes / 1e6)
        return in_memory(storage)
    return storage


def fits_memory(storage: ChunkedDesign, model: Any) -> ChunkedDesign:
    """With blocks of a size that fits."""
    return storage.within(_budget(model))


def in_hand(values: Any) -> Any:
    """y or weights as an array, where they are lazy."""
    library = type(values).__module__.partition(".")[0]
    if library in ("dask", "dask_expr"):
        return np.asarray(values.compute())
    if library == "pyarrow":
        return values.to_numpy(zero_copy_only=False)
    return values


def _on_cluster(X: Any) -> Storage:
    from ling.design.dask import DaskDesign

    return DaskDesign.of(X)


def _budget(model: Any) -> float:
    return memory_budget_bytes(getattr(model, "memory_budget", None), of_all=True)
