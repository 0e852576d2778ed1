"""docs/verify_model.py confirms what is true, and nothing else, without ling."""

import json
import runpy
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import ling
from ling import LingRegressor, Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.solvers.engines import ENGINES
from tests import reference
from tests.solvers.problems import ridge_cases

SCRIPT = Path(__file__).parents[1] / "docs" / "verify_model.py"
CONFIRMED, FAILED, OTHER_DATA, CANNOT_READ = 0, 1, 2, 3
verify = runpy.run_path(str(SCRIPT))["main"]


def data(n=300, p=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) / np.arange(1, p + 1) + 5.0
    return X, X @ rng.standard_normal(p) + rng.standard_normal(n)


def quiet_fit(model, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args)


def run(folder, model, *arrays):
    """Exit code for a model and the arrays that it is given."""
    ling.save(model, folder / "model.ling")
    paths = []
    for number, array in enumerate(arrays):
        paths.append(str(folder / f"{number}.npy"))
        np.save(paths[-1], array)
    return verify(str(folder / "model.ling"), *paths)


MODELS = {
    **{name: Ridge(0.5, solver=name) for name in ENGINES},
    "no intercept": Ridge(0.5, fit_intercept=False),
    "positive": Ridge(0.5, positive=True),
    "cv": RidgeCV(),
    "ling": LingRegressor(3.0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(300, 20), (40, 120)])
def test_models_are_confirmed(name, shape, tmp_path, capsys):
    X, y = data(*shape)
    model = quiet_fit(MODELS[name], X, y)
    assert run(tmp_path, model, X, y) == CONFIRMED
    text = capsys.readouterr().out
    assert "data: those of the fit" in text
    assert f"{model.report_.certificate.bound:.3e}" in text


@pytest.mark.parametrize("kind", ["weights", "float32", "targets", "tiny"])
def test_kinds_of_data_are_confirmed(kind, tmp_path):
    X, y = data()
    weights = np.random.default_rng(1).uniform(0, 2, len(X)) * (np.arange(len(X)) % 3 > 0)
    if kind == "weights":
        assert run(tmp_path, Ridge().fit(X, y, weights), X, y, weights) == CONFIRMED
        assert run(tmp_path, Ridge().fit(X, y, weights), X, y) == OTHER_DATA
    elif kind == "float32":
        X = X.astype(np.float32)
        assert run(tmp_path, quiet_fit(Ridge(tol=1e-3), X, y), X, y) == CONFIRMED
    elif kind == "targets":
        Y = np.column_stack([y, -(y**2)])
        assert run(tmp_path, Ridge([0.1, 2.0]).fit(X, Y), X, Y) == CONFIRMED
    else:
        X = X * 1e-60
        assert run(tmp_path, Ridge(1e-120).fit(X, y), X, y) == CONFIRMED


@pytest.mark.parametrize("make", [RidgeClassifier, RidgeClassifierCV])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_are_confirmed(make, n_classes, tmp_path):
    X, y = data()
    labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes)) + 3
    assert run(tmp_path, make().fit(X, labels), X, labels) == CONFIRMED


def test_a_minorant_is_confirmed(tmp_path, capsys):
    X, y = data(n=64)  # all of them are sampled, so that the minorant has a high rank
    model = Ridge(0.5, solver="two_stage").fit(X, y)
    assert model.report_.certificate.region.directions is not None
    assert run(tmp_path, model, X, y) == CONFIRMED
    assert "minorant of rank 8: confirmed" in capsys.readouterr().out
    region = model.report_.certificate.region
    region.values[:] *= 1e4
    assert run(tmp_path, model, X, y) == FAILED
    assert "minorant of rank 8: WRONG" in capsys.readouterr().out


def test_rows_in_another_order_are_the_same_data(tmp_path):
    X, y = data()
    order = np.random.default_rng(0).permutation(len(X))
    assert run(tmp_path, Ridge().fit(X, y), X[order], y[order]) == CONFIRMED


@pytest.mark.parametrize("change", ["entry", "y", "permuted y", "columns", "row"])
def test_other_data_are_told(change, tmp_path):
    X, y = data()
    model = Ridge().fit(X, y)
    X, y = X.copy(), y.copy()
    if change == "entry":
        X[7, 3] += 1e-3
    elif change == "y":
        y[7] += 1e-3
    elif change == "permuted y":
        y = np.random.default_rng(0).permutation(y)
    elif change == "columns":
        X = X[:, ::-1]
    else:
        X, y = X[1:], y[1:]
    assert run(tmp_path, model, X, y) == OTHER_DATA


