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

from ling._typing import Array
from ling.design import AffineRowTransform
from ling.linalg.gram import form_gram
from ling.linalg.orthogonalize import orthonormalize
from ling.linalg.rounding import sum_noise
from ling.solvers.engine import EngineBudget
from ling.solvers.problem import Problem
from ling.solvers.sketch import (
    FLOAT64_TINY,
    MAX_COMPILED_COLUMNS,
    Forecast,
    Sketch,
    alpha_in_scaled_units,
    cheapest_forecast,
    column_scales,
    forecast_iterations,
    nystrom_sketch,
    scaled_gram_matmat,
)

SAMPLE_SIZES = 64, 128, 256, 512, 1024
# A first sample is not to take longer than so many passes.
MAX_FIRST_SAMPLE_PASSES = 1.5
# An eigenvalue of the sample stands out if it is so much above what noise alone would make.
SPIKE_THRESHOLD_FACTOR = 1.5
# What leaks of directions that a sample does not get quite right, in units of its noise.
LEAKAGE_FACTOR = 1.6


@dataclass(frozen=True, eq=False)
class RowSample:
    """Some rows of X D^-1/2, and the eigenvalues, largest first, and -vectors of their products."""

    rows: NDArray[np.intp]
    scaled_rows: Array
    eigenvalues: Array
    eigenvectors: Array

    @property
    def n_rows(self) -> int:
        """Rows."""
        return len(self.rows)


def row_sample_sketch(problem: Problem, budget: EngineBudget) -> tuple[Sketch, Forecast]:
    """The sketch of a sample that is as large as pays, made exact by one pass if that pays."""
    scale = column_scales(problem)
    size = initial_sample_size(problem, budget)
    while True:
        sample = draw_row_sample(problem, scale, size, budget.rng)
        spectrum = estimate_spectrum(
            problem, sample, alpha_in_scaled_units(problem, scale), budget.max_rank
        )
        outlook = IterationForecast(problem, budget, spectrum, scale)
        now, exact = outlook.for_sample(size), outlook.for_nystrom()
        larger = {
            s: outlook.for_larger_sample(s)
            for s in SAMPLE_SIZES
            if size < s <= problem.shape[0] // 4
        }
        best = cheapest_forecast([now, exact, *larger.values()])
        if best is now or now.cost > 4 * budget.max_passes:  # no sample will help
            return sketch_from_spectrum(problem, sample, scale, spectrum), now
        if best is exact:
            return nystrom_from_sample(problem, sample, scale, len(spectrum.leading)), exact
        size = next(s for s, option in larger.items() if option is best)


def leading_directions(problem: Problem, rng: np.random.Generator, most: int) -> Array:
    """Orthonormal directions, up to `most`, in which X stands out, as some rows show; no pass."""
    n, p = problem.shape
    size = min(SAMPLE_SIZES[1], n)
    scale = column_scales(problem)
    sample = draw_row_sample(problem, scale, size, rng)
    spectrum = estimate_spectrum(problem, sample, alpha_in_scaled_units(problem, scale), most)
    rank = len(spectrum.leading)
    if not rank:
        return np.zeros((p, 0))
    return orthonormalize(scale[:, None] * (sample.scaled_rows.T @ sample.eigenvectors[:, :rank]))


