"""Dask arrays whose chunks do not have the shapes that the arrays declare."""

import re
from contextlib import contextmanager

import dask.array as da
import numpy as np

from ling.errors import ShapeError
from tests.raising import raises

N, P, HEIGHT = 120, 4, 30


def numbers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P))
    return X, X @ np.arange(1.0, P + 1)


def every_other_row(block):
    return block[::2]


def last_row_lost(block, block_id=None):
    """One chunk only."""
    return block[:-1] if block_id[0] == 2 else block


def rows_shifted(block, block_id=None):
    """A row too few, then a row too many: as many in all."""
    if block_id[0] == 1:
        return block[:-1]
    return np.concatenate([block[:1], block]) if block_id[0] == 2 else block


def twice(block):
    return np.repeat(block, 2, axis=0)


def column_lost(block):
    return block[:, 1:]


#: By name: what a function does to chunks; which ones are wrong then, and their shape.
CHANGES = {
    "every other row": (every_other_row, r"\d", (HEIGHT // 2, P)),
    "last row lost": (last_row_lost, "2", (HEIGHT - 1, P)),
    "rows shifted": (rows_shifted, "[12]", (r"(29|31)", P)),
    "twice": (twice, r"\d", (2 * HEIGHT, P)),
    "column lost": (column_lost, r"\d", (HEIGHT, P - 1)),
}


def bad(name):
    """The array, and a pattern for the chunk and the shapes that an error names."""
    change, which, (rows, columns) = CHANGES[name]
    array = da.from_array(numbers()[0], chunks=(HEIGHT, P)).map_blocks(change, dtype=float)
    return array, rf"\({which}, 0\).*\({rows}, {columns}\).*\({HEIGHT}, {P}\)"


@contextmanager
def refused(pattern, argument="X"):
    """Expect a ShapeError about `argument` that names a chunk and shapes."""
    with raises(ShapeError, argument) as info:
        yield
    assert re.search(pattern, info.value.problem), info.value
