"""partial_fit: the fit to all rows, whatever the batches, and after some of them are gone again."""

import copy
import pickle
import warnings
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from ling import Ridge
from ling.errors import NonFiniteError, OptionError, ShapeError
from ling.results import Status
from tests.raising import raises
from tests.reference import minimum_norm, prediction_error

CONTAINERS = {"dense": np.asarray, "sparse": sparse.csr_array, "fortran": np.asfortranarray}
every_container = pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
every_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
STATE = (
    "coef_",
    "intercept_",
    "n_iter_",
    "solver_",
    "report_",
    "n_samples_seen_",
    "_sufficient_statistics",
)


def made(rng, n=60, p=5, t=2, offset=0.0):
    X = rng.standard_normal((n, p)) + offset
    Y = X @ rng.standard_normal((p, t)) + rng.standard_normal((n, t)) + 3
    return X, Y, rng.uniform(0, 2, n) * (rng.random(n) < 0.9)


def cut(n, *sizes):
    """Slices of that many rows, and one of what is left."""
    ends = [0, *np.cumsum(sizes), n]
    return [slice(a, b) for a, b in pairwise(ends)]


def in_batches(model, parts, X, Y, weights=None, container=np.asarray, remove=False):
    for rows in parts:
        own = None if weights is None else weights[rows]
        model.partial_fit(container(X[rows]), Y[rows], own, remove=remove)
    return model


def assert_same_fit(model, other, rtol=1e-9):
    for name in ("coef_", "intercept_"):
        ours, theirs = getattr(model, name), getattr(other, name)
        assert np.shape(ours) == np.shape(theirs)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


def whole(X, Y, weights=None, **options):
    return Ridge(**{"solver": "direct", "tol": 1e-9, **options}).fit(X, Y, weights)


# The same as fit.


@every_container
@every_intercept
@pytest.mark.parametrize("alpha", [1e-6, 1.0, [0.1, 10.0]])
def test_it_is_the_fit_to_all_rows(rng, container, fit_intercept, alpha):
    X, Y, weights = made(rng, offset=1.0)
    options = {"alpha": alpha, "fit_intercept": fit_intercept}
    weights[[0, 1, -1]] = 0.5  # a batch without any weight is refused, as it is by fit
    for parts in (cut(60), cut(60, 1, 1, 3, 20), cut(60, 59), cut(60, 1, 58)):
        model = in_batches(Ridge(**options), parts, X, Y, weights, container)
        assert model.report_.status is Status.CERTIFIED
        assert model.n_samples_seen_ == np.count_nonzero(weights)
        assert_same_fit(model, whole(X, Y, weights, **options))


def test_after_every_batch_it_is_the_fit_to_what_was_added(rng):
    X, Y, _ = made(rng, p=8, t=1)  # fewer rows than features at first
    y, model = Y[:, 0], Ridge(alpha=0.1)
    for stop in (1, 2, 5, 9, 30, 60):
        seen = getattr(model, "n_samples_seen_", 0)
        model.partial_fit(X[seen:stop], y[seen:stop])
        assert model.report_.status is Status.CERTIFIED
        assert_same_fit(model, whole(X[:stop], y[:stop], alpha=0.1))
        assert np.allclose(model.predict(X), whole(X[:stop], y[:stop], alpha=0.1).predict(X))


@every_container
@every_intercept
def test_what_is_removed_is_gone(rng, container, fit_intercept):
    X, Y, weights = made(rng)
    a, b, c = parts = cut(60, 20, 25)
    model = in_batches(Ridge(fit_intercept=fit_intercept), parts, X, Y, weights, container)
    model.partial_fit(container(X[b]), Y[b], weights[b], remove=True)
    left = np.r_[a, c]
    assert_same_fit(model, whole(X[left], Y[left], weights[left], fit_intercept=fit_intercept))
    assert model.n_samples_seen_ == np.count_nonzero(weights[left])
    assert model.report_.status is Status.CERTIFIED


@given(
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=6),
    removed=st.sets(st.integers(0, 5)),
    p=st.integers(1, 6),
    t=st.integers(1, 3),
    weighted=st.booleans(),
    fit_intercept=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_batches_in_any_order(sizes, removed, p, t, weighted, fit_intercept, seed):
    rng = np.random.default_rng(seed)
    X, Y, _ = made(rng, sum(sizes), p, t)
    weights = rng.uniform(0.1, 2, len(X)) if weighted else None
    parts = cut(len(X), *sizes[:-1])
    gone = [i for i in range(len(parts)) if i in removed][: len(parts) - 1]
    order = rng.permutation(len(parts))
    model = in_batches(Ridge(fit_intercept=fit_intercept), [parts[i] for i in order], X, Y, weights)
    in_batches(model, [parts[i] for i in gone], X, Y, weights, remove=True)
    left = np.concatenate([np.arange(len(X))[parts[i]] for i in order if i not in gone])
    own = None if weights is None else weights[left]
    assert_same_fit(model, whole(X[left], Y[left], own, fit_intercept=fit_intercept))
    assert model.report_.status is Status.CERTIFIED


