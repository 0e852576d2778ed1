"""Pictures are drawn without a screen, and closed."""

import pytest

from tests.extras import needs

needs("matplotlib")

import matplotlib  # noqa: E402

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")
