"""Kernels compiled by numba, kept on disk where that is possible."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from numba import njit

log = logging.getLogger("ling")


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: `numba.njit` with these options, without the GIL, cached on disk if possible.

    Without a folder to cache in (a read-only installation and no home folder, say), numba refuses
    to decorate; a full disk or a damaged cache make it fail at the first call. All of these mean
    that the kernel is compiled anew in every process, which takes seconds, and is logged.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            if not _cache_folder_has_name():
                raise OSError("there is no home folder; set NUMBA_CACHE_DIR to a folder")
            kernel = njit(nogil=True, error_model="numpy", cache=True, **options)(function)
        except (RuntimeError, OSError) as error:  # numba: "no locator available"
            _log_uncached(str(error))
            return njit(nogil=True, error_model="numpy", **options)(function)
        if hasattr(kernel, "_cache"):  # not with NUMBA_DISABLE_JIT
            kernel._cache = _FaultTolerantCache(kernel._cache)
        return kernel

    return decorate


def _cache_folder_has_name() -> bool:
    """Whether there is a home folder; numba would create one named "~" in the working directory."""
    given = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return bool(given) or os.path.isabs(os.path.expanduser("~"))


class _FaultTolerantCache:
    """numba's cache of one kernel, for which a failure to read or to write is a miss."""

    def __init__(self, disk_cache: Any) -> None:
        self._disk_cache = disk_cache

    def __getattr__(self, name: str) -> Any:
        if name == "_disk_cache":  # of a copy that is not filled in yet
            raise AttributeError(name)
        return getattr(self._disk_cache, name)

    # Damaged files make pickle raise nearly anything.
    def load_overload(self, *args: Any) -> Any:
        """The compiled function; None if there is none that can be read."""
        try:
            return self._disk_cache.load_overload(*args)
        except Exception as error:
            _log_uncached(f"the cache cannot be read: {error!r}")
            self._clear()
            return None

    def save_overload(self, *args: Any) -> None:
        """Keep the compiled function, if that is possible."""
        try:
            self._disk_cache.save_overload(*args)
        except Exception as error:
            _log_uncached(f"the cache cannot be written: {error!r}")

    def _clear(self) -> None:
        """Empty the index, so that the next process does not find the damage again."""
        try:
            self._disk_cache.flush()
        except Exception:
            log.debug("the index of compiled kernels cannot be emptied", exc_info=True)


@cache
def _log_uncached(reason: str) -> None:
    log.info("compiled kernels are not cached on disk: %s", reason)
