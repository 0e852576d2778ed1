"""The cost model: predicted seconds, passes and bytes of everything that ling can do.

Comparisons of bytes with a memory budget are made by `MemoryBudget`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ling.design.blocked import row_gram_bytes
from ling.design.dense import MAX_COMPILED_COLUMNS
from ling.design.storage import MAX_THIN_COLUMNS, may_hold_rows
from ling.design.tuning import DEFAULT_TUNING
from ling.linalg import threads
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.machine import Machine
from ling.solvers.memory_budget import UNLIMITED_MEMORY, MemoryBudget

# FLOPs of a singular value decomposition with both kinds of vectors, relative to n p min(n, p)
# (Golub & Van Loan 2013, section 8.6), and the largest number of FLOPs that is spent on them: about
# a minute on two cores. Above it, what needs them is not proved, and a warning says so.
SVD_FLOPS_FACTOR, MAX_SVD_FLOPS = 14.0, 2e12
# A Gram matrix is formed in float32 if float64 is predicted to take more than so many seconds, and
# float32 less than this fraction of them. In shorter fits, refinement takes longer than it saves.
MIN_FLOAT32_SECONDS, MAX_FLOAT32_FRACTION = 0.002, 0.8
# Seconds of Python overhead in one iteration of any engine.
SECONDS_PER_CALL = 1e-4
# Seconds per number of one operation on vectors in a compiled loop.
SECONDS_PER_VECTOR_ENTRY = 1e-9
# Multiply-adds of a sparse Gram matrix in the time of one stored entry in X'(X v), and how often
# arrays of the size of the Gram matrix are read or written: cleared, added, mirrored, centred.
SPARSE_GRAM_SPEEDUP, N_SPARSE_GRAM_SWEEPS = 2.0, 12
# How much faster than BLAS a compiled loop forms Gram matrices where it takes its place: 1.3 to 1.6
# times for orders of 200 to 1,000 (`design/compiled_gram.py`).
COMPILED_GRAM_SPEEDUP = 1.4
# Times that dense blocks of a sparse X are read or written before BLAS multiplies them.
N_DENSE_BLOCK_SWEEPS = 4
# Factor on the time of a Gram matrix while blocks are read, which takes part of the machine.
GRAM_SLOWDOWN_WHILE_READING = 1.3
# Rows of the smallest sample, how often their values are read or written, and seconds of Python.
LOOK_ROWS, N_LOOK_SWEEPS, SECONDS_PER_LOOK = 64, 8, 1.5e-3
# Rows of the sample that most sketches end with, and of the largest one.
TYPICAL_SAMPLE_ROWS, MAX_SAMPLE_ROWS = 256, 1024
# Limits on the largest rank of a sketch. It is the smaller one where memory is short.
SMALL_SKETCH_RANK, MAX_SKETCH_RANK = 32, 512
# Bytes of X from which a quantized copy in 16-bit integers saves more than it costs.
MIN_QUANTIZED_BYTES = 2**25
# Cost of making the quantized copy, in passes. It includes the clearing of newly allocated memory.
QUANTIZATION_PASSES = 3.5
# Iterations of two_stage at the default tol. The true number depends on the spectrum, which is not
# known here. This value is for typical spectra: fast decay, then a slow tail. A run that turns out
# to be harder is stopped, and the next engine takes over.
TYPICAL_ITERATIONS = 18
# Matrices of p^2 numbers that the engine for coefficients >= 0 holds at the same time.
N_NONNEGATIVE_ARRAYS = 4
# Vectors of n numbers that a fit holds besides its targets, and further ones in a pass over X in
# memory. Measured for a million rows.
N_ROW_VECTORS, N_PRODUCT_VECTORS = 2, 3
# Matrices of p (p + t) numbers that partial_fit holds besides the factors of each alpha.
N_STATISTICS_ARRAYS = 6


@dataclass(frozen=True)
class EngineEstimate:
    """Predicted cost of an engine.

    Attributes
    ----------
    engine : str
    seconds, passes : float
    n_bytes : float
        Memory in addition to the data.
    low_precision : bool
        Whether it may use lower precision, followed by corrections in float64.
    fits : bool
        Whether `n_bytes` are within the memory budget, up to what no prediction counts (exactly for
        coefficients >= 0 and for alpha = 0).
    max_rank : int
        The largest rank that `n_bytes` allows for.
    max_refinement_passes : float
        Passes that may correct a solution in lower precision before float64 would be faster.
    max_sample_rows : int
        The largest sample of rows that `n_bytes` allows for.
    """

    engine: str
    seconds: float
    n_bytes: float
    passes: float
    low_precision: bool = False
    fits: bool = True
    max_rank: int = 0
    max_refinement_passes: float = float("inf")
    max_sample_rows: int = MAX_SAMPLE_ROWS


@dataclass(frozen=True)
class PassCosts:
    """What an engine's steps cost, in units of one pass over X with one column.

    Attributes
    ----------
    column_cost : float
        One more column in a pass.
    blas_flops_per_pass : float
        FLOPs that BLAS does on one thread in the time of a pass.
    quantization_passes, quantized_pass_cost : float
        Making a copy of X in 16-bit integers, and one sweep over it.
    can_sample_rows : bool
        Whether single rows can be read at almost no cost.
    compiled_step_cost : float
        One step of `Design.cg_steps`, which has no overhead of Python.
    """

    column_cost: float = 0.03
    blas_flops_per_pass: float = 1e9
    quantization_passes: float = QUANTIZATION_PASSES
    quantized_pass_cost: float = 0.4
    can_sample_rows: bool = True
    compiled_step_cost: float = 1.0

    @classmethod
    def predict(cls, dimensions: ProblemDimensions, machine: Machine) -> PassCosts:
        """The costs of a problem on a machine."""
        one_pass = pass_seconds(dimensions, machine)
        return cls(
            column_cost(dimensions, machine),
            machine.gemm_rate / machine.threads * one_pass,
            QUANTIZATION_PASSES,
            quantized_pass_cost(dimensions, machine),
            dimensions.dense,
            min(1.0, compiled_iteration_seconds(dimensions, machine) / one_pass),
        )

    def iteration_cost(self, n_targets: int) -> float:
        """Cost of one iteration: a pass over X with one column for each target."""
        return 1 + self.column_cost * (n_targets - 1)

    def quantized_iteration_cost(self, iterations: float, n_targets: int) -> float:
        """Cost of `iterations` on a copy of X in 16-bit integers, including making it.

        Restarts from the exact gradient of X add iterations: 5, plus a fraction that grows with
        their number.
        """
        sweeps = (iterations * (1 + iterations / 60) + 5) * n_targets
        return self.quantization_passes + self.quantized_pass_cost * sweeps


TYPICAL_PASS_COSTS = PassCosts()


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


def compiled_iteration_seconds(shape: ProblemDimensions, machine: Machine) -> float:
    """Seconds of an iteration of the compiled loop for small sparse X, which is on one thread."""
    entry_seconds = shape.nnz / machine.sparse * max(1.0, 0.6 * machine.threads)
    return entry_seconds + SECONDS_PER_VECTOR_ENTRY * (shape.n + 6 * shape.p)


def sampling_flops(size: int, p: int) -> float:
    """FLOPs of a sample's Gram matrix and eigenvectors, as equivalents of Gram matrix FLOPs."""
    return 1.0 * size**2 * p + 30.0 * size**3


