"""The cost model: which engine, from shape, density, alphas, memory and this machine's speed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ling.design.blocked import ROW_GRAM_BLOCK_BYTES
from ling.linalg import threads
from ling.solvers.machine import DEFAULT_MACHINE, Machine, measured_machine

log = logging.getLogger("ling")
BYTES_PER_MIB = 2**20
# Below this many entries everything is over in milliseconds, and measuring would cost more.
MAX_UNMEASURED_ENTRIES = 2**18
# Seconds that Python takes for one iteration of anything.
SECONDS_PER_CALL = 1e-4
# And that LAPACK takes to make a block orthogonal.
SECONDS_PER_BLOCK_QR = 5e-3
# How much longer a direct solution may take, as it is sure of its cost. What iterates sees whether
# it pays from a sample, which counts for less the longer it would take.
DIRECT_PREFERENCE, LONG_FIT_SECONDS, LONG_DIRECT_PREFERENCE = 0.5, 10.0, 0.9
# While blocks are read, a Gram matrix has not the machine for itself.
GRAM_SLOWDOWN_WHILE_READING = 1.3
# Above this size, a copy of X in 16-bit integers saves more than it costs.
MIN_QUANTIZED_BYTES = 2**25


@dataclass(frozen=True)
class ProblemDimensions:
    """What the cost of a ridge problem depends on.

    Attributes
    ----------
    n, p, nnz, itemsize : int
        Rows, columns and stored entries of X, and bytes of each.
    dense : bool
    n_targets, n_alphas : int
    rate : float or None
        Bytes a second at which X is read, if it does not lie in memory.
    blocked : bool
        Whether it lies in blocks, each of which has sums of its own.
    block_bytes : float
        How large they are.
    shortens : bool
        Whether a copy in 16-bit integers can be made.
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
        """What one pass reads."""
        return self.nnz * (self.itemsize if self.dense else self.itemsize + 4)


