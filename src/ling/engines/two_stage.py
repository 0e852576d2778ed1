"""LING's two stages on the original problem: a sketch of X'X, then conjugate gradients.

Stage 1 multiplies X'X with random directions; Nyström's approximation from them holds the strong
directions of X. It serves twice: in the preconditioner of stage 2, and, because it lies below X'X,
in the bound. The sketch is of columns of equal length, D^-1/2 X'X D^-1/2, D = diag(X'X) + alpha, so
that the units of the features do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ling.design import Array, DenseDesign, RowMap
from ling.engines.base import Candidate, Effort
from ling.engines.conjugate import Preconditioner, conjugate_gradients
from ling.engines.thin import thin_svd
from ling.minorant import EPS, LowRank, Minorant, Nothing, nystrom_slack, product_noise
from ling.problem import Problem

FIRST = 16
STRONGEST = 1e10
# The copy costs about as much as this many passes save.
WORTH_A_COPY = 14
# The share of a sketch's directions that it holds well.
CAUGHT = 0.7


@dataclass(frozen=True, eq=False)
class Sketch:
    """B B' <= D^-1/2 X'X D^-1/2, `scale` being the diagonal of D^1/2.

    `products` are that matrix times the orthonormal `directions`, `values` the eigenvalues of B B',
    largest first, `slack` what rounding may have put B B' above.
    """

    scale: Array
    directions: Array
    products: Array
    B: Array
    values: Array
    slack: float

    @property
    def rank(self) -> int:
        """Directions kept."""
        return int(self.B.shape[1])

    def least(self, alpha: float) -> float:
        """alpha in the units of the scaled matrix, in the mean."""
        return alpha * float(np.mean(1 / self.scale**2))

    @property
    def exhausted(self) -> bool:
        """Whether more directions would find nothing above alpha."""
        return self.rank < int(self.directions.shape[1])


@dataclass(frozen=True)
class Expected:
    """A rank, the iterations that remain then, and what both cost from here on, in passes."""

    rank: int
    iterations: float
    cost: float


def two_stage(problem: Problem, effort: Effort) -> Candidate:
    """Sketch to a rank that pays, then iterate; passes: 1 to 6 for the sketch, 1 an iteration.

    Many iterations are done on a copy of X in float32, where memory allows, which is read twice as
    fast. What that costs in accuracy is seen by the certificate, and made up for in another round.
    """
    sketch, expected = adaptive_sketch(problem, effort)
    if expected.cost > 1.5 * effort.worth and effort.start is None:
        return Candidate(np.zeros_like(problem.moments), rank=sketch.rank, gave_up=True)
    minorant = minorant_of(sketch)
    copied = effort.single and expected.iterations > WORTH_A_COPY
    found = conjugate_gradients(
        problem,
        preconditioner(problem, sketch, minorant),
        minorant,
        tol=effort.tol,
        max_iter=effort.max_iter,
        worth=effort.worth / effort.iteration_cost(problem.n_targets),
        start=effort.start,
        design=problem.in_single().design if copied else None,
    )
    if copied and found.proved is not None:
        # The proof is for the copy Z = X + E. X'X >= (Z'Z - 11 E'E) / 1.1, and E is small; also
        # X'X + alpha I >= least P makes that of Z at least least P / 1.21.
        error = 11 * 2.0**-48 * float((problem.safe_norms**2).sum()) / problem.alphas
        found = replace(found, proved=np.where(error < 0.1, 1.25, np.inf) * found.proved)
    return replace(found, rank=sketch.rank)


def preconditioner(problem: Problem, sketch: Sketch, minorant: Minorant) -> Preconditioner:
    """P^-1 for P = F F' + diag(rest + alpha), F = D^1/2 B, which agrees with X'X on the diagonal.

    Where the sketch holds everything above alpha, `rest` is next to nothing; where it holds little,
    P is the diagonal, and conjugate gradients are those of columns of equal length. With more
    features than samples only a constant `rest` keeps the iteration in the range of X', outside of
    which X'X + alpha I is as small as alpha.
    """
    F = sketch.scale[:, None] * sketch.B
    rest = np.maximum(problem.column_norms**2 - np.einsum("ij,ij->i", F, F), 0.0)
    if problem.shape[0] < problem.shape[1]:
        rest = np.full_like(rest, rest.mean())
    parts = {}
    for alpha in problem.distinct_alphas:
        root = np.sqrt(rest + alpha)
        U, S = thin_svd(F / root[:, None])
        # I - U diag(weights) U' is one fused sweep over U'.
        strong = DenseDesign(np.ascontiguousarray(U.T), compiled=problem.compiled)
        # Where S is large 1 - weight is lost to rounding; a P that is smaller there is as safe.
        squares = np.minimum(S**2, STRONGEST)
        parts[float(alpha)] = root[:, None], strong, squares / (1 + squares)

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = np.empty_like(R)
        for alpha, (root, strong, weights) in parts.items():
            mine = problem.alphas[targets] == alpha
            S = R[:, mine] / root
            shape = (len(weights), S.shape[1])
            rows = RowMap.of(np.ones(len(weights)), np.zeros(shape), weights)
            Z[:, mine] = (S - strong.gram_matmat(S, rows)) / root
        return Z

    # X'X + alpha I >= F F' + (alpha - slack) I, and P is at most F F' + (largest rest + alpha) I.
    slack = minorant.slack if isinstance(minorant, LowRank) else 0.0
    least = (problem.alphas - slack) / (rest.max(initial=0.0) + problem.alphas)
    trace = float(np.einsum("ij,ij->", F, F)) + rest.max(initial=0.0)
    tiny = problem.alphas / (trace + problem.alphas)
    return Preconditioner(apply, np.where(slack < problem.alphas / 2, least, tiny))


def minorant_of(sketch: Sketch) -> Minorant:
    """D^1/2 B B' D^1/2 with orthonormal factors."""
    if not sketch.rank:
        return Nothing()
    U, S = thin_svd(sketch.scale[:, None] * sketch.B)
    return LowRank(U, S**2, sketch.slack * float((sketch.scale**2).max()))


