"""Fits tell how far they are, to whoever asks, and to nobody else."""

import io
import logging
import subprocess
import sys
import threading
from importlib.machinery import ModuleSpec
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from rich.console import Console
from scipy import sparse

from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, ridge_path
from ling.design import ArraySource, ChunkedStorage, Meter
from ling.errors import OptionError
from ling.progress import (
    DONE_STAGE,
    READ_STAGE,
    Event,
    FitProgress,
    track_fit,
    watch,
)
from ling.progress_bar import format_duration, progress_listener
from tests.raising import raises
from tests.training import make_problem

MODELS = {
    "direct": Ridge(solver="direct"),
    "two_stage": Ridge(solver="two_stage"),
    "auto": Ridge(),
    "positive": Ridge(positive=True),
    "least norm": Ridge(alpha=0.0),
    "leave-one-out": RidgeCV(),
    "5-fold": RidgeCV(cv=5),
    "stochastic": RidgeCV(gcv_mode="stochastic"),
    "classifier": RidgeClassifier(),
    "classifier, leave-one-out": RidgeClassifierCV(),
    "classifier, 3-fold": RidgeClassifierCV(cv=3),
}
every_model = pytest.mark.parametrize("name", MODELS)
SHAPES = {"tall": (300, 20), "wide": (40, 70)}
every_shape = pytest.mark.parametrize("shape", SHAPES)
# two_stage samples all of 64 rows, so that the sample is a whole pass. The rank of its sketch is at
# most 32, so that 48 columns need many iterations.
SAMPLED_SHAPE = 64, 48


@pytest.fixture
def data():
    return made("tall")


def made(shape):
    return drawn(*SHAPES[shape])


def drawn(n, p):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * np.linspace(5, 0.1, p)
    return X, X @ rng.standard_normal(p) + rng.standard_normal(n)


def targets(model, y):
    return y > 0 if "Classifier" in type(model).__name__ else y


def events_of(model, X, y):
    events = []
    with watch(events.append):
        model.fit(X, targets(model, y))
    return events


def fresh(name, **options):
    return type(MODELS[name])(**{**MODELS[name].get_params(), "random_state": 0, **options})


def small_blocks(X):
    """X, read in blocks of 32 rows."""
    n_bytes = 4 * 32 * X[0].nbytes
    return ChunkedStorage(ArraySource(X), max_resident_bytes=n_bytes, has_fixed_blocks=True)


STORAGES = {
    "dense": np.asarray,
    "sparse": sparse.csr_array,
    "chunked": small_blocks,
    "dask": lambda X: da.from_array(X, chunks=(64, -1)),
}


def check_events(events, passes):
    """What is true of all fits; `passes` are those of the report."""
    assert all(isinstance(event, Event) for event in events)
    solved = [e for e in events if e.stage not in (READ_STAGE, "covariance", DONE_STAGE)]
    assert solved[-1].passes == pytest.approx(passes)
    counted = [event.passes for event in events if event.stage != READ_STAGE]
    assert counted[0] == 0
    assert (np.diff(counted) >= -1e-9).all()
    assert (np.diff([event.seconds for event in events]) >= 0).all()
    for event in events:
        assert event.expected is None or event.expected >= event.passes
        assert event.left is None or 0 <= event.left < np.inf
        assert event.expected is not None or event.left is None
    last = events[-1]
    assert (last.stage, last.expected, last.left) == (DONE_STAGE, last.passes, 0.0)


@every_model
@every_shape
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_events_add_up_to_the_report(name, shape):
    model = fresh(name)
    events = events_of(model, *made(shape))
    check_events(events, model.report_.cost.passes)
    assert events[0].stage == "prepare"
    assert events[0].expected >= 2
    assert events[0].left is not None
    stages = {event.stage for event in events}
    assert f"solve with {model.solver_}" in stages
    assert ("choose alpha" in stages) == ("CV" in type(model).__name__)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", ["direct", "two_stage", "5-fold", "stochastic"])
