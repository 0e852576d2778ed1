"""Tables of predictions, written a few rows at a time; the file appears whole or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ling.atomic_write import atomic_write, check_writable
from ling.errors import OptionError, Where
from ling.io.tables import TABLE_SUFFIXES, check_pyarrow_installed

#: What predictions are called in a table.
PREDICTION_COLUMN = "prediction"


class PredictionWriter(ABC):
    """Where batches go; opened by the first of them."""

    def __init__(self, path: Path, n_rows: int) -> None:
        self.path = path
        self.n_rows = n_rows
        self.out: Any = None

    @abstractmethod
    def write(self, table: Any) -> None:
        """Some more rows, a `pyarrow.Table` with the same columns every time."""

    def close(self) -> None:
        """No more."""
        if self.out is not None:
            self.out.close()


class ParquetPredictions(PredictionWriter):
    """A Parquet file."""

    def write(self, table: Any) -> None:
        """A row group."""
        from pyarrow.parquet import ParquetWriter

        self.out = self.out or ParquetWriter(self.path, table.schema)
        self.out.write_table(table)


class CsvPredictions(PredictionWriter):
    """A CSV file with a header."""

    delimiter = ","

    def write(self, table: Any) -> None:
        """Some lines."""
        from pyarrow.csv import CSVWriter, WriteOptions

        options = WriteOptions(delimiter=self.delimiter)
        self.out = self.out or CSVWriter(str(self.path), table.schema, write_options=options)
        self.out.write_table(table)


class TsvPredictions(CsvPredictions):
    """The same with tabs."""

    delimiter = "\t"


class FeatherPredictions(PredictionWriter):
    """A Feather (Arrow IPC) file."""

    def write(self, table: Any) -> None:
        """A record batch."""
        import pyarrow as pa

        self.out = self.out or pa.ipc.new_file(str(self.path), table.schema)
        self.out.write_table(table)


class NpyPredictions(PredictionWriter):
    """A .npy file of the predictions alone; its header says how many there will be."""

    def write(self, table: Any) -> None:
        """Numbers, or texts all as wide as the first ones."""
        values = table.column(PREDICTION_COLUMN).to_numpy()
        if self.out is None:
            self.dtype = np.asarray(table.schema.metadata[b"dtype"].decode()).item()
            self.out = self.path.open("wb")
            about = {"descr": self.dtype, "fortran_order": False, "shape": (self.n_rows,)}
            npy.write_array_header_1_0(self.out, about)
        self.out.write(np.ascontiguousarray(values.astype(self.dtype)).tobytes())


WRITER_CLASSES: dict[str, type[PredictionWriter]] = {
    "parquet": ParquetPredictions,
    "csv": CsvPredictions,
    "feather": FeatherPredictions,
}


def check_prediction_path(path: Path, keep: tuple[str, ...]) -> None:
    """An error before any work, if nothing could be written there."""
    kind = _writer_class(path)
    if kind is NpyPredictions and keep:
        raise OptionError(
            "keep", "needs column names, which .npy files do not have", "write a .parquet file"
        )
    if PREDICTION_COLUMN in keep:
        raise OptionError(
            "keep",
            "is the name that the predictions get",
            "rename that column of the data",
            where=Where(column=PREDICTION_COLUMN),
        )
    check_writable(path)
    check_pyarrow_installed()


def _writer_class(path: Path) -> type[PredictionWriter]:
    name = path.name.lower()
    if name.endswith(".npy"):
        return NpyPredictions
    if name.endswith(".tsv"):
        return TsvPredictions
    for kind, open_prediction_writer in WRITER_CLASSES.items():
        if name.endswith(TABLE_SUFFIXES[kind]) and not name.endswith((".gz", ".bz2")):
            return open_prediction_writer
    raise OptionError(
        "out",
        "is of a kind that ling does not write",
        "pass a name that ends in .parquet, .csv, .feather or .npy",
        where=Where(file=str(path)),
    )


@contextmanager
def open_prediction_writer(path: Path, n_rows: int) -> Iterator[PredictionWriter]:
    """Something to write to."""
    with atomic_write(path) as part:
        found = _writer_class(path)(part, n_rows)
        try:
            yield found
        finally:
            found.close()
