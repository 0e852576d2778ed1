"""More columns than rows in .npy files: X X' from blocks of columns."""

import os

import numpy as np
import pytest

from ling import scan_npy
from ling.design import ChunkedStorage, as_design
from ling.errors import DataFileError
from tests.raising import raises


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", ">f8"])
@pytest.mark.parametrize("weighted", [False, True])
def test_wide_files_are_multiplied_with_themselves_in_one_pass(
    tmp_path, order, dtype, weighted, rng
):
    """X X' of centred, weighted and scaled X, from blocks of columns."""
    n, p = 90, 4_000  # 2.9 MB in float64, several blocks
    X = np.asarray(rng.uniform(-9, 9, (n, p)), dtype, order=order)
    np.save(tmp_path / "X.npy", X)
    source = scan_npy(tmp_path / "X.npy").X.source
    storage = ChunkedStorage(source, max_resident_bytes=2**20)
    weights, scale = rng.uniform(0.5, 2.0, n) if weighted else None, rng.uniform(0.5, 2.0, p)
    mean = np.average(X.astype(np.float64), axis=0, weights=weights)
    design = as_design(storage).standardized(mean, scale, weights)
    A = (X - mean) * scale * (1.0 if weights is None else np.sqrt(weights)[:, None])
    assert storage.row_gram_passes == 1.0
    np.testing.assert_allclose(design.row_gram(np.float64), A @ A.T, rtol=1e-9, atol=1e-8)


def test_a_wide_file_that_is_cut_off_between_columns_is_an_error(tmp_path, rng, monkeypatch):
    path = tmp_path / "X.npy"
    np.save(path, rng.standard_normal((90, 4_000)))
    storage = ChunkedStorage(scan_npy(path).X.source, max_resident_bytes=2**20)
    read_columns = type(storage.source).read_columns

    def cut_off_after_first(source, columns):
        block = read_columns(source, columns)
        os.truncate(path, 100_000)
        return block

    monkeypatch.setattr(type(storage.source), "read_columns", cut_off_after_first)
    with raises(DataFileError, "X", file=str(path)):
        as_design(storage).row_gram()
