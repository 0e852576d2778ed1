"""Three ways to count the FLOPs of a fit: as our code works, as printed, and by order of magnitude.

- "measured": what the code of `ling.paper` does. Gradient descent keeps its residual, so that an
  iteration takes 2 products with X; LING never stores X_r.
- "printed": the paper's algorithms evaluated literally, matrix times vector first. An iteration of
  Algorithm 3 takes 4 products with X (Q gamma and Q w, 2 each), Algorithm 2 forms X R1 and two more
  products for (XX')X R1, and X_r is formed and stored.
- "order": section 2.2's O(np(k + n)) with constant 1. One component costs as much as one iteration
  or one pass, n p.
"""

from __future__ import annotations

from typing import Literal, get_args

from ling.paper.svrg_solver import PASSES_PER_SNAPSHOT
from ling.reproduction.experiments import GD, LING, LING_SVRG, PCR, RR, SVRG

FlopConvention = Literal["measured", "printed", "order"]
FLOP_CONVENTIONS: tuple[FlopConvention, ...] = get_args(FlopConvention)


def count_flops(
    convention: FlopConvention, algorithm: str, parameter: int, shape: tuple[int, int]
) -> float:
    """FLOPs of one fit by formula.

    Parameters
    ----------
    convention : {"printed", "order"}
    algorithm : str
        The name of the curve, such as "GD" or "LING k=20".
    parameter : int
        Components of PCR, iterations of GD and LING, passes of SVRG.
    shape : tuple of int
        Rows and columns of X.

    Returns
    -------
    float
    """
    count = {"order": _order, "printed": _printed}[convention]
    return float(count(algorithm, parameter, *shape))


def _order(algorithm: str, parameter: int, n: int, p: int) -> float:
    if algorithm == RR:
        return n * p * min(n, p)
    return n * p * (_rank(algorithm) + parameter)


def _printed(algorithm: str, parameter: int, n: int, p: int) -> float:
    if algorithm == RR:
        m = min(n, p)
        return 2 * n * p * m + m**3 / 3 + 4 * n * p
    if algorithm == PCR:
        return _range_finder(n, p, parameter) + _small_svd(n, p, parameter) + 4 * n * parameter
    if algorithm == GD:
        return _descent(n, p, parameter)
    if algorithm == SVRG:
        return _svrg(n, p, parameter)
    k = _rank(algorithm)
    second_stage = _descent if algorithm.startswith(LING) else _svrg
    # gamma1, Y_r and the final estimator; X_r = X - Q1 (Q1'X), formed.
    around = 6 * n * k + 2 * n * p + 4 * n * p * k + n * p
    return _range_finder(n, p, k) + around + second_stage(n, p, parameter)


def _rank(algorithm: str) -> int:
    """k2 of a curve of LING; 0 for the other algorithms."""
    return int(algorithm.split("=")[1]) if algorithm.startswith((LING, LING_SVRG)) else 0


def _range_finder(n: int, p: int, k: int) -> float:
    """Steps 1 to 3 of Algorithm 2 with i = 1: three products, and a QR factorisation."""
    return 6 * n * p * k + 4 * n * k**2 - 4 * k**3 / 3


def _small_svd(n: int, p: int, k: int) -> float:
    """Steps 4 and 5 of Algorithm 2: Q1'X, its SVD, and Q1 U0."""
    return 2 * n * p * k + 6 * p * k**2 + 20 * k**3 + 2 * n * k**2


def _descent(n: int, p: int, n_iter: int) -> float:
    """Algorithm 3: X'Y once, then Q gamma and Q w in every iteration."""
    return 2 * n * p + 8 * n * p * n_iter


def _svrg(n: int, p: int, n_passes: int) -> float:
    """Johnson & Zhang's loop: two row gradients and their sum, 12 p a step; the full gradients."""
    snapshots = -(-n_passes // PASSES_PER_SNAPSHOT)
    return 12 * n * p * n_passes + 4 * n * p * snapshots
