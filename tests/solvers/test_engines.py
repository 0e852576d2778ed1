"""Every engine, on every kind of problem, against the reference; and what engines promise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from ling.design import DenseStorage, SparseStorage
from ling.design.tuning import DEFAULT_TUNING
from ling.linalg.cholesky import proven_min_eigenvalue
from ling.results import Status
from ling.solvers.certificate import LowRankMinorant, ZeroMinorant, certify
from ling.solvers.conjugate_gradients import (
    Preconditioner,
    conjugate_gradients,
    diagonal_conjugate_gradients,
)
from ling.solvers.cost_model import LOOK_ROWS, PassCosts
from ling.solvers.engine import EngineBudget
from ling.solvers.engines import ENGINES
from ling.solvers.nystrom import randomized_nystrom_sketch
from ling.solvers.options import FitOptions
from ling.solvers.row_sampling import initial_sample_size, row_sample_sketch
from tests import reference
from tests.solvers.ways import WAYS
from tests.training import make_problem, run_engine

TOL = 1e-6
SKETCHES = randomized_nystrom_sketch, row_sample_sketch


def spectrum(kind, k):
    return {
        "flat": np.linspace(1.0, 0.5, k),
        "steep": 10.0 ** -np.linspace(0, 6, k),
        "power": 1.0 / np.arange(1, k + 1),
        "spikes": np.where(np.arange(k) < 3, 30.0, 1.0),
    }[kind]


def matrix(rng, n, p, kind):
    k = min(n, p)
    U = np.linalg.qr(rng.standard_normal((n, k)))[0]
    V = np.linalg.qr(rng.standard_normal((p, k)))[0]
    return np.sqrt(n) * (U * spectrum(kind, k)) @ V.T


# name: (n, p, spectrum, number of targets, weighted, sparse, columns' units differ)
KINDS = {
    "tall": (120, 30, "power", 1, False, False, False),
    "very tall": (900, 12, "flat", 1, True, False, False),
    "wide": (40, 150, "power", 1, False, False, False),
    "square, steep": (60, 60, "steep", 1, False, False, False),
    "spikes": (200, 80, "spikes", 1, True, False, False),
    "targets": (90, 40, "power", 5, False, False, False),
    "wide targets": (40, 90, "power", 5, False, False, False),
    "weighted targets": (90, 40, "flat", 3, True, False, False),
    "sparse": (150, 50, "flat", 1, False, True, False),
    "sparse, weighted": (150, 50, "flat", 2, True, True, False),
    "units": (200, 30, "flat", 1, False, False, True),
}
engines = pytest.mark.parametrize("engine", ENGINES)
ways = pytest.mark.parametrize("way", WAYS)
kinds = pytest.mark.parametrize("kind", KINDS)


def data(kind, rng):
    n, p, shape, targets, weighted, is_sparse, units = KINDS[kind]
    X = matrix(rng, n, p, shape)
    X = X * (rng.random(X.shape) < 0.2) if is_sparse else X + rng.standard_normal(p)
    if units:
        X = X * 10.0 ** rng.uniform(-2, 2, p)
    Y = X @ (rng.standard_normal((p, targets)) / np.linalg.norm(X, axis=0)[:, None])
    Y += 0.3 * rng.standard_normal((n, targets)) + 5.0
    return X, Y, rng.gamma(1.0, size=n) if weighted else None


def build(kind, rng, alphas, way=WAYS["direct"]):
    X, Y, weights = data(kind, rng)
    alphas = np.broadcast_to(np.asarray(alphas, dtype=float), Y.shape[1]).copy()
    if KINDS[kind][5]:
        problem = make_problem(sparse.csr_array(X), Y, alphas, weights, True)[0]
    else:
        problem = way.build(X, Y, alphas, weights, True)[0]
    return problem, dense_problem(X, Y, weights)


def dense_problem(X, Y, weights):
    """X and Y centred and weighted the plain way."""
    w = np.ones(len(X)) if weights is None else weights
    root = np.sqrt(w)[:, None]
    return root * (X - w @ X / w.sum()), root * (Y - w @ Y / w.sum())


def error(X, Y, alphas, W):
    """||X(w - w*)|| / ||y||, target by target."""
    exact = np.column_stack([reference.ridge(X, y, a) for y, a in zip(Y.T, alphas, strict=True)])
    return np.linalg.norm(X @ (W - exact), axis=0) / np.linalg.norm(Y, axis=0)


@ways
@kinds
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
def test_every_engine_comes_within_tol_of_the_reference_and_knows_it(way, kind, alpha, rng):
    problem, (X, Y) = build(kind, rng, alpha, WAYS[way])
    candidate = WAYS[way].solve(problem, TOL)
    certificate, status = certify(problem, candidate, TOL)
    found = error(X, Y, problem.alphas, candidate.coef)
    assert status is Status.CERTIFIED, certificate
    assert (found <= TOL).all()
    assert (found <= certificate.bounds * (1 + 1e-6) + 1e-13).all()


@ways
@pytest.mark.parametrize("kind", ["targets", "wide targets"])
def test_every_target_has_its_own_alpha(way, kind, rng):
    alphas = np.array([1e-2, 1.0, 1.0, 30.0, 1e3])
    problem, (X, Y) = build(kind, rng, alphas, WAYS[way])
    candidate = WAYS[way].solve(problem, TOL)
    assert certify(problem, candidate, TOL)[1] is Status.CERTIFIED
    assert (error(X, Y, alphas, candidate.coef) <= TOL).all()


def test_many_alphas_are_solved_by_one_eigendecomposition(rng):
    X = matrix(rng, 80, 25, "power")
    Y = rng.standard_normal((80, 12))
    for Z in (X, X.T @ np.linalg.qr(rng.standard_normal((80, 80)))[0]):  # primal, then dual
        Y = rng.standard_normal((len(Z), 12))
        alphas = np.logspace(-3, 3, 12)
        problem = make_problem(Z, Y, alphas, None, False)[0]
        candidate = run_engine(ENGINES["direct"], problem, TOL)
        assert certify(problem, candidate, TOL)[1] is Status.CERTIFIED
        assert (error(Z, Y, alphas, candidate.coef) <= 1e-9).all()


def test_too_few_iterations_are_not_certified(rng):
    problem, _ = build("square, steep", rng, 1e-3)
    candidate = run_engine(ENGINES["two_stage"], problem, 1e-12, 0, max_iter=1)
    certificate, status = certify(problem, candidate, 1e-12)
    assert candidate.n_iter == 1
    assert status is Status.NOT_REACHED
    assert certificate.bound > 0


@pytest.mark.parametrize("kind", ["tall", "wide", "square, steep", "spikes", "units"])
@pytest.mark.parametrize("alpha", [1e-6, 1.0])
def test_sketches_lie_below_the_gram_matrix(kind, alpha, rng):
    problem, (X, _) = build(kind, rng, alpha)
    options = FitOptions(tol=TOL, random_state=0)
    for sketch in SKETCHES:
        minorant = sketch(problem, options, EngineBudget())[0].minorant()
        if isinstance(minorant, ZeroMinorant):
            continue
        assert isinstance(minorant, LowRankMinorant)
        B = (minorant.vectors * minorant.values) @ minorant.vectors.T
        gap = np.linalg.eigvalsh(X.T @ X + minorant.slack * np.eye(len(B)) - B)
        rounding = 1e-14 * np.linalg.norm(X, 2) ** 2
        assert gap[0] >= -rounding
        assert minorant.slack <= 1e-8 * np.linalg.norm(X, 2) ** 2


@pytest.mark.parametrize("sketch", SKETCHES)
def test_a_minorant_bounds_closer_than_none(sketch, rng):
    problem, (X, _) = build("spikes", rng, 1e-2)
    minorant = sketch(problem, FitOptions(tol=TOL, random_state=0), EngineBudget())[0].minorant()
    g = X.T @ rng.standard_normal((len(X), 1))
    exact = float(g[:, 0] @ np.linalg.solve(X.T @ X + 1e-2 * np.eye(X.shape[1]), g[:, 0]))
    alphas = np.array([1e-2])
    assert (
        exact
        <= minorant.quadratic_form(g, alphas)[0]
        < 0.9 * ZeroMinorant().quadratic_form(g, alphas)[0]
    )


@pytest.mark.parametrize("kind", ["tall", "square, steep", "spikes"])
def test_what_conjugate_gradients_prove_on_the_way_is_an_upper_bound(kind, rng):
    """Gauss-Radau quadrature: at every number of steps, with a crude lower end of the spectrum."""
    problem, (X, Y) = build(kind, rng, 0.1)
    crude = np.array([0.1 / (np.linalg.norm(X, 2) ** 2 + 0.1)])
    plain = Preconditioner(lambda R, _: R / (np.linalg.norm(X, 2) ** 2 + 0.1), crude)
    tight = []
    for steps in (1, 3, 6, 10, 15):
        found = conjugate_gradients(problem, plain, ZeroMinorant(), tol=1e-14, max_iter=steps)
        exact = reference.ridge(X, Y[:, 0], 0.1)
        gap = found.coef[:, 0] - exact
        true = np.linalg.norm(X @ gap) ** 2 + 0.1 * gap @ gap
        assert found.squared_bound[0] >= true * (1 - 1e-6) - 1e-25
        tight.append(found.squared_bound[0] / max(true, 1e-25))
    # Where convergence is slow, the first bound, with the crude end, is far above.
    assert min(tight) < (30 if kind == "square, steep" else 0.1 / crude[0])


def test_an_iteration_that_will_not_pay_gives_up(rng):
    problem, _ = build("square, steep", rng, 1e-9)
    candidate = run_engine(ENGINES["two_stage"], problem, 1e-10, 0, max_passes=3.0)
    assert candidate.gave_up


@pytest.mark.parametrize("kind", ["tall", "wide"])
def test_the_gram_matrix_in_float32_is_refined_to_tol(kind, rng):
    problem, (X, Y) = build(kind, rng, 1.0)
    candidate = run_engine(ENGINES["direct"], problem, 1e-9, low_precision=True)
    assert "float32" in candidate.note
    assert certify(problem, candidate, 1e-9)[1] is Status.CERTIFIED
    assert (error(X, Y, problem.alphas, candidate.coef) <= 1e-9).all()


@pytest.mark.parametrize("transposed", [False, True], ids=["primal", "dual"])
def test_where_float32_leaves_no_positive_matrix_float64_takes_over(transposed, rng):
    problem, (X, Y) = build("square, steep", rng, 1e-9)
    if transposed:
        X = X[: len(X) // 2]  # fewer rows than columns
        Y = Y[: len(X)]
        problem = make_problem(X, Y, problem.alphas, None, False)[0]
    candidate = run_engine(ENGINES["direct"], problem, 1e-6, low_precision=True)
    assert certify(problem, candidate, 1e-6)[1] is Status.CERTIFIED
    assert (error(X, Y, problem.alphas, candidate.coef) <= 1e-6).all()


@engines
def test_nothing_to_explain_gives_zero(engine, rng):
    X = rng.standard_normal((30, 8))
    problem = make_problem(X, np.full((30, 1), 3.0), np.ones(1), None, True)[0]
    candidate = run_engine(ENGINES[engine], problem, TOL, 0)
    assert not candidate.coef.any()
    assert certify(problem, candidate, TOL)[0].bound == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_least_eigenvalue_is_claimed_only_if_it_is_there(dtype, rng):
    X = rng.standard_normal((60, 20))
    H = (X.T @ X / 60).astype(dtype)
    least = float(np.linalg.eigvalsh(H.astype(float))[0])
    assert proven_min_eigenvalue(H, 0.9 * least, 0.01 * least) == 0.9 * least
    assert proven_min_eigenvalue(H, 1.1 * least, 0.01 * least) == 0.0
    assert np.allclose(H, X.T @ X / 60, rtol=1e-6)  # and H is left as it is


@pytest.mark.parametrize("max_iter", [None, 3, 30])
def test_iterations_on_a_copy_are_counted_over_all_starts(max_iter, rng):
    way = WAYS["two_stage, on a copy"]
    problem, (X, Y) = build("very tall", rng, 1.0, way)
    passes = problem.design.cost.passes
    candidate = way.solve(problem, 1e-9, max_iter=max_iter)
    assert max_iter is None or candidate.n_iter <= max_iter
    # Every iteration is a sweep; what else there is are the copy and a gradient for each start.
    assert candidate.n_iter < problem.design.cost.passes - passes <= candidate.n_iter + 10
    certificate, _ = certify(problem, candidate, 1e-9)
    assert max_iter is not None or certificate.holds
    assert (error(X, Y, problem.alphas, candidate.coef) <= certificate.bounds).all()


def test_an_alpha_that_is_too_small_for_a_copy_does_without(rng):
    way = WAYS["two_stage, on a copy"]
    problem, (X, Y) = build("very tall", rng, 1e-9, way)
    assert not problem.can_quantize
    candidate = way.solve(problem, TOL)
    assert certify(problem, candidate, TOL)[1] is Status.CERTIFIED
    assert (error(X, Y, problem.alphas, candidate.coef) <= TOL).all()


@ways
@pytest.mark.parametrize("shape", [(60, 8), (20, 50)])
def test_a_constant_target_among_others_is_no_obstacle(way, shape, rng):
    X = rng.standard_normal(shape)
    Y = np.column_stack([np.full(shape[0], 3.0), X[:, 0] + rng.standard_normal(shape[0])])
    problem = WAYS[way].build(X, Y, np.ones(2), None, True)[0]
    candidate = WAYS[way].solve(problem, TOL)
    certificate, status = certify(problem, candidate, TOL)
    assert status is Status.CERTIFIED
    assert not candidate.gave_up
    assert not candidate.coef[:, 0].any()
    assert certificate.bounds[0] == 0


def test_columns_in_fortran_order_are_solved_too(rng):
    _, (X, Y) = build("spikes", rng, 1.0)
    turned = make_problem(
        DenseStorage(np.asfortranarray(X), compiled=True), Y, np.ones(1), None, False
    )[0]
    candidate = run_engine(
        ENGINES["two_stage"], turned, TOL, 0, low_precision=True, quantization_passes=0.0
    )
    assert certify(turned, candidate, TOL)[1] is Status.CERTIFIED
    assert (error(X, Y, turned.alphas, candidate.coef) <= TOL).all()


def test_a_sketch_is_no_larger_than_memory_is_for(rng):
    X = matrix(rng, 400, 100, "power")
    problem = make_problem(X, rng.standard_normal((400, 1)), np.array([1e-9]), None, True)[0]
    options = FitOptions(tol=TOL, random_state=0)
    assert row_sample_sketch(problem, options, EngineBudget(max_rank=7))[0].rank <= 7
    assert row_sample_sketch(problem, options, EngineBudget())[0].rank > 7


def test_a_sample_has_no_more_rows_than_memory_is_for(rng):
    X = matrix(rng, 2_000, 100, "power")
    problem = make_problem(X, rng.standard_normal((2_000, 1)), np.array([1e-9]), None, True)[0]
    assert initial_sample_size(problem, EngineBudget(max_sample_rows=LOOK_ROWS)) == LOOK_ROWS
    assert initial_sample_size(problem, EngineBudget()) > LOOK_ROWS


@pytest.mark.parametrize(("relative_alpha", "has_sketch"), [(1.0, False), (1e-6, True)])
def test_sparse_data_are_sketched_only_if_many_iterations_are_expected(
    relative_alpha, has_sketch, rng
):
    X = sparse.random_array((3_000, 400), density=0.05, rng=rng, format="csr")
    X = X @ sparse.diags_array(1 / np.arange(1, 401))
    alpha = np.array([relative_alpha * (X.data**2).sum() / 400])
    storage = SparseStorage(X, tuning=replace(DEFAULT_TUNING, max_iterated_entries=0))
    y = rng.standard_normal((3_000, 1))
    problem = make_problem(storage, y, alpha, None, True)[0]
    budget = EngineBudget(costs=PassCosts(column_cost=1.0, can_sample_rows=False))
    candidate = ENGINES["two_stage"](problem, FitOptions(tol=TOL), budget)
    assert certify(problem, candidate, TOL)[1] is Status.CERTIFIED
    assert (candidate.rank > 0) == has_sketch


@pytest.mark.parametrize("shape", [(10, 25), (25, 10)])
@pytest.mark.parametrize("engine", ENGINES)
def test_large_means_in_sparse_data_are_not_certified_away(engine, shape, rng):
    """X X' of sparse X is centred by subtraction, which leaves little here."""
    X = 1e6 + rng.standard_normal(shape)
    y = rng.standard_normal((shape[0], 1))
    problem = make_problem(sparse.csr_array(X), y, np.ones(1), None, True)[0]
    candidate = run_engine(ENGINES[engine], problem, 1e-4, 0, max_iter=200)
    certificate, _ = certify(problem, candidate, 1e-4)
    found = reference.prediction_error(X, y[:, 0], 1.0, candidate.coef[:, 0], None, True)
    assert found <= certificate.bound


