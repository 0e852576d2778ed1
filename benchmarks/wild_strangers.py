"""Five families of regression problems, written without having read the solvers.

Each family is a function of the number of rows, the number of columns and a random generator. It
draws the rows in blocks, so that it needs little memory beyond that of its result, and multiplies
with einsum, so that no bit of the result depends on the number of BLAS threads.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

Array = NDArray[np.float64]

BLOCK_ENTRIES = 200_000  # entries drawn at once


def _blocks(start: int, stop: int, entries_per_row: int) -> Iterator[tuple[int, int]]:
    """The rows from start to stop, in blocks of about BLOCK_ENTRIES entries."""
    step = max(1, BLOCK_ENTRIES // entries_per_row)
    for first in range(start, stop, step):
        yield first, min(first + step, stop)


def chemometric_spectra(n: int, p: int, rng: np.random.Generator) -> Array:
    """Near-infrared absorbances of mixtures of a few substances, at p wavelengths.

    The broad peaks overlap, most of the signal is solvent, and path length, baseline, temperature
    and the splice of two detectors vary from sample to sample; the noise is very small.
    """
    axis = np.linspace(0.0, 1.0, p)
    substances = int(rng.integers(4, 13))
    shapes = np.zeros((substances + 4, p))
    for pure in shapes[:substances]:
        for _ in range(int(rng.integers(3, 9))):
            centre = rng.uniform(-0.05, 1.05)
            width = np.exp(rng.uniform(np.log(0.01), np.log(0.12)))
            pure += rng.lognormal(-1.0, 0.7) * np.exp(-0.5 * ((axis - centre) / width) ** 2)
    shapes[-4] = np.gradient(shapes[0], axis)  # the peaks of the solvent move with temperature
    shapes[-3] = 1.0  # offset of the baseline
    shapes[-2] = axis - 0.5  # tilt of the baseline
    shapes[-1] = axis > rng.uniform(0.3, 0.7)  # second detector
    nuisance_scales = np.array([0.003, 0.05, 0.03, 0.01])
    typical = np.geomspace(0.3, 0.003, substances - 1)
    noise = 1e-4 * 10.0 ** (4.0 * (axis - 0.5) ** 2)  # ten times larger at both ends

    X = np.empty((n, p))
    for first, stop in _blocks(0, n, p):
        rows = stop - first
        scores = np.empty((rows, substances + 4))
        scores[:, 1:substances] = typical * rng.lognormal(0.0, 0.5, (rows, substances - 1))
        scores[:, 0] = 2.0 / (1.0 + scores[:, 1:substances].sum(axis=1))  # the solvent
        scores[:, substances:] = nuisance_scales * rng.standard_normal((rows, 4))
        scores *= rng.lognormal(0.0, 0.1, (rows, 1))  # path length
        block = X[first:stop]
        np.einsum("ij,jk->ik", scores, shapes, out=block)
        block += noise * rng.standard_normal((rows, p))
    return X


def sentence_embeddings(n: int, p: int, rng: np.random.Generator) -> Array:
    """Unit-length embeddings of sentences from a language model.

    They share a large mean direction and a few outlier dimensions, fall into topics of unequal
    size, and about one row in ten nearly repeats another (boilerplate).
    """
    rank = min(32, p)
    topics = max(1, min(40, n // 10))
    topic_ends = np.cumsum(rng.dirichlet(np.full(topics, 0.7)))
    centres = rng.standard_normal((topics, p))
    centres *= 0.6
    centres += 1.2 * rng.standard_normal(p)
    directions = rng.standard_normal((rank, p))
    directions *= (1.0 / np.sqrt(np.arange(1.0, rank + 1.0)))[:, None]
    outliers = rng.choice(p, size=max(1, p // 250), replace=False)
    centres[:, outliers] += rng.choice([-1.0, 1.0], outliers.size) * rng.uniform(
        8.0, 25.0, outliers.size
    )

    X = np.empty((n, p))
    for first, stop in _blocks(0, n, p):
        rows = stop - first
        block = X[first:stop]
        np.einsum("ij,jk->ik", rng.standard_normal((rows, rank)), directions, out=block)
        topic = np.searchsorted(topic_ends, rng.random(rows))
        block += centres[np.minimum(topic, topics - 1)]
        block += 0.3 * rng.standard_normal((rows, p))
        block[:, outliers] *= rng.lognormal(0.0, 0.3, (rows, outliers.size))
        # Boilerplate repeats any row drawn so far, in this block or before it.
        repeats = first + np.flatnonzero(rng.random(rows) < 0.1)
        originals = rng.integers(0, repeats + 1)
        block /= np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
        noise = rng.standard_normal((repeats.size, p))
        X[repeats] = X[originals] + 1e-3 / np.sqrt(p) * noise
        X[repeats] /= np.linalg.norm(X[repeats], axis=1, keepdims=True)
    return X


def drifting_sensors(n: int, p: int, rng: np.random.Generator) -> Array:
    """Readings of an array of p sensors around a few sources, in the order of time.

    Every sensor drifts as a random walk until the next service, which also changes its gain; some
    sensors get stuck before it, and heavy-tailed shocks shake whole rows.
    """
    sources = int(rng.integers(3, 9)) if p >= 10 else 2
    places = rng.random((sources, 2))
    sensors = rng.random((p, 2))
    loadings = np.empty((sources, p))
    for place, loading in zip(places, loadings, strict=True):
        loading[:] = 0.1 / (0.03 + ((sensors - place) ** 2).sum(axis=1))
    level = rng.normal(0.0, 3.0, p)
    drift = rng.lognormal(0.0, 0.8, p) / np.sqrt(n)
    noise = rng.lognormal(-2.5, 0.7, p)
    services = np.sort(rng.choice(np.arange(1, n), size=int(rng.integers(2, 7)), replace=False))
    edges = [0, *services.tolist(), n]

    X = np.empty((n, p))
    for begin, end in pairwise(edges):
        gain = rng.lognormal(0.0, 0.1, p)
        gained = loadings * gain
        state = level * gain
        for first, stop in _blocks(begin, end, p):
            rows = stop - first
            block = X[first:stop]
            rng.standard_normal(out=block)
            block *= drift
            block[0] += state
            np.cumsum(block, axis=0, out=block)
            state = block[-1].copy()
            emitted = rng.standard_t(4.0, (rows, sources))
            shock = np.minimum((1.0 - rng.random(rows)) ** (-1.0 / 1.5), 1000.0)
            emitted *= np.where(rng.random(rows) < 0.01, 5.0 * shock, 1.0)[:, None]
            block += np.einsum("ij,jk->ik", emitted, gained)
            block += noise * rng.standard_normal((rows, p))
        stuck = np.flatnonzero(rng.random(p) < 0.03)
        since = int(rng.integers(begin, end))
        X[since:end, stuck] = X[since, stuck]
    return X


def click_logs(n: int, p: int, rng: np.random.Generator) -> sparse.csr_array:
    """Counts of the clicks of n visitors, in the order of time, on p items; sparse.

    Popularity, activity and counts are heavy-tailed: visitors keep to a topic or take what is
    popular, a few are robots, and now and then everybody clicks on one item for a while.
    """
    exponent = rng.uniform(0.7, 0.95)  # of the popularity by rank
    topics = max(1, int(np.sqrt(p) / 3.0))
    width = p // topics
    popular = rng.permutation(p).astype(np.int32)
    burst = np.full(n, -1, dtype=np.int32)  # the item that everybody clicks on, if any
    for _ in range(int(rng.integers(4, 13))):
        begin = int(rng.integers(n))
        burst[begin : begin + max(1, int(n * rng.uniform(0.001, 0.02)))] = rng.integers(p)

    parts = []
    for first, stop in _blocks(0, n, min(25, p)):
        rows = stop - first
        lengths = rng.lognormal(np.log(18.0), 0.8, rows).clip(min(p, 6), min(p, 100))
        indptr = np.zeros(rows + 1, dtype=np.int32)
        np.cumsum(lengths.astype(np.int32), out=indptr[1:])
        owner = np.repeat(np.arange(rows), np.diff(indptr))
        # The rank of an item among those of the topic or among all, by the inverse of the
        # distribution function of a power law.
        in_topic = rng.random(owner.size) < 0.6
        power = 1.0 - exponent
        total = np.where(in_topic, (width + 1.0) ** power - 1.0, (p + 1.0) ** power - 1.0)
        rank = (1.0 + rng.random(owner.size) * total) ** (1.0 / power)
        rank = np.minimum(rank.astype(np.int32) - 1, np.where(in_topic, width, p) - 1)
        topic = rng.integers(topics, size=rows, dtype=np.int32)
        items = np.where(in_topic, topic[owner] * width + rank, popular[rank]).astype(np.int32)
        robot = rng.random(rows) < 0.002
        eagerness = rng.lognormal(0.0, 0.5, rows) * np.where(robot, 30.0, 1.0)
        counts = eagerness[owner] * (1.0 - rng.random(owner.size)) ** (-1.0 / 1.6)
        trending = burst[first:stop]
        hit = np.flatnonzero(trending >= 0)
        items[indptr[hit]] = trending[hit]
        counts[indptr[hit]] *= 10.0
        counts = np.minimum(np.ceil(counts), 1e4)
        part = sparse.csr_array((counts, items, indptr), shape=(rows, p))
        part.sum_duplicates()
        parts.append(part.copy())  # without the room that it no longer needs
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def additive_splines(n: int, p: int, rng: np.random.Generator) -> sparse.csr_array:
    """Cubic B-splines of several measurements, with a curve for every region or site; sparse.

    Sites are nested in regions and very unequal in size, the measurements are correlated, some
    are skewed or rounded, and a missing measurement leaves its columns empty in that row.
    """
    terms = int(rng.integers(min(2, p // 10), min(20, p // 10) + 1)) if p >= 20 else 1
    # The columns of each term, at least 5, and in them the first column of each of its curves.
    extra = rng.multinomial(p - 5 * terms, rng.dirichlet(np.ones(terms)))
    ends = np.cumsum(5 + extra)
    starts = []
    for begin, end in zip(ends - 5 - extra, ends, strict=True):
        curves = max(1, (end - begin) // int(rng.integers(6, 25)))
        starts.append(np.linspace(begin, end, curves + 1).astype(np.int32))
    shared = rng.uniform(0.3, 0.95, terms)  # correlation with the common cause
    kinds = rng.integers(3, size=terms)
    missing = rng.uniform(0.0, 0.15, terms)
    missing[0] = 0.0  # no row is empty

    parts = []
    for first, stop in _blocks(0, n, 4 * terms):
        rows = stop - first
        values = np.empty((rows, terms, 4))
        columns = np.empty((rows, terms, 4), dtype=np.int32)
        cause = rng.standard_normal(rows)
        site = rng.random(rows) ** 3  # the first sites are by far the largest
        for j in range(terms):
            own = rng.standard_normal(rows)
            x = shared[j] * cause + np.sqrt(1.0 - shared[j] ** 2) * own
            if kinds[j] == 0:  # evenly spread
                x = ndtr(x)
            elif kinds[j] == 1:  # skewed: knots far out see few rows
                x = np.minimum(np.exp(x) / np.exp(3.5), 1.0)
            else:  # rounded
                x = np.round(np.clip(0.5 + x / 7.0, 0.0, 1.0), 2)
            curve = (site * (starts[j].size - 1)).astype(np.intp)
            begin = starts[j][curve]
            intervals = starts[j][curve + 1] - begin - 3
            x *= intervals
            interval = np.minimum(x.astype(np.int32), intervals - 1)
            x -= interval
            values[:, j, 0] = (1.0 - x) ** 3
            values[:, j, 1] = (3.0 * x - 6.0) * x * x + 4.0
            values[:, j, 2] = ((3.0 - 3.0 * x) * x + 3.0) * x + 1.0
            values[:, j, 3] = x**3
            values[rng.random(rows) < missing[j], j] = 0.0
            columns[:, j] = (begin + interval)[:, None] + np.arange(4)
        values /= 6.0
        indptr = np.arange(0, values.size + 1, 4 * terms, dtype=np.int32)
        part = sparse.csr_array((values.ravel(), columns.ravel(), indptr), shape=(rows, p))
        part.eliminate_zeros()
        parts.append(part.copy())  # without the room that it no longer needs
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


STRANGER_FAMILIES: dict[
    str, Callable[[int, int, np.random.Generator], Array | sparse.csr_array]
] = {
    "chemometric_spectra": chemometric_spectra,
    "sentence_embeddings": sentence_embeddings,
    "drifting_sensors": drifting_sensors,
    "click_logs": click_logs,
    "additive_splines": additive_splines,
}
