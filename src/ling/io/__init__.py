"""Data in files: scanned once for its shape and columns, then read in blocks of rows.

>>> import pyarrow, ling.io
>>> data = ling.io.scan_arrow(pyarrow.table({"a": [1.0, 2.0], "b": [3.0, 5.0]}), target="b")
>>> data
Dataset(2 x 1, float64, a table in memory, target 'b')
"""

from ling.io.arrow_source import ArrowSource, scan_arrow, scan_csv, scan_feather, scan_parquet
from ling.io.dataset import Dataset
from ling.io.encoding import Encoding, Numeric, OneHot
from ling.io.npy import NpySource, scan_npy
from ling.io.zarr import ZarrSource, scan_zarr

__all__ = [
    "ArrowSource",
    "Dataset",
    "Encoding",
    "NpySource",
    "Numeric",
    "OneHot",
    "ZarrSource",
    "scan_arrow",
    "scan_csv",
    "scan_feather",
    "scan_npy",
    "scan_parquet",
    "scan_zarr",
]
