"""Preconditioned conjugate gradients on (X'X + alpha I) w = X'y; targets share passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import AffineRowTransform, DiagonalCGState
from ling.linalg.gauss_radau import next_radau_factor
from ling.linalg.rounding import sum_noise
from ling.solvers.certificate import Minorant, ZeroMinorant, dual_rounding
from ling.solvers.engine import Candidate, attach_partial_solution
from ling.solvers.problem import Problem

# Iterate to this fraction of tol. The recurrence may drift from the true gradient, and the rounding
# bound is added afterwards; without this margin they could leave the bound above tol.
TOL_SAFETY_FACTOR = 0.8
# Lower ratios are raised to this, so that their inverses are finite.
MIN_LOWER_RATIO = float(np.finfo(np.float64).tiny)
# Iterations over which the convergence rate is estimated: the last half, at least and at most so
# many. The bound does not fall evenly.
MIN_RATE_WINDOW_ITERATIONS, RATE_WINDOW_ITERATIONS = 4, 12
# Factors on the affordable iterations, because convergence speeds up later: of a rate from fewer
# than RATE_WINDOW_ITERATIONS, and of others.
EARLY_PATIENCE, PATIENCE = 2.0, 1.2
# Iterations without a new smallest bound after which rounding is taken to prevent convergence.
STAGNATION_ITERATIONS = 150
# Iterations, if max_iter is None.
DEFAULT_MAX_ITER = 10_000
# Steps of `diagonal_conjugate_gradients` between two checks whether to go on. An interrupt takes
# effect after at most so many steps.
STEPS_PER_CALL = 24
# Largest number of runs of the dual iteration. Each run but the first starts from the recomputed
# residual of the run before, whose own residual had drifted.
MAX_DRIFT_RESTARTS = 3

TargetIndices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """A preconditioner P^-1 with proven lower ratios: X'X + alpha I >= lower_ratio P.

    `apply(R, targets)` returns P^-1 R in a new array, where R (p, k) has one column for each of the
    k `targets`. `lower_ratio` (t,) has one number per target. `noise` bounds the error of products
    with X'X + alpha I beyond float64 rounding, relative to P.
    """

    apply: Callable[[Array, TargetIndices], Array]
    lower_ratio: Array
    noise: float = 0.0


@dataclass(frozen=True, eq=False)
class CGState:
    """State of the iteration; `squared_bound` (t,) is the square of a proven error bound."""

    solution: Array
    residual: Array
    squared_bound: Array
    n_iter: int
    gave_up: bool = False


class LinearSystem(ABC):
    """H x = b for conjugate gradients; inner products use the first `n_features` rows only."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.n_features = problem.shape[1]

    @abstractmethod
    def matmat(self, P: Array, targets: TargetIndices) -> Array:
        """H P for the columns P of `targets`; one pass."""

    @abstractmethod
    def precondition(self, R: Array, targets: TargetIndices) -> Array:
        """An approximation of H^-1 R, in a new array, for the columns R of `targets`."""

    @abstractmethod
    def initial_squared_bound(self, R: Array) -> Array:
        """Squared error bound (t,) for the initial residuals R, before the first step."""

    @abstractmethod
    def update_squared_bound(
        self, R: Array, rz: Array, step: Array, beta: Array, targets: TargetIndices
    ) -> Array:
        """Squared error bound after a step, for the columns R of `targets`; rz is r'P^-1 r."""


