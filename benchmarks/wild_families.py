"""Families of design matrices from which `benchmarks.wild` draws its problems.

A family is a function of (n, p, rng) that returns X of shape (n, p), in float64 or as a CSR array.
Nothing in this file depends on ling. Change it only together with all published figures: results of
a seed are comparable as long as the generators are the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy import fft, sparse
from sklearn import datasets

from benchmarks.wild_strangers import STRANGER_FAMILIES

Array = np.ndarray
Matrix = np.ndarray | sparse.csr_array
Family = Callable[[int, int, Generator], Matrix]

# Rows that are made at a time where a family needs more memory than its result.
BLOCK_ROWS = 4096


def row_blocks(n: int) -> list[slice]:
    return [slice(start, min(n, start + BLOCK_ROWS)) for start in range(0, n, BLOCK_ROWS)]


def autocorrelated(n: int, p: int, rng: Generator) -> Array:
    """Columns along a line: each is correlated with its neighbours (autoregression)."""
    correlation = rng.uniform(0.3, 0.99)
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    return X


def factor_model(n: int, p: int, rng: Generator) -> Array:
    """Asset returns: a few common factors and noise of its own for each column."""
    rank = int(rng.integers(1, max(2, min(40, n, p) // 2 + 1)))
    X = rng.standard_normal((n, p)) * rng.uniform(0.2, 2.0, p)
    strengths = rng.uniform(0.5, 3.0, rank) / np.sqrt(np.arange(1, rank + 1))
    X += (rng.standard_normal((n, rank)) * strengths) @ rng.standard_normal((rank, p))
    return X


def relu_features(n: int, p: int, rng: Generator) -> Array:
    """Random features max(0, z'a + b) of correlated inputs; all of them have positive means."""
    inputs = int(np.exp(rng.uniform(np.log(5), np.log(400))))
    Z = rng.standard_normal((n, inputs)) / np.sqrt(np.arange(1, inputs + 1))
    A = rng.standard_normal((inputs, p)) / np.sqrt(inputs)
    X = np.empty((n, p))
    offset = rng.standard_normal(p) / 2
    for rows in row_blocks(n):
        X[rows] = np.maximum(Z[rows] @ A + offset, 0.0)
    return X


def fourier_features(n: int, p: int, rng: Generator) -> Array:
    """Random Fourier features cos(z'a + b) of a Gaussian kernel."""
    inputs = int(np.exp(rng.uniform(np.log(3), np.log(200))))
    width = np.exp(rng.uniform(np.log(0.05), np.log(2.0)))
    Z = rng.standard_normal((n, inputs))
    A = rng.standard_normal((inputs, p)) * width / np.sqrt(inputs)
    phase = rng.uniform(0, 2 * np.pi, p)
    X = np.empty((n, p))
    for rows in row_blocks(n):
        X[rows] = np.cos(Z[rows] @ A + phase)
    return X * np.sqrt(2.0 / p)


def lagged_series(n: int, p: int, rng: Generator) -> Array:
    """Lags of several time series with trend, seasons and autocorrelated noise."""
    n_series = int(rng.integers(1, min(8, p) + 1))
    n_lags = -(-p // n_series)
    time = np.arange(n + n_lags)
    X = np.empty((n, n_series * n_lags))
    for k in range(n_series):
        noise = np.cumsum(rng.standard_normal(len(time))) * 0.05 + rng.standard_normal(len(time))
        season = np.sin(2 * np.pi * time / rng.uniform(5, 400)) * rng.uniform(0.0, 5.0)
        series = noise + season + rng.uniform(0.0, 2.0) * time / len(time)
        windows = np.lib.stride_tricks.sliding_window_view(series, n_lags)
        X[:, k * n_lags : (k + 1) * n_lags] = windows[:n]
    return X[:, :p]


def genotypes(n: int, p: int, rng: Generator) -> Array:
    """Counts 0, 1, 2 of minor alleles; neighbours are in linkage, and samples come from groups."""
    n_groups = int(rng.integers(1, 6))
    group = rng.integers(0, n_groups, n)
    frequencies = np.clip(rng.beta(0.8, 3.0, p) + rng.normal(0, 0.08, (n_groups, p)), 0.01, 0.6)
    linkage = rng.uniform(0.5, 0.95)
    X = np.empty((n, p))
    previous = rng.uniform(size=(n, 2))
    for j in range(p):
        kept = rng.uniform(size=(n, 2)) < linkage
        previous = np.where(kept, previous, rng.uniform(size=(n, 2)))
        X[:, j] = (previous < frequencies[group, j][:, None]).sum(axis=1)
    return X


def one_hot(n: int, p: int, rng: Generator) -> Array:
    """Dense indicator columns of several categorical variables with unequal frequencies."""
    X = np.zeros((n, p))
    start = 0
    while start < p:
        levels = min(p - start, int(np.exp(rng.uniform(np.log(2), np.log(200)))))
        weights = 1.0 / np.arange(1, levels + 1) ** rng.uniform(0.0, 1.5)
        chosen = rng.choice(levels, n, p=weights / weights.sum())
        X[np.arange(n), start + chosen] = 1.0
        start += levels
    return X


def polynomials(n: int, p: int, rng: Generator) -> Array:
    """Products of up to three of a few variables, not standardised."""
    inputs = max(2, min(50, int(np.ceil((2 * p) ** 0.5))))
    Z = rng.uniform(-1, 1, (n, inputs)) + rng.uniform(-1, 1, inputs)
    X = np.empty((n, p))
    for j in range(p):
        X[:, j] = np.prod(Z[:, rng.integers(0, inputs, rng.integers(1, 4))], axis=1)
    return X


def different_units(n: int, p: int, rng: Generator) -> Array:
    """Correlated columns whose spreads and means differ by many powers of ten."""
    X = rng.standard_normal((n, p))
    X += rng.standard_normal((n, 1)) * rng.uniform(-1, 1, p)
    decades = rng.uniform(1.0, 5.0)
    X *= 10.0 ** rng.uniform(-decades / 2, decades / 2, p)
    X += X.std(axis=0) * rng.normal(0, 3.0, p)
    return X


def image_features(n: int, p: int, rng: Generator) -> Array:
    """Patches of smooth random images: spectra fall like a power of the frequency."""
    side = int(np.ceil(np.sqrt(p)))
    frequency = np.hypot(*np.meshgrid(np.arange(side), np.arange(side))) + 1.0
    amplitude = frequency ** -rng.uniform(0.8, 1.8)
    X = np.empty((n, p))
    for rows in row_blocks(n):
        noise = rng.standard_normal((rows.stop - rows.start, side, side)) * amplitude
        images = fft.dctn(noise, axes=(1, 2), norm="ortho", overwrite_x=True)
        X[rows] = images.reshape(len(images), -1)[:, :p]
    X -= X.min(axis=0)
    return X


def sparse_text(n: int, p: int, rng: Generator) -> sparse.csr_array:
    """Word counts with logarithmic weights; frequencies of words follow a power law."""
    words = int(np.exp(rng.uniform(np.log(8), np.log(150))))
    lengths = np.minimum(rng.poisson(words, n) + 1, 4 * words)
    exponent = rng.uniform(0.8, 1.3)
    cumulated = np.cumsum(1.0 / np.arange(1, p + 1) ** exponent)
    columns = np.searchsorted(cumulated, rng.uniform(0, cumulated[-1], int(lengths.sum())))
    columns = rng.permutation(p)[np.minimum(columns, p - 1)]
    return _csr_counts(lengths, columns, p, lambda counts: 1.0 + np.log(counts))


def sparse_crosses(n: int, p: int, rng: Generator) -> sparse.csr_array:
    """Crossed categories hashed into p columns: a few ones in every row."""
    fields = int(rng.integers(3, 30))
    columns = np.empty((n, fields), dtype=np.int64)
    for k in range(fields):
        levels = int(np.exp(rng.uniform(np.log(3), np.log(max(4.0, float(p))))))
        value = np.minimum((levels * rng.uniform(size=n) ** rng.uniform(1.0, 4.0)), levels - 1)
        columns[:, k] = (value.astype(np.int64) * 1_000_003 + k * 7_919) % p
    return _csr_counts(np.full(n, fields), columns.ravel(), p, np.ones_like)


def _csr_counts(
    lengths: Array, columns: Array, p: int, weight: Callable[[Array], Array]
) -> sparse.csr_array:
    """A CSR array from the columns of all words, row after row, with weighted counts as values."""
    indptr = np.append(0, np.cumsum(lengths))
    X = sparse.csr_array((np.ones(len(columns)), columns, indptr), shape=(len(lengths), p))
    X.sum_duplicates()
    X.data = weight(X.data)
    return X


def spiked_spectrum(n: int, p: int, rng: Generator) -> Array:
    """A flat spectrum with a few singular values that are up to a thousand times larger."""
    values = np.ones(p)
    n_spikes = int(rng.integers(1, min(60, p) + 1))
    values[:n_spikes] = np.sort(10.0 ** rng.uniform(0.3, 3.0, n_spikes))[::-1]
    return _with_spectrum(n, values, rng)


def flat_spectrum(n: int, p: int, rng: Generator) -> Array:
    """Independent standard normal columns with random means."""
    return rng.standard_normal((n, p)) + rng.standard_normal(p)


def power_law_spectrum(n: int, p: int, rng: Generator) -> Array:
    """Singular values i^-a with a between 0.3 and 2."""
    return _with_spectrum(n, np.arange(1.0, p + 1) ** -rng.uniform(0.3, 2.0), rng)


def _with_spectrum(n: int, values: Array, rng: Generator) -> Array:
    """Gaussian rows with these standard deviations, in a random orthogonal basis; plus a mean."""
    X = rng.standard_normal((n, len(values)))
    X *= values[rng.permutation(len(values))]
    X = fft.dct(X, axis=1, norm="ortho", overwrite_x=True)
    X += rng.standard_normal(len(values)) * np.sqrt(np.mean(values**2))
    return X


def rank_deficient(n: int, p: int, rng: Generator) -> Array:
    """Columns that are combinations of fewer ones, exactly."""
    rank = max(1, int(min(n, p) * rng.uniform(0.05, 0.9)))
    scales = 1.0 / np.sqrt(np.arange(1, rank + 1))
    return (rng.standard_normal((n, rank)) * scales) @ rng.standard_normal((rank, p))


def duplicated_and_empty(n: int, p: int, rng: Generator) -> Array:
    """Columns that repeat others, nearly or exactly, and columns of zeros."""
    distinct = max(2, int(p * rng.uniform(0.2, 0.8)))
    Z = rng.standard_normal((n, distinct)) * rng.uniform(0.1, 3.0, distinct)
    X = Z[:, rng.integers(0, distinct, p)]
    nearly = rng.uniform(size=p) < 0.3
    X[:, nearly] += 1e-3 * rng.standard_normal((n, int(nearly.sum())))
    X[:, rng.uniform(size=p) < rng.uniform(0.0, 0.4)] = 0.0
    return X


@cache
def _real_tables() -> dict[str, Array]:
    """Data of scikit-learn, and of the folder $LING_DATA if it is set."""
    tables = {
        "digits": datasets.load_digits().data,
        "diabetes": datasets.load_diabetes(scaled=False).data,
        "breast cancer": datasets.load_breast_cancer().data,
        "wine": datasets.load_wine().data,
        "china": datasets.load_sample_image("china.jpg").reshape(427, -1),
        "flower": datasets.load_sample_image("flower.jpg").reshape(427, -1),
    }
    folder = Path(os.environ.get("LING_DATA", ""))
    for name in ("buzz_twitter_38500", "gisette_first1000", "mnist49"):
        path = folder / f"{name}.npz"
        if os.environ.get("LING_DATA") and path.exists():
            tables[name] = np.load(path)["X"]
    return tables


def real_data(n: int, p: int, rng: Generator) -> Array:
    """Rows and columns of real tables; products of two columns where p is larger than the table.

    The result has at most as many rows as the table.
    """
    tables = _real_tables()
    table = tables[str(rng.choice(sorted(tables)))]
    rows = np.sort(rng.choice(len(table), min(n, len(table)), replace=False))
    columns = rng.permutation(table.shape[1])[:p]
    X = table[np.ix_(rows, columns)].astype(np.float64)
    missing = p - X.shape[1]
    if missing <= 0:
        return X
    scale = np.abs(X).max(axis=0)
    Z = X / np.where(scale > 0, scale, 1.0)
    pairs = rng.integers(0, X.shape[1], (2, missing))
    return np.hstack([Z, Z[:, pairs[0]] * Z[:, pairs[1]]])


FAMILIES: dict[str, Family] = {
    "autocorrelated columns": autocorrelated,
    "factor model": factor_model,
    "ReLU features": relu_features,
    "Fourier features": fourier_features,
    "lagged time series": lagged_series,
    "genotypes": genotypes,
    "one-hot": one_hot,
    "polynomials": polynomials,
    "different units": different_units,
    "image features": image_features,
    "sparse text": sparse_text,
    "sparse one-hot crosses": sparse_crosses,
    "spiked spectrum": spiked_spectrum,
    "flat spectrum": flat_spectrum,
    "power-law spectrum": power_law_spectrum,
    "rank-deficient": rank_deficient,
    "duplicated and empty columns": duplicated_and_empty,
    "real data": real_data,
    **STRANGER_FAMILIES,
}