def test_float32_gives_float32(rng):
    X, Y, weights = made(rng, offset=1.0)
    X = X.astype(np.float32)
    model = in_batches(Ridge(), cut(60, 7, 30), X, Y, weights)
    assert model.coef_.dtype == np.float32
    assert_same_fit(model, whole(X, Y, weights, tol=1e-4), 1e-6)
    # It is the fit in float64, rounded at the end.
    exact = whole(X.astype(np.float64), Y, weights)
    assert np.array_equal(model.coef_, exact.coef_.astype(np.float32))


def test_a_tol_below_float32_is_said_to_be(rng):
    X, Y, _ = made(rng)
    model = Ridge(tol=1e-12).partial_fit(X.astype(np.float32), Y)
    assert model.report_.status is Status.ROUNDED
    assert any("in float32 because X is" in note for note in model.report_.notes)


@every_intercept
@pytest.mark.parametrize("rank", [5, 3])
def test_alpha_0_gives_the_least_norm(rng, fit_intercept, rank):
    X, Y, _ = made(rng, t=1)
    X[:, rank:] = X[:, : 5 - rank]
    model = in_batches(Ridge(alpha=0, fit_intercept=fit_intercept), cut(60, 3, 30), X, Y)
    assert model.report_.status is Status.UNCERTIFIED
    centre = X.mean(axis=0) * fit_intercept
    exact = minimum_norm(X - centre, Y[:, 0] - Y[:, 0].mean() * fit_intercept)
    np.testing.assert_allclose(model.coef_, exact, rtol=1e-9)


def test_alpha_0_with_columns_of_all_sizes(rng):
    X, Y, _ = made(rng, t=1)
    sizes = 10.0 ** np.arange(-6, 9, 3)
    model = in_batches(Ridge(alpha=0), cut(60, 3, 30), X * sizes, Y)
    exact = minimum_norm(X - X.mean(axis=0), Y[:, 0] - Y[:, 0].mean())
    np.testing.assert_allclose(model.coef_ * sizes, exact, rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 10.0])
def test_coefficients_can_be_kept_at_0_or_above(rng, alpha):
    X, Y, weights = made(rng)
    model = in_batches(Ridge(alpha, positive=True), cut(60, 3, 30), X, Y, weights)
    assert (model.coef_ >= 0).all()
    assert (model.coef_ == 0).any()
    assert model.report_.status is (Status.CERTIFIED if alpha else Status.UNCERTIFIED)
    assert_same_fit(model, whole(X, Y, weights, alpha=alpha, positive=True, solver="auto"), 1e-7)


def test_many_targets_with_an_alpha_each(rng):
    X, Y, weights = made(rng, t=10)
    alphas = np.geomspace(1e-3, 1e3, 10)
    model = in_batches(Ridge(alphas), cut(60, 20), X, Y, weights)
    assert_same_fit(model, whole(X, Y, weights, alpha=alphas))
    in_batches(model, cut(60, 20)[:1], X, Y, weights, remove=True)
    assert_same_fit(model, whole(X[20:], Y[20:], weights[20:], alpha=alphas))


def test_settings_are_used_as_they_are_then(rng):
    X, Y, _ = made(rng)
    model = Ridge(alpha=1.0).partial_fit(X[:40], Y[:40])
    model.set_params(alpha=50.0, solver="two_stage", tol=1e-6).partial_fit(X[40:], Y[40:])
    assert_same_fit(model, whole(X, Y, alpha=50.0))
    assert model.report_.certificate.tol == 1e-6


def test_statistics_are_those_of_fit(rng):
    X, Y, weights = made(rng)
    model = in_batches(Ridge(store_covariance=True), cut(60, 20), X, Y, weights)
    other = whole(X, Y, weights, store_covariance=True)
    for ours, theirs in (
        (model.edf_, other.edf_),
        (model.noise_variance_, other.noise_variance_),
        (model.coef_std_errors(), other.coef_std_errors()),
        (model.predict(X, return_std=True)[1], other.predict(X, return_std=True)[1]),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-60, 1e-13, 1e13, 1e60, 1e100])
def test_units_do_not_matter(rng, size):
    X, Y, _ = made(rng)
    model = in_batches(Ridge(alpha=size**2), cut(60, 1, 30), X * size, Y / size)
    other = in_batches(Ridge(), cut(60, 1, 30), X, Y)
    np.testing.assert_allclose(model.coef_ * size**2, other.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_ * size, other.intercept_, rtol=1e-9)
    assert model.report_.status is Status.CERTIFIED


