"""The one loop: engines in the order of the plan, until one is certified."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from ling import Ridge
from ling.errors import NonFiniteError
from ling.results import Status
from ling.solvers.cost_model import EngineEstimate
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.engine import Candidate
from ling.solvers.engines import ENGINES
from ling.solvers.machine import DEFAULT_MACHINE
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan
from ling.solvers.solve import solve
from tests import reference
from tests.raising import raises
from tests.training import make_problem

SOLVERS = ["auto", *ENGINES]
every_solver = pytest.mark.parametrize("solver", SOLVERS)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((150, 20)) @ rng.standard_normal((20, 20)) + 1.0
    return X, X @ rng.standard_normal(20) + rng.standard_normal(150)


def plan_of(*names):
    steps = tuple(EngineEstimate(name, 1.0, 1.0, 1.0, max_rank=100) for name in names)
    dimensions = ProblemDimensions(150, 20, 3000, 8, True, 1, 1)
    return Plan(dimensions, steps, MemoryBudget(1e9), DEFAULT_MACHINE)


def made(data, alpha=1.0):
    X, y = data
    return make_problem(X, y[:, None], np.array([alpha]), None, True)[0]


def test_an_engine_that_gives_up_hands_over_to_the_next(data, monkeypatch):
    def hopeless(problem, options, budget, start):
        return Candidate(np.zeros_like(problem.moments), gave_up=True)

    monkeypatch.setitem(ENGINES, "two_stage", hopeless)
    solution = solve(made(data), plan_of("two_stage", "direct"), FitOptions())
    assert solution.estimate.engine == "direct"
    assert solution.abandoned_engines == ("two_stage",)
    assert solution.status is Status.CERTIFIED


def test_an_engine_that_declines_to_iterate_is_not_named(data, monkeypatch):
    def declining(problem, options, budget, start):
        return Candidate(np.zeros_like(problem.moments), n_iter=0, gave_up=True)

    monkeypatch.setitem(ENGINES, "two_stage", declining)
    solution = solve(made(data), plan_of("two_stage", "direct"), FitOptions())
    assert solution.estimate.engine == "direct"
    assert solution.abandoned_engines == ()


def test_an_engine_that_restarts_in_vain_is_named(data, monkeypatch):
    monkeypatch.setitem(
        ENGINES,
        "two_stage",
        lambda problem, *_: Candidate(np.zeros_like(problem.moments), n_iter=0),
    )
    solution = solve(made(data), plan_of("two_stage", "direct"), FitOptions())
    assert solution.abandoned_engines == ("two_stage",)


def test_an_engine_is_called_again_from_where_it_stopped(data, monkeypatch):
    starts = []

    def slow(problem, options, budget, start):
        starts.append(start)
        exact = ENGINES["direct"](problem, options, budget, None).coef
        return Candidate(exact * (1 - 0.01 ** len(starts)), n_iter=1)

    monkeypatch.setitem(ENGINES, "two_stage", slow)
    solution = solve(made(data), plan_of("two_stage"), FitOptions(tol=1e-4))
    assert starts[0] is None
    assert starts[1] is not None
    assert len(starts) > 1
    assert solution.status is Status.CERTIFIED


def test_the_best_of_what_was_tried_is_kept(data, monkeypatch):
    monkeypatch.setitem(ENGINES, "direct", lambda p, *_: Candidate(np.full_like(p.moments, 9.0)))
    monkeypatch.setitem(ENGINES, "two_stage", lambda p, *_: Candidate(np.zeros_like(p.moments)))
    solution = solve(made(data), plan_of("two_stage", "direct"), FitOptions())
    assert solution.status is Status.NOT_REACHED
    assert not solution.coef.any()


def test_only_the_engine_that_was_asked_for_is_used(data):
    solution = solve(made(data), plan_of("direct", "two_stage"), FitOptions(solver="two_stage"))
    assert solution.estimate.engine == "two_stage"


@every_solver
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(data, solver, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    model = Ridge(solver=solver)
    for name in ENGINES:
        monkeypatch.setitem(ENGINES, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    with pytest.raises(NotFittedError):
        model.predict(data[0])


@every_solver
def test_same_seed_and_threads_give_the_same_bits(data, solver):
    a, b = (Ridge(solver=solver, random_state=3).fit(*data) for _ in range(2))
    assert np.array_equal(a.coef_, b.coef_)
    assert a.intercept_ == b.intercept_


@every_solver
def test_fits_from_several_threads_at_once_do_not_mix(rng, solver):
    sets = [(rng.standard_normal((80, 10)), rng.standard_normal(80)) for _ in range(8)]
    alone = [Ridge(solver=solver, random_state=0).fit(*one).coef_ for one in sets]
    with ThreadPoolExecutor(4) as pool:
        together = list(
            pool.map(lambda one: Ridge(solver=solver, random_state=0).fit(*one).coef_, sets)
        )
    for a, b in zip(alone, together, strict=True):
        assert np.allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fit_works_after_a_fork(data):
    expected = Ridge(solver="two_stage", random_state=0).fit(*data).coef_
    read, write = os.pipe()
    assert threading.active_count() >= 1
    child = os.fork()
    if child == 0:  # pragma: no cover
        found = Ridge(solver="two_stage", random_state=0).fit(*data).coef_
        os.write(write, b"1" if np.allclose(found, expected) else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"1"


@every_solver
def test_weights_are_rows_that_count_so_often(data, rng, solver):
    X, y = data
    counts = rng.integers(0, 4, len(y))
    weighted = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X, y, sample_weight=counts)
    repeated = Ridge(solver=solver, tol=1e-9, random_state=0).fit(
        np.repeat(X, counts, axis=0), np.repeat(y, counts)
    )
    assert np.allclose(weighted.predict(X), repeated.predict(X), atol=1e-6 * y.std())


@every_solver
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_other_units_change_alpha_by_their_square_and_nothing_else(data, solver, factor):
    X, y = data
    plain = Ridge(alpha=2.0, solver=solver, tol=1e-9, random_state=0).fit(X, y)
    scaled = Ridge(alpha=2.0 * factor**2, solver=solver, tol=1e-9, random_state=0)
    scaled.fit(X * factor, y * 7)
    assert np.allclose(plain.predict(X) * 7, scaled.predict(X * factor), rtol=0, atol=1e-6)


@every_solver
def test_a_rotation_of_the_features_rotates_the_coefficients(data, rng, solver):
    X, y = data
    Q = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    plain = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X, y)
    rotated = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X @ Q, y)
    assert np.allclose(plain.predict(X), rotated.predict(X @ Q), atol=1e-6)


@every_solver
def test_the_order_of_rows_and_columns_does_not_matter(data, rng, solver):
    X, y = data
    rows, columns = rng.permutation(len(y)), rng.permutation(X.shape[1])
    plain = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X, y)
    mixed = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X[rows][:, columns], y[rows])
    assert np.allclose(plain.predict(X), mixed.predict(X[:, columns]), atol=1e-6)


@every_solver
def test_sparse_and_dense_are_the_same(rng, solver):
    X = sparse.random_array((200, 30), density=0.2, format="csr", rng=rng)
    y = rng.standard_normal(200)
    dense = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X.toarray(), y)
    found = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X, y)
    assert np.allclose(dense.predict(X), found.predict(X), atol=1e-7)


def test_alpha_zero_is_the_least_norm_solution_without_a_certificate(rng):
    X = rng.standard_normal((10, 25))
    y = rng.standard_normal(10)
    model = Ridge(alpha=0.0, fit_intercept=False).fit(X, y)
    assert model.report_.status is Status.UNCERTIFIED
    assert np.allclose(model.coef_, reference.minimum_norm(X, y))
    assert "alpha is 0" in str(model.report_)


def test_the_report_reads_as_a_paragraph(data):
    text = str(Ridge().fit(*data).report_)
    for part in ("150 x 20", "direct", "passes over X", "Certified", "of the exact ones"):
        assert part in text
    assert "\n" not in text


@every_solver
def test_a_tol_of_zero_is_not_reached_but_tried(data, solver):
    with pytest.warns(ConvergenceWarning, match="not within tol=0"):
        model = Ridge(tol=0.0, solver=solver, random_state=0).fit(*data)
    assert model.report_.certificate.bound < 1e-6


def test_a_constant_y_is_fitted_by_its_mean():
    X = np.random.default_rng(0).standard_normal((37, 4))
    model = Ridge().fit(X, np.full(37, 0.1))
    assert model.report_.status is Status.CERTIFIED
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(0.1)


def test_targets_of_very_different_sizes_are_all_solved(rng):
    X = rng.standard_normal((40, 5))
    Y = (X @ rng.standard_normal((5, 2)) + rng.standard_normal((40, 2))) * [1e25, 1e-140]
    model = Ridge(tol=1e-9).fit(X, Y)
    for t in range(2):
        alone = Ridge(tol=1e-9).fit(X, Y[:, t])
        assert np.allclose(model.coef_[t], alone.coef_, rtol=1e-7, atol=0)


def test_an_alpha_out_of_all_proportion_is_refused(rng):
    X = rng.standard_normal((10, 3))
    with raises(NonFiniteError, "alpha", mentions="1e-100"):
        Ridge(alpha=1e-100).fit(X * 1e149, X[:, 0])


def test_an_alpha_far_above_x_is_solved(rng):
    X = rng.standard_normal((10, 3))
    model = Ridge(alpha=1e12).fit(X * 1e-149, X[:, 0])
    assert model.report_.status is Status.CERTIFIED
    assert np.allclose(model.coef_, (X - X.mean(0)).T @ (X[:, 0]) * 1e-161, rtol=1e-10, atol=0)


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_means_do_not_spoil_the_gram_matrix_in_float32(rng, order):
    X = np.asarray(1e6 + rng.standard_normal((300, 20)), order=order)
    y = X @ rng.standard_normal(20) + rng.standard_normal(300)
    model = Ridge(solver="direct", precision="float32", tol=1e-5).fit(X, y)
    error = reference.prediction_error(X[:300], y, 1.0, model.coef_, digits=60)
    assert error <= model.report_.certificate.bound


def test_a_sparse_gram_matrix_with_large_means_is_not_trusted_too_far(rng):
    X = 1e3 + rng.standard_normal((400, 6))
    X[:, 5] = X[:, 4] + 1e-5 * rng.standard_normal(400)
    y = X @ rng.standard_normal(6) + rng.standard_normal(400)
    model = Ridge(alpha=1e-6, solver="direct", tol=0.1).fit(sparse.csr_array(X), y)
    error = reference.prediction_error(X, y, 1e-6, model.coef_, digits=60)
    assert error <= model.report_.certificate.bound


def test_a_tol_that_cannot_be_reached_is_said(data):
    with pytest.warns(ConvergenceWarning, match="not within tol=1e-30"):
        Ridge(tol=1e-30).fit(*data)


def test_small_sparse_data_are_iterated_where_alpha_allows_it(rng):
    X = sparse.random_array((3_000, 900), density=0.05, rng=rng, format="csr")
    y = X @ rng.standard_normal(900) + rng.standard_normal(3_000)
    strong, weak = (Ridge(alpha).fit(X, y) for alpha in (30.0, 1e-7))
    assert strong.solver_ == "two_stage"
    assert strong.report_.reason == "few iterations are expected for this alpha and spectrum"
    assert weak.solver_ == "direct"
    assert weak.report_.reason == "first choice of the plan"


@pytest.mark.parametrize(("alpha", "scale"), [(1e-300, 1e13), (1e-320, 1e5)])
def test_an_alpha_that_vanishes_beside_sparse_data_is_fitted(alpha, scale, rng):
    X = sparse.random_array((300, 100), density=0.1, rng=rng, format="csr")
    y = X @ rng.standard_normal(100) + rng.standard_normal(300)
    assert Ridge(alpha).fit(X * scale, y).report_.status is Status.CERTIFIED


def test_max_iter_holds_for_iterations_with_and_without_a_sketch(rng):
    strong = rng.standard_normal((400, 5)) @ np.diag([1e4, 3e3, 1e3, 300, 100])
    X = sparse.csr_array(rng.standard_normal((400, 300)) + strong @ rng.standard_normal((5, 300)))
    model, y = Ridge(1e-2, solver="two_stage", max_iter=30, tol=1e-8), rng.standard_normal(400)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.n_iter_[0] <= 30
    assert model.report_.cost.passes <= 30 + 12  # sketch, restarts and proofs
