import pytest

from tests.extras import needs

needs("pyarrow", "zarr")

from tests.io.registry import SOURCES, matrix  # noqa: E402
from tests.io.tables import SCANS  # noqa: E402


@pytest.fixture(scope="session")
def X():  # noqa: N802
    return matrix()


@pytest.fixture(scope="session")
def scanned(tmp_path_factory, X):
    """Every source, written and scanned once."""
    return {name: make(tmp_path_factory.mktemp(name), X) for name, make in SOURCES.items()}


@pytest.fixture(params=SCANS)
def scan(request, tmp_path):
    """A table, written and scanned."""
    return lambda columns, *a, **k: SCANS[request.param](tmp_path, columns, *a, **k)
