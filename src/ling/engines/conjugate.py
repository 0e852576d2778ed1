"""Preconditioned conjugate gradients on (X'X + alpha I) w = X'y, all targets in the same passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ling.design import Array, DenseDesign, Design
from ling.minorant import Minorant
from ling.problem import Problem
from ling.rounding import rounding

#: P^-1 R for the columns (of all targets) that are still active.
Precondition = Callable[[Array, Array], Array]
# The recurrence may drift from the true gradient, and rounding is added to the bound: stop short.
MARGIN = 0.7
# Rates are judged over this many iterations; conjugate gradients do not fall evenly.
WINDOW = 12
# Without any progress for as many iterations as this, rounding has the last word.
PATIENCE = 150
LIMIT = 10_000
NEAR = 10.0


@dataclass(frozen=True, eq=False)
class Descent:
    """Where the iteration stopped, and whether it did because it saw no point in going on.

    `bound` is a proof that came for free: the gradient at the start was within tol.
    """

    coef: Array
    n_iter: int
    gave_up: bool
    bound: Array | None = None


def conjugate_gradients(
    problem: Problem,
    precondition: Precondition,
    minorant: Minorant,
    *,
    tol: float,
    max_iter: int | None = None,
    worth: float = float("inf"),
    start: Array | None = None,
    design: Design | None = None,
) -> Descent:
    """Iterate until `minorant` bounds every target's error by tol; one pass an iteration.

    Targets that are there take no part in further passes. 6 p numbers of memory a target. `design`
    stands in for X in the iteration, if it is cheaper to multiply with; gradients are of X itself.
    """
    design = problem.design if design is None else design
    p, t = problem.moments.shape
    goal = (MARGIN * tol * problem.spread) ** 2
    limit = LIMIT if max_iter is None else max_iter
    if start is None:
        W, R = np.zeros((p, t)), problem.moments
        active = np.flatnonzero((R != 0).any(axis=0))
    else:
        W = start.astype(np.float64)
        R, residual = problem.gradient(W)
        squares = minorant.quadratic(R, problem.alphas)
        active = np.flatnonzero(squares > goal)
        if not active.size:
            bound = np.sqrt(squares) + rounding(problem, minorant, W, residual)
            return Descent(W, 0, False, bound)
    r = R[:, active]
    z = precondition(r, active)
    P, rz = z, np.einsum("ij,ij->j", r, z)
    history: list[float] = []
    n_iter = 0
    gave_up = False
    while active.size and n_iter < limit:
        alphas = problem.alphas[active]
        # The compiled sweep is for vectors; one column is handed over as one.
        AP = design.gram_matmat(P[:, 0])[:, None] if P.shape[1] == 1 else design.gram_matmat(P)
        AP = AP + P * alphas
        curvature = np.einsum("ij,ij->j", P, AP)
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        W[:, active] += step * P
        r = r - step * AP
        n_iter += 1
        z = precondition(r, active)
        fresh = np.einsum("ij,ij->j", r, z)
        P = z + np.divide(fresh, rz, out=np.zeros_like(rz), where=rz > 0) * P
        rz = fresh
        going = (step > 0) & (rz > 0)
        # r'P^-1 r is about the squared error; the proof costs more, and waits until it may succeed.
        near = rz < NEAR * goal[active]
        if near.any():
            going &= ~near | (minorant.quadratic(r, alphas) > goal[active])
        if not going.any():
            break
        history.append(_excess(rz[going], goal[active][going]))
        if _hopeless(history, worth):
            gave_up = True
            break
        if not going.all():
            active, r, P, rz = active[going], r[:, going], P[:, going], rz[going]
    return Descent(W, n_iter, gave_up)


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
    return done + ahead > 2 * worth


def inverse_factor(H: Array, compiled: bool) -> DenseDesign | None:
    """M with M'M = H^-1, so that H^-1 v is one fused sweep over M; None if H is not positive.

    H is overwritten. Solving with the factor itself would be as fast, but by BLAS.
    """
    potrf, trtri = linalg.get_lapack_funcs(("potrf", "trtri"), (H,))
    upper, info = potrf(H.T, lower=False, clean=True, overwrite_a=True)
    if info:
        return None
    inverse, info = trtri(upper, lower=False, overwrite_c=True)
    # The upper triangle in Fortran order is its transpose in C order.
    return None if info else DenseDesign(np.ascontiguousarray(inverse.T), compiled=compiled)
