"""Rules of the code base that no linter checks."""

import ast
from pathlib import Path

import ling

SOURCE = Path(ling.__file__).parent
TEXTS = {
    file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8")
    for file in sorted(SOURCE.rglob("*.py"))
}
MAX_LINES = 500
#: Where bytes may be compared with a memory budget.
BUDGET_FILES = {"solvers/memory_budget.py", "solvers/planning.py"}
#: The only context variable holds the listeners of `ling.progress.watch`.
CONTEXT_FILES = {"progress.py"}


def compares_budget(node):
    if not isinstance(node, ast.Compare):
        return False
    ordered = any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
    return ordered and "memory_budget" in ast.unparse(node)


def test_files_are_short():
    assert not {name for name, text in TEXTS.items() if len(text.splitlines()) > MAX_LINES}


def test_bytes_are_compared_with_a_budget_in_the_cost_model_only():
    found = {
        f"{name}:{node.lineno}"
        for name, text in TEXTS.items()
        for node in ast.walk(ast.parse(text))
        if name not in BUDGET_FILES and compares_budget(node)
    }
    assert not found


def test_state_does_not_travel_in_context_variables():
    assert {name for name, text in TEXTS.items() if "ContextVar" in text} == CONTEXT_FILES
