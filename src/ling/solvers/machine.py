"""What this machine can do: speeds, measured once, and memory."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from ling.atomic_write import atomic_write
from ling.errors import BadOption
from ling.linalg import threads
from ling.solvers.memory_limits import memory_limit

log = logging.getLogger("ling")
# Of the file that speeds are kept in.
MACHINE_FILE_VERSION = 4
# What bytes are counted in; the last is the end of all others.
BYTE_UNITS = {
    "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40, "B": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """Measured speeds, all per second.

    Attributes
    ----------
    sweep : float
        Bytes of X in X'(X v), for one column.
    thin : float
        FLOPs of X'(X V), for a few.
    gemm, gemm32, factor : float
        FLOPs of a Gram matrix, in float64 and in float32, and of a Cholesky factor.
    sparse, sparse_column : float
        Stored entries of a sparse X in X'(X v), and in each further column.
    threads : int
        How many they were measured with.
    """

    stream_bandwidth: float
    thin_gemm_rate: float
    gemm_rate: float
    gemm32: float
    potrf_rate: float
    sparse: float
    sparse_column: float
    threads: int = 2


# Good enough for problems that are over before a measurement would be.
DEFAULT_MACHINE = Machine(2e10, 3e10, 5e10, 1e11, 3e10, 5e8, 3e8)


def parse_memory_budget(
    budget: float | str | None, of_total_memory: bool = False, root: str | Path = "/"
) -> float:
    """Bytes: a number, "2GB" or None for half of what is free, or a quarter of all there is.

    Both heed the limits on this process (`ling.solvers.memory_limits`); `root` is the folder that
    holds /proc and /sys.
    """
    if budget is None and of_total_memory:
        return max(1.0, 0.25 * _total_memory(int(time.monotonic()), root))
    if budget is None:
        return max(1.0, 0.5 * _free_memory(int(time.monotonic()), root))
    if isinstance(budget, str):
        text = budget.strip().upper()
        for unit, size in BYTE_UNITS.items():
            if text.endswith(unit):
                try:
                    found = float(text[: -len(unit)]) * size
                except ValueError:
                    break
                if found > 0:
                    return found
        raise BadOption(
            f"memory_budget is {budget!r}; pass bytes as a number, or text like '500MB' or '2GiB'."
        )
    if isinstance(budget, bool) or not budget >= 1:
        raise BadOption(f"memory_budget is {budget!r}; pass a number of bytes, or text like '2GB'.")
    return float(budget)


@lru_cache(maxsize=1)
def _free_memory(second: int, root: str | Path) -> float:
    """What this process can still use. Asked once a second at most, as it takes some time."""
    return min(_available_memory(root), memory_limit(root).free)


def _available_memory(root: str | Path) -> float:
    """What could be had without swapping: Linux says so, page cache included; others guess."""
    try:
        with Path(root, "proc/meminfo").open(encoding="ascii") as lines:
            found = next(line for line in lines if line.startswith("MemAvailable:"))
        return 1024.0 * float(found.split()[1])
    except (OSError, StopIteration, IndexError, ValueError):
        log.debug("no /proc/meminfo; asking for free pages instead")
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 4e9  # a system that does not tell
    return float(pages)


@lru_cache(maxsize=1)
def _total_memory(second: int, root: str | Path) -> float:
    """What this process may use in all."""
    try:
        pages = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        pages = 8e9  # a system that does not tell
    return min(pages, memory_limit(root).total)


def measured_machine() -> Machine:
    """Speeds of this machine: read from the cache, or measured in under a second."""
    return _measured_machine(threads.n_threads())


@cache
def _measured_machine(n_threads: int) -> Machine:
    host = f"{platform.node()}-{platform.machine()}"
    key = f"{MACHINE_FILE_VERSION}-{host}-{np.__version__}-{n_threads}"
    file = _cache_file()
    known = {} if file is None else _read_speeds(file)
    saved = _as_machine(known.get(key))
    if saved is not None:
        return saved
    log.info("The speeds of this machine are measured.")
    machine = measure_machine()
    _write_speeds(file, {**known, key: asdict(machine)})
    return machine


def _as_machine(entry: Any) -> Machine | None:
    """The speeds of an entry of the file; None if it is missing, incomplete or not plausible."""
    if not isinstance(entry, dict) or set(entry) != {field.name for field in fields(Machine)}:
        return None
    numbers = entry.values()
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        return None
    # Comparisons with NaN are false, and integers may be too large for float64.
    if not all(0 < number <= sys.float_info.max for number in numbers):
        return None
    if not isinstance(entry["threads"], int):
        return None
    return Machine(**entry)


def _cache_file() -> Path | None:
    """Where speeds are kept; None for a user without a home folder."""
    root = os.environ.get("LING_CACHE") or os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(root) if root else Path.home() / ".cache"
    except RuntimeError:  # neither HOME nor an entry in the password database
        return None
    return folder / "ling" / "machine.json"


def _read_speeds(file: Path) -> dict[str, Any]:
    """The entries of the file; none if it cannot be read, or is damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_speeds(file: Path | None, known: dict[str, Any]) -> None:
    """Keep the entries for the next process, if there is a place to keep them."""
    if file is None:
        log.info("machine speeds are not kept: there is no home folder; set LING_CACHE to a folder")
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as part:
            part.write_text(json.dumps(known, indent=2), encoding="utf-8")
    except (OSError, RecursionError) as error:  # no room, or other entries that are damaged
        log.info("machine speeds are not kept: %s", error)


def measure_machine() -> Machine:
    """A sweep over 64 MB, three small BLAS calls and one sparse product, each the best of a few."""
    from ling.design import as_design

    rng = np.random.default_rng(0)
    X = rng.standard_normal((4096, 2048))
    v = rng.standard_normal(2048)
    design = as_design(X)
    sweep = X.nbytes / _best_seconds(lambda: design.gram_matmat(v), 5) * 1.2
    V = rng.standard_normal((2048, 32))
    thin = 4.0 * X.size * V.shape[1] / _best_seconds(lambda: design.gram_matmat(V), 3)
    A = X[:1024]
    gemm = 1024.0 * 2048**2 / _best_seconds(lambda: blas.dsyrk(1.0, A.T), 3)
    A32 = A.astype(np.float32)
    gemm32 = 1024.0 * 2048**2 / _best_seconds(lambda: blas.ssyrk(1.0, A32.T), 3)
    G = A[:, :1024] @ A[:, :1024].T
    factor = 1024.0**3 / 3 / _best_seconds(lambda: linalg.lapack.dpotrf(G), 3)
    csr, S = _random_sparse_design(rng)
    one = _best_seconds(lambda: csr.gram_matmat(S[:, 0].copy()), 3)
    block = _best_seconds(lambda: csr.gram_matmat(S), 3)
    nnz = csr.matvec_flops / 2
    column = max((block - one) / (S.shape[1] - 1), one / 10)
    # A machine that was busy with something else shows in the shortest call; it is not that slow.
    factor = max(factor, gemm / 8)
    return Machine(sweep, thin, gemm, gemm32, factor, nnz / one, nnz / column, threads.n_threads())


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
    found = []
    for _ in range(turns):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return max(min(found), 1e-9)
