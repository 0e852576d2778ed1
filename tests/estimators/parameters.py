"""Parameters of tests of estimators: solvers, estimators and data frames."""

import pandas as pd
import polars as pl
import pytest

from ling import (
    LingClassifier,
    LingRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from ling.solvers.engines import ENGINES
from tests.versions import reads_polars

SOLVERS = ["auto", *ENGINES]
every_solver = pytest.mark.parametrize("solver", SOLVERS)

MODELS = {
    "Ridge": Ridge(),
    "RidgeCV": RidgeCV(),
    "RidgeCV, folds": RidgeCV(cv=3),
    "RidgeClassifier": RidgeClassifier(),
    "RidgeClassifierCV": RidgeClassifierCV(),
    "LingRegressor": LingRegressor(n_iter=4),
    "LingClassifier": LingClassifier(n_iter=4),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)

every_frame = pytest.mark.parametrize(
    "frame",
    [pd.DataFrame, pytest.param(pl.DataFrame, marks=reads_polars)],
    ids=["pandas", "polars"],
)