class PrimalSystem(LinearSystem):
    """(X'X + alpha I) w = X'y; `gram(V)` replaces X'X V by a cheaper approximation if given."""

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
        # P^-1 r has an error of a few eps ||r|| / alpha, and r'P^-1 r >= ||r||^2 / ||P||. Products
        # with the two factors of P^-1 are sums of p terms each.
        gram_trace = float((problem.safe_column_norms**2).sum())
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            noise = 2 * sum_noise(problem.shape[1])
            rounding = np.fmin(noise * (1 + gram_trace / problem.alphas), 1.0)
        self.radau_bound = GaussRadauBound(
            preconditioner.lower_ratio, preconditioner.noise, rounding
        )

    def matmat(self, P: Array, targets: TargetIndices) -> Array:
        """(X'X + alpha I) P."""
        return np.asarray(self.gram(P) + P * self.problem.alphas[targets])

    def precondition(self, R: Array, targets: TargetIndices) -> Array:
        """P^-1 R."""
        return self.preconditioner.apply(R, targets)

    def initial_squared_bound(self, R: Array) -> Array:
        """The minorant's quadratic form r'(B + alpha I)^-1 r."""
        return self.minorant.quadratic_form(R, self.problem.alphas)

    def update_squared_bound(
        self, R: Array, rz: Array, step: Array, beta: Array, targets: TargetIndices
    ) -> Array:
        """The Gauss-Radau factor times r'P^-1 r."""
        # r'P^-1 r is 0 only for r = 0. If it is 0 for another r, it was lost to rounding in P^-1.
        lost = (rz <= 0) & R.any(axis=0)
        factors = self.radau_bound.update(step, beta, targets)
        return np.where(lost, np.inf, factors * np.maximum(rz, 0.0))


class DualSystem(LinearSystem):
    """The system for p > n, on stacked vectors (p + n, t): v = X'u on top of its u.

    Every vector of the iteration is X' times one of length n, which is updated with it. With
    w = X'c the error is at most ||rho||, rho = y - X w - alpha c. Proof: let K = XX' and d = c - c*
    with (K + alpha I) c* = y. Then the squared error is d'K(K + alpha I) d, and
    ||rho||^2 = d'(K + alpha I)^2 d is at least that. This bound needs neither a minorant nor a
    lower ratio. `apply` takes and returns stacked vectors.
    """

    def __init__(self, problem: Problem, apply: Callable[[Array, TargetIndices], Array]) -> None:
        super().__init__(problem)
        self.apply = apply

    def matmat(self, P: Array, targets: TargetIndices) -> Array:
        """X'(X P + alpha C) stacked on X P + alpha C, for P stacked on C."""
        P_features = P[: self.n_features]
        products, rows = self.problem.design.gram_matmat_with_rows(P_features)
        return np.vstack([products, rows]) + P * self.problem.alphas[targets]

    def precondition(self, R: Array, targets: TargetIndices) -> Array:
        """P^-1 R stacked on the vectors u with X'u = P^-1 R."""
        return self.apply(R, targets)

    def initial_squared_bound(self, R: Array) -> Array:
        """||rho||^2."""
        rho = R[self.n_features :]
        return np.asarray(np.einsum("ij,ij->j", rho, rho))

    def update_squared_bound(
        self, R: Array, rz: Array, step: Array, beta: Array, targets: TargetIndices
    ) -> Array:
        """||rho||^2."""
        return self.initial_squared_bound(R)


