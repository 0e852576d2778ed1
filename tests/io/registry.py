"""Every way in which a matrix can lie outside of memory: a new source is one line here."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import zarr

from ling.io import scan_arrow, scan_csv, scan_feather, scan_npy, scan_parquet, scan_zarr
from ling.io.zarr import ZarrSource

N, P = 97, 5


def matrix():
    """Small whole numbers, so that every dtype holds them exactly."""
    return np.random.default_rng(3).integers(-90, 90, (N, P)).astype(float)


def table(X):
    return pa.table({f"x{j}": column for j, column in enumerate(np.asarray(X).T)})


def npy(folder, X):
    np.save(folder / "X.npy", X)
    return scan_npy(folder / "X.npy")


def memmap(folder, X, rows=slice(None)):
    np.save(folder / "X.npy", X)
    return scan_npy(np.load(folder / "X.npy", mmap_mode="r")[rows])


def raw_memmap_part(folder, X):
    """Rows from the middle of a map that itself begins in the middle of a file."""
    (folder / "X.bin").write_bytes(b"?" * 5000 + np.vstack([X[:9] + 1, X, X[:2]]).tobytes())
    mapped = np.memmap(folder / "X.bin", float, "r", offset=5000, shape=(N + 11, P))
    return scan_npy(mapped[9:-2])


def parquet(folder, X, **options):
    pq.write_table(table(X), folder / "X.parquet", **options)
    return scan_parquet(folder / "X.parquet")


def parquet_files(folder, X):
    for i, (a, b) in enumerate([(0, 40), (40, 40), (40, 41), (41, N)]):
        pq.write_table(table(X[a:b]), folder / f"part-{i}.parquet", row_group_size=13)
    return scan_parquet(folder)


def csv(folder, X):
    pa.csv.write_csv(table(X[:50]), folder / "a.csv")
    pa.csv.write_csv(table(X[50:]), folder / "b.csv")
    return scan_csv(str(folder / "*.csv"))


def feather(folder, X):
    pa.feather.write_feather(table(X[:50]), folder / "a.feather", chunksize=9)
    pa.feather.write_feather(table(X[50:]), folder / "b.arrow", compression="uncompressed")
    return scan_feather(folder)


def zarr_folder(folder, X, chunks=(7, 2)):
    array = zarr.create_array(folder / "X.zarr", shape=X.shape, chunks=chunks, dtype=X.dtype)
    array[:] = X
    data = scan_zarr(folder / "X.zarr")
    # Reads that end inside of blocks.
    source = ZarrSource(data.source.array, data.source.description, min_read_bytes=600)
    return replace(data, source=source)


def arrow_table(folder, X):
    return scan_arrow(pa.concat_tables([table(X[:30]), table(X[30:])]))


def arrow_dataset(folder, X):
    pa.dataset.write_dataset(table(X), folder, format="ipc", max_rows_per_file=33,
                             max_rows_per_group=10)  # fmt: skip
    return scan_arrow(pa.dataset.dataset(folder, format="ipc"))


SOURCES = {
    "npy-c": npy,
    "npy-f": lambda folder, X: npy(folder, np.asfortranarray(X)),
    "npy-float32": lambda folder, X: npy(folder, X.astype(np.float32)),
    "npy-f-float32": lambda folder, X: npy(folder, np.asfortranarray(X.astype(np.float32))),
    "npy-int8": lambda folder, X: npy(folder, X.astype(np.int8)),
    "npy-f-int16": lambda folder, X: npy(folder, np.asfortranarray(X.astype(np.int16))),
    "npy-big-endian": lambda folder, X: npy(folder, X.astype(">f8")),
    "memmap": memmap,
    "memmap-part": raw_memmap_part,
    "memmap-strided": lambda folder, X: memmap(
        folder, np.repeat(X, 2, axis=0), slice(None, None, 2)
    ),
    "parquet": lambda folder, X: parquet(folder, X, row_group_size=10),
    "parquet-float32": lambda folder, X: parquet(folder, X.astype(np.float32)),
    "parquet-int32": lambda folder, X: parquet(folder, X.astype(np.int32), row_group_size=50),
    "parquet-files": parquet_files,
    "csv": csv,
    "feather": feather,
    "zarr": zarr_folder,
    "zarr-float32": lambda folder, X: zarr_folder(folder, X.astype(np.float32), (200, 5)),
    "arrow-table": arrow_table,
    "arrow-batch": lambda folder, X: scan_arrow(table(X).combine_chunks().to_batches()[0]),
    "arrow-dataset": arrow_dataset,
}
PICKS = {
    "npy-c", "npy-float32", "npy-int8", "npy-big-endian", "memmap", "memmap-part",
    "memmap-strided", "arrow-table", "arrow-batch",
}  # fmt: skip
