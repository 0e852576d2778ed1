"""The two real data sets of the paper, from files the user has or from the UCI archive.

A loader looks in the folder `$LING_DATA`, then in the user's cache, then downloads; and it says
which variant of the data it found, because the originals are not always to be had:

- `load_gisette`, "full": `gisette_train.data` and `gisette_train.labels`, as UCI publishes them;
  "first1000": `gisette_first1000.npz` with X (6000, 1000) and y; "surrogate": `mnist49.npz`,
  MNIST's 4s and 9s, made into a Gisette-style design.
- `load_buzz`, "full": `Twitter.data`, as UCI publishes it; "sample": `buzz_twitter_38500.npz` with
  X (38500, 77), y and part.

The three .npz files are recoveries from public copies, with these sha256 sums::

    gisette_first1000   07967d0653a653dffbc3b235ab4a24b735d6c619c01976dea664ed61f9858394
    mnist49             58be58178d3c74c1c51e947d132503a17239a9f0ca70af78658a593a85cd409a
    buzz_twitter_38500  ecaf8c56a29ed388f09cde10c4c36f19faf799273396cab3a47318087c3977a2
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ling.atomic_write import atomic_write
from ling.errors import Change, DataFileError, OptionError, Where

__all__ = ["Dataset", "load_buzz", "load_gisette", "quadratic_features"]
#: Called with bytes done and bytes in all while a file is downloaded.
DownloadProgress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Dataset:
    """X, y, and what exactly they are: `name` is what a figure must call them."""

    name: str
    X: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    source: Path


@dataclass(frozen=True)
class RemoteFile:
    """A file of the UCI archive; `member` is its name inside the tar archive at `url`, if any."""

    name: str
    url: str
    sha256: str
    size: int | None = None
    member: str = ""


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
GISETTE = RemoteFile(
    "gisette_train.data",
    f"{_UCI}/gisette/GISETTE/gisette_train.data",
    "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
    67_788_724,
)
GISETTE_LABELS = RemoteFile(
    "gisette_train.labels",
    f"{_UCI}/gisette/GISETTE/gisette_train.labels",
    "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075",
)
BUZZ = RemoteFile(
    "Twitter.data",
    f"{_UCI}/00248/regression.tar.gz",
    "b148fb2c06c0008798c084d8e78f00d532c166f602bf53e58eebc189d49db74a",
    283_252_207,
    member="regression/Twitter/Twitter.data",
)


def load_gisette(variant: str = "auto", progress: DownloadProgress | None = None) -> Dataset:
    """Gisette: digits 4 and 9, 6000 rows, y in {-1, +1}.

    variant="auto" takes the full data if they are there, else their first 1000 columns, else
    downloads the full data. The Gisette-style surrogate is given only when asked for by name.

    Parameters
    ----------
    variant : {"auto", "full", "first1000", "surrogate"}, default="auto"
    progress : callable, default=None
        Called with bytes done and bytes in all while a file is downloaded.

    Returns
    -------
    Dataset
        `X`, `y`, and `name`: what exactly they are.
    """
    usual: dict[str, VariantLoader] = {
        "full": _load_full_gisette,
        "first1000": _load_gisette_first1000,
    }
    found = _load_local_variant(variant, usual, {"surrogate": _load_gisette_surrogate})
    if found is not None:
        return found
    data, labels = _download(GISETTE, progress), _download(GISETTE_LABELS, progress)
    return _read_gisette(data, labels)


def load_buzz(variant: str = "auto", progress: DownloadProgress | None = None) -> Dataset:
    """Buzz in social media, Twitter: 77 features of a topic, y its mean number of discussions.

    variant="auto" takes the full data if they are there, else the sample, else downloads.

    Parameters
    ----------
    variant : {"auto", "full", "sample"}, default="auto"
    progress : callable, default=None
        Called with bytes done and bytes in all while a file is downloaded.

    Returns
    -------
    Dataset
        `X`, `y`, and `name`: what exactly they are.
    """
    found = _load_local_variant(variant, {"full": _load_full_buzz, "sample": _load_buzz_sample}, {})
    return _read_buzz(_download(BUZZ, progress)) if found is None else found


def quadratic_features(X: NDArray[Any]) -> NDArray[Any]:
    """X and the products of all pairs of its columns, squares included: 77 become 3080.

    Made in place: n (p + p (p + 1) / 2) numbers, and nothing else of that size.

    Parameters
    ----------
    X : array of shape (n, p)

    Returns
    -------
    array of shape (n, p + p (p + 1) / 2)
    """
    n, p = X.shape
    out = np.empty((n, p + p * (p + 1) // 2))
    out[:, :p] = X
    at = p
    for j in range(p):
        np.multiply(X[:, j:], X[:, j : j + 1], out=out[:, at : at + p - j])
        at += p - j
    return out


def cache_folder() -> Path:
    """Where downloads go: `ling` in `$XDG_CACHE_HOME`, or in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ling"


