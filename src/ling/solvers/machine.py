"""Speeds of this machine, measured once and cached, and its available memory."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from ling.atomic_write import atomic_write
from ling.errors import Change, OptionError
from ling.linalg import threads
from ling.solvers.memory_limits import memory_limit

log = logging.getLogger("ling")
# Version of the cache file for speeds; entries of other versions are ignored.
MACHINE_FILE_VERSION = 4
# Fraction of the memory that this process may use that a fit takes without a memory_budget.
DEFAULT_BUDGET_FRACTION = 0.25
# Units of memory sizes in bytes. "B" is last, because all others end with it.
BYTE_UNITS = {
    "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40, "B": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """Measured speeds, all per second.

    Attributes
    ----------
    stream_bandwidth : float
        Bytes of X in X'(X v), for one column.
    thin_gemm_rate : float
        FLOPs of X'(X V), for a few columns.
    gemm_rate, gemm32, potrf_rate : float
        FLOPs of a Gram matrix in float64 and in float32, and of a Cholesky factorisation.
    sparse, sparse_column : float
        Stored entries of a sparse X in X'(X v) for the first column, and for each further column.
    threads : int
        Number of threads that the speeds were measured with.
    """

    stream_bandwidth: float
    thin_gemm_rate: float
    gemm_rate: float
    gemm32: float
    potrf_rate: float
    sparse: float
    sparse_column: float
    threads: int = 2


# Speeds for problems that take less time than a measurement.
DEFAULT_MACHINE = Machine(2e10, 3e10, 5e10, 1e11, 3e10, 5e8, 3e8)


def parse_memory_budget(budget: float | str | None, root: str | Path = "/") -> float:
    """Memory budget in bytes, from a number, a text like "2GB", or None.

    None means a quarter of the memory that this process may use: that of the machine, or less if a
    limit is set on the process (`ling.solvers.memory_limits`). It does not depend on how much is
    free, and limits are read once in a process, so that plans are reproducible. `root` is the
    folder that holds /proc and /sys.
    """
    if budget is None:
        return max(1.0, DEFAULT_BUDGET_FRACTION * _total_memory(root))
    if isinstance(budget, str):
        text = budget.strip().upper()
        for unit, bytes_per_unit in BYTE_UNITS.items():
            if text.endswith(unit):
                try:
                    n_bytes = float(text[: -len(unit)]) * bytes_per_unit
                except ValueError:
                    break
                if n_bytes > 0:
                    return n_bytes
    elif not isinstance(budget, bool) and budget >= 1:
        return float(budget)
    raise OptionError(
        "memory_budget",
        f"is {budget!r}",
        "pass a number of bytes",
        "pass text such as '500MB' or '2GiB'",
    )


@cache
def _total_memory(root: str | Path) -> float:
    """Bytes that this process may use in total, as first read in this process."""
    try:
        total_bytes = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        total_bytes = 8e9  # bytes; an assumption for systems that do not report it
    return min(total_bytes, memory_limit(root))


# Speeds that plans use, by the number of threads: those that the cache file had when it was first
# read, None if it had none, and those that were measured. They are never replaced in a process, so
# that repeated fits make the same plan.
_cached_speeds: dict[int, Machine | None] = {}
_measured_speeds: dict[int, Machine] = {}


def cached_machine() -> Machine | None:
    """Speeds of this machine from the cache; None if it had none when it was first read."""
    n_threads = threads.n_threads()
    if n_threads not in _cached_speeds:
        file = _cache_file()
        entries = {} if file is None else _read_speeds(file)
        # If another thread has read it in the meantime, its result is the one that counts.
        _cached_speeds.setdefault(n_threads, _as_machine(entries.get(_cache_key(n_threads))))
    return _cached_speeds[n_threads]


def measured_machine() -> Machine:
    """Speeds of this machine, read from the cache or measured in under a second.

    They stay the same in a process. What another process writes to the cache in the meantime is
    used by the next process.
    """
    cached = cached_machine()
    if cached is not None:
        return cached
    n_threads = threads.n_threads()
    if n_threads not in _measured_speeds:
        log.info("The speeds of this machine are measured.")
        _measured_speeds.setdefault(n_threads, measure_machine())
        _write_speeds(_cache_file(), _cache_key(n_threads), _measured_speeds[n_threads])
    return _measured_speeds[n_threads]


def forget_cached_speeds(machine: Machine) -> None:
    """Remove these speeds from the cache file, so that a later process measures them again.

    This process keeps them. Speeds that another process has measured in the meantime stay.
    """
    file, key = _cache_file(), _cache_key(machine.threads)
    entries = {} if file is None else _read_speeds(file)
    if file is not None and _as_machine(entries.pop(key, None)) == machine:
        log.info("The speeds of this machine were measured while it was busy.")
        _write_entries(file, entries)


def forget_speeds() -> None:
    """Read or measure the speeds again when they are needed next, as in a new process."""
    _cached_speeds.clear()
    _measured_speeds.clear()


def _cache_key(n_threads: int) -> str:
    """Name of the entry of the cache file for this machine with so many threads."""
    host = f"{platform.node()}-{platform.machine()}"
    return f"{MACHINE_FILE_VERSION}-{host}-{np.__version__}-{n_threads}"


def parse_speeds(speeds: Mapping[str, Any] | None) -> tuple[Machine | None, float | None]:
    """The machine and the read bandwidth of the parameter `speeds`; None for what it does not have.

    `speeds` has the attributes of `Machine` and, if X is read from files, "read_bandwidth".
    """
    if speeds is None:
        return None, None
    values = dict(speeds)
    read_bandwidth = values.pop("read_bandwidth", None)
    machine = _as_machine(values)
    if machine is None or not (read_bandwidth is None or _is_speed(read_bandwidth)):
        raise OptionError(
            "speeds",
            f"is {speeds!r}",
            "pass report_.plan['speeds'] of a fitted model",
            Change("speeds", None, "to measure the speeds of this machine"),
        )
    return machine, read_bandwidth


def _as_machine(entry: Any) -> Machine | None:
    """Machine from a dict of its attributes; None if missing, incomplete or implausible."""
    if not isinstance(entry, dict) or set(entry) != {field.name for field in fields(Machine)}:
        return None
    if not all(map(_is_speed, entry.values())) or not isinstance(entry["threads"], int):
        return None
    return Machine(**entry)


def _is_speed(value: Any) -> bool:
    """Whether `value` is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # Comparisons with NaN are false, and integers may be too large for float64.
    return 0 < value <= sys.float_info.max


