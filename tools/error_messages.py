"""Lists every message that ling can raise, in the wording of Python and of the command line.

    python tools/error_messages.py > tests/error_messages.txt

The messages are read from the source: a value that is known only when an error is raised is shown
as the expression in braces that computes it. An error whose class is chosen at run time is not
listed.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ling import errors
from ling.cli.error_wording import to_cli_wording

SOURCE = Path(__file__).parents[1] / "src" / "ling"
# Modules whose errors the commands do not meet: they are listed in the wording of Python only.
PYTHON_ONLY = (
    "paper/", "report/", "design/base.py", "design/affine.py", "design/dask/",
    "design/pass_cache.py", "estimators/metadata.py", "estimators/open_data.py",
    "estimators/out_of_sample.py", "estimators/partial_fit.py", "estimators/path.py",
    "estimators/uncertainty.py", "model_selection/splits.py", "reproduction/summary.py",
    "solvers/sufficient_statistics.py",
)  # fmt: skip


def list_messages() -> str:
    """All messages, by module."""
    parts = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        is_met_by_commands = not name.startswith(PYTHON_ONLY)
        messages = [_describe(error, is_met_by_commands) for error in _errors_in(path)]
        if messages:
            parts += [name, *messages, ""]
    return "\n".join(parts)


def errors_in_source() -> Iterator[errors.LingError]:
    """Every error that the source can raise."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield from _errors_in(path)


def _describe(error: errors.LingError, in_both_wordings: bool) -> str:
    lines = [f"  {type(error).__name__}: {error}"]
    if in_both_wordings and to_cli_wording(error) != " ".join(str(error).split()):
        lines.append(f"    $ {to_cli_wording(error)}")
    return "\n".join(lines)


def _errors_in(path: Path) -> Iterator[errors.LingError]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda call: call.lineno):
        kind = _error_class(call)
        if kind is not None:
            yield _make_error(kind, call, _import_module(path))


def _error_class(call: ast.Call) -> type[errors.LingError] | None:
    """The class of ling's errors that is called, or None."""
    known = getattr(errors, getattr(call.func, "id", ""), None)
    return known if isinstance(known, type) and issubclass(known, errors.LingError) else None


def _import_module(path: Path) -> ModuleType:
    name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    return importlib.import_module(name.removesuffix(".__init__"))


def _make_error(
    kind: type[errors.LingError], call: ast.Call, module: ModuleType
) -> errors.LingError:
    arguments = [_remedy(node, module) for node in call.args]
    if not issubclass(kind, errors.InvalidInputError):
        return kind(arguments[0])
    where = next((item.value for item in call.keywords if item.arg == "where"), None)
    return kind(*arguments, where=_place(where, module))  # type: ignore[arg-type]


def _remedy(node: ast.expr, module: ModuleType) -> str | errors.Change:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Change":
        parameter, value, *effect = node.args
        return errors.Change(
            _text(parameter, module), _value(value), *(_text(each, module) for each in effect)
        )
    return _text(node, module)


def _place(node: ast.expr | None, module: ModuleType) -> errors.Where | None:
    if node is None:
        return None
    if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Where"):
        return errors.Where(row="{row}", column=_Shown(ast.Name("column")))  # type: ignore[arg-type]
    positional = dict(zip(errors.Where._fields, node.args, strict=False))
    fields = positional | {item.arg: item.value for item in node.keywords if item.arg}
    return errors.Where(**{name: _Shown(value) for name, value in fields.items()})


def _value(node: ast.expr) -> object:
    """What a parameter is set to: a literal as it is, another expression in braces."""
    if isinstance(node, ast.List):
        return [_value(each) for each in node.elts]
    return node.value if isinstance(node, ast.Constant) else _Shown(node)


class _Shown:
    """An expression: a literal as it is, another one in braces."""

    def __init__(self, node: ast.expr) -> None:
        try:
            self.shown = repr(ast.literal_eval(node))
            self.plain = str(ast.literal_eval(node))
        except ValueError:
            self.shown = self.plain = "{" + ast.unparse(node) + "}"

    def __repr__(self) -> str:
        return self.shown

    def __str__(self) -> str:
        return self.plain


def _text(node: ast.expr, module: ModuleType) -> str:
    """The text of an expression, with what is not known in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, module) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, module)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, module) + _text(node.right, module)
    if isinstance(node, ast.Name) and isinstance(getattr(module, node.id, None), str):
        return str(getattr(module, node.id))
    return "{" + ast.unparse(node) + "}"


if __name__ == "__main__":
    sys.stdout.write(list_messages())
