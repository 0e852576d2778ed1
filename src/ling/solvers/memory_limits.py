"""Memory limits of this process, from its control groups (cgroups) and its resource limits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Files with the memory limits of a control group, by the file system type of its mount.
_LIMIT_FILES = {"cgroup2": ("memory.max", "memory.high"), "cgroup": ("memory.limit_in_bytes",)}


def memory_limit(root: str | Path = "/") -> float:
    """The smallest memory limit of this process in bytes; infinite if there is none.

    Limits are set by its control groups and by `ulimit -v` and `ulimit -d`. `root` is the folder
    that contains proc and sys.
    """
    return min(_cgroup_limit(Path(root)), _resource_limit())


def _cgroup_limit(root: Path) -> float:
    """The smallest limit in bytes of the process's control group and all groups that contain it.

    Versions 1 and 2 of control groups may both be mounted. A file that cannot be read sets no
    limit.
    """
    limit = math.inf
    paths = _cgroup_paths(_read(root / "proc/self/cgroup"))
    for kind, mounted_path, mount_point in _cgroup_mounts(_read(root / "proc/self/mountinfo")):
        if kind in paths:
            mount = root / mount_point.lstrip("/")
            for folder in _with_parents(mount, _relative_to_mount(paths[kind], mounted_path)):
                limit = min(limit, _folder_limit(folder, kind))
    return limit


def _cgroup_paths(text: str) -> dict[str, str]:
    """Paths of the process's memory control groups, by version, from /proc/self/cgroup.

    Lines are `id:controllers:path`; version 2 has the line `0::path`. See cgroups(7).
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
    """Yield (type, mounted path, mount point) of hierarchies that may limit memory.

    `text` is /proc/self/mountinfo; see proc(5). Its lines are `id parent device path mount_point
    options [tags...] - type source super_options`.
    """
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        mount, filesystem = before.split(" "), after.split(" ")
        if len(mount) < 5 or len(filesystem) < 3:
            continue
        kind, options = filesystem[0], filesystem[2].split(",")
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options):
            yield kind, _unescape(mount[3]), _unescape(mount[4])


def _unescape(path: str) -> str:
    """The path with octal escapes replaced, in which mountinfo writes blanks and the like."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _relative_to_mount(path: str, mounted_path: str) -> PurePosixPath:
    """The folder of the group `path` relative to the mount point, which shows `mounted_path`.

    Containers often mount only their own group. For a group that is not below `mounted_path` this
    is the mount point itself.
    """
    try:
        return PurePosixPath(path).relative_to(mounted_path)
    except ValueError:
        return PurePosixPath()


def _with_parents(mount: Path, group: PurePosixPath) -> Iterator[Path]:
    """Yield the folder of a group and those of all groups that contain it, up to the mount point.

    `group` is relative to the mount point.
    """
    if ".." in group.parts:  # the group is outside of the process's cgroup namespace
        group = PurePosixPath()
    for folder in (group, *group.parents):
        yield mount / folder


def _folder_limit(folder: Path, kind: str) -> float:
    """The smallest limit of one group in bytes; infinite if it has none."""
    limits = [_parse_bytes(_read(folder / name)) for name in _LIMIT_FILES[kind]]
    return min((limit for limit in limits if limit is not None), default=math.inf)


def _parse_bytes(text: str) -> float | None:
    """The number in a limit file; None for "max" and for any other text."""
    return float(text) if re.fullmatch(r"\d+\s*", text) else None


def _read(file: Path) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _resource_limit() -> float:
    """The smaller of the limits on the address space and on the data segment, in bytes."""
    try:
        import resource
    except ImportError:  # Windows has no such module
        return math.inf
    soft_limits = (resource.getrlimit(getattr(resource, name))[0]
                   for name in ("RLIMIT_AS", "RLIMIT_DATA") if hasattr(resource, name))  # fmt: skip
    return min((float(soft) for soft in soft_limits if soft != resource.RLIM_INFINITY),
               default=math.inf)  # fmt: skip
