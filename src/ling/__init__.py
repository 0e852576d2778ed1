"""Ridge regression on data of any size.

`ling.paper` holds the algorithms of Lu & Foster, "Fast Ridge Regression with Randomized Principal
Component Analysis and Gradient Descent", exactly as printed.
"""

from importlib import import_module
from typing import Any

from ling.errors import LingError

__version__ = "0.1.0"
_ESTIMATORS = ("Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV", "plan", "ridge_path")
_SCANS = ("Dataset", "scan_arrow", "scan_csv", "scan_npy", "scan_parquet", "scan_zarr")
_DISPLAYS = ("CVDisplay", "DecisionDisplay", "PathDisplay", "PredictionDisplay", "SpectrumDisplay")
_PAGES = ("write_report",)
_MODULES = ("datasets", "design", "errors", "onnx", "paper")
__all__ = ["LingError", *_DISPLAYS, *_ESTIMATORS, *_MODULES, *_PAGES, *_SCANS]


def __getattr__(name: str) -> Any:
    # `from ling import Ridge` and `ling.paper.ridge(...)` work, and `import ling` alone loads none.
    if name in _MODULES:
        return import_module(f"ling.{name}")
    if name in _ESTIMATORS:
        return getattr(import_module("ling.estimators"), name)
    if name in _SCANS:
        return getattr(import_module("ling.scan"), name)
    if name in _DISPLAYS:
        return getattr(import_module("ling.display"), name)
    if name in _PAGES:
        return getattr(import_module("ling.html"), name)
    raise AttributeError(f"module 'ling' has no attribute {name!r}")


def __dir__() -> list[str]:
    # What is imported for this file alone, or by the way, is not for users.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