def test_a_constant_y_gives_coefficients_of_0(rng):
    X, _, _ = made(rng)
    model = in_batches(Ridge(), cut(60, 1, 7, 30), X, np.full((60, 2), [0.1, 3e7]))
    assert not model.coef_.any()
    np.testing.assert_allclose(model.intercept_, [0.1, 3e7])
    assert model.report_.status is Status.CERTIFIED


@pytest.mark.parametrize("n_dim", [1, 2])
def test_one_row_is_enough(rng, n_dim):
    X, Y, _ = made(rng, t=1)
    y = Y[:, 0] if n_dim == 1 else Y
    model = Ridge().partial_fit(X[:1], y[:1])
    assert_same_fit(model, Ridge().fit(X[:1], y[:1]))


# The certificate.


@contextmanager
def maybe_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def assert_no_lie(model, X, y, weights=None):
    bound = model.report_.certificate.bound
    error = prediction_error(
        X, y, model.alpha, model.coef_, weights, model.fit_intercept, digits=100
    )
    assert error <= bound
    assert (model.report_.status is Status.CERTIFIED) == (bound <= model.tol)


@every_intercept
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("alpha", [1e-8, 1.0])
def test_the_certificate_covers_large_means(rng, offset, alpha, fit_intercept):
    X, Y, weights = made(rng, 30, 3, 1, offset)
    model = Ridge(alpha, fit_intercept=fit_intercept)
    with maybe_a_warning():
        in_batches(model, cut(30, 1, 9, 5), X, Y[:, 0], weights)
    assert_no_lie(model, X, Y[:, 0], weights)
    if fit_intercept:  # large means are no difficulty then
        assert model.report_.certificate.bound < 1e-7


@pytest.mark.parametrize("size", [1.0, 1e4, 1e8, 1e12])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_what_removal_leaves_is_not_overestimated(rng, size, container):
    X, Y, _ = made(rng, 40, 3, 1)
    y = Y[:, 0].copy()
    X[4:] *= size
    y[4:] *= size
    a, b = cut(40, 4)
    model = in_batches(Ridge(1e-3), (a, b), X, y, container=container)
    before = model.report_.certificate.bound
    with maybe_a_warning():
        in_batches(model, [b], X, y, container=container, remove=True)
    assert model.report_.certificate.bound > before
    assert_no_lie(model, X[a], y[a])


def test_cancellation_is_said_to_be(rng):
    X, Y, _ = made(rng, 40, 3, 1)
    X[4:] *= 1e8
    model = in_batches(Ridge(), cut(40, 4), X, Y)
    with pytest.warns(ConvergenceWarning, match="not within tol") as caught:
        model.partial_fit(X[4:], Y[4:], remove=True)
    assert caught[0].filename == __file__
    assert model.report_.status is Status.NOT_REACHED
    assert "fit again to what is left" in str(model.report_)
    with raises(OptionError, "store_covariance", change=("store_covariance", True)):
        model.coef_std_errors()


def test_a_window_can_slide_for_long(rng):
    X, Y, _ = made(rng, 600, 3, 1, offset=1e3)
    y, window = Y[:, 0], 20
    model = Ridge(alpha=0.1).partial_fit(X[:window], y[:window])
    for start in range(580):
        now, then = slice(start + window, start + window + 1), slice(start, start + 1)
        model.partial_fit(X[now], y[now]).partial_fit(X[then], y[then], remove=True)
    assert model.report_.status is Status.CERTIFIED
    assert_same_fit(model, whole(X[-window:], y[-window:], alpha=0.1))
    assert_no_lie(model, X[-window:], y[-window:])


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    scales=st.lists(st.sampled_from([1.0, 1.0, 1e-5, 1e5]), min_size=4, max_size=4),
    alpha=st.sampled_from([1e-10, 1e-3, 1.0, 1e3]),
    offset=st.sampled_from([0.0, 1e3]),
    same=st.booleans(),
    fit_intercept=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_certificate_never_lies(sizes, scales, alpha, offset, same, fit_intercept, seed):
    rng = np.random.default_rng(seed)
    X, Y, _ = made(rng, sum(sizes), 3, 1, offset)
    if same:
        X[:, 2] = X[:, 0]
    parts, weights = cut(len(X), *sizes[:-1]), rng.uniform(0.1, 2, len(X))
    for rows, scale in zip(parts, scales, strict=False):
        X[rows] *= scale
    gone = [i for i in range(1, len(parts)) if rng.random() < 0.5]
    model = Ridge(alpha, fit_intercept=fit_intercept)
    with maybe_a_warning():
        in_batches(model, parts, X, Y[:, 0], weights)
        in_batches(model, [parts[i] for i in gone], X, Y[:, 0], weights, remove=True)
    left = np.concatenate([np.arange(len(X))[s] for i, s in enumerate(parts) if i not in gone])
    assert_no_lie(model, X[left], Y[left, 0], weights[left])


