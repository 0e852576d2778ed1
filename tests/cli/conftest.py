"""A table of goods in every format, and the command as a function."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.extras import needs

needs("pyarrow", "typer")

import pyarrow as pa  # noqa: E402
import pyarrow.csv  # noqa: E402
import pyarrow.feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from ling.cli.app import app  # noqa: E402
from ling.cli.error_wording import to_cli_wording  # noqa: E402
from ling.errors import LingError  # noqa: E402
from tests.raising import raises  # noqa: E402

N = 300
WRITERS = {
    "goods.parquet": lambda table, path: pq.write_table(table, path, row_group_size=70),
    "goods.csv": pa.csv.write_csv,
    "goods.feather": pa.feather.write_feather,
}


def goods(n=N, seed=0):
    rng = np.random.default_rng(seed)
    size, colour = rng.uniform(1, 9, n), rng.choice(["red", "green", "blue"], n)
    price = 3 * size + 5 * (colour == "red") + 0.5 * rng.standard_normal(n)
    return pa.table(
        {
            "id": [f"g{i}" for i in range(n)],
            "size": size,
            "colour": colour,
            "count": rng.integers(0, 9, n),
            "weight": rng.uniform(0.5, 2, n),
            "kind": np.where(price > 15, "dear", "cheap"),
            "price": price,
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the command is run, with the goods in it."""
    monkeypatch.chdir(tmp_path)
    for name, write in WRITERS.items():
        write(goods(), str(tmp_path / name))
    return tmp_path


@pytest.fixture
def ling():
    """The command: its exit code, stdout and stderr.

    `json` is what it printed, if that is JSON, and `error` the error of ling that ended it.
    """

    def run(*arguments):
        shown = CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(a) for a in arguments])
        if shown.exception is not None and not isinstance(shown.exception, SystemExit):
            raise shown.exception
        found = json.loads(shown.stdout) if "--json" in arguments and shown.stdout else None
        return SimpleNamespace(
            code=shown.exit_code, out=shown.stdout, err=shown.stderr, json=found,
            error=_error_of_ling(shown.exception),
        )  # fmt: skip

    return run


def _error_of_ling(exception):
    """The error that was turned into an exit code, or None."""
    while exception is not None and not isinstance(exception, LingError):
        exception = exception.__context__
    return exception


def assert_refused(done, kind, argument, **fields):
    """The command ended with this error of ling, as one line (see `tests.raising.raises`)."""
    assert done.code == 1
    assert done.err == f"Error: {to_cli_wording(done.error)}\n"
    with raises(kind, argument, **fields):
        raise done.error


BASIC = ("--target", "price", "--drop", "id,kind")


@pytest.fixture
def model(folder, ling):
    """A model of the goods, written by the command."""
    done = ling("fit", "goods.parquet", *BASIC, "--quiet")
    assert done.code == 0, done.err
    return folder / "model.ling"
