"""File formats for `tools/fuzz_files.py`: valid files, damage, and how users open them.

A file is a dict from relative paths to bytes, because zarr arrays and checkpoints are folders.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import io
import json
import random
import shutil
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ling
from ling.design import ArraySource, ChunkedStorage


@dataclass(frozen=True)
class Symlink:
    """A symbolic link in place of a file."""

    target: str


@dataclass(frozen=True)
class Sparse:
    """A file of `size` bytes, all 0 after the `begin`, which take no room on disk."""

    begin: bytes
    size: int


Files = dict[str, bytes | Symlink | Sparse]
N, P = 40, 3
# Values of 1 to 8 bytes at which readers of lengths and offsets break.
INTERESTING_INTEGERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1,
                        2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
# What a value of a JSON header is replaced with.
INTERESTING_VALUES = (None, True, -1, 0, 1, 2**31, 10**12, 10**30, 1e308, "", "x", "é\ud800", [],
                      {}, [1], [[1]], {"a": 1}, {"list": [1]}, {"array": 0}, {"array": -1},
                      {"float": "nan"}, {"dict": []}, {"tuple": []}, {"texts": ["a"]})  # fmt: skip
# Stands for a deeply nested value until a document is written: the writer has limits, too.
NESTED = "nested"


@dataclass(frozen=True)
class Format:
    """`make` gives valid files, `open` uses them as users do, `damage` changes them.

    `open` gets the folder of the files and random numbers for its options.
    """

    make: Callable[[Path], list[Files]]
    open: Callable[[Path, random.Random], None]
    damage: Callable[[Files, random.Random], Files]


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P))
    return X, X @ np.arange(1.0, P + 1) + rng.standard_normal(N)


# Damage.


def damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """The bytes with one to three changes, anywhere or near one end, where headers lie."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        if not changed:
            break
        size = len(changed)
        first, last = rng.choice([(0, size), (0, min(size, 128)), (max(0, size - 1000), size)])
        rng.choice(CHANGES)(changed, rng.randrange(first, last), rng)
    return bytes(changed)


def _flip_bit(content: bytearray, at: int, rng: random.Random) -> None:
    content[at] ^= 1 << rng.randrange(8)


def _set_byte(content: bytearray, at: int, rng: random.Random) -> None:
    content[at] = rng.randrange(256)


def _set_integer(content: bytearray, at: int, rng: random.Random) -> None:
    value, width = rng.choice(INTERESTING_INTEGERS), rng.choice((1, 2, 4, 8))
    packed = (value % 256**width).to_bytes(width, rng.choice(("little", "big")))
    content[at : at + width] = packed[: len(content) - at]


def _insert(content: bytearray, at: int, rng: random.Random) -> None:
    content[at:at] = rng.randbytes(rng.choice((1, 2, 4, 100)))


def _delete(content: bytearray, at: int, rng: random.Random) -> None:
    del content[at : at + rng.choice((1, 2, 4, 100))]


def _repeat(content: bytearray, at: int, rng: random.Random) -> None:
    content[at:at] = content[at : at + rng.choice((1, 8, 100))]


def _cut_off(content: bytearray, at: int, rng: random.Random) -> None:
    del content[at:]


CHANGES = (_flip_bit, _flip_bit, _set_byte, _set_byte, _set_integer, _insert, _delete, _repeat,
           _cut_off)  # fmt: skip


def damage_one_file(files: Files, rng: random.Random) -> Files:
    name = rng.choice(sorted(files))
    return {**files, name: damage_bytes(files[name], rng)}


def damage_json(text: bytes, rng: random.Random) -> bytes:
    """JSON in which one or two values are others, missing or nested deeply."""
    content = json.loads(text)
    for _ in range(rng.randint(1, 2)):
        places = _places(content)
        if not places:
            break
        parent, key = rng.choice(places)
        if rng.random() < 0.2:
            del parent[key]
        elif rng.random() < 0.2:
            parent[key] = NESTED
        else:
            other, name = rng.choice(places)
            parent[key] = copy.deepcopy(rng.choice((*INTERESTING_VALUES, other[name])))
    depth = rng.choice((1, 400, 100_000))
    nested = '{"list": [' * depth + "1" + "]}" * depth
    return json.dumps(content).replace(f'"{NESTED}"', nested).encode()


