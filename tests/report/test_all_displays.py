"""What all displays have in common: axes, layout, models, matplotlib."""

import subprocess
import sys

import matplotlib.pyplot as plt
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ling import CVDisplay, PathDisplay, RidgeCV, SpectrumDisplay
from ling.errors import InputTypeError
from tests.raising import raises
from tests.report.displays import drawn

pytestmark = pytest.mark.usefixtures("closed_figures")


ALL = {
    "cv": lambda model, X, y, ax=None: CVDisplay.from_estimator(model, ax=ax),
    "path": lambda model, X, y, ax=None: PathDisplay.from_estimator(model, X, y, ax=ax),
    "spectrum": lambda model, X, y, ax=None: SpectrumDisplay.from_estimator(model, X, ax=ax),
}


@pytest.mark.parametrize("show", ALL.values(), ids=ALL)
class TestAll:
    def test_a_given_ax_is_used(self, diabetes, show):
        figure, (left, right) = plt.subplots(1, 2)
        shown = show(RidgeCV().fit(*diabetes), *diabetes, ax=right)
        drawn(shown)
        assert shown.ax_ is right
        assert shown.figure_ is figure
        assert not left.lines
        assert plt.get_fignums() == [figure.number]

    def test_nothing_is_cut_off(self, diabetes, show):
        _, ax = plt.subplots()
        shown = show(RidgeCV().fit(*diabetes), *diabetes, ax=ax)
        drawn(shown)
        box = ax.get_tightbbox()
        width, height = shown.figure_.canvas.get_width_height()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1

    def test_a_layout_of_the_users_own_is_kept(self, diabetes, show):
        figure, ax = plt.subplots(layout="compressed")
        engine = figure.get_layout_engine()
        show(RidgeCV().fit(*diabetes), *diabetes, ax=ax)
        assert figure.get_layout_engine() is engine

    def test_plot_can_be_called_again(self, diabetes, show):
        shown = show(RidgeCV().fit(*diabetes), *diabetes)
        first = shown.ax_
        assert shown.plot() is shown
        assert shown.ax_ is not first
        assert len(shown.ax_.lines) == len(first.lines)

    def test_a_model_that_is_not_fitted(self, diabetes, show):
        with pytest.raises(NotFittedError):
            show(RidgeCV(), *diabetes)

    def test_says_how_to_install_matplotlib(self, diabetes, show, monkeypatch):
        model = RidgeCV().fit(*diabetes)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=r"Display.plot needs matplotlib.*ling\[plot\]"):
            show(model, *diabetes)


@pytest.mark.processes
def test_matplotlib_is_loaded_by_plot_alone():
    code = "from ling import CVDisplay; import sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    "draw",
    [
        lambda model, X, y: CVDisplay.from_estimator(model),
        lambda model, X, y: PathDisplay.from_estimator(model, X, y),
        lambda model, X, y: SpectrumDisplay.from_estimator(model, X),
    ],
)
def test_models_inside_of_others_are_pointed_at(diabetes, draw):
    X, y = diabetes
    pipeline = make_pipeline(StandardScaler(), RidgeCV()).fit(X, y)
    with raises(InputTypeError, "model", mentions="pipeline[-1]"):
        draw(pipeline, X, y)
    draw(pipeline[-1], pipeline[:-1].transform(X), y)
    search = GridSearchCV(RidgeCV(), {"fit_intercept": [True, False]}, cv=2).fit(X, y)
    with raises(InputTypeError, "model", mentions="best_estimator_"):
        draw(search, X, y)
    draw(search.best_estimator_, X, y)
