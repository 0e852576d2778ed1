"""Ridge regression on data of any size.

`ling.paper` holds the algorithms of Lu & Foster, "Fast Ridge Regression with Randomized Principal
Component Analysis and Gradient Descent", exactly as printed.
"""

import logging
from importlib import import_module
from typing import Any

from ling.errors import LingError

__version__ = "0.1.0"
# Silent, unless whoever uses it says otherwise: logging.basicConfig(level="INFO").
logging.getLogger("ling").addHandler(logging.NullHandler())
_ESTIMATORS = ("Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV", "plan", "ridge_path")
_SCANS = ("Dataset", "scan_arrow", "scan_csv", "scan_npy", "scan_parquet", "scan_zarr")
_DISPLAYS = ("CVDisplay", "PathDisplay", "SpectrumDisplay")
__all__ = ["LingError", "datasets", "design", "paper", *_DISPLAYS, *_ESTIMATORS, *_SCANS]


def __getattr__(name: str) -> Any:
    # `from ling import Ridge` and `ling.paper.ridge(...)` work, and `import ling` alone loads none.
    if name in ("datasets", "design", "paper"):
        return import_module(f"ling.{name}")
    if name in _ESTIMATORS:
        return getattr(import_module("ling.estimators"), name)
    if name in _SCANS:
        return getattr(import_module("ling.scan"), name)
    if name in _DISPLAYS:
        return getattr(import_module("ling.display"), name)
    raise AttributeError(f"module 'ling' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
