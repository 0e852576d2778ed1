"""Everybody that chooses alpha, ling among them, and what each is told so that the task is one.

All fit an intercept, take the same folds (five, in the order of the rows) and score them alike: by
R^2, or by squared error where one sample is left out at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn import linear_model

import ling
from benchmarks.harness import Racer

Array = np.ndarray

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Task:
    """Choose from `alphas`, which increase, for X and y."""

    X: Any = field(repr=False)
    y: Array = field(repr=False)
    alphas: Array
    seed: int

    @property
    def middle(self) -> float:
        return float(self.alphas[len(self.alphas) // 2])

    def trying(self, count: int) -> Task:
        """With `count` of the alphas, each in the middle of its share of them; 0 for all."""
        if not 0 < count < len(self.alphas):
            return self
        places = (np.arange(count) + 0.5) * len(self.alphas) / count
        return replace(self, alphas=self.alphas[places.astype(int)])


@dataclass(frozen=True, eq=False)
class Choice:
    """The alpha chosen for each target, or for all; none by whoever was given one.

    `scores`, if they are known, has a row for every alpha, higher is better.
    """

    alphas: Array | None = None
    scores: Array | None = None
    how: str = ""

    @staticmethod
    def of(alphas: Any, scores: Array | None = None, how: str = "") -> Choice:
        return Choice(np.atleast_1d(np.asarray(alphas, dtype=np.float64)), scores, how)

    def among(self, alphas: Array, tried: Array) -> Array:
        """What it would have chosen from those of `alphas` that were tried."""
        if len(tried) == len(alphas):
            return self.alphas
        scores = np.nan_to_num(self.scores[np.isin(alphas, tried)], nan=-np.inf)
        return tried[np.atleast_1d(np.argmax(scores, axis=0))]


@dataclass(frozen=True)
class Contender(Racer):
    """`fit` chooses and fits. One that takes too long `tries` only so many alphas; 0 is all."""

    fit: Callable[[Task], Choice]
    tries: int = 0

    def __call__(self, task: Task) -> Choice:
        return self.fit(task.trying(self.tries))

    def scaling(self, task: Task) -> float:
        """Times the seconds that it takes, as if it had tried all: the work of a grid search."""
        return grid_work(len(task.alphas)) / grid_work(len(task.trying(self.tries).alphas))


def grid_work(n_alphas: int) -> float:
    """In fits to all samples: one to all but a fold for every alpha and fold, one at the end."""
    return n_alphas * FOLDS * (1 - 1 / FOLDS) + 1


def ling_cv(task: Task, estimator: str = "RidgeCV", **options: Any) -> Choice:
    model = getattr(ling, estimator)(task.alphas, random_state=task.seed, **options)
    model.fit(task.X, task.y)
    return Choice.of(model.alpha_, model.cv_scores_.mean_score, model.cv_scores_.method)


def ling_path(task: Task) -> Choice:
    path = ling.ridge_path(task.X, task.y, alphas=task.alphas, random_state=task.seed)
    return Choice(how=path.method)


def ling_one(task: Task) -> Choice:
    model = ling.Ridge(task.middle, random_state=task.seed).fit(task.X, task.y)
    return Choice(how=model.solver_)


def sklearn_cv(task: Task, estimator: str = "RidgeCV", **options: Any) -> Choice:
    model = getattr(linear_model, estimator)(task.alphas, **options).fit(task.X, task.y)
    return Choice.of(model.alpha_)


def sklearn_one(task: Task) -> Choice:
    linear_model.Ridge(task.middle).fit(task.X, task.y)
    return Choice()


def himalaya_cv(task: Task) -> Choice:
    """It centres each fold as scikit-learn does, but scores by squared error unless told."""
    from himalaya.backend import set_backend
    from himalaya.ridge import RidgeCV
    from himalaya.scoring import r2_score

    set_backend("numpy")
    model = RidgeCV(
        task.alphas,
        fit_intercept=True,
        cv=FOLDS,
        solver_params={"score_func": r2_score},
    )
    return Choice.of(model.fit(task.X, task.y).best_alphas_)


def of_ling(name: str, fit: Callable[[Task], Choice]) -> Contender:
    return Contender(f"ling {name}", ("ling.estimators",), fit)


def of_sklearn(name: str, fit: Callable[[Task], Choice], tries: int = 0) -> Contender:
    return Contender(f"scikit-learn {name}", ("sklearn.linear_model",), fit, tries)


LING_LOO = of_ling("RidgeCV", ling_cv)
LING_FOLDS = of_ling("RidgeCV(cv=5)", partial(ling_cv, cv=FOLDS))
LING_LOO_EACH = of_ling("RidgeCV, alpha_per_target", partial(ling_cv, alpha_per_target=True))
LING_FOLDS_EACH = of_ling(
    "RidgeCV(cv=5), alpha_per_target", partial(ling_cv, cv=FOLDS, alpha_per_target=True)
)
LING_CLASSES = of_ling("RidgeClassifierCV", partial(ling_cv, estimator="RidgeClassifierCV"))
LING_PATH = of_ling("ridge_path", ling_path)
LING_ONE = of_ling("Ridge, one alpha", ling_one)

SKLEARN_LOO = of_sklearn("RidgeCV", sklearn_cv)
SKLEARN_SVD = of_sklearn("RidgeCV(gcv_mode='svd')", partial(sklearn_cv, gcv_mode="svd"))
SKLEARN_FOLDS = of_sklearn("RidgeCV(cv=5)", partial(sklearn_cv, cv=FOLDS))
SKLEARN_FOLDS_FEW = of_sklearn("RidgeCV(cv=5)", partial(sklearn_cv, cv=FOLDS), tries=3)
SKLEARN_EACH = of_sklearn("RidgeCV, alpha_per_target", partial(sklearn_cv, alpha_per_target=True))
SKLEARN_CLASSES = of_sklearn(
    "RidgeClassifierCV", partial(sklearn_cv, estimator="RidgeClassifierCV")
)
SKLEARN_ONE = of_sklearn("Ridge, one alpha", sklearn_one)

HIMALAYA = Contender("himalaya RidgeCV(cv=5)", ("himalaya.ridge",), himalaya_cv)