def _data_folders() -> list[Path]:
    named = os.environ.get("LING_DATA")
    if not named:
        return [cache_folder()]
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataFileError(
            "LING_DATA",
            "is not a folder",
            "set LING_DATA to the folder that holds the data files",
            "unset LING_DATA",
            where=Where(file=named),
        )
    return [folder, cache_folder()]


def _find_file(name: str) -> Path | None:
    return next((f / name for f in _data_folders() if (f / name).is_file()), None)


VariantLoader = Callable[[], Dataset | None]


def _load_local_variant(
    variant: str, usual: dict[str, VariantLoader], extra: dict[str, VariantLoader]
) -> Dataset | None:
    """The first variant that is there; None if `variant` allows for a download instead."""
    known = {**usual, **extra}
    if variant != "auto" and variant not in known:
        raise OptionError("variant", f"is {variant!r}", f"pass 'auto' or one of {sorted(known)}")
    for reader in usual.values() if variant == "auto" else [known[variant]]:
        found = reader()
        if found is not None:
            return found
    if variant not in ("auto", "full"):
        raise DataFileError(
            "variant",
            f"is {variant!r}, but its file is not in {_format_data_folders()}",
            "put it there (the documentation of ling.reproduction.datasets names it)",
            Change("variant", "auto"),
        )
    return None


def _load_full_gisette() -> Dataset | None:
    data, labels = _find_file(GISETTE.name), _find_file(GISETTE_LABELS.name)
    return None if data is None or labels is None else _read_gisette(data, labels)


def _read_gisette(data: Path, labels: Path) -> Dataset:
    X = np.loadtxt(data, dtype=np.uint16, ndmin=2)
    y = np.loadtxt(labels, dtype=np.int8, ndmin=1)
    if len(X) != len(y):
        raise DataFileError(
            "variant",
            f"the files of the full data (`variant`) do not match: {data} has {len(X)} rows and "
            f"{labels} has {len(y)}",
            "download both files again",
        )
    name = "Gisette" if _sha256(data) == GISETTE.sha256 else _name_with_shape("Gisette format", X)
    return Dataset(name, X, y, data)


def _name_with_shape(name: str, X: NDArray[Any]) -> str:
    return f"{name}, {X.shape[0]} x {X.shape[1]}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load_gisette_first1000() -> Dataset | None:
    path = _find_file("gisette_first1000.npz")
    if path is None:
        return None
    with np.load(path) as file:
        X, y = file["X"], file["y"]
    atomic_write = X.shape == (6000, 1000)
    name = (
        "Gisette, first 1000 columns"
        if atomic_write
        else _name_with_shape("Gisette, some columns", X)
    )
    return Dataset(name, X, y, path)


