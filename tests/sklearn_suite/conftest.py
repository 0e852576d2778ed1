"""Applies a suite: what a module's SUITE does not want is dropped, what it excludes skipped."""

from collections import defaultdict

import pytest

from tests.pairwise import every_pair


@pytest.fixture
def global_random_seed():
    """scikit-learn's tests run for many; one is enough here."""
    return 42


def pytest_collection_modifyitems(config, items):
    dropped = {item for item in items if not _wanted(item)}
    dropped |= _thinned_out([i for i in items if _suite(i) and not _reason(i) and i not in dropped])
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]
    for item in items:
        if reason := _reason(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def _wanted(item):
    suite = _suite(item)
    return suite is None or suite.wants(item.function, _parameters(item))


def _thinned_out(items):
    """All but every pair of parameters of the tests that have many."""
    dropped, by_test = set(), defaultdict(list)
    for item in items:
        by_test[item.originalname].append(item)
    for cases in by_test.values():
        if len(cases) > _suite(cases[0]).max_cases:
            kept = every_pair([item.name.split("-") for item in cases])
            dropped.update(item for i, item in enumerate(cases) if i not in kept)
    return dropped


def _reason(item):
    suite = _suite(item)
    if suite is None:
        return None
    return suite.excluded.get(item.name) or suite.excluded.get(item.originalname)


def _parameters(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


def _suite(item):
    """The suite that a test comes from, if it is one of scikit-learn's."""
    theirs = getattr(getattr(item, "function", None), "__module__", "").endswith("_of_sklearn")
    return item.module.SUITE if theirs else None
