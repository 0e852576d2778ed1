"""`save` and `load`: a fitted model in a file that is safe to open, whoever it is from.

A model file is a zip archive, nothing in it compressed: `model.json`, and a .npy file for each
array. Reading it makes numbers, text and the few classes that are listed here, and never runs
anything that the file says. Every entry has a checksum, and sizes are checked before memory is
taken.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import zipfile
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from inspect import signature
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.validation import check_is_fitted

import ling
from ling.errors import BadModelFile, BadOption, MissingData, WrongType
from ling.estimators import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.estimators.classifier import Decision
from ling.estimators.statistics import Kept
from ling.files import whole
from ling.posterior import FromDraws, FromGram, FromRows
from ling.problem import Centring
from ling.report import Certificate, Cost, FitReport, Status
from ling.scan import Encoding, Numeric, OneHot
from ling.selection import CVResults
from ling.summary import Summary

VERSION = 1
HEADER = "model.json"
MODELS: dict[str, Any] = {
    model.__name__: model for model in (Ridge, RidgeCV, RidgeClassifier, RidgeClassifierCV)
}
#: All that a file can be made of, besides numbers, text, lists and arrays.
PARTS: dict[str, Any] = {
    part.__name__: part
    for part in (
        Centring, Certificate, Cost, CVResults, Decision, Encoding, FitReport, FromDraws, FromGram,
        FromRows, Kept, Numeric, OneHot, Summary,
    )
}  # fmt: skip
#: Kept besides the attributes whose names end in "_".
PRIVATE = ("_decision", "_kept", "_spreads", "_summary")
# What zipfile and NumPy raise for bytes that are not what they should be.
DAMAGE = (
    zipfile.BadZipFile, AttributeError, EOFError, LookupError, NotImplementedError, OSError,
    OverflowError, RecursionError, RuntimeError, SyntaxError, TypeError, ValueError, struct.error,
)  # fmt: skip
# Truth values, numbers and text, as NumPy calls them.
PLAIN = "biufUS"
KINDS = ("array", "binarizer", "dict", "float", "list", "scalar", "status", "texts", "tuple")


@dataclass(frozen=True, eq=False)
class Saved:
    """What a model file holds; `left_out` are parameters that no file can hold, described."""

    model: Any
    about: dict[str, Any]
    version: str
    left_out: dict[str, str]


def save(model: Any, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters that are not plain data (a splitter as `cv`, a function as `scoring`, a generator as
    `random_state`) are written as a description. `load` gives None for them, and says so in the
    notes of `report_`; predictions do not depend on them.

    Parameters
    ----------
    model : Ridge, RidgeCV, RidgeClassifier or RidgeClassifierCV
        Fitted.
    path : path
        Where to; ".ling" is the usual ending.
    about : dict, default=None
        Anything that JSON can hold: where the data are from, who fitted it, when.

    Examples
    --------
    >>> import tempfile, numpy as np, ling
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> model = ling.Ridge().fit(X, X.sum(axis=1))
    >>> path = tempfile.mkdtemp() + "/sum.ling"
    >>> ling.save(model, path)
    >>> bool((ling.load(path).predict(X) == model.predict(X)).all())
    True
    """
    if type(model) not in MODELS.values():
        raise WrongType(
            f"model is a {type(model).__name__}; pass a fitted {', '.join(MODELS)} (of a pipeline, "
            "its last step)."
        )
    check_is_fitted(model, "coef_")
    arrays: list[np.ndarray[Any, Any]] = []
    parameters, left_out = _parameters(model, arrays)
    header = {
        "format": VERSION,
        "ling": ling.__version__,
        "model": type(model).__name__,
        "parameters": parameters,
        "left_out": left_out,
        "attributes": {
            name: _packed(value, arrays, name) for name, value in vars(model).items() if _kept(name)
        },
        "about": _checked_about(about),
    }
    text = json.dumps(header, allow_nan=False)
    with whole(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(HEADER, text)
        for number, array in enumerate(arrays):
            with archive.open(_entry(number), "w", force_zip64=True) as out:
                npy.write_array(out, array, allow_pickle=False)


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file that `save` has written; it predicts the same, to the last bit.

    Nothing in the file is run. A file that is damaged, of a newer version or no model file is
    refused with `BadModelFile`.
    """
    return read(path).model


def read(path: str | os.PathLike[str]) -> Saved:
    """The model in a file, and what the file says about it."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            return _read(file, name)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise MissingData(f"{name!r} cannot be read ({error.strerror}).") from error


def _read(file: IO[bytes], name: str) -> Saved:
    if not zipfile.is_zipfile(file):
        raise BadModelFile(f"{name!r} is no model file, or cut off; pass one that ling has saved.")
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(info.file_size for info in archive.infolist()) > os.fstat(file.fileno()).st_size:
                raise ValueError("its entries are larger than all of it")
            header = _header(archive, name)
            return _unpacked_model(header, _Reader(archive))
    except BadModelFile:
        raise
    except DAMAGE as error:
        raise BadModelFile(
            f"{name!r} is damaged ({error}); take it from where it came from again, or fit again."
        ) from error


def _header(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    if HEADER not in archive.namelist():
        raise BadModelFile(
            f"{name!r} is a zip archive, but no model file; pass one that ling has saved."
        )
    header = json.loads(_bytes(archive, HEADER))
    found = header["format"]
    if isinstance(found, int) and found > VERSION:
        raise BadModelFile(
            f"{name!r} has format {found}, of ling {header.get('ling')}; this is ling "
            f"{ling.__version__}, which reads up to {VERSION}. Install a newer ling."
        )
    if found != VERSION:
        raise ValueError(f"format {found!r}")
    return dict(header)


def _unpacked_model(header: dict[str, Any], reader: _Reader) -> Saved:
    kind = MODELS[header["model"]]
    parameters = {name: reader.value(packed) for name, packed in header["parameters"].items()}
    left_out = {str(name): str(text) for name, text in header["left_out"].items()}
    known = signature(kind).parameters
    if not {*parameters, *left_out} <= set(known):
        raise ValueError("it has other parameters")
    model = kind(**parameters, **dict.fromkeys(left_out))
    attributes = {name: reader.value(packed) for name, packed in header["attributes"].items()}
    if not all(_kept(name) for name in attributes):
        raise ValueError("it has other attributes")
    vars(model).update(attributes)
    _check_together(model)
    notes = [_note(name, text) for name, text in left_out.items()]
    model.report_ = replace(model.report_, notes=(*model.report_.notes, *notes))
    return Saved(model, dict(header["about"]), str(header["ling"]), left_out)


def _note(name: str, text: str) -> str:
    return f"{name} was {text}, which a model file cannot hold: it is None now."


def _check_together(model: Any) -> None:
    """An error unless coefficients, columns and classes fit each other."""
    p = model.n_features_in_
    coef, intercept = np.asarray(model.coef_), np.asarray(model.intercept_)
    if coef.dtype.kind != "f" or intercept.dtype.kind != "f" or coef.ndim not in (1, 2):
        raise ValueError("its coefficients are no numbers")
    if coef.shape[-1] != p:
        raise ValueError("its coefficients are not one for each column")
    n_targets = 1 if coef.ndim == 1 else len(coef)
    names, encoding = getattr(model, "feature_names_in_", None), getattr(model, "encoding_", None)
    spreads = np.asarray(getattr(model, "_spreads", np.zeros(p)))
    if (
        spreads.shape != (p,)
        or intercept.size not in (1, n_targets)
        or not isinstance(model.report_, FitReport)
        or (names is not None and len(names) != p)
        or (encoding is not None and (not isinstance(encoding, Encoding) or encoding.width != p))
    ):
        raise ValueError("its coefficients, columns and encoding do not fit each other")
    if isinstance(model, RidgeClassifier | RidgeClassifierCV):
        _check_classes(model, n_targets)


def _check_classes(model: Any, n_targets: int) -> None:
    classes = np.asarray(model.classes_)
    columns = 1 if len(classes) <= 2 and not model._decision.multilabel else len(classes)
    if columns != n_targets or not np.array_equal(classes, model._decision.classes):
        raise ValueError("its classes do not fit its coefficients")


def _kept(name: str) -> bool:
    """Whether an attribute belongs to the fit."""
    return name in PRIVATE or (name.endswith("_") and not name.startswith("_"))


def _entry(number: int) -> str:
    return f"{number}.npy"


def _checked_about(about: dict[str, Any] | None) -> dict[str, Any]:
    try:
        found = json.loads(json.dumps({} if about is None else about, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadOption(f"about cannot be written as JSON ({error}); pass plain data.") from error
    if not isinstance(found, dict):
        raise BadOption(f"about is a {type(about).__name__}; pass a dict.")
    return found


def _parameters(model: Any, arrays: list[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Those that are plain data, packed, and the others, described."""
    plain, described = {}, {}
    for name, value in model.get_params(deep=False).items():
        try:
            plain[name] = _packed(value, arrays, name)
        except WrongType:
            described[name] = repr(value)
    return plain, described


def _packed(value: Any, arrays: list[Any], name: str) -> Any:
    """A value as JSON; arrays are put aside, and their number is there instead."""
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.ndarray):
        return _packed_array(value, arrays, name)
    if isinstance(value, np.generic) and value.dtype.kind in PLAIN:
        return {"scalar": _put(np.asarray(value), arrays)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_packed(item, arrays, name) for item in value]}
    if isinstance(value, dict):
        pairs = [[_packed(part, arrays, name) for part in pair] for pair in value.items()]
        return {"dict": pairs}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return _packed_part(value, arrays, name)


def _packed_part(value: Any, arrays: list[Any], name: str) -> Any:
    if isinstance(value, Status):
        return {"status": value.name}
    if isinstance(value, LabelBinarizer):
        parts = {"classes_": value.classes_, "y_type_": value.y_type_}
        return {"binarizer": {key: _packed(part, arrays, name) for key, part in parts.items()}}
    if is_dataclass(value) and type(value) in PARTS.values():
        parts = {f.name: getattr(value, f.name) for f in fields(value)}
        packed = {key: _packed(part, arrays, name) for key, part in parts.items()}
        return {"part": type(value).__name__, "fields": packed}
    raise WrongType(
        f"{name} holds a {type(value).__name__}, which a model file cannot hold; use numbers, text "
        "and arrays of them."
    )


def _packed_array(array: np.ndarray[Any, Any], arrays: list[Any], name: str) -> Any:
    if array.dtype.kind in PLAIN:
        return {"array": _put(array, arrays)}
    if array.dtype == object and array.ndim == 1 and all(type(text) is str for text in array):
        return {"texts": list(array)}
    raise WrongType(
        f"{name} is an array of {array.dtype}, which a model file cannot hold; use numbers or text."
    )


def _put(array: np.ndarray[Any, Any], arrays: list[Any]) -> int:
    arrays.append(array)
    return len(arrays) - 1


@dataclass(frozen=True, eq=False)
class _Reader:
    """Values from JSON and arrays; anything that is not known is an error."""

    archive: zipfile.ZipFile
    used: set[int] = field(default_factory=set)

    def value(self, packed: Any) -> Any:
        """What `_packed` has made of it, made again."""
        if not isinstance(packed, dict):
            if isinstance(packed, list):
                raise ValueError("a list that is not one")
            return packed
        if set(packed) == {"part", "fields"}:
            return self._part(packed["part"], packed["fields"])
        ((kind, content),) = packed.items()
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is unknown")
        return getattr(self, f"_{kind}")(content)

    def _float(self, text: str) -> float:
        return float(text)

    def _array(self, number: int) -> np.ndarray[Any, Any]:
        if number in self.used:  # so that little cannot be made to fill the memory
            raise ValueError("an array is used twice")
        self.used.add(number)
        return _array(self.archive, _entry(number))

    def _scalar(self, number: int) -> Any:
        return self._array(number)[()]

    def _texts(self, texts: list[str]) -> np.ndarray[Any, Any]:
        return np.array([str(text) for text in texts], dtype=object)

    def _list(self, items: list[Any]) -> list[Any]:
        return [self.value(item) for item in items]

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self._list(items))

    def _dict(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(item) for key, item in pairs}

    def _status(self, name: str) -> Enum:
        return Status[name]

    def _binarizer(self, parts: dict[str, Any]) -> LabelBinarizer:
        found = LabelBinarizer(pos_label=1, neg_label=-1)
        found.classes_ = self.value(parts["classes_"])
        found.y_type_ = str(self.value(parts["y_type_"]))
        found.sparse_input_ = False
        return found

    def _part(self, name: str, packed: dict[str, Any]) -> Any:
        kind = PARTS[name]
        if set(packed) != {f.name for f in fields(kind)}:
            raise ValueError(f"{name} has other parts")
        return kind(**{key: self.value(part) for key, part in packed.items()})


def _bytes(archive: zipfile.ZipFile, entry: str) -> bytes:
    """An entry with the right checksum; one that would grow by unpacking is refused."""
    info = archive.getinfo(entry)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ValueError(f"{entry} is compressed")
    return archive.read(info)


def _array(archive: zipfile.ZipFile, entry: str) -> np.ndarray[Any, Any]:
    """An array of numbers or text, of just the size that the entry has."""
    content = _bytes(archive, entry)
    file = io.BytesIO(content)
    version = npy.read_magic(file)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = header(file)
    if dtype.kind not in PLAIN:
        raise ValueError(f"{entry} holds {dtype}")
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"{entry} is not of the size that it says")
    file.seek(0)
    return np.asarray(npy.read_array(file, allow_pickle=False))
