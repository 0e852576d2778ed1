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
#: Public names, by the module they live in.
_NAMES = {
    "display": (
        "CVDisplay", "DecisionDisplay", "PathDisplay", "PredictionDisplay", "SpectrumDisplay",
    ),
    "estimators": (
        "Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV", "plan", "ridge_path",
    ),
    "html": ("write_report",),
    "saving": ("load", "save"),
    "scan": (
        "Dataset", "scan_arrow", "scan_csv", "scan_feather", "scan_npy", "scan_parquet",
        "scan_zarr",
    ),
}  # fmt: skip
_MODULES = ("datasets", "design", "errors", "onnx", "paper", "progress")
_HOME = {name: module for module, names in _NAMES.items() for name in names}
__all__ = ["LingError", *_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    # `from ling import Ridge` and `ling.paper.ridge(...)` work, and `import ling` alone loads none.
    if name in _MODULES:
        return import_module(f"ling.{name}")
    if name in _HOME:
        return getattr(import_module(f"ling.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ling' has no attribute {name!r}")


def __dir__() -> list[str]:
    # What is imported for this file alone, or by the way, is not for users.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