@pytest.mark.parametrize("changed", ["coef_", "intercept_", "alpha"])
def test_a_model_that_was_tampered_with_is_not_confirmed(changed, tmp_path):
    X, y = data()
    model = Ridge(0.5, tol=1e-6).fit(X, y)
    if changed == "alpha":
        model._fit_parameters["alpha"] *= 1.01
    else:
        setattr(model, changed, getattr(model, changed) * 1.01)
    assert run(tmp_path, model, X, y) == FAILED


def test_without_a_penalty_the_rank_decides(tmp_path):
    """If X'X can be factored, there is a bound for alpha = 0 too."""
    X, y = data()
    assert run(tmp_path, Ridge(0.0).fit(X, y), X, y) == CONFIRMED
    X[:, 1] = X[:, 0]
    assert run(tmp_path, Ridge(0.0).fit(X, y), X, y) == FAILED


def test_batches_are_confirmed_with_all_rows(tmp_path):
    X, y = data()
    model = Ridge().partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert run(tmp_path, model, X, y) == CONFIRMED
    assert run(tmp_path, model, X[20:], y[20:]) == OTHER_DATA


def test_parameters_that_were_changed_after_the_fit_do_not_matter(tmp_path):
    X, y = data()
    model = Ridge(0.5).fit(X, y).set_params(alpha=50.0, fit_intercept=False)
    assert run(tmp_path, model, X, y) == CONFIRMED


def test_a_bound_that_is_too_small_is_not_confirmed(tmp_path):
    X, y = data()
    model = quiet_fit(Ridge(0.5, solver="two_stage", tol=1e-9, max_iter=1), X, y)
    assert run(tmp_path, model, X, y) == CONFIRMED
    model.report_.certificate.bounds[:] = 1e-8
    assert run(tmp_path, model, X, y) == FAILED


@given(case=ridge_cases(largest_scale=20.0), solver=st.sampled_from([*ENGINES]))
@settings(max_examples=60)
def test_what_is_confirmed_is_true(case, solver, tmp_path_factory):
    """The recomputed bound is at least the error; a confirmed claim is one of ling's own."""
    model = Ridge(case.alpha, fit_intercept=case.fit_intercept, solver=solver)
    quiet_fit(model, case.X, case.y, case.weights)
    weights = [] if case.weights is None else [case.weights]
    code = run(tmp_path_factory.mktemp("model"), model, case.X, case.y, *weights)
    assert code != OTHER_DATA
    exact = reference.prediction_error(
        case.X, case.y, case.alpha, model.coef_, case.weights, case.fit_intercept, 200,
        model.intercept_,
    )  # fmt: skip
    certificate = model.report_.certificate
    if code == CONFIRMED:
        assert exact <= max(certificate.bound, certificate.tol) * (1 + 1e-6)


def test_it_needs_nothing_but_numpy_and_reads_csv(tmp_path):
    X, y = data(60, 3)
    names = ["a", "b b", "c"]
    lines = [",".join([*names, "price"])]
    lines += [
        ",".join(repr(float(v)) for v in [*row, target]) for row, target in zip(X, y, strict=True)
    ]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    ling.save(
        Ridge().fit(ling.scan_csv(tmp_path / "data.csv", target="price")), tmp_path / "m.ling"
    )
    found = subprocess.run(
        [sys.executable, "-I", SCRIPT, "m.ling", "data.csv", "price"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == CONFIRMED, found.stderr
    assert "import ling" not in SCRIPT.read_text()
    assert "from ling" not in SCRIPT.read_text()


def test_files_of_an_older_format_say_what_to_do(tmp_path):
    X, y = data()
    ling.save(Ridge().fit(X, y), tmp_path / "m.ling")
    with zipfile.ZipFile(tmp_path / "m.ling") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(entries["model.json"])
    header["format"] = 4
    entries["model.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(tmp_path / "old.ling", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    with pytest.raises(ling.errors.ModelFileError, match="fit the model again"):
        ling.load(tmp_path / "old.ling")


def test_what_cannot_be_read_is_one_line_and_a_code_of_its_own(tmp_path, capsys):
    run_script = runpy.run_path(str(SCRIPT))["run"]
    X, y = data()
    ling.save(Ridge().fit(X, y), tmp_path / "model.ling")
    (tmp_path / "table.csv").write_text("a,b\nred,1\nblue,2\n", encoding="utf-8")
    (tmp_path / "text.ling").write_text("no archive", encoding="utf-8")
    for model, table, target in [
        ("model.ling", "table.csv", "b"),
        ("model.ling", "table.csv", "missing"),
        ("model.ling", "nothing.csv", "b"),
        ("text.ling", "table.csv", "b"),
    ]:
        assert run_script([str(tmp_path / model), str(tmp_path / table), target]) == CANNOT_READ
        error = capsys.readouterr().err
        assert error.startswith("cannot check")
        assert error.count("\n") == 1
    assert run_script([]) == CANNOT_READ