def test_events_add_up_for_every_storage(name, storage, data):
    X, y = data
    model = fresh(name)
    check_events(events_of(model, STORAGES[storage](X), y), model.report_.cost.passes)


def test_iterated_folds_that_give_up_are_heard_of(data, monkeypatch, caplog):
    monkeypatch.setattr("ling.model_selection.strategy.MIN_DIRECT_TO_ITERATED_RATIO", 0.0)
    monkeypatch.setattr("ling.model_selection.strategy.TYPICAL_PASSES_PER_TARGET", 1)
    model = RidgeCV(cv=3)
    with caplog.at_level("INFO", "ling"):
        check_events(events_of(model, *data), model.report_.cost.passes)
    assert "would have taken longer than factorisations do" in caplog.text


def test_blocks_are_parts_of_a_pass(data):
    X, y = data
    events = events_of(Ridge(solver="direct"), small_blocks(X), y)
    first = [e.passes for e in events if e.stage == "prepare"]
    np.testing.assert_allclose(first, np.minimum(np.arange(11) * 32 / 300, 1))


def test_reading_into_memory_has_a_stage_of_its_own(rng):
    X, y = rng.standard_normal((2**15, 32)), rng.standard_normal(2**15)  # 8 MiB
    model = Ridge(memory_budget=2.1 * X.nbytes)  # just enough, and blocks of more than a MiB
    events = events_of(model, ChunkedStorage(ArraySource(X)), y)
    read = [event for event in events if event.stage == READ_STAGE]
    assert len(read) > 5
    assert read[0].passes == 0
    assert np.all(np.diff([event.passes for event in read]) > 0)
    assert all(event.expected == 1 for event in read)
    assert events[len(read)].stage == "prepare"
    assert events[len(read)].passes == 0


def test_partial_fit_and_paths_are_watched_too(data):
    events = []
    with watch(events.append):
        model = Ridge().partial_fit(*data)
    check_events(events, model.report_.cost.passes)
    assert events[0].stage == "summarise"
    events.clear()
    with watch(events.append):
        path = ridge_path(*data)
        told = len(events)
        assert len(path.edf) == len(path.alphas)
    check_events(events, path.cost.passes)
    assert len(events) == told


@every_model
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_watching_does_not_change_a_bit(name, data):
    X, y = data
    seen, alone = fresh(name), fresh(name)
    events_of(seen, X, y)
    alone.fit(X, targets(alone, y))
    np.testing.assert_array_equal(seen.coef_, alone.coef_)
    assert seen.report_.cost == alone.report_.cost


def test_watchers_nest_and_leave(data):
    outer, inner = [], []
    with watch(outer.append):
        with watch(inner.append):
            Ridge().fit(*data)
        Ridge().fit(*data)
    Ridge().fit(*data)
    assert [e.stage for e in outer] == 2 * [e.stage for e in inner]


