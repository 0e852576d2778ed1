"""Stage 1 from a sample of the rows: no pass at all.

The eigenvectors of a sample's Gram matrix are nearly those of X'X where these stand out, and its
eigenvalues tell, before any pass, what there is to be iterated away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ling.design import Array, RowMap
from ling.design.gram import form_gram
from ling.engines.base import Effort
from ling.engines.sketch import (
    FEW,
    TINY,
    Expected,
    Sketch,
    cheapest,
    in_units,
    iterations,
    nystrom,
    products_with,
    scale_of,
)
from ling.engines.thin import orthonormal
from ling.minorant import sum_noise
from ling.problem import Problem

SIZES = 64, 128, 256, 512, 1024
# A first sample is not to take longer than so many passes.
FIRST = 1.5
# An eigenvalue of the sample stands out if it is so much above what noise alone would make.
CLEAR = 1.5
# What leaks of directions that a sample does not get quite right, in units of its noise.
LEAK = 1.6


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of X D^-1/2, and the eigenvalues, largest first, and -vectors of their products."""

    rows: NDArray[np.intp]
    matrix: Array
    values: Array
    vectors: Array

    @property
    def size(self) -> int:
        """Rows."""
        return len(self.rows)


def sketch_from_sample(problem: Problem, effort: Effort) -> tuple[Sketch, Expected]:
    """The sketch of a sample that is as large as pays, made exact by one pass if that pays."""
    scale = scale_of(problem)
    size = first_size(problem, effort)
    while True:
        sample = draw(problem, scale, size, effort.rng)
        spectrum = estimate(problem, sample, in_units(problem, scale), effort.most)
        outlook = Outlook(problem, effort, spectrum, scale)
        now, exact = outlook.with_sample(size), outlook.made_exact()
        larger = {s: outlook.with_larger(s) for s in SIZES if size < s <= problem.shape[0] // 4}
        best = cheapest([now, exact, *larger.values()])
        if best is now or now.cost > 4 * effort.worth:  # no sample will help
            return sketch_of(problem, sample, scale, spectrum), now
        if best is exact:
            return made_exact(problem, sample, scale, len(spectrum.strong)), exact
        size = next(s for s, option in larger.items() if option is best)


def strong_directions(problem: Problem, rng: np.random.Generator, most: int) -> Array:
    """Orthonormal directions, up to `most`, in which X stands out, as some rows show; no pass."""
    n, p = problem.shape
    size = min(SIZES[1], n)
    scale = scale_of(problem)
    sample = draw(problem, scale, size, rng)
    spectrum = estimate(problem, sample, in_units(problem, scale), most)
    rank = len(spectrum.strong)
    if not rank:
        return np.zeros((p, 0))
    return orthonormal(scale[:, None] * (sample.matrix.T @ sample.vectors[:, :rank]))


def first_size(problem: Problem, effort: Effort) -> int:
    """The largest sample that takes no longer than a pass or two."""
    n, p = problem.shape
    cheap = [s for s in SIZES[:4] if work(s, p) <= FIRST * effort.blas]
    return min(n, max(SIZES[0], n // 4), max(cheap, default=SIZES[0]))


def work(size: int, p: int) -> float:
    """FLOPs of a sample's Gram matrix and eigenvectors, the latter as if they were as fast."""
    return 1.0 * size**2 * p + 30.0 * size**3


def draw(problem: Problem, scale: Array, size: int, rng: np.random.Generator) -> Sample:
    """A sample of that size, without repetition."""
    rows = np.sort(rng.choice(problem.shape[0], size, replace=False))
    matrix = problem.design.take(rows)
    matrix /= scale
    values, vectors = linalg.eigh(form_gram(matrix.T), check_finite=False)
    return Sample(rows, matrix, np.maximum(values[::-1], 0.0), vectors[:, ::-1])


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of the scaled X'X as a sample shows them: `strong` ones, seen one by one ...

    and a tail behind, of which it shows the sum and the sum of squares only.
    """

    strong: Array
    tail: Array

    @property
    def all(self) -> Array:
        """Largest first."""
        return np.concatenate([self.strong, self.tail])


def estimate(problem: Problem, sample: Sample, least: float, most: int) -> Spectrum:
    """What stands out of noise, and a power law behind it with the right sum and sum of squares."""
    n, p = problem.shape
    inflation = n / sample.size
    strong = standing_out(inflation * sample.values, sample.size, problem.shape, least)[:most]
    rank = len(strong)
    behind = sample.values[rank:]
    size = max(1, sample.size - rank)
    total = n * behind.sum() / size
    # Products of different rows know the sum of squares without bias: all but the diagonal ones.
    diagonal = sample.vectors[:, rank:] ** 2 @ behind
    uneven = sample.size * (diagonal @ diagonal) / max(diagonal.sum() ** 2, TINY)
    squares = n**2 * max((behind @ behind) - behind.sum() ** 2 / size * uneven, 0.0) / size**2
    count = max(0, min(n, p) - rank)
    return Spectrum(strong, power_tail(float(total), float(squares), rank, count))


def standing_out(values: Array, size: int, shape: tuple[int, int], least: float) -> Array:
    """Eigenvalues without what the tail adds to them in a sample, as far as they stand out."""
    n, p = shape
    # The tail adds its sum / size; less if the sample is a good part of all rows.
    noise = _behind(values) / np.maximum(size - np.arange(1, len(values) + 1), 1) * (1 - size / n)
    edge = (1 + np.sqrt(size / p)) ** 2
    found = (values > CLEAR * edge * noise) & (values - noise > 0.3 * least)
    rank = int(np.logical_and.accumulate(found).sum()) if len(found) else 0
    return values[:rank] - noise[rank - 1] if rank else values[:0]


def _behind(values: Array) -> Array:
    """The sum of all that follow, value by value."""
    return np.append(np.cumsum(values[::-1])[::-1][1:], 0.0)


def power_tail(total: float, squares: float, rank: int, count: int) -> Array:
    """`count` numbers like (rank + i)^-s with that sum, and as nearly as can be that of squares."""
    if not count or total <= 0:
        return np.zeros(count)
    i = np.arange(rank + 1, rank + count + 1) / (rank + 1)
    low, high = 0.0, 6.0
    for _ in range(12):
        middle = (low + high) / 2
        x = i**-middle
        if (x @ x) * total**2 < squares * x.sum() ** 2:
            low = middle
        else:
            high = middle
    x = i**-low
    return np.asarray(total / x.sum() * x)


def sketch_of(problem: Problem, sample: Sample, scale: Array, spectrum: Spectrum) -> Sketch:
    """B = D^1/2 X_s' Z diag(weights)^1/2; Z orthonormal, so that B diag(1/weights) B' <= X'X."""
    n, p = problem.shape
    rank = len(spectrum.strong)
    weights = spectrum.strong / sample.values[:rank]
    half = sample.matrix.T @ sample.vectors[:, :rank]
    squares = np.einsum("ij,ij->j", sample.matrix, sample.matrix)
    inside = np.einsum("ij,ij->i", half, half)
    left = np.maximum(squares - inside, 0.0) * (n / max(1, sample.size - rank))
    # What the sample has of a column may be too little: single rows carry it.
    missed = np.maximum(problem.column_norms**2 / scale**2 - 4 * n / sample.size * squares, 0.0)
    # With p > n all of what is left lies in n directions.
    rest = scale**2 * (left.mean() * max(1.0, p / n) + missed)
    # Rows are centred, and off by the rounding of what they were before.
    sizes = np.sqrt(squares.sum()) * np.linalg.norm(problem.raw_norms / scale)
    slack = sum_noise(sample.size, p) * float(sizes) * float((scale**2).max())
    lifted = sample.vectors[:, :rank] * np.sqrt(weights)
    return Sketch(
        scale[:, None] * half * np.sqrt(weights), rest, weights, slack, sample.rows, lifted
    )


def made_exact(problem: Problem, sample: Sample, scale: Array, rank: int) -> Sketch:
    """Nyström's approximation from the directions that stand out of the sample; one pass."""
    n, p = problem.shape
    Q = orthonormal(sample.matrix.T @ sample.vectors[:, :rank])
    rows = RowMap.identity((n, rank)) if n < p else None
    products = products_with(problem, scale, Q, rows)
    return nystrom(problem, scale, Q, products, None if rows is None else rows.seen)[0]


@dataclass(frozen=True, eq=False)
class Outlook:
    """What the iteration will cost, to judge by an estimated spectrum."""

    problem: Problem
    effort: Effort
    spectrum: Spectrum
    scale: Array

    @cached_property
    def least(self) -> float:
        """alpha in the units of the spectrum."""
        return in_units(self.problem, self.scale)

    def with_sample(self, size: int) -> Expected:
        """With the sample that the spectrum is from."""
        return self._iterating(self.spectrum, size, 0.0)

    def with_larger(self, size: int) -> Expected:
        """With a sample of another size: what stands out of that is guessed from the power law."""
        p = self.problem.shape[1]
        values = self.spectrum.all
        in_sample = (values + _behind(values) / size)[:size]
        rank = len(standing_out(in_sample, size, self.problem.shape, self.least))
        rank = min(max(rank, len(self.spectrum.strong)), self.effort.most)
        cost = (work(size, p) + 20.0 * p * rank**2) / self.effort.blas
        return self._iterating(Spectrum(values[:rank], values[rank:]), size, cost)

    def made_exact(self) -> Expected:
        """With products of X'X with what stands out: nothing leaks."""
        rank = len(self.spectrum.strong)
        if not 0 < rank <= min(self.effort.most, FEW):
            return Expected(rank, 0.0, float("inf"))
        return self._iterating(self.spectrum, None, self.effort.iteration_cost(rank))

    def _iterating(self, spectrum: Spectrum, size: int | None, cost: float) -> Expected:
        """On what is preconditioned by the strong part of X'X, known from `size` rows or all."""
        n, p = self.problem.shape
        rank, tail, least = len(spectrum.strong), spectrum.tail, self.least
        # Even a flat spectrum is not flat in n rows (Marchenko & Pastur).
        aspect = np.sqrt(min(n, p) / max(n, p))
        mean = float(tail.sum()) / min(n, p)
        top = float(tail.max(initial=0.0)) * (1 + aspect) ** 2
        bottom = float(tail[-1]) * (1 - aspect) ** 2 if tail.size else 0.0
        above, below, share = 1.0, 1.0, 1.0
        if size is not None and rank:
            q = min(np.sqrt(rank / size * (1 - size / n)), 0.9)
            above, below, share = 1 / (1 - q) ** 2, 1 / (1 + q) ** 2, size / n
            top = max(top, LEAK * above * float(tail.sum()) * (1 / size - 1 / n))
        largest = max(above, (top + least) / (mean + least))
        smallest = min(below, (bottom + least) / (mean + least))
        proof = 1.0 if n < p else min(share, least / (mean + least))
        needed = iterations(largest / smallest, proof, self.effort.tol, min(n, p))
        return Expected(rank, needed, cost + self.effort.iterating(needed, self.problem.n_targets))
