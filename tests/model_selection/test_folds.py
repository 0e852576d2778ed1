"""Cross-validation is what a loop of exact fits gives, split by split and alpha by alpha."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import KFold

from ling.linalg.cholesky import CholeskyForm
from ling.linalg.singular_values import SingularForm
from ling.model_selection import DirectFolds, ExactLeaveOneOut, IteratedFolds, StochasticGCV
from tests.model_selection.problems import ALPHAS, DATA, SPLITTERS, Data, splits_of

every_data = pytest.mark.parametrize("data", DATA.values(), ids=DATA)
every_splitter = pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=SPLITTERS)


def usable(splits, data):
    """Splits that train on something."""
    weights = data.sample_weights
    return [(train, test) for train, test in splits if np.count_nonzero(weights[train]) > 1]


@every_data
@every_splitter
def test_direct_folds_are_a_loop_of_exact_fits(data, splitter):
    data = data()
    splits = usable(splits_of(splitter, data), data)
    seen = 0
    folds = DirectFolds(data.cv_problem(), data.splits(splits))
    for number, at, held_out in folds.predictions(ALPHAS):
        exact = data.predictions(*splits[number], ALPHAS[at])
        error = np.abs(held_out.predictions - exact).max()
        assert error <= 1e-8 * max(1.0, np.abs(exact).max())
        data.assert_within_bounds(held_out, exact, splits[number][1])
        seen += 1
    assert seen == len(splits) * len(ALPHAS)


# As many splits as samples take long, and are no other case for a certificate.
@pytest.mark.parametrize(
    ("data", "splitter"),
    [
        pytest.param(make, splitter, id=f"{splitter_name}-{name}")
        for splitter_name, splitter in SPLITTERS.items()
        for name, make in DATA.items()
        if splitter_name != "one sample each" or name in ("tall", "wide, two targets", "weighted")
    ],
)
def test_iterated_folds_are_within_their_certificate(data, splitter):
    data = data()
    tol = 1e-7 if np.abs(data.dense).max() < 1e4 else 0.1  # large means take the digits
    splits = usable(splits_of(splitter, data), data)
    folds = IteratedFolds(data.cv_problem(), data.splits(splits), tol)
    folds.refine(ALPHAS)
    assert folds.is_refined(ALPHAS)
    held_out = {(number, at): each for number, at, each in folds.predictions(ALPHAS)}
    for number, (train, test) in enumerate(splits):
        space, system = folds.spaces[number], folds.systems[number]
        x, y = system.x_shift, system.y_shift
        # The certificate is about training predictions.
        samples = folds.cv_problem
        W = space.basis @ space.solution_coordinates(ALPHAS).reshape(space.dimension, -1)
        rows = samples.design.subset(train)
        found = rows.matmat(W) - x @ W + np.tile(y, len(ALPHAS))
        weights = samples.weights[train]
        spread = np.sqrt(weights @ (samples.Y[train] - y) ** 2)
        predictions = np.split(found, len(ALPHAS), axis=1)
        for at in (0, 3, 7):
            P, exact = predictions[at], data.predictions(train, train, ALPHAS[at])
            error = np.sqrt(weights @ (samples.to_data_units(P.copy()) - exact) ** 2)
            limit = tol * spread * samples.standardization.y_scale + 1e-10 * np.abs(exact).max()
            assert (error <= limit).all()
            exact = data.predictions(train, test, ALPHAS[at])
            data.assert_within_bounds(held_out[number, at], exact, test)


@every_data
def test_iterated_folds_predict_like_direct_ones(data):
    data = data()
    splits = usable(splits_of(SPLITTERS["shuffled"], data), data)
    folds = IteratedFolds(data.cv_problem(), data.splits(splits), 1e-9)
    folds.refine(ALPHAS)
    for (_, _, P), (_, _, Q) in zip(
        folds.predictions(ALPHAS),
        DirectFolds(data.cv_problem(), data.splits(splits)).predictions(ALPHAS),
        strict=True,
    ):
        expected = Q.predictions
        assert np.allclose(P.predictions, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@every_data
def test_leave_one_out_is_n_fits(data):
    data = data()
    n = len(data.Y)
    rows = np.arange(n)
    for _, at, held_out in ExactLeaveOneOut(data.cv_problem()).predictions(ALPHAS):
        exact = np.vstack(
            [data.predictions(np.delete(rows, i), rows[i : i + 1], ALPHAS[at]) for i in rows]
        )
        # Where a sample determines its own prediction, 1 - h is all rounding leaves.
        error = np.abs(held_out.predictions - exact).max()
        assert error <= 1e-7 * max(1.0, np.abs(exact).max())
        data.assert_within_bounds(held_out, exact, rows)


@every_data
@pytest.mark.parametrize("splitter", ["shuffled", "time series", "random"])
def test_folds_by_singular_values_are_a_loop_of_exact_fits(data, splitter):
    data = data()
    splits = usable(splits_of(SPLITTERS[splitter], data), data)
    folds = DirectFolds(data.cv_problem(), data.splits(splits))
    assert folds.can_refine
    assert folds.refine(ALPHAS)
    assert not folds.refine(ALPHAS)
    for number, at, held_out in folds.predictions(ALPHAS):
        assert isinstance(folds._fold_fit(number, ALPHAS).form, SingularForm)
        exact = data.predictions(*splits[number], ALPHAS[at])
        error = np.abs(held_out.predictions - exact).max()
        assert error <= 1e-9 * max(1.0, np.abs(exact).max())
        data.assert_within_bounds(held_out, exact, splits[number][1])


@pytest.mark.parametrize(("weakest", "is_needed"), [(1.0, False), (1e-4, True)])
def test_test_rows_are_compared_only_if_errors_are_not_negligible(weakest, is_needed):
    """A weak direction makes the norm of a test row a poor bound on its leverage."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) * [1, 1, 1, weakest]
    data = Data(X @ np.linalg.qr(rng.standard_normal((4, 4)))[0], rng.standard_normal((60, 1)))
    folds = DirectFolds(data.cv_problem(), data.splits(splits_of(KFold(3), data)))
    alphas = np.array([0.01 * weakest**2])
    fold_fit = folds._fold_fit(0, alphas)
    assert (fold_fit.ratios is not None) == is_needed
    bounds, plain = (
        fit.coefs(alphas, slice(0, 1)).bounds for fit in (fold_fit, replace(fold_fit, ratios=None))
    )
    assert (bounds < 0.1 * plain).all() == is_needed
    assert (plain < 1e-11 * fold_fit.test.spread).all() != is_needed


