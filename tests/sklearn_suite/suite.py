"""scikit-learn's own tests, run on classes of ours: a suite is a module of theirs and a mapping."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import TypeVar
from unittest import mock

import pytest

T = TypeVar("T")


@dataclass(frozen=True)
class Suite:
    """The tests of `module` that use a name in `classes`, with our class in its place.

    `excluded` maps the name of a test, or its name with parameters, to the reason why it says
    nothing about ours, and `changed` a piece of their source to what stands there instead and why.
    Of a test with more than `max_cases` combinations of parameters, every pair of values is run.
    """

    module: str
    classes: Mapping[str, type]
    excluded: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    max_cases: int = 24

    @property
    def source(self) -> str:
        """Theirs, as installed."""
        return inspect.getsource(importlib.import_module(self.module))

    def load(self) -> ModuleType:
        """Their module under another name, made anew from the changed source."""
        original = importlib.import_module(self.module)  # also imports all that it imports
        source = self.source
        for theirs, (ours, _) in self.changed.items():
            source = source.replace(theirs, ours)
        module = ModuleType(f"{__package__}.{self.module.rpartition('.')[2]}_of_sklearn")
        module.__file__ = original.__file__
        sys.modules[module.__name__] = module
        package = importlib.import_module("sklearn.linear_model")
        with ExitStack() as stack:
            for name, ours in self.classes.items():
                stack.enter_context(mock.patch.object(package, name, ours))
            exec(compile(source, original.__file__, "exec"), module.__dict__)
        for found in vars(module).values():
            list_parameters(found)
        return module

    def tests(self) -> dict[str, object]:
        """Their tests and fixtures, by name, as a test module would define them."""
        return {
            name: found
            for name, found in vars(self.load()).items()
            if name.startswith("test_") or "fixture" in type(found).__name__.lower()
        }

    def wants(self, function: FunctionType, parameters: Mapping[str, object]) -> bool:
        """Whether a test, called with these parameters, can get at one of our classes."""
        return any(self._uses(thing) for thing in (function, *parameters.values()))

    def _uses(self, thing: object) -> bool:
        if isinstance(thing, type):
            return thing in self.classes.values()
        if not isinstance(thing, FunctionType):
            return type(thing) in self.classes.values()
        named = _names(inspect.unwrap(thing).__code__)
        return any(
            name in self.classes or self._is_helper(thing.__globals__.get(name)) for name in named
        )

    def _is_helper(self, thing: object) -> bool:
        """Whether it is a function of the same module that uses one of our classes."""
        return (
            isinstance(thing, FunctionType)
            and thing.__module__.endswith("_of_sklearn")
            and self._uses(thing)
        )


def list_parameters(test: T) -> T:
    """Turn parameters that are a generator, of which pytest 9 warns, into a list."""
    marks = getattr(test, "pytestmark", [])
    for at, mark in enumerate(marks):
        if mark.name == "parametrize" and not isinstance(mark.args[1], Collection):
            names, values = mark.args
            marks[at] = pytest.mark.parametrize(names, list(values), **mark.kwargs).mark
    return test


def _names(code: CodeType) -> set[str]:
    """All global names and attributes that a function mentions, those of inner functions too."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
