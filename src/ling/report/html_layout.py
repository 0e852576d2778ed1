"""Pieces of HTML that sections share: pictures in their places, and one target at a time."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from ling.report.report_data import ReportData

TARGET_RANKS = ("worst predicted", "median", "best predicted")


def wrap_figure(drawn: str) -> str:
    """One picture."""
    return f"<figure>{drawn}</figure>"


def wrap_figures(*drawn: str) -> str:
    """Side by side, where there is room."""
    return f'<div class="figures">{"".join(drawn)}</div>'


def text_beside_figure(text: str, drawn: str) -> str:
    """Words and a picture."""
    return f'<div class="pair"><div>{text}</div>{wrap_figure(drawn)}</div>'


def not_shown(why: str) -> str:
    """In the place of what is not there."""
    return f'<p class="missing">Not shown. {escape(why)}</p>'


def target_views(facts: ReportData, make: Callable[[int], str]) -> str:
    """A part for each of the shown targets; the page's script shows one of them at a time."""
    if len(facts.detailed_targets) == 1:
        return make(facts.detailed_targets[0])
    kind = "Class" if facts.is_classification else "Target"
    ranked = len(facts.target_names) > len(facts.detailed_targets)
    parts = []
    for at, target in enumerate(facts.detailed_targets):
        rank = f" <small>({TARGET_RANKS[at]})</small>" if ranked else ""
        heading = f"<h3>{kind} {escape(facts.target_names[target])}{rank}</h3>"
        parts.append(f'<div class="view" data-view="{target}">{heading}{make(target)}</div>')
    return f'<div class="views">{"".join(parts)}</div>'
