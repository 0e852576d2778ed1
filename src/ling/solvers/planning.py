"""The cost model: rank the engines by dimensions, density, alphas, memory and machine speed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ling.design import Design
from ling.design.blocked import ROW_GRAM_BLOCK_BYTES
from ling.linalg import threads
from ling.solvers.machine import (
    DEFAULT_MACHINE,
    Machine,
    measured_machine,
    parse_memory_budget,
)
from ling.solvers.options import FitOptions

log = logging.getLogger("ling")
BYTES_PER_MIB = 2**20
# Stored entries of X up to which DEFAULT_MACHINE is used. Such a fit takes milliseconds, less than
# a measurement of the machine.
MAX_UNMEASURED_ENTRIES = 2**18
# Seconds of Python overhead in one iteration of any engine.
SECONDS_PER_CALL = 1e-4
# Seconds that LAPACK takes to orthonormalise one block of vectors.
SECONDS_PER_BLOCK_QR = 5e-3
# `direct` is preferred because its cost does not depend on the spectrum: its predicted seconds are
# multiplied by DIRECT_PREFERENCE, or by LONG_DIRECT_PREFERENCE from LONG_FIT_SECONDS on. An
# iterative engine finds out from a sample whether it pays; in a long fit that check costs little.
DIRECT_PREFERENCE, LONG_FIT_SECONDS, LONG_DIRECT_PREFERENCE = 0.5, 10.0, 0.9
# Factor on the time of a Gram matrix while blocks are read, which takes part of the machine.
GRAM_SLOWDOWN_WHILE_READING = 1.3
# Bytes of X from which a quantized copy in 16-bit integers saves more than it costs.
MIN_QUANTIZED_BYTES = 2**25


@dataclass(frozen=True)
class ProblemDimensions:
    """The dimensions and storage properties that the cost of a ridge problem depends on.

    Attributes
    ----------
    n, p, nnz, itemsize : int
        Rows, columns and stored entries of X, and the bytes of one entry.
    dense : bool
    n_targets, n_alphas : int
    read_bandwidth : float or None
        Bytes per second at which X is read; None if it is in memory.
    is_out_of_core : bool
        Whether X is stored in blocks, each of which has partial sums of its own.
    block_bytes : float
        Bytes of one block.
    can_quantize : bool
        Whether a copy of X in 16-bit integers can be made.
    """

    n: int
    p: int
    nnz: int
    itemsize: int
    dense: bool
    n_targets: int
    n_alphas: int
    read_bandwidth: float | None = None
    is_out_of_core: bool = False
    block_bytes: float = np.inf
    can_quantize: bool = True

    @property
    def n_bytes(self) -> int:
        """Bytes that one pass over X reads."""
        return self.nnz * (self.itemsize if self.dense else self.itemsize + 4)


@dataclass(frozen=True)
class EngineEstimate:
    """Predicted cost of an engine.

    Attributes
    ----------
    engine : str
    seconds, passes : float
    n_bytes : float
        Memory in addition to the data.
    single : bool
        Whether it may use lower precision, followed by corrections in float64.
    fits : bool
        Whether `n_bytes` are within the memory budget.
    most : int
        The largest rank or dimension that `n_bytes` allows for.
    """

    engine: str
    seconds: float
    n_bytes: float
    passes: float
    single: bool = False
    fits: bool = True
    most: int = 0


@dataclass(frozen=True)
class Plan:
    """Estimates for all engines, cheapest first; `print` shows them as a table.

    Attributes
    ----------
    shape : ProblemDimensions
    predictions : tuple of EngineEstimate
        Engines that do not fit the memory budget come last.
    memory_budget : float
        Bytes.
    machine : Machine
    """

    shape: ProblemDimensions
    predictions: tuple[EngineEstimate, ...]
    memory_budget: float
    machine: Machine

    @property
    def steps(self) -> list[EngineEstimate]:
        """Engines to try, in order: those that fit, or else the one that needs the least memory."""
        fitting = [prediction for prediction in self.predictions if prediction.fits]
        return fitting or [min(self.predictions, key=lambda p: p.n_bytes)]

    def estimate_for(self, engine: str) -> EngineEstimate:
        """The estimate for one engine."""
        return next(p for p in self.predictions if p.engine == engine)

    def __str__(self) -> str:
        rows = [
            f"{p.engine:<12}{p.seconds:>10.3g} s{p.n_bytes / BYTES_PER_MIB:>11.3g} "
            f"MB{p.passes:>9.0f}"
            + ("   first choice" if p is self.steps[0] else "")
            + ("" if p.fits else "   does not fit the memory budget")
            for p in self.predictions
        ]
        head = f"{'engine':<12}{'predicted':>12}{'memory':>14}{'passes':>9}"
        if self.steps[0].seconds > min(
            p.seconds for p in self.predictions if p.fits is self.steps[0].fits
        ):
            rows.append("direct is preferred to what may be faster, as its cost is certain.")
        s = self.shape
        kind = "dense" if s.dense else f"sparse, {s.nnz} stored"
        first = f"{s.n} x {s.p} {kind}, {s.n_targets} target(s), {s.n_alphas} alpha(s); "
        return (
            first
            + f"budget {self.memory_budget / BYTES_PER_MIB:.3g} MB\n"
            + "\n".join([head, *rows])
        )


def problem_dimensions(design: Design, n_targets: int, n_alphas: int) -> ProblemDimensions:
    """The dimensions of the ridge problem of a design."""
    storage = design.storage
    return ProblemDimensions(
        *design.shape,
        storage.n_stored,
        storage.dtype.itemsize,
        storage.is_dense,
        n_targets,
        n_alphas,
        storage.read_bandwidth,
        storage.is_out_of_core,
        storage.block_bytes,
        design.can_quantize,
    )


def plan_solve(shape: ProblemDimensions, options: FitOptions, resident_bytes: float = 0.0) -> Plan:
    """Plan with an estimate for every engine: cheapest first, those that do not fit last.

    `resident_bytes` of the memory budget are already taken by X. Without `options.machine`, the
    speeds of the machine are measured, except for small problems.
    """
    machine = options.machine
    if machine is None:
        machine = DEFAULT_MACHINE if shape.nnz <= MAX_UNMEASURED_ENTRIES else measured_machine()
    memory_budget = max(1.0, parse_memory_budget(options.memory_budget) - resident_bytes)
    predictions = _estimate_all(shape, machine, options.precision, options.tol)
    by_engine: dict[str, EngineEstimate] = {}
    for estimate in predictions:  # keep the first variant of an engine that fits
        if estimate.engine not in by_engine or not by_engine[estimate.engine].fits:
            fits = estimate.n_bytes <= memory_budget
            by_engine[estimate.engine] = estimate if fits else replace(estimate, fits=False)
    estimates = sorted(by_engine.values(), key=lambda p: (not p.fits, _discounted_seconds(p)))
    return Plan(shape, tuple(estimates), memory_budget, machine)


def _discounted_seconds(prediction: EngineEstimate) -> float:
    """Predicted seconds, discounted for `direct`, whose cost does not depend on the spectrum."""
    if prediction.engine != "direct":
        return prediction.seconds
    return prediction.seconds * (
        DIRECT_PREFERENCE if prediction.seconds < LONG_FIT_SECONDS else LONG_DIRECT_PREFERENCE
    )


@lru_cache(maxsize=256)
def _estimate_all(
    shape: ProblemDimensions, machine: Machine, precision: str, tol: float
) -> tuple[EngineEstimate, ...]:
    """Estimates for every variant of every engine."""
    return (
        *_estimate_direct(shape, machine, precision),
        *_estimate_two_stage(shape, machine, precision, tol),
        _estimate_krylov(shape, machine, tol),
        _estimate_row_sketch(shape, machine, tol),
    )


def pass_seconds(shape: ProblemDimensions, machine: Machine, columns: int = 1) -> float:
    """Predicted seconds of one X'(X V), with V (p, columns), including the vector operations."""
    if shape.dense:
        padded_columns = -(-columns // 4) * 4  # compiled loops process four columns at a time
        compute_seconds = (
            4.0 * shape.nnz * padded_columns / machine.thin_gemm_rate if columns > 1 else 0.0
        )
        read_seconds = shape.n_bytes / shape.read_bandwidth if shape.read_bandwidth else 0.0
        return SECONDS_PER_CALL + max(
            1.2 * shape.n_bytes / machine.stream_bandwidth, compute_seconds, read_seconds
        )
    sparse_seconds = shape.nnz / machine.sparse + (columns - 1) * shape.nnz / machine.sparse_column
    return SECONDS_PER_CALL + sparse_seconds


def column_cost(shape: ProblemDimensions, machine: Machine) -> float:
    """Cost of one more column in a pass, relative to a pass with one column."""
    n_columns = 32
    one_column = pass_seconds(shape, machine)
    return (pass_seconds(shape, machine, n_columns) - one_column) / (n_columns - 1) / one_column


# Cost of making the quantized copy, in passes. It includes the clearing of newly allocated memory.
QUANTIZATION_PASSES = 3.5


def quantized_pass_cost(shape: ProblemDimensions, machine: Machine) -> float:
    """Cost of a sweep over the 16-bit copy in memory, relative to a pass over X."""
    in_memory = pass_seconds(replace(shape, read_bandwidth=None), machine)
    return 2.8 / shape.itemsize * in_memory / pass_seconds(shape, machine)


# Iterations of two_stage at the default tol. The true number depends on the spectrum, which is not
# known here. This value is for typical spectra: fast decay, then a slow tail. A run that turns out
# to be harder is stopped, and the next engine takes over.
TYPICAL_ITERATIONS = 18


def _common_bytes(shape: ProblemDimensions, columns: int) -> float:
    """Bytes that every engine needs: y, its residual, centring, partial results of threads."""
    partial_bytes = min(
        float(threads.MAX_PARTIAL_BYTES), 8.0 * shape.p * columns * 8 * threads.n_threads()
    )
    per_row = 3 * shape.n_targets + 1 if shape.is_out_of_core else 5 * shape.n_targets + 6
    return 8.0 * shape.n * per_row + 80.0 * shape.p * shape.n_targets + partial_bytes


def _direct_bytes(shape: ProblemDimensions, single: bool) -> float:
    m, k = min(shape.n, shape.p), shape.n_alphas
    itemsize = 4 if single else 8
    n_squares = 2 if single else 2 + (k if k < 8 else 2)
    # Centred blocks of X: compiled loops need one buffer, NumPy needs three.
    one_buffer = shape.dense and shape.p <= shape.n and shape.itemsize == 8
    block_bytes = min(33.0 * BYTES_PER_MIB, 8.0 * shape.n * shape.p, shape.block_bytes)
    buffer_bytes = block_bytes * (1 if one_buffer else 3) if shape.dense else 0.0
    n_extra = (0 if shape.dense else 1) + shape.is_out_of_core
    return itemsize * m * m * (n_squares + n_extra) + buffer_bytes + _common_bytes(shape, 1)


def _estimate_direct(
    shape: ProblemDimensions, machine: Machine, precision: str
) -> list[EngineEstimate]:
    n, p = shape.n, shape.p
    m, longest = min(n, p), max(n, p)
    gram_flops = float(longest) * m * m if shape.dense else float(shape.nnz) ** 2 / max(n, p)
    gram_flops *= GRAM_SLOWDOWN_WHILE_READING if shape.read_bandwidth else 1.0
    factor_flops = m**3 / 3 * (shape.n_alphas if shape.n_alphas < 8 else 8)
    solve_flops = 6.0 * m * m * shape.n_targets
    one_pass = pass_seconds(shape, machine)
    rate = machine.gemm_rate if shape.dense else machine.sparse
    seconds = (
        max(gram_flops / rate, one_pass)
        + factor_flops / machine.potrf_rate
        + solve_flops / machine.gemm_rate
    )
    seconds += 2 * pass_seconds(shape, machine, shape.n_targets)
    extra_passes = (
        8.0 * n * p / ROW_GRAM_BLOCK_BYTES if shape.is_out_of_core and p > n else 0.0
    )  # every block of rows is multiplied with all others
    float64_estimate = EngineEstimate(
        "direct", seconds + extra_passes * one_pass, _direct_bytes(shape, False), 3.0 + extra_passes
    )
    if precision == "float64" or not shape.dense or p > n or shape.n_alphas > 1:
        return [float64_estimate]
    # In float32 the inverse of the factor is formed too. Then follow a gradient and sometimes one
    # or two steps of refinement.
    seconds = (
        max(gram_flops / machine.gemm32, one_pass) + 2 * factor_flops / machine.potrf_rate / 1.8
    )
    seconds += 2 * shape.n_bytes / machine.stream_bandwidth + solve_flops / machine.gemm_rate
    seconds += 1.5 * pass_seconds(shape, machine, shape.n_targets)
    float32_estimate = EngineEstimate(
        "direct", seconds, _direct_bytes(shape, True), 3.5, single=True
    )
    if precision == "float32":
        return [float32_estimate]
    prefers_float32 = (
        float64_estimate.seconds > 0.2 and float32_estimate.seconds < 0.8 * float64_estimate.seconds
    )
    return [float32_estimate] if prefers_float32 else [float64_estimate]


def _estimate_two_stage(
    shape: ProblemDimensions, machine: Machine, precision: str, tol: float
) -> list[EngineEstimate]:
    exact = _estimate_two_stage_variant(shape, machine, tol, copied=False)
    may_quantize = (
        precision != "float64" and shape.dense and shape.can_quantize and shape.p <= shape.n
    )
    if not may_quantize or shape.n_bytes < MIN_QUANTIZED_BYTES:
        return [exact]
    return [_estimate_two_stage_variant(shape, machine, tol, copied=True), exact]


def _estimate_two_stage_variant(
    shape: ProblemDimensions, machine: Machine, tol: float, copied: bool
) -> EngineEstimate:
    """Cost of the sketch, from a row sample if X is dense, and of the iterations."""
    t, n, p = shape.n_targets, shape.n, shape.p
    # Limits the sketch to a fraction of the size of X.
    max_rank = int(np.clip(shape.nnz // p // 24, 32, 512))
    iterations = TYPICAL_ITERATIONS * _tol_factor(tol)
    rank = min(16, p // 2, n) if shape.dense else min(8, p // 2)
    seconds = iterations * pass_seconds(shape, machine, t)
    if copied:
        quantized_passes = QUANTIZATION_PASSES + quantized_pass_cost(shape, machine) * t * (
            iterations * (1 + iterations / 60) + 5
        )
        seconds = min(seconds, quantized_passes * pass_seconds(shape, machine))
    seconds += 2 * pass_seconds(shape, machine)
    n_bytes = 8.0 * p * (6 + shape.n_alphas) * min(max_rank, p // 2)
    n_bytes += _common_bytes(shape, max(rank, 1))
    if not shape.dense:
        return EngineEstimate(
            "two_stage", seconds + pass_seconds(shape, machine, max(rank, 1)), n_bytes,
            iterations + 4, most=max_rank,
        )  # fmt: skip
    sample_size = min(n, 256)
    seconds += (
        (1.0 * sample_size**2 * p + 30.0 * sample_size**3) / machine.gemm_rate * machine.threads
    )
    n_bytes += 16.0 * p * min(n, 4 * sample_size) + 8.0 * n * t * (6 if n < p else 0)
    if copied:
        n_bytes += 2.2 * shape.nnz
    return EngineEstimate(
        "two_stage", seconds, n_bytes, iterations + 3, single=copied, most=max_rank
    )


def _estimate_krylov(shape: ProblemDimensions, machine: Machine, tol: float) -> EngineEstimate:
    n_random = -shape.n_targets % 4 if shape.dense else 0
    columns = shape.n_targets + n_random
    iterations = 2.5 * TYPICAL_ITERATIONS * _tol_factor(tol) / (1 + n_random) ** 0.3
    # Small factorisations: of every block and, now and then, of the projected matrix.
    small_seconds = iterations * (
        SECONDS_PER_BLOCK_QR + 12.0 * (iterations * columns) ** 2 / machine.potrf_rate
    )
    dimension = min(iterations * columns, shape.p, shape.n)
    seconds = iterations * pass_seconds(shape, machine, columns)
    seconds += 8.0 * shape.p * dimension**2 / machine.gemm_rate + 2 * pass_seconds(shape, machine)
    seconds += small_seconds
    max_dimension = int(min(max(256, 3 * dimension), shape.p))
    n_bytes = 8.0 * shape.p * (2.2 * max_dimension + 4 * columns) + 40.0 * max_dimension**2
    n_bytes += _common_bytes(shape, columns)
    return EngineEstimate("krylov", seconds, n_bytes, iterations + 2, most=max_dimension)


def _estimate_row_sketch(shape: ProblemDimensions, machine: Machine, tol: float) -> EngineEstimate:
    n_sampled = min(4 * shape.p + 50, shape.n)
    iterations = 11 * _tol_factor(tol)
    setup_seconds = float(n_sampled) * shape.p**2 / machine.gemm_rate
    setup_seconds += shape.n_alphas * shape.p**3 / 3 / machine.potrf_rate
    setup_seconds += (
        8.0 * n_sampled * shape.p * 4 / machine.stream_bandwidth
    )  # gathers scattered rows
    seconds = setup_seconds + iterations * pass_seconds(shape, machine, shape.n_targets)
    copies = 2 if shape.dense else 2.5
    n_bytes = 8.0 * shape.p * (copies * n_sampled + shape.p * (1 + shape.n_alphas))
    n_bytes += _common_bytes(shape, shape.n_targets)
    return EngineEstimate("row_sketch", seconds, n_bytes, iterations + 3)


def _tol_factor(tol: float) -> float:
    """Factor on the iterations, proportional to the digits of tol; 1 at its default 1e-4."""
    return float(np.clip(np.log10(1 / max(tol, 1e-15)) / 4, 0.3, 4))
