"""The cost model: which engine, from shape, density, alphas, memory and this machine's speed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ling.design import threads
from ling.design.blocked import HELD
from ling.machine import TYPICAL, Machine, measured_machine

log = logging.getLogger("ling")
MB = 2**20
# Below this many entries everything is over in milliseconds, and measuring would cost more.
SMALL = 2**18
# Seconds that Python takes for one iteration of anything.
CALL = 1e-4
# And that LAPACK takes to make a block orthogonal.
BLOCK = 5e-3
# How much longer a direct solution may take, as it is sure of its cost. What iterates sees whether
# it pays from a sample, which counts for less the longer it would take.
SURE, LONG, LONG_SURE = 0.5, 10.0, 0.9
# While blocks are read, a Gram matrix has not the machine for itself.
READING = 1.3
# Above this size, a copy of X in 16-bit integers saves more than it costs.
COPIED = 2**25


@dataclass(frozen=True)
class Shape:
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
    rate: float | None = None
    blocked: bool = False
    block_bytes: float = np.inf
    shortens: bool = True

    @property
    def n_bytes(self) -> int:
        """What one pass reads."""
        return self.nnz * (self.itemsize if self.dense else self.itemsize + 4)


@dataclass(frozen=True)
class Prediction:
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

    shape: Shape
    predictions: tuple[Prediction, ...]
    memory_budget: float
    machine: Machine

    @property
    def steps(self) -> list[Prediction]:
        """What to try, in this order: what fits, or else what needs the least memory."""
        fitting = [prediction for prediction in self.predictions if prediction.fits]
        return fitting or [min(self.predictions, key=lambda p: p.n_bytes)]

    def of(self, engine: str) -> Prediction:
        """The prediction for one engine."""
        return next(p for p in self.predictions if p.engine == engine)

    def __str__(self) -> str:
        rows = [
            f"{p.engine:<12}{p.seconds:>10.3g} s{p.n_bytes / MB:>11.3g} MB{p.passes:>9.0f}"
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
        return first + f"budget {self.memory_budget / MB:.3g} MB\n" + "\n".join([head, *rows])


def make_plan(
    shape: Shape, memory_budget: float, precision: str, tol: float, machine: Machine | None = None
) -> Plan:
    """Predictions for every engine, cheapest first, those that do not fit last."""
    if machine is None:
        machine = TYPICAL if shape.nnz <= SMALL else measured_machine()
    predictions = _predictions(shape, machine, precision, tol)
    judged: dict[str, Prediction] = {}
    for prediction in predictions:  # of the ways an engine can go, the first that fits
        if prediction.engine not in judged or not judged[prediction.engine].fits:
            fits = prediction.n_bytes <= memory_budget
            judged[prediction.engine] = prediction if fits else replace(prediction, fits=False)
    order = sorted(judged.values(), key=lambda p: (not p.fits, _judged(p)))
    return Plan(shape, tuple(order), memory_budget, machine)


def _judged(prediction: Prediction) -> float:
    """Seconds, of what is sure of them fewer."""
    if prediction.engine != "direct":
        return prediction.seconds
    return prediction.seconds * (SURE if prediction.seconds < LONG else LONG_SURE)


@lru_cache(maxsize=256)
def _predictions(
    shape: Shape, machine: Machine, precision: str, tol: float
) -> tuple[Prediction, ...]:
    """Every engine, in all ways that it can go."""
    return (
        *_direct(shape, machine, precision),
        *_two_stage(shape, machine, precision, tol),
        _krylov(shape, machine, tol),
        _row_sketch(shape, machine, tol),
    )


def pass_seconds(shape: Shape, machine: Machine, columns: int = 1) -> float:
    """One X'(X V) with that many columns, and the vector work that goes with it."""
    if shape.dense:
        even = -(-columns // 4) * 4  # compiled loops take four at a time
        work = 4.0 * shape.nnz * even / machine.thin if columns > 1 else 0.0
        reading = shape.n_bytes / shape.rate if shape.rate else 0.0
        return CALL + max(1.2 * shape.n_bytes / machine.sweep, work, reading)
    sparse = shape.nnz / machine.sparse + (columns - 1) * shape.nnz / machine.sparse_column
    return CALL + sparse


def column_cost(shape: Shape, machine: Machine) -> float:
    """What one more column costs in a pass, relative to the pass."""
    many = 32
    one = pass_seconds(shape, machine)
    return (pass_seconds(shape, machine, many) - one) / (many - 1) / one


# Passes that making a copy takes: memory is new, and has to be cleared.
MAKING_A_COPY = 3.5


def copy_cost(shape: Shape, machine: Machine) -> float:
    """What a sweep over a copy of 16 bits, in memory, costs relative to one over X."""
    in_memory = pass_seconds(replace(shape, rate=None), machine)
    return 2.8 / shape.itemsize * in_memory / pass_seconds(shape, machine)


# Iterations are unknown before the spectrum is; these are for the spectra people have: fast decay,
# then a slow tail. A run that turns out harder is stopped and handed to the next engine.
USUAL_ITERATIONS = 18


def _common_bytes(shape: Shape, columns: int) -> float:
    """y, its residual, what centring needs, and the partial results of the threads' sweeps."""
    sweeps = min(float(threads.ROOM), 8.0 * shape.p * columns * 8 * threads.n_threads())
    per_row = 3 * shape.n_targets + 1 if shape.blocked else 5 * shape.n_targets + 6
    return 8.0 * shape.n * per_row + 80.0 * shape.p * shape.n_targets + sweeps


def _direct_bytes(shape: Shape, single: bool) -> float:
    m, k = min(shape.n, shape.p), shape.n_alphas
    item = 4 if single else 8
    squares = 2 if single else 2 + (k if k < 8 else 2)
    # Blocks of X, centred: in one buffer by compiled loops, in three by NumPy.
    mapped = shape.dense and shape.p <= shape.n and shape.itemsize == 8
    block = min(33.0 * MB, 8.0 * shape.n * shape.p, shape.block_bytes)
    blocks = block * (1 if mapped else 3) if shape.dense else 0.0
    more = (0 if shape.dense else 1) + shape.blocked
    return item * m * m * (squares + more) + blocks + _common_bytes(shape, 1)


def _direct(shape: Shape, machine: Machine, precision: str) -> list[Prediction]:
    n, p = shape.n, shape.p
    m, longest = min(n, p), max(n, p)
    work = float(longest) * m * m if shape.dense else float(shape.nnz) ** 2 / max(n, p)
    work *= READING if shape.rate else 1.0
    factor = m**3 / 3 * (shape.n_alphas if shape.n_alphas < 8 else 8)
    solves = 6.0 * m * m * shape.n_targets
    a_pass = pass_seconds(shape, machine)
    rate = machine.gemm if shape.dense else machine.sparse
    seconds = max(work / rate, a_pass) + factor / machine.factor + solves / machine.gemm
    seconds += 2 * pass_seconds(shape, machine, shape.n_targets)
    again = 8.0 * n * p / HELD if shape.blocked and p > n else 0.0  # rows against all others
    double = Prediction(
        "direct", seconds + again * a_pass, _direct_bytes(shape, False), 3.0 + again
    )
    if precision == "float64" or not shape.dense or p > n or shape.n_alphas > 1:
        return [double]
    # The inverse of the factor is formed too; then a gradient, and sometimes a step or two.
    seconds = max(work / machine.gemm32, a_pass) + 2 * factor / machine.factor / 1.8
    seconds += 2 * shape.n_bytes / machine.sweep + solves / machine.gemm
    seconds += 1.5 * pass_seconds(shape, machine, shape.n_targets)
    single = Prediction("direct", seconds, _direct_bytes(shape, True), 3.5, single=True)
    if precision == "float32":
        return [single]
    faster = double.seconds > 0.2 and single.seconds < 0.8 * double.seconds
    return [single] if faster else [double]


def _two_stage(shape: Shape, machine: Machine, precision: str, tol: float) -> list[Prediction]:
    plain = _two_stage_on(shape, machine, tol, copied=False)
    copies = precision != "float64" and shape.dense and shape.shortens and shape.p <= shape.n
    if not copies or shape.n_bytes < COPIED:
        return [plain]
    return [_two_stage_on(shape, machine, tol, copied=True), plain]


def _two_stage_on(shape: Shape, machine: Machine, tol: float, copied: bool) -> Prediction:
    """A sketch, from a sample of rows if X is dense, and iterations."""
    t, n, p = shape.n_targets, shape.n, shape.p
    # A sketch is not to be larger than a good part of X.
    most = int(np.clip(shape.nnz // p // 24, 32, 512))
    iterations = USUAL_ITERATIONS * _digits(tol)
    rank = min(16, p // 2, n) if shape.dense else min(8, p // 2)
    seconds = iterations * pass_seconds(shape, machine, t)
    if copied:
        sweeps = MAKING_A_COPY + copy_cost(shape, machine) * t * (
            iterations * (1 + iterations / 60) + 5
        )
        seconds = min(seconds, sweeps * pass_seconds(shape, machine))
    seconds += 2 * pass_seconds(shape, machine)
    n_bytes = 8.0 * p * (6 + shape.n_alphas) * min(most, p // 2)
    n_bytes += _common_bytes(shape, max(rank, 1))
    if not shape.dense:
        return Prediction(
            "two_stage", seconds + pass_seconds(shape, machine, max(rank, 1)), n_bytes,
            iterations + 4, most=most,
        )  # fmt: skip
    size = min(n, 256)
    seconds += (1.0 * size**2 * p + 30.0 * size**3) / machine.gemm * machine.threads
    n_bytes += 16.0 * p * min(n, 4 * size) + 8.0 * n * t * (6 if n < p else 0)
    if copied:
        n_bytes += 2.2 * shape.nnz
    return Prediction("two_stage", seconds, n_bytes, iterations + 3, single=copied, most=most)


def _krylov(shape: Shape, machine: Machine, tol: float) -> Prediction:
    extra = -shape.n_targets % 4 if shape.dense else 0
    columns = shape.n_targets + extra
    iterations = 2.5 * USUAL_ITERATIONS * _digits(tol) / (1 + extra) ** 0.3
    # Small factorisations on the way: of blocks and, now and then, of the whole projection.
    small = iterations * (BLOCK + 12.0 * (iterations * columns) ** 2 / machine.factor)
    dimension = min(iterations * columns, shape.p, shape.n)
    seconds = iterations * pass_seconds(shape, machine, columns)
    seconds += 8.0 * shape.p * dimension**2 / machine.gemm + 2 * pass_seconds(shape, machine)
    seconds += small
    most = int(min(max(256, 3 * dimension), shape.p))
    n_bytes = 8.0 * shape.p * (2.2 * most + 4 * columns) + 40.0 * most**2
    n_bytes += _common_bytes(shape, columns)
    return Prediction("krylov", seconds, n_bytes, iterations + 2, most=most)


def _row_sketch(shape: Shape, machine: Machine, tol: float) -> Prediction:
    s = min(4 * shape.p + 50, shape.n)
    iterations = 11 * _digits(tol)
    work = float(s) * shape.p**2 / machine.gemm
    work += shape.n_alphas * shape.p**3 / 3 / machine.factor
    work += 8.0 * s * shape.p * 4 / machine.sweep  # rows gathered from everywhere
    seconds = work + iterations * pass_seconds(shape, machine, shape.n_targets)
    copies = 2 if shape.dense else 2.5
    n_bytes = 8.0 * shape.p * (copies * s + shape.p * (1 + shape.n_alphas))
    n_bytes += _common_bytes(shape, shape.n_targets)
    return Prediction("row_sketch", seconds, n_bytes, iterations + 3)


def _digits(tol: float) -> float:
    """Iterations grow with the digits asked for; 1 at the default tol."""
    return float(np.clip(np.log10(1 / max(tol, 1e-15)) / 4, 0.3, 4))
