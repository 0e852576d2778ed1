"""scikit-learn's callbacks on our estimators, alone and inside of its own."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, scan_arrow
from ling.design import ArraySource, ChunkedStorage
from ling.errors import FitStoppedError, LingError
from tests.extras import needs

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has them from 1.9 on")
ProgressBar, ScoringMonitor = callback.ProgressBar, callback.ScoringMonitor
MODELS = {
    "Ridge": Ridge,
    "two_stage": lambda **options: Ridge(solver="two_stage", **options),
    "RidgeCV": RidgeCV,
    "RidgeCV, 3-fold": lambda **options: RidgeCV(cv=3, **options),
    "RidgeClassifier": RidgeClassifier,
    "RidgeClassifierCV": RidgeClassifierCV,
}
every_model = pytest.mark.parametrize("name", MODELS)


class Recorder:
    """A callback that writes down what it is told, and stops after so many passes."""

    max_propagation_depth = None

    def __init__(self, passes=None, error=None):
        self.passes, self.error = passes, error
        self.told = []
        self.ended = 0
        self.fitted = None

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.told.append(("begin", context.task_name, context.task_id, context.max_subtasks))
        self.data = X, y, metadata

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.told.append(("end", context.task_name, context.task_id, context.max_subtasks))
        if context.task_name == "fit":
            self.fitted = fitted_estimator
        else:
            assert fitted_estimator is None
            self.ended += 1
        if self.passes is not None and self.ended >= self.passes:
            if self.error is not None:
                raise self.error
            return True
        return False


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 8))
    return X, X @ np.arange(8.0) + rng.standard_normal(120)


def fitted(model, data, **options):
    X, y = data
    return model.fit(X, y > 0 if "Classifier" in type(model).__name__ else y, **options)


def state(model):
    return {name: value for name, value in vars(model).items() if name != "_skl_callbacks"}


@every_model
def test_progress_bars_are_drawn(name, data, capsys):
    needs("rich")
    model = fitted(MODELS[name](random_state=0).set_callbacks(ProgressBar()), data)
    assert f"{type(model).__name__} - fit" in capsys.readouterr().out
    alone = fitted(MODELS[name](random_state=0), data)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert capsys.readouterr().out == ""


@every_model
def test_passes_are_the_tasks_of_a_fit(name, data):
    recorder = Recorder()
    weights = np.linspace(1, 2, 120)
    model = fitted(
        MODELS[name](random_state=0).set_callbacks(recorder), data, sample_weight=weights
    )
    told = recorder.told
    assert told[0] == "setup"
    assert told[-1] == "teardown"
    most = told[1][-1]
    assert told[1] == ("begin", "fit", 0, most)
    assert told[-2] == ("end", "fit", 0, most)
    tasks = told[2:-2]
    assert 2 <= len(tasks) <= 2 * most
    begun = [("begin", "pass", number, 0) for number in range(len(tasks) // 2)]
    ended = [("end", "pass", number, 0) for number in range(len(tasks) // 2)]
    assert tasks == [task for pair in zip(begun, ended, strict=True) for task in pair]
    # A last one lasts to the end of the fit.
    assert len(begun) >= min(most, model.report_.cost.passes)
    assert recorder.data[0] is data[0]
    assert recorder.data[2]["sample_weight"] is weights


@every_model
def test_at_the_end_there_is_a_fitted_estimator(name, data):
    recorder = Recorder()
    model = fitted(MODELS[name]().set_callbacks(recorder), data)
    np.testing.assert_array_equal(recorder.fitted.predict(data[0]), model.predict(data[0]))


@every_model
def test_scores_can_be_monitored(name, data):
    model = MODELS[name]()
    scoring = "accuracy" if "Classifier" in type(model).__name__ else "r2"
    monitor = ScoringMonitor(scoring=scoring)
    fitted(model.set_callbacks(monitor), data)
    (row,) = monitor.get_logs().data
    y = data[1] > 0 if scoring == "accuracy" else data[1]
    assert row["task_name"] == "fit"
    assert row[scoring] == pytest.approx(model.score(data[0], y))


def test_callbacks_get_x_and_y_of_a_dataset(data):
    table = pa.table({**{f"x{j}": column for j, column in enumerate(data[0].T)}, "y": data[1]})
    dataset, monitor = scan_arrow(table, "y"), ScoringMonitor(scoring="r2")
    model = Ridge().set_callbacks(monitor).fit(dataset)
    (row,) = monitor.get_logs().data
    assert row["r2"] == pytest.approx(model.score(dataset))


def test_more_passes_than_expected_belong_to_the_last_task(data, monkeypatch):
    monkeypatch.setattr("ling.estimators.fit.expected_cost", lambda *_: (1.2, 0.1))
    recorder = Recorder()
    model = fitted(Ridge(solver="two_stage").set_callbacks(recorder), data)
    assert model.report_.cost.passes > 3
    assert [told[:3] for told in recorder.told[1:-1]] == [
        ("begin", "fit", 0), ("begin", "pass", 0), ("end", "pass", 0), ("begin", "pass", 1),
        ("end", "pass", 1), ("end", "fit", 0),
    ]  # fmt: skip


def test_partial_fit_has_tasks_too(data):
    recorder = Recorder()
    Ridge().set_callbacks(recorder).partial_fit(*data)
    assert recorder.told.count(("begin", "pass", 0, 0)) == 1
    assert recorder.told[-1] == "teardown"


def test_data_that_are_read_into_memory(data):
    recorder = Recorder()
    X = ChunkedStorage(ArraySource(data[0]))
    model = Ridge().set_callbacks(recorder).fit(X, data[1])
    assert recorder.told[1] == ("begin", "fit", 0, 3)
    assert recorder.data[0] is X
    np.testing.assert_array_equal(recorder.fitted.coef_, model.coef_)


@every_model
def test_a_stop_leaves_the_estimator_as_it_was(name, data):
    model = fitted(MODELS[name](), (data[0][:, :3], data[1]))
    before = state(model)
    recorder = Recorder(passes=2)
    with pytest.raises(
        FitStoppedError, match=r"stopped this fit after 2(\.53|\.67)? passes over X"
    ):
        fitted(model.set_callbacks(recorder), data)
    assert state(model) == before
    assert recorder.ended == 2
    assert recorder.told[-1] == "teardown"
    assert recorder.fitted is None
    assert issubclass(FitStoppedError, LingError)


@pytest.mark.parametrize("passes", [1, 3, 5])
def test_a_stopped_fit_goes_on_from_its_checkpoint(passes, tmp_path):
    # The first sample of rows has all 64, so that it is one pass. The sketch has rank 32 at most.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((64, 48))
    data = X, X @ rng.standard_normal(48) + rng.standard_normal(64)
    known = Ridge(solver="two_stage", tol=1e-8, random_state=0, checkpoint=tmp_path / "x").fit(
        *data
    )
    model = Ridge(solver="two_stage", tol=1e-8, random_state=0, checkpoint=tmp_path / "kept")
    with pytest.raises(FitStoppedError):
        model.set_callbacks(Recorder(passes)).fit(*data)
    model.set_callbacks().fit(*data)
    np.testing.assert_array_equal(model.coef_, known.coef_)
    assert f"Resumed after {passes} pass" in str(model.report_)


@pytest.mark.parametrize("passes", [0, 1, 2])
@every_model
def test_errors_of_a_callback_come_out(name, passes, data):
    class OwnError(Exception):
        pass

    model = fitted(MODELS[name](), (data[0][:, :3], data[1]))
    before = state(model)
    with pytest.raises(OwnError):
        fitted(model.set_callbacks(Recorder(passes, OwnError())), data)
    assert state(model) == before


def test_an_error_at_the_very_end_leaves_the_estimator_as_it_was(data):
    class Last(Recorder):
        def on_fit_task_end(self, estimator, context):
            if context.task_name == "fit":
                raise KeyboardInterrupt

    model = Ridge().set_callbacks(Last())
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert not hasattr(model, "coef_")


def test_inside_of_a_pipeline(data, capsys):
    needs("rich")
    recorder = Recorder()
    pipeline = make_pipeline(StandardScaler(), Ridge()).set_callbacks(recorder, ProgressBar())
    pipeline.fit(*data)
    assert recorder.told.count(("begin", "pass", 0, 0)) == 1
    assert "Ridge - fit #1" in capsys.readouterr().out
    assert not hasattr(pipeline[-1], "_skl_callbacks")


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.processes)])
def test_inside_of_a_search(n_jobs, data, capsys):
    needs("rich")
    search = GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]}, cv=3, n_jobs=n_jobs)
    search.set_callbacks(ProgressBar()).fit(*data)
    shown = capsys.readouterr().out
    assert shown.count("candidate-split-evaluation | Ridge - fit") == 6
    assert "refit-with-best-params | Ridge - fit" in shown
    alone = GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]}, cv=3).fit(*data)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
    )


def test_a_callback_of_the_estimator_itself_in_a_search(data):
    monitor = ScoringMonitor(scoring="r2")
    search = GridSearchCV(Ridge().set_callbacks(monitor), {"alpha": [1.0, 10.0]}, cv=3)
    search.fit(*data)
    assert len(monitor.get_logs().data) == 7


@every_model
def test_callbacks_are_no_parameters(name, data):
    recorder = Recorder()
    model = MODELS[name]().set_callbacks(recorder)
    assert model.get_params() == MODELS[name]().get_params()
    assert clone(model)._skl_callbacks == [recorder]
    fitted(model, data)
    assert not {"_callback_fit_ctx", "_skl_callbacks_to_teardown"} & set(vars(model))
    model.set_callbacks()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert "_skl_callbacks" not in vars(copy.deepcopy(model).set_params(verbose=1))


def test_warnings_point_at_the_line_that_fits(data):
    model = Ridge(alpha=1e-9, solver="two_stage", max_iter=1).set_callbacks(Recorder())
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*data)
    assert caught[0].filename == __file__


def test_what_is_no_callback_is_refused():
    with pytest.raises(TypeError, match="FitCallback"):
        Ridge().set_callbacks(print)


@pytest.mark.processes
def test_scikit_learn_without_callbacks():
    """Its versions before 1.9: everything else works."""
    code = (
        "import sys, numpy, sklearn.base, sklearn.metrics, sklearn.model_selection\n"
        "import sklearn.preprocessing, sklearn.callback._callback_support\n"
        "sys.modules['sklearn.callback'] = None\n"
        "from ling import Ridge\n"
        "model = Ridge(verbose=1).fit(numpy.eye(9), numpy.ones(9))\n"
        "print(hasattr(model, 'set_callbacks'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert "Ridge, done: " in done.stderr