def test_passes_of_helper_threads_are_heard():
    events = []
    with watch(events.append), track_fit() as progress:
        meter = Meter(progress=progress)
        meter.begin_stage("solve", lambda: (8.0, 1.0))
        threads = [threading.Thread(target=meter.add, args=(0.0, 1.0)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert max(event.passes for event in events) == 8
    meter.add(0.0, 1.0)
    assert events[-1].stage == DONE_STAGE


def test_more_passes_than_expected_leave_the_end_unknown():
    events = []
    run = FitProgress((events.append,))
    run.begin_stage("solve", lambda: (2.0, 100.0))
    assert events[-1].left == pytest.approx(100, abs=5)
    run.add(1.0)
    assert 40 < events[-1].left < 60  # half by the plan, half by a pace that is next to nothing
    run.add(1.5)
    assert (events[-1].expected, events[-1].left) == (None, None)
    run.begin_stage("solve again", lambda: (3.0, None))
    assert events[-1].expected == 5.5
    assert events[-1].left is not None
    run.finish()
    assert events[-1].expected == 2.5


class Enough(Exception):
    """A listener's own."""


@pytest.mark.parametrize(
    "error",
    [Enough("enough"), KeyboardInterrupt("enough"), OptionError("tol", "is enough")],
    ids=lambda error: type(error).__name__,
)
@every_model
def test_a_listener_may_end_a_fit_at_any_time(name, error, data):
    X, y = data
    model = fresh(name)
    model.fit(X[:, :7], targets(model, y))
    before = dict(vars(model))
    told = len(events_of(fresh(name), X, y))
    for at in {0, 1, told // 2, told - 1}:
        left = at

        def listener(event):
            nonlocal left
            if left == 0:
                raise error
            left -= 1

        with pytest.raises(type(error), match="enough"), watch(listener):
            model.fit(X, targets(model, y))
        assert vars(model) == before


def test_a_listener_that_ends_a_fit_leaves_its_checkpoint(tmp_path):
    X, y = drawn(*SAMPLED_SHAPE)
    known = Ridge(solver="two_stage", random_state=0, checkpoint=tmp_path / "other").fit(X, y)

    def listener(event):
        if event.passes >= 4:
            raise Enough

    model = Ridge(solver="two_stage", random_state=0, checkpoint=tmp_path / "kept")
    with pytest.raises(Enough), watch(listener):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")
    model.set_params(verbose=False).fit(X, y)
    np.testing.assert_array_equal(model.coef_, known.coef_)
    (note,) = model.report_.notes
    assert note == f"Resumed after 4 passes kept in {str(tmp_path / 'kept')!r}."
    assert not known.report_.notes


@every_model
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nothing_is_printed_by_default(name, data, capfd):
    events_of(fresh(name), *data)
    assert capfd.readouterr() == ("", "")


@pytest.mark.processes
def test_warnings_of_the_log_are_not_printed_by_default():
    code = (
        "import numpy as np; from ling import Ridge\n"
        "Ridge().fit(np.eye(3), np.ones(3)).partial_fit(np.eye(3), np.ones(3))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@every_model
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_line_for_each_stage_without_a_terminal(name, data, capsys):
    X, y = data
    model = fresh(name, verbose=1)
    model.fit(X, targets(model, y))
    out, shown = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in shown
    assert "\r" not in shown
    lines = shown.splitlines()
    title = type(model).__name__
    assert f"  {title}, prepare: 0 of about " in lines[0]
    assert f"  {title}, done: " in lines[-1]
    assert any(f"{title}, solve with {model.solver_}: " in line for line in lines)
    stages = [line.partition(": ")[0].partition(", ")[2] for line in lines]
    assert len(stages) >= 4
    assert all(a != b for a, b in pairwise(stages))


def test_verbose_2_shows_the_report(data, capsys):
    model = Ridge(verbose=2).fit(*data)
    assert capsys.readouterr().err.endswith(f"{model.report_}\n")
    path = ridge_path(*data, verbose=2)
    shown = capsys.readouterr().err
    assert "ridge_path, solve for all alphas: 1 of about 2 passes" in shown
    assert shown.endswith(f"{path}\n")


@pytest.mark.parametrize("verbose", [-1, "loud", 1.5])
def test_other_kinds_of_verbose_are_refused(verbose, data):
    with pytest.raises(ValueError, match="verbose"):
        Ridge(verbose=verbose).fit(*data)
    with raises(OptionError, "verbose"):
        ridge_path(*data, verbose=verbose)


def test_without_rich_there_are_plain_lines(data, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    Ridge(verbose=1).fit(*data)
    assert "Ridge, done: 2 passes" in capsys.readouterr().err


def test_a_line_that_moves_on_a_terminal(data):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with progress_listener(console, "Ridge") as show, watch(show):
        Ridge(solver="two_stage").fit(*data)
    shown = screen.getvalue()
    assert "\x1b[" in shown
    assert "━" in shown
    assert "Ridge, done" in shown
    assert "passes" in shown


def test_the_line_knows_what_it_does_not_know():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with progress_listener(console) as show:
        show(Event("solve", 1.5, 3.0, 1.0, 75.0))
        show(Event("solve", 4.0, None, 2.0, None))
    last = screen.getvalue().rpartition("\r")[2]
    assert "4 passes" in last
    assert "left" not in last


def test_a_console_that_is_no_terminal_gets_plain_lines():
    file = io.StringIO()
    with progress_listener(Console(file=file, force_terminal=False)) as show:
        show(Event("solve", 1.5, 3.0, 2.0, 75.0))
        show(Event("solve", 2.0, 3.0, 3.0, 35.0))
        show(Event("certify", 3.0, 3.0, 4000.0, 0.0))
    assert file.getvalue() == (
        "     2 s  solve: 1.5 of about 3 passes, about 1 min 15 s left\n"
        "1 h 6 min  certify: 3 of about 3 passes\n"
    )


@pytest.mark.parametrize("has_ipywidgets", [False, True])
def test_notebooks_without_ipywidgets_get_plain_lines(has_ipywidgets, monkeypatch):
    live = []
    spec = ModuleSpec("ipywidgets", None) if has_ipywidgets else None
    monkeypatch.setattr("ling.progress_bar.find_spec", {"ipywidgets": spec}.get)
    monkeypatch.setattr("rich.live.Live.refresh", lambda self: live.append(self))
    file = io.StringIO()
    with progress_listener(Console(file=file, force_jupyter=True), "Ridge") as show:
        show(Event("solve", 1.0, 3.0, 2.0, None))
    assert bool(live) == has_ipywidgets
    assert file.getvalue() == (
        "" if has_ipywidgets else "     2 s  Ridge, solve: 1 of about 3 passes\n"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.123, "0.1 s"), (34, "34 s"), (100, "1 min 40 s"), (7200, "2 h 0 min")]
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


def test_the_log_has_a_line_for_each_decision(data, caplog, tmp_path):
    X, y = data
    with caplog.at_level("INFO", "ling"):
        RidgeCV(cv=3).fit(X, y)
        Ridge(solver="lsqr").fit(ChunkedStorage(ArraySource(X)), y)
    said = [record.getMessage() for record in caplog.records]
    for words in (
        "by direct, which is expected to take", "chosen from 30 by cross-validation on 3 splits",
        "solved by direct", "X is read into memory: 48 kB", "ling uses 'two_stage' for it",
    ):  # fmt: skip
        assert any(words in line for line in said), words
    assert {record.name for record in caplog.records} == {"ling"}
    assert all(record.levelno == logging.INFO for record in caplog.records)


def test_engines_that_are_given_up_are_in_the_log(data, caplog):
    with caplog.at_level("INFO", "ling"), pytest.warns(match="not within tol"):
        Ridge(alpha=1e-9, solver="two_stage", max_iter=1).fit(*data)
    assert "two_stage is abandoned" in caplog.text


def test_copies_are_in_the_log(caplog):
    X, y = made("tall")
    problem, _ = make_problem(X, y[:, None], np.ones(1), None, True)
    with caplog.at_level("INFO", "ling"):
        problem.quantize()
    assert "copy of X in 16-bit integers" in caplog.text


def test_checkpoints_that_are_gone_on_with_are_in_the_log(caplog, tmp_path):
    data = drawn(*SAMPLED_SHAPE)

    def listener(event):
        if event.passes >= 2:
            raise Enough

    model = Ridge(checkpoint=tmp_path / "kept", solver="two_stage")
    with pytest.raises(Enough), watch(listener):
        model.fit(*data)
    with caplog.at_level("INFO", "ling"):
        model.fit(*data)
    assert "Resumed after 2 passes kept in" in caplog.text


def test_every_pass_is_in_the_debug_log(caplog):
    with caplog.at_level("DEBUG", "ling"):
        model = Ridge(solver="two_stage", tol=1e-8).fit(*drawn(*SAMPLED_SHAPE))
    passes = [r for r in caplog.records if r.levelno == logging.DEBUG]
    assert len(passes) == model.report_.cost.passes
    assert passes[-1].getMessage() == f"{len(passes)} passes over X so far"
