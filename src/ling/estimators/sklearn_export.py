"""Fitted models as scikit-learn's own estimators, for tools and machines without ling."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array
from ling.estimators.fit import SKLEARN_SOLVERS

if TYPE_CHECKING:
    from ling.estimators.classifier import LabelDecoder


def sklearn_estimator(model: Any, class_name: str) -> Any:
    """A fitted `sklearn.linear_model.<class_name>` that predicts as `model` does.

    It shares no memory with `model`, and holds no object of ling.
    """
    from sklearn import linear_model  # not needed to fit, and slow to import

    check_is_fitted(model, "coef_")
    estimator = getattr(linear_model, class_name)()
    estimator.set_params(**_parameters(model, names=estimator.get_params(deep=False)))
    vars(estimator).update(deepcopy(_fitted_attributes(model)))
    return estimator


def _parameters(model: Any, names: Any) -> dict[str, Any]:
    """Parameters of `model` for scikit-learn: those in `names`, with values that it accepts."""
    parameters = {
        name: value for name, value in model.get_params(deep=False).items() if name in names
    }
    if "alpha" in parameters:
        parameters["alpha"] = model.alpha if np.ndim(model.alpha) == 0 else np.array(model.alpha)
        parameters["solver"] = _sklearn_solver(model)
    if "alphas" in parameters:
        parameters["alphas"] = _sklearn_alphas(model)
        parameters["cv"] = _sklearn_cv(model)
    if parameters.get("gcv_mode") == "stochastic":
        parameters["gcv_mode"] = None
    return deepcopy(parameters)


def _sklearn_solver(model: Any) -> str:
    """scikit-learn's `solver`: "auto" for ling's own, and for lbfgs unless positive=True."""
    solver: str = getattr(model, "solver", "auto")
    if solver not in SKLEARN_SOLVERS or (solver == "lbfgs" and not model.positive):
        return "auto"
    return solver


def _sklearn_alphas(model: Any) -> Array:
    """The `alphas` (n_alphas,) of a refit with scikit-learn, which has no grid from the data.

    Instead of alphas=None, they are a tenth of `alpha_`, `alpha_` and its tenfold.
    """
    if model.alphas is None:
        return np.unique(np.outer(model.alpha_, (0.1, 1.0, 10.0)))
    return np.atleast_1d(np.array(model.alphas, dtype=np.float64))


def _sklearn_cv(model: Any) -> Any:
    """The `cv` of a refit with scikit-learn, which has alpha_per_target=True for cv=None only.

    It is None for an iterator, too: the fit has used it up, and it cannot be copied.
    """
    if isinstance(model.cv, Iterator) or getattr(model, "alpha_per_target", False):
        return None
    return model.cv


def _fitted_attributes(model: Any) -> dict[str, Any]:
    """The attributes that scikit-learn's `fit` sets.

    Others are left out, because a refit would not replace them.
    """
    has_cv = hasattr(model, "alphas")
    names = ["coef_", "n_features_in_", "feature_names_in_", "classes_"]
    names += ["alpha_", "best_score_", "cv_results_"] if has_cv else ["n_iter_", "solver_"]
    attributes = {name: getattr(model, name) for name in names if hasattr(model, name)}
    # Without an intercept, intercept_ is the Python number 0.0. skl2onnx needs a NumPy number, and
    # one in float64 would turn predictions in float32 into float64.
    attributes["intercept_"] = np.asarray(model.intercept_, dtype=model.coef_.dtype)[()]
    if hasattr(model, "_label_decoder"):
        attributes["_label_binarizer"] = _label_binarizer(model._label_decoder)
    return attributes


def _label_binarizer(decoder: LabelDecoder) -> LabelBinarizer:
    """The binarizer that scikit-learn's classifiers decode their decision values with."""
    k = len(decoder.classes)
    labels = np.eye(k, dtype=int) if decoder.is_multilabel else decoder.classes
    return LabelBinarizer(pos_label=1, neg_label=-1).fit(labels)
