"""Lazy X (scanned files, memory maps, pyarrow tables, Dask collections) opened as a `Storage`.

A `Dataset` holds X and y: `open_storage` uses its X, and `split_dataset` both.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ling._typing import Array
from ling.design import ArraySource, ChunkedStorage, DenseStorage, Design, Storage
from ling.design.arrays import float_dtype
from ling.design.blocked import BlockedStorage
from ling.design.chunked import read_all
from ling.design.pass_cache import PassCachedStorage
from ling.errors import InputTypeError, MissingValueError, OptionError, ShapeError, Where
from ling.progress import READ_STAGE, FitProgress
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.problem import TrainingData
from ling.wording import format_bytes

log = logging.getLogger("ling")
# X is read into memory once if its bytes are at most this fraction of the memory budget. Larger X
# is read block by block in every pass.
IN_MEMORY_BUDGET_FRACTION = 0.5
# Memory maps up to this size are not read in blocks, however small the budget is: that would take
# several times as long, and starting a process takes more memory.
MAX_UNBLOCKED_BYTES = 4e6
# For each file extension: the scan function, with the argument that names the targets. Shown in the
# error for an X that is a path.
SCAN_CALLS = {
    ".parquet": "scan_parquet({}, target=...)",
    ".csv": "scan_csv({}, target=...)",
    ".npy": "scan_npy({}, y=...)",
    ".zarr": "scan_zarr({}, y=...)",
}


def split_dataset(X: Any, y: Any) -> tuple[Any, Any]:
    """X and y of a Dataset; y is None if there is no target. Other X and y are returned unchanged.

    Raises OptionError if X is a Dataset with a target and y is passed as well.
    """
    from ling.io import Dataset

    if not isinstance(X, Dataset):
        return X, y
    if not X.has_target:
        return X.X, y
    if y is not None:
        raise OptionError(
            "y",
            f"is passed, and `X` is a Dataset with the target {X.target_reader.description}",
            "pass only the Dataset to use its target",
            "pass data.X and `y` to use another target",
        )
    return X.X, X.y


def open_storage(
    X: Any, budget: MemoryBudget | None = None, encoding: Any = None
) -> Storage | None:
    """Storage of X (n, p) if X is lazy, or None if scikit-learn's validation accepts it.

    A memory map is lazy, and read in blocks, if its values take more bytes than `budget` and than
    MAX_UNBLOCKED_BYTES. Columns of pyarrow tables, and of data frames to predict for, are encoded
    as numbers by `encoding`, that of an earlier fit, if it is given.
    """
    from ling.io import Dataset, scan_arrow
    from ling.io.column_spec import check_unique_columns

    if isinstance(X, Dataset):
        return X.X
    check_unique_columns("X", X)
    if isinstance(X, (str, os.PathLike)):
        raise _file_name_error(os.fspath(X))
    if isinstance(X, Storage):
        return X
    if isinstance(X, Design):
        return _check_plain_storage(X)
    if _top_level_package(X) == "pyarrow":
        return scan_arrow(X, like=encoding).X
    if is_dask_collection(X):
        return _dask_storage(X)
    if encoding is not None and _needs_encoding(X, encoding):
        used = [name for name in encoding.inputs if name in X.columns]
        return scan_arrow(X[used], like=encoding).X
    is_numeric_map = isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiub"
    if is_numeric_map and not _is_mapped_whole(X, budget or MemoryBudget.from_option(None)):
        return ChunkedStorage(ArraySource(X))
    return None


def _is_mapped_whole(X: np.memmap[Any, Any], budget: MemoryBudget) -> bool:
    """True if a memory map is used like an array in memory, and not read in blocks."""
    n_bytes = X.size * float_dtype(X.dtype).itemsize
    return n_bytes <= MAX_UNBLOCKED_BYTES or budget.allows(n_bytes)


def _needs_encoding(X: Any, encoding: Any) -> bool:
    """True if X is a data frame of pandas or polars that has to be encoded like the fit's table.

    It does not have to be if its columns are those of the encoded table already, unless missing
    values have to be filled in. Without encoding, pyarrow is not needed.
    """
    if not hasattr(X, "__arrow_c_stream__") or not hasattr(X, "columns"):
        return False
    is_encoded = tuple(X.columns) == encoding.names
    return not is_encoded or (encoding.fills and not encoding.one_hot)


def _file_name_error(path: Any) -> InputTypeError:
    """Error about an X that is the path of a file."""
    extension = os.path.splitext(path)[1]
    call = SCAN_CALLS.get(extension, SCAN_CALLS[".parquet"]).format(repr(path))
    others = "" if extension in SCAN_CALLS else " (there are scan_csv, scan_npy and scan_zarr too)"
    return InputTypeError(
        "X",
        "is the name of a file, not its contents",
        f"scan the file with data = ling.{call}{others} and pass data",
        where=Where(file=path),
    )


def _check_plain_storage(X: Design) -> Storage:
    """Storage of a design; raises if the design is an affine map of other data."""
    if not X.affine.is_identity:
        raise InputTypeError(
            "X",
            f"is {X!r}, a transformation of other data",
            "pass the original data, and weights as `sample_weight`",
        )
    return X.storage


def load_or_rechunk(
    storage: Storage, budget: MemoryBudget, progress: FitProgress
) -> tuple[Storage, float]:
    """The storage fitted to a memory budget, and the bytes of it that are in memory.

    A chunked storage is read into memory, or in blocks that fit. See `IN_MEMORY_BUDGET_FRACTION`
    for when it is read into memory.
    """
    if not isinstance(storage, ChunkedStorage):
        return storage, 0.0
    chunked = storage.with_memory_budget(budget.n_bytes, progress)
    resident_bytes, is_read_once = planned_residency(chunked, budget)
    if not is_read_once:
        return chunked, resident_bytes
    log.info("X is read into memory: %s.", format_bytes(chunked.n_bytes))
    progress.begin_stage(READ_STAGE, lambda: (1.0, chunked.n_bytes / chunked.read_bandwidth))
    return read_all(chunked, budget.tuning), resident_bytes


def planned_residency(storage: ChunkedStorage, budget: MemoryBudget) -> tuple[float, bool]:
    """Bytes of X that a fit holds in memory, and whether it reads X into memory once."""
    fits = budget.allows(storage.n_bytes, IN_MEMORY_BUDGET_FRACTION)
    if fits and not storage.has_fixed_blocks:
        return float(storage.n_bytes), True
    return storage.max_resident_bytes, False


def design_with_budget(data: TrainingData, n_bytes: float) -> tuple[Design, float, bool]:
    """The design of a fit with a memory budget of `n_bytes`, as far as its cost depends on it.

    Also the bytes of X that the fit holds in memory, and whether it reads X into memory once. The
    budget is not less than that of `data`. Nothing is read.
    """
    storage, budget = data.design.storage, MemoryBudget(n_bytes)
    if isinstance(storage, PassCachedStorage):
        storage = storage.storage
    if not isinstance(storage, ChunkedStorage):
        return _design_with_workspace(storage, budget), data.resident_bytes, False
    source = storage.source
    mapped = source.array if isinstance(source, ArraySource) else None
    if isinstance(mapped, np.memmap) and budget.allows(storage.n_bytes):
        # `open_storage` does not read it in blocks.
        return _design_with_workspace(DenseStorage(mapped), budget), 0.0, False
    chunked = storage.with_memory_budget(n_bytes)
    resident_bytes, is_read_once = planned_residency(chunked, budget)
    if is_read_once:
        return _design_with_workspace(chunked, budget), resident_bytes, True
    return Design(chunked), resident_bytes, False


def _design_with_workspace(storage: Storage, budget: MemoryBudget) -> Design:
    """The design of a storage with temporary blocks of the size that `budget` has room for."""
    sized = copy.copy(storage)
    if not isinstance(storage, BlockedStorage) or isinstance(storage, ChunkedStorage):
        sized.workspace_bytes = float(budget.tuning.workspace_bytes)
    return Design(sized)


def as_numpy(values: Any, name: str) -> Any:
    """An array of another array library (PyTorch, JAX, CuPy) as NumPy array; others unchanged.

    `name` is the argument that errors name.
    """
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return values
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError, BufferError, ValueError) as error:  # on a GPU, or with grad
        raise InputTypeError(
            name,
            f"is a {type(values).__module__}.{type(values).__qualname__} that NumPy cannot read "
            f"({error})",
            f"pass a NumPy array, such as {name}.detach().cpu().numpy()",
        ) from error


def materialize(values: Any, name: str) -> Any:
    """y or sample_weight (`name` says which) as a NumPy array if it is lazy, else unchanged."""
    from ling.io.column_spec import check_unique_columns

    check_unique_columns(name, values)
    if is_dask_collection(values):
        return np.asarray(_with_checked_chunks(values, name).compute())
    if _top_level_package(values) == "pyarrow":
        return _arrow_to_numpy(values, name)
    return as_numpy(values, name)


def _arrow_to_numpy(values: Any, name: str) -> Any:
    """A pyarrow array (n,) or table (n, t) as a NumPy array; raises if a value is missing."""
    if hasattr(values, "columns"):  # a table
        return np.column_stack([_arrow_to_numpy(column, name) for column in values.columns])
    if values.null_count:
        row = int(values.is_null().to_numpy(zero_copy_only=False).argmax())
        raise MissingValueError(name, "has no value", "leave such rows out", where=Where(row))
    chunks = values.chunks if hasattr(values, "chunks") else [values]
    return np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in chunks])


def is_dask_collection(X: Any) -> bool:
    """True if X is a Dask collection."""
    return _top_level_package(X) in ("dask", "dask_expr")


def map_dask_blocks(X: Any, function: Callable[[Array], Any], p: int) -> Any:
    """Lazy Dask array of function(block) for every block of rows of X (n, p).

    `function` maps an array (m, p) to an array of shape (m,) or (m, t). It is called once with a
    row of zeros to find the dtype and shape of the result.
    """
    if not hasattr(X, "map_blocks"):
        X = _numeric_dask_array(X)
    X = _with_checked_chunks(X, "X")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    meta = np.asarray(function(np.zeros((1, p), X.dtype)))[:0]
    if meta.ndim == 1:
        return X.map_blocks(function, drop_axis=1, dtype=meta.dtype, meta=meta)
    return X.map_blocks(function, chunks=(X.chunks[0], meta.shape[1:]), dtype=meta.dtype, meta=meta)


def _dask_storage(X: Any) -> Storage:
    """Storage of a Dask array, or of a Dask data frame with its column names."""
    from ling.design.dask import DaskStorage

    if hasattr(X, "map_blocks"):
        return DaskStorage.from_array(X)
    names = tuple(str(name) for name in X.columns)
    return DaskStorage.from_array(_numeric_dask_array(X), names)


def _numeric_dask_array(frame: Any) -> Any:
    """A Dask data frame as a Dask array, in float32 if all columns are and in float64 otherwise.

    Boolean columns become 0 and 1; other columns that are not numeric raise InputTypeError.
    """
    non_numeric = [name for name, kind in frame.dtypes.items() if kind.kind not in "fiub"]
    if non_numeric:
        raise InputTypeError(
            "X",
            f"has dtype {frame.dtypes[non_numeric[0]]}",
            "encode it first, for example by dask.dataframe.get_dummies(X, dtype=float)",
            "leave it out",
            where=Where(column=non_numeric[0]),
        )
    is_float32 = all(kind == np.float32 for kind in frame.dtypes)
    names = list(frame.columns)
    frame = frame.map_partitions(_check_partition_columns, names, meta=frame._meta)
    # Partition lengths are determined later, because Dask may merge partitions.
    return frame.astype(np.float32 if is_float32 else np.float64).to_dask_array()


def _check_partition_columns(partition: Any, names: list[Any]) -> Any:
    """The partition, unchanged; raises unless its columns are those of the data frame."""
    if list(partition.columns) != names:
        raise ShapeError(
            "X",
            f"a partition of `X` has the columns {list(partition.columns)}, and the data frame "
            f"declares {names}",
            "give all partitions the same columns in the same order",
        )
    return partition


def _with_checked_chunks(values: Any, name: str) -> Any:
    """A Dask array that checks the shape of its chunks when computed; data frames unchanged."""
    if not hasattr(values, "map_blocks"):
        return values
    from ling.design.dask.block_shapes import with_checked_shapes

    return with_checked_shapes(values, name)


def _top_level_package(values: Any) -> str:
    return type(values).__module__.partition(".")[0]


def memory_budget(model: Any) -> MemoryBudget:
    """The model's `memory_budget`."""
    return MemoryBudget.from_option(getattr(model, "memory_budget", None))
