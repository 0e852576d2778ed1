"""matplotlib's pictures as SVG inside a page: text as text, no ids that clash, no dates."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from ling.errors import MissingPackageError

# Inches: small, so that letters stay readable where a telephone shows them as wide as it is.
FIGURE_INCHES = (4.8, 3.5)
# Of what is drawn as a picture inside the picture, where there are very many points or lines.
RASTER_DPI = 200
RC_PARAMS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ling",
    "font.size": 9,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "savefig.transparent": True,
}
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def check_matplotlib_installed() -> None:
    """Before anything is computed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as missing:
        raise MissingPackageError(
            f"write_report draws with {missing.name}: pip install 'ling[plot]'"
        ) from missing


def render_svg(name: str, alt: str, draw: Callable[[Any], Any]) -> str:
    """What `draw(ax)` draws, as an <svg> whose ids begin with `name`; `alt` says what it shows."""
    import matplotlib.style
    from matplotlib.figure import Figure

    with matplotlib.style.context(["default", RC_PARAMS]), _ignore_missing_glyphs():
        figure = Figure(figsize=FIGURE_INCHES, layout="constrained")
        draw(figure.subplots())
        text = io.StringIO()
        figure.savefig(text, format="svg", dpi=RASTER_DPI, metadata=NO_METADATA)
    return _inline_svg(text.getvalue(), name, alt)


@contextmanager
def _ignore_missing_glyphs() -> Iterator[None]:
    """Text stays text, for which the reader's browser has letters even where matplotlib has not."""
    with warnings.catch_warnings():
        for words in (
            r"Glyph \d+ .*missing from font",
            r"Matplotlib currently does not support .*",
        ):
            warnings.filterwarnings("ignore", words, UserWarning)
        yield


def _inline_svg(text: str, name: str, alt: str) -> str:
    """Only the <svg>, as wide as its place."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'<g id="[^"]*" ?/>', "", text)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    # Ids that are referred to are those of markers and of what is cut off.
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = text.replace("url(#", f"url(#{name}-")
    text = re.sub(r'\b(d|x|y|points|transform)="[^"]*"', _round_coordinates, text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*sans-serif", "system-ui, sans-serif", text)
    opening = re.match(r"<svg[^>]*>", text)
    assert opening is not None
    box = re.search(r'viewBox="([^"]*)"', opening.group())
    assert box is not None
    return (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box.group(1)}" role="img" '
        f'aria-label="{escape(alt)}">{text[opening.end() :].strip()}'
    )


def _round_coordinates(attribute: re.Match[str]) -> str:
    """A tenth of a point is as near as anybody can see; paths do without needless spaces."""
    text = re.sub(r"(\.\d)\d+", r"\1", attribute.group())
    return re.sub(r"\s*\b([MLCQz])\b\s*", r"\1", text) if text.startswith("d=") else text
