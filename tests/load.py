"""Fits for the load tests, of every storage and engine; also run as a program in other processes.

python -m tests.load forks 8        # a fit of every kind, then in so many forked processes
python -m tests.load growth 1000    # so many fits in a row; prints what has grown
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

import ling
from ling.design import ArraySource, ChunkedStorage

N, P = 120, 8
# A child that hangs is noticed after this time; it leaves room for a busy machine.
MAX_SECONDS = 300


def data(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P)) * np.linspace(2, 0.1, P)
    return X, X @ rng.standard_normal(P) + rng.standard_normal(N)


def blocks(X):
    """Rows in blocks, which a thread reads ahead and compiled loops sum up in the pool."""
    return ChunkedStorage(
        ArraySource(X), max_resident_bytes=4 * 8 * P * (N // 4), has_fixed_blocks=True
    )


def fit(model, X, y):
    return model.fit(X, y).coef_


def fit_engine(solver):
    """With an engine that is given: a plan for files depends on how fast they happen to be read."""
    return lambda X, y, folder=None: fit(ling.Ridge(solver=solver, tol=1e-8), X, y)


fit_direct = fit_engine("direct")


def fit_npy(X, y, folder):
    np.save(folder / "X.npy", X)
    model = ling.Ridge(solver="direct", memory_budget=10_000)
    return fit(model, ling.scan_npy(folder / "X.npy"), y)


def fit_parquet(X, y, folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({**{f"x{j}": column for j, column in enumerate(X.T)}, "y": y})
    pq.write_table(table, folder / "a.parquet", row_group_size=30)
    return fit_direct(ling.scan_parquet(folder / "a.parquet", target="y"), None)


def fit_zarr(X, y, folder):
    import zarr

    zarr.create_array(folder / "X.zarr", shape=X.shape, chunks=(30, P), dtype=X.dtype)[:] = X
    return fit_direct(ling.scan_zarr(folder / "X.zarr"), y)


KINDS = {
    **{solver: fit_engine(solver) for solver in ("direct", "two_stage")},
    "csr": lambda X, y, folder: fit_direct(sparse.csr_array(X), y),
    "blocks": lambda X, y, folder: fit(ling.Ridge(solver="two_stage", tol=1e-8), blocks(X), y),
    "float32": lambda X, y, folder: fit_direct(X.astype(np.float32), y),
    "folds": lambda X, y, folder: fit(ling.RidgeCV(cv=3), X, y),
    "leave-one-out": lambda X, y, folder: fit(ling.RidgeCV(), X, y),
    "classes": lambda X, y, folder: fit(ling.RidgeClassifier(), X, y > 0),
    "checkpoint": lambda X, y, folder: fit(ling.Ridge(checkpoint=folder / "kept"), X, y),
    "npy": fit_npy,
}
#: Kinds that need a package of an extra.
FILE_KINDS = {"parquet": fit_parquet, "zarr": fit_zarr}


def installed_kinds():
    kinds = dict(KINDS)
    for package, name in (("pyarrow", "parquet"), ("zarr", "zarr")):
        try:
            __import__(package)
        except ImportError:
            continue
        kinds[name] = FILE_KINDS[name]
    return kinds


def run(kind, seed):
    """Coefficients of a fit of this kind."""
    X, y = data(seed)
    with tempfile.TemporaryDirectory() as folder:
        return np.array(installed_kinds()[kind](X, y, Path(folder)))


def run_all(seed=0):
    return {kind: run(kind, seed) for kind in installed_kinds()}


def run_in_forks(n_processes):
    """The largest difference between fits in this process and in forked ones, all at once."""
    known = run_all()
    fork = multiprocessing.get_context("fork")
    pipes, children = [], []
    for _ in range(n_processes):
        receiver, sender = fork.Pipe(duplex=False)
        children.append(fork.Process(target=_send_all, args=(sender,), daemon=True))
        pipes.append(receiver)
        children[-1].start()
    largest = 0.0
    for receiver in pipes:
        if not receiver.poll(MAX_SECONDS):
            raise TimeoutError("a forked process hangs")
        for kind, coef in receiver.recv().items():
            largest = max(largest, float(np.abs(coef - known[kind]).max()))
    for child in children:
        child.join(MAX_SECONDS)
        assert child.exitcode == 0
    return largest


def _send_all(sender):
    sender.send(run_all())


def measure_growth(n_fits, warm_up=3):
    """Bytes, threads and open files by which this process has grown after so many fits.

    The fits of the warm-up fill caches, each of every kind.
    """
    # Before the warm-up, so that what is freed later has been counted.
    tracemalloc.start()
    for seed in range(warm_up):
        run_all(seed)
    kinds = list(installed_kinds())
    before = _resources()
    for number in range(n_fits):
        run(kinds[number % len(kinds)], number % warm_up)
    after = _resources()
    tracemalloc.stop()
    return {name: after[name] - before[name] for name in before}


def _resources():
    gc.collect()
    return {
        "bytes": tracemalloc.get_traced_memory()[0],
        "resident bytes": _resident_bytes(),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    }


def _resident_bytes():
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def main():
    warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
    command, count = sys.argv[1], int(sys.argv[2])
    result = run_in_forks(count) if command == "forks" else measure_growth(count)
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