def look_seconds(shape: ProblemDimensions, machine: Machine) -> float:
    """Seconds of the smallest sample of rows, and of a forecast from it; on one thread."""
    rows, p = min(shape.n, LOOK_ROWS), shape.p
    copied_bytes = 8.0 * N_LOOK_SWEEPS * rows * p
    return (
        SECONDS_PER_LOOK
        + sampling_flops(rows, p) * machine.threads / machine.gemm_rate
        + copied_bytes / machine.stream_bandwidth
    )


def column_cost(shape: ProblemDimensions, machine: Machine) -> float:
    """Cost of one more column in a pass, relative to a pass with one column."""
    n_columns = 32
    one_column = pass_seconds(shape, machine)
    return (pass_seconds(shape, machine, n_columns) - one_column) / (n_columns - 1) / one_column


def quantized_pass_cost(shape: ProblemDimensions, machine: Machine) -> float:
    """Cost of a sweep over the 16-bit copy in memory, relative to a pass over X."""
    in_memory = pass_seconds(replace(shape, read_bandwidth=None), machine)
    return 2.8 / shape.itemsize * in_memory / pass_seconds(shape, machine)


def estimate_all(
    shape: ProblemDimensions, machine: Machine, precision: str, tol: float
) -> tuple[EngineEstimate, ...]:
    """Estimates for every variant of every engine, with the current number of threads."""
    return _estimate_all(shape, machine, precision, tol, threads.n_threads())


