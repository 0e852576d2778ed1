"""Algorithm 2 of the paper, random SVD, and principal component regression on top of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from ling._typing import Array, MatrixLike, Seed
from ling.design import Design, Meter
from ling.paper.inputs import (
    as_generator,
    check_count,
    check_design,
    check_rank,
    check_target,
)
from ling.paper.results import Fit, ReadOnlyArrays
from ling.results import Cost


@dataclass(frozen=True, eq=False)
class PartialSVD(ReadOnlyArrays):
    """X ~ U diag(d) Vt.

    `Q` is an orthonormal basis of the same space as U. `map` has U = X `map`: it carries what is
    found on the training rows over to new ones. Where X has fewer than k directions above rounding,
    there are only as many columns.
    """

    U: Array = field(repr=False)
    d: Array
    Vt: Array = field(repr=False)
    Q: Array = field(repr=False)
    map: Array = field(repr=False)
    cost: Cost


@dataclass(frozen=True, eq=False)
class RangeBasis:
    """An orthonormal basis Q = X `map` of the leading left singular directions of X."""

    Q: Array
    map: Array


def random_svd(X: MatrixLike, k: int, power: int = 1, random_state: Seed = None) -> PartialSVD:
    """Algorithm 2: the top k left singular vectors and singular values of X, by random projection.

    Q is an orthonormal basis of (XX')^power X R, R standard Gaussian; the SVD of Q'X does the rest.
    (4 power + 4) n p k FLOPs in products, and power + 2 passes. The powers are orthonormalised in
    between, which leaves the range as printed and keeps its weak directions above rounding.

    If the numerical rank of X is below k, the result has that many columns instead of k.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)
    k : int
        How many components.
    power : int, default=1
        Powers of XX' in Algorithm 2: more of them, nearer to the true components.
    random_state : int, Generator or None, default=None

    Returns
    -------
    PartialSVD

    Examples
    --------
    >>> import numpy as np
    >>> random_svd(np.diag([3.0, 2.0, 1.0]), k=3, random_state=0).d.round(12)
    array([3., 2., 1.])
    """
    return randomized_svd(check_design(X), k, power, random_state)


def randomized_svd(design: Design, k: Any, power: Any, random_state: Seed) -> PartialSVD:
    """Algorithm 2 on a design that has been checked."""
    basis = find_range(design, k, power, random_state)
    B = design.rmatmat(basis.Q).T
    U0, d, Vt = linalg.svd(B, full_matrices=False)
    rank = len(d)
    design.meter.add(flops=6 * design.shape[1] * rank**2 + 20 * rank**3)
    U, to_features = basis.Q @ U0, basis.map @ U0
    design.meter.add(flops=2 * sum(design.shape) * rank**2)
    return PartialSVD(U, d, Vt, basis.Q, to_features, design.cost)


def exact_svd(X: MatrixLike, k: int) -> PartialSVD:
    """The top k left singular vectors of X to rounding, by a dense SVD: what the theory assumes.

    X is made dense for this. FLOPs as for a full SVD, 6 n p min(n, p) + 20 min(n, p)^3; 1 pass.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)
    k : int
        How many components.

    Returns
    -------
    PartialSVD
    """
    design = check_design(X)
    k = check_rank(k, design)
    U, d, Vt = linalg.svd(
        design.metered(Meter()).matmat(np.eye(design.shape[1])), full_matrices=False
    )
    rank = min(k, _numerical_rank(d, design.shape))
    small = min(design.shape)
    design.meter.add(flops=6 * small**2 * max(design.shape) + 20 * small**3, passes=1)
    U, d, Vt = U[:, :rank].copy(), d[:rank].copy(), Vt[:rank].copy()
    return PartialSVD(U, d, Vt, U, Vt.T / d, design.cost)


def pcr(X: MatrixLike, y: ArrayLike, k: int, power: int = 1, random_state: Seed = None) -> Fit:
    """Principal component regression: least squares of y on the top k components of X.

    Only the space they span is needed, so Algorithm 2 stops at Q: fitted = Q Q'y,
    (4 power + 2) n p k FLOPs in products, power + 1 passes.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)
    y : array of shape (n,)
    k : int
        How many components.
    power : int, default=1
        Powers of XX' in Algorithm 2: more of them, nearer to the true components.
    random_state : int, Generator or None, default=None

    Returns
    -------
    Fit
        `coef`, `fitted`, `cost` and `predict`.

    Examples
    --------
    >>> import numpy as np
    >>> pcr(np.diag([9.0, 1.0]), np.array([9.0, 1.0]), k=1, power=9, random_state=0).fitted[:1]
    array([9.])
    """
    design = check_design(X)
    target = check_target(y, design)
    basis = find_range(design, k, power, random_state)
    gamma = basis.Q.T @ target
    return Fit(basis.map @ gamma, basis.Q @ gamma, design.cost)


def find_range(design: Design, k: Any, power: Any, random_state: Seed) -> RangeBasis:
    """Steps 1-3 of Algorithm 2, with the map from features kept.

    W = orth((X'X)^power R) lives on the feature side and XW spans the range of (XX')^power XR.
    With XW = Q S V' (its SVD, through a QR factorisation), Q = X W V S^-1; the condition of S is at
    most d_1 / d_k, not that ratio to the power 2 power + 1.
    """
    k = check_rank(k, design)
    power = check_count(power, "power", 0)
    n, p = design.shape
    W = _orthonormal(as_generator(random_state).standard_normal((p, k)), design)
    for _ in range(power):
        W = _orthonormal(design.gram_matmat(W), design)
    Q, R = linalg.qr(design.matmat(W), mode="economic")
    U, s, Vt = linalg.svd(R)
    rank = _numerical_rank(s, design.shape)
    design.meter.add(flops=_qr_flops(n, k) + 22 * k**3 + 2 * (n + p) * k * rank)
    return RangeBasis(Q @ U[:, :rank], W @ (Vt[:rank].T / s[:rank]))


def _orthonormal(A: Array, design: Design) -> Array:
    design.meter.add(flops=_qr_flops(*A.shape))
    return np.asarray(linalg.qr(A, mode="economic")[0])


def _qr_flops(n: int, k: int) -> float:
    """Householder QR of n x k with its thin Q formed."""
    return 4.0 * n * k**2 - 4.0 * k**3 / 3.0


def _numerical_rank(d: Array, shape: tuple[int, int]) -> int:
    return int(np.count_nonzero(d > max(shape) * np.finfo(np.float64).eps * d[0]))
