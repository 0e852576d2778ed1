"""Data larger than memory: a 12 GB file in a process of 2 GB, and Parquet beside pyarrow itself.

`python -m benchmarks.out_of_core [FOLDER]`; the files are made there, in blocks, if they are not
there yet (default: a folder for temporary files). Rates are those of passes, and of the same bytes
read by the system or by pyarrow alone, in the same run.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

GB = 1e9
SHAPE = 500_000, 3_000
LIMIT, BUDGET = 2 * 2**30, "1GB"
TABLE = 6_000_000, 20
TURNS = 5


def make_npy(file: Path, shape: tuple[int, int] = SHAPE, height: int = 10_000) -> None:
    """Normal numbers whose columns shrink, and a target beside them, one block after the other."""
    n, p = shape
    rng = np.random.default_rng(0)
    coef = rng.standard_normal(p) / np.sqrt(p)
    scales = np.arange(1, p + 1) ** -0.5
    y = np.empty(n)
    part = file.with_suffix(".part")
    with part.open("wb") as out:
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for start in range(0, n, height):
            X = rng.standard_normal((min(height, n - start), p)) * scales
            y[start : start + len(X)] = X @ coef + 0.1 * rng.standard_normal(len(X))
            X.tofile(out)
    np.save(file.with_name("y.npy"), y)
    part.replace(file)


def make_parquet(file: Path, shape: tuple[int, int] = TABLE, height: int = 200_000) -> None:
    """The same as a table of float64 columns, in row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n, p = shape
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(p)]
    schema = pa.schema([(name, pa.float64()) for name in [*names, "y"]])
    part = file.with_suffix(".part")
    with pq.ParquetWriter(part, schema) as out:
        for start in range(0, n, height):
            X = rng.standard_normal((min(height, n - start), p))
            y = X.sum(axis=1) + rng.standard_normal(len(X))
            out.write_table(pa.table([*X.T, y], schema=schema))
    part.replace(file)


def read_rate(file: Path) -> float:
    """Bytes a second at which the system hands out the file, best of a few."""
    buffer = memoryview(bytearray(2**20))
    best = 0.0
    for _ in range(TURNS):
        started, read = time.perf_counter(), 0
        with file.open("rb", buffering=0) as data:
            while count := data.readinto(buffer):
                read += count
        best = max(best, read / (time.perf_counter() - started))
    return best


def limited_fit(file: Path) -> dict[str, Any]:
    """Called in a process of its own: a certified fit, its memory, and the rate of its passes."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    from ling import Ridge, scan_npy
    from ling.design import as_design

    data = scan_npy(file, file.with_name("y.npy"))
    started = time.perf_counter()
    model = Ridge(alpha=10.0, memory_budget=BUDGET).fit(data)
    seconds = time.perf_counter() - started
    design = as_design(data.X.with_memory_budget(GB)).centered()
    v = np.random.default_rng(0).standard_normal(design.shape[1])
    passes = []
    for _ in range(TURNS):
        began = time.perf_counter()
        design.gram_matmat(v)
        passes.append(time.perf_counter() - began)
    return {
        "seconds": seconds,
        "report": str(model.report_),
        "status": model.report_.status.name,
        "bound": model.report_.certificate.bound,
        "passes": model.report_.cost.passes,
        "pass_rate": file.stat().st_size / min(passes),
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def parquet_rates(file: Path) -> tuple[float, float, float]:
    """Rows a second: of a pass of ours, of pyarrow reading the same columns, and their ratio."""
    import pyarrow.dataset as ds

    from ling import scan_parquet

    names = [f"x{j}" for j in range(TABLE[1])]
    data = scan_parquet(file, target="y")
    v = np.ones(TABLE[1])
    ours, theirs = [], []
    for _ in range(TURNS):
        began = time.perf_counter()
        for batch in ds.dataset(file).to_batches(columns=names):
            _ = batch.num_rows
        theirs.append(time.perf_counter() - began)
        began = time.perf_counter()
        data.X.gram_matmat(v)
        ours.append(time.perf_counter() - began)
    n = data.shape[0]
    return n / min(ours), n / min(theirs), min(theirs) / min(ours)


def main() -> None:
    """Make what is missing, measure, print."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir()) / "ling-out-of-core"
    folder.mkdir(exist_ok=True)
    npy, parquet = folder / "X.npy", folder / "table.parquet"
    if not npy.exists():
        make_npy(npy)
    if not parquet.exists():
        make_parquet(parquet)
    code = (
        "import json, sys; from pathlib import Path; from benchmarks import out_of_core as here;"
        "print(json.dumps(here.limited_fit(Path(sys.argv[1]))))"
    )
    before = read_rate(npy)
    done = subprocess.run(
        [sys.executable, "-c", code, str(npy)], stdout=subprocess.PIPE, text=True, check=True,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},
    )  # fmt: skip
    found = json.loads(done.stdout)
    rate = max(before, read_rate(npy))
    print(found["report"])
    print(
        f"{npy.stat().st_size / GB:.3g} GB in a process limited to {LIMIT / GB:.3g} GB: "
        f"{found['status'].lower()}, {found['seconds']:.1f} s, peak {found['peak_bytes'] / GB:.2f} "
        f"GB; a pass {found['pass_rate'] / GB:.1f} GB/s, the system alone {rate / GB:.1f} GB/s: "
        f"{found['pass_rate'] / rate:.0%}"
    )
    ours, theirs, ratio = parquet_rates(parquet)
    print(
        f"Parquet: a pass {ours / 1e6:.1f} million rows a second, pyarrow alone "
        f"{theirs / 1e6:.1f}: {ratio:.0%}"
    )


if __name__ == "__main__":
    main()
