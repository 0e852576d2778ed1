"""What a picture has to know of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ling._typing import Array
from ling.design import as_design
from ling.errors import OptionError
from ling.estimators.open_data import load_or_rechunk, memory_budget
from ling.estimators.out_of_sample import model_type_error
from ling.estimators.validation import check_sample_weight, open_prediction_data
from ling.progress import FitProgress
from ling.solvers.problem import Problem, Standardization, TrainingData, build_problem


def check_fitted_model(model: Any, X: Any) -> tuple[Any, Array]:
    """Validated X, an array, a sparse matrix or a storage, and the model's alphas (n_alphas,)."""
    check_is_fitted(model)
    alpha = getattr(model, "alpha_", getattr(model, "alpha", None))
    if alpha is None or not hasattr(model, "fit_intercept"):
        raise model_type_error(model, "Ridge, RidgeCV, RidgeClassifier or RidgeClassifierCV")
    if getattr(model, "positive", False):
        raise OptionError(
            "model",
            "has `positive`=True, to which neither paths nor spectra apply",
            "pass a model with `positive`=False",
        )
    storage = open_prediction_data(model, X)
    if storage is None:
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        X = validate_data(model, X, reset=False, **options)
    else:
        X, _ = load_or_rechunk(storage, memory_budget(model), FitProgress(()))
    return X, np.ravel(np.asarray(alpha, dtype=np.float64))


def check_target_index(target: int, n_targets: int) -> None:
    """Raise OptionError unless `target` is the number of a target."""
    if not 0 <= target < n_targets:
        raise OptionError("target", f"is {target}", f"pass a number from 0 to {n_targets - 1}")


def problem_without_targets(
    model: Any, X: Any, weights: Any, alphas: Array
) -> tuple[Problem, Standardization]:
    """X as the model centres and weights it."""
    data = TrainingData(
        X, as_design(X), np.zeros((X.shape[0], 1)), check_sample_weight(weights, X.shape[0])
    )
    return build_problem(data, alphas, bool(model.fit_intercept))
