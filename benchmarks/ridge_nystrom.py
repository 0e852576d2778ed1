"""Nyström PCG of rlaopt as a ridge solver. Imported only if rlaopt and torch are installed."""

from __future__ import annotations

import sys

import numpy as np
import torch
from linops import LinearOperator
from rlaopt.linalg import LinSys, NystromConfig
from rlaopt.solvers import PCG, PCGConfig, PCGStoppingCriteria

from benchmarks.ridge_data import Fit, Problem

RANK = 200
ITERATIONS = 1000


class Gram(LinearOperator):
    """A'A, where A is X less its column means, or that matrix's transpose."""

    supports_operator_matrix = True
    device = torch.device("cpu")

    def __init__(self, A: torch.Tensor | Centred) -> None:
        super().__init__()
        self._A = A
        self._shape = (A.shape[1], A.shape[1])

    def _matmul_impl(self, v: torch.Tensor) -> torch.Tensor:
        return self._A.T @ (self._A @ v)


class Centred:
    """X - 1 offset' of a sparse X, never formed; `backward` is X' with rows that can be read."""

    def __init__(
        self, forward: torch.Tensor, backward: torch.Tensor, left: torch.Tensor, right: torch.Tensor
    ) -> None:
        self.forward, self.backward, self.left, self.right = forward, backward, left, right
        self.shape = forward.shape

    @property
    def T(self) -> Centred:  # noqa: N802
        return Centred(self.backward, self.forward, self.right, self.left)

    def __matmul__(self, v: torch.Tensor) -> torch.Tensor:
        scale = self.right @ v
        return self.forward @ v - (
            torch.outer(self.left, scale) if v.ndim == 2 else self.left * scale
        )


def csr(X: object) -> torch.Tensor:
    parts = [torch.from_numpy(part) for part in (X.indptr, X.indices, X.data)]
    return torch.sparse_csr_tensor(*parts, X.shape, check_invariants=False)


def centred(problem: Problem) -> tuple[torch.Tensor | Centred, np.ndarray]:
    X = problem.X
    offset = np.asarray(X.mean(axis=0)).ravel()
    if not problem.is_sparse:
        return torch.from_numpy(X - offset), offset
    ones = torch.ones(X.shape[0], dtype=torch.float64)
    return Centred(csr(X), csr(X.T.tocsr()), ones, torch.from_numpy(offset)), offset


@torch.no_grad()
def solve(problem: Problem, tol: float) -> Fit:
    """Everything from raw arrays: centring, the sketch, the iterations, the intercept."""
    torch.set_num_threads(problem.threads)
    torch.manual_seed(problem.seed)
    before = torch.get_default_dtype()
    # rlaopt's power method draws vectors of the default type, which must be that of X.
    torch.set_default_dtype(torch.float64 if problem.X.dtype == np.float64 else torch.float32)
    try:
        return _solve(problem, tol)
    finally:
        torch.set_default_dtype(before)


def _solve(problem: Problem, tol: float) -> Fit:
    A, offset = centred(problem)
    n, p = A.shape
    y = problem.y.reshape(n, -1)
    mean = y.mean(axis=0)
    targets = torch.from_numpy(y - mean)
    if p <= n:
        coef = pcg(Gram(A), A.T @ targets, problem.alpha, tol)
    else:
        coef = A.T @ pcg(Gram(A.T), targets, problem.alpha, tol)
    coef = coef.numpy().astype(np.float64)
    return Fit(coef, mean - offset @ coef)


def pcg(gram: Gram, rhs: torch.Tensor, alpha: float, tol: float) -> torch.Tensor:
    # The huge tolerance is met at once, at the rank asked for. Without it rlaopt, at its largest
    # rank, would factor the same sketch and run its power method once more.
    config = NystromConfig(
        rank_init=max(1, min(RANK, gram.shape[0] // 2)),
        base_damping=alpha,
        error_tolerance=sys.float_info.max,
        num_power_iters=1,
    )
    solver = PCG(LinSys(gram, rhs, reg=float(alpha)), PCGConfig(preconditioner_config=config))
    return solver.solve(
        stopping_criteria=PCGStoppingCriteria(max_iters=ITERATIONS, tol=tol)
    ).solution