def initial_sample_size(problem: Problem, budget: EngineBudget) -> int:
    """The largest sample that takes no longer than a pass or two."""
    n, p = problem.shape
    cheap = [
        s
        for s in SAMPLE_SIZES[:4]
        if sampling_flops(s, p) <= MAX_FIRST_SAMPLE_PASSES * budget.blas_flops_per_pass
    ]
    return min(n, max(SAMPLE_SIZES[0], n // 4), max(cheap, default=SAMPLE_SIZES[0]))


def sampling_flops(size: int, p: int) -> float:
    """FLOPs of a sample's Gram matrix and eigenvectors, the latter as if they were as fast."""
    return 1.0 * size**2 * p + 30.0 * size**3


def draw_row_sample(
    problem: Problem, scale: Array, size: int, rng: np.random.Generator
) -> RowSample:
    """A sample of that size, without repetition."""
    rows = np.sort(rng.choice(problem.shape[0], size, replace=False))
    matrix = problem.design.take(rows)
    matrix /= scale
    values, vectors = linalg.eigh(form_gram(matrix.T), check_finite=False)
    return RowSample(rows, matrix, np.maximum(values[::-1], 0.0), vectors[:, ::-1])


@dataclass(frozen=True, eq=False)
class SpectrumEstimate:
    """Eigenvalues of the scaled X'X as a sample shows them: `strong` ones, seen one by one ...

    and a tail behind, of which it shows the sum and the sum of squares only.
    """

    leading: Array
    tail: Array

    @property
    def eigenvalues(self) -> Array:
        """Largest first."""
        return np.concatenate([self.leading, self.tail])


def estimate_spectrum(
    problem: Problem, sample: RowSample, least: float, most: int
) -> SpectrumEstimate:
    """What stands out of noise, and a power law behind it with the right sum and sum of squares."""
    n, p = problem.shape
    inflation = n / sample.n_rows
    strong = detect_spikes(inflation * sample.eigenvalues, sample.n_rows, problem.shape, least)[
        :most
    ]
    rank = len(strong)
    behind = sample.eigenvalues[rank:]
    size = max(1, sample.n_rows - rank)
    total = n * behind.sum() / size
    # Products of different rows know the sum of squares without bias: all but the diagonal ones.
    diagonal = sample.eigenvectors[:, rank:] ** 2 @ behind
    uneven = sample.n_rows * (diagonal @ diagonal) / max(diagonal.sum() ** 2, FLOAT64_TINY)
    squares = n**2 * max((behind @ behind) - behind.sum() ** 2 / size * uneven, 0.0) / size**2
    count = max(0, min(n, p) - rank)
    return SpectrumEstimate(strong, fit_power_law_tail(float(total), float(squares), rank, count))


def detect_spikes(values: Array, size: int, shape: tuple[int, int], least: float) -> Array:
    """Eigenvalues without what the tail adds to them in a sample, as far as they stand out."""
    n, p = shape
    # The tail adds its sum / size; less if the sample is a good part of all rows.
    noise = tail_sums(values) / np.maximum(size - np.arange(1, len(values) + 1), 1) * (1 - size / n)
    edge = (1 + np.sqrt(size / p)) ** 2
    found = (values > SPIKE_THRESHOLD_FACTOR * edge * noise) & (values - noise > 0.3 * least)
    rank = int(np.logical_and.accumulate(found).sum()) if len(found) else 0
    return values[:rank] - noise[rank - 1] if rank else values[:0]


def tail_sums(values: Array) -> Array:
    """The sum of all that follow, value by value."""
    return np.append(np.cumsum(values[::-1])[::-1][1:], 0.0)


def fit_power_law_tail(total: float, squares: float, rank: int, count: int) -> Array:
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


def sketch_from_spectrum(
    problem: Problem, sample: RowSample, scale: Array, spectrum: SpectrumEstimate
) -> Sketch:
    """B = D^1/2 X_s' Z diag(weights)^1/2; Z orthonormal, so that B diag(1/weights) B' <= X'X."""
    n, p = problem.shape
    rank = len(spectrum.leading)
    weights = spectrum.leading / sample.eigenvalues[:rank]
    half = sample.scaled_rows.T @ sample.eigenvectors[:, :rank]
    squares = np.einsum("ij,ij->j", sample.scaled_rows, sample.scaled_rows)
    inside = np.einsum("ij,ij->i", half, half)
    left = np.maximum(squares - inside, 0.0) * (n / max(1, sample.n_rows - rank))
    # What the sample has of a column may be too little: single rows carry it.
    missed = np.maximum(problem.column_norms**2 / scale**2 - 4 * n / sample.n_rows * squares, 0.0)
    # With p > n all of what is left lies in n directions.
    rest = scale**2 * (left.mean() * max(1.0, p / n) + missed)
    # Rows are centred, and off by the rounding of what they were before.
    sizes = np.sqrt(squares.sum()) * np.linalg.norm(problem.raw_column_norms / scale)
    slack = sum_noise(sample.n_rows, p) * float(sizes) * float((scale**2).max())
    lifted = sample.eigenvectors[:, :rank] * np.sqrt(weights)
    return Sketch(
        scale[:, None] * half * np.sqrt(weights), rest, weights, slack, sample.rows, lifted
    )


def nystrom_from_sample(problem: Problem, sample: RowSample, scale: Array, rank: int) -> Sketch:
    """Nyström's approximation from the directions that stand out of the sample; one pass."""
    n, p = problem.shape
    Q = orthonormalize(sample.scaled_rows.T @ sample.eigenvectors[:, :rank])
    rows = AffineRowTransform.identity((n, rank)) if n < p else None
    products = scaled_gram_matmat(problem, scale, Q, rows)
    return nystrom_sketch(problem, scale, Q, products, None if rows is None else rows.row_output)[0]


@dataclass(frozen=True, eq=False)
class IterationForecast:
    """What the iteration will cost, to judge by an estimated spectrum."""

    problem: Problem
    budget: EngineBudget
    spectrum: SpectrumEstimate
    scale: Array

    @cached_property
    def scaled_alpha(self) -> float:
        """alpha in the units of the spectrum."""
        return alpha_in_scaled_units(self.problem, self.scale)

    def for_sample(self, size: int) -> Forecast:
        """With the sample that the spectrum is from."""
        return self._forecast(self.spectrum, size, 0.0)

    def for_larger_sample(self, size: int) -> Forecast:
        """With a sample of another size: what stands out of that is guessed from the power law."""
        p = self.problem.shape[1]
        values = self.spectrum.eigenvalues
        in_sample = (values + tail_sums(values) / size)[:size]
        rank = len(detect_spikes(in_sample, size, self.problem.shape, self.scaled_alpha))
        rank = min(max(rank, len(self.spectrum.leading)), self.budget.max_rank)
        cost = (sampling_flops(size, p) + 20.0 * p * rank**2) / self.budget.blas_flops_per_pass
        return self._forecast(SpectrumEstimate(values[:rank], values[rank:]), size, cost)

    def for_nystrom(self) -> Forecast:
        """With products of X'X with what stands out: nothing leaks."""
        rank = len(self.spectrum.leading)
        if not 0 < rank <= min(self.budget.max_rank, MAX_COMPILED_COLUMNS):
            return Forecast(rank, 0.0, float("inf"))
        return self._forecast(self.spectrum, None, self.budget.iteration_cost(rank))

    def _forecast(self, spectrum: SpectrumEstimate, size: int | None, cost: float) -> Forecast:
        """On what is preconditioned by the strong part of X'X, known from `size` rows or all."""
        n, p = self.problem.shape
        rank, tail, least = len(spectrum.leading), spectrum.tail, self.scaled_alpha
        # Even a flat spectrum is not flat in n rows (Marchenko & Pastur).
        aspect = np.sqrt(min(n, p) / max(n, p))
        mean = float(tail.sum()) / min(n, p)
        top = float(tail.max(initial=0.0)) * (1 + aspect) ** 2
        bottom = float(tail[-1]) * (1 - aspect) ** 2 if tail.size else 0.0
        above, below, share = 1.0, 1.0, 1.0
        if size is not None and rank:
            q = min(np.sqrt(rank / size * (1 - size / n)), 0.9)
            above, below, share = 1 / (1 - q) ** 2, 1 / (1 + q) ** 2, size / n
            top = max(top, LEAKAGE_FACTOR * above * float(tail.sum()) * (1 / size - 1 / n))
        largest = max(above, (top + least) / (mean + least))
        smallest = min(below, (bottom + least) / (mean + least))
        proof = 1.0 if n < p else min(share, least / (mean + least))
        needed = forecast_iterations(largest / smallest, proof, self.budget.tol, min(n, p))
        return Forecast(
            rank, needed, cost + self.budget.total_iteration_cost(needed, self.problem.n_targets)
        )
