"""What type checkers and editors see of the public names."""

import ast
import inspect
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import FunctionType, MethodType
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from sklearn.utils._param_validation import StrOptions

import ling
from tests.extras import needs
from tests.versions import installed

needs("mypy")

SOURCES = Path(ling.__file__).parents[1]
# A line that ends in a comment `# reveals: ...` has to be revealed as exactly that type.
SCRIPT = """
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import ling
from ling import LingRegressor, Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling import ridge_path, scan_parquet

X: NDArray[np.float64] = np.ones((4, 2))
y: NDArray[np.float64] = np.arange(4.0)

reveal_type(Ridge())  # reveals: ling.estimators.ridge.Ridge
reveal_type(Ridge().fit(X, y))  # reveals: ling.estimators.ridge.Ridge
reveal_type(Ridge().partial_fit(X, y))  # reveals: ling.estimators.ridge.Ridge
reveal_type(RidgeCV(cv=5).fit(X, y, groups=y))  # reveals: ling.estimators.ridge_cv.RidgeCV
reveal_type(RidgeClassifier().fit(X, y))  # reveals: ling.estimators.classifier.RidgeClassifier
reveal_type(RidgeClassifierCV().fit(X, y))  # reveals: ling.estimators.classifier.RidgeClassifierCV


class Subclass(Ridge):
    pass


reveal_type(Subclass().fit(X, y))  # reveals: script.Subclass

FLOATS = Ridge().coef_
reveal_type(FLOATS)  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]
reveal_type(Ridge().predict(X))  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]
mean, std = Ridge().predict(X, return_std=True)
reveal_type(std)  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]
reveal_type(Ridge().predict(sparse.csr_array(X)))  # reveals: ndarray[
reveal_type(Ridge().predict([[1.0, 2.0]]))  # reveals: ndarray[
reveal_type(Ridge().predict(scan_parquet("data.parquet").X, return_std=True))  # reveals: tuple[nda
reveal_type(next(Ridge().predict_blocks(X)))  # reveals: tuple[slice[Any, Any, Any], ndarray[
reveal_type(RidgeClassifier().predict(X))  # reveals: ndarray[tuple[Any, ...], dtype[Any]]
reveal_type(RidgeClassifier().decision_function(X))  # reveals: ndarray[
reveal_type(Ridge().predict(X, return_bound=True))  # reveals: tuple[ndarray[tuple[Any, ...]
reveal_type(LingRegressor().predict(X))  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]
reveal_type(LingRegressor().predict(X, return_bound=True))  # reveals: tuple[ndarray[tuple[Any
reveal_type(RidgeClassifier().decision_function(X, True))  # reveals: tuple[ndarray[tuple[Any
reveal_type(Ridge().report_.certificate.coef_norm_bounds)  # reveals: ndarray[tuple[Any, ...]
reveal_type(RidgeCV().score(X, y))  # reveals: float
reveal_type(Ridge().report_)  # reveals: ling.results.FitReport
reveal_type(Ridge().solver_)  # reveals: str
reveal_type(Ridge(alpha=[1.0, 2.0], random_state=0).random_state)  # reveals: int | integer[Any] |
reveal_type(Ridge().intercept_)  # reveals: float | floating[Any] | ndarray[
reveal_type(Ridge().n_features_in_)  # reveals: int
reveal_type(Ridge().feature_names_in_)  # reveals: ndarray[tuple[Any, ...], dtype[object_]]
reveal_type(RidgeClassifier().classes_)  # reveals: ndarray[
reveal_type(RidgeCV(cv=[(y, y)], scoring="r2").selection_rule)  # reveals: Literal['best'] | Lit
reveal_type(RidgeCV().alpha_)  # reveals: float | ndarray[tuple[Any, ...], dtype[floating[Any]]]
reveal_type(RidgeCV().alphas_)  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]
reveal_type(RidgeCV().cv_scores_)  # reveals: ling.model_selection.cv_scores.CVScores
reveal_type(RidgeCV().cv_results_)  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]

reveal_type(ridge_path(X, y))  # reveals: ling.estimators.path.RidgePath
reveal_type(ling.certify([1.0, 2.0], X, y, 1.0).holds)  # reveals: bool
reveal_type(ling.certify(y, X, y))  # reveals: ling.results.Certificate
reveal_type(ling.plan_fit(X))  # reveals: ling.solvers.planning.Plan
reveal_type(scan_parquet("data.parquet", "y"))  # reveals: ling.io.dataset.Dataset
reveal_type(ling.CVDisplay.from_estimator(RidgeCV()))  # reveals: ling.report.cv_display.CVDisplay
reveal_type(ling.paper.ling)  # reveals: def

model = ling.load("model.ling")
if isinstance(model, RidgeCV):
    reveal_type(model)  # reveals: ling.estimators.ridge_cv.RidgeCV
else:
    reveal_type(model)  # reveals: ling.estimators.ridge.Ridge | ling.estimators.classifier.R
"""
# Every line but the first is an error.
MISTAKES = """\
import ling
ling.Rigde()
ling.Ridge(alhpa=1.0)
ling.ridge_path()
ling.certify([1.0])
ling.Ridge(solver="choleski")
ling.Ridge().fit("table.csv", [1.0])
ling.Ridge(random_state="zero")
ling.RidgeCV(cv="five")
ling.RidgeCV(selection_rule="1se")
ling.RidgeClassifier(class_weight="balance")
ling.scan_csv("table.csv", missing="median")
ling.scan_arrow("table.parquet")
ling.save("model", "model.ling")
ling.paper.models.model1(random_state="zero")
"""
ESTIMATORS = (ling.Ridge, ling.RidgeCV, ling.RidgeClassifier, ling.RidgeClassifierCV)


