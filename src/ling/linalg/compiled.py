"""Kernels compiled by numba, cached on disk where that is possible."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from numba import njit

log = logging.getLogger("ling")


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: `numba.njit` with these options, without the GIL, cached on disk if possible.

    Without a folder for the cache (a read-only installation and no home folder, for example), numba
    raises when it decorates. With a full disk or a damaged cache it raises at the first call. In
    all of these cases the kernel is compiled anew in every process, which takes seconds and is
    logged.
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
    """True if numba has an absolute cache folder.

    Without a home folder, numba would create one named "~" in the working directory.
    """
    configured = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return bool(configured) or os.path.isabs(os.path.expanduser("~"))


class _FaultTolerantCache:
    """numba's cache of one kernel, in which a failure to read or write counts as a miss."""

    def __init__(self, disk_cache: Any) -> None:
        self._disk_cache = disk_cache

    def __getattr__(self, name: str) -> Any:
        if name == "_disk_cache":  # a copy whose attributes are not set yet
            raise AttributeError(name)
        return getattr(self._disk_cache, name)

    # pickle may raise almost any exception on damaged files, hence `except Exception`.
    def load_overload(self, *args: Any) -> Any:
        """The compiled function from the cache; None if none can be read."""
        try:
            return self._disk_cache.load_overload(*args)
        except Exception as error:
            _log_uncached(f"the cache cannot be read: {error!r}")
            self._clear()
            return None

    def save_overload(self, *args: Any) -> None:
        """Write the compiled function to the cache; a failure is logged, not raised."""
        try:
            self._disk_cache.save_overload(*args)
        except Exception as error:
            _log_uncached(f"the cache cannot be written: {error!r}")

    def _clear(self) -> None:
        """Empty the index of the cache, so that the next process does not read the damage again."""
        try:
            self._disk_cache.flush()
        except Exception:
            log.debug("the index of compiled kernels cannot be emptied", exc_info=True)


@cache
def _log_uncached(reason: str) -> None:
    log.info("compiled kernels are not cached on disk: %s", reason)
