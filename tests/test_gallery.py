"""Every example of docs/gallery runs without a warning, draws, and leaves nothing behind."""

import ast
import runpy
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from ling.reproduction import datasets

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
PUBLIC = {"ling", "ling.reproduction.datasets", "ling.paper"}
pytestmark = pytest.mark.site
over_examples = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where an example runs and has its temporary files; it finds no data sets on this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("LING_DATA", raising=False)
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path / "none")
    yield tmp_path
    plt.close("all")


def run(example: Path) -> list:
    """Its figures, laid out and drawn, which warns of what does not fit."""
    runpy.run_path(str(example), run_name="__main__")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    for figure in figures:
        figure.canvas.draw()
    return figures


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@over_examples
def test_runs_and_draws(example, folder):
    before = files(ROOT / "docs")
    figures = run(example)
    assert figures
    for figure in figures:
        assert any(ax.get_xlabel() for ax in figure.axes)
        # Bars may have words at their ticks instead of a name for their axis.
        ticks = [tick.get_text() for ax in figure.axes for tick in ax.get_yticklabels()]
        assert any(ax.get_ylabel() for ax in figure.axes) or any(map(str.isalpha, ticks))
    assert files(ROOT / "docs") == before
    assert not [file for file in files(folder) if file.parent.name != "dask-scratch-space"]
    if "surrogate" in example.read_text():  # data that are not there must not be pretended
        assert "surrogate" in figures[0].get_suptitle()


@over_examples
def test_says_what_it_is_about(example):
    title, line, *words = ast.get_docstring(ast.parse(example.read_text())).splitlines()
    assert line == "=" * len(title)
    assert 20 <= len(" ".join(words).split()) <= 80


@over_examples
def test_uses_public_names_only(example):
    for node in ast.walk(ast.parse(example.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert {name for name in names if name.split(".")[0] == "ling"} <= PUBLIC


def test_there_are_enough():
    assert len(EXAMPLES) >= 8


def test_data_that_are_there_are_used(folder, monkeypatch, rng):
    X = rng.poisson(rng.gamma(1, 20, (400, 1)) * np.ones(77)).astype(float)
    there = folder / "data"
    there.mkdir()
    np.savez(there / "buzz_twitter_38500.npz", X=X, y=X.mean(axis=1), part=np.zeros(400))
    monkeypatch.setenv("LING_DATA", str(there))
    (figure,) = run(ROOT / "docs" / "gallery" / "plot_polynomial_buzz.py")
    assert figure.get_suptitle() == "Buzz (Twitter), random sample of 400 rows"