def checked(script: Path) -> subprocess.CompletedProcess[str]:
    """Run mypy as a user would who has ling installed: its own sources are not reported on."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    options = ["--no-color-output", "--no-error-summary", "--config-file="]
    return subprocess.run(
        [*command, *options, script.name], cwd=script.parent, capture_output=True, text=True,
        check=False, env={**os.environ, "MYPYPATH": str(SOURCES)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The lines that mypy prints of both scripts; they share a cache."""
    folder = tmp_path_factory.mktemp("typing")
    found = {}
    for name, text in {"script": SCRIPT, "mistakes": MISTAKES}.items():
        script = folder / f"{name}.py"
        script.write_text(text)
        done = checked(script)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        found[name] = done.stdout.splitlines()
    return found


@pytest.mark.processes
@pytest.mark.skipif(
    installed("numpy") < (2, 2), reason="earlier stubs of NumPy have shapes of another type"
)
def test_public_names_have_their_types(outputs):
    assert not [line for line in outputs["script"] if ": error:" in line]
    # script.py:7: note: Revealed type is "numpy.ndarray[...]"
    revealed = {
        int(line.split(":")[1]): line.split('"', 1)[1].replace("builtins.", "")
        for line in outputs["script"]
        if "Revealed type" in line
    }
    for number, line in enumerate(SCRIPT.splitlines(), start=1):
        if "# reveals: " in line:
            expected = line.split("# reveals: ")[1]
            found = revealed[number].replace("numpy.", "").replace("typing.", "")
            assert found.startswith(expected), line


@pytest.mark.processes
def test_mistakes_are_reported(outputs):
    lines = {int(line.split(":")[1]) for line in outputs["mistakes"] if ": error:" in line}
    assert lines == set(range(2, len(MISTAKES.splitlines()) + 1))


def string_literals(hint):
    """The strings of all Literal types in a type."""
    if get_origin(hint) is Literal:
        return {value for value in get_args(hint) if isinstance(value, str)}
    return set().union(*map(string_literals, get_args(hint)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_types_of_options_are_the_strings_that_a_fit_accepts(estimator):
    hints = get_type_hints(estimator.__init__)
    accepted = {
        name: set().union(*(c.options for c in constraints if isinstance(c, StrOptions)))
        for name, constraints in estimator._parameter_constraints.items()
        if name != "scoring"  # which takes the names of all scorers
    }
    assert {name: string_literals(hints[name]) for name in accepted} == accepted


def public_functions():
    """Functions of the public modules, and public methods of classes in `ling`, by name."""
    found = {}
    for module in (ling, ling.paper, ling.paper.models, ling.paper.theory, ling.progress):
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
    members = {
        f"{name}.{key}": getattr(value, key)
        for name, value in found.items()
        if inspect.isclass(value)
        for key in dir(value)
        if key == "__init__" or key[0] != "_"
    }
    return {
        name: function
        for name, function in (found | members).items()
        if isinstance(function, FunctionType | MethodType) and function.__module__[:4] == "ling"
    }


def test_arguments_have_types():
    untyped = [
        f"{function}({name})"
        for function, value in public_functions().items()
        for name, parameter in inspect.signature(value).parameters.items()
        if name not in ("self", "params") and parameter.annotation in ("Any", parameter.empty)
    ]
    assert not untyped


def test_names_for_type_checkers_are_those_that_are_loaded():
    tree = ast.parse((SOURCES / "ling" / "__init__.py").read_text())
    block = next(
        node for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )  # fmt: skip
    declared = {
        (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # the form that type checkers take as public
    }
    loaded = {(f"ling.{module}", name) for module, names in ling._NAMES.items() for name in names}
    assert declared == loaded | {tuple(path.rsplit(".", 1)) for path in ling._MODULES.values()}


def test_the_package_says_that_it_is_typed():
    assert files("ling").joinpath("py.typed").is_file()