def test_the_smallest_alpha_does_not_divide_by_zero(rng):
    X = 1e13 * rng.standard_normal((60, 5))
    problem = make_problem(X, rng.standard_normal((60, 1)), np.array([1e-300]), None, True)[0]
    candidate = run_engine(ENGINES["two_stage"], problem, 1e-4, 0, max_iter=50)
    assert np.isfinite(candidate.coef).all()


@pytest.mark.parametrize(("exponent", "is_used"), [(0.0, True), (2.5, False)])
@pytest.mark.parametrize("shape", [(26_000, 200), (5_500, 450), (750, 1_800)])
def test_float32_is_used_where_few_corrections_are_expected(shape, exponent, is_used, rng):
    """Singular values i^-exponent: for 2.5, float32 cannot tell the smallest ones from 0."""
    n, p = shape
    U, V = (np.linalg.qr(rng.standard_normal((size, min(n, p))))[0] for size in shape)
    X = U * np.arange(1, min(n, p) + 1) ** -exponent @ V.T
    y = X @ rng.standard_normal((p, 1)) + rng.standard_normal((n, 1))
    problem = make_problem(X, y, np.array([1e-9]), None, False)[0]
    candidate = run_engine(
        ENGINES["direct"], problem, TOL, low_precision=True, max_refinement_passes=6.0
    )
    assert ("float32" in candidate.note) is is_used
    assert certify(problem, candidate, 1e-4)[1] is Status.CERTIFIED


