"""Data of reports and displays, and a folder for reports that several tests read."""

import pytest
from sklearn.datasets import load_diabetes


@pytest.fixture(scope="session")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


@pytest.fixture
def targets(rng):
    X = rng.standard_normal((80, 6))
    Y = X @ rng.standard_normal((6, 3)) + rng.standard_normal((80, 3)) * [1, 5, 20]
    return X, Y


@pytest.fixture
def closed_figures():
    """Close all figures after the test."""
    import matplotlib.pyplot as plt  # here, because tests without matplotlib are skipped

    yield
    plt.close("all")
