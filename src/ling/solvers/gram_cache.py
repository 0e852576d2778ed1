"""Gram matrices of a problem, each formed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ling._typing import Array
from ling.design import Design


@dataclass(eq=False)
class GramCache:
    """The Gram matrices that depend on X alone, in float64; each is formed when first asked for.

    Problems that differ in their alphas or targets share one cache, because X is the same.
    `formed_gram` and `formed_kernel` are the matrices that have been formed so far, else None.
    """

    formed_gram: Array | None = None
    formed_kernel: Array | None = None
    _unweighted_kernel: Array | None = None

    def gram(self, design: Design) -> Array:
        """X'X (p, p) of the centred and weighted rows; one pass if it has not been formed."""
        if self.formed_gram is None:
            self.formed_gram = design.gram(np.float64)
        return self.formed_gram

    def kernel(self, design: Design) -> Array:
        """X X' (n, n) of the same rows; `row_gram_passes` passes if it has not been formed."""
        if self.formed_kernel is None:
            self.formed_kernel = design.row_gram(np.float64)
        return self.formed_kernel

    def unweighted_kernel(self, design: Design) -> Array:
        """X X' (n, n) of the centred rows without their weights, which `design` holds."""
        if self._unweighted_kernel is None:
            self._unweighted_kernel = design.row_gram(np.float64)
        return self._unweighted_kernel
