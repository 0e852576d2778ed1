"""The site builds without a warning, hangs together, and loads nothing from elsewhere."""

import importlib
import inspect
import re
import shutil
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpydoc.validate
import pytest
from sklearn import linear_model

import ling
from benchmarks import harness, published, ridge_report

ROOT = Path(__file__).parent.parent
PAGES = (
    *("index", "start", "guide", "solvers", "alpha", "memory", "scaling", "certificate"),
    *("reproduction", "coming-from", "benchmarks", "design", "api/index", "auto_gallery/index"),
)
pytestmark = pytest.mark.site
MADE = ("_build", "auto_gallery", "generated", "__pycache__")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Built from a copy, so that nothing is left in the sources; examples are not run."""
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns(*MADE))
    for name in ("README.md", "benchmarks"):
        (root / name).symlink_to(ROOT / name)
    built = root / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-D", "plot_gallery=0"]
    done = subprocess.run(
        [*command, "-d", root / "doctrees", root / "docs", built], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return built


class Links(HTMLParser):
    """What a page refers to, what it loads, and what can be referred to in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.hrefs, self.loaded, self.ids = [], [], set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.hrefs.append(given["href"])
        elif tag in ("script", "link", "img", "iframe", "source", "object", "video"):
            self.loaded += [given[key] for key in ("src", "href", "data") if given.get(key)]


@pytest.fixture(scope="session")
def pages(site):
    return {page: Links(page) for page in site.rglob("*.html") if "_static" not in page.parts}


def test_pages_are_there_and_led_to(pages, site):
    led_to = {
        (page.parent / unquote(urlsplit(href).path)).resolve()
        for page, links in pages.items()
        for href in links.hrefs
        if not urlsplit(href).scheme
    }
    assert {(site / f"{name}.html").resolve() for name in PAGES} <= led_to


def test_internal_links_lead_somewhere(pages):
    ids = {page.resolve(): links.ids for page, links in pages.items()}
    broken = []
    for page, links in pages.items():
        for href in [*links.hrefs, *links.loaded]:
            parts = urlsplit(href)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in ids and anchor not in ids[target]):
                broken.append((page.name, href))
    assert not broken


def test_nothing_is_loaded_from_elsewhere(pages, site):
    remote = [
        (page.name, address)
        for page, links in pages.items()
        for address in links.loaded
        if urlsplit(address).netloc
    ]
    sheets = [sheet.read_text(encoding="utf-8") for sheet in site.rglob("*.css")]
    fetched = re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^\s)]*", "\n".join(sheets))
    assert not remote
    assert not fetched


def documented(site: Path) -> dict[str, str]:
    """Where every Python name is, from Sphinx's own list: after four lines it is compressed."""
    stored = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = [line.split() for line in zlib.decompress(stored).decode().splitlines()]
    return {name: place for name, role, _, place, *_ in lines if role.startswith("py:")}


def public_names() -> list[str]:
    from ling import design, errors, paper

    faults = [
        name for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == "ling.errors" and name != "LingError"
    ]  # fmt: skip
    owners = {"ling": ling.__all__, "ling.paper": paper.__all__, "ling.design": design.__all__}
    owners |= {
        "ling.errors": faults,
        "ling.results": ["FitReport", "Certificate", "Status", "Cost"],
        "ling.solvers.planning": ["Plan", "EngineEstimate", "ProblemDimensions"],
        "ling.solvers.machine": ["Machine"],
        "ling.model_selection": ["CVScores"],
        "ling.estimators.path": ["RidgePath"],
        "ling.reproduction.datasets": [
            "load_gisette",
            "load_buzz",
            "quadratic_features",
            "Dataset",
        ],
    }
    names = [f"{owner}.{name}" for owner, names in owners.items() for name in names]
    # A public module is documented where it lies.
    places = {f"ling.{name}": path for name, path in ling._MODULES.items()}
    return [places.get(name, name) for name in names]


def test_every_public_name_is_in_the_reference(site):
    # A package whose names have pages is documented by them.
    known = documented(site)
    missing = [
        name for name in public_names()
        if name not in known and not any(other.startswith(f"{name}.") for other in known)
    ]  # fmt: skip
    assert not missing


def functions() -> list[str]:
    """All that the reference shows."""
    found = {"ling.reproduction.datasets.load_gisette", "ling.reproduction.datasets.load_buzz"}
    for name in ("ling", "ling.paper", "ling.design", "ling.paper.models", "ling.paper.theory"):
        module = importlib.import_module(name)
        own = [key for key, value in vars(module).items() if inspect.getmodule(value) is module]
        names = getattr(module, "__all__", [key for key in own if not key.startswith("_")])
        values = [getattr(module, key) for key in names]
        found |= {f"{v.__module__}.{v.__name__}" for v in values if inspect.isfunction(v)}
    return sorted(found)


@pytest.mark.parametrize("name", functions())
def test_functions_say_what_they_take_and_give(name):
    found = numpydoc.validate.validate(name)["errors"]
    assert not [fault for fault in found if fault[0] in ("PR01", "PR02", "PR10", "RT01", "GL08")]


@pytest.mark.parametrize(
    ("heading", "estimators"),
    [
        ("### Ridge, RidgeClassifier", ("Ridge", "RidgeClassifier")),
        ("### RidgeCV, RidgeClassifierCV", ("RidgeCV", "RidgeClassifierCV")),
    ],
)
def test_tables_name_all_parameters(heading, estimators):
    """Those of scikit-learn at the left, those that only ling has at the right."""
    page = (ROOT / "docs" / "coming-from.md").read_text()
    rows = re.findall(r"^\|([^|]*)\|(.*)\|$", page.split(heading)[1].split("###")[0], re.M)
    theirs = {name for left, _ in rows for name in re.findall(r"`(\w+)`", left)}
    new = {n for left, right in rows if not left.strip() for n in re.findall(r"`(\w+)`", right)}
    for name in estimators:
        expected = set(getattr(linear_model, name)().get_params())
        assert expected <= theirs
        assert set(getattr(ling, name)().get_params()) - expected <= new


def test_benchmark_tables_are_those_of_the_records(site):
    text = (site / "benchmarks.html").read_text()
    outcomes = [ridge_report.outcome(found) for found in harness.outcomes_in(ridge_report.RESULTS)]
    assert ridge_report.mean_line(outcomes) in text
    assert all(f"<td><p>{outcome.cell}</p></td>" in text for outcome in outcomes)
    listed = re.findall(r"<li><p>(.*?)</p></li>", text, re.DOTALL)
    slow = [outcome for outcome in outcomes if outcome.ratio < 1]
    assert all(any(published.label(outcome) in line for line in listed) for outcome in slow)
    assert any("times as long as one" in line for line in listed)