def _places(content) -> list[tuple]:
    """(dict or list, key) of every value of a JSON document."""
    keys = content if isinstance(content, dict) else range(len(content))
    places = []
    for key in keys:
        places.append((content, key))
        if isinstance(content[key], dict | list):
            places += _places(content[key])
    return places


# Model files.


def make_models(folder: Path) -> list[Files]:
    import pyarrow as pa

    X, y = data()
    table = pa.table({"a": X[:, 0], "city": np.where(X[:, 1] > 0, "Oslo", "Bergen")})
    models = {
        "ridge": ling.Ridge(store_covariance=True).fit(X, y),
        "cv": ling.RidgeCV(cv=3).fit(X, np.column_stack([y, -y])),
        "partial": ling.Ridge().partial_fit(X, y),
        "classifier": ling.RidgeClassifierCV(cv=3).fit(
            ling.scan_arrow(table).X, np.where(y > 1, "high", np.where(y > -1, "mid", "low"))
        ),
    }
    files = []
    for name, model in models.items():
        ling.save(model, folder / f"{name}.ling")
        files.append({"model.ling": (folder / f"{name}.ling").read_bytes()})
    return files


def damage_model(files: Files, rng: random.Random) -> Files:
    """Half of the time inside of entries, with right checksums, so that readers get to see it."""
    if rng.random() < 0.5:
        return damage_one_file(files, rng)
    with zipfile.ZipFile(io.BytesIO(files["model.ling"])) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = "model.json" if rng.random() < 0.6 else rng.choice(sorted(entries))
    change = damage_json if name == "model.json" and rng.random() < 0.9 else damage_bytes
    entries[name] = change(entries[name], rng)
    if rng.random() < 0.05:
        entries[rng.choice(("../../escaped", "/escaped", "0.npy/..", ""))] = b"x"
    return {"model.ling": zip_bytes(entries)}


