"""Fits work without a place to cache in, and with caches that are damaged."""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import ling
from ling.solvers import machine
from ling.solvers.machine import DEFAULT_MACHINE

#: A user id that no system has an entry for.
NOBODY = 54321

# A fit whose kernels are compiled: dense and sparse loops, and those of ling.paper. It says where
# ling was imported from, and what was logged.
FIT = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
import numpy as np
import ling
from ling.design import DenseStorage, as_design
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 5))
design = as_design(DenseStorage(X, compiled=True))
np.testing.assert_allclose(design.gram_matmat(np.ones(5)), X.T @ (X @ np.ones(5)))
{more}
print("done", ling.__file__)
"""
# Measuring takes seconds, and what is tested is where the result goes.
MEASURED = """
from ling.solvers import machine
machine.measure_machine = lambda: machine.DEFAULT_MACHINE
print(machine.measured_machine())
"""


def run(code, folder, **environment):
    """The output of a process with no cache folder but those in `environment`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HOME", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LING_CACHE", "PYTHONPATH")
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**kept, "OPENBLAS_NUM_THREADS": "1", **environment},
        cwd=folder, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def installation():
    """A copy of ling in which nothing can be cached, whoever asks: __pycache__ is a file."""
    with tempfile.TemporaryDirectory() as root:
        package = Path(root, "ling")
        source = Path(ling.__file__).parent
        shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
        for folder in [package, *package.rglob("*")]:
            if folder.is_dir():
                (folder / "__pycache__").touch()
        yield Path(root)


def run_without_cache(installation, tmp_path, before="", **options):
    out = run(
        before + FIT.format(more=MEASURED), tmp_path,
        PYTHONPATH=str(installation), PYTHONDONTWRITEBYTECODE="1", **options,
    )  # fmt: skip
    assert f"done {installation}" in out
    assert "compiled kernels are not cached on disk" in out
    assert "machine speeds are not kept" in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_no_place_to_cache_in(installation, tmp_path):
    # Not even root can create a folder below a file.
    run_without_cache(installation, tmp_path, HOME=str(installation / "ling/__init__.py/home"))


@pytest.mark.processes
@pytest.mark.skipif(
    not hasattr(os, "setresuid") or os.getuid() != 0, reason="only root can become another user"
)
def test_a_user_that_the_system_does_not_know(installation, tmp_path):
    """Nobody can say where its home folder is. Files are still read as root."""
    become = f"import os\nos.setresuid({NOBODY}, -1, -1)\n"
    run_without_cache(installation, tmp_path, become)


def sources():
    return str(Path(ling.__file__).parents[1])


@pytest.mark.processes
def test_a_damaged_cache_of_kernels(tmp_path):
    environment = {"PYTHONPATH": sources(), "NUMBA_CACHE_DIR": str(tmp_path)}
    code = FIT.format(more="")
    assert "not cached" not in run(code, tmp_path, **environment)
    files = [file for ending in ("nbi", "nbc") for file in tmp_path.rglob(f"*.{ending}")]
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:100] if file.suffix == ".nbc" else b"damaged")
    assert "the cache cannot be read" in run(code, tmp_path, **environment)
    assert "not cached" not in run(code, tmp_path, **environment)


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="limits of resources")
def test_a_disk_without_room(tmp_path):
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    caches = {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "LING_CACHE": str(tmp_path / "speeds")}
    environment = {"PYTHONPATH": sources(), "PYTHONDONTWRITEBYTECODE": "1", **caches}
    out = run(limited + FIT.format(more=MEASURED), tmp_path, **environment)
    assert "the cache cannot be written" in out
    assert "machine speeds are not kept" in out


@pytest.fixture
def speeds_file(tmp_path, monkeypatch):
    """The file of measured speeds, in a cache of its own; measuring takes no time."""
    monkeypatch.setenv("LING_CACHE", str(tmp_path))
    monkeypatch.setattr(machine, "measure_machine", lambda: DEFAULT_MACHINE)
    machine.forget_speeds()
    assert machine.measured_machine() == DEFAULT_MACHINE
    machine.forget_speeds()
    yield tmp_path / "ling" / "machine.json"
    machine.forget_speeds()


def entry(**changes):
    def damage(text):
        ((key, speeds),) = json.loads(text).items()
        return json.dumps({key: {**speeds, **changes}})

    return damage


def entry_is(value):
    return lambda text: json.dumps(dict.fromkeys(json.loads(text), value))


DAMAGES = {
    "not JSON": lambda text: text[: len(text) // 2],
    "not text": lambda text: b"\xff\xfe\x00",
    "nothing": lambda text: "",
    "a list": lambda text: "[1, 2]",
    "null": lambda text: "null",
    "too deep": lambda text: "[" * 10**5,
    "an entry that is too deep": lambda text: text[:-2] + ', "x": ' + "[" * 900 + "]" * 900 + "}",
    "entry is a list": entry_is([1.0]),
    "entry is null": entry_is(None),
    "entry is empty": entry_is({}),
    "text": entry(gemm_rate="fast"),
    "null speed": entry(gemm_rate=None),
    "boolean": entry(gemm_rate=True),
    "NaN": entry(gemm_rate=float("nan")),
    "infinite": entry(gemm_rate=float("inf")),
    "beyond float64": entry(gemm_rate=10**400),
    "negative": entry(gemm_rate=-1.0),
    "zero": entry(gemm_rate=0.0),
    "one more": entry(surplus=1.0),
    "a fraction of threads": entry(threads=1.5),
    "no threads": entry(threads=0),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_speeds_are_measured_again(speeds_file, damage):
    damaged = damage(speeds_file.read_text())
    speeds_file.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    assert machine.measured_machine() == DEFAULT_MACHINE


def test_a_missing_speed_is_measured_again(speeds_file):
    ((key, speeds),) = json.loads(speeds_file.read_text()).items()
    del speeds["gemm_rate"]
    speeds_file.write_text(json.dumps({key: speeds}))
    assert machine.measured_machine() == DEFAULT_MACHINE
    assert "gemm_rate" in json.loads(speeds_file.read_text())[key]


def test_a_folder_where_the_file_should_be(speeds_file, caplog):
    speeds_file.unlink()
    speeds_file.mkdir()
    with caplog.at_level(logging.INFO, "ling"):
        assert machine.measured_machine() == DEFAULT_MACHINE
    assert "machine speeds are not kept" in caplog.text


def test_good_speeds_are_not_measured_again(speeds_file, monkeypatch):
    speeds_file.write_text(entry(gemm_rate=123.0)(speeds_file.read_text()))
    monkeypatch.setattr(machine, "measure_machine", lambda: pytest.fail("measured"))
    assert machine.measured_machine().gemm_rate == np.float64(123.0)