# The report, and what is kept.


def test_the_report_tells(rng):
    X, Y, _ = made(rng)
    model = in_batches(Ridge(), cut(60, 45), X, Y)
    report = model.report_
    assert (report.engine, model.solver_, model.n_iter_) == ("direct", "direct", None)
    assert report.shape == (60, 5)
    assert report.cost.passes == 2
    assert report.cost.flops >= 15 * 5 * 6
    assert "60 x 5 solved by direct (from sufficient statistics)" in str(report)
    assert "The passes were over 15 rows" in str(report)


def test_it_survives_pickling_and_copying_but_not_cloning(rng):
    X, Y, _ = made(rng)
    model = Ridge().partial_fit(X[:30], Y[:30])
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_same_fit(other.partial_fit(X[30:], Y[30:]), whole(X, Y))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_fit_starts_again(rng):
    X, Y, _ = made(rng)
    model = Ridge().partial_fit(X, Y).fit(X[:, :3], Y)
    assert not hasattr(model, "n_samples_seen_")
    with raises(OptionError, "remove", mentions="nothing was added"):
        model.partial_fit(X[:, :3], Y, remove=True)
    model.partial_fit(X[:20], Y[:20])
    assert_same_fit(model, whole(X[:20], Y[:20]))


# What is refused, without a trace.


def test_nothing_can_be_removed_from_nothing(rng):
    X, Y, _ = made(rng)
    with raises(OptionError, "remove", mentions="nothing was added"):
        Ridge().partial_fit(X, Y, remove=True)


FAULTS = {
    "more rows than there are": (
        lambda X, Y: (X, Y),
        {"remove": True},
        lambda: raises(OptionError, "remove", mentions="60 samples, but only"),
    ),
    "all rows": (
        lambda X, Y: (X[:40], Y[:40]),
        {"remove": True},
        lambda: raises(OptionError, "remove", mentions="all 40 samples"),
    ),
    "other rows": (
        lambda X, Y: (9 * X[:4], Y[:4]),
        {"remove": True},
        lambda: raises(OptionError, "remove", mentions="column 0 of X"),
    ),
    "targets": (
        lambda X, Y: (X, Y[:, :1]),
        {},
        lambda: raises(ShapeError, "y", mentions="1 targets in this batch and had 2"),
    ),
    "features": (
        lambda X, Y: (X[:, 1:], Y),
        {},
        lambda: pytest.raises(ValueError, match="4 features, but Ridge is expecting"),
    ),
    "rows of y": (
        lambda X, Y: (X, Y[1:]),
        {},
        lambda: raises(ShapeError, "y", mentions="y has 59 rows, and X has 60"),
    ),
    "not a number": (
        lambda X, Y: (X * np.nan, Y),
        {},
        lambda: raises(NonFiniteError, "X", row=0, column=0),
    ),
    "no weight": (
        lambda X, Y: (X, Y, 0 * Y[:, 0]),
        {},
        lambda: raises(OptionError, "sample_weight"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_refusal_changes_nothing(rng, fault):
    X, Y, _ = made(rng)
    change, options, raises_error = FAULTS[fault]
    model = Ridge().partial_fit(X[:40], Y[:40])
    before = {name: getattr(model, name) for name in STATE}
    with raises_error():
        model.partial_fit(*change(X, Y), **options)
    assert all(getattr(model, name) is value for name, value in before.items())
    assert_same_fit(model.partial_fit(X[40:], Y[40:]), whole(X, Y))


def test_an_interrupted_call_changes_nothing(rng, monkeypatch):
    X, Y, _ = made(rng)
    model = Ridge().fit(X, Y)
    before = dict(vars(model))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("ling.estimators.partial_fit._update_statistics", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[:, :3], Y)
    assert vars(model) == before


@pytest.mark.parametrize(
    ("options", "kind", "argument", "fields"),
    [
        ({"memory_budget": 1000}, OptionError, "memory_budget", {"mentions": "1 kB"}),
        ({"alpha": [1.0, 2.0, 3.0]}, ShapeError, "alpha", {"mentions": "3 != 2"}),
        ({"alpha": 0.0, "store_covariance": True}, OptionError, "store_covariance", {}),
        ({"positive": True, "solver": "two_stage"}, OptionError, "solver", {}),
        ({"fit_intercept": False}, OptionError, "fit_intercept",
         {"change": ("fit_intercept", True)}),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(rng, options, kind, argument, fields):
    X, Y, _ = made(rng)
    model = Ridge().partial_fit(X, Y)
    with raises(kind, argument, **fields):
        model.set_params(**options).partial_fit(X, Y)
