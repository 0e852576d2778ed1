"""A wrapper that counts the passes and FLOPs of a design, so that algorithms need no counters."""

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
    """A running total of cost, which is also added to `parents`; metered designs may share one.

    The fit progress that is active when the meter is created is notified of all passes, from
    whichever thread they are made.
    """

    def __init__(self, *parents: Meter) -> None:
        self.cost = Cost()
        self.parents = parents
        self._progress = current_fit()
        self._lock = Lock()

    def __getstate__(self) -> tuple[Cost, tuple[Meter, ...]]:
        return self.cost, self.parents  # locks cannot be pickled; `__setstate__` creates a new one

    def __setstate__(self, state: tuple[Cost, tuple[Meter, ...]]) -> None:
        self.cost, self.parents = state
        self._progress = None
        self._lock = Lock()

    def add(self, flops: float = 0.0, passes: float = 0.0) -> None:
        """Add FLOPs and passes to the total, log the passes and report them as progress."""
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
    """A design that behaves like the one it wraps and counts every product.

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
        # Passes that one product counts: the fraction of all rows that this design holds.
        self.pass_fraction = pass_fraction
        self.shape = design.shape
        self.dtype = design.dtype

    @property
    def cost(self) -> Cost:
        """The FLOPs and passes counted so far."""
        return self.meter.cost

    def matmat(self, V: Array) -> Array:
        """Return X V; one pass."""
        U = self.design.matmat(V)
        self.meter.add(self.matvec_flops * _n_columns(U), self.pass_fraction)
        return U

    def rmatmat(self, U: Array) -> Array:
        """Return X'U; one pass."""
        V = self.design.rmatmat(U)
        self.meter.add(self.matvec_flops * _n_columns(V), self.pass_fraction)
        return V

    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """Return X' transform(X V); one pass."""
        out = self.design.gram_matmat(V, transform)
        self.meter.add(2.0 * self.matvec_flops * _n_columns(out), self.pass_fraction)
        return out

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to blocks of rows and concatenate the results; one pass."""
        mapped = self.design.map_rows(function)
        self.meter.add(0.0, self.pass_fraction)
        return mapped

    def reduce_rows(self, sums: RowReduction) -> tuple[Array, ...]:
        """Return the arrays of `sums`, added up over all rows; one pass."""
        totals = self.design.reduce_rows(sums)
        self.meter.add(sums.flops_per_row * self.shape[0], self.pass_fraction)
        return totals

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows of X, dense; counted as the corresponding fraction of a pass."""
        block = self.design.take(rows)
        self.meter.add(0.0, self.pass_fraction * len(rows) / max(1, self.shape[0]))
        return block

    def subset(self, rows: NDArray[np.intp]) -> Metered:
        """Return the given rows of X; their products count as that fraction of a pass."""
        pass_fraction = self.pass_fraction * len(rows) / max(1, self.shape[0])
        return Metered(self.design.subset(rows), self.meter, pass_fraction)

    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X'X; one pass."""
        G = self.design.gram(dtype)
        self.meter.add(self.gram_flops, self.pass_fraction)
        return G

    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X X'; `row_gram_passes` passes."""
        G = self.design.row_gram(dtype)
        self.meter.add(self.row_gram_flops, self.pass_fraction * self.row_gram_passes)
        return G

    @property
    def row_gram_passes(self) -> float:
        """Number of passes that the wrapped design needs for X X'."""
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
