"""Marks for tests of what only some versions of scikit-learn do."""

from importlib.metadata import PackageNotFoundError, version

import pytest


def installed(package):
    """Major and minor version; (0, 0) for a package that is not installed."""
    try:
        major, minor = version(package).split(".")[:2]
    except PackageNotFoundError:
        return 0, 0
    return int(major), int(minor)


SKLEARN = installed("scikit-learn")


def sklearn_from(minor, reason):
    """Skip a test below scikit-learn 1.`minor`."""
    return pytest.mark.skipif((1, minor) > SKLEARN, reason=reason)


shows_array_parameters = pytest.mark.skipif(
    version("scikit-learn") == "1.7.0",
    reason="scikit-learn 1.7.0 cannot show a parameter that is an array, in its own RidgeCV either",
)

reads_polars = pytest.mark.skipif(
    SKLEARN < (1, 9) and installed("polars") >= (2, 0),
    reason="scikit-learn reads the column names of polars 2 from 1.9 on",
)
