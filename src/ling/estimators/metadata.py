"""Routing of `groups` and `sample_weight` to the scorer and the splitter.

It follows scikit-learn's metadata routing, or its rules without routing if that is disabled.
"""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection import KFold, check_cv
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from ling._typing import Array, CVLike, ScoringLike
from ling.design import Design, Storage
from ling.errors import OptionError
from ling.model_selection import Splits


class MetadataRoutingMixin:
    """Mixin for estimators that pass metadata on to their scorer and their splitter."""

    scoring: ScoringLike
    cv: CVLike

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing of this estimator, as a scikit-learn `MetadataRouter`."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(
                scorer=self._resolve_scorer(),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def _resolve_scorer(self) -> Any:
        """Scorer for `scoring`, or the default scorer, accuracy or R^2."""
        if self.scoring is None:  # the default scorer always gets sample_weight
            scorer = get_scorer("accuracy" if is_classifier(self) else "r2")
            return scorer.set_score_request(sample_weight=True) if _is_routing_enabled() else scorer
        return check_scoring(self, scoring=self.scoring, allow_none=True)

    def _check_scorer(self) -> Any:
        """Scorer that `scoring` names; raises if it needs a method that the model does not have."""
        call = check_scoring(self, scoring=self.scoring)
        # A user's own function does not say which method it calls; predict is assumed.
        methods = getattr(call, "_response_method", "predict")
        methods = (methods,) if isinstance(methods, str) else tuple(methods)
        if any(hasattr(self, method) for method in methods):
            return call
        raise OptionError(
            "scoring",
            f"`scoring`={self.scoring!r} needs {' or '.join(methods)}, which "
            f"{type(self).__name__} does not have",
            f"pass a scoring that needs {_supported_responses(self)}",
        )


def route_fit_params(
    model: Any, weights: Array | None, params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments for the scorer and for the splitter.

    `weights` (n,) are those that the fit uses, or None; `params` are the metadata passed to `fit`.
    Without metadata routing only `groups` is allowed, and the scorer gets the weights if it accepts
    them.
    """
    if _is_routing_enabled():
        if weights is not None:
            params = {**params, "sample_weight": weights}
        routed = process_routing(model, "fit", **params)
        score = {name: np.asarray(value) for name, value in routed.scorer.score.items()}
        return score, dict(routed.splitter.split)
    if model.cv is None and params.get("groups") is not None:
        raise OptionError(
            "groups",
            "is passed, but `cv` is None, which leaves out single samples",
            "pass a `cv` that keeps groups together, such as GroupKFold()",
        )
    unknown = set(params) - {"groups"}
    if unknown:
        raise OptionError(
            min(unknown),
            f"is not used by fit without metadata routing{', nor are ' * (len(unknown) > 1)}"
            f"{', '.join(sorted(unknown)[1:])}",
            "leave it out",
            "enable metadata routing (sklearn.set_config(enable_metadata_routing=True))",
        )
    if weights is None or not _accepts_weights(model._resolve_scorer()):
        return {}, params
    return {"sample_weight": weights}, params


def _is_routing_enabled() -> bool:
    return bool(get_config()["enable_metadata_routing"])


def _supported_responses(model: Any) -> str:
    """Methods of the model that scorers can use, with examples of scorers, for error messages."""
    if is_classifier(model):
        return "predict or decision_function, such as 'accuracy' or 'roc_auc'"
    return "predict only, such as 'r2'"


def _accepts_weights(scorer: Any) -> bool:
    """True if the scorer accepts sample_weight; warns if it does not."""
    accepts = getattr(scorer, "_accept_sample_weight", None)
    if accepts() if accepts else "sample_weight" in signature(scorer).parameters:
        return True
    warnings.warn(
        f"scoring={scorer} does not take sample_weight: the fits are weighted, their scores are "
        "not. Pass a scoring that takes it.",
        UserWarning,
        stacklevel=6,
    )
    return False


def make_splits(model: Any, X: Any, y: Any, parameters: dict[str, Any]) -> Splits | None:
    """Splits of the rows of X (n, p) by the model's `cv`; None for cv=None, i.e. leave-one-out."""
    if model.cv is None:
        return None
    n = X.shape[0]
    splitter = check_cv(model.cv, y, classifier=is_classifier(model))
    has_groups = parameters.get("groups") is not None  # KFold warns that it ignores them
    is_consecutive = type(splitter) is KFold and not splitter.shuffle and not has_groups
    if is_consecutive and n >= splitter.n_splits:
        # Consecutive folds need no index arrays, which would take memory for all rows.
        return Splits.consecutive_folds(n, splitter.n_splits)
    if isinstance(X, Storage | Design):  # splitters use only the number of rows of X
        X = np.broadcast_to(np.float64(0), (n, 1))
    return Splits.from_pairs(splitter.split(X, y, **parameters), n)


def is_prediction_scorer(call: Any) -> bool:
    """True if a scorer uses X only to compute predictions."""
    return isinstance(call, type(get_scorer("r2")))
