"""Path and spectrum of a report: right, from one factorisation, and no longer than the fit."""

from dataclasses import fields, replace

import numpy as np
import pytest

from ling import Ridge, RidgeCV
from ling.estimators.out_of_sample import rebuild_problem
from ling.report import path_and_spectrum
from ling.report.path_and_spectrum import (
    MIN_ALPHA_RATIO,
    OmittedError,
    compute_path,
    compute_spectrum,
    tridiagonal_form,
)
from ling.results import Cost
from tests.extras import needs
from tests.report.pages import report


@pytest.fixture(params=[(60, 7), (20, 45)], ids=["tall", "wide"])
def data(request, rng):
    X = rng.standard_normal(request.param) * 3 + 1
    return X, np.c_[X[:, 0] + rng.standard_normal(len(X)), X[:, 1]]


def test_coefficients_are_those_of_fits(data):
    X, Y = data
    again = rebuild_problem(Ridge(alpha=2.0).fit(X, Y), X, Y)
    found = compute_path(again, [1], tridiagonal_form(again))
    assert 2.0 in found.alphas
    assert len(found.alphas) > 50
    for at in (0, 30, -1):
        fit = Ridge(alpha=found.alphas[at], store_covariance=True).fit(X, Y[:, 1])
        np.testing.assert_allclose(found.coef[at, :, 0], fit.coef_ * X.std(axis=0), atol=1e-8)
        np.testing.assert_allclose(found.effective_dof[at], fit.edf_, rtol=1e-8)


def test_eigenvalues_are_those_of_the_columns_around_their_means(data):
    X, Y = data
    again = rebuild_problem(Ridge().fit(X, Y), X, Y)
    sizes = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    expected = sizes[sizes > 1e-9 * sizes[0]] ** 2
    np.testing.assert_allclose(
        compute_spectrum(again, tridiagonal_form(again)).eigenvalues, expected
    )


def test_without_a_factorisation_the_path_is_shorter(data):
    X, Y = data
    again = rebuild_problem(Ridge(alpha=2.0).fit(X, Y), X, Y)
    with pytest.raises(OmittedError, match=r"Factoring .* too long, or too much memory"):
        tridiagonal_form(again, max_exact_size=6)
    whole, found = (compute_path(again, [1], form) for form in (tridiagonal_form(again), "Why."))
    assert len(found.alphas) < len(whole.alphas)
    assert found.alphas.min() >= 2.0 * MIN_ALPHA_RATIO
    for at, alpha in enumerate(found.alphas):
        fit = Ridge(alpha=alpha).fit(X, Y[:, 1])
        np.testing.assert_allclose(found.coef[at, :, 0], fit.coef_ * X.std(axis=0), atol=1e-6)
    with pytest.raises(OmittedError, match="Why"):
        compute_spectrum(again, "Why.")


@pytest.mark.parametrize("cv", [None, 3])
def test_one_factorisation_does_for_both(data, cv, tmp_path, monkeypatch):
    needs("matplotlib")
    X, Y = data
    made = []
    monkeypatch.setattr(
        path_and_spectrum,
        "tridiagonalize",
        lambda A, make=path_and_spectrum.tridiagonalize: made.append(A) or make(A),
    )
    page = report(tmp_path, RidgeCV(cv=cv).fit(X, Y[:, 0]), X, Y[:, 0], drawn=False)
    assert {"Coefficients", "Eigenvalues"} <= {alt.split(" ")[0] for alt in page.pictures}
    # Leave-one-out leaves its form of X'X; that of X X' is another.
    assert len(made) == (0 if cv is None and X.shape[0] > X.shape[1] else 1)


def on_slow_machine(again, factor):
    """The same after a fit that took no time, on a machine that is `factor` times as slow."""
    machine = again.plan.machine
    speeds = {f.name: getattr(machine, f.name) / factor for f in fields(machine)}
    machine = replace(machine, **{**speeds, "threads": machine.threads})
    again.model.report_ = replace(again.model.report_, cost=Cost())
    return replace(again, plan=replace(again.plan, machine=machine))


def test_what_would_take_longer_than_the_fit_is_left_out(data):
    X, Y = data
    again = on_slow_machine(rebuild_problem(Ridge().fit(X, Y), X, Y), 1e12)
    with pytest.raises(OmittedError, match=r"Factoring .* would take about .* the fit takes about"):
        tridiagonal_form(again)
    with pytest.raises(OmittedError, match=r"^It would take .*, and the fit takes about"):
        compute_path(again, [0], "Why.")


def test_there_are_fewer_alphas_where_all_would_take_too_long(data):
    X, Y = data
    again = rebuild_problem(Ridge().fit(X, Y), X, Y)
    form = tridiagonal_form(again)
    one = path_and_spectrum._seconds_per_alpha(again, again.select_targets([0]))
    possible = path_and_spectrum.MIN_ALLOWED_SECONDS / one  # on this machine
    found = compute_path(on_slow_machine(again, possible / 20.5), [0], form)
    assert 18 <= len(found.alphas) <= 22
    with pytest.raises(OmittedError, match="longer than the fit"):
        compute_path(on_slow_machine(again, possible / 5.5), [0], form)


def test_a_longer_fit_has_a_longer_patience(data):
    X, Y = data
    again = rebuild_problem(Ridge().fit(X, Y), X, Y)
    assert path_and_spectrum.allowed_seconds(again) == path_and_spectrum.MIN_ALLOWED_SECONDS
    busy = replace(again.model.report_, seconds={"solve": 50.0})
    again.model.report_ = busy  # a slow clock changes nothing
    assert path_and_spectrum.allowed_seconds(again) == path_and_spectrum.MIN_ALLOWED_SECONDS
    again.model.report_ = replace(busy, cost=Cost(flops=50 * again.plan.machine.gemm_rate))
    assert path_and_spectrum.allowed_seconds(again) == pytest.approx(50.0)
