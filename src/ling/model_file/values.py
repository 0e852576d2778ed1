"""Plain data as JSON and arrays, and back: numbers, text, arrays, lists, tuples and dicts."""

from __future__ import annotations

import io
import math
import os
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ling.errors import InputTypeError
from ling.io.npy import read_npy_header

# Truth values, numbers and text, as NumPy calls them.
PLAIN_DTYPE_KINDS = "biufUS"
VALUE_KINDS = ("array", "dict", "float", "list", "scalar", "texts", "tuple")


def array_entry_name(number: int) -> str:
    """The name of an array in the archive."""
    return f"{number}.npy"


def pack_value(value: Any, arrays: list[Any], name: str) -> Any:
    """A value as JSON; arrays are put aside, and their number is there instead."""
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.ndarray):
        return _pack_array(value, arrays, name)
    if isinstance(value, np.generic) and value.dtype.kind in PLAIN_DTYPE_KINDS:
        return {"scalar": _append_array(np.asarray(value), arrays)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [pack_value(item, arrays, name) for item in value]}
    if isinstance(value, dict):
        pairs = [[pack_value(part, arrays, name) for part in pair] for pair in value.items()]
        return {"dict": pairs}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise InputTypeError(
        "model",
        f"has a {type(value).__name__} in {name}, which a model file cannot hold",
        "use numbers, text and arrays of them",
    )


def _pack_array(array: np.ndarray[Any, Any], arrays: list[Any], name: str) -> Any:
    if array.dtype.kind in PLAIN_DTYPE_KINDS:
        return {"array": _append_array(array, arrays)}
    if array.dtype == object and array.ndim == 1 and all(type(text) is str for text in array):
        return {"texts": list(array)}
    raise InputTypeError(
        "model",
        f"has an array of {array.dtype} in {name}, which a model file cannot hold",
        "use numbers or text",
    )


def _append_array(array: np.ndarray[Any, Any], arrays: list[Any]) -> int:
    arrays.append(array)
    return len(arrays) - 1


@dataclass(frozen=True, eq=False)
class ValueUnpacker:
    """Values from JSON and arrays; anything that is not known is an error."""

    archive: zipfile.ZipFile
    used: set[int] = field(default_factory=set)

    def unpack(self, packed: Any) -> Any:
        """What `pack_value` has made of it, made again."""
        if not isinstance(packed, dict):
            if isinstance(packed, list):
                raise ValueError("a list that is not one")
            return packed
        ((kind, content),) = packed.items()
        if kind not in VALUE_KINDS:
            raise ValueError(f"{kind!r} is unknown")
        return getattr(self, f"_{kind}")(content)

    def _float(self, text: str) -> float:
        return float(text)

    def _array(self, number: int) -> np.ndarray[Any, Any]:
        if number in self.used:  # so that little cannot be made to fill the memory
            raise ValueError("an array is used twice")
        self.used.add(number)
        return _read_array(self.archive, array_entry_name(number))

    def _scalar(self, number: int) -> Any:
        return self._array(number)[()]

    def _texts(self, texts: list[str]) -> np.ndarray[Any, Any]:
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a text that is none")
        return np.array(texts, dtype=object)

    def _list(self, items: list[Any]) -> list[Any]:
        return [self.unpack(item) for item in items]

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self._list(items))

    def _dict(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self.unpack(key): self.unpack(item) for key, item in pairs}


def entry_bytes(archive: zipfile.ZipFile, entry: str) -> bytes:
    """An entry with the right checksum; one that would grow by unpacking is refused."""
    info = archive.getinfo(entry)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ValueError(f"{entry} is compressed")
    return archive.read(info)


def _read_array(archive: zipfile.ZipFile, entry: str) -> np.ndarray[Any, Any]:
    """An array of numbers or text, of just the size that the entry has."""
    content = entry_bytes(archive, entry)
    file = io.BytesIO(content)
    shape, _, dtype = read_npy_header(file)
    if (
        dtype.kind not in PLAIN_DTYPE_KINDS or not dtype.itemsize
    ):  # what takes no room could be of any length
        raise ValueError(f"{entry} holds {dtype}")
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"{entry} is not of the size that it says")
    file.seek(0)
    return np.asarray(npy.read_array(file, allow_pickle=False))
