"""A page, read as a browser would: every tag closed, every id once, nothing from elsewhere."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ling import write_report
from ling.report import held_out, sections
from ling.wording import MINUS_SIGN

VOID = {"meta", "link", "input", "br", "wbr", "image"}
SELF_CLOSED = {"path", "use", "image", "rect", "stop", "meta", "link", "input"}


class Page(HTMLParser):
    """`text` is what is read, `ids` and `tags` what is there."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.cells: list[str] = []
        self.words: list[str] = []
        self.feed(self.source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        assert tag in SELF_CLOSED, tag

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def of(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def pictures(self) -> list[str]:
        return [found["aria-label"] for found in self.of("svg")]

    def section(self, name: str) -> str:
        """What is read in one of the sections."""
        found = re.search(rf'<section id="{name}">(.*?)</section>', self.source, re.S)
        assert found, name
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", found.group(1))))

    def check(self) -> Page:
        """What holds for every page."""
        ids = [found["id"] for _, found in self.tags if "id" in found]
        assert len(ids) == len(set(ids))
        for name in re.findall(r'(?:href="|url\()#([^")]*)', self.source):
            assert name in ids
        for _, found in self.tags:
            for name in ("src", "href", "xlink:href"):
                assert found.get(name, "#").startswith(("#", "data:"))
        assert "nan" not in self.text.lower().replace("nand", "").split()
        assert len(self.of("h1")) == 1
        assert all(found.get("aria-label") for found in self.of("svg"))
        assert len(self.source) < 1e6
        return self


def report(folder: Path, model, X, y=None, *, drawn: bool = True, **options) -> Page:
    """The page of a fit; without its pictures, which take most of the time, unless `drawn`."""
    with pytest.MonkeyPatch.context() as patch:
        for module in () if drawn else (held_out, sections):
            patch.setattr(module, "render_svg", _blank)
        path = write_report(folder / "report.html", model, X, y, **options)
    assert [one.name for one in folder.glob("*.html*")] == ["report.html"]
    return Page(path.read_text(encoding="utf-8")).check()


def _blank(name, alt, draw):
    return f'<svg role="img" aria-label="{alt.replace(chr(34), "")}"></svg>'


def shown(value: float) -> str:
    """A number as pages show it."""
    return f"{value:.3g}".replace("-", MINUS_SIGN)
