"""What every test may use: one source of random numbers, and hypothesis without a deadline."""

import numpy as np
import pytest
from hypothesis import settings

# numba compiles on first use, which no deadline per example would survive.
settings.register_profile("ling", deadline=None)
settings.load_profile("ling")


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)
