"""The random problems of `benchmarks.wild`, and how they are measured."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from benchmarks import wild_choosing, wild_report, wild_ridge
from benchmarks.wild_families import FAMILIES
from benchmarks.wild_problems import MAX_BYTES, MAX_LARGE_BYTES, draw_problem, made

SHAPES = (50, 70), (60, 5), (300, 40)


def test_a_seed_draws_the_same_problems_again():
    assert [draw_problem(3, i) for i in range(8)] == [draw_problem(3, i) for i in range(8)]
    assert draw_problem(3, 0) != draw_problem(4, 0)


def test_every_family_comes_up_equally_often():
    counts = Counter(draw_problem(1, i).family for i in range(2 * len(FAMILIES)))
    assert counts == dict.fromkeys(FAMILIES, 2)


def test_sizes_are_within_their_limits():
    for number in range(60):
        drawn = draw_problem(2, number)
        assert 50 <= drawn.n <= 1e6
        assert 5 <= drawn.p <= 1e5
        assert number % 20 == 19 or 8 * drawn.n * min(drawn.p, 40) <= MAX_BYTES
        assert 8 * drawn.n * min(drawn.p, 40) <= MAX_LARGE_BYTES


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_gives_finite_numbers_of_the_shape_asked_for(name, shape):
    X, again = (FAMILIES[name](*shape, np.random.default_rng(5)) for _ in range(2))
    values = X.data if sparse.issparse(X) else X
    assert X.shape == shape
    assert np.isfinite(values).all()
    assert values.tobytes() == (again.data if sparse.issparse(X) else again).tobytes()


@pytest.mark.parametrize("out_of_core", [False, True])
def test_a_problem_is_made_as_drawn(out_of_core):
    drawn = replace(
        draw_problem(0, 0), family="factor model", n=90, p=12, n_targets=10, dtype="float32",
        out_of_core=out_of_core,
    )  # fmt: skip
    with made(drawn, 1) as problem:
        assert problem.X.shape == (90, 12)
        assert problem.X.dtype == problem.y.dtype == np.float32
        assert problem.y.shape == (90, 10)
        assert isinstance(problem.X, np.memmap) == out_of_core
        centered = problem.X - problem.X.mean(axis=0, dtype=np.float64)
        largest = np.linalg.norm(centered, 2) ** 2
        assert problem.alpha == pytest.approx(drawn.relative_alpha * largest, rel=0.2)


SMALL = replace(
    draw_problem(0, 0), family="factor model", n=80, p=6, n_targets=1, dtype="float64",
    relative_alpha=1e-2, out_of_core=False,
)  # fmt: skip


def test_a_record_of_ridge_has_an_error_within_its_bound(monkeypatch):
    monkeypatch.setattr(wild_ridge, "MIN_TIME_LIMIT", 60.0)  # nobody is stopped on a busy machine
    record = {"draw": vars(SMALL), **wild_ridge.measure(SMALL, 1, turns=1)}
    assert record["ling"]["error"] <= record["ling"]["bound"] <= 1e-4
    assert {"ling", "scikit-learn default", "direct"} <= set(record["seconds"])
    text = wild_report.report("ridge", 0, [record])
    assert "0 errors above their bound" in text
    assert wild_report.regret(record) >= 1


def test_a_record_of_a_choice_compares_alphas():
    record = {"draw": vars(SMALL), **wild_choosing.measure(SMALL, 1, turns=1)}
    assert record["ling"]["alpha"] == pytest.approx(record["ling"]["their_alpha"])
    assert "The same alpha in 1 of 1" in wild_report.report("choosing", 0, [record])


def test_a_problem_that_cannot_be_measured_is_counted():
    text = wild_report.report("ridge", 0, [{"draw": vars(SMALL), "failure": "failed"}])
    assert text == "No problem has been measured."
