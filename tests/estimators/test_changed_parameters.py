"""Parameters that are set after a fit belong to the next fit, not to the reports of this one."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone

import ling
from ling import (
    CVDisplay,
    PathDisplay,
    PredictionDisplay,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SpectrumDisplay,
    write_report,
)
from ling.cli.model_summary import describe_alpha, model_as_dict

MODELS = {
    "Ridge": (Ridge(alpha=3.0, store_covariance=True), {"alpha": 5000.0, "fit_intercept": False}),
    "partial_fit": (Ridge(alpha=3.0), {"alpha": 5000.0, "fit_intercept": False}),
    "RidgeCV": (RidgeCV([0.5, 3.0]), {"alphas": [7000.0, 8000.0], "fit_intercept": False}),
    "RidgeClassifier": (RidgeClassifier(alpha=3.0), {"alpha": 5000.0, "class_weight": "balanced"}),
}


def plain_text(html):
    """A page without what differs from run to run: times, dates and numbers of passes."""
    return re.sub(r"[0-9.,]+ (s|ms|µs|seconds?)\\b|[0-9]{4}-[0-9]{2}-[0-9]{2}[^<]*", "", html)


def descriptions(model, X, y, folder):
    """Everything that tells of a fit."""
    write_report(folder / "report.html", model, X, y)
    found = {
        "report": str(model.report_),
        "alpha": describe_alpha(model),
        "json": repr(model_as_dict(model)),
        "page": plain_text((folder / "report.html").read_text()),
        "spectrum": SpectrumDisplay.from_estimator(model, X).alpha.tolist(),
        "path": PathDisplay.from_estimator(model, X, y).alpha,
    }
    if isinstance(model, Ridge | RidgeCV):
        found["held out"] = PredictionDisplay.from_estimator(model, X, y).predicted.tolist()
    if isinstance(model, RidgeCV):
        found["scores"] = CVDisplay.from_estimator(model).alphas.tolist()
    plt.close("all")
    if getattr(model, "store_covariance", False):
        found["errors"] = model.coef_std_errors().tolist()
    return found


@pytest.mark.parametrize("is_saved", [False, True], ids=["in memory", "saved"])
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_described_with_its_own_parameters(name, is_saved, rng, tmp_path):
    model, changes = clone(MODELS[name][0]), MODELS[name][1]
    X = 1 + rng.standard_normal((60, 4))
    y = X @ np.arange(4.0) + rng.standard_normal(60)
    y = y > np.median(y) if name == "RidgeClassifier" else y
    getattr(model, "partial_fit" if name == "partial_fit" else "fit")(X, y)
    before = descriptions(model, X, y, tmp_path)
    model.set_params(**changes)
    if is_saved:
        ling.save(model, tmp_path / "model.ling")
        model = ling.load(tmp_path / "model.ling")
    after = descriptions(model, X, y, tmp_path)
    for part in before:
        assert after[part] == before[part], part
    assert all(getattr(model, key) == value for key, value in changes.items())
    assert model.fit(X, y).get_params()[next(iter(changes))] == next(iter(changes.values()))