@pytest.mark.parametrize("weighted", [False, True])
def test_float32_is_not_spoilt_by_the_direction_that_centring_removes(weighted, rng):
    """X X' is singular along the roots of the weights, where alpha is far below rounding."""
    n, n_variables, n_levels = 521, 160, 25
    frequencies = 1 / np.arange(1, n_levels + 1)
    levels = rng.choice(n_levels, (n, n_variables, 1), p=frequencies / frequencies.sum())
    X = (levels == np.arange(n_levels)).reshape(n, -1).astype(float)
    y = X @ rng.standard_normal((X.shape[1], 1)) + rng.standard_normal((n, 1))
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    problem = make_problem(X, y, np.array([1e-4]), weights, True)[0]
    candidate = run_engine(
        ENGINES["direct"], problem, TOL, low_precision=True, max_refinement_passes=6.0
    )
    assert "float32" in candidate.note
    assert certify(problem, candidate, 1e-4)[1] is Status.CERTIFIED


def test_iterations_of_the_storage_equal_those_of_the_solver(rng):
    X = sparse.random_array((200, 60), density=0.1, rng=rng, format="csr")
    problem = make_problem(X, rng.standard_normal((200, 1)), np.ones(1))[0]
    squares = problem.column_norms**2
    diagonal = (squares + 1.0)[:, None]
    near = Preconditioner(lambda R, _: R / diagonal, np.array([1 / (squares.max() + 1)]))
    iterated = conjugate_gradients(problem, near, ZeroMinorant(), tol=1e-8)
    stored = diagonal_conjugate_gradients(problem, tol=1e-8)
    assert stored.n_iter == iterated.n_iter > 5
    assert np.allclose(stored.coef, iterated.coef, rtol=1e-9, atol=1e-12)
    assert np.allclose(stored.squared_bound, iterated.squared_bound, rtol=1e-3)
    assert diagonal_conjugate_gradients(problem, tol=1e-8, max_iter=3).n_iter == 3


