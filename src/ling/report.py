"""What a computation tells about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Floating-point operations and passes over the data.

    Counted are the products with X, the dense factorisations, and the row updates of SVRG: 2 FLOPs
    per multiply-add, one triangle only for a Gram matrix. What an algorithm does with vectors
    between its products, O(n + p) a pass, is not.
    One pass is one sweep over all of X, whatever the number of columns it is multiplied with.
    """

    flops: float = 0.0
    passes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.passes + other.passes)
