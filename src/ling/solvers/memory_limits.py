"""How much memory this process may use: its control groups and its resource limits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Files with the limits of a control group, by the type of file system that it is mounted as.
_LIMIT_FILES = {"cgroup2": ("memory.max", "memory.high"), "cgroup": ("memory.limit_in_bytes",)}


def memory_limit(root: str | Path = "/") -> float:
    """The tightest limit on this process in bytes; infinite if there is none.

    Limits are those of its control groups, and of `ulimit -v` and `-d`. `root` is the folder that
    holds /proc and /sys.
    """
    return min(_cgroup_limit(Path(root)), _resource_limit())


def _cgroup_limit(root: Path) -> float:
    """The tightest limit in bytes of the process's control group and of all groups around it.

    Version 1 and version 2 may both be mounted. Whatever cannot be read sets no limit.
    """
    limit = math.inf
    paths = _cgroup_paths(_read(root / "proc/self/cgroup"))
    for kind, mounted_path, mount_point in _cgroup_mounts(_read(root / "proc/self/mountinfo")):
        if kind in paths:
            mount = root / mount_point.lstrip("/")
            for folder in _with_parents(mount, _inside(paths[kind], mounted_path)):
                limit = min(limit, _folder_limit(folder, kind))
    return limit


def _cgroup_paths(text: str) -> dict[str, str]:
    """The path of the group that accounts for memory, in each version: lines `id:controllers:path`.

    Version 2 is the line `0::path`.
    """
    paths = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            paths["cgroup2"] = path
        elif "memory" in controllers.split(","):
            paths["cgroup"] = path
    return paths


def _cgroup_mounts(text: str) -> Iterator[tuple[str, str, str]]:
    """Type, path inside the hierarchy and mount point of the hierarchies that may limit memory.

    Lines are `id parent device path mount_point options [tags...] - type source super_options`.
    """
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        mount, about = before.split(" "), after.split(" ")
        if len(mount) < 5 or len(about) < 3:
            continue
        kind, options = about[0], about[2].split(",")
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options):
            yield kind, _unescape(mount[3]), _unescape(mount[4])


def _unescape(path: str) -> str:
    """Blanks and the like are written as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _inside(path: str, mounted_path: str) -> PurePosixPath:
    """The group's folder relative to the mount point, of which only `mounted_path` may be seen.

    Containers often mount their own group alone. A group that is not below the mount point is
    looked for at the mount point itself.
    """
    try:
        return PurePosixPath(path).relative_to(mounted_path)
    except ValueError:
        return PurePosixPath()


def _with_parents(mount: Path, inside: PurePosixPath) -> Iterator[Path]:
    """The folder of a group and those of all groups around it, up to the mount point."""
    if ".." in inside.parts:  # a group outside of what this process can see
        inside = PurePosixPath()
    for folder in (inside, *inside.parents):
        yield mount / folder


def _folder_limit(folder: Path, kind: str) -> float:
    """The limit of one group in bytes; infinite if it has none."""
    limits = [_number(_read(folder / name)) for name in _LIMIT_FILES[kind]]
    return min((limit for limit in limits if limit is not None), default=math.inf)


def _number(text: str) -> float | None:
    """Bytes; None for "max" and for what is not a number."""
    return float(text) if re.fullmatch(r"\d+\s*", text) else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _resource_limit() -> float:
    """The smaller of the limits on the address space and on the data segment, in bytes."""
    try:
        import resource
    except ImportError:  # not a Unix
        return math.inf
    soft_limits = (resource.getrlimit(getattr(resource, name))[0]
                   for name in ("RLIMIT_AS", "RLIMIT_DATA"))  # fmt: skip
    return min((float(soft) for soft in soft_limits if soft != resource.RLIM_INFINITY),
               default=math.inf)  # fmt: skip