@dataclass(frozen=True)
class EngineEstimate:
    """What an engine is expected to cost.

    Attributes
    ----------
    engine : str
    seconds, passes : float
    n_bytes : float
        On top of the data.
    single : bool
        Whether it is to use coarser numbers, where float64 can make up for it.
    fits : bool
        Whether `n_bytes` are within the memory budget.
    most : int
        The largest rank or dimension that the bytes are for.
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
    """All engines, cheapest first. `print` it.

    Attributes
    ----------
    shape : Shape
    predictions : tuple of Prediction
        Those that do not fit the memory budget last.
    memory_budget : float
        In bytes.
    machine : Machine
    """

    shape: ProblemDimensions
    predictions: tuple[EngineEstimate, ...]
    memory_budget: float
    machine: Machine

    @property
    def steps(self) -> list[EngineEstimate]:
        """What to try, in this order: what fits, or else what needs the least memory."""
        fitting = [prediction for prediction in self.predictions if prediction.fits]
        return fitting or [min(self.predictions, key=lambda p: p.n_bytes)]

    def estimate_for(self, engine: str) -> EngineEstimate:
        """The prediction for one engine."""
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


def plan_solve(
    shape: ProblemDimensions,
    memory_budget: float,
    precision: str,
    tol: float,
    machine: Machine | None = None,
) -> Plan:
    """Predictions for every engine, cheapest first, those that do not fit last."""
    if machine is None:
        machine = DEFAULT_MACHINE if shape.nnz <= MAX_UNMEASURED_ENTRIES else measured_machine()
    predictions = _estimate_all(shape, machine, precision, tol)
    judged: dict[str, EngineEstimate] = {}
    for prediction in predictions:  # of the ways an engine can go, the first that fits
        if prediction.engine not in judged or not judged[prediction.engine].fits:
            fits = prediction.n_bytes <= memory_budget
            judged[prediction.engine] = prediction if fits else replace(prediction, fits=False)
    order = sorted(judged.values(), key=lambda p: (not p.fits, _discounted_seconds(p)))
    return Plan(shape, tuple(order), memory_budget, machine)


def _discounted_seconds(prediction: EngineEstimate) -> float:
    """Seconds, of what is sure of them fewer."""
    if prediction.engine != "direct":
        return prediction.seconds
    return prediction.seconds * (
        DIRECT_PREFERENCE if prediction.seconds < LONG_FIT_SECONDS else LONG_DIRECT_PREFERENCE
    )


@lru_cache(maxsize=256)
def _estimate_all(
    shape: ProblemDimensions, machine: Machine, precision: str, tol: float
) -> tuple[EngineEstimate, ...]:
    """Every engine, in all ways that it can go."""
    return (
        *_estimate_direct(shape, machine, precision),
        *_estimate_two_stage(shape, machine, precision, tol),
        _estimate_krylov(shape, machine, tol),
        _estimate_row_sketch(shape, machine, tol),
    )


def pass_seconds(shape: ProblemDimensions, machine: Machine, columns: int = 1) -> float:
    """One X'(X V) with that many columns, and the vector work that goes with it."""
    if shape.dense:
        even = -(-columns // 4) * 4  # compiled loops take four at a time
        work = 4.0 * shape.nnz * even / machine.thin_gemm_rate if columns > 1 else 0.0
        reading = shape.n_bytes / shape.read_bandwidth if shape.read_bandwidth else 0.0
        return SECONDS_PER_CALL + max(1.2 * shape.n_bytes / machine.stream_bandwidth, work, reading)
    sparse = shape.nnz / machine.sparse + (columns - 1) * shape.nnz / machine.sparse_column
    return SECONDS_PER_CALL + sparse


def column_cost(shape: ProblemDimensions, machine: Machine) -> float:
    """What one more column costs in a pass, relative to the pass."""
    many = 32
    one = pass_seconds(shape, machine)
    return (pass_seconds(shape, machine, many) - one) / (many - 1) / one


# Passes that making a copy takes: memory is new, and has to be cleared.
QUANTIZATION_PASSES = 3.5


def quantized_pass_cost(shape: ProblemDimensions, machine: Machine) -> float:
    """What a sweep over a copy of 16 bits, in memory, costs relative to one over X."""
    in_memory = pass_seconds(replace(shape, read_bandwidth=None), machine)
    return 2.8 / shape.itemsize * in_memory / pass_seconds(shape, machine)


# Iterations are unknown before the spectrum is; these are for the spectra people have: fast decay,
# then a slow tail. A run that turns out harder is stopped and handed to the next engine.
TYPICAL_ITERATIONS = 18


def _common_bytes(shape: ProblemDimensions, columns: int) -> float:
    """y, its residual, what centring needs, and the partial results of the threads' sweeps."""
    sweeps = min(
        float(threads.MAX_PARTIAL_BYTES), 8.0 * shape.p * columns * 8 * threads.n_threads()
    )
    per_row = 3 * shape.n_targets + 1 if shape.is_out_of_core else 5 * shape.n_targets + 6
    return 8.0 * shape.n * per_row + 80.0 * shape.p * shape.n_targets + sweeps


def _direct_bytes(shape: ProblemDimensions, single: bool) -> float:
    m, k = min(shape.n, shape.p), shape.n_alphas
    item = 4 if single else 8
    squares = 2 if single else 2 + (k if k < 8 else 2)
    # Blocks of X, centred: in one buffer by compiled loops, in three by NumPy.
    mapped = shape.dense and shape.p <= shape.n and shape.itemsize == 8
    block = min(33.0 * BYTES_PER_MIB, 8.0 * shape.n * shape.p, shape.block_bytes)
    blocks = block * (1 if mapped else 3) if shape.dense else 0.0
    more = (0 if shape.dense else 1) + shape.is_out_of_core
    return item * m * m * (squares + more) + blocks + _common_bytes(shape, 1)


def _estimate_direct(
    shape: ProblemDimensions, machine: Machine, precision: str
) -> list[EngineEstimate]:
    n, p = shape.n, shape.p
    m, longest = min(n, p), max(n, p)
    work = float(longest) * m * m if shape.dense else float(shape.nnz) ** 2 / max(n, p)
    work *= GRAM_SLOWDOWN_WHILE_READING if shape.read_bandwidth else 1.0
    factor = m**3 / 3 * (shape.n_alphas if shape.n_alphas < 8 else 8)
    solves = 6.0 * m * m * shape.n_targets
    a_pass = pass_seconds(shape, machine)
    rate = machine.gemm_rate if shape.dense else machine.sparse
    seconds = max(work / rate, a_pass) + factor / machine.potrf_rate + solves / machine.gemm_rate
    seconds += 2 * pass_seconds(shape, machine, shape.n_targets)
    again = (
        8.0 * n * p / ROW_GRAM_BLOCK_BYTES if shape.is_out_of_core and p > n else 0.0
    )  # rows against all others
    double = EngineEstimate(
        "direct", seconds + again * a_pass, _direct_bytes(shape, False), 3.0 + again
    )
    if precision == "float64" or not shape.dense or p > n or shape.n_alphas > 1:
        return [double]
    # The inverse of the factor is formed too; then a gradient, and sometimes a step or two.
    seconds = max(work / machine.gemm32, a_pass) + 2 * factor / machine.potrf_rate / 1.8
    seconds += 2 * shape.n_bytes / machine.stream_bandwidth + solves / machine.gemm_rate
    seconds += 1.5 * pass_seconds(shape, machine, shape.n_targets)
    single = EngineEstimate("direct", seconds, _direct_bytes(shape, True), 3.5, single=True)
    if precision == "float32":
        return [single]
    faster = double.seconds > 0.2 and single.seconds < 0.8 * double.seconds
    return [single] if faster else [double]


def _estimate_two_stage(
    shape: ProblemDimensions, machine: Machine, precision: str, tol: float
) -> list[EngineEstimate]:
    plain = _estimate_two_stage_variant(shape, machine, tol, copied=False)
    copies = precision != "float64" and shape.dense and shape.can_quantize and shape.p <= shape.n
    if not copies or shape.n_bytes < MIN_QUANTIZED_BYTES:
        return [plain]
    return [_estimate_two_stage_variant(shape, machine, tol, copied=True), plain]


def _estimate_two_stage_variant(
    shape: ProblemDimensions, machine: Machine, tol: float, copied: bool
) -> EngineEstimate:
    """A sketch, from a sample of rows if X is dense, and iterations."""
    t, n, p = shape.n_targets, shape.n, shape.p
    # A sketch is not to be larger than a good part of X.
    most = int(np.clip(shape.nnz // p // 24, 32, 512))
    iterations = TYPICAL_ITERATIONS * _tol_factor(tol)
    rank = min(16, p // 2, n) if shape.dense else min(8, p // 2)
    seconds = iterations * pass_seconds(shape, machine, t)
    if copied:
        sweeps = QUANTIZATION_PASSES + quantized_pass_cost(shape, machine) * t * (
            iterations * (1 + iterations / 60) + 5
        )
        seconds = min(seconds, sweeps * pass_seconds(shape, machine))
    seconds += 2 * pass_seconds(shape, machine)
    n_bytes = 8.0 * p * (6 + shape.n_alphas) * min(most, p // 2)
    n_bytes += _common_bytes(shape, max(rank, 1))
    if not shape.dense:
        return EngineEstimate(
            "two_stage", seconds + pass_seconds(shape, machine, max(rank, 1)), n_bytes,
            iterations + 4, most=most,
        )  # fmt: skip
    size = min(n, 256)
    seconds += (1.0 * size**2 * p + 30.0 * size**3) / machine.gemm_rate * machine.threads
    n_bytes += 16.0 * p * min(n, 4 * size) + 8.0 * n * t * (6 if n < p else 0)
    if copied:
        n_bytes += 2.2 * shape.nnz
    return EngineEstimate("two_stage", seconds, n_bytes, iterations + 3, single=copied, most=most)


def _estimate_krylov(shape: ProblemDimensions, machine: Machine, tol: float) -> EngineEstimate:
    extra = -shape.n_targets % 4 if shape.dense else 0
    columns = shape.n_targets + extra
    iterations = 2.5 * TYPICAL_ITERATIONS * _tol_factor(tol) / (1 + extra) ** 0.3
    # Small factorisations on the way: of blocks and, now and then, of the whole projection.
    small = iterations * (
        SECONDS_PER_BLOCK_QR + 12.0 * (iterations * columns) ** 2 / machine.potrf_rate
    )
    dimension = min(iterations * columns, shape.p, shape.n)
    seconds = iterations * pass_seconds(shape, machine, columns)
    seconds += 8.0 * shape.p * dimension**2 / machine.gemm_rate + 2 * pass_seconds(shape, machine)
    seconds += small
    most = int(min(max(256, 3 * dimension), shape.p))
    n_bytes = 8.0 * shape.p * (2.2 * most + 4 * columns) + 40.0 * most**2
    n_bytes += _common_bytes(shape, columns)
    return EngineEstimate("krylov", seconds, n_bytes, iterations + 2, most=most)


def _estimate_row_sketch(shape: ProblemDimensions, machine: Machine, tol: float) -> EngineEstimate:
    s = min(4 * shape.p + 50, shape.n)
    iterations = 11 * _tol_factor(tol)
    work = float(s) * shape.p**2 / machine.gemm_rate
    work += shape.n_alphas * shape.p**3 / 3 / machine.potrf_rate
    work += 8.0 * s * shape.p * 4 / machine.stream_bandwidth  # rows gathered from everywhere
    seconds = work + iterations * pass_seconds(shape, machine, shape.n_targets)
    copies = 2 if shape.dense else 2.5
    n_bytes = 8.0 * shape.p * (copies * s + shape.p * (1 + shape.n_alphas))
    n_bytes += _common_bytes(shape, shape.n_targets)
    return EngineEstimate("row_sketch", seconds, n_bytes, iterations + 3)


def _tol_factor(tol: float) -> float:
    """Iterations grow with the digits asked for; 1 at the default tol."""
    return float(np.clip(np.log10(1 / max(tol, 1e-15)) / 4, 0.3, 4))