@np.errstate(over="ignore", invalid="ignore")  # bounds may be infinite
def run_conjugate_gradients(
    system: LinearSystem,
    start: Array,
    residual: Array,
    *,
    tol: float,
    max_iter: int | None = None,
    iter_budget: float = float("inf"),
) -> CGState:
    """Iterate from `start` and its `residual` until the error bound of every target is within tol.

    One pass per iteration. Converged targets take no part in further passes. The iteration gives up
    if it stagnates, or if its rate says that it needs more than `iter_budget` iterations.
    """
    problem, features = system.problem, slice(0, system.n_features)
    W, R = start.copy(), residual.copy()
    goal = _squared_goal(problem, tol)
    squared_bound = system.initial_squared_bound(R)
    active = np.flatnonzero(squared_bound > goal)
    w, r, bound = W[:, active], R[:, active], squared_bound[active]  # copies of what is iterated
    P = z = system.precondition(r, active)
    rz = _column_dots(r[features], z[features])
    history: list[float] = []
    n_iter, gave_up = 0, False
    while active.size and n_iter < (DEFAULT_MAX_ITER if max_iter is None else max_iter):
        with attach_partial_solution(partial(_with_columns, W[features], active, w[features])):
            AP = system.matmat(P, active)
        curvature = _column_dots(P[features], AP[features])
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        w += step * P
        r -= step * AP
        n_iter += 1
        z = system.precondition(r, active)
        new_rz = _column_dots(r[features], z[features])
        beta = np.divide(new_rz, rz, out=np.zeros_like(rz), where=rz > 0)
        P, rz = z + beta * P, new_rz
        bound = system.update_squared_bound(r, rz, step, beta, active)
        unconverged = (step > 0) & (rz > 0) & (bound > goal[active])
        if not unconverged.any():
            break
        history.append(_log_excess(bound[unconverged], goal[active][unconverged]))
        if _should_give_up(history, iter_budget):
            gave_up = True
            break
        if not unconverged.all():
            W[:, active], R[:, active], squared_bound[active] = w, r, bound
            active, rz, bound = active[unconverged], rz[unconverged], bound[unconverged]
            w, r, P = w[:, unconverged], r[:, unconverged], P[:, unconverged]
    W[:, active], R[:, active], squared_bound[active] = w, r, bound
    return CGState(W, R, squared_bound, n_iter, gave_up)


def _squared_goal(problem: Problem, tol: float) -> Array:
    """The squared error bounds (t,) at which the iteration of each target ends."""
    return np.asarray((TOL_SAFETY_FACTOR * tol * problem.error_scale) ** 2)


def _with_columns(W: Array, columns: TargetIndices, values: Array) -> Array:
    """A copy of W (m, t) with `values` (m, k) in the given columns."""
    changed = W.copy()
    changed[:, columns] = values
    return changed


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
    """Solve the primal system; returns coefficients (p, t). Memory: 6 p numbers per target.

    `residual` (p, t) is the gradient at `start`, if it is known; otherwise it takes one more pass.
    `gram(V)` replaces X'X V during the iteration, if it is a cheaper approximation.
    """
    system = PrimalSystem(problem, preconditioner, minorant, gram)
    W = np.zeros_like(problem.moments) if start is None else start.astype(np.float64)
    R = problem.moments if start is None else residual
    R = problem.gradient(W)[0] if R is None else R
    state = run_conjugate_gradients(
        system, W, R, tol=tol, max_iter=max_iter, iter_budget=iter_budget
    )
    return Candidate(
        state.solution, minorant, n_iter=state.n_iter, gave_up=state.gave_up,
        residual=state.residual, squared_bound=state.squared_bound,
    )  # fmt: skip


def diagonal_preconditioner(problem: Problem) -> Preconditioner:
    """The inverse of the diagonal of X'X + alpha I."""
    squares = _diagonal(problem)
    max_square = float(squares.max(initial=0.0))
    return Preconditioner(
        lambda R, targets: R / (squares[:, None] + problem.alphas[targets]),
        problem.alphas / (max_square + problem.alphas),
    )


def _diagonal(problem: Problem) -> Array:
    """The diagonal (p,) of X'X; its mean in all places if p > n, as in `sketch_preconditioner`."""
    squares = problem.column_norms**2
    if problem.shape[0] < problem.shape[1]:
        squares = np.full_like(squares, squares.mean())
    return np.asarray(squares)


