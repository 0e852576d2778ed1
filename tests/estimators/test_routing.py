"""groups, sample_weight and other metadata reach the splitter and the scorer as in scikit-learn."""

import numpy as np
import pytest
import sklearn
from sklearn import linear_model
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import accuracy_score, get_scorer, make_scorer, r2_score
from sklearn.model_selection import GroupKFold, KFold, cross_validate

import ling
from ling.errors import OptionError
from tests.raising import raises
from tests.versions import SKLEARN, sklearn_from

ALPHAS = (0.1, 1.0, 10.0, 100.0)
SCORING = {"RidgeCV": "r2", "RidgeClassifierCV": "accuracy"}
METRIC = {"RidgeCV": r2_score, "RidgeClassifierCV": accuracy_score}
every_name = pytest.mark.parametrize("name", SCORING)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def data(name, rng):
    """X, y (three classes for a classifier), weights and groups."""
    X = rng.standard_normal((60, 5))
    y = X @ rng.standard_normal(5) + 2 * rng.standard_normal(60)
    if name == "RidgeClassifierCV":
        y = np.digitize(y, [-1.0, 1.0])
    return X, y, rng.exponential(size=60), rng.permutation(np.arange(60) % 10)


def both(name, **options):
    """Ours and theirs."""
    return [getattr(module, name)(ALPHAS, **options) for module in (ling, linear_model)]


def assert_same_choice(ours, theirs):
    assert ours.alpha_ == theirs.alpha_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=1e-6)


# Without metadata routing.


@every_name
def test_groups_reach_the_splitter_without_routing(name, data):
    X, y, _, groups = data
    splits = list(GroupKFold(5).split(X, y, groups))
    model, _ = both(name, cv=GroupKFold(5))
    expected, _ = both(name, cv=splits)
    found = model.fit(X, y, groups=groups).cv_scores_
    assert np.array_equal(found.split_scores, expected.fit(X, y).cv_scores_.split_scores)


@every_name
def test_only_groups_can_be_passed_without_routing(name, data):
    X, y, _, groups = data
    with raises(OptionError, "colour", mentions="enable_metadata_routing=True"):
        both(name, cv=3)[0].fit(X, y, colour=groups, groups=groups)


@every_name
@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("by_name", [False, True])
def test_scores_are_weighted_without_routing(name, data, cv, by_name):
    X, y, weights, _ = data
    models = both(name, cv=cv, scoring=SCORING[name] if by_name else None)
    assert_same_choice(*[model.fit(X, y, sample_weight=weights) for model in models])


def test_a_weighted_score_is_that_of_repeated_samples(rng):
    X = rng.standard_normal((40, 5))
    y = X @ rng.standard_normal(5) + rng.standard_normal(40)
    counts = rng.integers(0, 4, 40)
    rows = np.repeat(np.arange(40), counts)
    splits = list(KFold(4).split(X))
    repeated = [
        [np.flatnonzero(np.isin(rows, part)) for part in (train, test)] for train, test in splits
    ]
    weighted = ling.RidgeCV(ALPHAS, cv=splits).fit(X, y, sample_weight=counts)
    expected = ling.RidgeCV(ALPHAS, cv=repeated).fit(X[rows], y[rows])
    assert np.allclose(weighted.cv_scores_.split_scores, expected.cv_scores_.split_scores)


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("scoring", ["accuracy", None])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_classes_are_those_of_their_samples_in_scores_too(rng, cv, scoring, weighted):
    X = rng.standard_normal((60, 5))
    y = rng.integers(0, 3, 60)
    weights = rng.exponential(size=60) if weighted else None
    models = both("RidgeClassifierCV", cv=cv, scoring=scoring, class_weight={0: 1, 1: 5, 2: 0.5})
    assert_same_choice(*[model.fit(X, y, sample_weight=weights) for model in models])


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("scoring", ["neg_max_error", lambda model, X, y: model.predict(X)[0]])
def test_a_score_that_cannot_be_weighted_is_said(rng, cv, scoring):
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    model = ling.RidgeCV(ALPHAS, cv=cv, scoring=scoring)
    with pytest.warns(UserWarning, match="does not take sample_weight") as caught:
        model.fit(X, y, sample_weight=np.ones(30))
    assert caught[0].filename == __file__
    plain = ling.RidgeCV(ALPHAS, cv=cv, scoring=scoring).fit(X, y)
    assert np.allclose(model.cv_scores_.mean_score, plain.cv_scores_.mean_score)


@every_name
def test_samples_of_weight_0_are_none_to_the_score(name, data):
    X, y, _, _ = data
    counted = np.arange(60) % 10 > 0  # one of the groups that standard errors come from is empty
    weighted, plain = both(name, scoring=SCORING[name])[0], both(name, scoring=SCORING[name])[0]
    weighted.fit(X, y, sample_weight=counted)
    plain.fit(X[counted], y[counted])
    assert np.allclose(weighted.cv_scores_.mean_score, plain.cv_scores_.mean_score)
    found, known = weighted.cv_scores_.std_error, plain.cv_scores_.std_error
    if name == "RidgeClassifierCV":  # the spread of samples tells
        assert np.allclose(found, known)
    else:
        assert np.isnan(found).all()


def test_a_fold_without_weight_is_refused(rng):
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    with raises(OptionError, "cv", mentions="split 1 of cv has no test samples"):
        ling.RidgeCV(ALPHAS, cv=3).fit(X, y, sample_weight=np.repeat([1.0, 0.0, 1.0], 10))


