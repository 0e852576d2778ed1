"""The versions that ling is tested with. `make matrix` runs all of them.

`python -m nox -s lowest` runs one session, `python -m nox --list` lists them, and arguments after
`--` are passed to pytest.
"""

from __future__ import annotations

import os
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv"

OLDEST_PYTHON = "3.11"
PYTHONS = [OLDEST_PYTHON, "3.12", "3.13"]
SKLEARN_VERSIONS = ["1.7", "1.8"]

# The shims of pyenv run only the versions that are switched on, so all versions come before them.
PYENV_FOLDERS = [str(folder) for folder in Path.home().glob(".pyenv/versions/3.*/bin")]
os.environ["PATH"] = os.pathsep.join([*PYENV_FOLDERS, os.environ.get("PATH", "")])


def run_tests(session: nox.Session) -> None:
    """Run all tests, in two processes with one thread of BLAS each."""
    # Compiled kernels are not shared with other versions of numba and NumPy. The path is absolute
    # because tests start processes in other folders.
    cache = Path(session.create_tmp()).resolve()
    env = {"OPENBLAS_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(cache)}
    options = ["-n", "2", "--dist", "loadfile", "-m", "not slow and not site"]
    session.run("python", "-m", "pytest", *options, *session.posargs, env=env)


def run_mypy(session: nox.Session) -> None:
    """Check the types; each session has a cache of its own."""
    session.run("python", "-m", "mypy", "--cache-dir", f"{session.create_tmp()}/mypy")


@nox.session(python=OLDEST_PYTHON)
def lowest(session: nox.Session) -> None:
    """Every direct dependency at its lower bound."""
    # Matplotlib 3.9 calls functions that pyparsing 3.3 has deprecated.
    session.install("--resolution", "lowest-direct", "--editable", ".[dev]", "pyparsing>=3.1,<3.3")
    run_tests(session)
    # No mypy: the annotations of NumPy 2.0, Matplotlib 3.9 and SciPy's stubs of their time are less
    # exact than later ones, and mypy reports them as errors of ling.


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    """Every dependency at its newest version."""
    session.install("--editable", ".[dev]")
    run_tests(session)
    run_mypy(session)


def sklearn_session(version: str) -> None:
    """Define the session of one version of scikit-learn, with the newest of everything else."""

    @nox.session(python=OLDEST_PYTHON, name=f"sklearn-{version}")
    def sklearn(session: nox.Session) -> None:
        session.install("--editable", ".[dev]", f"scikit-learn=={version}.*")
        run_tests(session)
        run_mypy(session)


for sklearn_version in SKLEARN_VERSIONS:
    sklearn_session(sklearn_version)
