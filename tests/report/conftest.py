"""Data of reports, and a folder for those that several tests read."""

import pytest
from sklearn.datasets import load_diabetes


@pytest.fixture(scope="session")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")