@lru_cache(maxsize=256)
def _estimate_all(
    shape: ProblemDimensions, machine: Machine, precision: str, tol: float, _n_threads: int
) -> tuple[EngineEstimate, ...]:
    """Cached estimates. `_common_bytes` depends on the number of threads, so it is in the key."""
    return (
        *_estimate_direct(shape, machine, precision),
        *_estimate_two_stage(shape, machine, precision, tol),
    )


def _common_bytes(shape: ProblemDimensions, columns: int) -> float:
    """Bytes that every engine needs: targets, products, coefficients, sums of threads."""
    partial_bytes = min(
        float(threads.MAX_PARTIAL_BYTES), 8.0 * shape.p * columns * 8 * threads.n_threads()
    )
    coef_bytes = 80.0 * shape.p * shape.n_targets
    return vector_bytes(shape) + _product_bytes(shape) + coef_bytes + partial_bytes


def vector_bytes(shape: ProblemDimensions) -> float:
    """Bytes of arrays with a number for every row, or row and target, that no fit can do without.

    These are the centred targets, with weights and without, and vectors such as a row's weight.
    """
    return 8.0 * shape.n * ((1 + shape.is_weighted) * shape.n_targets + N_ROW_VECTORS)


def _product_bytes(shape: ProblemDimensions) -> float:
    """Bytes of X W and the like in one pass, for all rows or for a block of them.

    With many columns, X W is never in memory all at once if memory is short.
    """
    n, t = shape.n, shape.n_targets
    if shape.is_out_of_core:
        return 24.0 * shape.block_rows * t
    blocks = 4 * min(8.0 * n * t, shape.workspace_bytes)
    columns = min(max(t, MAX_THIN_COLUMNS), MAX_COMPILED_COLUMNS)
    if shape.dense and may_hold_rows(n, columns, shape.workspace_bytes):
        blocks = max(blocks, 16.0 * n * columns)
    return 8.0 * n * N_PRODUCT_VECTORS + blocks


def _direct_bytes(shape: ProblemDimensions, single: bool) -> float:
    m, k = min(shape.n, shape.p), shape.n_alphas
    itemsize = 4 if single else 8
    n_squares = 2 if single else 2 + (k if k < 8 else 2)
    # Centred blocks of X: compiled loops need one buffer, NumPy needs three.
    one_buffer = shape.dense and shape.p <= shape.n and shape.itemsize == 8
    block_bytes = min(1.03 * shape.workspace_bytes, 8.0 * shape.n * shape.p, shape.block_bytes)
    buffer_bytes = block_bytes * (1 if one_buffer else 3) if shape.dense else 0.0
    if shape.is_out_of_core and shape.p > shape.n:
        buffer_bytes = 2 * min(row_gram_bytes(shape.block_bytes), 8.0 * shape.n * shape.p)
    n_extra = (0 if shape.dense else 1) + shape.is_out_of_core
    return itemsize * m * m * (n_squares + n_extra) + buffer_bytes + _common_bytes(shape, 1)


def _estimate_direct(
    shape: ProblemDimensions, machine: Machine, precision: str
) -> list[EngineEstimate]:
    n, p = shape.n, shape.p
    m = min(n, p)
    gram = gram_seconds(shape, machine)
    gram *= GRAM_SLOWDOWN_WHILE_READING if shape.read_bandwidth else 1.0
    factor_flops = m**3 / 3 * (shape.n_alphas if shape.n_alphas < 8 else 8)
    solve_flops = 6.0 * m * m * shape.n_targets
    one_pass, target_pass = (pass_seconds(shape, machine, t) for t in (1, shape.n_targets))
    # Means and norms take a pass, X'Y half of one with the targets, and in the dual X'C as well.
    n_target_passes = 0.5 if p <= n else 1.0
    products = one_pass + n_target_passes * target_pass + solve_flops / machine.gemm_rate
    seconds = max(gram, one_pass) + factor_flops / machine.potrf_rate + products
    # Without access to columns, every block of rows is multiplied with all others.
    extra_passes = shape.row_gram_passes - 1 if p > n else 0.0
    float64_estimate = EngineEstimate(
        "direct", seconds + extra_passes * one_pass, _direct_bytes(shape, False), 3.0 + extra_passes
    )
    is_blocked_dual = shape.is_out_of_core and p > n
    if precision == "float64" or not shape.dense or is_blocked_dual or shape.n_alphas > 1:
        return [float64_estimate]
    # For p <= n the inverse of the float32 factor is formed if refinement follows. A gradient and
    # sometimes one or two steps of refinement are needed.
    n_factors, n_refinement_passes = (2, 1.25) if p <= n else (1, 1.0)
    seconds = max(gram * machine.gemm_rate / machine.gemm32, one_pass)
    seconds += n_factors * factor_flops / machine.potrf_rate / 1.8 + products
    max_refinement_passes = (float64_estimate.seconds - seconds) / target_pass
    float32_estimate = EngineEstimate(
        "direct",
        seconds + n_refinement_passes * target_pass,
        # Where float32 is too coarse, float64 takes over.
        max(_direct_bytes(shape, True), float64_estimate.n_bytes),
        3.0 + n_refinement_passes,
        low_precision=True,
        max_refinement_passes=float("inf") if precision == "float32" else max_refinement_passes,
    )
    if precision == "float32":
        return [float32_estimate]
    prefers_float32 = (
        float64_estimate.seconds > MIN_FLOAT32_SECONDS
        and float32_estimate.seconds < MAX_FLOAT32_FRACTION * float64_estimate.seconds
    )
    return [float32_estimate] if prefers_float32 else [float64_estimate]