def zip_bytes(entries: Files, compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return out.getvalue()


def open_model(folder: Path, rng: random.Random) -> None:
    import pyarrow as pa

    model = ling.load(folder / "model.ling")
    X = data()[0]
    has_encoding = getattr(model, "encoding_", None) is not None
    new = pa.table({"a": X[:, 0], "city": ["Oslo"] * N}) if has_encoding else X
    # The file may say that the model has other columns, which `predict` reports.
    model.predict(new)
    str(model.report_), repr(model), model.report_._repr_html_()
    for name in ("cv_scores_", "edf_", "noise_variance_"):
        repr(getattr(model, name, None))
    if getattr(model, "_sufficient_statistics", None) is not None:
        model.partial_fit(X, data()[1])
    check_fit(model)


# Checkpoints.


class InterruptedFit(Exception):
    """Ends a fit between two passes."""


class LimitedStorage(ChunkedStorage):
    """Blocks of rows, for a number of passes."""

    def __init__(self, X: np.ndarray, n_passes: int = 10**9) -> None:
        super().__init__(ArraySource(X), has_fixed_blocks=True)
        self.passes_left = iter(range(n_passes))  # which copies of the storage share

    def run(self, call):
        if next(self.passes_left, None) is None:
            raise InterruptedFit
        return super().run(call)


CHECKPOINT_SOLVERS = {"1": "two_stage", "2": "direct"}


def checkpointed(folder: Path, solver: str) -> ling.Ridge:
    return ling.Ridge(0.5, solver=CHECKPOINT_SOLVERS[solver], tol=1e-8, random_state=0,
                      checkpoint=folder / solver)  # fmt: skip


def make_checkpoints(folder: Path) -> list[Files]:
    """Checkpoints of fits that stopped after some passes; folders are named after the solver."""
    X, y = data()
    files = []
    for solver in CHECKPOINT_SOLVERS:
        with suppress(InterruptedFit):
            checkpointed(folder, solver).fit(LimitedStorage(X, n_passes=1), y)
        files.append(read_files(folder))
        shutil.rmtree(folder / solver)
    return files


def damage_checkpoint(files: Files, rng: random.Random) -> Files:
    """Half of the time with right checksums, so that readers get to see it.

    A pass that still consists of arrays keeps its wrong checksum: a checksum is no signature, and
    ling does not promise to see that a pass was forged.
    """
    if rng.random() < 0.5:
        return damage_one_file(files, rng)
    name = rng.choice(sorted(name for name in files if not name.endswith("lock")))
    content = files[name]
    if name.endswith(".json"):
        text, _, _ = content.rpartition(b"\n")
        text = (damage_json if rng.random() < 0.8 else damage_bytes)(text, rng)
        return {**files, name: text + b"\n" + hashlib.sha256(text).hexdigest().encode()}
    rest = damage_bytes(content[32:], rng)
    checksum = content[:32] if _is_pass(rest) else hashlib.sha256(rest).digest()
    return {**files, name: checksum + rest}


def _is_pass(content: bytes) -> bool:
    file = io.BytesIO(content[2:])
    try:
        for _ in range(sum(content[:2])):
            np.lib.format.read_array(file, allow_pickle=False)
    except Exception:
        return False
    return len(content) > 2


def open_checkpoint(folder: Path, rng: random.Random) -> None:
    X, y = data()
    (solver,) = (path.name for path in folder.iterdir())
    check_fit(checkpointed(folder, solver).fit(LimitedStorage(X), y))


# Arrays and tables.


def make_npy(folder: Path) -> list[Files]:
    X, y = data()
    arrays = [X, np.asfortranarray(X), X.astype(np.float32), (9 * X).astype(">i2"), X > 0]
    return [{"X.npy": npy_bytes(array), "y.npy": npy_bytes(y)} for array in arrays]


def npy_bytes(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array)
    return out.getvalue()


def open_npy(folder: Path, rng: random.Random) -> None:
    fit(ling.scan_npy(folder / "X.npy", folder / "y.npy"), rng)


def table():
    import pyarrow as pa

    X, y = data()
    city = np.array(["Oslo", "Bergen", "Tromsø"])[np.arange(N) % 3]
    count = pa.array([None if i == 3 else i for i in range(N)], pa.int32())
    return pa.table({"a": X[:, 0], "b": X[:, 1], "count": count, "city": city, "y": y})


def make_parquet(folder: Path) -> list[Files]:
    import pyarrow.parquet as pq

    options = [{}, {"compression": "none", "use_dictionary": False}, {"compression": "zstd"},
               {"data_page_version": "2.0", "compression": "gzip"},
               {"write_page_checksum": True, "column_encoding": "BYTE_STREAM_SPLIT",
                "use_dictionary": False}]  # fmt: skip
    files = []
    for option in options:
        columns = table().drop(["city"]) if "column_encoding" in option else table()
        pq.write_table(columns, folder / "a.parquet", row_group_size=15, **option)
        files.append({"a.parquet": (folder / "a.parquet").read_bytes()})
    return files


def make_feather(folder: Path) -> list[Files]:
    import pyarrow.feather

    files = []
    for compression in ("lz4", "zstd", "uncompressed"):
        columns = table()
        if compression == "zstd":
            columns = columns.set_column(3, "city", columns["city"].dictionary_encode())
        pyarrow.feather.write_feather(columns, str(folder / "a.feather"), compression=compression,
                                      chunksize=15)  # fmt: skip
        files.append({"a.feather": (folder / "a.feather").read_bytes()})
    return files


def make_csv(folder: Path) -> list[Files]:
    import pyarrow.csv

    out = io.BytesIO()
    pyarrow.csv.write_csv(table(), out)
    plain = out.getvalue()
    semicolons = plain.replace(b",", b";").replace(b".", b",")
    return [{"a.csv": plain}, {"a.csv": semicolons}, {"a.csv.gz": gzip.compress(plain, mtime=0)}]


def open_table(scan: Callable) -> Callable[[Path, random.Random], None]:
    def open_it(folder: Path, rng: random.Random) -> None:
        missing = rng.choice(("error", "mean"))
        fit(scan(folder, target="y", missing=missing), rng)

    return open_it


def make_zarr(folder: Path) -> list[Files]:
    import zarr

    X, y = data()
    files = []
    for version, options in ((3, {}), (2, {}), (3, {"shards": (20, 4)})):
        for name, array in (("X", X), ("y", y)):
            if array.ndim == 1 and options:
                options = {"shards": (20,)}
            chunks = (10, 2) if array.ndim == 2 else (10,)
            stored = zarr.create_array(folder / str(version) / name, shape=array.shape,
                                       chunks=chunks, dtype=array.dtype, zarr_format=version,
                                       overwrite=True, **options)  # fmt: skip
            stored[:] = array
        files.append(read_files(folder / str(version)))
    return files


def damage_zarr(files: Files, rng: random.Random) -> Files:
    """Half of the time in the metadata."""
    documents = sorted(name for name in files if name.endswith(("zarr.json", ".zarray")))
    chance = rng.random()
    if chance < 0.3:
        name = rng.choice(documents)
        return {**files, name: damage_json(files[name], rng)}
    if chance < 0.5:
        name = rng.choice(documents)
        return {**files, name: damage_bytes(files[name], rng)}
    if chance < 0.55:
        dropped = rng.choice(sorted(files))
        return {name: content for name, content in files.items() if name != dropped}
    return damage_one_file(files, rng)


def open_zarr(folder: Path, rng: random.Random) -> None:
    fit(ling.scan_zarr(folder / "X", folder / "y"), rng)


# What all of them share.


def fit(scanned: ling.Dataset, rng: random.Random) -> None:
    """A fit with X read into memory or block by block; numbers may be others than before."""
    str(scanned), repr(scanned)
    budget = rng.choice((None, None, 20_000))
    solver = rng.choice(("auto", "auto", "two_stage"))
    check_fit(ling.Ridge(memory_budget=budget, solver=solver, random_state=0).fit(scanned))


def check_fit(model) -> None:
    str(model.report_)
    if not (np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()):
        raise AssertionError("the fit is not finite")


def read_files(folder: Path) -> Files:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def write_files(folder: Path, files: Files) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Symlink):
            path.symlink_to(content.target)
            continue
        with path.open("wb") as file:
            file.write(content.begin if isinstance(content, Sparse) else content)
            if isinstance(content, Sparse):
                file.truncate(content.size)


