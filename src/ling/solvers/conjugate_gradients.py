"""Preconditioned conjugate gradients on (X'X + alpha I) w = X'y, all targets in the same passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import AffineRowTransform
from ling.solvers.engine import Candidate, attach_partial_solution
from ling.solvers.gradient_rounding import dual_rounding
from ling.solvers.minorant import Minorant
from ling.solvers.problem import Problem

# The recurrence may drift from the true gradient, and rounding is added to the bound: stop short.
TOL_SAFETY_FACTOR = 0.8
# Rates are judged over this many iterations; conjugate gradients do not fall evenly.
RATE_WINDOW_ITERATIONS = 12
# Without any progress for as many iterations as this, rounding has the last word.
STAGNATION_ITERATIONS = 150
DEFAULT_MAX_ITER = 10_000
# How often an iteration that has drifted is started again from where it is.
MAX_DRIFT_RESTARTS = 3

TargetIndices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P^-1, and a proof that X'X + alpha I >= least P.

    `apply(R, targets)` is P^-1 R for the columns of those targets; `least` has a number a target.
    `noise` is what products with X'X + alpha I are off by, in units of P, beyond float64.
    """

    apply: Callable[[Array, TargetIndices], Array]
    lower_ratio: Array
    noise: float = 0.0


@dataclass(frozen=True, eq=False)
class CGState:
    """The state of an iteration; `squared_bound` is the square of a proven bound, by target."""

    solution: Array
    residual: Array
    squared_bound: Array
    n_iter: int
    gave_up: bool = False


class LinearSystem(ABC):
    """H x = b as conjugate gradients see it. Inner products are over the first `length` rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.n_features = problem.shape[1]

    @abstractmethod
    def matmat(self, P: Array, targets: TargetIndices) -> Array:
        """H P, one pass."""

    @abstractmethod
    def precondition(self, R: Array, targets: TargetIndices) -> Array:
        """An approximation of H^-1 R."""

    @abstractmethod
    def initial_squared_bound(self, R: Array) -> Array:
        """The square of a bound on the error, before the first step."""

    @abstractmethod
    def update_squared_bound(
        self, R: Array, rz: Array, step: Array, beta: Array, targets: TargetIndices
    ) -> Array:
        """The same after a step; rz is r'P^-1 r."""


class PrimalSystem(LinearSystem):
    """(X'X + alpha I) w = X'y; `gram` stands in for X'X if it is cheaper to multiply with."""

    def __init__(
        self,
        problem: Problem,
        preconditioner: Preconditioner,
        minorant: Minorant,
        gram: Callable[[Array], Array] | None = None,
    ) -> None:
        super().__init__(problem)
        self.gram = problem.design.gram_matmat if gram is None else gram
        self.preconditioner = preconditioner
        self.minorant = minorant
        self.radau_bound = GaussRadauBound(preconditioner.lower_ratio, preconditioner.noise)

    def matmat(self, P: Array, targets: TargetIndices) -> Array:
        """(X'X + alpha I) P."""
        return np.asarray(self.gram(P) + P * self.problem.alphas[targets])

    def precondition(self, R: Array, targets: TargetIndices) -> Array:
        """P^-1 R."""
        return self.preconditioner.apply(R, targets)

    def initial_squared_bound(self, R: Array) -> Array:
        """From the minorant."""
        return self.minorant.quadratic_form(R, self.problem.alphas)

    def update_squared_bound(
        self, R: Array, rz: Array, step: Array, beta: Array, targets: TargetIndices
    ) -> Array:
        """From the ceiling."""
        # r'P^-1 r can only vanish with r; if it does before, P^-1 has lost it to rounding.
        lost = (rz <= 0) & R.any(axis=0)
        radau_bound = self.radau_bound.update(step, beta, targets)
        return np.where(lost, np.inf, radau_bound * np.maximum(rz, 0.0))


