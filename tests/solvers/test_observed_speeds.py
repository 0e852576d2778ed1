"""Speeds that were measured on a busy machine are measured again, after a fit that exceeds them."""

from dataclasses import replace

import pytest

from ling import Ridge
from ling.linalg.threads import n_threads
from ling.solvers import machine
from ling.solvers.cost_model import COMPILED_GRAM_SPEEDUP
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.machine import DEFAULT_MACHINE
from ling.solvers.memory_budget import UNLIMITED_MEMORY
from ling.solvers.observed_speeds import (
    MIN_EXCESS,
    MIN_OBSERVED_SECONDS,
    check_cached_speeds,
    observed_speeds,
)
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve

TALL = ProblemDimensions(20_000, 2_000, 40_000_000, 8, True, 1, 1)
COMPILED = replace(TALL, has_compiled_gram=True)
SPARSE = ProblemDimensions(20_000, 2_000, 400_000, 8, False, 1, 1)
BUSY = replace(DEFAULT_MACHINE, stream_bandwidth=1e8, gemm_rate=1e8, threads=n_threads())
IDLE = replace(DEFAULT_MACHINE, stream_bandwidth=3e10, threads=n_threads())


def plan(dimensions, speeds=BUSY):
    return plan_solve(dimensions, FitOptions(machine=speeds), UNLIMITED_MEMORY)


def estimate(planned, engine="direct"):
    return replace(planned.estimate_for(engine), low_precision=False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache file with the speeds of a busy machine, and a function that reads it.

    Where it has none, the machine is measured, and is idle now.
    """
    monkeypatch.setenv("LING_CACHE", str(tmp_path))
    monkeypatch.setattr(machine, "measure_machine", lambda: IDLE)
    machine._write_speeds(machine._cache_file(), machine._cache_key(n_threads()), BUSY)

    def read():
        machine.forget_speeds()  # as in a new process
        return machine.measured_machine()

    assert read() == BUSY
    yield read
    machine.forget_speeds()


@pytest.mark.parametrize(
    ("dimensions", "engine", "expected"),
    [
        (TALL, "two_stage", {"stream_bandwidth": 3.2e8 / 0.5}),
        (TALL, "direct", {"stream_bandwidth": 3.2e8 / 0.5, "gemm_rate": 8e10 / 2}),
        (COMPILED, "direct",
         {"stream_bandwidth": 3.2e8 / 0.5, "gemm_rate": 8e10 / 2 / COMPILED_GRAM_SPEEDUP}),
        (SPARSE, "direct", {}),
        (replace(TALL, is_out_of_core=True, read_bandwidth=1e9), "direct", {}),
    ],
)  # fmt: skip
def test_stages_of_a_fit_show_lower_bounds_of_speeds(dimensions, engine, expected):
    planned = plan(dimensions)
    observed = observed_speeds(planned, estimate(planned, engine), {"prepare": 0.5, "solve": 2.0})
    assert observed == pytest.approx(expected)


def test_short_stages_show_nothing():
    short = dict.fromkeys(("prepare", "solve"), MIN_OBSERVED_SECONDS / 2)
    planned = plan(TALL)
    assert observed_speeds(planned, estimate(planned), short) == {}


def test_after_a_fast_fit_the_next_process_measures_again(cache):
    planned = plan(TALL)
    check_cached_speeds(planned, estimate(planned), {"prepare": 0.5, "solve": 2.0})
    assert machine.measured_machine() == BUSY  # unchanged in this process
    assert cache() == IDLE


@pytest.mark.parametrize("slowdown", [1.1 / MIN_EXCESS, 1.0, 50.0])
def test_other_fits_change_nothing(cache, slowdown):
    planned = plan(TALL)
    seconds = {"prepare": slowdown * 3.2e8 / 1e8, "solve": slowdown * 8e10 / 1e8}
    check_cached_speeds(planned, estimate(planned), seconds)
    assert cache() == BUSY


def test_speeds_that_another_process_has_measured_stay(cache):
    machine._write_speeds(machine._cache_file(), machine._cache_key(n_threads()), IDLE)
    planned = plan(TALL)
    check_cached_speeds(planned, estimate(planned), {"prepare": 0.5, "solve": 2.0})
    assert cache() == IDLE


def test_a_fit_with_given_speeds_is_no_measurement(cache, rng):
    X, y = rng.standard_normal((1_500, 1_500)), rng.standard_normal(1_500)
    Ridge(speeds=vars(BUSY)).fit(X, y)
    assert cache() == BUSY


def test_a_real_fit_finds_absurd_speeds(cache, rng):
    X, y = rng.standard_normal((1_500, 1_500)), rng.standard_normal(1_500)
    crawling = replace(BUSY, gemm_rate=1.0, gemm32=1.0, potrf_rate=1.0)
    machine._write_speeds(machine._cache_file(), machine._cache_key(n_threads()), crawling)
    machine.forget_speeds()
    Ridge(solver="direct").fit(X, y)
    assert cache() == IDLE
