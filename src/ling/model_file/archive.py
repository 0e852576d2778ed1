"""The model file: written whole, read with suspicion."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from dataclasses import dataclass, replace
from inspect import signature
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from sklearn.utils.validation import check_is_fitted

import ling
from ling.atomic_write import atomic_write
from ling.error_region import ErrorRegion
from ling.errors import DataFileError, InputTypeError, ModelFileError, OptionError, Where
from ling.estimators import (
    LingClassifier,
    LingRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    RidgeModel,
)
from ling.estimators.classifier import BaseRidgeClassifier
from ling.estimators.open_data import memory_budget
from ling.estimators.sklearn_private import validate_parameters
from ling.io import Encoding
from ling.model_file.values import ValueUnpacker, array_entry_name, entry_bytes, pack_value
from ling.plain_state import from_plain
from ling.results import FitReport

FORMAT_VERSION = 5
HEADER_ENTRY = "model.json"
SAVABLE_MODELS: dict[str, Any] = {
    model.__name__: model
    for model in (
        Ridge,
        RidgeCV,
        RidgeClassifier,
        RidgeClassifierCV,
        LingRegressor,
        LingClassifier,
    )
}
SAVED_FILE_ADVICE = "pass a file that ling has saved"
#: Kept besides the attributes whose names end in "_".
PRIVATE_ATTRIBUTES = (
    "_column_stds",
    "_data_fingerprint",
    "_fit_parameters",
    "_label_decoder",
    "_sufficient_statistics",
    "_uncertainty_state",
)
# What zipfile and NumPy raise for bytes that are not what they should be.
CORRUPTION_ERRORS = (
    zipfile.BadZipFile, AttributeError, EOFError, LookupError, MemoryError, NotImplementedError,
    OSError, OverflowError, RecursionError, RuntimeError, SyntaxError, TypeError, ValueError,
    struct.error,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What a model file holds; `left_out` are parameters that no file can hold, described."""

    model: Any
    about: dict[str, Any]
    ling_version: str
    unsaved_parameters: dict[str, str]


def save(
    model: RidgeModel, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None
) -> None:
    """Write a fitted model to a file, whole or not at all.

    The file carries the proof of its error bound: the certificate, a low-rank minorant of X'X if
    the fit has one, and a fingerprint of the training data. `docs/verify_model.py` checks the bound
    with the file and the data, without ling.

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
    if type(model) not in SAVABLE_MODELS.values():
        raise InputTypeError(
            "model",
            f"is a {type(model).__name__}",
            f"pass one of {', '.join(SAVABLE_MODELS)} (of a pipeline, its last step)",
        )
    check_is_fitted(model, "coef_")
    arrays: list[np.ndarray[Any, Any]] = []
    parameters, left_out = _pack_parameters(model, arrays)
    header = {
        "format": FORMAT_VERSION,
        "ling": ling.__version__,
        "model": type(model).__name__,
        "parameters": parameters,
        "left_out": left_out,
        "attributes": {
            name: pack_value(value, arrays, name)
            for name, value in model.__getstate__().items()
            if _is_fit_attribute(name)
        },
        "about": _check_about(about),
    }
    text = json.dumps(header, allow_nan=False)
    with atomic_write(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(HEADER_ENTRY, text)
        for number, array in enumerate(arrays):
            with archive.open(array_entry_name(number), "w", force_zip64=True) as out:
                npy.write_array(out, array, allow_pickle=False)


def load(path: str | os.PathLike[str]) -> RidgeModel:
    """The model in a file that `save` has written; it predicts the same, to the last bit.

    Nothing in the file is run. A file that is damaged, of a newer version or no model file is
    refused with `ModelFileError`.

    Parameters
    ----------
    path : path

    Returns
    -------
    Ridge, RidgeCV, RidgeClassifier or RidgeClassifierCV
        Fitted, as it was saved.
    """
    model: RidgeModel = read_model_file(path).model
    return model


def read_model_file(path: str | os.PathLike[str]) -> SavedModel:
    """The model in a file, and what the file says about it."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            return _read_archive(file, name)
    except OSError as error:
        raise DataFileError(
            "path",
            f"cannot be read ({error.strerror})",
            "pass the path of a model file",
            where=Where(file=name),
        ) from error


def _read_archive(file: IO[bytes], name: str) -> SavedModel:
    if not zipfile.is_zipfile(file):
        raise ModelFileError(
            "path", "is not a model file, or is cut off", SAVED_FILE_ADVICE, where=Where(file=name)
        )
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(info.file_size for info in archive.infolist()) > os.fstat(file.fileno()).st_size:
                raise ValueError("its entries are larger than all of it")
            header = _read_header(archive, name)
            return _unpack_model(header, ValueUnpacker(archive))
    except ModelFileError:
        raise
    except CORRUPTION_ERRORS as error:
        raise ModelFileError(
            "path",
            f"is damaged ({error})",
            "copy it again from where it came from",
            "fit the model again",
            where=Where(file=name),
        ) from error