def test_rounding_errors_of_a_form_are_computed_once_for_all_batches():
    """For columns of very different norms, factors of a `CholeskyForm` bound them."""
    rng = np.random.default_rng(0)
    data = Data(rng.standard_normal((60, 4)) * [1e9, 1, 1, 1], rng.standard_normal((60, 1)))
    folds = DirectFolds(data.cv_problem(), data.splits(splits_of(KFold(3), data)))
    fold_fit = folds._fold_fit(0, ALPHAS)
    assert isinstance(fold_fit.form, CholeskyForm)
    errors = fold_fit.errors(ALPHAS)
    whole = fold_fit.coefs(ALPHAS, slice(None)).bounds
    parts = [fold_fit.coefs(ALPHAS, slice(at, at + 3)).bounds for at in range(0, len(ALPHAS), 3)]
    assert fold_fit.errors(ALPHAS) is errors
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@every_data
def test_leave_one_out_by_singular_values_is_n_fits(data):
    data = data()
    loo, rows = ExactLeaveOneOut(data.cv_problem()), np.arange(len(data.Y))
    assert loo.refine(ALPHAS) == loo._formulation.is_primal
    assert not loo.can_refine
    for _, at, held_out in loo.predictions(ALPHAS):
        exact = np.vstack(
            [data.predictions(np.delete(rows, i), rows[i : i + 1], ALPHAS[at]) for i in rows]
        )
        data.assert_within_bounds(held_out, exact, rows)


@pytest.mark.parametrize("kind", ["folds", "leave-one-out"])
@pytest.mark.parametrize("weights", [None, np.arange(30) % 5.0], ids=["equal", "some of 0"])
def test_singular_values_keep_the_digits_that_products_lose(kind, weights):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5)) @ (np.ones((5, 5)) + 1e-7 * rng.standard_normal((5, 5)))
    data = DATA["tall"]().__class__(X, X @ np.ones((5, 1)) + rng.standard_normal((30, 1)), weights)
    alphas = np.array([1e-13])
    name = "shuffled" if kind == "folds" else "one sample each"
    splits = splits_of(SPLITTERS[name], data)
    way = (
        DirectFolds(data.cv_problem(), data.splits(splits))
        if kind == "folds"
        else ExactLeaveOneOut(data.cv_problem())
    )
    rough = [held_out.bounds for _, _, held_out in way.predictions(alphas)]
    assert way.refine(alphas)
    for (number, _, held_out), bound in zip(way.predictions(alphas), rough, strict=True):
        some = [splits[number]] if kind == "folds" else splits
        exact = np.vstack([data.predictions(*split, alphas[0]) for split in some])
        assert held_out.bounds < 1e-2 * bound
        data.assert_within_bounds(held_out, exact, way.test_rows(number))


