"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ling.errors import CannotWrite

#: What ends the name of a file that is being written.
PART = ".part"


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write to, beside `path`: it becomes `path` if all goes well, and is gone if not.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp(), "numbers.txt")
    >>> with whole(target) as part:
    ...     _ = part.write_text("1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    check_writable(path)
    # What a link leads to is replaced, not the link.
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{PART}")
    try:
        yield part
        with part.open("r+b") as written:
            os.fsync(written.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """An error now, rather than after an hour of work, if a file cannot be written there."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise CannotWrite(f"{os.fspath(path)!r} is a folder; pass the name of a file.")
    if target.exists() and not target.is_file():
        raise CannotWrite(f"{os.fspath(path)!r} is no ordinary file; pass the name of one.")
    if not target.parent.is_dir():
        raise CannotWrite(f"{os.fspath(path)!r} cannot be written: there is no such folder.")
    if not os.access(target.parent, os.W_OK):
        raise CannotWrite(
            f"{os.fspath(path)!r} cannot be written: its folder is not yours to write to."
        )
