"""What a release consists of: workflows, templates, and the contents of the distributions."""

import importlib.util
import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import ling

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
CONFIGURATIONS = [
    *WORKFLOWS, *sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")),
    ROOT / ".readthedocs.yaml", ROOT / ".pre-commit-config.yaml",
]  # fmt: skip


def make_targets():
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands(node):
    """All shell commands of a workflow."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "run":
                yield value
            else:
                yield from commands(value)
    elif isinstance(node, list):
        for item in node:
            yield from commands(item)


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_configurations_are_valid_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_workflows_call_make_targets_that_exist():
    called = {
        target
        for path in WORKFLOWS
        for command in commands(yaml.safe_load(path.read_text(encoding="utf-8")))
        for line in command.splitlines()
        if line.startswith("make ")
        for target in line.split()[1:]
    }
    assert {"check", "docs", "clients"} <= called
    assert called <= make_targets()


def test_workflows_run_sessions_that_exist():
    text = (ROOT / "noxfile.py").read_text()
    versions = re.search(r"SKLEARN_VERSIONS = (\[.*\])", text)[1]
    sessions = {"lowest", *(f"sklearn-{version}" for version in yaml.safe_load(versions))}
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    assert set(workflow["jobs"]["versions"]["strategy"]["matrix"]["session"]) == sessions


def test_tested_pythons_are_those_of_the_classifiers():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    declared = ["3." + c.removeprefix(prefix) for c in project["classifiers"] if prefix in c]
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    assert workflow["jobs"]["tests"]["strategy"]["matrix"]["python"] == declared
    assert project["requires-python"] == f">={declared[0]}"


def test_the_changelog_has_a_dated_section_for_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(
        rf"^## {re.escape(ling.__version__)} \(\d{{4}}-\d\d-\d\d\)$", text, re.MULTILINE
    )


# --- tools/check_dist.py


@pytest.fixture(scope="module")
def check_dist():
    spec = importlib.util.spec_from_file_location("check_dist", ROOT / "tools" / "check_dist.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    """A package of two files."""
    folder = tmp_path / "src" / "ling"
    folder.mkdir(parents=True)
    for name in ("__init__.py", "py.typed", "cache.nbi"):
        (folder / name).touch()
    return tmp_path


@pytest.fixture
def distributions(check_dist, checkout):
    """A function that writes a wheel and a source distribution with these files besides."""

    def write(wheel=(), sdist=(), without=()):
        folder = checkout / "dist"
        folder.mkdir()
        names = {"ling/__init__.py", "ling/py.typed", "ling-1.0.dist-info/METADATA", *wheel}
        with zipfile.ZipFile(folder / "ling-1.0-py3-none-any.whl", "w") as archive:
            for name in names - set(without):
                archive.writestr(name, "")
        sources = {"src/ling/__init__.py", "src/ling/py.typed", *check_dist.NEEDED}
        contents = dict.fromkeys(sources - set(without), b"") | dict(sdist)
        with tarfile.open(folder / "ling-1.0.tar.gz", "w:gz") as archive:
            for name, content in contents.items():
                member = tarfile.TarInfo(f"ling-1.0/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return folder

    return write


def test_good_distributions(check_dist, distributions, checkout):
    folder = distributions(sdist={"docs/page.md": b"text"})
    assert check_dist.problems(folder, checkout, tag="v1.0") == []
    assert check_dist.problems(folder, checkout, tag="v1.1") == [
        "the tag is v1.1, and the version 1.0"
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"wheel": ["tests/__init__.py"]}, "ling-1.0-py3-none-any.whl contains tests/__init__.py"),
        ({"wheel": ["ling/cache.nbi"]}, "ling-1.0-py3-none-any.whl contains ling/cache.nbi"),
        ({"without": ["ling/py.typed"]}, "ling-1.0-py3-none-any.whl lacks ling/py.typed"),
        ({"sdist": {"tests/a.npz": b""}}, "ling-1.0.tar.gz contains data: tests/a.npz"),
        ({"sdist": {"docs/a.svg": bytes(2_000_000)}}, "ling-1.0.tar.gz contains data: docs/a.svg"),
        ({"without": ["Makefile"]}, "ling-1.0.tar.gz lacks Makefile"),
    ],
    ids=["tests", "cache", "untyped", "data", "large", "no-makefile"],
)
def test_bad_distributions(check_dist, distributions, checkout, change, problem):
    assert check_dist.problems(distributions(**change), checkout) == [problem]


def test_missing_distributions(check_dist, tmp_path):
    (problem,) = check_dist.problems(tmp_path)
    assert "0 wheels and 0 source distributions" in problem