@every_data
def test_degrees_of_freedom_are_the_trace(data):
    data = data()
    X = data.dense
    w = data.sample_weights
    centred = X - (w @ X / w.sum() if data.fit_intercept else 0.0)
    theta = np.linalg.svd(np.sqrt(w)[:, None] * centred, compute_uv=False) ** 2
    exact = (theta[:, None] / (theta[:, None] + ALPHAS)).sum(axis=0)
    found, error = ExactLeaveOneOut(data.cv_problem()).effective_dof(ALPHAS)
    assert np.allclose(found, exact, rtol=1e-7, atol=1e-7)
    assert not error.any()
    splits = usable(splits_of(SPLITTERS["shuffled"], data), data)
    assert np.allclose(
        DirectFolds(data.cv_problem(), data.splits(splits)).effective_dof(ALPHAS)[0],
        exact,
        rtol=1e-7,
    )


def test_estimated_degrees_of_freedom_are_within_their_standard_errors():
    data = DATA["tall"]()
    exact, _ = ExactLeaveOneOut(data.cv_problem()).effective_dof(ALPHAS)
    off = []
    for seed in range(40):
        loo = StochasticGCV(data.cv_problem(), 1e-6, 24, np.random.default_rng(seed))
        loo.refine(ALPHAS)
        found, error = loo.effective_dof(ALPHAS)
        off.append((found - exact) / np.maximum(error, 1e-12))
    # Of standard normal numbers, but for the tails of so few probes.
    assert np.abs(np.mean(off, axis=0)).max() < 0.6
    assert 0.6 < np.std(off) < 1.5


@pytest.mark.parametrize("name", ["tall", "three targets", "without intercept"])
def test_generalized_cross_validation_divides_residuals_by_the_same_share(name):
    data = DATA[name]()
    gcv = StochasticGCV(data.cv_problem(), 1e-8, 24, np.random.default_rng(0))
    gcv.refine(ALPHAS)
    n, rows = len(data.Y), np.arange(len(data.Y))
    shares = 1 - (gcv.effective_dof(ALPHAS)[0] + data.fit_intercept) / n
    for _, at, held_out in gcv.predictions(ALPHAS):
        residuals = data.Y - data.predictions(rows, rows, ALPHAS[at])
        np.testing.assert_allclose(
            held_out.predictions, data.Y - residuals / shares[at], atol=1e-6 * np.abs(data.Y).max()
        )


def test_folds_by_passes_share_them():
    data = DATA["tall"]()
    passes = []
    for n_splits in (1, 5):
        splits = splits_of(SPLITTERS["shuffled"], data)[:n_splits]
        samples = data.cv_problem()
        before = samples.problem.design.cost.passes
        folds = IteratedFolds(samples, data.splits(splits), 1e-6)
        folds.refine(ALPHAS)
        passes.append(samples.problem.design.cost.passes - before)
        # One more for the right-hand sides. The pass for leverages is over the test rows only.
        n_test = sum(len(test) for _, test in splits)
        assert passes[-1] == pytest.approx(folds.passes + n_test / len(data.Y))
    assert passes[1] <= passes[0] + 2


def test_folds_that_iterate_give_up_when_another_way_is_faster():
    data = DATA["tall"]()
    splits = data.splits(splits_of(SPLITTERS["shuffled"], data))
    folds = IteratedFolds(data.cv_problem(), splits, 1e-12, max_passes=1)
    folds.refine(ALPHAS)
    assert folds.gave_up
    assert folds.passes <= 3


def test_a_fold_that_holds_nearly_all_of_x_leaves_the_others_their_digits():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((60, 4)), rng.standard_normal((4, 1))
    X[:10] *= 1e7
    data = DATA["tall"]().__class__(X, X @ w + rng.standard_normal((60, 1)))
    splits = [(np.arange(10, 60), np.arange(10))]
    alphas = np.array([1e-3])
    ((_, _, held_out),) = DirectFolds(data.cv_problem(), data.splits(splits)).predictions(alphas)
    exact = data.predictions(*splits[0], alphas[0])
    data.assert_within_bounds(held_out, exact, splits[0][1])
    assert np.abs(held_out.predictions - exact).max() <= 1e-8 * np.abs(exact).max()


def test_large_means_of_weighted_targets_do_not_take_the_digits_of_small_alphas():
    """A training set is the difference of two sets, whose targets have to be centred alike."""
    rng = np.random.default_rng(244)
    X = rng.standard_normal((5, 5)) * 10.0 ** rng.uniform(-3, 1, 5)
    Y, weights = 4e5 + rng.standard_normal((5, 1)), 10.0 ** rng.uniform(-2, 1, 5)
    data = DATA["tall"]().__class__(X, Y, weights)
    splits = [(np.array([0, 1, 4]), np.array([2, 3]))]
    alphas = np.array([1e-11])
    ((_, _, held_out),) = DirectFolds(data.cv_problem(), data.splits(splits)).predictions(alphas)
    exact = data.predictions(*splits[0], alphas[0])
    data.assert_within_bounds(held_out, exact, splits[0][1])
    assert np.abs(held_out.predictions - exact).max() <= 1e-6