def _cache_file() -> Path | None:
    """Path of the cache file for speeds; None if the user has no home folder."""
    root = os.environ.get("LING_CACHE") or os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(root) if root else Path.home() / ".cache"
    except RuntimeError:  # neither HOME nor an entry in the password database
        return None
    return folder / "ling" / "machine.json"


def _read_speeds(file: Path) -> dict[str, Any]:
    """Entries of the cache file; empty if it cannot be read or is damaged."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _write_speeds(file: Path | None, key: str, machine: Machine) -> None:
    """Add an entry to the cache file; a failure is logged, not raised."""
    if file is None:
        log.info("machine speeds are not kept: there is no home folder; set LING_CACHE to a folder")
        return
    _write_entries(file, {**_read_speeds(file), key: asdict(machine)})


def _write_entries(file: Path, entries: Mapping[str, Any]) -> None:
    """Write the cache file; a failure is logged, not raised."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as partial_file:
            partial_file.write_text(json.dumps(entries, indent=2), encoding="utf-8")
    except (OSError, RecursionError) as error:  # a full disk, or damaged other entries
        log.info("machine speeds are not kept: %s", error)


def measure_machine() -> Machine:
    """Measure the speeds: a sweep over 64 MB, three small BLAS and LAPACK calls, a sparse product.

    Each is the best of a few repetitions.
    """
    from ling.design import as_design

    rng = np.random.default_rng(0)
    X = rng.standard_normal((4096, 2048))
    v = rng.standard_normal(2048)
    design = as_design(X)
    stream_bandwidth = X.nbytes / _best_seconds(lambda: design.gram_matmat(v), 5) * 1.2
    V = rng.standard_normal((2048, 32))
    thin_gemm_rate = 4.0 * X.size * V.shape[1] / _best_seconds(lambda: design.gram_matmat(V), 3)
    A = X[:1024]
    gemm_rate = 1024.0 * 2048**2 / _best_seconds(lambda: blas.dsyrk(1.0, A.T), 3)
    A32 = A.astype(np.float32)
    gemm32 = 1024.0 * 2048**2 / _best_seconds(lambda: blas.ssyrk(1.0, A32.T), 3)
    G = A[:, :1024] @ A[:, :1024].T
    potrf_rate = 1024.0**3 / 3 / _best_seconds(lambda: linalg.lapack.dpotrf(G), 3)
    csr, S = _random_sparse_design(rng)
    one_column = _best_seconds(lambda: csr.gram_matmat(S[:, 0].copy()), 3)
    all_columns = _best_seconds(lambda: csr.gram_matmat(S), 3)
    nnz = csr.matvec_flops / 2
    per_column = max((all_columns - one_column) / (S.shape[1] - 1), one_column / 10)
    # The shortest call suffers most if the machine was busy with something else. This limit keeps
    # such a measurement from being taken for a slow machine.
    potrf_rate = max(potrf_rate, gemm_rate / 8)
    return Machine(
        stream_bandwidth,
        thin_gemm_rate,
        gemm_rate,
        gemm32,
        potrf_rate,
        nnz / one_column,
        nnz / per_column,
        threads.n_threads(),
    )


def _random_sparse_design(rng: np.random.Generator) -> tuple[Any, np.ndarray[Any, Any]]:
    from scipy import sparse

    from ling.design import as_design

    n, p, per_row = 20_000, 10_000, 40
    indices = np.sort(rng.integers(0, p, (n, per_row), dtype=np.int32), axis=1).ravel()
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    csr = sparse.csr_array((rng.standard_normal(n * per_row), indices, indptr), shape=(n, p))
    return as_design(csr), rng.standard_normal((p, 8))


def _best_seconds(call: Callable[[], object], turns: int) -> float:
    call()
    seconds = []
    for _ in range(turns):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return max(min(seconds), 1e-9)
