"""`ling inspect`: what is in a model file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ling.cli import model_summary
from ling.cli.console import CommandOutput
from ling.io.dataset import abbreviate_list
from ling.model_file import SavedModel, read_model_file


def run(path: Path, out: CommandOutput) -> None:
    """Open it, and tell."""
    saved = read_model_file(path)
    model = saved.model
    out.show(f"{path}: {type(model).__name__}, saved by ling {saved.ling_version}", style="bold")
    out.show_pairs(_describe_model_file(saved))
    out.show()
    target = Path(str(saved.about.get("target") or "the target")).name
    strongest = model_summary.strongest_effects(model)
    out.show(model_summary.effects_table(strongest, target))
    out.show()
    out.show(model_summary.explain_effects(strongest), style="dim")
    for note in model.report_.notes:
        out.show(note, style="dim")
    out.print_json(
        {
            **model_summary.model_as_dict(model),
            "ling": saved.ling_version,
            "about": saved.about,
            "parameters": {
                name: value
                if isinstance(value, bool | int | float | str | list | None)
                else str(value)
                for name, value in model.get_params(deep=False).items()
            },
            "columns": _required_columns(model),
        }
    )


def _describe_model_file(saved: SavedModel) -> Iterator[tuple[str, str]]:
    model, about = saved.model, saved.about
    yield from ((str(name), str(text)) for name, text in about.get("understood", {}).items())
    if "fitted" in about:
        yield "fitted", str(about["fitted"])
    if hasattr(model, "classes_"):
        yield "classes", abbreviate_list(map(str, model.classes_))
    columns = _required_columns(model)
    if columns is not None:
        yield "needs", abbreviate_list(columns, 20)
    changed = _changed_parameters(model)
    if changed:
        yield "parameters", changed
    yield "alpha", model_summary.describe_alpha(model)
    yield "score", model_summary.describe_score(model)
    yield "proof", model_summary.describe_certificate(model.report_)
    yield "work", model_summary.describe_work(model.report_)


def _required_columns(model: Any) -> list[str] | None:
    """The columns that new data have to have, if they have names."""
    encoding = getattr(model, "encoding_", None)
    if encoding is not None:
        return list(encoding.inputs)
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _changed_parameters(model: Any) -> str:
    """Parameters that are not the usual ones."""
    usual = type(model)().get_params(deep=False)
    given = model.get_params(deep=False)
    return ", ".join(
        f"{name}={given[name]!r}" for name in given if repr(given[name]) != repr(usual[name])
    )
