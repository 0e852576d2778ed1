"""Fits are deterministic: two identical fits of one process give the same bytes.

Nothing but the data, the parameters and the number of threads matters: neither measured speeds, nor
the clock, nor NumPy's global random numbers. `report_` has what repeats a fit in another process.
"""

import json
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, is_dataclass, replace
from enum import Enum
from threading import Barrier

import dask.array
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import ling
from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, ridge_path
from ling.design import ArraySource, ChunkedStorage, chunked
from ling.errors import OptionError
from ling.linalg import threads
from ling.progress import watch
from ling.solvers import machine
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.engines import ENGINES
from ling.solvers.machine import DEFAULT_MACHINE
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve
from tests.raising import raises

# Bytes. X takes 9.6 MB, so that it is read block by block from files and memory maps.
BUDGET = 9e6
# Products that are slow beside a sweep over X, so that iterations pay, which draw random numbers.
SPEEDS = replace(DEFAULT_MACHINE, gemm_rate=1e9, gemm32=1e9, potrf_rate=1e9)
OTHER_SPEEDS = replace(DEFAULT_MACHINE, stream_bandwidth=1e9, thin_gemm_rate=1e9, sparse=1e7)


def write_speeds(speeds):
    """Write the file of measured speeds, as another process does."""
    file = machine._cache_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({machine._cache_key(threads.n_threads()): asdict(speeds)}))


def forget_speeds():
    """Forget what was measured, as a new process does."""
    machine.forget_speeds()
    chunked._measured_bandwidths.clear()


@pytest.fixture(autouse=True)
def speeds_file(tmp_path_factory, monkeypatch):
    """Speeds in a cache of their own, which are not those of this machine."""
    monkeypatch.setenv("LING_CACHE", str(tmp_path_factory.mktemp("cache")))
    forget_speeds()
    write_speeds(SPEEDS)
    yield machine._cache_file()
    forget_speeds()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12_000, 100)) * np.arange(1, 101) ** -0.5 + 0.1
    return X, X @ rng.standard_normal(100) + rng.standard_normal(12_000)


def memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def parquet(X, folder):
    table = pa.table({f"x{j}": column for j, column in enumerate(X.T)})
    pq.write_table(table, folder / "X.parquet", row_group_size=1_000)
    return ling.scan_parquet(folder / "X.parquet").X


#: Kinds of X: a new one is a line here.
KINDS = {
    "dense": lambda X, folder: X,
    "float32": lambda X, folder: X.astype(np.float32),
    "sparse": lambda X, folder: sparse.csr_array(np.where(np.abs(X) > 0.2, X, 0.0)),
    "memory map": memory_map,
    "parquet": parquet,
    "dask": lambda X, folder: dask.array.from_array(X, chunks=(2_500, 100)),
}
ALPHAS = (0.1, 1.0, 10.0)


def fit(make):
    return lambda X, y: make(memory_budget=BUDGET).fit(X, y)


def classify(make):
    return lambda X, y: make(memory_budget=BUDGET).fit(X, np.where(y > 0, "yes", "no"))


#: Everything that fits, without a seed: a new estimator is a line here.
FITS = {
    "Ridge": fit(Ridge),
    **{f"Ridge, {name}": fit(lambda name=name, **o: Ridge(solver=name, **o)) for name in ENGINES},
    "Ridge, covariance": fit(lambda **options: Ridge(store_covariance=True, **options)),
    "RidgeCV": fit(lambda **options: RidgeCV(ALPHAS, cv=3, **options)),
    "RidgeCV, stochastic": fit(lambda **o: RidgeCV(ALPHAS, gcv_mode="stochastic", **o)),
    "RidgeClassifier": classify(RidgeClassifier),
    "RidgeClassifierCV": classify(lambda **options: RidgeClassifierCV(ALPHAS, cv=3, **options)),
    "ridge_path": lambda X, y: ridge_path(X, y, ALPHAS, memory_budget=BUDGET),
}


def with_every_kind(names, common_names):
    """Pairs of a kind and a name: all kinds with the common names, two kinds with all names."""
    kinds = {name: KINDS if name in common_names else ("dense", "memory map") for name in names}
    return [(kind, name) for name in names for kind in kinds[name]]