def adaptive_sketch(problem: Problem, effort: Effort) -> tuple[Sketch, Expected]:
    """Double the rank for as long as fewer iterations are expected to pay for it."""
    n, p = problem.shape
    alpha = float(problem.alphas.min())
    # A column that is constant but for rounding is not made to look like the others.
    rounding = EPS * problem.raw_norms.max(initial=0.0)
    scale = np.maximum(np.sqrt(problem.column_norms**2 + alpha), rounding)
    scale[scale == 0] = 1.0
    none = np.zeros((p, 0))
    sketch = Sketch(scale, none, none, none, np.zeros(0), 0.0)
    first = FIRST if effort.column_cost < 1 else FIRST // 2
    expected = Expected(min(first, p, n), 0.0, 0.0)
    while expected.rank > sketch.directions.shape[1]:
        more = min(expected.rank, max(2 * sketch.directions.shape[1], first))
        sketch = _grow(problem, sketch, more - sketch.directions.shape[1], alpha, effort.rng)
        expected = _expected(problem, sketch, alpha, effort)
    return sketch, expected


def _grow(
    problem: Problem, old: Sketch, more: int, alpha: float, rng: np.random.Generator
) -> Sketch:
    """The sketch with `more` random directions; one pass."""
    scale = old.scale[:, None]
    fresh: Array = rng.standard_normal((len(scale), more))
    fresh -= old.directions @ (old.directions.T @ fresh)
    fresh = linalg.qr(fresh, mode="economic", overwrite_a=True, check_finite=False)[0]
    product = problem.design.gram_matmat(np.ascontiguousarray(fresh / scale)) / scale
    directions = np.hstack([old.directions, fresh])
    products = np.hstack([old.products, product])
    core = directions.T @ products
    theta, Z = linalg.eigh((core + core.T) / 2, check_finite=False)
    # Directions below alpha help nobody, and would only amplify rounding.
    kept = theta > max(1e-13 * theta[-1], 0.1 * old.least(alpha))
    B = products @ (Z[:, kept] / np.sqrt(theta[kept]))
    values = np.maximum(linalg.eigvalsh(B.T @ B, check_finite=False)[::-1], 0.0)
    largest = max(values[:1].max(initial=0.0), float((problem.raw_norms**2 / old.scale**2).max()))
    slack = nystrom_slack(B, theta[kept], product_noise(problem.shape) * largest)
    return Sketch(old.scale, directions, products, B, values, slack)


def _expected(problem: Problem, sketch: Sketch, alpha: float, effort: Effort) -> Expected:
    """The rank at which sketching and iterating together are expected to cost least.

    Beyond the sketch the eigenvalues are taken to fall like a power of their index, such that they
    add up to what is left of the trace.
    """
    have = sketch.directions.shape[1]
    n, p = problem.shape
    if sketch.exhausted or not sketch.rank:
        return Expected(have, 0.0, 0.0)
    least = sketch.least(alpha)
    trace = float((problem.column_norms**2 / sketch.scale**2).sum())
    # The first half of the values is right; the second half suffers from what is not in the sketch.
    half, count = max(1, sketch.rank // 2), min(n, p)
    last = sketch.values[half - 1]
    decay = _decay((trace - sketch.values[:half].sum()) / last, half, count)
    end = last * (half / count) ** decay
    digits = np.log(2 / max(effort.tol, EPS)) + 2
    # Even a flat spectrum is not flat in a sample (Marchenko & Pastur).
    aspect = np.sqrt(count / max(n, p))
    blur = ((1 + aspect) / max(1 - aspect, 0.1)) ** 2

    def at(rank: int) -> Expected:
        tail = last * (half / max(half, CAUGHT * rank)) ** decay
        condition = min(blur * (tail + least) / (end + least), (tail + least) / least)
        iterations = min(float(0.5 * np.sqrt(condition) * digits) + 1, 2.0 * count)
        cost = effort.column_cost * (rank - have)
        return Expected(rank, iterations, cost + iterations * effort.iteration_cost(t))

    t = problem.n_targets
    largest = min(effort.most, p // 2, n)
    ranks = [have] + [r for r in (2 * have, 4 * have, 8 * have) if r <= largest]
    return min((at(rank) for rank in ranks), key=lambda e: e.cost)


def _decay(left: float, first: int, count: int) -> float:
    """s such that (first / i)^s sums to `left` over first < i <= count; by bisection."""
    i = np.arange(first + 1, count + 1)
    low, high = 0.0, 12.0
    if not i.size or left >= i.size:
        return low
    for _ in range(20):
        middle = (low + high) / 2
        if np.sum((first / i) ** middle) > left:
            low = middle
        else:
            high = middle
    return low
