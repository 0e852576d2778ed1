"""Ridge regression on data of any size.

`ling.paper` holds the algorithms of Lu & Foster, "Fast Ridge Regression with Randomized Principal
Component Analysis and Gradient Descent", exactly as printed.
"""

from importlib import import_module
from typing import Any

from ling.errors import LingError

__version__ = "0.1.0"
_ESTIMATORS = ("Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV", "plan", "ridge_path")
_SCANS = (
    "Dataset", "scan_arrow", "scan_csv", "scan_feather", "scan_npy", "scan_parquet", "scan_zarr",
)  # fmt: skip
_DISPLAYS = ("CVDisplay", "PathDisplay", "SpectrumDisplay")
_SAVING = ("load", "save")
__all__ = [
    "LingError", "datasets", "design", "paper", *_DISPLAYS, *_ESTIMATORS, *_SAVING, *_SCANS,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # `from ling import Ridge` and `ling.paper.ridge(...)` work, and `import ling` alone loads none.
    if name in ("datasets", "design", "paper"):
        return import_module(f"ling.{name}")
    if name in _ESTIMATORS:
        return getattr(import_module("ling.estimators"), name)
    if name in _SCANS:
        return getattr(import_module("ling.scan"), name)
    if name in _SAVING:
        return getattr(import_module("ling.saving"), name)
    if name in _DISPLAYS:
        return getattr(import_module("ling.display"), name)
    raise AttributeError(f"module 'ling' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
