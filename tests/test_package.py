"""What the package promises as a whole."""

import subprocess
import sys

import pytest

import ling


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("heavy", ["numba", "scipy", "matplotlib", "typer", "rich"])
def test_import_ling_stays_light(heavy):
    assert run(f"import ling, sys; print({heavy!r} in sys.modules)") == "False"


def test_the_paper_is_reached_from_the_package():
    assert run("import ling; print(ling.paper.ling.__name__, 'paper' in dir(ling))") == "ling True"


def test_the_paper_compiles_nothing_before_it_is_needed():
    code = "from ling import paper; import numpy as np, sys\n"
    code += "paper.ling(np.eye(9), np.ones(9), 0.1, 2, 3); print('numba' in sys.modules)"
    assert run(code) == "False"


def test_completion_shows_what_is_for_users_and_nothing_else():
    shown = {name for name in dir(ling) if not name.startswith("__")}
    assert shown == set(ling.__all__)
    assert {"Ridge", "errors", "onnx", "scan_parquet"} <= shown
    assert all(getattr(ling, name) is not None for name in shown)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ling.nothing  # noqa: B018


def test_the_command_says_how_to_install_what_it_needs():
    code = "import sys; sys.modules['typer'] = None\nfrom ling.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'ling[cli]'" in done.stderr
