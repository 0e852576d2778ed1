"""The three simulated models of the paper's section 4.1: y = X beta + noise.

What the paper leaves open is set here once, without looking at how any algorithm fares:

- `noise`, the standard deviation: 1.
- lambda: noise^2 p / (n E||beta||^2), under which ridge is the posterior mean for coefficients of
  that variance, and so has the smallest risk on average among all lambda if beta is spread evenly.
- Model 1's singular values below the 30th: `tail` = 0.1, flat. A direction so weak carries less
  signal than noise (d^2 E beta_j^2 < noise^2), so that, as the paper says, the energy of X lies in
  the top components.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ling._typing import Array, Seed
from ling.errors import OptionError
from ling.paper.inputs import as_generator, check_count, check_number

__all__ = ["Model", "model1", "model2", "model3"]

# Coefficients are drawn uniformly from [-MAX_COEF, MAX_COEF].
MAX_COEF = 2.5


@dataclass(frozen=True, eq=False)
class Model:
    """One draw of a model.

    Attributes
    ----------
    name : str
    X : array of shape (n, p)
    beta : array of shape (p,)
    y, mean : array of shape (n,)
        X beta with noise, and without: E[y].
    spectrum, rotated : array
        Singular values of X, and V'beta in their directions, which the theory needs.
    noise, lam : float
        The standard deviation of the noise, and the lambda that goes with it.
    """

    name: str
    X: Array = field(repr=False)
    beta: Array = field(repr=False)
    y: Array = field(repr=False)
    mean: Array = field(repr=False)
    spectrum: Array = field(repr=False)
    rotated: Array = field(repr=False)
    noise: float
    lam: float

    def risk(self, fitted: Array) -> float:
        """||E[y] - fitted||^2 / n, the paper's measure."""
        return float(np.mean((self.mean - fitted) ** 2))


def model1(
    random_state: Seed = None, n: int = 2000, p: int = 1500, noise: float = 1.0, tail: float = 0.1
) -> Model:
    """A steep spectrum: 1.3^40, 1.3^39, ..., 1.3^11, then a flat `tail`. PCR's best case.

    Parameters
    ----------
    random_state : int, Generator or None, default=None
    n, p : int, default=2000 and 1500
        Rows and columns of X.
    noise : float, default=1.0
        Its standard deviation.
    tail : float, default=0.1
        The singular values below the 30th.

    Returns
    -------
    Model
        `X`, `y`, `lam`, `mean`, `spectrum`, `rotated` and `risk`.

    Examples
    --------
    >>> model1(0, n=60, p=40).spectrum[:2].round(1)
    array([36118.9, 27783.7])
    """
    rng = as_generator(random_state)
    n, p, r = _check_sizes(n, p, least=30)
    if check_number(tail, "tail") > 1.3**11:
        raise OptionError(
            "tail", f"is {tail}", "pass a number from 0 to 1.3^11, the 30th singular value"
        )
    d = np.full(r, tail)
    d[:30] = 1.3 ** np.arange(40.0, 10.0, -1.0)
    beta = rng.uniform(-MAX_COEF, MAX_COEF, p)
    return _draw_model("Model 1", d, beta, n, noise, rng)


def model2(random_state: Seed = None, n: int = 2000, p: int = 1500, noise: float = 1.0) -> Model:
    """A flat spectrum: uniform on [sqrt(n) / 2, sqrt(n)]. Gradient descent's best case.

    Parameters
    ----------
    random_state : int, Generator or None, default=None
    n, p : int, default=2000 and 1500
        Rows and columns of X.
    noise : float, default=1.0
        Its standard deviation.

    Returns
    -------
    Model
        `X`, `y`, `lam`, `mean`, `spectrum`, `rotated` and `risk`.
    """
    rng = as_generator(random_state)
    n, p, r = _check_sizes(n, p, least=1)
    d = np.sort(rng.uniform(np.sqrt(n) / 2, np.sqrt(n), r))[::-1]
    beta = rng.uniform(-MAX_COEF, MAX_COEF, p)
    return _draw_model("Model 2", d, beta, n, noise, rng)


def model3(
    random_state: Seed = None,
    n: int = 2000,
    p: int = 1500,
    noise: float = 1.0,
    raised: str = "largest",
) -> Model:
    """A flat spectrum with its top 15 values times 10, and X = U D: hard for both PCR and GD.

    Only the first 15 and the last 1000 coefficients (in general, the last two thirds) are not zero.

    Parameters
    ----------
    random_state : int, Generator or None, default=None
    n, p : int, default=2000 and 1500
        Rows and columns of X.
    noise : float, default=1.0
        Its standard deviation.
    raised : {"largest", "first"}, default="largest"
        Which 15 of the sampled values are multiplied by 10: the paper's "top 15 sampled values" may
        be the largest, or the first to be drawn. "first" leaves the others in the order drawn.

    Returns
    -------
    Model
        `X`, `y`, `lam`, `mean`, `spectrum`, `rotated` and `risk`.
    """
    rng = as_generator(random_state)
    n, p, r = _check_sizes(n, p, least=15)
    if raised not in ("largest", "first"):
        raise OptionError("raised", f"is {raised!r}", "pass 'largest' or 'first'")
    d = rng.uniform(np.sqrt(n) / 2, np.sqrt(n), r)
    if raised == "largest":
        d = np.sort(d)[::-1]
    d[:15] *= 10
    beta = rng.uniform(-MAX_COEF, MAX_COEF, p)
    beta[15 : p - (2 * p) // 3] = 0.0
    return _draw_model("Model 3", d, beta, n, noise, rng, rotate=False)


def _draw_model(
    name: str,
    d: Array,
    beta: Array,
    n: int,
    noise: float,
    rng: np.random.Generator,
    rotate: bool = True,
) -> Model:
    noise = check_number(noise, "noise")
    p, r = len(beta), len(d)
    V = _orthonormal(p, r, rng) if rotate else np.eye(p, r)
    X = (_orthonormal(n, r, rng) * d) @ V.T
    mean = X @ beta
    y = mean + noise * rng.standard_normal(n)
    lam = noise**2 / (n * _second_moment(beta))
    return Model(name, X, beta, y, mean, d, V.T @ beta, noise, lam)


def _second_moment(beta: Array) -> float:
    """E||beta||^2 / p: every coefficient that is not zero by design has variance MAX_COEF^2 / 3."""
    return float(np.count_nonzero(beta) / len(beta) * MAX_COEF**2 / 3)


def _check_sizes(n: int, p: int, least: int) -> tuple[int, int, int]:
    n, p = check_count(n, "n", least), check_count(p, "p", least)
    return n, p, min(n, p)


def _orthonormal(n: int, k: int, rng: np.random.Generator) -> Array:
    """n x k with orthonormal columns, uniformly distributed."""
    Q, R = np.linalg.qr(rng.standard_normal((n, k)))
    return np.asarray(Q * np.sign(np.diag(R)))


def __dir__() -> list[str]:
    return __all__