class DualSystem(LinearSystem):
    """The same for p > n, where every vector is X' times one of length n, which goes along below.

    With w = X'c the error is below ||rho||, rho = y - X w - alpha c: this bound leans on nothing.
    `apply` takes and gives vectors with both parts.
    """

    def __init__(self, problem: Problem, apply: Callable[[Array, TargetIndices], Array]) -> None:
        super().__init__(problem)
        self.apply = apply

    def matmat(self, P: Array, targets: TargetIndices) -> Array:
        """X'(X P + alpha C), and X P + alpha C."""
        above, below = P[: self.n_features], P[self.n_features :]
        rows = AffineRowTransform.identity(below.shape)
        out = self.problem.design.gram_matmat(above, rows)
        return (
            np.vstack([out, rows.row_output.reshape(below.shape)])
            + P * self.problem.alphas[targets]
        )

    def precondition(self, R: Array, targets: TargetIndices) -> Array:
        """P^-1 R, and what X' would make it from."""
        return self.apply(R, targets)

    def initial_squared_bound(self, R: Array) -> Array:
        """||rho||^2."""
        below = R[self.n_features :]
        return np.asarray(np.einsum("ij,ij->j", below, below))

    def update_squared_bound(
        self, R: Array, rz: Array, step: Array, beta: Array, targets: TargetIndices
    ) -> Array:
        """||rho||^2."""
        return self.initial_squared_bound(R)


@np.errstate(over="ignore", invalid="ignore")  # what is proved may be infinite
def run_conjugate_gradients(
    system: LinearSystem,
    start: Array,
    residual: Array,
    *,
    tol: float,
    max_iter: int | None = None,
    iter_budget: float = float("inf"),
) -> CGState:
    """From `start` and its residual until every target's error is bounded by tol.

    One pass an iteration. Targets that are there take no part in further passes.
    """
    problem, top = system.problem, slice(0, system.n_features)
    W, R = start.copy(), residual.copy()
    goal = (TOL_SAFETY_FACTOR * tol * problem.error_scale) ** 2
    squared_bound = system.initial_squared_bound(R)
    active = np.flatnonzero(squared_bound > goal)
    r = R[:, active]
    P = z = system.precondition(r, active)
    rz = _column_dots(r[top], z[top])
    history: list[float] = []
    n_iter, gave_up = 0, False
    while active.size and n_iter < (DEFAULT_MAX_ITER if max_iter is None else max_iter):
        with attach_partial_solution(lambda: W[top]):
            AP = system.matmat(P, active)
        curvature = _column_dots(P[top], AP[top])
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        W[:, active] += step * P
        r = r - step * AP
        n_iter += 1
        z = system.precondition(r, active)
        fresh = _column_dots(r[top], z[top])
        beta = np.divide(fresh, rz, out=np.zeros_like(rz), where=rz > 0)
        P, rz = z + beta * P, fresh
        bound = system.update_squared_bound(r, rz, step, beta, active)
        R[:, active], squared_bound[active] = r, bound
        going = (step > 0) & (rz > 0) & (bound > goal[active])
        if not going.any():
            break
        history.append(_log_excess(bound[going], goal[active][going]))
        if _should_give_up(history, iter_budget):
            gave_up = True
            break
        if not going.all():
            active, r, P, rz = active[going], r[:, going], P[:, going], rz[going]
    return CGState(W, R, squared_bound, n_iter, gave_up)


def conjugate_gradients(
    problem: Problem,
    preconditioner: Preconditioner,
    minorant: Minorant,
    *,
    tol: float,
    max_iter: int | None = None,
    iter_budget: float = float("inf"),
    start: Array | None = None,
    residual: Array | None = None,
    gram: Callable[[Array], Array] | None = None,
) -> Candidate:
    """The solution of the primal system; 6 p numbers of memory a target.

    `residual` is that of `start`, if it is known; `gram` stands in for X'X between there and the
    end, if it is cheaper to multiply with.
    """
    system = PrimalSystem(problem, preconditioner, minorant, gram)
    W = np.zeros_like(problem.moments) if start is None else start.astype(np.float64)
    R = problem.moments if start is None else residual
    R = problem.gradient(W)[0] if R is None else R
    found = run_conjugate_gradients(
        system, W, R, tol=tol, max_iter=max_iter, iter_budget=iter_budget
    )
    return Candidate(
        found.solution, minorant, n_iter=found.n_iter, gave_up=found.gave_up,
        residual=found.residual, squared_bound=found.squared_bound,
    )  # fmt: skip


