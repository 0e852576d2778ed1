"""Files appear whole or not at all."""

import errno
import os
import stat

import pytest

from ling.atomic_write import atomic_write, check_writable, temporary_target
from ling.errors import FileWriteError


def test_what_was_written_is_there(tmp_path):
    target = tmp_path / "a.txt"
    for text in ("one", "two"):
        with atomic_write(target) as part:
            part.write_text(text)
            assert part.parent == tmp_path
            assert not target.exists() or target.read_text() != text
        assert target.read_text() == text
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(fault, tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("before")

    def fail():
        with atomic_write(target) as part:
            part.write_text("half")
            raise fault

    with pytest.raises(fault):
        fail()
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.fixture
def disk_calls(monkeypatch):
    """What `atomic_write` asks the system for, in order; flushing a folder may be made to fail."""
    calls, fail_with = [], []
    fsync, replace = os.fsync, os.replace

    def flush(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("flush folder" if is_folder else "flush file")
        if is_folder and fail_with:
            raise OSError(fail_with[0], os.strerror(fail_with[0]))
        fsync(descriptor)

    def rename(old, new):
        calls.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    return calls, fail_with


def write_text(target, text):
    with atomic_write(target) as part:
        part.write_text(text)


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="the system does not open folders")
def test_the_folder_is_flushed_after_the_file_is_in_place(disk_calls, tmp_path):
    write_text(tmp_path / "a.txt", "all")
    assert disk_calls[0] == ["flush file", "rename", "flush folder"]


def test_systems_that_do_not_open_folders(disk_calls, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_DIRECTORY", raising=False)
    write_text(tmp_path / "a.txt", "all")
    assert disk_calls[0] == ["flush file", "rename"]


def test_folders_that_cannot_be_flushed(disk_calls, tmp_path):
    disk_calls[1].append(errno.EINVAL)
    write_text(tmp_path / "a.txt", "all")
    assert (tmp_path / "a.txt").read_text() == "all"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="the system does not open folders")
def test_a_disk_that_fails_while_it_is_flushed(disk_calls, tmp_path):
    disk_calls[1].append(errno.EIO)
    with pytest.raises(FileWriteError, match=r"a\.txt"):
        write_text(tmp_path / "a.txt", "all")


def test_links_stay_links(tmp_path):
    (tmp_path / "a.txt").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    with atomic_write(tmp_path / "link") as part:
        part.write_text("after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a.txt").read_text() == "after"


def test_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    with atomic_write(tmp_path / "whole") as part:
        part.write_text("")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize(
    ("name", "advice"),
    [(".", "is a folder"), ("no/a.txt", "does not exist"), ("/dev/null", "not a regular file")],
)
def test_places_that_cannot_be_written(name, advice, tmp_path):
    with pytest.raises(FileWriteError, match=advice):
        check_writable(tmp_path / name)
    with pytest.raises(OSError, match=advice), atomic_write(tmp_path / name):
        raise AssertionError("it was opened")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_of_others(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FileWriteError, match="not yours"):
        check_writable(tmp_path / "a.txt")


def test_a_full_disk_names_the_file(tmp_path):
    with (
        pytest.raises(FileWriteError, match=r"a.txt' cannot be written: No space"),
        atomic_write(tmp_path / "a.txt"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())


def test_what_fails_to_be_read_meanwhile_is_not_taken_for_the_file(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "a.txt"):
        (tmp_path / "other.txt").read_text()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder that only seems writable")
def test_folders_that_only_seem_writable():
    with pytest.raises(FileWriteError, match=r"'/proc/x\.ling' cannot be written"):
        check_writable("/proc/x.ling")


def test_what_is_private_stays_so(tmp_path):
    target = tmp_path / "private"
    target.write_text("before")
    target.chmod(0o600)
    with atomic_write(target) as part:
        part.write_text("after")
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["a.txt", ".hidden", "with\nline", "ö"])
def test_temporary_names_are_recognised(name, tmp_path):
    with atomic_write(tmp_path / name) as part:
        part.write_text("")
        assert temporary_target(part.name) == name


@pytest.mark.parametrize(
    "name", ["film.part", ".film.part", ".a.12-0123abc.part", "a.12-0123abcd.part", ".a.part.txt"]
)
def test_temporary_names_of_others_are_not(name):
    assert temporary_target(name) is None