def plain(value):
    """A value in a form in which == compares every bit."""
    if isinstance(value, np.ndarray | np.generic):
        content = value.tolist() if value.dtype == object else value.tobytes()
        return str(value.dtype), np.shape(value), content
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        names = (field.name for field in fields(value) if field.name != "seconds")
        return {name: plain(getattr(value, name)) for name in names if not name.startswith("_")}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def result(fitted):
    """All that a fit gives, but the seconds that it took."""
    if is_dataclass(fitted):  # a path
        return plain(fitted) | {"edf": plain(fitted.edf)}
    names = [name for name in vars(fitted) if name.endswith("_") and not name.startswith("_")]
    results = {name: plain(getattr(fitted, name)) for name in names}
    if getattr(fitted, "store_covariance", False):
        results["std_errors"] = plain(fitted.coef_std_errors())
    return results


@pytest.mark.parametrize(("kind", "name"), with_every_kind(FITS, ("Ridge", "RidgeCV")))
def test_two_identical_fits_give_the_same_bytes(kind, name, data, tmp_path):
    X, y = data
    first = FITS[name](KINDS[kind](X, tmp_path), y)
    write_speeds(OTHER_SPEEDS)
    second = FITS[name](KINDS[kind](X, tmp_path), y)
    assert result(first) == result(second)


@pytest.mark.parametrize("content", [None, "", "{}", "[]"])
def test_speeds_are_not_measured_again_in_a_process(content, data, speeds_file):
    first = Ridge().fit(*data)
    speeds_file.unlink()
    if content is not None:
        speeds_file.write_text(content)
    second = Ridge().fit(*data)
    assert result(first) == result(second)
    assert (speeds_file.read_text() if speeds_file.exists() else None) == content


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("solver", ENGINES)
def test_any_number_of_threads_gives_the_same_bytes_again(solver, n_threads, data):
    with threadpool_limits(n_threads, "blas"):
        write_speeds(SPEEDS)
        a, b = (result(Ridge(solver=solver).fit(*data)) for _ in range(2))
    assert a == b


@pytest.mark.parametrize("name", FITS)
def test_the_random_numbers_of_numpy_are_neither_read_nor_advanced(name, data):
    X, y = (values[:500] for values in data)
    results = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002  (what a user may have called)
        before = np.random.get_state()  # noqa: NPY002
        results.append(result(FITS[name](X, y)))
        after = np.random.get_state()  # noqa: NPY002
        assert before[2:] == after[2:]
        assert np.array_equal(before[1], after[1])
    assert results[0] == results[1]


class SlowSource(ArraySource):
    """Rows whose first block takes `delay` seconds."""

    def __init__(self, array, delay):
        super().__init__(array)
        self.delay = delay

    def blocks(self, rows, height):
        time.sleep(self.delay)
        self.delay = 0.0
        yield from super().blocks(rows, height)


def test_a_source_that_becomes_slow_does_not_change_the_engine(rng):
    X = rng.standard_normal((3_000, 400)) / np.arange(1, 401)
    y = X[:, 0] + rng.standard_normal(3_000)
    # Few passes pay if X is read at 5 MB/s, and few products otherwise.
    write_speeds(replace(DEFAULT_MACHINE, gemm_rate=2e7, gemm32=2e7, threads=1))
    budget = 1.2e7
    fast = Ridge(memory_budget=budget).fit(ChunkedStorage(SlowSource(X, 0.0)), y)
    slow = Ridge(memory_budget=budget).fit(ChunkedStorage(SlowSource(X, 2.0)), y)
    assert result(fast) == result(slow)
    assert fast.solver_ == "two_stage"
    forget_speeds()  # a process that meets the slow source first plans for it
    plan = ling.plan_fit(ChunkedStorage(SlowSource(X, 2.0)), y, memory_budget=budget)
    assert plan.steps[0].engine == "direct"


@pytest.mark.parametrize("solver", ["auto", *ENGINES])
def test_a_slow_fit_makes_the_same_choices(solver, data):
    X, y = (values[:3_000] for values in data)
    quick = Ridge(solver=solver).fit(X, y)
    with watch(lambda event: time.sleep(0.005)):  # every pass takes longer than predicted
        slow = Ridge(solver=solver).fit(X, y)
    assert result(quick) == result(slow)