@np.errstate(over="ignore", invalid="ignore")  # bounds and goals may be infinite
def diagonal_conjugate_gradients(
    problem: Problem, *, tol: float, max_iter: int | None = None, iter_budget: float = float("inf")
) -> Candidate:
    """Solve the primal system with the diagonal of X'X + alpha I as preconditioner.

    The steps are done by the storage (`Design.cg_steps`), one target after the other, which takes a
    fraction of the time of `run_conjugate_gradients` if X is small. The iteration gives up with the
    first target that does.
    """
    squares = _diagonal(problem)
    preconditioner = diagonal_preconditioner(problem)
    system = PrimalSystem(problem, preconditioner, ZeroMinorant())
    W, R = np.zeros_like(problem.moments), problem.moments.copy()
    squared_bound = system.initial_squared_bound(R)
    n_iter, gave_up, goals = 0, False, _squared_goal(problem, tol)
    for target in np.flatnonzero(~(squared_bound <= goals)).tolist():
        inverse_diagonal, goal = 1 / (squares + problem.alphas[target]), goals[target : target + 1]
        state, squared_bound[target], count, gave_up = _iterate_diagonally(
            system, target, inverse_diagonal, goal, max_iter, iter_budget
        )
        W[:, target], R[:, target] = state.solution, state.residual
        n_iter = max(n_iter, count)
        if gave_up:
            break
    return Candidate(W, n_iter=n_iter, gave_up=gave_up, residual=R, squared_bound=squared_bound)


def _iterate_diagonally(
    system: PrimalSystem, target: int, inverse_diagonal: Array, goal: Array, max_iter: int | None,
    iter_budget: float,
) -> tuple[DiagonalCGState, float, int, bool]:  # fmt: skip
    """Iterate for one target from 0 until its squared error bound is at most `goal` (1,).

    Returns the state, the squared bound, the number of steps, and whether the iteration gave up.
    """
    problem, radau = system.problem, system.radau_bound
    residual = problem.moments[:, target].copy()
    direction = inverse_diagonal * residual
    constants = (
        radau.node[target], radau.lower_ratio[target], radau.rounding[target],
        radau.min_relative_gap,
    )  # fmt: skip
    state = DiagonalCGState(
        float(problem.alphas[target]), inverse_diagonal, constants, float(goal[0]),
        np.zeros_like(residual), residual, direction, float(residual @ direction),
        radau.factor[target],
    )  # fmt: skip
    bound, history = float("inf"), list[float]()
    most, gave_up = DEFAULT_MAX_ITER if max_iter is None else max_iter, False
    while not bound <= goal[0] and len(history) < most and not gave_up:
        n_steps = min(STEPS_PER_CALL, most - len(history))
        state, bounds = problem.design.cg_steps(state, n_steps)
        bound = float(bounds[-1])
        history += [_log_excess(bounds[i : i + 1], goal) for i in range(len(bounds))]
        gave_up = len(bounds) < n_steps or _should_give_up(history, iter_budget)
    return state, bound, len(history), gave_up and not bound <= goal[0]


def dual_conjugate_gradients(
    problem: Problem,
    apply: Callable[[Array, TargetIndices], Array],
    *,
    tol: float,
    max_iter: int | None = None,
    iter_budget: float = float("inf"),
) -> Candidate:
    """Solve the dual system and bound the error from the recomputed residual rho.

    One pass per iteration and two more for the bound; 6 (n + p) numbers of memory per target. The
    iteration is restarted from the recomputed residual if drift has left the bound above tol.
    """
    p = problem.shape[1]
    start = np.zeros((sum(problem.shape), problem.n_targets))
    state = CGState(
        start, np.vstack([problem.moments, problem.targets]), problem.target_norms**2, 0
    )
    best: Candidate | None = None
    for _ in range(MAX_DRIFT_RESTARTS):
        iter_left = None if max_iter is None else max_iter - state.n_iter
        new_state = run_conjugate_gradients(
            DualSystem(problem, apply), state.solution, state.residual, tol=tol, max_iter=iter_left,
            iter_budget=iter_budget,
        )  # fmt: skip
        state = replace(new_state, n_iter=state.n_iter + new_state.n_iter)
        C = state.solution[p:]
        W = problem.design.rmatmat(C)
        minus_residual = problem.alphas * C - problem.targets
        gradient, rho = problem.design.gram_matmat_with_rows(
            W, AffineRowTransform.from_values(-1.0, minus_residual, 1.0)
        )
        bound = np.linalg.norm(rho, axis=0) + dual_rounding(problem, C)
        best = Candidate(W, bound=bound, n_iter=state.n_iter, gave_up=state.gave_up)
        if problem.is_within_tol(bound, tol) or state.gave_up or state.n_iter == max_iter:
            return best
        state = replace(state, solution=np.vstack([W, C]), residual=np.vstack([gradient, rho]))
    assert best is not None
    return replace(best, gave_up=True)


