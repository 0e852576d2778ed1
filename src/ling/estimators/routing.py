"""Who gets `groups` and `sample_weight`: scikit-learn's metadata routing, or its rules without."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring, get_scorer
from sklearn.metrics._scorer import _BaseScorer
from sklearn.utils._metadata_requests import MetadataRouter, MethodMapping, _routing_enabled
from sklearn.utils.metadata_routing import process_routing

from ling.errors import BadOption


class Routed:
    """An estimator that passes metadata on to its scorer and its splitter."""

    scoring: Any
    cv: Any

    def get_metadata_routing(self) -> Any:
        """What goes where, as scikit-learn asks."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                scorer=self._scorer(),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def _scorer(self) -> Any:
        if self.scoring is None:  # what we choose gets the weights unasked
            scorer = get_scorer("accuracy" if is_classifier(self) else "r2")
            return scorer.set_score_request(sample_weight=True) if _routing_enabled() else scorer
        return check_scoring(self, scoring=self.scoring, allow_none=True)


def routed(
    model: Any, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters of the scorer and of the splitter."""
    if sample_weight is not None:
        sample_weight = np.broadcast_to(np.asarray(sample_weight, dtype=np.float64), X.shape[0])
    if _routing_enabled():
        if sample_weight is not None:
            params = {**params, "sample_weight": sample_weight}
        found = process_routing(model, "fit", **params)
        score = {name: np.asarray(value) for name, value in found.scorer.score.items()}
        return score, dict(found.splitter.split)
    unknown = set(params) - {"groups"}
    if unknown:
        raise BadOption(
            f"fit got {', '.join(sorted(unknown))}; pass only groups, or enable metadata routing "
            "(sklearn.set_config(enable_metadata_routing=True))."
        )
    # As in scikit-learn: leave-one-out scores are weighted, those of folds are not.
    score = {}
    if sample_weight is not None and model.cv is None:
        score["sample_weight"] = np.asarray(sample_weight)
    return score, params


def split_with(cv: Any, X: Any, y: Any, parameters: dict[str, Any]) -> list[Any]:
    """All (train, test) pairs of a splitter."""
    return list(cv.split(X, y, **parameters))


def predicts_only(call: Any) -> bool:
    """Whether a scorer uses X for nothing but predictions."""
    return isinstance(call, _BaseScorer)
