"""The plan: it picks what it predicts to be fastest within the budget, and keeps to its memory."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import ling
from ling import Ridge
from ling.errors import OptionError
from ling.solvers import machine, planning
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.engines import ENGINES
from ling.solvers.machine import DEFAULT_MACHINE, parse_memory_budget
from ling.solvers.memory_budget import UNCOUNTED_BYTES
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve
from tests.memory import peak_memory
from tests.raising import raises


def dense(n, p):
    return ProblemDimensions(n, p, n * p, 8, True, 1, 1)


BIG = dense(20_000, 4_000)
OTHER_MACHINE = replace(DEFAULT_MACHINE, gemm_rate=7e10)


@pytest.fixture(autouse=True)
def typical_machine(monkeypatch):
    """The same machine for every run of the tests."""
    monkeypatch.setattr(planning, "cached_machine", lambda: DEFAULT_MACHINE)


def plan(shape, budget=1e12, precision="auto", tol=1e-4):
    options = FitOptions(tol=tol, precision=precision, memory_budget=budget)
    return plan_solve(shape, options)


@pytest.mark.parametrize(
    ("shape", "engine"),
    [
        (ProblemDimensions(200, 20, 4_000, 8, True, 1, 1), "direct"),
        (ProblemDimensions(5_000_000, 28, 140_000_000, 8, True, 1, 1), "direct"),
        (BIG, "two_stage"),
        (replace(BIG, n=100_000, p=2_000, nnz=200_000_000), "two_stage"),
        (ProblemDimensions(200_000, 47_000, 12_000_000, 8, False, 1, 1), "two_stage"),
        (replace(BIG, n_targets=200), "direct"),
    ],
)
def test_the_usual_shapes_go_to_the_engine_made_for_them(shape, engine):
    assert plan(shape).steps[0].engine == engine


def test_what_does_not_fit_the_budget_is_not_tried():
    small = plan(BIG, budget=60e6)
    assert [step.engine for step in small.steps] != []
    assert all(step.n_bytes <= 60e6 for step in small.steps)
    assert "direct" not in [step.engine for step in small.steps]
    assert "does not fit" in str(small)


def test_a_small_excess_is_no_reason_for_a_slow_engine():
    tiny = replace(dense(1_300, 16), is_out_of_core=True, block_bytes=2e4, read_bandwidth=1e9)
    first = plan(tiny, budget=2e4).steps[0]
    assert first.fits
    assert first.engine == "direct"
    assert first.n_bytes > 2e4


def test_a_small_sketch_is_planned_where_memory_is_short():
    ample, short = plan(BIG).estimate_for("two_stage"), plan(BIG, budget=20e6).steps[0]
    assert short.engine == "two_stage"
    assert short.n_bytes <= 20e6 + UNCOUNTED_BYTES < ample.n_bytes
    assert short.max_rank < ample.max_rank
    assert short.max_sample_rows < ample.max_sample_rows


def test_if_nothing_fits_the_smallest_is_tried():
    (only,) = plan(BIG, budget=1.0).steps
    assert only.n_bytes == min(p.n_bytes for p in plan(BIG, budget=1.0).estimates)


def test_if_nothing_fits_and_peaks_are_about_equal_the_fewest_passes_decide():
    many_rows = ProblemDimensions(2_000_000, 40, 80_000_000, 8, True, 2, 1, workspace_bytes=2**20)
    crowded = plan(many_rows, budget=1e6)
    (only,) = crowded.steps
    least = min(p.n_bytes for p in crowded.estimates)
    assert only.n_bytes <= planning.EQUAL_MEMORY_FACTOR * least
    assert only.engine == "direct"


def test_the_short_copy_is_left_out_where_it_does_not_fit():
    rich, poor = plan(BIG), plan(BIG, budget=3e8)
    assert rich.estimate_for("two_stage").low_precision
    assert not poor.estimate_for("two_stage").low_precision
    assert poor.estimate_for("two_stage").n_bytes <= 3e8


@pytest.mark.parametrize(
    ("precision", "single"), [("float64", False), ("auto", True), ("float32", True)]
)
def test_precision_rules_the_gram_matrix(precision, single):
    assert plan(BIG, precision=precision).estimate_for("direct").low_precision is single
    small = ProblemDimensions(500, 50, 25_000, 8, True, 1, 1)
    assert plan(small, precision=precision).estimate_for("direct").low_precision is (
        precision == "float32"
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("2GB", 2e9),
        ("500 MB", 5e8),
        ("1.5tb", 1.5e12),
        (7, 7.0),
        ("12 b", 12.0),
        ("2GiB", 2.0**31),
        ("1.5 kib", 1536.0),
    ],
)
def test_budgets_are_bytes_or_words(given, wanted):
    assert parse_memory_budget(given) == wanted


@pytest.mark.parametrize("given", ["much", "GB", "", "-1GB", "0MB", "nanGB", 0, -1])
def test_other_budgets_are_refused(given):
    with raises(OptionError, "memory_budget", mentions=repr(given)):
        parse_memory_budget(given)


def test_the_default_budget_is_some_of_what_is_free():
    assert 1e6 < parse_memory_budget(None) < 1e15


def test_ling_plan_shows_every_engine_without_fitting():
    shown = ling.plan_fit(np.ones((300, 10)), np.ones((300, 2)), [1.0, 2.0])
    assert {p.engine for p in shown.estimates} == set(ENGINES)
    assert "2 target(s), 2 alpha(s)" in str(shown)
    assert all(p.engine in str(shown) for p in shown.estimates)


MEMORY = {
    "tall": (6_000, 700, 1, np.float64),
    "wide": (250, 2_500, 1, np.float64),
    "targets": (2_000, 600, 15, np.float64),
    "float32": (4_000, 900, 1, np.float32),
    "sparse": (8_000, 1_500, 1, "sparse"),
}


@pytest.mark.parametrize("solver", ENGINES)
@pytest.mark.parametrize("kind", MEMORY)
def test_no_fit_takes_more_than_1_3_times_the_memory_predicted(kind, solver, rng):
    n, p, targets, dtype = MEMORY[kind]
    if dtype == "sparse":
        X = sparse.random_array((n, p), density=0.01, format="csr", rng=rng)
    else:
        X = (rng.standard_normal((n, p)) / np.arange(1, p + 1) ** 0.7).astype(dtype)
    Y = rng.standard_normal((n, targets))
    model = Ridge(alpha=1.0, solver=solver, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # accuracy is not what is measured here
        model.fit(X, Y)  # compiles and imports
        measured = peak_memory(lambda: model.fit(X, Y))
    assert measured <= 1.3 * model.report_.predicted_bytes
    if solver == "two_stage" and p >= 1_500:
        assert measured < 8 * p * p


def test_the_machine_is_measured_once_and_remembered(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("LING_CACHE", str(tmp_path))
    calls = []
    monkeypatch.setattr(machine, "measure_machine", lambda: calls.append(1) or DEFAULT_MACHINE)
    machine.forget_speeds()
    assert machine.measured_machine() == DEFAULT_MACHINE
    machine.forget_speeds()  # as in another process
    assert machine.measured_machine() == DEFAULT_MACHINE
    assert len(calls) == 1
    (tmp_path / "ling" / "machine.json").write_text("not json")
    machine.forget_speeds()
    assert machine.measured_machine() == DEFAULT_MACHINE
    assert len(calls) == 2
    machine.forget_speeds()


@pytest.mark.parametrize(
    ("shape", "n_measurements"), [((20_000, 2_000), 0), ((400_000, 20_000), 1)]
)
def test_only_long_fits_measure_the_machine(shape, n_measurements, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("LING_CACHE", str(tmp_path))
    calls = []
    monkeypatch.setattr(machine, "measure_machine", lambda: calls.append(1) or OTHER_MACHINE)
    machine.forget_speeds()
    long, short = dense(400_000, 20_000), dense(20_000, 2_000)
    plans = [plan(dense(*shape)), plan(dense(*shape))]
    assert len(calls) == n_measurements
    assert plans[0] == plans[1]
    # What a long fit has measured does not change the plans of short ones in this process.
    before, _, after = plan(short), plan(long), plan(short)
    assert before == after
    assert plan(short).machine is DEFAULT_MACHINE
    machine.forget_speeds()  # as in another process
    assert plan(short).machine == OTHER_MACHINE
    machine.forget_speeds()


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    monkeypatch.undo()
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("LING_CACHE", str(blocked))
    monkeypatch.setattr(machine, "measure_machine", lambda: DEFAULT_MACHINE)
    machine.forget_speeds()
    assert machine.measured_machine() == DEFAULT_MACHINE
    machine.forget_speeds()


def test_measured_speeds_are_plausible():
    found = machine.measure_machine()
    speeds = {name: value for name, value in vars(found).items() if name != "threads"}
    assert all(1e7 < speed < 1e14 for speed in speeds.values())
    assert found.threads >= 1
    assert json.dumps(vars(found))


@pytest.mark.parametrize("budget", [1.0, 3e6, 6e6, 1e9])
def test_a_printed_plan_has_no_powers_of_ten_in_its_bytes(budget, tmp_path):
    np.save(tmp_path / "X.npy", np.ones((20_000, 20)))
    shown = str(
        ling.plan_fit(ling.scan_npy(tmp_path / "X.npy", np.ones(20_000)), memory_budget=budget)
    )
    assert not re.search(r"e[+-]\d+ \w?B\b", shown), shown
    assert not re.search(r"\b0 \w?B\b", shown), shown