def _estimate_two_stage(
    shape: ProblemDimensions, machine: Machine, precision: str, tol: float
) -> list[EngineEstimate]:
    exact = _estimate_two_stage_variant(shape, machine, tol, copied=False)
    # Where memory is short, less of the spectrum is captured.
    small = _estimate_two_stage_variant(
        shape, machine, tol, copied=False, most_rank=SMALL_SKETCH_RANK, max_sample_rows=LOOK_ROWS
    )
    may_quantize = (
        precision != "float64" and shape.dense and shape.can_quantize and shape.p <= shape.n
    )
    if not may_quantize or shape.n_bytes < MIN_QUANTIZED_BYTES:
        return [exact, small]
    return [_estimate_two_stage_variant(shape, machine, tol, copied=True), exact, small]


def _estimate_two_stage_variant(
    shape: ProblemDimensions, machine: Machine, tol: float, copied: bool,
    most_rank: int = MAX_SKETCH_RANK, max_sample_rows: int = MAX_SAMPLE_ROWS,
) -> EngineEstimate:  # fmt: skip
    """Cost of the sketch, from a row sample if X is dense, and of the iterations."""
    t, n, p = shape.n_targets, shape.n, shape.p
    # Limits the sketch to a fraction of the size of X.
    max_rank = min(
        most_rank, int(np.clip(shape.nnz // p // 24, SMALL_SKETCH_RANK, MAX_SKETCH_RANK))
    )
    iterations = TYPICAL_ITERATIONS * _tol_factor(tol)
    rank = min(16, p // 2, n) if shape.dense else min(8, p // 2)
    seconds = iterations * pass_seconds(shape, machine, t)
    if copied:
        quantized_cost = PassCosts.predict(shape, machine).quantized_iteration_cost(iterations, t)
        seconds = min(seconds, quantized_cost * pass_seconds(shape, machine))
    seconds += 2 * pass_seconds(shape, machine)
    n_bytes = 8.0 * p * (6 + shape.n_alphas) * min(max_rank, p // 2)
    n_bytes += _common_bytes(shape, max(rank, 1))
    if not shape.dense:
        return EngineEstimate(
            "two_stage", seconds + pass_seconds(shape, machine, max(rank, 1)), n_bytes,
            iterations + 4, max_rank=max_rank,
        )  # fmt: skip
    sample_size = min(n, TYPICAL_SAMPLE_ROWS, max_sample_rows)
    seconds += sampling_flops(sample_size, p) * machine.threads / machine.gemm_rate
    n_bytes += 16.0 * p * min(n, max_sample_rows) + 8.0 * n * t * (6 if n < p else 0)
    if copied:
        n_bytes += 2.2 * shape.nnz
    return EngineEstimate(
        "two_stage", seconds, n_bytes, iterations + 3, low_precision=copied, max_rank=max_rank,
        max_sample_rows=max_sample_rows,
    )  # fmt: skip


def _tol_factor(tol: float) -> float:
    """Factor on the iterations, proportional to the digits of tol; 1 at its default 1e-4."""
    return float(np.clip(np.log10(1 / max(tol, 1e-15)) / 4, 0.3, 4))


def estimate_nonnegative(
    shape: ProblemDimensions, machine: Machine, n_alphas: int, has_zero_alpha: bool
) -> EngineEstimate:
    """Cost of coefficients >= 0: X'X and its factors and, for alpha = 0, a dense copy of X."""
    n, p = shape.n, shape.p
    n_bytes = 8.0 * (N_NONNEGATIVE_ARRAYS + n_alphas) * p * p
    if has_zero_alpha:
        n_bytes += svd_bytes(n, p)
    flops = float(n) * p * p + 4.0 * float(p) ** 3 * shape.n_targets
    return EngineEstimate("nonnegative", flops / machine.gemm_rate, n_bytes, 2.0)


def svd_bytes(n: int, p: int) -> float:
    """Bytes of a dense copy of X and of its singular vectors."""
    return 24.0 * n * p


def is_svd_affordable(n: int, p: int, memory: MemoryBudget, count: int = 1) -> bool:
    """True if `count` singular value decompositions of X take neither too much memory nor time."""
    flops = SVD_FLOPS_FACTOR * float(n) * p * min(n, p) * count
    return flops <= MAX_SVD_FLOPS and memory.allows(svd_bytes(n, p))


def lacks_memory_for_svd(n: int, p: int, memory: MemoryBudget, count: int = 1) -> bool:
    """True if nothing but memory prevents `count` singular value decompositions of X."""
    is_fast = is_svd_affordable(n, p, UNLIMITED_MEMORY, count)
    return is_fast and not is_svd_affordable(n, p, memory, count)


def eigenvalue_bytes(n: int, p: int) -> float:
    """Bytes of the smaller Gram matrix of X, of its eigenvectors, and of LAPACK's workspace."""
    return 32.0 * min(n, p) ** 2


def posterior_bytes(n: int, p: int, n_alphas: int) -> float:
    """Bytes of the factors from which standard errors are computed exactly."""
    return 8.0 * (2 + n_alphas) * p * min(n, p)


def row_sample_gram_seconds(shape: ProblemDimensions, machine: Machine, n_sampled: int) -> float:
    """Seconds of the Gram matrix of `n_sampled` scattered rows, and of a factor for each alpha."""
    copied_bytes = 8.0 * 4 * n_sampled * shape.p
    read_seconds = shape.n_bytes / shape.read_bandwidth if shape.read_bandwidth else 0.0
    return (
        read_seconds
        + float(n_sampled) * shape.p**2 / machine.gemm_rate
        + shape.n_alphas * shape.p**3 / 3 / machine.potrf_rate
        + copied_bytes / machine.stream_bandwidth
    )


def row_sample_gram_bytes(shape: ProblemDimensions, n_sampled: int) -> float:
    """Bytes of these rows, of their Gram matrix, of a scaled copy, and of its factors."""
    copies = 2 if shape.dense else 2.5
    square_bytes = 8.0 * shape.p * (copies * n_sampled + shape.p * (2 + shape.n_alphas))
    return square_bytes + _common_bytes(shape, shape.n_targets)


def statistics_bytes(p: int, n_targets: int, n_alphas: int) -> float:
    """Bytes of the sufficient statistics of partial_fit, of those of a batch, and of the solve."""
    return 8.0 * (N_STATISTICS_ARRAYS + n_alphas) * p * (p + n_targets)


def gram_seconds(shape: ProblemDimensions, machine: Machine) -> float:
    """Seconds of the smaller Gram matrix of X, in float64 and in memory.

    Entries of sparse X are taken to be spread evenly if its FLOPs are not known.
    """
    m, longest = min(shape.n, shape.p), max(shape.n, shape.p)
    blas_seconds = float(longest) * m * m / machine.gemm_rate
    if shape.dense:
        return blas_seconds / (COMPILED_GRAM_SPEEDUP if shape.has_compiled_gram else 1.0)
    if shape.p <= shape.n and shape.nnz > DEFAULT_TUNING.min_blas_density * shape.n * shape.p:
        dense_bytes = 8.0 * N_DENSE_BLOCK_SWEEPS * shape.n * shape.p
        return blas_seconds + shape.nnz / machine.sparse + dense_bytes / machine.stream_bandwidth
    flops = float(shape.nnz) ** 2 / longest if shape.gram_flops is None else shape.gram_flops
    loop_seconds = flops / (SPARSE_GRAM_SPEEDUP * machine.sparse)
    return loop_seconds + 8.0 * N_SPARSE_GRAM_SWEEPS * m * m / machine.stream_bandwidth
