"""What README and docs say is true: their code runs, their commands exist, their links lead on."""

import doctest
import importlib
import pkgutil
import re
import subprocess
from pathlib import Path

import pytest

import ling
from ling.reproduction.experiments import EXPERIMENTS
from tests.extras import needs

ROOT = Path(__file__).parent.parent
#: Packages that some code needs and that only `make clients` installs; it runs that code.
CLIENT_PACKAGES = ("mlflow", "skops")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture
def extras():
    """The examples use packages of all extras."""
    needs("dask", "distributed", "matplotlib", "pandas", "pyarrow", "rich", "typer", "zarr")


def found(pattern: str) -> list:
    return [
        pytest.param(match, id=f"{page.name}-{number}")
        for page in PAGES
        for number, match in enumerate(re.findall(pattern, page.read_text(), re.M | re.S))
    ]


def code_blocks():
    """The Python code of all pages; what starts a cluster is marked."""
    for block in found(r"^```python\n(.*?)^```"):
        marks = [pytest.mark.processes] if "distributed" in block.values[0] else []
        yield pytest.param(*block.values, id=block.id, marks=marks)


@pytest.mark.parametrize("code", list(code_blocks()))
def test_code_runs(code, capsys, tmp_path, monkeypatch, extras):
    for package in CLIENT_PACKAGES:
        if f"import {package}" in code:
            pytest.importorskip(package, reason=f"{package} is not installed; make clients has it")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "page", "exec"), {"__name__": "__main__"})
    # What a trailing comment says is printed, up to "...", is printed.
    for line, said in re.findall(r"print\((.*)\) +# ([\w(].*)", code):
        if "=" in said or said.replace(".", "").isdigit():
            assert said.split("...")[0] in capsys.readouterr().out, line


@pytest.mark.parametrize("target", found(r"\bmake ([a-z-]+)\b(?=`| +#|\n)"))
def test_make_targets_exist(target):
    subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("path", found(r"\]\(([\w./-]+)\)"))
def test_links_lead_somewhere(path):
    assert any((page.parent / path).exists() for page in PAGES)


def anchors(page: Path) -> set[str]:
    """Slugs of the headings of a page, and its explicit targets."""
    if page.name == "reproduction.md":  # a long run writes it: a section for each experiment
        return {*EXPERIMENTS, "several-experiments"}
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.M))


@pytest.mark.parametrize("link", found(r"\]\(([\w-]+\.md#[\w-]+)\)"))
def test_sections_that_are_linked_exist(link):
    name, anchor = link.split("#")
    assert anchor in anchors(ROOT / "docs" / name)


def test_the_table_of_the_paper_names_what_exists():
    names = re.findall(
        r"`((?:ling|paper|reproduction)\.[\w.]+)`", (ROOT / "docs" / "paper.md").read_text()
    )
    assert len(names) > 40
    for name in names:
        pkgutil.resolve_name(name if name.startswith("ling.") else f"ling.{name}")


@pytest.mark.parametrize("command", found(r"`ling ([a-z]+)`"))
def test_commands_exist(command, extras):
    from typer.testing import CliRunner

    from ling.cli.app import app

    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def modules() -> list[str]:
    walked = pkgutil.walk_packages(ling.__path__, "ling.")
    return [module.name for module in walked if not module.name.endswith("__main__")]


@pytest.mark.parametrize("module", modules())
def test_docstring_examples_run(module, extras):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_architecture_page_names_every_module():
    page = (ROOT / "docs" / "design.md").read_text()
    missing = [
        path.name
        for path in (ROOT / "src" / "ling").rglob("*.py")
        if not path.name.startswith("__") and path.parent.name != "cli" and path.name not in page
    ]
    assert not missing
