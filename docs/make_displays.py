"""Draws docs/figures/{cv,path,spectrum}-display.svg, in a few seconds."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same picture gives the same bytes.
matplotlib.rcParams["svg.hashsalt"] = "ling"

import numpy as np  # noqa: E402
from sklearn.datasets import load_diabetes  # noqa: E402
from sklearn.preprocessing import PolynomialFeatures, StandardScaler  # noqa: E402

from ling import CVDisplay, PathDisplay, RidgeCV, SpectrumDisplay  # noqa: E402

FIGURES = Path(__file__).parent / "figures"


def data():
    """Diabetes with all products of two measurements: 65 features, some nearly dependent."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    products = PolynomialFeatures(2, include_bias=False).set_output(transform="pandas")
    scaled = StandardScaler().set_output(transform="pandas")
    X = products.fit_transform(scaled.fit_transform(X))
    return scaled.fit_transform(X.rename(columns=lambda name: name.replace(" ", " x "))), y


def main() -> None:
    X, y = data()
    model = RidgeCV(alphas=np.geomspace(1e-2, 1e5, 36), cv=10).fit(X, y)
    displays = {
        "cv": CVDisplay.from_estimator(model),
        "path": PathDisplay.from_estimator(model, X, y),
        "spectrum": SpectrumDisplay.from_estimator(model, X),
    }
    for name, display in displays.items():
        display.figure_.savefig(FIGURES / f"{name}-display.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
