"""Applies a suite: what a module's SUITE does not want is dropped, what it excludes skipped."""

import pytest


@pytest.fixture
def global_random_seed():
    """scikit-learn's tests run for many; one is enough here."""
    return 42


def pytest_collection_modifyitems(config, items):
    dropped = [item for item in items if not _wanted(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]
    for item in items:
        if reason := _reason(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def _wanted(item):
    suite = _suite(item)
    if suite is None:
        return True
    return not suite.is_thinned_out(item.name) and suite.wants(item.function, _parameters(item))


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
