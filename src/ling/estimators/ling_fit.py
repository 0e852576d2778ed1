"""LING on a ridge problem: number of components, both stages, and when to stop the second one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ling._typing import Array
from ling.errors import Change, OptionError
from ling.estimators.fit import (
    FitResult,
    coef_rounding,
    complete_fit,
    fit_options,
    rounding_notes,
)
from ling.linalg.ritz import thin_svd
from ling.linalg.rounding import sum_noise
from ling.paper.algorithm1 import FirstStage, first_stage
from ling.paper.algorithm3 import StopTest, run_gradient_descent
from ling.paper.svrg_solver import N_TUNING_FOLDS, run_svrg
from ling.paper.trade_off import StageCosts, cheapest_n_components
from ling.results import Cost, FitReport
from ling.solvers.certificate import LowRankMinorant, Minorant, ZeroMinorant
from ling.solvers.cost_model import EngineEstimate, sampling_flops
from ling.solvers.engine import Candidate, as_generator, integer_seed
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.problem import Problem, TrainingData, build_problem
from ling.solvers.row_sampling import (
    RowSample,
    SpectrumEstimate,
    draw_row_sample,
    estimate_spectrum,
)
from ling.solvers.solve import Solution, certify_candidate

AUTO = "auto"
# Iterations of gradient descent, or passes of SVRG, after which n_iter="auto" ends. The two stages
# have cost more than most exact solvers by then.
MAX_AUTO_ITER = {"gradient_descent": 1000, "svrg": 100}
# n_iter="auto" stops at this fraction of tol, which leaves room for rounding in the certificate.
STOP_FRACTION = 0.9
# n_iter="auto" also stops when the limit of stage 2 is not expected to reach tol, and more
# iterations would reduce the error bound by about this fraction at most. What is left of the error
# comes from approximate components. With half of it, Gisette and Buzz took 16 % more iterations for
# bounds that were 6 % smaller, and up to 1.5 times the FLOPs of the cheapest fit with such a bound.
LIMIT_FRACTION = 0.1
# The same where the limit may be between STOP_FRACTION of tol and tol, which a fit has to reach.
NEAR_TOL_LIMIT_FRACTION = 0.005
# Rows from which the spectrum is estimated, and the most that they may cost, in components.
SAMPLE_SIZES = 64, 128, 256, 512
MAX_SAMPLE_COMPONENTS = 2.0
# From so many strong directions on, it is measured whether their eigenvalues are equal. That costs
# four products, as much as one component with power=1, and may save one component for each of them.
MIN_EQUAL_EIGENVALUES = 4
# Another power is not advised if the bound exceeds tol by more than this: it would not be enough.
MAX_REMEDIED_RATIO = 10.0


@dataclass(frozen=True)
class LingOptions:
    """The parameters of LING, as for `LingRegressor`; None is "auto"."""

    n_components: int | None
    n_iter: int | None
    power: int
    shrink: bool
    second_stage: str
    tol: float


@dataclass(frozen=True, eq=False)
class LingResult:
    """A fit with its number of components, the cost of both stages, and advice if tol is missed."""

    fit: FitResult
    n_components: int
    cost: Cost
    advice: str


def fit_ling(model: Any, data: TrainingData, alphas: Array, started: float) -> LingResult:
    """Fit LING with the parameters of `model` to the data, with alphas (t,), and certify it.

    `started` is the `time.perf_counter()` at the start of the fit.
    """
    options = _ling_options(model, data.design.shape, alphas)
    data.design.meter.begin_stage("prepare")
    problem, standardization = build_problem(data, alphas, bool(model.fit_intercept))
    meter, prepared = problem.design.meter, time.perf_counter()
    before = meter.cost
    meter.begin_stage("stage 1 of LING")
    rng = as_generator(model.random_state)
    k = options.n_components or choose_n_components(problem, options, rng)
    stage1 = first_stage(
        problem.design, problem.targets, problem.alphas, k, options.power, options.shrink, rng
    )
    minorant = stage1_minorant(problem, stage1)
    meter.begin_stage("stage 2 of LING")
    gamma2, n_iter = run_second_stage(problem, stage1, options, minorant, rng)
    cost = Cost(meter.cost.flops - before.flops, meter.cost.passes - before.passes)
    k = stage1.U.shape[1]
    candidate = Candidate(stage1.coef(gamma2), minorant, n_iter=n_iter, rank=k)
    solution = certify_candidate(
        problem,
        candidate,
        EngineEstimate("ling", 0.0, 0.0, 0.0),
        fit_options(model),
        coef_rounding(problem, standardization),
        prepared,
    )
    seed = integer_seed(model.random_state)
    make_report = partial(_make_report, problem, data.notes, options, seed, prepared - started)
    fit = complete_fit(
        problem,
        standardization,
        solution,
        bool(model.fit_intercept),
        make_report,
        MemoryBudget.from_option(None, data.resident_bytes),
    )
    return LingResult(fit, k, cost, _advice(model, options, fit))


def _ling_options(model: Any, shape: tuple[int, int], alphas: Array) -> LingOptions:
    """The parameters of LING, checked against the shape of X and the alphas (t,)."""
    k, n_iter, limit = model.n_components, model.n_iter, min(shape)
    if k != AUTO and k > limit:
        raise OptionError(
            "n_components",
            f"is {k}, and `X` of shape {shape} has at most {limit} components",
            f"pass a number <= {limit}",
            Change("n_components", AUTO),
        )
    for name, value in (("n_components", k), ("n_iter", n_iter)):
        if value == AUTO and (alphas == 0).any():
            raise OptionError(
                name,
                f"is {AUTO!r}, which needs an error bound, and there is none for `alpha` = 0",
                f"pass a number for `{name}`",
                "pass `alpha` > 0",
            )
    if model.second_stage == "svrg" and shape[0] < N_TUNING_FOLDS:
        raise OptionError(
            "second_stage",
            f"is 'svrg', whose step is chosen by {N_TUNING_FOLDS}-fold cross-validation, and `X` "
            f"has {shape[0]} rows",
            Change("second_stage", "gradient_descent"),
        )
    return LingOptions(
        None if k == AUTO else int(k),
        None if n_iter == AUTO else int(n_iter),
        int(model.power),
        bool(model.shrink),
        model.second_stage,
        float(model.tol),
    )


def choose_n_components(problem: Problem, options: LingOptions, rng: np.random.Generator) -> int:
    """The cheapest number of components, from the spectrum of a sample of rows.

    If all components together cost less than the smallest sample, it is their number. Without
    shrinkage they would give the least-squares solution, so a sample is taken all the same.
    """
    n, p = problem.shape
    product_flops = problem.design.matvec_flops
    costs = StageCosts(product_flops, problem.shape, options.power, problem.n_targets)
    smallest_sample = sampling_flops(min(n, SAMPLE_SIZES[0]), p)
    if options.shrink and costs.components(min(n, p)) <= smallest_sample:
        return min(n, p)
    affordable = MAX_SAMPLE_COMPONENTS * costs.components(1)
    sizes = [size for size in SAMPLE_SIZES if sampling_flops(size, p) <= affordable]
    size = min(n, max(sizes, default=SAMPLE_SIZES[0]))
    sample = draw_row_sample(problem, np.ones(p), size, rng)
    problem.design.meter.add(flops=sampling_flops(size, p))
    alpha = float(problem.alphas.min())
    spectrum = estimate_spectrum(problem, sample, alpha, min(size, min(n, p) - 1))
    if may_be_equal(spectrum.leading, size):
        spectrum = measure_spread(problem, sample, spectrum, rng)
    return cheapest_n_components(
        spectrum.eigenvalues,
        first_bounds(problem, sample, spectrum),
        alpha,
        STOP_FRACTION * options.tol,
        costs,
    )


def may_be_equal(leading: Array, n_rows: int) -> bool:
    """Whether equal eigenvalues would look like these in a sample of `n_rows` rows.

    The eigenvalues of k equally strong directions spread from (1 - q)^2 to (1 + q)^2 with
    q = sqrt(k / n_rows) (Marchenko & Pastur).
    """
    q = np.sqrt(len(leading) / n_rows)
    if len(leading) < MIN_EQUAL_EIGENVALUES or q >= 1:
        return False
    return bool(leading[0] * (1 - q) ** 2 <= leading[-1] * (1 + q) ** 2)


def measure_spread(
    problem: Problem, sample: RowSample, spectrum: SpectrumEstimate, rng: np.random.Generator
) -> SpectrumEstimate:
    """The estimate with leading eigenvalues of the mean and deviation that X'X shows; two passes.

    A sample of rows cannot tell equal eigenvalues from unequal ones, and stage 2 is far faster if
    those that it has to deal with are equal. The mean and deviation are those of a random mixture
    of the sample's leading directions. X'X is applied once before, because they contain weak
    directions too.
    """
    k = len(spectrum.leading)
    mixture = sample.eigenvectors[:, :k] @ rng.standard_normal(k)
    v = problem.design.gram_matmat(sample.scaled_rows.T @ mixture)
    v /= np.linalg.norm(v)
    product = problem.design.gram_matmat(v)
    mean = float(v @ product)
    deviation = float(np.linalg.norm(product - mean * v))
    if deviation >= spectrum.leading.std():  # they do differ
        return spectrum
    # The first and the last of evenly spaced numbers are sqrt(3) deviations from their mean.
    leading = mean + np.sqrt(3) * deviation * np.linspace(1, -1, k)
    return SpectrumEstimate(leading, spectrum.tail)


def first_bounds(problem: Problem, sample: RowSample, spectrum: SpectrumEstimate) -> Array:
    """Estimated squared error bound of each direction at the start of stage 2, over ||y||^2.

    It is s_j l_j / alpha for a direction with eigenvalue l_j that explains the share s_j of y. The
    sample shows the shares of its leading directions. The rest of y is spread over the others like
    l_j, as it is for coefficients of equal size. The largest bound of all targets is returned.
    """
    leading, tail = spectrum.leading, spectrum.tail
    Y = problem.targets[sample.rows]
    tiny = np.finfo(np.float64).tiny
    scores = sample.eigenvectors[:, : len(leading)].T @ Y
    shares = scores**2 / np.maximum((Y**2).sum(axis=0), tiny)
    rest = np.maximum(1 - shares.sum(axis=0), 0.0)
    tail_shares = np.outer(tail / max(float(tail.sum()), tiny), rest)
    squares = np.concatenate([shares, tail_shares]) * spectrum.eigenvalues[:, None]
    return np.asarray(squares.max(axis=1) / problem.alphas.min())


def stage1_minorant(problem: Problem, stage1: FirstStage) -> Minorant:
    """X'U U'X, which is at most X'X because U U' is a projector.

    The slack covers the rounding of U'X, of the orthonormal basis U and of the decomposition.
    """
    vectors, values = thin_svd(stage1.UtX.T)
    squared_norm = float((problem.raw_column_norms**2).sum())
    slack = 8 * np.sqrt(len(values)) * sum_noise(*problem.shape) * squared_norm
    return LowRankMinorant(vectors, values**2, slack)


def run_second_stage(
    problem: Problem,
    stage1: FirstStage,
    options: LingOptions,
    minorant: Minorant,
    rng: np.random.Generator,
) -> tuple[Array, int]:
    """gamma2 (p, t) of stage 2, and its iterations or, for SVRG, passes.

    It ends after `options.n_iter` of them, or else when the bound of both stages reaches tol.
    """
    is_auto = options.n_iter is None
    n_iter = MAX_AUTO_ITER[options.second_stage] if options.n_iter is None else options.n_iter

    def stop_test(targets: slice) -> StopTest | None:
        return (
            partial(_is_done, problem, stage1, minorant, options.tol, targets) if is_auto else None
        )

    if options.second_stage == "gradient_descent":
        start = np.zeros_like(problem.moments)
        descent = run_gradient_descent(
            stage1.X_residual, stage1.y_residual, problem.alphas, n_iter, start,
            stop_test(slice(None)),
        )  # fmt: skip
        return descent.gamma, descent.n_iter
    if n_iter == 0:
        return np.zeros_like(problem.moments), 0
    n, ends = problem.shape[0], []
    for t, alpha in enumerate(problem.alphas):
        target = stage1.y_residual[:, t]
        stop = stop_test(slice(t, t + 1))
        ends.append(run_svrg(stage1.X_residual, target, alpha / n, n_iter, None, rng, stop))
    for end in ends:
        problem.design.meter.add(end.tuning_cost.flops, end.tuning_cost.passes)
    return np.stack([end.gamma for end in ends], axis=1), max(end.n_passes for end in ends)


def _is_done(
    problem: Problem,
    stage1: FirstStage,
    minorant: Minorant,
    tol: float,
    targets: slice,
    gamma2: Array,
    gradient2: Array,
) -> bool:
    """Whether, for each target, the bound of both stages is within tol or stage 2 at its limit.

    `gamma2` and its gradient `gradient2` belong to the given targets. No pass: the gradient of the
    ridge problem follows from that of stage 2.
    """
    stage1 = stage1.for_targets(targets)
    alphas, scale = problem.alphas[targets], tol * problem.error_scale[targets]
    gamma2, gradient2 = gamma2.reshape(-1, len(alphas)), gradient2.reshape(-1, len(alphas))
    squares = minorant.quadratic_form(stage1.ridge_gradient(gamma2, gradient2, alphas), alphas)
    bounds = np.sqrt(squares)
    is_within_tol = bounds <= STOP_FRACTION * scale
    # The gradient of stage 2 is almost orthogonal to the rest of the gradient, which is that of the
    # limit, so that the squares of their bounds add up to that of both.
    to_limit = np.sqrt(ZeroMinorant().quadratic_form(gradient2, alphas))
    fraction = np.where(bounds - to_limit > scale, LIMIT_FRACTION, NEAR_TOL_LIMIT_FRACTION)
    is_close = to_limit**2 <= (1 - (1 - fraction) ** 2) * squares
    is_at_limit = (bounds - to_limit > STOP_FRACTION * scale) & is_close
    return bool((is_within_tol | is_at_limit).all())


def _advice(model: Any, options: LingOptions, fit: FitResult) -> str:
    """What to do if the bound exceeds tol."""
    solution = fit.solution
    exact = "RidgeClassifier" if is_classifier(model) else "Ridge"
    n_iter = solution.candidate.n_iter or 0
    if options.n_iter is None and n_iter < MAX_AUTO_ITER[options.second_stage]:
        # On 48 problems with power-law spectra one power more reduced the bound of 47, to 0.4 of it
        # in the median, and to tol in 13. Twice as many components increased it on 32 of them.
        cause, remedy = "approximate components", f"power={options.power + 1}"
        if not options.shrink:
            cause, remedy = f"{cause} and the missing shrinkage", f"shrink=True and {remedy}"
        advice = (
            f"stage 2 has converged, and the rest of the error comes from the {cause} of stage 1; "
            f"use {exact}, which has no such limit"
        )
        if solution.certificate.bound > MAX_REMEDIED_RATIO * options.tol and options.shrink:
            return f"{advice}, or raise tol."
        return f"{advice}, pass {remedy}, or raise tol."
    return f"raise n_iter, n_components or tol, or use {exact}, which converges faster."


def _make_report(
    problem: Problem,
    notes: tuple[str, ...],
    options: LingOptions,
    seed: int | None,
    preparation_seconds: float,
    solution: Solution,
) -> FitReport:
    """Build the report of a fit with LING."""
    shrink = "" if options.shrink else ", without shrinkage"
    name = {"gradient_descent": "gradient descent", "svrg": "SVRG"}[options.second_stage]
    return FitReport(
        engine=solution.estimate.engine,
        reason=f"the paper's Algorithm 1{shrink}, stage 2 by {name}",
        status=solution.status,
        certificate=solution.certificate,
        cost=problem.design.cost,
        seconds={"prepare": preparation_seconds, **solution.seconds},
        rank=solution.candidate.rank,
        n_iter=solution.candidate.n_iter,
        shape=problem.shape,
        notes=(*notes, *rounding_notes(solution)),
        seed=seed,
    )
