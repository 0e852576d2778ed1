"""Draws docs/figures/certificate.svg: true error and proved bound of many fits. Half a minute.

Run from the root of the repository: the exact solutions are those of tests/reference.py.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same picture gives the same bytes.
matplotlib.rcParams["svg.hashsalt"] = "ling"

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from ling import Ridge  # noqa: E402
from tests.reference import ridge  # noqa: E402

ENGINES = {
    "direct": ("#0072B2", "o"),
    "two_stage": ("#D55E00", "s"),
}
SHAPES = [(1500, 150), (600, 300), (3000, 40), (150, 600)]
# How fast the singular values of X fall.
DECAYS = {"flat": 0.0, "1 / i": 1.0, "1 / i^2": 2.0}
ALPHAS = [1e-6, 1e-3, 1e-1, 10.0]
TOLERANCES = [1e-2, 1e-4, 1e-7, 1e-10]


def problems() -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """X, y and alphas relative to the largest eigenvalue of X'X."""
    rng = np.random.default_rng(0)
    for n, p in SHAPES:
        for decay in DECAYS.values():
            m = min(n, p)
            U = np.linalg.qr(rng.standard_normal((n, m)))[0]
            V = np.linalg.qr(rng.standard_normal((p, m)))[0]
            X = U * np.sqrt(n) * np.arange(1.0, m + 1) ** -decay @ V.T + rng.standard_normal(p)
            y = X @ rng.standard_normal(p) + rng.standard_normal(n)
            for alpha in ALPHAS:
                yield X, y, alpha * n


def errors(X: np.ndarray, y: np.ndarray, alpha: float) -> Iterator[tuple[str, float, float, bool]]:
    """Engine, true error, bound, and whether it kept to tol."""
    centred, target = X - X.mean(axis=0), y - y.mean()
    exact = ridge(centred, target, alpha)
    for engine in ENGINES:
        for tol in TOLERANCES:
            model = Ridge(alpha, solver=engine, tol=tol, random_state=0).fit(X, y)
            off = np.linalg.norm(centred @ (model.coef_ - exact)) / np.linalg.norm(target)
            certificate = model.report_.certificate
            yield engine, off, certificate.bound, certificate.holds


def measured() -> list[tuple[str, float, float, bool]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is drawn
        return [found for problem in problems() for found in errors(*problem)]


def draw(points: list[tuple[str, float, float, bool]]) -> plt.Figure:
    figure, ax = plt.subplots(figsize=(6.6, 5.6), layout="constrained")
    ends = np.array([1e-17, 1.0])
    ax.fill_between(ends, 1e-17, ends, color="0.9", linewidth=0)
    ax.plot(ends, ends, color="black", linewidth=1)
    ax.text(3e-8, 1e-13, "a bound below the true error:\nnone of them", fontsize=9, color="0.35")
    for engine, (colour, marker) in ENGINES.items():
        _, off, bound, _ = zip(*[found for found in points if found[0] == engine], strict=True)
        ax.scatter(
            np.maximum(off, 2e-17), bound, s=14, c=colour, marker=marker, alpha=0.55, linewidths=0,
            label=engine, rasterized=True,
        )  # fmt: skip
    ax.set(
        xscale="log", yscale="log", xlim=ends, ylim=ends,
        xlabel="true error: ||X (w - w*)|| / ||y - mean(y)||", ylabel="proved bound",
        title=f"{len(points)} fits",
    )  # fmt: skip
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left")
    return figure


def main() -> None:
    points = measured()
    figure = draw(points)
    figure.savefig(HERE / "figures" / "certificate.svg", metadata={"Date": None}, dpi=150)
    wrong = [found for found in points if found[1] > found[2] * (1 + 1e-6)]
    ratios = [bound / off for _, off, bound, _ in points if off > 1e-12]
    kept = sum(holds for *_, holds in points)
    print(f"{len(points)} fits, {kept} within tol, {len(wrong)} with a bound below the error;")
    print(f"bound / error, where the error is above 1e-12: median {np.median(ratios):.2g}")


if __name__ == "__main__":
    main()
