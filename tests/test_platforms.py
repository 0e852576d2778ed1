"""Systems that lack what Linux has: each call that is not everywhere has a fallback."""

import math
import mmap
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ling.design.pass_cache import PassCache
from ling.errors import CheckpointError
from ling.io import scan_npy
from ling.solvers.machine import parse_memory_budget
from ling.solvers.memory_limits import memory_limit
from tests.raising import raises


def test_without_sysconf_the_machine_has_8_gb(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setitem(sys.modules, "resource", None)
    assert parse_memory_budget(None, root=tmp_path) == 2e9


def test_without_proc_and_resource_there_is_no_limit(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert memory_limit(tmp_path) == math.inf


def test_resource_without_a_limit_on_the_address_space(monkeypatch, tmp_path):
    limited = SimpleNamespace(RLIMIT_DATA=2, RLIM_INFINITY=-1, getrlimit=lambda which: (7e8, -1))
    monkeypatch.setitem(sys.modules, "resource", limited)
    assert memory_limit(tmp_path) == 7e8


def test_without_advice_for_memory_maps(monkeypatch, tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.delattr(mmap, "MADV_WILLNEED", raising=False)
    np.testing.assert_array_equal(scan_npy(tmp_path / "X.npy").X.take(np.arange(4)), X)
    blocks = scan_npy(tmp_path / "X.npy").X.source.blocks(slice(0, 4), 2)
    np.testing.assert_array_equal(np.vstack(list(blocks)), X)


@pytest.mark.processes
def test_without_fork():
    code = (
        "import os\n"
        "for name in ('fork', 'register_at_fork'):\n"
        "    if hasattr(os, name): delattr(os, name)\n"
        "import numpy as np\n"
        "from ling.linalg.threads import parallel_map\n"
        "print(parallel_map(abs, [-1, -2]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 2]\n"


def open_cache(folder):
    return PassCache.open(folder, {"data": 1}, lambda: {"seed": 0})


class Msvcrt:
    """Windows' locks: a second one on the same file is an error, whoever holds the first."""

    LK_NBLCK = 2

    def __init__(self):
        self.locked = set()

    def locking(self, number, mode, n_bytes):
        assert (mode, n_bytes) == (self.LK_NBLCK, 1)
        file = os.fstat(number).st_ino
        if file in self.locked:
            raise OSError("permission denied")
        self.locked.add(file)


def test_checkpoints_are_locked_on_windows(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Msvcrt())
    cache = open_cache(tmp_path / "kept")
    with raises(CheckpointError, "checkpoint", file=str(tmp_path / "kept"), mentions="in use"):
        open_cache(tmp_path / "kept")
    cache.delete()
    assert not (tmp_path / "kept").exists()


def test_checkpoints_without_any_lock(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    cache = open_cache(tmp_path / "kept")
    open_cache(tmp_path / "kept").release_lock()
    cache.delete()
    assert not (tmp_path / "kept").exists()


def test_checkpoints_where_open_files_cannot_be_deleted(monkeypatch, tmp_path):
    cache = open_cache(tmp_path / "kept")
    unlink = Path.unlink

    def unlink_closed(path, missing_ok=False):
        if path.name == Path(cache.lock.name).name and not cache.lock.closed:
            raise PermissionError("the file is used by another process")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_closed)
    cache.delete()
    assert not (tmp_path / "kept").exists()
