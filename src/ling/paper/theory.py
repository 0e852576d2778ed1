"""What the paper proves: risks under the fixed design model, and rates of convergence.

    y = X beta + noise,  X = U diag(d) V',  a = V' beta        risk = E ||X beta - fitted||^2 / n

`spectrum` is d, all min(n, p) singular values; `rotated` is a, the coefficients in the basis V.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ling._typing import Array
from ling.errors import ShapeError
from ling.paper.inputs import check_alpha, check_count, check_number, check_vector

__all__ = [
    "gd_rate",
    "lemma2",
    "lemma2_as_printed",
    "ling_rate",
    "ling_rate_from_zero",
    "ling_risk",
    "ridge_risk",
    "risk_deviation",
]


def ridge_risk(spectrum: ArrayLike, rotated: ArrayLike, noise: float, lam: float, n: int) -> float:
    """sum_j (d_j^4 noise^2 + n^2 lam^2 d_j^2 a_j^2) / (d_j^2 + n lam)^2 / n, the risk of ridge.

    Parameters
    ----------
    spectrum : array
        Singular values of X.
    rotated : array
        V'beta, the true coefficients in the directions of the spectrum.
    noise : float
        Standard deviation of the noise.
    lam : float
    n : int
        Rows of X.

    Returns
    -------
    float

    Examples
    --------
    >>> ridge_risk([1.0], [2.0], noise=0.0, lam=0.5, n=2)
    0.5
    """
    d, a = _sort_by_singular_value(spectrum, rotated)
    return float(_direction_risks(d, d * a, noise, lam, n).sum() / n)


def ling_risk(
    spectrum: ArrayLike, rotated: ArrayLike, noise: float, lam: float, n: int, k: int
) -> float:
    """Theorem 2: the risk of LING with exact U1 and stage 2 solved to the end.

    Lemma 1 on the top k directions, with gamma1 = D1 V1'beta, and Lemma 2 on the others. As
    printed, Lemma 2 has n lam^2 where its proof and the theorem have n^2 lam^2; the latter is used
    here. The sum is that of ridge.

    Parameters
    ----------
    spectrum : array
        Singular values of X.
    rotated : array
        V'beta, the true coefficients in the directions of the spectrum.
    noise : float
        Standard deviation of the noise.
    lam : float
    n : int
        Rows of X.
    k : int
        How many components.

    Returns
    -------
    float
    """
    d, a = _sort_by_singular_value(spectrum, rotated)
    k = check_count(k, "k", 0, len(d))
    gamma1 = d[:k] * a[:k]
    stage1 = _direction_risks(d[:k], gamma1, noise, lam, n).sum() / n
    stage2 = _direction_risks(d[k:], d[k:] * a[k:], noise, lam, n).sum() / n
    return float(stage1 + stage2)


def risk_deviation(
    spectrum: ArrayLike, rotated: ArrayLike, noise: float, lam: float, n: int
) -> float:
    """Standard deviation of ||E y - fitted||^2 / n over the noise, for ridge and so for LING.

    With share s_j = d_j^2 / (d_j^2 + n lam) and bias b_j = (1 - s_j) d_j a_j, direction j adds the
    variance 2 (s_j noise)^4 + 4 (s_j noise b_j)^2 of the square of a Gaussian.

    Parameters
    ----------
    spectrum : array
        Singular values of X.
    rotated : array
        V'beta, the true coefficients in the directions of the spectrum.
    noise : float
        Standard deviation of the noise.
    lam : float
    n : int
        Rows of X.

    Returns
    -------
    float

    Examples
    --------
    >>> risk_deviation([1.0], [2.0], noise=1.0, lam=0.0, n=1)  # chi-squared with 1 degree
    1.4142135623730951
    """
    d, a = _sort_by_singular_value(spectrum, rotated)
    spread, bias = _std_and_bias(d, d * a, noise, lam, n)
    return float(np.sqrt(np.sum(2 * spread**4 + 4 * (spread * bias) ** 2)) / n)


def gd_rate(spectrum: ArrayLike, lam: float, n: int, p: int) -> float:
    """Equation (4): every step of gradient descent leaves at most this share of the gap.

    ((d_1^2 - d_p^2) / (d_1^2 + d_p^2 + 2 n lam))^2, with d_p = 0 when p exceeds the number of
    singular values.

    Parameters
    ----------
    spectrum : array
        Singular values of X.
    lam : float
    n, p : int
        Rows and columns of X.

    Returns
    -------
    float

    Examples
    --------
    >>> gd_rate([3.0, 1.0], lam=0.0, n=2, p=2)  # doctest: +ELLIPSIS
    0.64...
    """
    d = np.sort(check_vector(spectrum, "spectrum"))
    p = check_count(p, "p", 1)
    largest = float(d[-1]) ** 2
    smallest = float(d[0]) ** 2 if len(d) >= p else 0.0
    return _contraction_rate(largest, smallest, check_alpha(lam, check_count(n, "n", 1)))


def ling_rate(spectrum: ArrayLike, lam: float, n: int, k: int) -> float:
    """Equation (5): the same for stage 2 of LING, with the exact top k directions removed.

    (d_{k+1}^2 / (d_{k+1}^2 + 2 n lam))^2: the smallest eigenvalue is 0, that of what was removed.

    Parameters
    ----------
    spectrum : array
        Singular values of X.
    lam : float
    n : int
        Rows of X.
    k : int
        How many components.

    Returns
    -------
    float
    """
    d = np.sort(check_vector(spectrum, "spectrum"))[::-1]
    k = check_count(k, "k", 0, len(d))
    largest = float(d[k]) ** 2 if k < len(d) else 0.0
    return _contraction_rate(largest, 0.0, check_alpha(lam, check_count(n, "n", 1)))


def ling_rate_from_zero(spectrum: ArrayLike, lam: float, n: int, k: int) -> float:
    """Equation (5) sharpened for p <= n and a start at zero: the smallest singular value enters.

    ((d_{k+1}^2 - d_p^2) / (d_{k+1}^2 + d_p^2 + 2 n lam))^2. From zero, gradient descent stays in
    the row space of X_r, where the smallest eigenvalue of X_r'X_r is d_p^2 and not 0.

    Parameters
    ----------
    spectrum : array
        All p singular values of X.
    lam : float
    n : int
        Rows of X.
    k : int
        How many components.

    Returns
    -------
    float

    Examples
    --------
    >>> ling_rate_from_zero([9.0, 3.0, 1.0], lam=0.0, n=3, k=1)  # doctest: +ELLIPSIS
    0.64...
    """
    d = np.sort(check_vector(spectrum, "spectrum"))[::-1]
    k = check_count(k, "k", 0, len(d))
    rest = d[k:] if k < len(d) else np.zeros(1)
    alpha = check_alpha(lam, check_count(n, "n", 1))
    return _contraction_rate(float(rest[0]) ** 2, float(rest[-1]) ** 2, alpha)


def lemma2(
    spectrum: ArrayLike, rotated: ArrayLike, noise: float, lam: float, n: int, k: int
) -> float:
    """Lemma 2 as its proof has it: E ||X_r gamma2 - fitted||^2 of stage 2, with n^2 lam^2.

    Parameters
    ----------
    spectrum : array
        Singular values of X.
    rotated : array
        V'beta, the true coefficients in the directions of the spectrum.
    noise : float
        Standard deviation of the noise.
    lam : float
    n : int
        Rows of X.
    k : int
        How many components stage 1 removed.

    Returns
    -------
    float
    """
    d, a = _sort_by_singular_value(spectrum, rotated)
    k = check_count(k, "k", 0, len(d))
    return float(_direction_risks(d[k:], d[k:] * a[k:], noise, lam, n).sum())


def lemma2_as_printed(
    spectrum: ArrayLike, rotated: ArrayLike, noise: float, lam: float, n: int, k: int
) -> float:
    """Lemma 2 with its misprint, n lam^2 where the proof has n^2 lam^2.

    Parameters
    ----------
    spectrum, rotated, noise, lam, n, k
        As for `lemma2`.

    Returns
    -------
    float
    """
    variance = lemma2(spectrum, np.zeros_like(np.asarray(rotated, float)), noise, lam, n, k)
    bias = lemma2(spectrum, rotated, 0.0, lam, n, k)
    return variance + bias / n


def _contraction_rate(largest: float, smallest: float, alpha: float) -> float:
    total = largest + smallest + 2.0 * alpha
    return ((largest - smallest) / total) ** 2 if total > 0 else 0.0


def _direction_risks(d: Array, gamma: Array, noise: float, lam: float, n: int) -> Array:
    """Variance plus squared bias in each direction, d a = gamma being the signal in it."""
    spread, bias = _std_and_bias(d, gamma, noise, lam, n)
    return np.asarray(spread**2 + bias**2)


def _std_and_bias(d: Array, gamma: Array, noise: float, lam: float, n: int) -> tuple[Array, Array]:
    """Deviation and mean of the error of the fit in each direction."""
    noise = check_number(noise, "noise")
    alpha = check_alpha(lam, check_count(n, "n", 1))
    total = d**2 + alpha
    share = np.divide(d**2, total, out=np.zeros_like(d), where=total > 0)
    return share * noise, (1.0 - share) * gamma


def _sort_by_singular_value(spectrum: ArrayLike, rotated: ArrayLike) -> tuple[Array, Array]:
    """Both by decreasing singular value; entries of `rotated` beyond the spectrum do not matter."""
    d, a = check_vector(spectrum, "spectrum"), check_vector(rotated, "rotated")
    if len(a) < len(d):
        raise ShapeError(
            "rotated", f"has {len(a)} entries", f"pass {len(d)}, one for each singular value"
        )
    order = np.argsort(d)[::-1]
    return d[order], a[: len(d)][order]


def __dir__() -> list[str]:
    return __all__
