"""Stage 1 from a sample of the rows of X, without a pass.

The leading eigenvectors of a sample's Gram matrix are close to those of X'X where they stand out of
the noise. Its eigenvalues allow a forecast of the number of iterations before any pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.dense import MAX_COMPILED_COLUMNS
from ling.linalg.decompositions import eigh
from ling.linalg.gram import form_gram
from ling.linalg.ritz import orthonormalize
from ling.linalg.rounding import sum_noise
from ling.solvers.cost_model import LOOK_ROWS, MAX_SAMPLE_ROWS, sampling_flops
from ling.solvers.engine import EngineBudget, as_generator
from ling.solvers.nystrom import (
    FLOAT64_TINY,
    Forecast,
    Sketch,
    alpha_in_scaled_units,
    cheapest_forecast,
    column_scales,
    forecast_iterations,
    nystrom_sketch,
    scaled_gram_matmat,
)
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem

# Rows; the sizes of sample that are tried.
SAMPLE_SIZES = LOOK_ROWS, 128, 256, 512, MAX_SAMPLE_ROWS
# Cost limit of the first sample, in passes.
MAX_FIRST_SAMPLE_PASSES = 1.5
# An eigenvalue of the sample counts as a spike if it exceeds the upper edge of the noise by this
# factor.
SPIKE_THRESHOLD_FACTOR = 1.5
# Leakage of leading directions that a sample captures inaccurately, in units of its noise.
LEAKAGE_FACTOR = 1.6


@dataclass(frozen=True, eq=False)
class RowSample:
    """A sample of s rows of X D^-1/2, with the eigendecomposition of its (s, s) kernel matrix.

    `rows` are their indices and `scaled_rows` their values (s, p). `eigenvalues` (s,) are sorted,
    largest first; `eigenvectors` (s, s) are in the same order.
    """

    rows: NDArray[np.intp]
    scaled_rows: Array
    eigenvalues: Array
    eigenvectors: Array

    @property
    def n_rows(self) -> int:
        """Number of rows in the sample."""
        return len(self.rows)


def row_sample_sketch(
    problem: Problem, options: FitOptions, budget: EngineBudget
) -> tuple[Sketch, Forecast]:
    """Sketch of X'X from a row sample of the cheapest size, and the forecast for its iterations.

    The sample grows while the forecast expects to save more than it costs. If the forecast is lower
    with a Nyström sketch of the sample's leading directions, that is made instead; one pass.
    """
    scale = column_scales(problem)
    size = initial_sample_size(problem, budget)
    rng = as_generator(options.random_state)
    while True:
        sample = draw_row_sample(problem, scale, size, rng)
        spectrum = estimate_spectrum(
            problem, sample, alpha_in_scaled_units(problem, scale), budget.max_rank
        )
        forecasts = IterationForecast(problem, options.tol, budget, spectrum, scale)
        from_sample, from_nystrom = forecasts.for_sample(size), forecasts.for_nystrom()
        larger = {
            s: forecasts.for_larger_sample(s)
            for s in SAMPLE_SIZES
            if size < s <= min(problem.shape[0] // 4, budget.max_sample_rows)
        }
        best = cheapest_forecast([from_sample, from_nystrom, *larger.values()])
        if (
            best is from_sample or from_sample.cost > 4 * budget.max_passes
        ):  # hopeless: no sample will help
            return sketch_from_spectrum(problem, sample, scale, spectrum), from_sample
        if best is from_nystrom:
            return nystrom_from_sample(problem, sample, scale, len(spectrum.leading)), from_nystrom
        size = next(s for s, option in larger.items() if option is best)


def leading_directions(problem: Problem, rng: np.random.Generator, most: int) -> Array:
    """Orthonormal leading directions (p, k) of X, k <= most, from a row sample; no pass."""
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
    """The largest sample size, in rows, that costs at most MAX_FIRST_SAMPLE_PASSES."""
    n, p = problem.shape
    cheap = [
        s
        for s in SAMPLE_SIZES[:4]
        if s <= budget.max_sample_rows
        and sampling_flops(s, p) <= MAX_FIRST_SAMPLE_PASSES * budget.costs.blas_flops_per_pass
    ]
    return min(n, max(SAMPLE_SIZES[0], n // 4), max(cheap, default=SAMPLE_SIZES[0]))


def draw_row_sample(
    problem: Problem, scale: Array, size: int, rng: np.random.Generator
) -> RowSample:
    """Draw `size` rows without replacement and decompose their kernel matrix."""
    rows = np.sort(rng.choice(problem.shape[0], size, replace=False))
    matrix = problem.design.take(rows)
    matrix /= scale
    values, vectors = eigh(form_gram(matrix.T))
    return RowSample(rows, matrix, np.maximum(values[::-1], 0.0), vectors[:, ::-1])


@dataclass(frozen=True, eq=False)
class SpectrumEstimate:
    """Eigenvalues of the scaled X'X, estimated from a row sample, largest first.

    `leading` holds the eigenvalues that the sample resolves one by one. `tail` is a power law,
    because the sample determines only the sum and the sum of squares of the others.
    """

    leading: Array
    tail: Array

    @property
    def eigenvalues(self) -> Array:
        """All eigenvalues, largest first."""
        return np.concatenate([self.leading, self.tail])


def estimate_spectrum(
    problem: Problem, sample: RowSample, least: float, most: int
) -> SpectrumEstimate:
    """Estimate the spectrum: up to `most` spikes, then a power law with matching moments.

    `least` is alpha in scaled units; smaller eigenvalues do not matter. The tail matches unbiased
    estimates of its sum and of its sum of squares.
    """
    n, p = problem.shape
    inflation = n / sample.n_rows
    leading = detect_spikes(inflation * sample.eigenvalues, sample.n_rows, problem.shape, least)[
        :most
    ]
    rank = len(leading)
    tail = sample.eigenvalues[rank:]
    tail_size = max(1, sample.n_rows - rank)
    tail_sum = n * tail.sum() / tail_size
    # The products of different rows, the off-diagonal entries, estimate the sum of squares without
    # bias. The diagonal ones do not, so their part is subtracted.
    diagonal = sample.eigenvectors[:, rank:] ** 2 @ tail
    unevenness = sample.n_rows * (diagonal @ diagonal) / max(diagonal.sum() ** 2, FLOAT64_TINY)
    off_diagonal = float((tail @ tail) - tail.sum() ** 2 / tail_size * unevenness)
    tail_squares = n**2 * max(off_diagonal, 0.0) / tail_size**2
    count = max(0, min(n, p) - rank)
    return SpectrumEstimate(leading, fit_power_law_tail(float(tail_sum), tail_squares, rank, count))


def detect_spikes(values: Array, size: int, shape: tuple[int, int], least: float) -> Array:
    """The spikes among sample eigenvalues, corrected for the noise that the tail adds to them.

    `values` are sorted, largest first, and scaled to all n rows; `size` is the number of sampled
    rows. A spike exceeds the noise edge, and alpha in scaled units, `least`, times 0.3.
    """
    n, p = shape
    # The tail adds its sum / size, and less if the sample is a large fraction of all rows.
    noise = tail_sums(values) / np.maximum(size - np.arange(1, len(values) + 1), 1) * (1 - size / n)
    edge = (1 + np.sqrt(size / p)) ** 2
    is_spike = (values > SPIKE_THRESHOLD_FACTOR * edge * noise) & (values - noise > 0.3 * least)
    rank = int(np.logical_and.accumulate(is_spike).sum()) if len(is_spike) else 0
    return values[:rank] - noise[rank - 1] if rank else values[:0]


def tail_sums(values: Array) -> Array:
    """For each value, the sum of the values after it."""
    return np.append(np.cumsum(values[::-1])[::-1][1:], 0.0)


def fit_power_law_tail(total: float, squares: float, rank: int, count: int) -> Array:
    """`count` numbers proportional to (rank + i)^-s that sum to `total`.

    s is chosen by bisection so that their sum of squares is as close to `squares` as possible.
    """
    if not count or total <= 0:
        return np.zeros(count)
    i = np.arange(rank + 1, rank + count + 1) / (rank + 1)
    low, high = 0.0, 6.0
    for _ in range(12):
        exponent = (low + high) / 2
        powers = i**-exponent
        if (powers @ powers) * total**2 < squares * powers.sum() ** 2:
            low = exponent
        else:
            high = exponent
    powers = i**-low
    return np.asarray(total / powers.sum() * powers)


def sketch_from_spectrum(
    problem: Problem, sample: RowSample, scale: Array, spectrum: SpectrumEstimate
) -> Sketch:
    """Sketch B = D^1/2 X_s' Z diag(weights)^1/2 from the sampled rows X_s of X D^-1/2.

    Z, the leading eigenvectors, has orthonormal columns, so that B diag(1/weights) B' <= X'X.
    """
    n, p = problem.shape
    rank = len(spectrum.leading)
    weights = spectrum.leading / sample.eigenvalues[:rank]
    projected = sample.scaled_rows.T @ sample.eigenvectors[:, :rank]
    squares = np.einsum("ij,ij->j", sample.scaled_rows, sample.scaled_rows)
    captured = np.einsum("ij,ij->i", projected, projected)
    residual = np.maximum(squares - captured, 0.0) * (n / max(1, sample.n_rows - rank))
    # The sample may miss most of a column whose norm comes from a few rows.
    missed = np.maximum(problem.column_norms**2 / scale**2 - 4 * n / sample.n_rows * squares, 0.0)
    # With p > n the residual of X'X lies in n directions.
    rest = scale**2 * (residual.mean() * max(1.0, p / n) + missed)
    # The rows are centred; their rounding error is relative to their values before centring.
    error_scale = np.sqrt(squares.sum()) * np.linalg.norm(problem.raw_column_norms / scale)
    slack = sum_noise(sample.n_rows, p) * float(error_scale) * float((scale**2).max())
    dual_factor = sample.eigenvectors[:, :rank] * np.sqrt(weights)
    return Sketch(
        scale[:, None] * projected * np.sqrt(weights),
        rest,
        weights,
        slack,
        sample.rows,
        dual_factor,
    )


def nystrom_from_sample(problem: Problem, sample: RowSample, scale: Array, rank: int) -> Sketch:
    """Nyström sketch from the `rank` leading directions of the sample; one pass."""
    n, p = problem.shape
    Q = orthonormalize(sample.scaled_rows.T @ sample.eigenvectors[:, :rank])
    if n >= p:
        return nystrom_sketch(problem, scale, Q, scaled_gram_matmat(problem, scale, Q))[0]
    V = np.ascontiguousarray(Q / scale[:, None])
    products, rows = problem.design.gram_matmat_with_rows(V)
    return nystrom_sketch(problem, scale, Q, products / scale[:, None], rows)[0]


@dataclass(frozen=True, eq=False)
class IterationForecast:
    """Forecasts the cost of the iteration from an estimated spectrum."""

    problem: Problem
    tol: float
    budget: EngineBudget
    spectrum: SpectrumEstimate
    scale: Array

    @cached_property
    def scaled_alpha(self) -> float:
        """The smallest alpha in the units of the spectrum."""
        return alpha_in_scaled_units(self.problem, self.scale)

    def for_sample(self, size: int) -> Forecast:
        """Forecast with the current sample, which the spectrum was estimated from."""
        return self._forecast(self.spectrum, size, 0.0)

    def for_larger_sample(self, size: int) -> Forecast:
        """Forecast with a larger sample, whose spikes are predicted from the power law."""
        p = self.problem.shape[1]
        values = self.spectrum.eigenvalues
        in_sample = (values + tail_sums(values) / size)[:size]
        rank = len(detect_spikes(in_sample, size, self.problem.shape, self.scaled_alpha))
        rank = min(max(rank, len(self.spectrum.leading)), self.budget.max_rank)
        cost = (
            sampling_flops(size, p) + 20.0 * p * rank**2
        ) / self.budget.costs.blas_flops_per_pass
        return self._forecast(SpectrumEstimate(values[:rank], values[rank:]), size, cost)

    def for_nystrom(self) -> Forecast:
        """Forecast with a Nyström sketch of the leading directions, which has no leakage."""
        rank = len(self.spectrum.leading)
        if not 0 < rank <= min(self.budget.max_rank, MAX_COMPILED_COLUMNS):
            return Forecast(rank, 0.0, float("inf"))
        return self._forecast(self.spectrum, None, self.budget.costs.iteration_cost(rank))

    def _forecast(self, spectrum: SpectrumEstimate, size: int | None, cost: float) -> Forecast:
        """Forecast with the leading part of X'X in the preconditioner; `cost` is the sketch's.

        The leading part is known from a sample of `size` rows, or exactly if `size` is None.
        """
        n, p = self.problem.shape
        rank, tail, alpha = len(spectrum.leading), spectrum.tail, self.scaled_alpha
        # The eigenvalues of n rows spread even if the true spectrum is flat (Marchenko & Pastur).
        aspect = np.sqrt(min(n, p) / max(n, p))
        mean = float(tail.sum()) / min(n, p)
        top = float(tail.max(initial=0.0)) * (1 + aspect) ** 2
        bottom = float(tail[-1]) * (1 - aspect) ** 2 if tail.size else 0.0
        above, below, lower_ratio = 1.0, 1.0, 1.0
        if size is not None and rank:
            q = min(np.sqrt(rank / size * (1 - size / n)), 0.9)
            above, below, lower_ratio = 1 / (1 - q) ** 2, 1 / (1 + q) ** 2, size / n
            top = max(top, LEAKAGE_FACTOR * above * float(tail.sum()) * (1 / size - 1 / n))
        largest = max(above, (top + alpha) / (mean + alpha))
        smallest = min(below, (bottom + alpha) / (mean + alpha))
        proof = 1.0 if n < p else min(lower_ratio, alpha / (mean + alpha))
        iterations = forecast_iterations(largest / smallest, proof, self.tol, min(n, p))
        return Forecast(
            rank,
            iterations,
            cost + self.budget.total_iteration_cost(iterations, self.problem.n_targets),
        )