def test_targets_are_iterated_one_by_one(rng):
    X = sparse.random_array((200, 60), density=0.1, rng=rng, format="csr")
    Y, alphas = rng.standard_normal((200, 3)), np.array([1e-2, 1.0, 30.0])
    Y[:, 1] = 1.0  # constant, so that it needs no iteration
    together = diagonal_conjugate_gradients(make_problem(X, Y, alphas)[0], tol=1e-8)
    single = [
        diagonal_conjugate_gradients(make_problem(X, Y[:, [t]], alphas[[t]])[0], tol=1e-8)
        for t in range(3)
    ]
    assert together.n_iter == max(one.n_iter for one in single)
    assert not together.coef[:, 1].any()
    for t, one in enumerate(single):
        assert np.allclose(together.coef[:, t], one.coef[:, 0], rtol=1e-9, atol=1e-12)
        assert np.isclose(together.squared_bound[t], one.squared_bound[0], rtol=1e-6)


def test_iterations_end_with_the_first_target_that_gives_up(rng):
    X = sparse.random_array((300, 200), density=0.1, rng=rng, format="csr")
    problem = make_problem(X, rng.standard_normal((300, 2)), np.array([1e-9, 1e3]))[0]
    candidate = diagonal_conjugate_gradients(problem, tol=1e-12, iter_budget=2.0)
    assert candidate.gave_up
    assert not candidate.coef[:, 1].any()
    assert candidate.squared_bound[1] > 0


def test_a_sketch_follows_if_iterations_without_one_converge_slowly(rng):
    """Strong directions that are no columns: a diagonal does not help against them."""
    strong = rng.standard_normal((400, 5)) @ np.diag([1e4, 3e3, 1e3, 300, 100])
    X = sparse.csr_array(rng.standard_normal((400, 300)) + strong @ rng.standard_normal((5, 300)))
    problem = make_problem(X, rng.standard_normal((400, 1)), np.array([1e-2]))[0]
    candidate = run_engine(ENGINES["two_stage"], problem, TOL, 0, max_passes=150.0)
    assert candidate.gave_up or candidate.rank > 0