def _load_gisette_surrogate() -> Dataset | None:
    """Pixels of MNIST's 4s and 9s, products of two of them, and as many permuted probes."""
    path = _find_file("mnist49.npz")
    if path is None:
        return None
    with np.load(path) as file:
        pixels, labels = file["X"], file["y"]
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(len(pixels), 6000, replace=False))
    P = pixels[rows].astype(np.float32) / 255
    middle = np.arange(784).reshape(28, 28)[4:18, 4:24].ravel()
    middle = middle[(P[:, middle] > 0).mean(axis=0) > 0.005]

    def feature() -> NDArray[Any]:
        a, b = rng.choice(middle, 2, replace=False)
        return np.asarray(P[:, a] * P[:, b] if rng.random() < 0.85 else P[:, a])

    X = np.empty((6000, 5000), np.float32)
    for j in range(5000):
        X[:, j] = feature() if j < 2500 else feature()[rng.permutation(6000)]
    X = np.round(X * 999)[:, rng.permutation(5000)].astype(np.uint16)
    return Dataset("Gisette-style surrogate from MNIST", X, labels[rows], path)


def _load_full_buzz() -> Dataset | None:
    path = _find_file(BUZZ.name)
    return None if path is None else _read_buzz(path)


def _read_buzz(path: Path) -> Dataset:
    table = np.loadtxt(path, delimiter=",", ndmin=2)
    if table.shape[1] != 78:
        raise DataFileError(
            "variant",
            f"the file of the full data (`variant`) has {table.shape[1]} columns, not 78: {path}",
            "download this file again",
        )
    atomic_write = _sha256(path) == BUZZ.sha256
    name = "Buzz (Twitter)" if atomic_write else f"Buzz (Twitter), {len(table)} rows"
    return Dataset(name, table[:, :77], table[:, 77], path)


def _load_buzz_sample() -> Dataset | None:
    path = _find_file("buzz_twitter_38500.npz")
    if path is None:
        return None
    with np.load(path) as file:
        # The parts are samples that overlap each other; the first is the largest.
        first = file["part"] == 0
        X, y = file["X"][first], file["y"][first]
    return Dataset(f"Buzz (Twitter), random sample of {len(y)} rows", X, y, path)


def _format_data_folders() -> str:
    unset = "" if os.environ.get("LING_DATA") else " ($LING_DATA is not set)"
    return " or ".join(str(folder) for folder in _data_folders()) + unset


def _download(remote: RemoteFile, progress: DownloadProgress | None) -> Path:
    """The file in the cache, fetched if it is not there; nothing is left behind by a failure."""
    target = cache_folder() / remote.name
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_write(target) as part:
            with _open_remote(remote) as source, part.open("wb") as sink:
                digest = _copy_and_hash(source, sink, remote.size, progress)
            if digest != remote.sha256:
                raise _download_error(remote, f"{remote.url} gave a file with sha256 {digest}")
    except (OSError, tarfile.TarError) as error:
        raise _download_error(remote, f"downloading {remote.url} failed ({error})") from error
    return target


def _download_error(remote: RemoteFile, reason: str) -> DataFileError:
    size = "" if remote.size is None else f"{remote.size:,} bytes, "
    inside = f" out of {Path(remote.url).name}" if remote.member else ""
    return DataFileError(
        "variant",
        f"the full data (`variant`) needs {remote.name}, which is not in {_format_data_folders()}, "
        f"and {reason}",
        f"get {remote.name}{inside} ({size}sha256 {remote.sha256}) yourself and put it in "
        f"$LING_DATA or in {cache_folder()}",
    )


@contextmanager
def _open_remote(remote: RemoteFile) -> Iterator[IO[bytes]]:
    with urllib.request.urlopen(remote.url, timeout=60) as answer:
        if not remote.member:
            yield answer
            return
        with tarfile.open(fileobj=answer, mode="r|gz") as archive:
            for entry in archive:
                if entry.name == remote.member:
                    inner = archive.extractfile(entry)
                    assert inner is not None
                    yield inner
                    return
        raise _download_error(remote, f"{remote.url} has no {remote.member}")


def _copy_and_hash(
    source: IO[bytes], sink: IO[bytes], size: int | None, progress: DownloadProgress | None
) -> str:
    digest, done = hashlib.sha256(), 0
    while block := source.read(2**20):
        sink.write(block)
        digest.update(block)
        done += len(block)
        if progress is not None:
            progress(done, size or done)
    return digest.hexdigest()


def __dir__() -> list[str]:
    return __all__
