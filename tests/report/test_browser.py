"""The report in a browser: pictures, no overflow, light and dark, tables that sort and search."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from ling import RidgeClassifierCV, RidgeCV, write_report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine (.ci/run installs it)"),
]
PROBE = """<!doctype html><meta charset=utf-8><link rel=icon href="data:,">
<iframe style="width:{width}px;height:2000px;border:0" src="{page}"></iframe><script>
window.onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const view = document.querySelector("iframe").contentWindow;
  const box = part => part.getBoundingClientRect();
  const drawn = [...page.querySelectorAll("figure svg")];
  const pictures = drawn.map(svg => box(svg).width);
  const outside = (part, svg) => box(part).right > box(svg).right + 1
    || box(part).left < box(svg).left - 1;
  const texts = drawn.flatMap(svg => [...svg.querySelectorAll("text")]
    .filter(text => outside(text, svg)).map(text => text.textContent));
  const fold = page.querySelector("#coefficients details");
  fold.open = true;
  const wide = page.documentElement.scrollWidth;
  const table = fold.querySelector("table");
  table.tHead.rows[0].cells[2].querySelector("button").click();
  const sorted = [...table.tBodies[0].rows].map(r => parseFloat(r.cells[2].dataset.v));
  const input = fold.querySelector("input");
  input.value = "X1";
  input.dispatchEvent(new Event("input"));
  const found = [...table.tBodies[0].rows].filter(r => !r.hidden).map(r => r.cells[1].textContent);
  const shown = [...page.querySelectorAll(".view:not(.away) h3")].map(h => h.textContent);
  const background = view.getComputedStyle(page.body).backgroundColor;
  document.title = JSON.stringify({{pictures, texts, wide, sorted, found, shown, background}});
}};</script>"""


def probe(page: Path, width: int, dark: bool, scratch: Path) -> tuple[dict, str]:
    """What a browser of this width makes of the page, and what it said on the console."""
    frame = page.with_name("probe.html")
    frame.write_text(PROBE.format(width=width, page=page.name))
    shown = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--allow-file-access-from-files", "--enable-logging=stderr",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--user-data-dir={scratch}", "--virtual-time-budget=10000", "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", shown.stdout)
    assert title, shown.stdout[:2000]
    said = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(title.group(1).replace("&quot;", '"')), "\n".join(said)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A regression with long names, and a classifier with several views."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    names = [f"x{i} {'of many words ' * (i % 4)}{'w' * 12 * (i % 3)}" for i in range(30)]
    X = pd.DataFrame(rng.standard_normal((700, 30)), columns=names)
    y = pd.Series(X @ np.arange(30.0) + rng.standard_normal(700), name="y" * 60)
    write_report(folder / "regression.html", RidgeCV().fit(X, y), X, y)
    X, y = load_digits(return_X_y=True)
    write_report(folder / "classifier.html", RidgeClassifierCV(cv=3).fit(X, y), X, y)
    return folder


@pytest.mark.parametrize(("name", "pictures"), [("regression", 5), ("classifier", 8)])
@pytest.mark.parametrize(("width", "dark"), [(380, False), (1280, True)])
def test_a_browser_shows_the_page(pages, tmp_path, name, pictures, width, dark):
    seen, console = probe(pages / f"{name}.html", width, dark, tmp_path / "profile")
    assert not console
    assert seen["wide"] <= width
    visible = [one for one in seen["pictures"] if one > 0]
    assert len(seen["pictures"]) == pictures
    assert min(visible) > 300
    assert not seen["texts"]
    light = sum(map(int, re.findall(r"\d+", seen["background"])[:3])) > 3 * 128
    assert light == (not dark)
    assert seen["sorted"] == sorted(seen["sorted"])
    assert seen["found"]
    assert all("x1" in name for name in seen["found"])
    assert len(seen["shown"]) == (2 if name == "classifier" else 0)
    assert len(set(seen["shown"])) == len(seen["shown"]) / 2
