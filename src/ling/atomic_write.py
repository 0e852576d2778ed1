"""Atomic writing of files: a file appears complete or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ling.errors import FileWriteError

#: Suffix of the temporary file while it is being written.
PARTIAL_SUFFIX = ".part"
# Error numbers that only writing can cause, whichever library raises the error.
WRITE_ONLY_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# Error numbers of folders that cannot be flushed although files in them can: those of some network
# file systems, and those that may be written to but not read.
NO_FOLDER_FLUSH_ERRNOS = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EPERM)
# Matches exactly the names that `_temporary_path` creates, because other programs write ".part"
# files, too.
TEMPORARY_NAME_PATTERN = re.compile(
    rf"\.(?P<target>.+)\.[0-9]+-[0-9a-f]{{8}}{re.escape(PARTIAL_SUFFIX)}", re.DOTALL
)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Context manager that yields a temporary path, which replaces `path` on success.

    The temporary file lies in the same folder. It is deleted if the block raises an exception.
    File and folder are flushed to the disk, so that the file is there after a loss of power too.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp(), "numbers.txt")
    >>> with atomic_write(target) as part:
    ...     _ = part.write_text("1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    check_writable(path)
    # Replace the target of a symbolic link, not the link itself.
    target = Path(os.path.realpath(path))
    part = _temporary_path(target)
    try:
        try:
            yield part
        except OSError as error:
            # The block may also read other files. Their errors must not be reported as errors of
            # this one.
            if error.errno in WRITE_ONLY_ERRNOS or error.filename in (str(part), part):
                raise _cannot_write_error(path, error) from error
            raise
        try:
            _put_in_place(part, target)
        except OSError as error:
            raise _cannot_write_error(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def _put_in_place(part: Path, target: Path) -> None:
    """Give the temporary file the name `target`, and flush both to the disk."""
    with part.open("r+b") as temporary_file:
        os.fsync(temporary_file.fileno())
    if target.exists():  # keep its permissions, so that a private file stays private
        part.chmod(stat.S_IMODE(target.stat().st_mode))
    part.replace(target)
    _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk, where the system can do that.

    Without it a file that was renamed may have its old content, or none, after a loss of power.
    """
    if not hasattr(os, "O_DIRECTORY"):  # Windows does not open folders
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDER_FLUSH_ERRNOS:
            raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `FileWriteError` if no file can be written at `path`.

    Called before a long computation, it reports the error early.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileWriteError(f"{os.fspath(path)!r} is a folder; pass the name of a file.")
    if target.exists() and not target.is_file():
        raise FileWriteError(f"{os.fspath(path)!r} is not a regular file; pass another name.")
    if not target.parent.is_dir():
        raise FileWriteError(
            f"{os.fspath(path)!r} cannot be written: its folder does not exist; create it first."
        )
    if not os.access(target.parent, os.W_OK):
        raise FileWriteError(
            f"{os.fspath(path)!r} cannot be written: permission denied for its folder."
        )
    # Some folders pass `os.access` although they cannot be written to.
    probe = _temporary_path(target)
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _cannot_write_error(path, error) from error


def temporary_target(name: str) -> str | None:
    """Name of the file that the temporary file `name` of `atomic_write` would have replaced.

    None if `name` is not a name that `atomic_write` creates.

    >>> temporary_target(".a.txt.4711-0123abcd.part")
    'a.txt'
    >>> temporary_target("film.part") is None
    True
    """
    match = TEMPORARY_NAME_PATTERN.fullmatch(name)
    return None if match is None else match["target"]


def _temporary_path(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{PARTIAL_SUFFIX}")


def _cannot_write_error(path: str | os.PathLike[str], error: OSError) -> FileWriteError:
    # The system's text is used if there is an error number, because messages of other libraries
    # may be long.
    reason = str(error) if error.errno is None else os.strerror(error.errno)
    return FileWriteError(f"{os.fspath(path)!r} cannot be written: {reason}.")
