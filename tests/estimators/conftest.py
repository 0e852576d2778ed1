"""Data of tests of estimators that do not need particular ones."""

import numpy as np
import pytest


@pytest.fixture
def data(rng):
    X = rng.standard_normal((60, 7)) + np.arange(7)
    return X, X @ np.arange(7.0) + rng.standard_normal(60) + 3


@pytest.fixture
def weights(rng):
    return rng.integers(0, 4, 60).astype(float)
