"""Pieces of HTML that sections share: pictures in their places, and one target at a time."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from ling.html.facts import Facts

RANKS = ("worst predicted", "median", "best predicted")


def figure(drawn: str) -> str:
    """One picture."""
    return f"<figure>{drawn}</figure>"


def figures(*drawn: str) -> str:
    """Side by side, where there is room."""
    return f'<div class="figures">{"".join(drawn)}</div>'


def beside(text: str, drawn: str) -> str:
    """Words and a picture."""
    return f'<div class="pair"><div>{text}</div>{figure(drawn)}</div>'


def missing(why: str) -> str:
    """In the place of what is not there."""
    return f'<p class="missing">Not shown. {escape(why)}</p>'


def views(facts: Facts, make: Callable[[int], str]) -> str:
    """A part for each of the shown targets; the page's script shows one of them at a time."""
    if len(facts.shown) == 1:
        return make(facts.shown[0])
    kind = "Class" if facts.classifies else "Target"
    ranked = len(facts.targets) > len(facts.shown)
    parts = []
    for at, target in enumerate(facts.shown):
        rank = f" <small>({RANKS[at]})</small>" if ranked else ""
        heading = f"<h3>{kind} {escape(facts.targets[target])}{rank}</h3>"
        parts.append(f'<div class="view" data-view="{target}">{heading}{make(target)}</div>')
    return f'<div class="views">{"".join(parts)}</div>'
