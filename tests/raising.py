"""`raises`: asserts on the fields of an error instead of on its wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ling.errors import Change, InvalidInputError


@contextmanager
def raises(
    kind: type[InvalidInputError],
    argument: str,
    *,
    change: tuple[str, object] | None = None,
    mentions: str | None = None,
    **where: Any,
) -> Iterator[pytest.ExceptionInfo[InvalidInputError]]:
    """Expect exactly this `kind` of error about `argument`.

    `change` is a (parameter, value) that has to be among its remedies, `mentions` is a value from
    the data or a phrase that other software relies on and has to be in the message, and `where`
    are fields of the place.
    """
    with pytest.raises(kind) as info:
        yield info
    error = info.value
    assert type(error) is kind, error
    assert error.argument == argument, error
    changes = [remedy[:2] for remedy in error.remedies if isinstance(remedy, Change)]
    assert change is None or change in changes, error
    assert mentions is None or mentions in str(error), error
    for name, value in where.items():
        assert getattr(error.where, name) == value, f"{name} of {error!r} is not {value!r}"
