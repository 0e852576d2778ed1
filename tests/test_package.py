"""What the package promises as a whole."""

import subprocess
import sys
import tomllib
from operator import attrgetter
from pathlib import Path

import pytest
import yaml

import ling

ROOT = Path(__file__).parent.parent
PAPER = "Fast Ridge Regression with Randomized Principal Component Analysis and Gradient Descent"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.processes
@pytest.mark.parametrize("heavy", ["numba", "scipy", "matplotlib", "typer", "rich"])
def test_import_ling_stays_light(heavy):
    assert run(f"import ling, sys; print({heavy!r} in sys.modules)") == "False"


@pytest.mark.processes
def test_the_paper_is_reached_from_the_package():
    assert run("import ling; print(ling.paper.ling.__name__, 'paper' in dir(ling))") == "ling True"


@pytest.mark.processes
def test_the_paper_compiles_nothing_before_it_is_needed():
    code = "from ling import paper; import numpy as np, sys\n"
    code += "paper.ling(np.eye(9), np.ones(9), 0.1, 2, 3); print('numba' in sys.modules)"
    assert run(code) == "False"


def test_completion_shows_what_is_for_users_and_nothing_else():
    shown = {name for name in dir(ling) if not name.startswith("__")}
    assert shown == set(ling.__all__)
    assert {"Ridge", "errors", "paper", "scan_parquet"} <= shown
    assert all(getattr(ling, name) is not None for name in shown)


@pytest.mark.parametrize(
    "name", ["paper", "paper.models", "paper.theory", "errors", "progress", "datasets"]
)
def test_modules_show_what_is_for_users_and_nothing_else(name):
    module = attrgetter(name)(ling)
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, shown) is not None for shown in dir(module))


def test_all_errors_are_public():
    known = vars(ling.errors).values()
    own = {value.__name__ for value in known if getattr(value, "__module__", "") == "ling.errors"}
    assert own - {"__dir__"} == set(ling.errors.__all__)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ling.nothing  # noqa: B018


@pytest.mark.processes
def test_the_command_says_how_to_install_what_it_needs():
    code = "import sys; sys.modules['typer'] = None\nfrom ling.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'ling[cli]'" in done.stderr


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_citation_file_is_complete_and_in_step(citation):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["cff-version"] == "1.2.0"
    # The keys that format 1.2.0 requires, and what a citation of software needs besides.
    assert {"message", "title", "authors", "version", "license"} <= citation.keys()
    assert citation["type"] == "software"
    assert citation["version"] == ling.__version__
    assert citation["authors"] == project["authors"]
    assert citation["license"] == project["license"]
    assert citation["keywords"] == project["keywords"]


def test_the_citation_file_names_the_paper(citation):
    (paper,) = citation["references"]
    assert paper["title"] == PAPER
    assert [author["family-names"] for author in paper["authors"]] == ["Lu", "Foster"]
    assert paper["type"] == "conference-paper"
    assert paper["conference"]["name"]  # an entity has to have a name


@pytest.mark.parametrize("page", ["README.md", "docs/paper.md"])
def test_pages_say_how_to_cite_what_the_file_says(page, citation):
    section = (ROOT / page).read_text().split("## How to cite")[1].split("\n## ")[0]
    said = " ".join(section.replace(">", "").split())
    (paper,) = citation["references"]
    authors = " and ".join(f"{a['given-names']} {a['family-names']}" for a in paper["authors"])
    for part in (paper["title"], authors, str(paper["year"]), citation["title"]):
        assert part in said
    assert f"Version {ling.__version__}." in said


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/start.md"])
def test_the_first_paragraph_says_what_ling_is_and_where(page):
    first = (ROOT / page).read_text().split("\n\n")[1]
    for part in (
        "LING", "Lu & Foster", "two stages", "randomised PCA", "strong directions",
        "gradient descent", "`LingRegressor`", "`ling reproduce`",
    ):  # fmt: skip
        assert part in " ".join(first.split()), part
