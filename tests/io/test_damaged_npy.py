"""Damaged .npy files end in an error of ling that names the file, whatever NumPy raises."""

import io
import random

import numpy as np
import pytest

from ling import scan_npy
from ling.errors import DataFileError, InputTypeError, InvalidInputError, ShapeError
from tests.io.damage import damaged
from tests.raising import raises


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def with_header(text):
    """A .npy file of 96 bytes of numbers, with this header."""
    header = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(96)


HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3), }"
HEADERS = {
    "unclosed bracket": HEADER.replace(")", ""),
    "unclosed string": HEADER.replace("shape'", "shape"),
    "no dictionary": "[1, 2]",
    "not a literal": HEADER.replace("False", "exit()"),
    "keys that cannot be sorted": HEADER.replace("'shape'", "5"),
    "key that cannot be hashed": HEADER.replace("'shape'", "[]"),
    "deep": HEADER.replace("4", "(" * 300),
    "many signs": HEADER.replace("4", "-" * 5_000 + "4"),
    "NUL": HEADER.replace("4", "\x00"),
    "no dtype": HEADER.replace("<f8", "<q9"),
    "nested dtype": HEADER.replace("'<f8'", "('<f8', 3, 5)"),
    "negative shape": HEADER.replace("(4, 3)", "(-4, -3)"),
    "absurd shape": HEADER.replace("(4, 3)", "(99999999999999999999999, 3)"),
    "fractions of rows": HEADER.replace("(4, 3)", "(4.0, 3)"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_npy_files(name, tmp_path):
    path, good = tmp_path / "bad.npy", tmp_path / "good.npy"
    path.write_bytes(with_header(HEADERS[name]))
    np.save(good, np.ones((4, 2)))
    with raises(DataFileError, "X", file=str(path)) as error:
        scan_npy(path)
    assert len(str(error.value)) < 500
    with raises(DataFileError, "y", file=str(path)):
        scan_npy(good, path)


def test_npy_files_of_python_2_are_valid(tmp_path):
    path = tmp_path / "old.npy"
    path.write_bytes(with_header(HEADER.replace("(4, 3)", "(4L, 3L)")))
    with pytest.warns(UserWarning, match="created on Python 2"):
        assert scan_npy(path).shape == (4, 3)


def test_other_versions_shapes_and_types_of_npy_files(tmp_path):
    path, good = tmp_path / "bad.npy", tmp_path / "good.npy"
    np.save(good, np.ones((4, 2)))
    path.write_bytes(npy(np.ones((4, 3))).replace(b"NUMPY\x01", b"NUMPY\x07"))
    with raises(DataFileError, "X", file=str(path), mentions="(7, 0)"):
        scan_npy(path)
    path.write_bytes(with_header(HEADER.replace("<f8", "<m8")))
    with raises(InputTypeError, "X", file=str(path), mentions="timedelta64"):
        scan_npy(path)
    path.write_bytes(with_header(HEADER.replace("(4, 3)", "(3, 4)")))
    with raises(ShapeError, "y", file=str(path), mentions="(3, 4)"):
        scan_npy(good, path)


@pytest.mark.filterwarnings("ignore")  # of Python's parser
def test_npy_files_with_any_damage(tmp_path):
    rng = random.Random(0)
    path, good = str(tmp_path / "bad.npy"), str(tmp_path / "good.npy")
    np.save(good, np.ones((4, 2)))
    files = [npy(np.ones((4, 3)), version) for version in ((1, 0), (2, 0), (3, 0))]
    files += [npy(np.asfortranarray(np.ones((4, 3), np.int16))), npy(np.array(list("abcd")))]
    errors = []
    for _ in range(400):
        content = rng.choice(files)
        content = damaged(content, rng, last=80)
        (tmp_path / "bad.npy").write_bytes(content)
        for argument, arguments in (("X", (path,)), ("y", (good, path))):
            try:
                data = scan_npy(*arguments)
                list(data.source.blocks(slice(None), 2))
                assert not data.has_target or len(data.y) == 4
            except InvalidInputError as error:
                errors.append((error.argument, error.where.file) == (argument, path))
    assert len(errors) > 100
    assert all(errors)
