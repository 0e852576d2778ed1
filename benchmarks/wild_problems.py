"""Problems of `benchmarks.wild`: drawn from a seed, so that nobody can tune to them."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy import linalg, sparse

from benchmarks.ridge_data import Problem, adjoint, product
from benchmarks.wild_families import FAMILIES, Matrix

Array = np.ndarray

N_RANGE, P_RANGE = (50.0, 1e6), (5.0, 1e5)
MAX_BYTES, MAX_LARGE_BYTES = 3e8, 2e9
# One in so many problems is up to MAX_LARGE_BYTES: ten of 200.
LARGE_EVERY = 20
# Limit on n p min(n, p) of dense problems: a Gram matrix takes about half a minute.
MAX_FLOPS = 1e12
# Entries of a row that sparse families are expected to have, when the size is drawn.
SPARSE_ENTRIES = 40
ALPHA_DECADES = 8.0
N_TARGETS, TARGET_CHANCES = (1, 10, 300), (0.7, 0.2, 0.1)
# Numbers of y, X W and its temporaries, so that 300 targets do not make X a detail.
MAX_TARGET_NUMBERS = 3e7
# Out of core, X is a file, and ling's memory_budget is this fraction of its size.
OUT_OF_CORE_CHANCE, BUDGET_FRACTION = 0.2, 0.25


@dataclass(frozen=True)
class Draw:
    """Everything that defines a problem; `seed` makes its numbers."""

    number: int
    seed: int
    family: str
    n: int
    p: int
    dtype: str
    order: str
    relative_alpha: float
    n_targets: int
    out_of_core: bool

    @property
    def name(self) -> str:
        words = [self.family, f"{self.n:,} x {self.p:,}", self.dtype, f"{self.order} order"]
        words += [f"{self.n_targets} targets"] * (self.n_targets > 1)
        words += ["out of core"] * self.out_of_core
        return ", ".join(words)


def draw_problem(seed: int, number: int, max_flops: float = MAX_FLOPS) -> Draw:
    """Problem `number` of the run with this seed; `max_flops` limits n p min(n, p) if X is dense.

    Every family comes up equally often: in a new random order after each round.
    """
    rng = np.random.default_rng([seed, number])
    names = sorted(FAMILIES)
    round_number, place = divmod(number, len(names))
    order = np.random.default_rng([seed, 10**6 + round_number]).permutation(len(names))
    family = names[order[place]]
    is_sparse = _is_sparse(family)
    is_large = number % LARGE_EVERY == LARGE_EVERY - 1 and max_flops >= MAX_FLOPS
    min_bytes, max_bytes = (MAX_BYTES, MAX_LARGE_BYTES) if is_large else (0.0, MAX_BYTES)
    while True:
        n, p = (int(_log_uniform(rng, *limits)) for limits in (N_RANGE, P_RANGE))
        n_bytes = 8.0 * n * (min(p, SPARSE_ENTRIES) if is_sparse else p)
        affordable = is_sparse or float(n) * p * min(n, p) <= max_flops
        if min_bytes <= n_bytes <= max_bytes and affordable:
            break
    n_targets = int(rng.choice(N_TARGETS, p=TARGET_CHANCES))
    return Draw(
        number=number,
        seed=int(rng.integers(2**31)),
        family=family,
        n=n,
        p=p,
        dtype=str(rng.choice(["float64", "float32"], p=[0.7, 0.3])),
        order="C" if is_sparse else str(rng.choice(["C", "F"], p=[0.75, 0.25])),
        relative_alpha=float(10.0 ** rng.uniform(-ALPHA_DECADES, 0.0)),
        n_targets=n_targets if max(n, p) * n_targets <= MAX_TARGET_NUMBERS else 1,
        out_of_core=bool(rng.uniform() < OUT_OF_CORE_CHANCE) and not is_sparse,
    )


@cache
def _is_sparse(family: str) -> bool:
    return sparse.issparse(FAMILIES[family](60, 10, np.random.default_rng(0)))


def _log_uniform(rng: Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


@contextmanager
def made(draw: Draw, threads: int) -> Iterator[Problem]:
    """The problem. Out of core, X is a memory map of a temporary file that ends with the block."""
    rng = np.random.default_rng(draw.seed)
    X = FAMILIES[draw.family](draw.n, draw.p, rng)
    y = draw_targets(X, draw.n_targets, rng)
    if sparse.issparse(X):
        X = sparse.csr_array(X.astype(draw.dtype))
    else:
        X = np.asarray(X, dtype=draw.dtype, order=draw.order)
    y = y.astype(draw.dtype)
    alpha = draw.relative_alpha * largest_eigenvalue(X)
    if not draw.out_of_core:
        yield Problem(X, y, alpha, threads, draw.seed % 1000)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, X)
        X = np.load(path, mmap_mode="r")
        yield Problem(X, y, alpha, threads, draw.seed % 1000)


def draw_targets(X: Matrix, n_targets: int, rng: Generator) -> Array:
    """y = X w + noise: coefficients for standardised columns, few or all, and any noise level."""
    n, p = X.shape
    mean = np.asarray(X.mean(axis=0)).ravel()
    squares = X.multiply(X).mean(axis=0) if sparse.issparse(X) else np.einsum("ij,ij->j", X, X) / n
    deviation = np.sqrt(np.maximum(np.asarray(squares).ravel() - mean**2, 0.0))
    coef = rng.standard_normal((p, n_targets))
    coef[rng.uniform(size=p) > rng.choice([0.02, 0.3, 1.0])] = 0.0
    coef /= np.where(deviation > 0, deviation, np.inf)[:, None]
    signal = X @ coef
    spread = signal.std(axis=0)
    noise = np.where(spread > 0, spread, 1.0) * 10.0 ** rng.uniform(-1.5, 1.0)
    y = signal + noise * (rng.standard_normal((n, n_targets)) + 3.0)
    return y.ravel() if n_targets == 1 else y


def largest_eigenvalue(X: Matrix) -> float:
    """That of the centred X'X, from a few power iterations."""
    problem = Problem(X, np.zeros(X.shape[0]), 1.0, 1, 0)
    v = np.random.default_rng(0).standard_normal((X.shape[1], 2))
    value = 1.0
    for _ in range(6):
        v = linalg.qr(adjoint(problem, product(problem, v)), mode="economic")[0]
        value = float(np.square(linalg.norm(product(problem, v), axis=0)).max())
    return max(value, np.finfo(np.float32).tiny)
