"""Who gets `groups` and `sample_weight`: scikit-learn's metadata routing, or its rules without."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring, get_scorer
from sklearn.metrics._scorer import _BaseScorer
from sklearn.model_selection import KFold, check_cv
from sklearn.utils._metadata_requests import MetadataRouter, MethodMapping, _routing_enabled
from sklearn.utils.metadata_routing import process_routing

from ling._typing import Array
from ling.design import Design
from ling.errors import BadOption
from ling.model_selection import Splits


class MetadataRoutingMixin:
    """An estimator that passes metadata on to its scorer and its splitter."""

    scoring: Any
    cv: Any

    def get_metadata_routing(self) -> Any:
        """What goes where, as scikit-learn asks."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                scorer=self._resolve_scorer(),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def _resolve_scorer(self) -> Any:
        if self.scoring is None:  # what we choose gets the weights unasked
            scorer = get_scorer("accuracy" if is_classifier(self) else "r2")
            return scorer.set_score_request(sample_weight=True) if _routing_enabled() else scorer
        return check_scoring(self, scoring=self.scoring, allow_none=True)

    def _check_scorer(self) -> Any:
        """The one that `scoring` names; an error if it asks for what the model does not have."""
        call = check_scoring(self, scoring=self.scoring)
        asked = getattr(call, "_response_method", "predict")  # functions of the user's do not tell
        asked = (asked,) if isinstance(asked, str) else tuple(asked)
        if any(hasattr(self, method) for method in asked):
            return call
        raise BadOption(
            f"scoring={self.scoring!r} needs {' or '.join(asked)}, and {type(self).__name__} has "
            f"none; pass a scoring that needs {_supported_responses(self)}."
        )


def route_fit_params(
    model: Any, weights: Array | None, params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters of the scorer and of the splitter; `weights` are those that the fit uses."""
    if _routing_enabled():
        if weights is not None:
            params = {**params, "sample_weight": weights}
        found = process_routing(model, "fit", **params)
        score = {name: np.asarray(value) for name, value in found.scorer.score.items()}
        return score, dict(found.splitter.split)
    if model.cv is None and params.get("groups") is not None:
        raise BadOption(
            "groups are given, but cv=None leaves out single samples; pass a cv that keeps groups "
            "together, such as GroupKFold()."
        )
    unknown = set(params) - {"groups"}
    if unknown:
        raise BadOption(
            f"fit got {', '.join(sorted(unknown))}; pass only groups, or enable metadata routing "
            "(sklearn.set_config(enable_metadata_routing=True))."
        )
    if weights is None or not _accepts_weights(model._resolve_scorer()):
        return {}, params
    return {"sample_weight": weights}, params


def _supported_responses(model: Any) -> str:
    """What scorers can ask of it, with an example."""
    if is_classifier(model):
        return "predict or decision_function, such as 'accuracy' or 'roc_auc'"
    return "predict only, such as 'r2'"


def _accepts_weights(scorer: Any) -> bool:
    """Whether scores can be weighted as the fit is; if they cannot, say so."""
    accepts = getattr(scorer, "_accept_sample_weight", None)
    if accepts() if accepts else "sample_weight" in signature(scorer).parameters:
        return True
    warnings.warn(
        f"scoring={scorer} does not take sample_weight: the fits are weighted, their scores are "
        "not. Pass a scoring that takes it.",
        UserWarning,
        stacklevel=5,
    )
    return False


def make_splits(model: Any, X: Any, y: Any, parameters: dict[str, Any]) -> Splits | None:
    """Those of the model's splitter; None if single samples are left out."""
    if model.cv is None:
        return None
    n = X.shape[0]
    splitter = check_cv(model.cv, y, classifier=is_classifier(model))
    if type(splitter) is KFold and not splitter.shuffle and n >= splitter.n_splits:
        return Splits.consecutive_folds(
            n, splitter.n_splits
        )  # the numbers of all rows would take room
    if isinstance(X, Design):  # splitters only count its rows
        X = np.broadcast_to(np.float64(0), (n, 1))
    return Splits.from_pairs(splitter.split(X, y, **parameters), n)


def is_prediction_scorer(call: Any) -> bool:
    """Whether a scorer uses X for nothing but predictions."""
    return isinstance(call, _BaseScorer)