def test_many_targets_take_the_way_of_turned_rows():
    rng = np.random.default_rng(0)
    data = DATA["tall"]()
    many = data.__class__(data.X, data.X @ rng.standard_normal((6, 30)))
    splits = splits_of(SPLITTERS["consecutive"], many)
    folds = DirectFolds(many.cv_problem(), many.splits(splits))
    for number, at, held_out in folds.predictions(ALPHAS):
        exact = many.predictions(*splits[number], ALPHAS[at])
        assert np.abs(held_out.predictions - exact).max() <= 1e-8 * np.abs(exact).max()
        many.assert_within_bounds(held_out, exact, splits[number][1])


@pytest.mark.parametrize("size", [1e4, 1e7, 1e9])
@pytest.mark.parametrize("kind", ["folds", "leave-one-out"])
def test_one_large_column_does_not_take_the_digits_of_the_others(size, kind):
    data = DATA["tall"]()
    X = data.X - data.X.mean(axis=0)
    X[:, 0] *= size
    data = data.__class__(X, data.Y)
    alphas = np.array([1e-2, 1.0, 1e2])
    splits = splits_of(SPLITTERS["shuffled" if kind == "folds" else "one sample each"], data)
    way = DirectFolds(data.cv_problem(), data.splits(splits))
    if kind == "leave-one-out":
        way = ExactLeaveOneOut(data.cv_problem())
    for number, at, held_out in way.predictions(alphas):
        some = [splits[number]] if kind == "folds" else splits
        exact = np.vstack([data.predictions(*split, alphas[at]) for split in some])
        assert np.abs(held_out.predictions - exact).max() <= 1e-6 * np.abs(exact).max()
        assert held_out.bounds <= 1e-4 * np.linalg.norm(exact)


@pytest.mark.parametrize("data", ["tall", "wide"])
def test_rows_that_are_trained_on_twice_count_twice(data):
    data = DATA[data]()
    rng = np.random.default_rng(0)
    n = len(data.Y)
    splits = [(rng.integers(0, n, n), np.arange(n)) for _ in range(3)]
    iterated = IteratedFolds(data.cv_problem(), data.splits(splits), 1e-9)
    iterated.refine(ALPHAS)
    for way in (DirectFolds(data.cv_problem(), data.splits(splits)), iterated):
        for number, at, held_out in way.predictions(ALPHAS):
            exact = data.predictions(*splits[number], ALPHAS[at])
            assert np.allclose(held_out.predictions, exact, atol=1e-6 * np.abs(exact).max())
            data.assert_within_bounds(held_out, exact, splits[number][1])


@pytest.mark.parametrize("share", [1e-9, 1e-12])
def test_wide_folds_with_means_that_drift_keep_their_digits(share):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 400)) + np.linspace(0, 3, 60)[:, None]
    data = DATA["wide"]().__class__(X, rng.standard_normal((60, 1)))
    alphas = np.array([share * ((X - X.mean(axis=0)) ** 2).sum()])
    splits = splits_of(SPLITTERS["consecutive"], data)
    folds = DirectFolds(data.cv_problem(), data.splits(splits))
    for number, _, held_out in folds.predictions(alphas):
        exact = data.predictions(*splits[number], alphas[0])
        assert np.abs(held_out.predictions - exact).max() <= 1e-9 * np.abs(exact).max()
        data.assert_within_bounds(held_out, exact, splits[number][1])


def test_a_target_that_is_constant_in_a_training_set_is_certified():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 30)), np.full((40, 1), -0.1)
    Y[:10] = 0.7
    data = DATA["tall"]().__class__(X, Y)
    folds = IteratedFolds(
        data.cv_problem(), data.splits([(np.arange(10, 40), np.arange(10))]), 1e-6
    )
    folds.refine(ALPHAS)
    assert folds.is_refined(ALPHAS)
    for _, _, held_out in folds.predictions(ALPHAS):
        assert np.allclose(held_out.predictions, -0.1)
        assert held_out.bounds <= 1e-9


def test_the_same_seed_gives_the_same_bits():
    data = DATA["tall"]()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2500, 20)) @ np.diag([30.0, 20, *np.ones(18)])
    data = data.__class__(X, X @ np.ones((20, 1)) + rng.standard_normal((2500, 1)))
    splits = splits_of(SPLITTERS["consecutive"], data)
    found = []
    for _ in range(2):
        folds = IteratedFolds(
            data.cv_problem(), data.splits(splits), 1e-6, rng=np.random.default_rng(0)
        )
        folds.refine(ALPHAS)
        held_out = [each for _, _, each in folds.predictions(ALPHAS)]
        found.append(np.concatenate([each.predictions for each in held_out]))
    assert np.array_equal(*found)
