"""Tables in every format, and what is read from them."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from ling.io import scan_arrow, scan_csv, scan_feather, scan_parquet

HOMES = {
    "area": [50.0, 80.0, 65.0, 70.0],
    "city": ["Oslo", "Bergen", "Oslo", "Tromsø"],
    "new": [True, False, False, True],
    "rent": [9, 11, 12, 10],
}
GAPS = {"area": [50.0, None, 65.0, 70.0], "city": ["Oslo", "Bergen", "Oslo", "Oslo"]}
DAY = datetime.date(2024, 2, 29)


def write_parquet(folder, columns):
    pq.write_table(pa.table(columns), folder / "homes.parquet", row_group_size=2)
    return folder / "homes.parquet"


def write_csv(folder, columns):
    pa.csv.write_csv(pa.table(columns), folder / "homes.csv")
    return folder / "homes.csv"


def write_feather(folder, columns):
    pa.feather.write_feather(pa.table(columns), folder / "homes.feather")
    return folder / "homes.feather"


SCANS = {
    "arrow": lambda folder, columns, *a, **k: scan_arrow(pa.table(columns), *a, **k),
    "parquet": lambda folder, columns, *a, **k: scan_parquet(
        write_parquet(folder, columns), *a, **k
    ),
    "csv": lambda folder, columns, *a, **k: scan_csv(write_csv(folder, columns), *a, **k),
    "feather": lambda folder, columns, *a, **k: scan_feather(
        write_feather(folder, columns), *a, **k
    ),
}


def read(dataset, height=3):
    return np.vstack(list(dataset.source.blocks(slice(0, dataset.shape[0]), height)))
