"""`ling inspect`: what is in a model file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ling.cli import words
from ling.cli.out import Out
from ling.saving import Saved, read
from ling.scan.dataset import listed


def run(path: Path, out: Out) -> None:
    """Open it, and tell."""
    saved = read(path)
    model = saved.model
    out.show(f"{path}: {type(model).__name__}, saved by ling {saved.version}", style="bold")
    out.facts(_facts(saved))
    out.show()
    target = Path(str(saved.about.get("target") or "the target")).name
    strongest = words.effects(model)
    out.show(words.effects_table(strongest, target))
    out.show()
    out.show(words.effects_explained(strongest), style="dim")
    for note in model.report_.notes:
        out.show(note, style="dim")
    out.result(
        {
            **words.as_data(model),
            "ling": saved.version,
            "about": saved.about,
            "parameters": {
                name: value
                if isinstance(value, bool | int | float | str | list | None)
                else str(value)
                for name, value in model.get_params(deep=False).items()
            },
            "columns": _columns(model),
        }
    )


def _facts(saved: Saved) -> Iterator[tuple[str, str]]:
    model, about = saved.model, saved.about
    yield from ((str(name), str(text)) for name, text in about.get("understood", {}).items())
    if "fitted" in about:
        yield "fitted", str(about["fitted"])
    if hasattr(model, "classes_"):
        yield "classes", listed(map(str, model.classes_))
    columns = _columns(model)
    if columns is not None:
        yield "needs", listed(columns, 20)
    changed = _changed(model)
    if changed:
        yield "parameters", changed
    yield "alpha", words.alpha_words(model)
    yield "score", words.score_words(model)
    yield "proof", words.certificate(model.report_)
    yield "work", words.work(model.report_)


def _columns(model: Any) -> list[str] | None:
    """The columns that new data have to have, if they have names."""
    encoding = getattr(model, "encoding_", None)
    if encoding is not None:
        return list(encoding.inputs)
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _changed(model: Any) -> str:
    """Parameters that are not the usual ones."""
    usual = type(model)().get_params(deep=False)
    given = model.get_params(deep=False)
    return ", ".join(
        f"{name}={given[name]!r}" for name in given if repr(given[name]) != repr(usual[name])
    )
