"""What the wheel and the source distribution contain: `python tools/check_dist.py dist`."""

from __future__ import annotations

import argparse
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
#: The files of the package by suffix; the last is that of `py.typed`.
PACKAGE_SUFFIXES = {".py", ".html", ".css", ".js", ".typed"}
DATA_SUFFIXES = {".csv", ".data", ".feather", ".gz", ".npy", ".npz", ".parquet", ".pkl", ".zip"}
MAX_BYTES = 1_000_000
#: What somebody needs who builds, tests or redistributes ling.
NEEDED = {
    "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
    "benchmarks/ridge.json", "docs/conf.py", "noxfile.py", "pyproject.toml", "tests/reference.py",
    "tools/check_dist.py",
}  # fmt: skip


def package_files(root: Path) -> set[str]:
    """Files of the package in a checkout, as the wheel should contain them."""
    files = (root / "src" / "ling").rglob("*")
    return {
        file.relative_to(root / "src").as_posix()
        for file in files
        if file.suffix in PACKAGE_SUFFIXES
    }


def wheel_problems(wheel: Path, expected: set[str]) -> list[str]:
    """What a wheel contains besides the package, and what it lacks."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    extra, missing = names - metadata - expected, expected - names
    return [f"{wheel.name} contains {name}" for name in sorted(extra)] + [
        f"{wheel.name} lacks {name}" for name in sorted(missing)
    ]


def sdist_problems(sdist: Path, expected: set[str]) -> list[str]:
    """Data in a source distribution, and what it lacks."""
    with tarfile.open(sdist) as archive:
        sizes = {
            member.name.partition("/")[2]: member.size
            for member in archive.getmembers()
            if member.isfile()
        }
    data = (
        name
        for name, size in sizes.items()
        if size > MAX_BYTES or PurePosixPath(name).suffix in DATA_SUFFIXES
    )
    missing = (NEEDED | {f"src/{name}" for name in expected}) - sizes.keys()
    return [f"{sdist.name} contains data: {name}" for name in sorted(data)] + [
        f"{sdist.name} lacks {name}" for name in sorted(missing)
    ]


def problems(folder: Path, root: Path = ROOT, tag: str = "") -> list[str]:
    """Everything that is wrong with the distributions in a folder."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        return [f"{folder} has {len(wheels)} wheels and {len(sdists)} source distributions"]
    version = wheels[0].name.split("-")[1]
    wrong_tag = (
        [f"the tag is {tag}, and the version {version}"] if tag not in ("", f"v{version}") else []
    )
    expected = package_files(root)
    return wrong_tag + wheel_problems(wheels[0], expected) + sdist_problems(sdists[0], expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", default="", help="the tag of the release, like v0.1.0")
    arguments = parser.parse_args()
    sys.exit("\n".join(problems(arguments.folder, tag=arguments.tag)) or None)


if __name__ == "__main__":
    main()
