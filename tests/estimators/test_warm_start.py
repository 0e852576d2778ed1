"""`warm_start`: iterations go on from where they were, also after the rows were lost."""

import numpy as np
import pytest

from ling import Ridge, RidgeClassifier
from ling.design import ArraySource, ChunkedStorage
from ling.errors import ClusterLostError


class Losing(ChunkedStorage):
    """Rows that are gone after so many passes."""

    lives = 1000

    def run(self, operation):
        Losing.lives -= 1
        if Losing.lives < 0:
            raise ClusterLostError("there is no worker left")
        return super().run(operation)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 60)) @ np.diag(np.linspace(3, 0.05, 60))
    return X, X @ rng.standard_normal(60) + rng.standard_normal(500)


def test_a_second_fit_starts_from_the_first(data):
    X, y = data
    model = Ridge(1e-3, solver="two_stage", tol=1e-8, warm_start=True, random_state=0)
    first = model.fit(X, y).n_iter_[0]
    again = model.fit(X, y).n_iter_[0]
    assert again < first / 2
    assert model.report_.certificate.holds
    cold = Ridge(1e-3, solver="two_stage", tol=1e-8, random_state=0).fit(X, y)
    assert cold.fit(X, y).n_iter_[0] == first


def test_the_last_iterate_survives_the_loss_of_the_rows(data):
    X, y = data
    model = Ridge(1e-3, solver="two_stage", tol=1e-8, warm_start=True, random_state=0)
    Losing.lives = 1000
    whole = model.fit(Losing(ArraySource(X), has_fixed_blocks=True), y).n_iter_[0]
    passes = 1000 - Losing.lives
    model = Ridge(1e-3, solver="two_stage", tol=1e-8, warm_start=True, random_state=0)
    Losing.lives = passes - 3
    with pytest.raises(ClusterLostError, match="no worker left"):
        model.fit(Losing(ArraySource(X), has_fixed_blocks=True), y)
    assert not hasattr(model, "coef_")
    Losing.lives = 1000
    model.fit(Losing(ArraySource(X), has_fixed_blocks=True), y)
    assert model.n_iter_[0] <= whole - 1
    assert model.report_.certificate.holds
    assert not hasattr(model, "_partial_coef")


def test_other_shapes_start_from_nothing(data):
    X, y = data
    model = Ridge(solver="two_stage", warm_start=True).fit(X, y)
    model.fit(X[:, :20], np.stack([y, y], axis=1))
    assert model.coef_.shape == (2, 20)


def test_classifiers_too(data):
    X, y = data
    model = RidgeClassifier(1e-3, solver="two_stage", tol=1e-8, warm_start=True, random_state=0)
    first = model.fit(X, y > 0).n_iter_[0]
    assert model.fit(X, y > 0).n_iter_[0] < first / 2