def test_all_threads_of_a_process_use_the_speeds_that_were_stored_first(speeds_file, monkeypatch):
    speeds_file.unlink()
    together, calls = Barrier(4, timeout=60), []

    def measure():
        together.wait()  # no thread has finished yet
        calls.append(None)
        return replace(SPEEDS, gemm_rate=1e9 + len(calls))

    monkeypatch.setattr(machine, "measure_machine", measure)
    with ThreadPoolExecutor(4) as pool:
        speeds = list(pool.map(lambda _: machine.measured_machine(), range(4)))
    assert len(calls) == 4
    assert set(speeds) == {machine.measured_machine()}


@pytest.mark.parametrize("order", [(1, 4), (4, 1)])
def test_predicted_bytes_are_those_of_the_current_number_of_threads(order):
    shape = ProblemDimensions(5_000, 1_000, 5_000_000, 8, True, 1, 1)
    n_bytes = {}
    for n_threads in order:
        with threadpool_limits(n_threads, "blas"):
            plan = plan_solve(shape, FitOptions(machine=DEFAULT_MACHINE, tol=sum(order) / 1e5))
        n_bytes[n_threads] = plan.estimate_for("two_stage").n_bytes
    assert n_bytes[1] < n_bytes[4]


# --- random_state


def test_none_is_the_seed_zero(data):
    X, y = (values[:2_000] for values in data)
    coef = {s: Ridge(solver="two_stage", random_state=s).fit(X, y).coef_ for s in (None, 0, 1)}
    assert np.array_equal(coef[None], coef[0])
    assert not np.array_equal(coef[None], coef[1])


@pytest.mark.parametrize(
    ("random_state", "seed"),
    [(None, 0), (0, 0), (7, 7), (np.int64(7), 7), (np.random.RandomState(7), None)],
    ids=["None", "0", "7", "NumPy's 7", "RandomState"],
)
def test_the_report_has_the_seed(random_state, seed, data):
    X, y = (values[:500] for values in data)
    for make in (Ridge, RidgeCV):
        assert make(random_state=random_state).fit(X, y).report_.seed == seed


def test_a_checkpoint_has_the_same_default_seed(data, tmp_path):
    X, y = (values[:500] for values in data)
    assert Ridge(checkpoint=tmp_path / "checkpoint").fit(X, y).report_.seed == 0


def test_an_object_that_draws_random_numbers_advances(data):
    X, y = (values[:2_000] for values in data)
    model = Ridge(solver="two_stage", random_state=np.random.RandomState(3))
    first, second = model.fit(X, y).coef_, model.fit(X, y).coef_
    assert not np.array_equal(first, second)
    model.random_state = np.random.RandomState(3)
    assert np.array_equal(model.fit(X, y).coef_, first)


def test_a_generator_advances_in_a_path(data):
    rng = np.random.default_rng(3)
    before = rng.bit_generator.state
    write_speeds(replace(DEFAULT_MACHINE, gemm_rate=1e6))
    path = ridge_path(*data, ALPHAS, random_state=rng)
    assert "iterated" in path.method
    assert rng.bit_generator.state != before


# --- a fit is repeated from its report


def repeat(model, X, y):
    """Fit again as docs/solvers.md says."""
    seed, plan = model.report_.seed, model.report_.plan
    again = clone(model).set_params(
        random_state=seed, memory_budget=plan["memory_budget"], speeds=plan["speeds"]
    )
    with threadpool_limits(plan["threads"], "blas"):
        return again.fit(X, y)


MODELS = {
    "auto": Ridge(),
    **{name: Ridge(solver=name, random_state=5) for name in ENGINES},
    "covariance": Ridge(store_covariance=True),
    "leave-one-out": RidgeCV(ALPHAS),
    "stochastic": RidgeCV(ALPHAS, gcv_mode="stochastic"),
    "folds": RidgeCV(ALPHAS, cv=3, random_state=5),
}


@pytest.mark.parametrize(("kind", "name"), with_every_kind(MODELS, ("two_stage", "folds")))
def test_the_report_repeats_a_fit_where_other_speeds_are_measured(name, kind, data, tmp_path):
    X, y = data
    model = clone(MODELS[name]).set_params(memory_budget=BUDGET).fit(KINDS[kind](X, tmp_path), y)
    write_speeds(OTHER_SPEEDS)
    forget_speeds()
    assert machine.measured_machine() == OTHER_SPEEDS
    assert result(repeat(model, KINDS[kind](X, tmp_path), y)) == result(model)
    assert not chunked._measured_bandwidths