def _read_header(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    if HEADER_ENTRY not in archive.namelist():
        raise ModelFileError(
            "path",
            "is a zip archive, but not a model file",
            SAVED_FILE_ADVICE,
            where=Where(file=name),
        )
    header = json.loads(entry_bytes(archive, HEADER_ENTRY))
    found = header["format"]
    if isinstance(found, int) and found > FORMAT_VERSION:
        raise ModelFileError(
            "path",
            f"has format {found} of ling {header.get('ling')}, but this is ling "
            f"{ling.__version__}, which reads formats up to {FORMAT_VERSION}",
            "install a newer ling",
            where=Where(file=name),
        )
    if isinstance(found, int) and 0 < found < FORMAT_VERSION:
        raise ModelFileError(
            "path",
            f"has format {found} of ling {header.get('ling')}, without what ling "
            f"{ling.__version__} stores about errors",
            "fit the model again",
            f"read it with ling {header.get('ling')}",
            where=Where(file=name),
        )
    if found != FORMAT_VERSION:
        raise ValueError(f"format {found!r}")
    return dict(header)


def _unpack_model(header: dict[str, Any], reader: ValueUnpacker) -> SavedModel:
    kind = SAVABLE_MODELS[header["model"]]
    parameters = {name: reader.unpack(packed) for name, packed in header["parameters"].items()}
    left_out = {str(name): str(text) for name, text in header["left_out"].items()}
    known = signature(kind).parameters
    if not {*parameters, *left_out} <= set(known):
        raise ValueError("it has other parameters")
    model = kind(**parameters, **dict.fromkeys(left_out))
    attributes = {
        name: from_plain(reader.unpack(packed)) for name, packed in header["attributes"].items()
    }
    if not all(_is_fit_attribute(name) for name in attributes):
        raise ValueError("it has other attributes")
    vars(model).update(attributes)
    validate_parameters(model._parameter_constraints, parameters, header["model"])
    memory_budget(model)  # also prediction reads it
    of_fit = getattr(model, "_fit_parameters", {})
    if not set(of_fit) <= {*parameters, *left_out}:
        raise ValueError("its fit has other parameters")
    validate_parameters(model._parameter_constraints, of_fit, header["model"])
    _check_consistent(model)
    notes = [_unsaved_note(name, text) for name, text in left_out.items()]
    model.report_ = replace(model.report_, notes=(*model.report_.notes, *notes))
    return SavedModel(model, dict(header["about"]), str(header["ling"]), left_out)


def _unsaved_note(name: str, text: str) -> str:
    return f"{name} was {text}, which a model file cannot hold: it is None now."


def _check_consistent(model: Any) -> None:
    """An error unless coefficients, columns and classes fit each other."""
    p = model.n_features_in_
    coef, intercept = np.asarray(model.coef_), np.asarray(model.intercept_)
    if coef.dtype.kind != "f" or intercept.dtype.kind != "f" or coef.ndim not in (1, 2):
        raise ValueError("its coefficients are no numbers")
    if not coef.size or coef.shape[-1] != p:
        raise ValueError("its coefficients are not one for each column")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("its coefficients are not finite")
    for name in ("alpha_", "alphas") if hasattr(model, "alphas") else ("alpha",):
        value = getattr(model, name)  # `alphas` is None for a grid that follows from the data
        if value is not None or name != "alphas":
            np.asarray(value, np.float64)  # an error unless all are numbers
    n_targets = 1 if coef.ndim == 1 else len(coef)
    names, encoding = getattr(model, "feature_names_in_", None), getattr(model, "encoding_", None)
    spreads = np.asarray(getattr(model, "_column_stds", np.zeros(p)))
    if (
        spreads.shape != (p,)
        or intercept.size not in (1, n_targets)
        or not isinstance(model.report_, FitReport)
        or (names is not None and len(names) != p)
        or (encoding is not None and not _is_encoding_of(encoding, names))
    ):
        raise ValueError("its coefficients, columns and encoding do not fit each other")
    if not _is_region_of(model.report_.certificate.region, n_targets, p):
        raise ValueError("its error bounds do not fit its coefficients")
    if isinstance(model, BaseRidgeClassifier):
        _check_classes(model, n_targets)


def _is_region_of(region: ErrorRegion | None, n_targets: int, p: int) -> bool:
    """Whether error bounds have the shapes of so many coefficients."""
    if region is None:
        return True
    per_target = (
        region.errors, region.alphas, region.min_eigenvalues, region.intercept_errors,
        region.y_scale,
    )  # fmt: skip
    per_column = (region.x_mean, region.inverse_diagonal)
    rank = 0 if region.values is None else len(region.values)
    return (
        all(array.shape == (n_targets,) for array in per_target)
        and all(array is None or array.shape == (p,) for array in per_column)
        and (region.directions is None or region.directions.shape == (p, rank))
        and region.x_scale > 0
        and region.n_features == p
    )


def _is_encoding_of(encoding: Any, names: Any) -> bool:
    """Whether it is an encoding of columns with these names."""
    return isinstance(encoding, Encoding) and names is not None and encoding.names == tuple(names)


def _check_classes(model: Any, n_targets: int) -> None:
    classes = np.asarray(model.classes_)
    columns = 1 if len(classes) <= 2 and not model._label_decoder.is_multilabel else len(classes)
    if columns != n_targets or not np.array_equal(classes, model._label_decoder.classes):
        raise ValueError("its classes do not fit its coefficients")


def _is_fit_attribute(name: str) -> bool:
    """Whether an attribute belongs to the fit."""
    return name in PRIVATE_ATTRIBUTES or (name.endswith("_") and not name.startswith("_"))


def _check_about(about: dict[str, Any] | None) -> dict[str, Any]:
    try:
        found = json.loads(json.dumps({} if about is None else about, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise OptionError(
            "about",
            f"cannot be written as JSON ({error})",
            "pass a dict of numbers, text, lists and dicts",
        ) from error
    if not isinstance(found, dict):
        raise OptionError("about", f"is a {type(about).__name__}", "pass a dict")
    return found


def _pack_parameters(model: Any, arrays: list[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Those that are plain data, packed, and the others, described."""
    plain, described = {}, {}
    for name, value in model.get_params(deep=False).items():
        try:
            plain[name] = pack_value(value, arrays, name)
        except InputTypeError:
            described[name] = repr(value)
    return plain, described
