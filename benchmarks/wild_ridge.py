"""`Ridge` on the problems of `benchmarks.wild`: ling, its engines alone, and other solvers."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ling
from benchmarks import harness
from benchmarks.harness import HOPELESS
from benchmarks.ridge_data import Fit, Problem, error, error_bound, reference
from benchmarks.ridge_peers import DEFAULT, PEERS, Peer
from benchmarks.wild_problems import BUDGET_FRACTION, Draw, draw_problem, made
from ling.solvers.engines import ENGINES

Measure = Callable[[Fit], float]
Call = Callable[[], Fit]

# Every solver has to reach this error of the training predictions; it is ling's default tol.
TARGET = ling.Ridge().tol
MAX_REFERENCE_BOUND = 1e-5
# Seconds that any fit may always take, and seconds that all turns of a problem should take.
MIN_TIME_LIMIT, SECONDS_PER_PROBLEM = 0.25, 5.0
MIN_TURNS, MAX_TURNS = 2, 7
# Seconds after which scikit-learn's default is stopped, and limit on the time in which the loosest
# sufficient tolerance of a solver is searched for, in fits of the fastest solver so far.
MAX_DEFAULT_SECONDS, MAX_SEARCHES = 60.0, 6.0
# An engine that is predicted to take so many times as long as ling's default is left out: a time
# limit cannot stop a factorisation.
MAX_PREDICTED_RATIO = 30.0
# Left out: solvers that are never the fastest at this error, and take long to find that out.
SLOW_PEERS = "scikit-learn svd", "scikit-learn sag", "scikit-learn saga", "glum lbfgs"
OTHERS = tuple(peer for peer in PEERS if peer.name not in SLOW_PEERS)


class TimeLimitExceeded(Exception):
    """A fit took longer than its limit."""


def load() -> None:
    """Import other solvers before anything is timed."""
    for peer in (DEFAULT, *OTHERS):
        peer.load()


def draw(seed: int, number: int) -> Draw:
    return draw_problem(seed, number)


def measure(draw: Draw, threads: int, turns: int | None) -> dict[str, Any]:
    """Seconds of all contestants; `turns` overrides their number."""
    with made(draw, threads) as problem:
        exact = reference(problem, MAX_REFERENCE_BOUND)
        judge = partial(error, problem, exact)
        budget = BUDGET_FRACTION * problem.X.nbytes if draw.out_of_core else None
        ridge = partial(fit_ling, problem, budget)
        model, first = harness.timed(ridge)
        calls: dict[str, Callable[[], object]] = {"ling": ridge}
        seconds = {"ling": first}
        notes: dict[str, str] = {}
        default_error = add_default(problem, judge, calls, seconds, notes)
        for peer in OTHERS:
            add_peer(peer, problem, judge, calls, seconds, notes)
        plan = ling.plan_fit(problem.X, problem.y, alpha=problem.alpha, memory_budget=budget)
        for engine in ENGINES:
            if plan.estimate_for(engine).seconds > MAX_PREDICTED_RATIO * max(first, MIN_TIME_LIMIT):
                notes[engine] = "would take far longer"
                continue
            call = partial(fit_ling, problem, budget, engine)
            add(engine, call, lambda m: judge(Fit.of(m)), calls, seconds, notes)
        contest = hopeful(calls, seconds)
        turns = turns or int(np.clip(SECONDS_PER_PROBLEM / sum(seconds[c] for c in contest),
                                     MIN_TURNS, MAX_TURNS))  # fmt: skip
        taken = harness.race(contest, seconds, turns)
        return {
            "ling": {
                "engine": str(model.solver_),
                "reason": model.report_.reason,
                "error": judge(Fit.of(model)),
                "bound": float(np.max(model.report_.certificate.bound)),
                "passes": float(model.report_.cost.passes),
            },
            "default_error": default_error,
            "reference_bound": error_bound(problem, exact.coef),
            "seconds": {name: min(taken.get(name, [seconds[name]])) for name in seconds},
            "spread": {name: harness.spread(times) for name, times in taken.items()},
            "notes": notes,
        }


def fit_ling(problem: Problem, budget: float | None, engine: str = "auto") -> ling.Ridge:
    model = ling.Ridge(problem.alpha, solver=engine, memory_budget=budget)
    return model.fit(problem.X, problem.y)


def add_default(
    problem: Problem, judge: Measure, calls: dict[str, Callable[[], object]],
    seconds: dict[str, float], notes: dict[str, str],
) -> float:  # fmt: skip
    """Add scikit-learn's default, whatever its error is, and return that.

    If it takes longer than MAX_DEFAULT_SECONDS, these are its time and it takes no further turn.
    """
    call = partial(DEFAULT.solve, problem, 0.0)
    try:
        fit, seconds[DEFAULT.name] = within(MAX_DEFAULT_SECONDS / 2, call)
    except TimeLimitExceeded:
        seconds[DEFAULT.name] = MAX_DEFAULT_SECONDS
        notes[DEFAULT.name] = f"takes over {MAX_DEFAULT_SECONDS:g} s"
        return math.inf
    calls[DEFAULT.name] = call
    return judge(fit)


def add_peer(
    peer: Peer, problem: Problem, judge: Measure, calls: dict[str, Callable[[], object]],
    seconds: dict[str, float], notes: dict[str, str],
) -> None:  # fmt: skip
    """Add a solver with the loosest tolerance at which it reaches the error.

    Tolerances are tried for as long as MAX_SEARCHES fits of the fastest solver take.
    """
    obstacle = peer.obstacle(problem)
    if obstacle:
        notes[peer.name] = obstacle
        return
    deadline = time.perf_counter() + MAX_SEARCHES * max(MIN_TIME_LIMIT, min(seconds.values()))
    for tol in peer.tols:
        if time.perf_counter() > deadline:
            return
        call = partial(peer.solve, problem, tol)
        add(peer.name, call, judge, calls, seconds, notes)
        if notes.get(peer.name) != "misses the error":
            return


def add(
    name: str, call: Callable[[], Any], judge: Callable[[Any], float],
    calls: dict[str, Callable[[], object]], seconds: dict[str, float], notes: dict[str, str],
) -> None:  # fmt: skip
    """Time a first call, and let it race if it reaches the error in time."""
    limit = max(MIN_TIME_LIMIT, HOPELESS * min(seconds.values()))
    notes.pop(name, None)
    try:
        result, taken = within(limit, call)
        if judge(result) > TARGET:
            notes[name] = "misses the error"
            return
    except TimeLimitExceeded:
        notes[name] = f"takes over {HOPELESS:g} times as long as the fastest"
        return
    except Exception as failure:  # whatever a solver dies of, the others go on
        notes[name] = harness.failed(failure)
        return
    calls[name], seconds[name] = call, taken


def within(limit: float, call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a call and its seconds; TimeLimitExceeded if it takes longer than `limit`.

    A call that is short runs twice, since the first one loads and compiles. The limit works where
    Python code runs at all: a long call of LAPACK ends first. The signal is repeated, because an
    exception in a callback of the compiler or the garbage collector is lost.
    """

    def stop(*_: object) -> None:
        raise TimeLimitExceeded

    previous = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 2 * limit, limit / 4)
        started = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - started
        if seconds < limit / 4:
            started = time.perf_counter()
            result = call()
            seconds = min(seconds, time.perf_counter() - started)
        return result, seconds
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)


def hopeful(
    calls: dict[str, Callable[[], object]], seconds: dict[str, float]
) -> dict[str, Callable[[], object]]:
    """Those that are measured again: ling, scikit-learn's default, and who is not far behind."""
    best = min(seconds.values(), default=math.inf)
    always = "ling", DEFAULT.name
    return {
        name: call
        for name, call in calls.items()
        if name in always or seconds[name] <= HOPELESS / 2 * best
    }