#: For each engine, a shape, speeds and a memory budget for which the plan prefers it.
PREFERRED = {
    "direct": ((6_000, 100), {}, 1e9),
    "two_stage": ((1_500, 1_000), {"potrf_rate": 1e9}, 1e9),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_engine_of_the_report_gives_the_bits_of_auto(engine, rng):
    (n, p), changes, budget = PREFERRED[engine]
    X = rng.standard_normal((n, p)) / np.arange(1, p + 1)
    y = X[:, 0] + rng.standard_normal(n)
    speeds = asdict(replace(DEFAULT_MACHINE, **changes))
    auto = Ridge(memory_budget=budget, speeds=speeds).fit(X, y)
    report = auto.report_
    again = Ridge(
        solver=report.engine, random_state=report.seed,
        memory_budget=report.plan["memory_budget"], speeds=report.plan["speeds"],
    ).fit(X, y)  # fmt: skip
    assert auto.solver_ == engine
    assert np.array_equal(again.coef_, auto.coef_)
    assert again.intercept_ == auto.intercept_
    assert again.report_.plan == report.plan


REPEAT = """
import sys
import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits
import ling

folder = sys.argv[1]
model, X, y = ling.load(folder + "/model"), np.load(folder + "/X.npy"), np.load(folder + "/y.npy")
seed, plan = model.report_.seed, model.report_.plan
again = clone(model).set_params(
    random_state=seed, memory_budget=plan["memory_budget"], speeds=plan["speeds"]
)
with threadpool_limits(plan["threads"], "blas"):
    again.fit(X, y)
assert again.report_.plan == plan
assert again.coef_.tobytes() == model.coef_.tobytes()
assert again.intercept_ == model.intercept_
"""


@pytest.mark.processes
def test_another_process_repeats_a_fit_from_a_model_file(data, tmp_path):
    X, y = data
    model = RidgeCV(ALPHAS, cv=3).fit(X, y)
    ling.save(model, tmp_path / "model")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    write_speeds(OTHER_SPEEDS)
    subprocess.run(
        [sys.executable, "-W", "error", "-c", REPEAT, str(tmp_path)], check=True, env=os.environ
    )


def leaves(value):
    """The types that a value is made of."""
    yield type(value)
    if isinstance(value, dict):
        for name, item in value.items():
            yield from (*leaves(name), *leaves(item))
    elif isinstance(value, tuple):
        for item in value:
            yield from leaves(item)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_of_a_report_is_small_and_plain(kind, data, tmp_path):
    X, y = data
    report = Ridge(memory_budget=BUDGET).fit(KINDS[kind](X, tmp_path), y).report_
    assert set(leaves(report.plan)) <= {dict, tuple, str, int, float}
    assert len(pickle.dumps(report.plan)) < 600
    assert report.plan["steps"][0]["engine"] in ENGINES
    assert ("read_bandwidth" in report.plan["speeds"]) == (kind in ("memory map", "parquet"))
    assert "plan" not in str(report).replace("of the plan", "")


@pytest.mark.parametrize(
    "speeds",
    [{}, {"gemm_rate": 1.0}, asdict(SPEEDS) | {"gemm_rate": 0.0},
     asdict(SPEEDS) | {"read_bandwidth": -1.0}, asdict(SPEEDS) | {"read_bandwidth": "fast"}],
)  # fmt: skip
@pytest.mark.parametrize("make", [Ridge, RidgeCV, RidgeClassifier, RidgeClassifierCV])
def test_speeds_that_are_not_those_of_a_report_are_refused(make, speeds):
    with raises(OptionError, "speeds", change=("speeds", None)):
        make(speeds=speeds).fit(np.eye(6), [0, 0, 0, 1, 1, 1])


def test_a_checkpoint_keeps_the_speeds_of_its_first_start(data, tmp_path):
    class Stop(Exception):
        pass

    def stop(event):
        if event.passes >= 4:
            raise Stop

    options = {"solver": "two_stage", "memory_budget": 1.2e7, "checkpoint": tmp_path / "checkpoint"}
    speeds = asdict(OTHER_SPEEDS) | {"read_bandwidth": 3e8}
    with pytest.raises(Stop), watch(stop):
        Ridge(speeds=speeds, **options).fit(ChunkedStorage(ArraySource(data[0])), data[1])
    model = Ridge(**options).fit(ChunkedStorage(ArraySource(data[0])), data[1])
    assert model.report_.plan["speeds"] == speeds
