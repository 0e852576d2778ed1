"""The command as a process: exit codes, pipes, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.cli.conftest import BASIC

pytestmark = pytest.mark.processes

LING = [sys.executable, "-m", "ling"]
# Says so when the first pass over the data begins, and makes it last.
SLOW = """
import sys, time
import ling.design.base, ling.solvers.problem
def build(*args, **kwargs):
    print("fitting", file=sys.stderr, flush=True)
    while True:
        time.sleep(0.01)
ling.solvers.problem.build_problem = build
from ling.cli import main
main()
"""


def run(*arguments, **options):
    return subprocess.run(
        [*LING, *arguments], capture_output=True, text=True, check=False, timeout=60, **options
    )


def test_help_tells_where_to_start_and_how_it_ends():
    shown = run("--help", env={**os.environ, "COLUMNS": "80"})
    assert shown.returncode == 0
    for part in (
        "Your data", "The paper and the project", "ling fit sales.csv --target price",
        "Exit codes", "0  all is well", "1  the data, the model", "2  the command line",
        "3  the accuracy is not proved", "130  interrupted",
    ):  # fmt: skip
        assert part in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "bool" not in shown.stdout


@pytest.mark.parametrize(
    "command",
    ["fit", "predict", "inspect", "plan", "demo", "reproduce"],
)
def test_every_command_has_examples_and_json(command, ling):
    shown = ling(command, "--help")
    assert "Examples" in shown.out
    assert f"  ling {command}" in shown.out
    assert "--json" in shown.out


def test_piped_output_is_plain(folder):
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    shown = run("fit", "goods.parquet", *BASIC, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    assert not {c for c in shown.stdout if ord(c) < 32} - {"\n"}
    assert "Written to model.ling" in shown.stdout


def test_json_can_be_piped_on(folder):
    shown = run("fit", "goods.parquet", "-t", "count", "--drop", "id", "--json")
    assert json.loads(shown.stdout)["model"] == "RidgeCV"
    assert "Note: 'count' has only" in shown.stderr


def test_errors_are_one_line_and_no_traceback(folder):
    shown = run("fit", "goods.parquet", "-t", "pirce")
    assert shown.returncode == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("Error: --target 'pirce' is not a column")
    assert len(shown.stderr.splitlines()) == 1


def test_missing_packages_are_named(folder):
    code = "import sys; sys.modules['pyarrow'] = None; sys.modules['pyarrow.dataset'] = None\n"
    code += "from ling.cli import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "fit", "goods.csv", "-t", "price"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 1
    assert "pip install 'ling[parquet]'" in shown.stderr
    assert "Traceback" not in shown.stderr


def started(process):
    """Waits for the fit."""
    for line in process.stderr:
        if "fitting" in line:
            return
    raise AssertionError("it ended before it was interrupted")


@pytest.mark.skipif(os.name == "nt", reason="signals are sent")
def test_ctrl_c_leaves_nothing(folder):
    (folder / "model.ling").write_text("precious")
    before = sorted(folder.iterdir())
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, "fit", "goods.parquet", *BASIC],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    started(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err == "Interrupted; nothing is left half-written.\n"
    assert "The model" not in out
    assert sorted(folder.iterdir()) == before
    assert (folder / "model.ling").read_text() == "precious"


@pytest.mark.skipif(os.name == "nt", reason="signals are sent")
def test_ctrl_c_in_the_middle_of_passes(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (100_000, 500))
    X[::1000] = 1.0
    X.flush()
    del X
    np.save(tmp_path / "y.npy", np.random.default_rng(0).standard_normal(100_000))
    command = [*LING, "fit", "X.npy", "-t", "y.npy", "--memory-budget", "50MB"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    for line in process.stdout:  # it has looked at the data, and begins
        if "target" in line:
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    # CPython ends by the signal itself if the interrupt came inside of code that was a string,
    # which is the same to a shell.
    assert process.returncode in (130, -signal.SIGINT), err
    assert "Traceback" not in err
    assert sorted(os.listdir(tmp_path)) == ["X.npy", "y.npy"]