def dual_conjugate_gradients(
    problem: Problem,
    apply: Callable[[Array, TargetIndices], Array],
    *,
    tol: float,
    max_iter: int | None = None,
    iter_budget: float = float("inf"),
) -> Candidate:
    """The solution of the dual system, proved; two more passes, 6 (n + p) numbers a target."""
    p = problem.shape[1]
    start = np.zeros((sum(problem.shape), problem.n_targets))
    found = CGState(
        start, np.vstack([problem.moments, problem.targets]), problem.target_norms**2, 0
    )
    best: Candidate | None = None
    for _ in range(MAX_DRIFT_RESTARTS):
        left = None if max_iter is None else max_iter - found.n_iter
        more = run_conjugate_gradients(
            DualSystem(problem, apply), found.solution, found.residual, tol=tol, max_iter=left,
            iter_budget=iter_budget,
        )  # fmt: skip
        found = replace(more, n_iter=found.n_iter + more.n_iter)
        C = found.solution[p:]
        W = problem.design.rmatmat(C)
        rows = AffineRowTransform.from_values(-1.0, problem.alphas * C - problem.targets, 1.0)
        above = problem.design.gram_matmat(W, rows)
        rho = rows.row_output.reshape(C.shape)
        bound = np.linalg.norm(rho, axis=0) + dual_rounding(problem, C)
        best = Candidate(W, bound=bound, n_iter=found.n_iter, gave_up=found.gave_up)
        if problem.is_within_tol(bound, tol) or found.gave_up or found.n_iter == max_iter:
            return best
        found = replace(found, solution=np.vstack([W, C]), residual=np.vstack([above, rho]))
    assert best is not None
    return replace(best, gave_up=True)


class GaussRadauBound:
    """The factor c with ||w - w*||^2 <= c r'P^-1 r in the norm of the problem.

    At first it is 1 / least. Conjugate gradients are Lanczos' process on the way, and Gauss-Radau
    quadrature with a node at `least` turns their coefficients into a much closer upper bound, for
    next to nothing (Golub & Meurant; the recurrence is that of Meurant & Tichý 2013). Products that
    are off act like those of a matrix nearby, whose spectrum may reach below `least` by `noise`:
    the node has to be there. 1 / least holds for any r.
    """

    @np.errstate(over="ignore")
    def __init__(self, least: Array, noise: float = 0.0) -> None:
        self.lower_ratio = least = np.maximum(least, np.finfo(np.float64).tiny)
        self.node = least - noise
        self.min_relative_gap = 1e-6 + noise
        self.factor = 1.0 / np.where(self.node > 0, self.node, least)

    def update(self, step: Array, beta: Array, targets: TargetIndices) -> Array:
        """The factor of those targets after one more step, of the given lengths."""
        node = self.node[targets]
        gap = self.factor[targets] - step
        below = node * gap + beta
        worst = 1.0 / self.lower_ratio[targets]
        # Near convergence the gap is rounding; the first bound is always right.
        sound = (gap > self.min_relative_gap * step) & (below > 0) & (node > 0)
        found = np.divide(gap, below, out=worst.copy(), where=sound)
        self.factor[targets] = np.where(sound, found, 1.0 / np.where(node > 0, node, 1.0))
        return np.asarray(np.minimum(found, worst))


def _column_dots(A: Array, B: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", A, B))


def _log_excess(squares: Array, goal: Array) -> float:
    """How far the worst target is from its goal, as a logarithm."""
    tiny = np.finfo(np.float64).tiny
    return float(np.log(np.maximum(squares, tiny) / np.maximum(goal, tiny)).max()) / 2


def _should_give_up(history: list[float], iter_budget: float) -> bool:
    """Whether, at the rate of late, the goal (0) lies beyond `iter_budget` iterations."""
    done = len(history)
    if done > STAGNATION_ITERATIONS and min(history[-STAGNATION_ITERATIONS:]) >= min(
        history[:-STAGNATION_ITERATIONS]
    ):
        return True
    if done < 2 * RATE_WINDOW_ITERATIONS or not np.isfinite(iter_budget):
        return False
    fallen = (
        min(history[-2 * RATE_WINDOW_ITERATIONS : -RATE_WINDOW_ITERATIONS])
        - min(history[-RATE_WINDOW_ITERATIONS:])
    ) / RATE_WINDOW_ITERATIONS
    ahead = history[-1] / fallen if fallen > 0 else np.inf
    return bool(done + ahead > 1.2 * iter_budget)  # convergence speeds up as it goes
