"""scikit-learn's private names: none is imported elsewhere, and versions may lack any of them."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn
import sklearn.base
import sklearn.utils._param_validation as param_validation

import ling
from ling import Ridge
from ling.estimators import sklearn_private
from ling.estimators.sklearn_private import fit_context_fallback, sklearn_name

SOURCES = sorted(Path(ling.__file__).parent.rglob("*.py"))


def private_imports(text):
    """Private names and modules of scikit-learn that a source imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, *parts = name.split(".")
            if package == "sklearn" and any(part.startswith("_") for part in parts):
                yield name


@pytest.mark.parametrize(
    "text",
    ["from sklearn.base import _fit_context", "import sklearn.utils._param_validation",
     "from sklearn.metrics._scorer import get_scorer"],
)  # fmt: skip
def test_private_imports_are_recognised(text):
    assert list(private_imports(text))


def test_private_names_are_imported_in_one_place():
    found = {path: list(private_imports(path.read_text(encoding="utf-8"))) for path in SOURCES}
    assert not {path: names for path, names in found.items() if names}


def test_the_names_of_this_version_are_used():
    assert sklearn_private.Interval is param_validation.Interval
    assert sklearn_private.StrOptions is param_validation.StrOptions
    assert sklearn_private.sklearn_fit_context is sklearn.base._fit_context


def test_a_name_that_is_gone_is_replaced(monkeypatch):
    monkeypatch.delattr(sklearn.base, "_fit_context")
    assert sklearn_name("sklearn.base", "_fit_context", len) is len


def test_a_module_that_is_gone_is_replaced(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.utils._param_validation", None)
    assert sklearn_name("sklearn.utils._param_validation", "Interval", len) is len


def test_without_a_replacement_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delattr(param_validation, "Interval")
    with pytest.raises(
        ImportError, match=r"_param_validation\.Interval.*install scikit-learn 1\.9, or a newer"
    ):
        sklearn_name("sklearn.utils._param_validation", "Interval")


class FallbackRidge(Ridge):
    fit = fit_context_fallback(prefer_skip_nested_validation=True)(Ridge.fit.__wrapped__)


@pytest.fixture
def data(rng):
    return rng.standard_normal((20, 3)), rng.standard_normal(20)


def test_the_replaced_fit_is_the_same(data):
    model = FallbackRidge(alpha=2.0).fit(*data)
    np.testing.assert_array_equal(model.coef_, Ridge(alpha=2.0).fit(*data).coef_)
    assert FallbackRidge.fit.__doc__ == Ridge.fit.__doc__


def test_the_replaced_fit_validates_parameters(data):
    with pytest.raises(ValueError, match="'tol' parameter of FallbackRidge must be"):
        FallbackRidge(tol=-1.0).fit(*data)
    with sklearn.config_context(skip_parameter_validation=True):
        FallbackRidge(copy_X="unused").fit(*data)


def test_the_replaced_fit_works_without_scikit_learns_validation(data, monkeypatch):
    monkeypatch.delattr(sklearn.base.BaseEstimator, "_validate_params")
    assert FallbackRidge().fit(*data).coef_.shape == (3,)


def test_the_replaced_fit_tears_callbacks_down(data):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    events = []

    class Recorder:
        def setup(self, estimator, context):
            events.append("setup")

        def on_fit_task_begin(self, *args, **kwargs):
            events.append("begin")

        def on_fit_task_end(self, *args, **kwargs):
            events.append("end")

        def teardown(self, estimator, context):
            events.append("teardown")

    FallbackRidge().set_callbacks(Recorder()).fit(*data)
    assert events[0] == "setup"
    assert events[-1] == "teardown"
    assert "end" in events
