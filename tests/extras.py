"""Packages that are not installed with ling itself: tests that need a missing one are skipped."""

import pytest

#: The extra of ling that installs each package.
EXTRAS = {
    "dask": "dask",
    "distributed": "dask",
    "eli5": "dev",
    "matplotlib": "plot",
    "mypy": "dev",
    "numpydoc": "docs",
    "onnxruntime": "dev",
    "pandas": "dev",
    "polars": "dev",
    "pyarrow": "parquet",
    "rich": "cli",
    "skl2onnx": "dev",
    "typer": "cli",
    "yaml": "dev",
    "zarr": "zarr",
}


def reason(package):
    return f"needs {package}: pip install 'ling[{EXTRAS[package]}]'"


def needs(*packages):
    """Skip the test, or the module that is being imported, unless all packages are installed."""
    for package in packages:
        pytest.importorskip(package, reason=reason(package))


class SkippableModule(pytest.Module):
    """A test module that is skipped if it imports a package of an extra that is not installed."""

    def collect(self):
        try:
            return super().collect()
        except self.CollectError as error:
            package = getattr(error.__cause__, "name", None)
            if not isinstance(error.__cause__, ModuleNotFoundError) or package not in EXTRAS:
                raise
            pytest.skip(reason(package), allow_module_level=True)
