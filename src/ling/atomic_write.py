"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ling.errors import CannotWrite

#: What ends the name of a file that is being written.
PARTIAL_SUFFIX = ".part"
# What only writing can fail with, whoever says so.
WRITE_ONLY_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# Exactly the names that `_temporary_path` makes; other programs write ".part" files, too.
TEMPORARY_NAME_PATTERN = re.compile(
    rf"\.(?P<target>.+)\.[0-9]+-[0-9a-f]{{8}}{re.escape(PARTIAL_SUFFIX)}", re.DOTALL
)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write to, beside `path`: it becomes `path` if all goes well, and is gone if not.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp(), "numbers.txt")
    >>> with atomic_write(target) as part:
    ...     _ = part.write_text("1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    check_writable(path)
    # What a link leads to is replaced, not the link.
    target = Path(os.path.realpath(path))
    part = _temporary_path(target)
    try:
        yield part
        with part.open("r+b") as written:
            os.fsync(written.fileno())
        if target.exists():  # what is private stays so
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except OSError as error:
        # What is read meanwhile may fail too, and is not to be taken for this file.
        if error.errno in WRITE_ONLY_ERRNOS or error.filename in (str(part), part):
            raise _cannot_write_error(path, error) from error
        raise
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
    # Some folders say that they can be written to, and cannot.
    probe = _temporary_path(target)
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _cannot_write_error(path, error) from error


def temporary_target(name: str) -> str | None:
    """Name of the file that a temporary file of `atomic_write` was to become.

    None if `atomic_write` does not make such names.

    >>> temporary_target(".a.txt.4711-0123abcd.part")
    'a.txt'
    >>> temporary_target("film.part") is None
    True
    """
    match = TEMPORARY_NAME_PATTERN.fullmatch(name)
    return None if match is None else match["target"]


def _temporary_path(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{PARTIAL_SUFFIX}")


def _cannot_write_error(path: str | os.PathLike[str], error: OSError) -> CannotWrite:
    # Other libraries have words of their own, as long as they like.
    reason = str(error) if error.errno is None else os.strerror(error.errno)
    return CannotWrite(f"{os.fspath(path)!r} cannot be written: {reason}.")
