"""`RidgeCV` and `RidgeClassifierCV` on the problems of `benchmarks.wild`, beside scikit-learn's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn import linear_model

import ling
from benchmarks import harness
from benchmarks.ridge_data import Problem
from benchmarks.ridge_peers import DEFAULT
from benchmarks.wild_problems import BUDGET_FRACTION, Draw, draw_problem, made
from benchmarks.wild_ridge import (
    MAX_TURNS,
    MIN_TURNS,
    SECONDS_PER_PROBLEM,
    TimeLimitExceeded,
    within,
)

N_ALPHAS, N_FOLDS = 20, 5
# Limit on n p min(n, p): scikit-learn fits every alpha to every fold. Sparse data may exceed it,
# but not for leave-one-out.
MAX_FLOPS = 2e10
# Seconds after which either library is stopped.
MAX_SECONDS = 30.0
# Largest decades of alpha below and above the drawn one.
DECADES = 3.0


def load() -> None:
    """Everything is imported already."""


def draw(seed: int, number: int) -> Draw:
    """One target; classes are made of it for every other problem."""
    return replace(draw_problem(seed, number, MAX_FLOPS), n_targets=1)


def measure(draw: Draw, threads: int, turns: int | None) -> dict[str, Any]:
    """Seconds of both libraries, and whether they choose the same alpha."""
    rng = np.random.default_rng([draw.seed, 1])
    classify, folds = bool(rng.integers(2)), N_FOLDS if rng.integers(2) else None
    if float(draw.n) * draw.p * min(draw.n, draw.p) > MAX_FLOPS:  # scikit-learn makes it dense
        folds = N_FOLDS
    name = "RidgeClassifierCV" if classify else "RidgeCV"
    with made(draw, threads) as problem:
        alphas = np.geomspace(10.0**-DECADES, 10.0**DECADES, N_ALPHAS) * problem.alpha
        y = problem.y
        if classify:
            n_classes = int(rng.integers(2, 6))
            edges = np.quantile(y, np.arange(1, n_classes) / n_classes)
            y = np.searchsorted(edges, y)
        budget = BUDGET_FRACTION * problem.X.nbytes if draw.out_of_core else None
        calls = {
            "ling": partial(fit, ling, name, problem, y, alphas, folds, memory_budget=budget),
            DEFAULT.name: partial(fit, linear_model, name, problem, y, alphas, folds),
        }
        first: dict[str, float] = {}
        taken: dict[str, list[float]] = {}
        notes: dict[str, str] = {}
        their_alpha = None
        model, first["ling"] = within(MAX_SECONDS / 2, calls["ling"])
        try:
            other, first[DEFAULT.name] = within(MAX_SECONDS / 2, calls[DEFAULT.name])
            their_alpha = float(other.alpha_)
        except TimeLimitExceeded:
            first[DEFAULT.name] = MAX_SECONDS
            notes[DEFAULT.name] = f"takes over {MAX_SECONDS:g} s"
        total = sum(first.values())
        if total < SECONDS_PER_PROBLEM:
            turns = turns or int(np.clip(SECONDS_PER_PROBLEM / total, MIN_TURNS, MAX_TURNS))
            taken = harness.race(calls, first, turns)
        scores = model.cv_scores_
        mean_scores = np.asarray(scores.mean_score)
        return {
            "kind": f"{name}, {'leave-one-out' if folds is None else '5-fold'}",
            "ling": {
                "method": str(scores.method),
                "alpha": float(model.alpha_),
                "their_alpha": their_alpha,
                "score": float(mean_scores.max()),
                "score_at_theirs": score_at(alphas, mean_scores, their_alpha),
                "certified": bool(np.all(scores.certified)),
            },
            "seconds": {key: min(taken.get(key, [first[key]])) for key in calls},
            "spread": {key: harness.spread(times) for key, times in taken.items()},
            "notes": notes,
        }


def score_at(alphas: Any, scores: Any, alpha: float | None) -> float | None:
    """The score at the alpha of the grid that is nearest to this one."""
    return None if alpha is None else float(scores[np.argmin(np.abs(np.log(alphas / alpha)))])


def fit(
    library: Any, name: str, problem: Problem, y: Any, alphas: Any, folds: int | None,
    **options: Any,
) -> Any:  # fmt: skip
    return getattr(library, name)(alphas, cv=folds, **options).fit(problem.X, y)