class GaussRadauBound:
    """Upper bound c (t,) with ||w - w*||^2 <= c r'P^-1 r, in the norm of X'X + alpha I.

    `lower_ratio` (t,) is a constant with X'X + alpha I >= lower_ratio P for the preconditioner P.

    Initially c = 1 / lower_ratio, which holds for any r. Conjugate gradients are equivalent to the
    Lanczos process, and Gauss-Radau quadrature with a node at `lower_ratio` turns their
    coefficients into a much tighter bound at almost no cost (Golub & Meurant; the recurrence is
    that of Meurant & Tichý 2013). Inexact products act like those of a nearby matrix, whose
    spectrum may reach below `lower_ratio` by `noise`. The node is therefore `lower_ratio` -
    `noise`.

    `rounding` (t,) is the relative rounding error of r'P^-1 r, and so of step lengths and betas.
    Lists of Python's numbers are used: most problems have few targets.
    """

    @np.errstate(over="ignore")
    def __init__(self, lower_ratio: Array, noise: float, rounding: Array) -> None:
        lower_ratio = np.maximum(lower_ratio, MIN_LOWER_RATIO)
        node = lower_ratio - noise
        self.lower_ratio: list[float] = lower_ratio.tolist()
        self.node: list[float] = node.tolist()
        self.rounding: list[float] = rounding.tolist()
        self.min_relative_gap = 1e-6 + noise
        self.factor: list[float] = (1.0 / np.where(node > 0, node, lower_ratio)).tolist()

    def update(self, step: Array, beta: Array, targets: TargetIndices) -> Array:
        """The factors of `targets` after one more step, from the step lengths and betas of CG."""
        bounds = []
        for target, target_step, target_beta in zip(
            targets.tolist(), step.tolist(), beta.tolist(), strict=True
        ):
            self.factor[target], bound = next_radau_factor(
                self.factor[target], target_step, target_beta, self.node[target],
                self.lower_ratio[target], self.rounding[target], self.min_relative_gap,
            )  # fmt: skip
            bounds.append(bound)
        return np.array(bounds)


def _column_dots(A: Array, B: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", A, B))


def _log_excess(squares: Array, goal: Array) -> float:
    """log(bound / goal) of the target that is furthest from its goal, from squares of both."""
    tiny = np.finfo(np.float64).tiny
    return float(np.log(np.maximum(squares, tiny) / np.maximum(goal, tiny)).max()) / 2


def _should_give_up(history: list[float], iter_budget: float) -> bool:
    """True if the iteration stagnates, or its recent rate needs more than `iter_budget` iterations.

    `history` holds the log excess of the bound after each iteration; the goal is 0.
    """
    n_iter = len(history)
    if n_iter > STAGNATION_ITERATIONS and min(history[-STAGNATION_ITERATIONS:]) >= min(
        history[:-STAGNATION_ITERATIONS]
    ):
        return True
    window = min(n_iter // 2, RATE_WINDOW_ITERATIONS)
    if window < MIN_RATE_WINDOW_ITERATIONS or not np.isfinite(iter_budget):
        return False
    rate = (min(history[-2 * window : -window]) - min(history[-window:])) / window
    iter_left = history[-1] / rate if rate > 0 else np.inf
    patience = PATIENCE if window == RATE_WINDOW_ITERATIONS else EARLY_PATIENCE
    return bool(n_iter + iter_left > patience * iter_budget)
