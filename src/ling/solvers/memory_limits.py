"""How much memory this process may use: its control groups and its resource limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# Files of a control group, by the type of file system it is mounted as: the limits, what is in use,
# and the fields of memory.stat with the page cache, which the kernel takes back.
_LIMIT_FILES = {"cgroup2": ("memory.max", "memory.high"), "cgroup": ("memory.limit_in_bytes",)}
_USAGE_FILE = {"cgroup2": "memory.current", "cgroup": "memory.usage_in_bytes"}
_CACHE_FIELDS = {
    "cgroup2": ("inactive_file", "active_file"),
    "cgroup": ("total_inactive_file", "total_active_file"),
}


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that may be used in all, and those that are not in use yet; inf without a limit."""

    total: float = float("inf")
    free: float = float("inf")

    def __and__(self, other: MemoryLimit) -> MemoryLimit:
        return MemoryLimit(min(self.total, other.total), min(self.free, other.free))


def memory_limit(root: str | Path = "/") -> MemoryLimit:
    """The tightest limit on this process: of its control groups, and of `ulimit -v` and `-d`.

    `root` is the folder that holds /proc and /sys.
    """
    return _cgroup_limit(Path(root)) & _resource_limit()


def _cgroup_limit(root: Path) -> MemoryLimit:
    """The tightest limit of the process's control group and of all groups that contain it.

    Version 1 and version 2 may both be mounted. Whatever cannot be read sets no limit.
    """
    limit = MemoryLimit()
    paths = _cgroup_paths(_read(root / "proc/self/cgroup"))
    for kind, mounted_path, mount_point in _cgroup_mounts(_read(root / "proc/self/mountinfo")):
        if kind in paths:
            mount = root / mount_point.lstrip("/")
            for folder in _with_parents(mount, _inside(paths[kind], mounted_path)):
                limit &= _folder_limit(folder, kind)
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


def _folder_limit(folder: Path, kind: str) -> MemoryLimit:
    """The limit of one group. What it uses includes page cache, part of which counts as free."""
    limits = [_number(_read(folder / name)) for name in _LIMIT_FILES[kind]]
    total = min((limit for limit in limits if limit is not None), default=None)
    if total is None:
        return MemoryLimit()
    used = _number(_read(folder / _USAGE_FILE[kind])) or 0.0
    fields = dict(re.findall(r"^(\w+) (\d+)$", _read(folder / "memory.stat"), re.MULTILINE))
    cached = sum(float(fields.get(name, 0)) for name in _CACHE_FIELDS[kind])
    return MemoryLimit(total, max(0.0, total - max(0.0, used - cached)))


def _number(text: str) -> float | None:
    """Bytes; None for "max" and for what is not a number."""
    return float(text) if re.fullmatch(r"\d+\s*", text) else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _resource_limit() -> MemoryLimit:
    """The limits on the address space and on the data segment, and what is left of them."""
    try:
        import resource
    except ImportError:  # not a Unix
        return MemoryLimit()
    fields = _read(Path("/proc/self/statm")).split()
    limit = MemoryLimit()
    for name, field in (("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)):
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY:
            used = float(fields[field]) * resource.getpagesize() if len(fields) > field else 0.0
            limit &= MemoryLimit(float(soft), max(0.0, soft - used))
    return limit
