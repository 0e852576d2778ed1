"""Files that were made to do harm: bombs, paths that lead elsewhere, headers with huge sizes."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tools.fuzz_formats import (
    Files,
    N,
    P,
    Sparse,
    Symlink,
    data,
    make_checkpoints,
    make_models,
    npy_bytes,
    write_files,
    zip_bytes,
)

MEGABYTE = 2**20
# Where links lead: a file that everybody may read, and that is none of the formats.
ELSEWHERE = "/etc/hostname"


def npy_header(shape: str, descr: str = "'<f8'", version: int = 1) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text


# Model files.


def model_entries(folder: Path) -> dict[str, bytes]:
    content = make_models(folder)[0]["model.ling"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zip_bomb(folder: Path) -> Files:
    """300 MB of zeros in some kilobytes."""
    entries = model_entries(folder)
    entries["0.npy"] = npy_header(f"({300 * MEGABYTE // 8},)") + bytes(300 * MEGABYTE)
    return {"model.ling": zip_bytes(entries, zipfile.ZIP_DEFLATED)}


def bomb_in_the_header(folder: Path) -> Files:
    entries = model_entries(folder)
    entries["model.json"] = entries["model.json"][:-1] + b" " * (300 * MEGABYTE) + b"}"
    return {"model.ling": zip_bytes(entries, zipfile.ZIP_BZIP2)}


def overlapping_entries(folder: Path) -> Files:
    """All entries of the directory point to the same bytes."""
    entries = {"model.json": b"{}", **{f"{i}.npy": b"x" * 1000 for i in range(50)}}
    content = bytearray(zip_bytes(entries))
    at = content.find(b"PK\x01\x02")
    first = struct.unpack_from("<I", content, at + 42)
    while at >= 0:
        struct.pack_into("<I", content, at + 42, *first)
        at = content.find(b"PK\x01\x02", at + 4)
    return {"model.ling": bytes(content)}


def claimed_entry_size(folder: Path) -> Files:
    content = bytearray(zip_bytes(model_entries(folder)))
    at = content.find(b"PK\x01\x02")
    struct.pack_into("<II", content, at + 20, 2**32 - 2, 2**32 - 2)
    return {"model.ling": bytes(content)}


def escaping_names(folder: Path) -> Files:
    """Names that lead out of the folder in which somebody might unpack them."""
    names = ("../escaped", "../../escaped", "/tmp/escaped", "C:\\escaped", "a/../../escaped")
    return {"model.ling": zip_bytes(model_entries(folder) | dict.fromkeys(names, b"x"))}


def entry_that_is_a_link(folder: Path) -> Files:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in model_entries(folder).items():
            info = zipfile.ZipInfo(name)
            if name == "0.npy":
                info.create_system, info.external_attr = 3, 0o120777 << 16
                content = ELSEWHERE.encode()
            archive.writestr(info, content)
    return {"model.ling": out.getvalue()}


def repeated_entries(folder: Path) -> Files:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in model_entries(folder).items():
            for each in (content, b"other"):
                archive.writestr(zipfile.ZipInfo(name), each)
    return {"model.ling": out.getvalue()}


def many_entries(folder: Path) -> Files:
    return {"model.ling": zip_bytes(model_entries(folder) | {f"e{i}": b"" for i in range(50_000)})}


def nested_header(folder: Path) -> Files:
    return {"model.ling": zip_bytes({"model.json": b"[" * 10**6})}


def long_number(folder: Path) -> Files:
    """Python refuses to convert so many digits."""
    entries = model_entries(folder)
    entries["model.json"] = b'{"format": ' + b"9" * 10**6 + b"}"
    return {"model.ling": zip_bytes(entries)}


def huge_array_in_a_model(folder: Path) -> Files:
    entries = model_entries(folder)
    entries["0.npy"] = npy_header(f"({2**60},)") + bytes(64)
    return {"model.ling": zip_bytes(entries)}


def model_that_is_a_link(folder: Path) -> Files:
    return {"model.ling": Symlink(ELSEWHERE)}


def model_that_links_to_itself(folder: Path) -> Files:
    return {"model.ling": Symlink("model.ling")}


# Checkpoints.


def with_link(name: str) -> Callable[[Path], Files]:
    def make(folder: Path) -> Files:
        files = make_checkpoints(folder)[0]
        found = next(path for path in files if path.endswith(name))
        return {**files, found: Symlink(ELSEWHERE)}

    return make


def huge_array_in_a_pass(folder: Path) -> Files:
    import hashlib

    files = make_checkpoints(folder)[0]
    name = next(path for path in files if path.endswith(".pass"))
    rest = bytes([3, 0]) + npy_header(f"({2**50},)")
    return {**files, name: hashlib.sha256(rest).digest() + rest}


# Arrays.


def npy_pair(X: bytes | Sparse, y: bytes | Sparse | None = None) -> Callable[[Path], Files]:
    return lambda folder: {"X.npy": X, "y.npy": npy_bytes(data()[1]) if y is None else y}


def sparse_npy(shape: str, n_bytes: int, descr: str = "'<f8'") -> Sparse:
    """A file of zeros that takes no room on disk, and has the size that its header says."""
    header = npy_header(shape, descr)
    return Sparse(header, len(header) + n_bytes)


def zarr_document(shape: list, chunks: list, **others) -> bytes:
    grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip",
              "configuration": {"level": 9}}]  # fmt: skip
    document = {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "float64",
        "chunk_grid": grid, "fill_value": 0.0, "codecs": codecs, "attributes": {},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    }  # fmt: skip
    return json.dumps(document | others).encode()


def zarr_pair(shape: list, chunks: list, y_shape: list | None = None, **chunk_files):
    def make(folder: Path) -> Files:
        length = y_shape or [shape[0]]
        y_chunk = gzip.compress(np.ones(length[0]).tobytes()) if length[0] <= N else None
        files = {"X/zarr.json": zarr_document(shape, chunks), **chunk_files,
                 "y/zarr.json": zarr_document(length, length)}  # fmt: skip
        return files if y_chunk is None else {**files, "y/c/0": y_chunk}

    return make


def zarr_chunk_bomb(folder: Path) -> Files:
    """zarr unpacks a chunk whole, whatever its size is said to be, so that bombs are a risk."""
    bomb = gzip.compress(bytes(60 * MEGABYTE))
    return zarr_pair([N, P], [N, P], **{"X/c/0/0": bomb})(folder)


def zarr_pickle(folder: Path) -> Files:
    """Chunks of y that would run a command if they were unpickled."""
    command = b"cos\nsystem\n(S'touch escaped'\ntR."
    document = {"zarr_format": 2, "shape": [N], "chunks": [N], "dtype": "|O", "compressor": None,
                "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}], "fill_value": None,
                "order": "C"}  # fmt: skip
    X = {"X/zarr.json": zarr_document([N, P], [N, P])}
    return {**X, "y/.zarray": json.dumps(document).encode(), "y/0": command}


# Tables.


def csv_bomb_of_one_line(folder: Path) -> Files:
    line = b"a,y\n" + b"1" * (300 * MEGABYTE)
    return {"a.csv.gz": gzip.compress(line, compresslevel=1)}


def csv_of_many_columns(folder: Path) -> Files:
    return {"a.csv": b",".join(b"c%d" % i for i in range(200_000)) + b",y\n1"}


def csv_with_an_open_quote(folder: Path) -> Files:
    return {"a.csv": b'a,y\n"' + b"1,2\n" * 100_000}


def csv_of_nul_bytes(folder: Path) -> Files:
    return {"a.csv": b"a,y\n" + bytes(MEGABYTE)}


def table_that_is_a_link(name: str) -> Callable[[Path], Files]:
    return lambda folder: {name: Symlink(ELSEWHERE)}


#: The format whose `open` is used, and the function that makes the files.
HOSTILE: dict[str, tuple[str, Callable[[Path], Files]]] = {
    "zip bomb": ("model", zip_bomb),
    "zip bomb in the header": ("model", bomb_in_the_header),
    "overlapping zip entries": ("model", overlapping_entries),
    "claimed size of a zip entry": ("model", claimed_entry_size),
    "names that lead elsewhere": ("model", escaping_names),
    "zip entry that is a link": ("model", entry_that_is_a_link),
    "repeated zip entries": ("model", repeated_entries),
    "50,000 zip entries": ("model", many_entries),
    "deep JSON": ("model", nested_header),
    "long number in JSON": ("model", long_number),
    "huge array in a model": ("model", huge_array_in_a_model),
    "model that is a link": ("model", model_that_is_a_link),
    "model that links to itself": ("model", model_that_links_to_itself),
    "checkpoint header that is a link": ("checkpoint", with_link("checkpoint.json")),
    "pass that is a link": ("checkpoint", with_link(".pass")),
    "lock that is a link": ("checkpoint", with_link("lock")),
    "huge array in a pass": ("checkpoint", huge_array_in_a_pass),
    "npy, rows that do not fit into memory": (
        "npy", npy_pair(sparse_npy(f"(1, {2**37})", 2**40), npy_bytes(np.ones(1)))
    ),
    "npy, y that does not fit into memory": (
        "npy", npy_pair(sparse_npy(f"({2**38}, 1)", 2**38, "'|i1'"),
                        sparse_npy(f"({2**38},)", 2**41))
    ),
    "npy, many columns": ("npy", npy_pair(sparse_npy(f"({N}, {2**33})", N * 2**36))),
    "npy, claimed shape": ("npy", npy_pair(npy_header(f"({2**62}, 3)") + bytes(96))),
    "npy, shape that overflows": ("npy", npy_pair(npy_header(f"({2**63}, {2**63})") + bytes(96))),
    "npy, numbers of no bytes": ("npy", npy_pair(npy_header(f"({2**60}, 3)", "'|V0'"))),
    "npy, texts of no bytes": ("npy", npy_pair(npy_bytes(data()[0]), npy_header("(40,)", "'|S0'"))),
    "npy, claimed header": ("npy", npy_pair(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(96))),
    "npy, pickle": ("npy", npy_pair(npy_header("(40, 3)", "'|O'") + bytes(96))),
    "npy that is a link": ("npy", npy_pair(Symlink(ELSEWHERE))),
    "zarr, claimed rows": ("zarr", zarr_pair([10**15, 3], [10, 3])),
    "zarr, claimed columns": ("zarr", zarr_pair([40, 10**13], [10, 3])),
    "zarr, claimed chunks": ("zarr", zarr_pair([40, 3], [2**40, 3])),
    "zarr, overflowing chunks": ("zarr", zarr_pair([40, 3], [2**62, 2**62])),
    "zarr, chunk bomb": ("zarr", zarr_chunk_bomb),
    "zarr, chunk that is a link": (
        "zarr", zarr_pair([40, 3], [40, 3], **{"X/c/0/0": Symlink(ELSEWHERE)})
    ),
    "zarr, pickle": ("zarr", zarr_pickle),
    "csv bomb of one line": ("csv", csv_bomb_of_one_line),
    "csv, 200,000 columns": ("csv", csv_of_many_columns),
    "csv, open quote": ("csv", csv_with_an_open_quote),
    "csv, NUL bytes": ("csv", csv_of_nul_bytes),
    "csv that is a link": ("csv", table_that_is_a_link("a.csv")),
    "parquet that is a link": ("parquet", table_that_is_a_link("a.parquet")),
    "feather that is a link": ("feather", table_that_is_a_link("a.feather")),
}  # fmt: skip


def prepare_hostile(number: int, folder: Path) -> str:
    """Write the files with this number in `HOSTILE`; returns their format."""
    name, make = list(HOSTILE.values())[number]
    with tempfile.TemporaryDirectory() as place:
        write_files(folder, make(Path(place)))
    return name
