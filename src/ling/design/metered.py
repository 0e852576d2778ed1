"""Counts passes and FLOPs of whatever it wraps, so that no algorithm contains a counter."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ling._typing import Array
from ling.design.base import Design
from ling.design.row_transform import RowReduction, RowTransform
from ling.progress import current_fit
from ling.results import Cost

log = logging.getLogger("ling")


class Meter:
    """A running total, which is also added to `parents`; metered designs may share one.

    Whoever watches when it is made is told of all passes, whichever thread makes them.
    """

    def __init__(self, *parents: Meter) -> None:
        self.cost = Cost()
        self.parents = parents
        self._progress = current_fit()
        self._lock = Lock()

    def __getstate__(self) -> tuple[Cost, tuple[Meter, ...]]:
        return self.cost, self.parents  # a lock cannot be pickled, and need not be

    def __setstate__(self, state: tuple[Cost, tuple[Meter, ...]]) -> None:
        self.cost, self.parents = state
        self._progress = None
        self._lock = Lock()

    def add(self, flops: float = 0.0, passes: float = 0.0) -> None:
        """Count work that is not a product with a metered design."""
        self._count(flops, passes)
        if not passes:
            return
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%.4g passes over X so far", self.cost.passes)
        if self._progress is not None:
            self._progress.add(passes)

    def _count(self, flops: float, passes: float) -> None:
        with self._lock:
            self.cost = Cost(self.cost.flops + flops, self.cost.passes + passes)
        for parent in self.parents:
            parent._count(flops, passes)


class Metered(Design):
    """The same matrix, with every product counted.

    >>> import numpy as np
    >>> from ling.design import DenseStorage
    >>> X = Metered(DenseStorage(np.ones((4, 3))))
    >>> _ = X.gram_matmat(np.ones(3))
    >>> X.cost
    Cost(flops=48.0, passes=1.0)
    """

    def __init__(
        self, design: Design, meter: Meter | None = None, pass_fraction: float = 1.0
    ) -> None:
        self.design = design
        self.meter = Meter() if meter is None else meter
        self.pass_fraction = pass_fraction  # of all rows: what a product counts as a pass
        self.shape = design.shape
        self.dtype = design.dtype

    @property
    def cost(self) -> Cost:
        """What has been spent so far."""
        return self.meter.cost

    def matmat(self, V: Array) -> Array:
        """X V, one pass."""
        U = self.design.matmat(V)
        self.meter.add(self.matvec_flops * _n_columns(U), self.pass_fraction)
        return U

    def rmatmat(self, U: Array) -> Array:
        """X'U, one pass."""
        V = self.design.rmatmat(U)
        self.meter.add(self.matvec_flops * _n_columns(V), self.pass_fraction)
        return V

    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """X' between(X V), one pass."""
        out = self.design.gram_matmat(V, transform)
        self.meter.add(2.0 * self.matvec_flops * _n_columns(out), self.pass_fraction)
        return out

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """function(rows), one pass."""
        found = self.design.map_rows(function)
        self.meter.add(0.0, self.pass_fraction)
        return found

    def reduce_rows(self, sums: RowReduction) -> tuple[Array, ...]:
        """What all rows add up to, one pass."""
        found = self.design.reduce_rows(sums)
        self.meter.add(sums.flops_per_row * self.shape[0], self.pass_fraction)
        return found

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows of X, counted as their share of a pass."""
        block = self.design.take(rows)
        self.meter.add(0.0, self.pass_fraction * len(rows) / max(1, self.shape[0]))
        return block

    def subset(self, rows: NDArray[np.intp]) -> Metered:
        """Some rows of X, whose products are counted as their share of a pass."""
        pass_fraction = self.pass_fraction * len(rows) / max(1, self.shape[0])
        return Metered(self.design.subset(rows), self.meter, pass_fraction)

    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """X'X, one pass."""
        G = self.design.gram(dtype)
        self.meter.add(self.gram_flops, self.pass_fraction)
        return G

    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """X X', one pass."""
        G = self.design.row_gram(dtype)
        self.meter.add(self.row_gram_flops, self.pass_fraction * self.row_gram_passes)
        return G

    @property
    def row_gram_passes(self) -> float:
        """As the design's."""
        return self.design.row_gram_passes

    @property
    def matvec_flops(self) -> float:
        """FLOPs of X v."""
        return self.design.matvec_flops

    @property
    def gram_flops(self) -> float:
        """FLOPs of X'X."""
        return self.design.gram_flops

    @property
    def row_gram_flops(self) -> float:
        """FLOPs of X X'."""
        return self.design.row_gram_flops


def _n_columns(A: Array) -> int:
    return 1 if A.ndim == 1 else A.shape[1]
