"""Ridge regression on data of any size.

`ling.paper` holds the algorithms of Lu & Foster, "Fast Ridge Regression with Randomized Principal
Component Analysis and Gradient Descent", exactly as printed.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ling.errors import LingError

if TYPE_CHECKING:  # what `__getattr__` below loads, for type checkers and editors
    from ling import errors as errors
    from ling import paper as paper
    from ling import progress as progress
    from ling.estimators import LingClassifier as LingClassifier
    from ling.estimators import LingRegressor as LingRegressor
    from ling.estimators import Ridge as Ridge
    from ling.estimators import RidgeClassifier as RidgeClassifier
    from ling.estimators import RidgeClassifierCV as RidgeClassifierCV
    from ling.estimators import RidgeCV as RidgeCV
    from ling.estimators import certify as certify
    from ling.estimators import plan_fit as plan_fit
    from ling.estimators import ridge_path as ridge_path
    from ling.io import Dataset as Dataset
    from ling.io import scan_arrow as scan_arrow
    from ling.io import scan_csv as scan_csv
    from ling.io import scan_feather as scan_feather
    from ling.io import scan_npy as scan_npy
    from ling.io import scan_parquet as scan_parquet
    from ling.io import scan_zarr as scan_zarr
    from ling.model_file import load as load
    from ling.model_file import save as save
    from ling.report import CVDisplay as CVDisplay
    from ling.report import DecisionDisplay as DecisionDisplay
    from ling.report import PathDisplay as PathDisplay
    from ling.report import PredictionDisplay as PredictionDisplay
    from ling.report import SpectrumDisplay as SpectrumDisplay
    from ling.report import write_report as write_report
    from ling.reproduction import datasets as datasets

__version__ = "0.1.0"
# Silent, unless whoever uses it says otherwise: logging.basicConfig(level="INFO").
logging.getLogger("ling").addHandler(logging.NullHandler())
#: Public names, by the module they live in; also listed for type checkers above.
_NAMES = {
    "estimators": (
        "LingClassifier", "LingRegressor", "Ridge", "RidgeCV", "RidgeClassifier",
        "RidgeClassifierCV", "certify", "plan_fit", "ridge_path",
    ),
    "io": (
        "Dataset", "scan_arrow", "scan_csv", "scan_feather", "scan_npy", "scan_parquet",
        "scan_zarr",
    ),
    "model_file": ("load", "save"),
    "report": (
        "CVDisplay", "DecisionDisplay", "PathDisplay", "PredictionDisplay", "SpectrumDisplay",
        "write_report",
    ),
}  # fmt: skip
#: Public modules, by the name they have in `ling`.
_MODULES = {
    "datasets": "ling.reproduction.datasets",
    "errors": "ling.errors",
    "paper": "ling.paper",
    "progress": "ling.progress",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
__all__ = ["LingError", *_HOME, *_MODULES]


if not TYPE_CHECKING:  # hidden, so that type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        # Load on first use: `import ling` alone imports no submodule but `errors`.
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name in _HOME:
            return getattr(import_module(f"ling.{_HOME[name]}"), name)
        raise AttributeError(f"module 'ling' has no attribute {name!r}")


def __dir__() -> list[str]:
    # What is imported for this file alone, or by the way, is not for users.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
