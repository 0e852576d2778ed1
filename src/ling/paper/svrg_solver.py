"""SVRG, stochastic variance-reduced gradient (Johnson & Zhang 2013), the paper's rival to LING."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ling._typing import Array, MatrixLike, Seed
from ling.design import AffineRowTransform, DenseStorage, Design, Meter, SparseStorage
from ling.design.arrays import scale_rows
from ling.errors import Change, DivergenceError, InputTypeError, OptionError
from ling.linalg.rounding import EPS
from ling.paper.algorithm3 import StopTest
from ling.paper.inputs import (
    as_generator,
    check_alpha,
    check_count,
    check_design,
    check_target,
)
from ling.paper.results import Fit
from ling.results import Cost

# Johnson & Zhang's choice for convex problems: a new full gradient every 2 n steps.
PASSES_PER_SNAPSHOT = 2
# Steps tried by cross-validation, in units of 1 / max_i ||x_i||^2. A step eta along row x shrinks
# the squared error by eta (2 - eta ||x||^2) (x'e)^2. Up to 1 that is at least eta (x'e)^2 for every
# row; towards 2 it vanishes for the longest rows. Where few rows are long, a step that looked best
# on the folds may then run away on all rows, when these rows are drawn often.
STEP_FACTORS = 2.0 ** np.arange(-7, 1)
N_TUNING_FOLDS = 3
# All steps are tried for TRIAL_PASSES, and the best N_CONTINUED for as many passes as are run. A
# step that diverges slowly still looks best after 10 passes, but not when it is followed to the
# end. After fewer passes long steps look worse than they are, because they overshoot at first.
TRIAL_PASSES = 10
N_CONTINUED = 3

Indices = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class SvrgFit(Fit):
    """`step` is the step size used; `tuning_cost`, what choosing it cost, is not part of `cost`."""

    step: float
    tuning_cost: Cost


@dataclass(frozen=True, eq=False)
class SvrgResult:
    """Result of SVRG: gamma, the passes it took, its step, and what choosing the step cost."""

    gamma: Array
    n_passes: int
    step: float
    tuning_cost: Cost


def svrg(
    X: MatrixLike,
    y: ArrayLike,
    lam: float,
    n_passes: int,
    step: float | None = None,
    random_state: Seed = None,
) -> SvrgFit:
    """SVRG on the mean over rows of (x_i'w - y_i)^2 / 2 + lam ||w||^2 / 2, in `n_passes` n steps.

    Each step draws a row: w <- w - step (x_i x_i'(w - w0) + lam (w - w0) + gradient at w0),
    where the snapshot w0 is renewed every 2 n steps. 6 p FLOPs a step (10 per stored entry if X
    is sparse), 4 n p and one pass more for each snapshot, 2 n p and one pass for the fitted
    values.

    step=None tries 8 steps by 3-fold cross-validation: each for 2 passes, the best 4 for up to 10,
    then always the one with the smallest error so far for longer, until one has made all
    `n_passes`. A step that is too long is refused only once it leaves the finite numbers; before
    that it shows as a poor fit. Rows are visited in random order, so X must be in memory (or
    memory-mapped) by rows; Fortran-ordered and integer data are copied once.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)
    y : array of shape (n,)
    lam : float
        The paper's lambda, >= 0: scikit-learn's alpha divided by n.
    n_passes : int
        Steps, in units of n.
    step : float, default=None
        The length of a step; None has it chosen by cross-validation.
    random_state : int, Generator or None, default=None

    Returns
    -------
    SvrgFit
        A `Fit`, with the step and what choosing it cost.

    Examples
    --------
    >>> import numpy as np
    >>> svrg(np.eye(2), np.array([1.0, 3.0]), lam=0.5, n_passes=99, step=0.5, random_state=0).coef
    array([0.5, 1.5])
    """
    design = check_design(X)
    target = check_target(y, design)
    check_alpha(lam, design.shape[0])
    rng = as_generator(random_state)
    end = run_svrg(design, target, float(lam), n_passes, step, rng)
    fitted = design.matmat(end.gamma)
    return SvrgFit(end.gamma, fitted, design.cost, end.step, end.tuning_cost)


def run_svrg(
    design: Design,
    target: Array,
    lam: float,
    n_passes: Any,
    step: Any,
    rng: np.random.Generator,
    should_stop: StopTest | None = None,
) -> SvrgResult:
    """SVRG from zero on any design that rows can be read from, with its step chosen if need be.

    `should_stop` may end it at a snapshot, before `n_passes` passes.
    """
    n_passes = check_count(n_passes, "n_passes", 1)
    rows = svrg_rows(design)
    everything = np.arange(design.shape[0])
    tuning_cost = Cost()
    if step is None:
        step, tuning_cost = _tune_step(design, rows, target, lam, n_passes, rng)
    elif isinstance(step, bool) or not isinstance(step, Real) or not 0 < float(step) < np.inf:
        raise OptionError(
            "step",
            f"is {step!r}",
            "pass a number > 0",
            Change("step", None, "to choose it by cross-validation"),
        )
    gamma, n_passes = _run_epochs(
        design, rows, target, lam, n_passes, float(step), everything, rng, should_stop=should_stop
    )
    if not np.isfinite(gamma).all():
        raise DivergenceError(
            f"step={step} is too large: SVRG diverged; pass a smaller step "
            f"(1 / max ||x_i||^2 is {1 / max(rows.max_squared_norm(), 1e-300):.3g}), or step=None."
        )
    return SvrgResult(gamma, n_passes, float(step), tuning_cost)


@dataclass(frozen=True, eq=False)
class SvrgRows(ABC):
    """The rows of a design as the kernels read them; `svrg_kernels` explains the letters."""

    s: Array
    d: Array | None
    L: Array
    R: Array
    P: Array
    T: Array

    def epoch(self, order: Indices, step: float, decay: float, h: Array) -> Array:
        """The sum of the steps over the rows in `order`."""
        rank = self.R.shape[1]
        v, c, z = np.zeros(len(h)), np.zeros(rank), np.zeros(rank)
        low_rank = self.s, self.d, self.L, self.P, self.T
        self._run_epoch(low_rank, order, step, decay, h, (self.R.T @ h, v, c, z))
        return v - self.R @ c

    @abstractmethod
    def _run_epoch(
        self, low_rank: Any, order: Indices, step: float, decay: float, h: Array, iterate: Any
    ) -> None:
        """Run the compiled loop, which changes `iterate`: R'h, v, c and z."""

    @abstractmethod
    def squared_norms(self) -> Array:
        """||d * x_i||^2 of the stored rows, one pass."""

    @property
    @abstractmethod
    def flops_per_step(self) -> float:
        """FLOPs of one step, on average."""

    def max_squared_norm(self) -> float:
        """max ||x~_i||^2, not less than the rounding of the difference that it is; one pass."""
        low = ((self.s[:, None] * self.P + self.T) * self.L).sum(axis=1)
        squares = self.s**2 * self.squared_norms()
        return float(np.maximum(squares - low, 4 * EPS * squares).max())


@dataclass(frozen=True, eq=False)
class DenseRows(SvrgRows):
    """Rows of an array."""

    array: Array

    def _run_epoch(
        self, low_rank: Any, order: Indices, step: float, decay: float, h: Array, iterate: Any
    ) -> None:
        from ling.paper.svrg_kernels import dense_epoch

        dense_epoch(self.array, *low_rank, order, step, decay, h, *iterate)

    def squared_norms(self) -> Array:
        """||d * x_i||^2."""
        from ling.paper.svrg_kernels import dense_norms

        out = np.zeros(len(self.array))
        dense_norms(self.array, self.d, out)
        return out

    @property
    def flops_per_step(self) -> float:
        """6 p, and 10 for each rank."""
        return float(6 * self.array.shape[1] + 10 * self.R.shape[1])


@dataclass(frozen=True, eq=False)
class SparseRows(SvrgRows):
    """Rows of a CSR matrix without duplicate entries."""

    csr: Any

    def _run_epoch(
        self, low_rank: Any, order: Indices, step: float, decay: float, h: Array, iterate: Any
    ) -> None:
        # Each coordinate is brought up to date when a row stores it, by these tables.
        from ling.paper.svrg_kernels import csr_epoch

        powers = decay ** np.arange(len(order) + 1.0)
        sums = np.concatenate([[0.0], np.cumsum(powers[:-1])])
        seen = np.zeros(len(h), dtype=np.int64)
        csr_epoch(*self._csr_arrays, *low_rank, order, step, powers, sums, h, *iterate, seen)

    def squared_norms(self) -> Array:
        """||d * x_i||^2."""
        from ling.paper.svrg_kernels import csr_norms

        out = np.zeros(self.csr.shape[0])
        csr_norms(*self._csr_arrays, self.d, out)
        return out

    @property
    def flops_per_step(self) -> float:
        """10 for each stored entry and each rank."""
        return float(10 * self.csr.nnz / self.csr.shape[0] + 10 * self.R.shape[1])

    @property
    def _csr_arrays(self) -> tuple[Any, Any, Any]:
        return self.csr.indptr, self.csr.indices, self.csr.data


def svrg_rows(design: Design) -> SvrgRows:
    """The rows of a design, and what a step needs; one pass if it has a low-rank part."""
    storage, affine = design.storage, design.affine
    n, p = design.shape
    s = np.ones(n) if affine.row_scale is None else affine.row_scale
    d = affine.column_scale
    L = np.zeros((n, 0)) if affine.left is None else affine.left
    R = np.zeros((p, 0)) if affine.right is None else scale_rows(affine.right, d)
    P = Design(storage, meter=design.meter).matmat(scale_rows(R, d)) if affine.rank else L
    T = s[:, None] * P - L @ (R.T @ R)
    design.meter.add(flops=2.0 * (n + p) * affine.rank**2)
    if isinstance(storage, DenseStorage):
        # Where rows do not lie in one piece a step would fetch a cache line for each element.
        array = np.ascontiguousarray(storage.array, storage.dtype)
        return DenseRows(s, d, L, R, P, T, array)
    if isinstance(storage, SparseStorage):
        csr = storage.csr
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        return SparseRows(s, d, L, R, P, T, csr)
    raise InputTypeError(
        "X",
        f"is stored as a {type(storage).__name__}, from which SVRG cannot read single rows",
        "pass an array or a sparse matrix",
    )


def _run_epochs(
    design: Design,
    rows: SvrgRows,
    target: Array,
    lam: float,
    n_passes: int,
    step: float,
    chosen: Indices,
    rng: np.random.Generator,
    start: Array | None = None,
    should_stop: StopTest | None = None,
) -> tuple[Array, int]:
    """SVRG on the `chosen` rows, not finite if the step was too long; and the passes it took."""
    n, p = design.shape
    used = np.zeros(n)
    used[chosen] = 1.0 / len(chosen)
    w = np.zeros(p) if start is None else start
    left = n_passes * len(chosen)
    # A step that is too long overflows on its way; the caller looks at the result instead.
    with np.errstate(over="ignore", invalid="ignore"):
        while left and np.isfinite(w).all():
            n_steps = min(left, PASSES_PER_SNAPSHOT * len(chosen))
            gradient = lam * w + design.gram_matmat(
                w, AffineRowTransform.from_values(np.ones(n), target, used)
            )
            if should_stop is not None and should_stop(w, -n * gradient):
                break
            order = chosen[rng.integers(len(chosen), size=n_steps)]
            w = w + rows.epoch(order, step, 1.0 - step * lam, step * gradient)
            design.meter.add(rows.flops_per_step * n_steps, n_steps / n)
            left -= n_steps
    return w, n_passes - left // len(chosen)


@dataclass(frozen=True, eq=False)
class StepTrial:
    """A step after `passes` passes: its iterate on each fold, its error on the rows left out."""

    step: float
    passes: int
    iterates: tuple[Array, ...]
    error: float


@dataclass(frozen=True, eq=False)
class StepTuner:
    """Cross-validation of the step on one problem."""

    design: Design
    rows: SvrgRows
    target: Array
    lam: float
    fold: Indices
    rng: np.random.Generator

    def start(self, step: float) -> StepTrial:
        """A step that has not been tried yet."""
        zero = np.zeros(self.design.shape[1])
        return StepTrial(step, 0, (zero,) * N_TUNING_FOLDS, np.inf)

    def advance(self, trial: StepTrial, passes: int) -> StepTrial:
        """Continue a trial until it has made `passes` passes; its error is infinite on overflow.

        The error is the larger of those at the last iterate and at the longest one on the way: near
        the edge of stability SVRG runs away and comes back, and may be away when it is stopped.
        """
        ends, farthest = zip(
            *(
                self._run_fold(k, trial.step, w, passes - trial.passes)
                for k, w in enumerate(trial.iterates)
            ),
            strict=True,
        )
        both = np.stack([*ends, *farthest], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            misses = np.square(self.target[:, None] - self.design.matmat(both))
            held_out = self.fold[:, None] == np.tile(np.arange(N_TUNING_FOLDS), 2)
            errors = np.where(held_out, misses, 0.0).sum(axis=0).reshape(2, N_TUNING_FOLDS)
        error = float(errors.max(axis=0).sum())
        return StepTrial(trial.step, passes, ends, error if np.isfinite(error) else np.inf)

    def _run_fold(self, k: int, step: float, w: Array, n_passes: int) -> tuple[Array, Array]:
        """The last and the longest iterate of `n_passes` more passes without the rows of fold k."""
        chosen, farthest = np.flatnonzero(self.fold != k), w
        while n_passes and np.isfinite(w).all():
            some = min(n_passes, PASSES_PER_SNAPSHOT)
            w, _ = _run_epochs(
                self.design, self.rows, self.target, self.lam, some, step, chosen, self.rng, w
            )
            n_passes -= some
            if not np.abs(w).max(initial=0.0) <= np.abs(farthest).max(initial=0.0):
                farthest = w
        return w, farthest


def _tune_step(
    design: Design,
    rows: SvrgRows,
    target: Array,
    lam: float,
    n_passes: int,
    rng: np.random.Generator,
) -> tuple[float, Cost]:
    """The step with the smallest squared error on rows left out, and what finding it cost.

    All steps are tried for a few passes, and the best of them for as many as are run.
    """
    n = design.shape[0]
    if n < N_TUNING_FOLDS:
        raise OptionError(
            "step",
            f"is None, and `X` has {n} rows, too few to choose it by cross-validation",
            f"pass a number, such as {0.5 / max(rows.max_squared_norm(), 1e-300):.3g}",
        )
    apart = design.metered(Meter())
    longest = rows.max_squared_norm() + lam
    apart.meter.add(flops=design.matvec_flops, passes=1)
    steps = STEP_FACTORS / longest if longest > 0 else STEP_FACTORS
    tuner = StepTuner(apart, rows, target, lam, rng.permutation(n) % N_TUNING_FOLDS, rng)
    trials = [tuner.start(float(step)) for step in steps]
    for passes in (min(n_passes, TRIAL_PASSES), n_passes):
        # The error of a trial covers the passes of its last call: the second half of them.
        for until in (max(trials[0].passes, passes // 2), passes):
            trials = [tuner.advance(trial, until) for trial in trials]
        trials = sorted(trials, key=lambda trial: trial.error)[:N_CONTINUED]
    best = trials[0]
    return best.step, apart.cost
