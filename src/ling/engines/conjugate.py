"""Preconditioned conjugate gradients on (X'X + alpha I) w = X'y, all targets in the same passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ling.design import Array, Design
from ling.engines.base import Candidate
from ling.minorant import Minorant
from ling.problem import Problem

# The recurrence may drift from the true gradient, and rounding is added to the bound: stop short.
MARGIN = 0.8
# Rates are judged over this many iterations; conjugate gradients do not fall evenly.
WINDOW = 12
# Without any progress for as many iterations as this, rounding has the last word.
PATIENCE = 150
LIMIT = 10_000


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P^-1, and a proof that X'X + alpha I >= least P.

    `apply(R, targets)` is P^-1 R for the columns of those targets; `least` has a number a target.
    """

    apply: Callable[[Array, NDArray[np.intp]], Array]
    least: Array


@np.errstate(over="ignore", invalid="ignore")  # what is proved may be infinite
def conjugate_gradients(
    problem: Problem,
    preconditioner: Preconditioner,
    minorant: Minorant,
    *,
    tol: float,
    max_iter: int | None = None,
    worth: float = float("inf"),
    start: Array | None = None,
    design: Design | None = None,
) -> Candidate:
    """Iterate until every target's error is bounded by tol; one pass an iteration.

    Targets that are there take no part in further passes. 6 p numbers of memory a target. `design`
    stands in for X in the iteration, if it is cheaper to multiply with; gradients are of X itself.
    """
    design = problem.design if design is None else design
    W = np.zeros_like(problem.moments) if start is None else start.astype(np.float64)
    R = problem.moments.copy() if start is None else problem.gradient(W)[0]
    goal = (MARGIN * tol * problem.spread) ** 2
    proved = minorant.quadratic(R, problem.alphas)
    active = np.flatnonzero(proved > goal)
    r = R[:, active]
    z = preconditioner.apply(r, active)
    P, rz = z, np.einsum("ij,ij->j", r, z)
    ceiling = Ceiling(preconditioner.least[active])
    history: list[float] = []
    n_iter, gave_up = 0, False
    while active.size and n_iter < (LIMIT if max_iter is None else max_iter):
        AP = design.gram_matmat(P) + P * problem.alphas[active]
        curvature = np.einsum("ij,ij->j", P, AP)
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        W[:, active] += step * P
        r = r - step * AP
        n_iter += 1
        z = preconditioner.apply(r, active)
        fresh = np.einsum("ij,ij->j", r, z)
        beta = np.divide(fresh, rz, out=np.zeros_like(rz), where=rz > 0)
        P, rz = z + beta * P, fresh
        # r'P^-1 r can only vanish with r; if it does before, P^-1 has lost it to rounding.
        lost = (rz <= 0) & r.any(axis=0)
        bound = np.where(lost, np.inf, ceiling.after(step, beta) * np.maximum(rz, 0.0))
        R[:, active], proved[active] = r, bound
        going = (step > 0) & (rz > 0) & (bound > goal[active])
        if not going.any():
            break
        history.append(_excess(rz[going], goal[active][going]))
        if _hopeless(history, worth):
            gave_up = True
            break
        if not going.all():
            active, r, P, rz = active[going], r[:, going], P[:, going], rz[going]
            ceiling = ceiling.of(going)
    return Candidate(W, minorant, n_iter=n_iter, gave_up=gave_up, residual=R, proved=proved)


class Ceiling:
    """The factor c with ||w - w*||^2 <= c r'P^-1 r in the norm of the problem.

    At first it is 1 / least. Conjugate gradients are Lanczos' process on the way, and Gauss-Radau
    quadrature with a node at `least` turns their coefficients into a much closer upper bound, for
    next to nothing (Golub & Meurant; the recurrence is that of Meurant & Tichý 2013).
    """

    def __init__(self, least: Array, now: Array | None = None) -> None:
        self.least = least
        self.now = 1.0 / least if now is None else now

    def after(self, step: Array, beta: Array) -> Array:
        """The factor after one more step of the given length."""
        gap = self.now - step
        below = self.least * gap + beta
        worst = 1.0 / self.least
        # Near convergence the gap is rounding; the first bound is always right.
        sound = (gap > 1e-6 * step) & (below > 0)
        self.now = np.where(sound, np.divide(gap, below, out=worst.copy(), where=sound), worst)
        return self.now

    def of(self, kept: NDArray[np.bool_]) -> Ceiling:
        """For some of the targets."""
        return Ceiling(self.least[kept], self.now[kept])


def _excess(squares: Array, goal: Array) -> float:
    """How far the worst target is from its goal, as a logarithm."""
    tiny = np.finfo(np.float64).tiny
    return float(np.log(np.maximum(squares, tiny) / np.maximum(goal, tiny)).max()) / 2


def _hopeless(history: list[float], worth: float) -> bool:
    """Whether, at the rate of late, the goal (0) lies beyond `worth` iterations."""
    done = len(history)
    if done > PATIENCE and min(history[-PATIENCE:]) >= min(history[:-PATIENCE]):
        return True
    if done < 2 * WINDOW or not np.isfinite(worth):
        return False
    fallen = (min(history[-2 * WINDOW : -WINDOW]) - min(history[-WINDOW:])) / WINDOW
    # Convergence speeds up as it goes; only a clear excess is held against it.
    ahead = history[-1] / fallen if fallen > 0 else np.inf
    return bool(done + ahead > 2 * worth)