FORMATS = {
    "model": Format(make_models, open_model, damage_model),
    "checkpoint": Format(make_checkpoints, open_checkpoint, damage_checkpoint),
    "npy": Format(make_npy, open_npy, damage_one_file),
    "parquet": Format(make_parquet, open_table(ling.scan_parquet), damage_one_file),
    "csv": Format(make_csv, open_table(ling.scan_csv), damage_one_file),
    "feather": Format(make_feather, open_table(ling.scan_feather), damage_one_file),
    "zarr": Format(make_zarr, open_zarr, damage_zarr),
}


def prepare_case(
    name: str, seeds: list[Files], folder: Path, seed: int, case: int
) -> random.Random:
    """Write the damaged files of a case; it depends on format, seed and number only."""
    rng = random.Random(f"{name} {seed} {case}")
    write_files(folder, FORMATS[name].damage(rng.choice(seeds), rng))
    return rng


def open_files(name: str, folder: Path, rng: random.Random) -> str:
    """The outcome: "fit", or the class of an error of ling; other errors are raised."""
    with warnings.catch_warnings():
        # Convergence, Python's parser on damaged headers, and zarr on its versions.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            FORMATS[name].open(folder, rng)
        except ling.errors.LingError as error:
            str(error)
            return type(error).__name__
    return "fit"