# With metadata routing.


@every_name
@pytest.mark.parametrize("cv", [None, 3, GroupKFold(5)], ids=["leave-one-out", "3", "groups"])
@pytest.mark.parametrize("request_weights", [None, True, False])
def test_routed_groups_and_weights_give_scikit_learns_choice(
    name, data, routing, cv, request_weights
):
    X, y, weights, groups = data
    scoring = None
    if request_weights is not None:
        scoring = get_scorer(SCORING[name]).set_score_request(sample_weight=request_weights)
    metadata = {"sample_weight": weights}
    if isinstance(cv, GroupKFold):
        metadata["groups"] = groups
    models = both(name, cv=cv, scoring=scoring)
    assert_same_choice(*[model.fit(X, y, **metadata) for model in models])


@every_name
def test_the_splitter_gets_all_that_it_asks_for(name, data, routing):
    seen = []

    class Coloured(KFold):
        """Folds that want to know the colours of the samples."""

        def split(self, X, y=None, groups=None, colour=None):
            seen.append(colour)
            return super().split(X, y, groups)

    X, y, _, groups = data
    both(name, cv=Coloured(3).set_split_request(colour=True))[0].fit(X, y, colour=groups)
    assert seen == [pytest.approx(groups)]


@every_name
@pytest.mark.parametrize("cv", [None, 3])
def test_the_scorer_gets_its_samples_part_of_what_it_asks_for(name, data, routing, cv):
    X, y, _, _ = data
    colours = np.column_stack([y, np.arange(60)])
    seen = []

    def metric(y_true, y_pred, colour):
        assert np.array_equal(colour[:, 0], y_true)
        seen.append(colour[:, 1])
        return METRIC[name](y_true, y_pred)

    scoring = make_scorer(metric).set_score_request(colour=True)
    both(name, cv=cv, scoring=scoring)[0].fit(X, y, colour=colours)
    times = np.bincount(np.concatenate(seen).astype(int), minlength=60)
    # Once for every alpha, and once more in a group, of which leave-one-out makes standard errors.
    assert (times == len(ALPHAS) * (1 if cv else 2)).all()


@every_name
@sklearn_from(9, "scorers say from 1.9 on which metadata they take")
def test_what_the_scorer_did_not_speak_of_is_refused(name, data, routing):
    X, y, weights, _ = data
    for model in both(name, scoring=SCORING[name]):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            model.fit(X, y, sample_weight=weights)


@every_name
@pytest.mark.parametrize("cv", [None, 3, GroupKFold(3)], ids=["leave-one-out", "3", "groups"])
@pytest.mark.parametrize(
    "weighted",
    [
        pytest.param(None, marks=sklearn_from(8, "1.7 passes no weights to the default scorer")),
        True,
        False,
    ],
)
def test_it_consumes_what_scikit_learns_does(name, routing, cv, weighted):
    scoring = None
    if weighted is not None:
        scoring = get_scorer(SCORING[name]).set_score_request(sample_weight=weighted)
    ours, theirs = (model.get_metadata_routing() for model in both(name, cv=cv, scoring=scoring))
    asked = {"groups", "sample_weight", "colour"}
    assert ours.consumes("fit", asked) == theirs.consumes("fit", asked)


@every_name
@pytest.mark.skipif(
    SKLEARN == (1, 8), reason="scikit-learn 1.8 copies the splits to route metadata"
)
def test_splits_that_can_be_read_only_once_are_not_lost(name, data, routing):
    X, y, weights, groups = data
    splits = list(GroupKFold(5).split(X, y, groups))
    model, _ = both(name, cv=(split for split in splits))
    expected, _ = both(name, cv=splits)
    found = model.fit(X, y, sample_weight=weights).cv_scores_
    again = expected.fit(X, y, sample_weight=weights).cv_scores_
    assert np.array_equal(found.split_scores, again.split_scores)


@every_name
def test_groups_are_routed_through_a_cross_validation_around_it(name, data, routing):
    X, y, _, groups = data
    found = [
        cross_validate(model, X, y, cv=GroupKFold(3), params={"groups": groups})["test_score"]
        for model in both(name, cv=GroupKFold(5))
    ]
    assert np.allclose(*found)


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize(
    ("name", "scoring", "method", "example"),
    [
        ("RidgeClassifierCV", "neg_log_loss", "predict_proba", "'roc_auc'"),
        ("RidgeCV", "neg_brier_score", "predict_proba", "'r2'"),
        ("RidgeCV", "roc_auc", "decision_function or predict_proba", "'r2'"),
    ],
)
def test_a_score_of_what_the_model_has_not_is_refused(rng, cv, name, scoring, method, example):
    X = rng.standard_normal((30, 3))
    mentions = f"scoring='{scoring}' needs {method}, which {name} does"
    with raises(OptionError, "scoring", mentions=mentions) as info:
        getattr(ling, name)(scoring=scoring, cv=cv).fit(X, X[:, 0] > 0)
    assert example in str(info.value)


@pytest.mark.parametrize("name", ["RidgeCV", "RidgeClassifierCV"])
def test_a_scorer_of_the_users_is_told_whose_method_is_missing(rng, name):
    X = rng.standard_normal((30, 3))

    def likelihood(model, X, y):
        return model.predict_proba(X).mean()

    with pytest.raises(AttributeError, match=f"'{name}' object has no attribute 'predict_proba'"):
        getattr(ling, name)(scoring=likelihood, cv=3).fit(X, X[:, 0] > 0)
