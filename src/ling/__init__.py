"""Ridge regression on data of any size.

`ling.paper` holds the algorithms of Lu & Foster, "Fast Ridge Regression with Randomized Principal
Component Analysis and Gradient Descent", exactly as printed.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ling.errors import LingError

if TYPE_CHECKING:  # what `__getattr__` below loads, for type checkers and editors
    from ling import datasets as datasets
    from ling import design as design
    from ling import errors as errors
    from ling import onnx as onnx
    from ling import paper as paper
    from ling import progress as progress
    from ling.display import CVDisplay as CVDisplay
    from ling.display import DecisionDisplay as DecisionDisplay
    from ling.display import PathDisplay as PathDisplay
    from ling.display import PredictionDisplay as PredictionDisplay
    from ling.display import SpectrumDisplay as SpectrumDisplay
    from ling.estimators import Ridge as Ridge
    from ling.estimators import RidgeClassifier as RidgeClassifier
    from ling.estimators import RidgeClassifierCV as RidgeClassifierCV
    from ling.estimators import RidgeCV as RidgeCV
    from ling.estimators import plan as plan
    from ling.estimators import ridge_path as ridge_path
    from ling.html import write_report as write_report
    from ling.saving import load as load
    from ling.saving import save as save
    from ling.scan import Dataset as Dataset
    from ling.scan import scan_arrow as scan_arrow
    from ling.scan import scan_csv as scan_csv
    from ling.scan import scan_feather as scan_feather
    from ling.scan import scan_npy as scan_npy
    from ling.scan import scan_parquet as scan_parquet
    from ling.scan import scan_zarr as scan_zarr

__version__ = "0.1.0"
# Silent, unless whoever uses it says otherwise: logging.basicConfig(level="INFO").
logging.getLogger("ling").addHandler(logging.NullHandler())
#: Public names, by the module they live in; also listed for type checkers above.
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


if not TYPE_CHECKING:  # hidden, so that type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        # Load on first use: `import ling` alone imports no submodule but `errors`.
        if name in _MODULES:
            return import_module(f"ling.{name}")
        if name in _HOME:
            return getattr(import_module(f"ling.{_HOME[name]}"), name)
        raise AttributeError(f"module 'ling' has no attribute {name!r}")


def __dir__() -> list[str]:
    # What is imported for this file alone, or by the way, is not for users.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
