"""Random ridge problems for `tools/soak.py`, and the exact error of a solution.

The error of coefficients w needs no exact solution. With the gradient g = X'(y - Xw) - alpha w and
M = X'X + alpha I, the exact solution is w + M^-1 g. g is computed without rounding, in integers.
Then M^-1 g is needed to a few digits only, which QR in float64 gives. `tests/test_soak.py` compares
the errors with those of `tests/reference.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ENGINES = "auto", "direct", "two_stage", "partial_fit", "certify"
STORAGES = "C", "F", "strided", "csr", "memmap", "npy", "blocks"
TOLERANCES = 1e-2, 1e-4, 1e-6, 1e-8, 1e-10
# One problem in this many is larger than the others, and one has many rows and few columns.
LARGE_EVERY = 50


@dataclass(frozen=True)
class SoakProblem:
    """X (n, p) and y (n,) or (n, t), weights (n,) or None, and everything that a fit is told."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    alpha: float | np.ndarray
    fit_intercept: bool
    engine: str
    storage: str
    tol: float
    precision: str
    max_iter: int | None

    @property
    def alphas(self) -> np.ndarray:
        """One for each target."""
        n_targets = 1 if self.y.ndim == 1 else self.y.shape[1]
        return np.broadcast_to(np.asarray(self.alpha, np.float64), (n_targets,))


def draw_problem(seed: int, number: int) -> SoakProblem:
    """The problem with this number; it depends on both arguments only."""
    rng = np.random.default_rng([seed, number])
    is_large = number % LARGE_EVERY == LARGE_EVERY - 1
    is_tall = number % LARGE_EVERY == LARGE_EVERY // 2
    n_range, p_range = (1, 101), (1, 31)
    if is_large:
        n_range, p_range = (100, 400), (30, 120)
    elif is_tall:
        n_range, p_range = (1_000, 20_000), (1, 4)
    n, p = int(rng.integers(*n_range)), int(rng.integers(*p_range))
    X = _draw_matrix(rng, n, p)
    # A generator of its own: the other numbers of a problem do not depend on this choice.
    own_rng = np.random.default_rng([seed, number, 1])
    if own_rng.random() < 0.1:  # sums of equal numbers round in one direction
        values = own_rng.random(2) * (np.abs(X).max() or 1.0)
        X = np.where(own_rng.random(X.shape) < own_rng.random(), *values)
    y = _draw_targets(rng, X)
    weights = _draw_weights(rng, n)
    alpha = _draw_alpha(rng, X, y)
    engine = ENGINES[number % len(ENGINES)]
    storage = str(rng.choice(STORAGES)) if engine != "partial_fit" else "C"
    if storage == "csr":
        X = X * (rng.random(X.shape) < 0.3)
    if rng.random() < 0.3:
        X = X.astype(np.float32)
    max_iter = int(rng.integers(1, 6)) if rng.random() < 0.1 else None
    precision = str(rng.choice(["auto", "float64", "float32"]))
    return SoakProblem(X, y, weights, alpha, bool(rng.random() < 0.7), engine, storage,
                       float(rng.choice(TOLERANCES)), precision, max_iter)  # fmt: skip


def _draw_matrix(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Any spectrum, columns in other units, copies, zeros, constants, large means, heavy rows."""
    X = rng.standard_normal((n, p))
    if rng.random() < 0.5:  # condition up to 1e14
        U, _, Vt = np.linalg.svd(X, full_matrices=False)
        d = 10.0 ** (-rng.uniform(0, 14) * np.linspace(0, 1, min(n, p)) ** rng.uniform(0.3, 3))
        X = U * d @ Vt
    if rng.random() < 0.2:
        X = X * 10.0 ** rng.uniform(-6, 6, p)
    for j in np.flatnonzero(rng.random(p) < 0.1 * (rng.random() < 0.5)):
        kind = rng.integers(5)
        other = X[:, rng.integers(p)]
        X[:, j] = (0.0, rng.normal(), other, other * 3 + 1, other * (1 + 1e-12))[kind]
    if rng.random() < 0.2:
        X[rng.integers(n)] *= 10.0 ** rng.uniform(1, 6)
    if rng.random() < 0.3:
        X = X + 10.0 ** rng.uniform(-1, 8) * rng.standard_normal(p) * (np.abs(X).mean() + 1e-300)
    if rng.random() < 0.2:
        X = np.round(X * 4)
    return X * 10.0 ** (rng.uniform(-12, 12) if rng.random() < 0.3 else 0.0)


def _draw_targets(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    n, p = X.shape
    n_targets = int(rng.integers(1, 4))
    norms = np.linalg.norm(X, axis=0)
    coef = rng.standard_normal((p, n_targets)) / np.where(norms > 0, norms, 1.0)[:, None]
    noise = 10.0 ** rng.uniform(-8, 1)
    Y = X @ coef + noise * rng.standard_normal((n, n_targets))
    if rng.random() < 0.2:
        Y = Y + 10.0 ** rng.uniform(0, 6)
    if rng.random() < 0.03:
        Y[:, 0] = rng.choice([0.0, 1.0, 0.1])
    if rng.random() < 0.2:
        Y = Y * 10.0 ** rng.uniform(-10, 10)
    return Y[:, 0] if n_targets == 1 and rng.random() < 0.8 else Y


def _draw_weights(rng: np.random.Generator, n: int) -> np.ndarray | None:
    kind = rng.integers(6)
    if kind > 2:
        return None
    weights = rng.gamma(0.5, size=n) if kind == 0 else np.exp(4 * rng.standard_normal(n))
    if kind == 2:
        weights = np.round(weights * 2)
    weights *= rng.random(n) < 0.9
    return weights if (weights > 0).any() else None


def _draw_alpha(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> float | np.ndarray:
    """Sixteen decades around the mean of the eigenvalues of X'X; sometimes one for each target."""
    size = float((X.astype(np.float64) ** 2).sum() / min(X.shape)) or 1.0
    if y.ndim == 2 and rng.random() < 0.2:
        return size * 10.0 ** rng.uniform(-12, 4, y.shape[1])
    return float(size * 10.0 ** rng.uniform(-12, 4))


# The exact error.


def as_integers(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Python integers k and an exponent e with values = k 2^e, exactly."""
    mantissas, exponents = np.frexp(np.asarray(values, np.float64))
    lowest = int(exponents[mantissas != 0].min(initial=0)) if mantissas.any() else 0
    shifts = np.where(mantissas == 0, 0, exponents - lowest).astype(object)
    return np.left_shift((mantissas * 2.0**53).astype(np.int64).astype(object), shifts), lowest - 53


def as_floats(integers: np.ndarray, exponent: int) -> np.ndarray:
    """integers * 2^exponent, rounded once; relative accuracy 2^-53 below the range of integers."""
    flat = [_as_float(int(k), exponent) for k in integers.ravel()]
    return np.array(flat, dtype=np.float64).reshape(integers.shape)


def _as_float(k: int, exponent: int) -> float:
    excess = max(0, k.bit_length() - 64)
    return float(np.ldexp(float(k >> excess if k >= 0 else -(-k >> excess)), exponent + excess))


class ExactProblem:
    """The integers of a problem, from which the error of any coefficients is computed."""

    def __init__(self, problem: SoakProblem) -> None:
        X, y = np.asarray(problem.X), np.asarray(problem.y, np.float64).reshape(len(problem.y), -1)
        weights = np.ones(len(X)) if problem.weights is None else problem.weights
        self.fit_intercept, self.alphas = problem.fit_intercept, problem.alphas
        self.X, self.x_exp = as_integers(X)
        self.Y, self.y_exp = as_integers(y)
        self.s, self.s_exp = as_integers(weights)
        self.total = self.s.sum()
        self.weights = weights
        self.sX = self.s @ self.X  # (p,), exponent s_exp + x_exp
        # Centred and multiplied by the total weight, so that nothing is divided.
        self.centered = self._center(self.X, self.x_exp)
        self.target_norms = np.linalg.norm(self._center(self.Y, self.y_exp), axis=0)

    def _center(self, values: np.ndarray, exponent: int) -> np.ndarray:
        """sqrt(s) (values - their weighted mean), in float64 with full relative accuracy."""
        roots = np.sqrt(self.weights)[:, None]
        if not self.fit_intercept:
            return roots * as_floats(values, exponent)
        scaled = as_floats(self.total * values - self.s @ values, exponent + self.s_exp)
        return roots * (scaled / _as_float(int(self.total), self.s_exp))

    def errors(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """||sqrt(s) (X coef + intercept - exact predictions)|| / ||sqrt(s) (y - mean)|| (t,).

        `coef` is (t, p), `intercept` (t,). 0 / 0 is 0.
        """
        errors = []
        for target, (w, b) in enumerate(zip(coef, intercept, strict=True)):
            gradient, shift = self._gradient(w, b, target)
            squares = self._moved(gradient, self.alphas[target]) ** 2 + shift**2
            norm = self.target_norms[target]
            errors.append(np.sqrt(squares) / norm if norm else np.inf if squares else 0.0)
        return np.array(errors)

    def _gradient(self, w: np.ndarray, b: float, target: int) -> tuple[np.ndarray, float]:
        """g (p,), and sqrt(total weight) times the error of the mean prediction."""
        w_int, w_exp = as_integers(w)
        fitted, y = self.X @ w_int, self.Y[:, target]  # exponents x_exp + w_exp and y_exp
        low = min(self.x_exp + w_exp, self.y_exp)
        residual = y * 2 ** (self.y_exp - low) - fitted * 2 ** (self.x_exp + w_exp - low)
        weighted = self.s * residual  # exponent s_exp + low
        product, alpha = weighted @ self.X, as_integers(np.array([self.alphas[target]]))
        product_exp, penalty_exp = self.s_exp + low + self.x_exp, alpha[1] + w_exp
        penalty, shift = alpha[0][0] * w_int, 0.0
        if self.fit_intercept:  # everything times the total weight
            product = self.total * product - weighted.sum() * self.sX
            penalty, product_exp = self.total * penalty, product_exp + self.s_exp
            penalty_exp += self.s_exp
            shift = self._shift(weighted.sum(), low, b)
        least = min(product_exp, penalty_exp)
        g = product * 2 ** (product_exp - least) - penalty * 2 ** (penalty_exp - least)
        total = _as_float(int(self.total), self.s_exp) if self.fit_intercept else 1.0
        return as_floats(g, least) / total, shift

    def _shift(self, residual_sum: int, low: int, b: float) -> float:
        """sqrt(S) (b - mean of the residuals without b), with S the total weight."""
        b_int, b_exp = as_integers(np.array([b], np.float64))
        least = min(b_exp, low)
        difference = int(b_int[0]) * int(self.total) * 2 ** (b_exp - least) - residual_sum * 2 ** (
            low - least
        )
        total = _as_float(int(self.total), self.s_exp)
        return _as_float(int(difference), least + self.s_exp) / np.sqrt(total)

    def _moved(self, gradient: np.ndarray, alpha: float) -> float:
        """||sqrt(s) X~ M^-1 g|| with R'R = M from QR of [sqrt(s) X~; sqrt(alpha) I]."""
        from scipy.linalg import solve_triangular

        p = len(gradient)
        # Columns of length 1: QR is then as accurate as the least perturbation of each column.
        lengths = np.sqrt(np.linalg.norm(self.centered, axis=0) ** 2 + alpha)
        stacked = np.vstack([self.centered, np.sqrt(alpha) * np.eye(p)]) / lengths
        R = np.linalg.qr(stacked, mode="r")
        scaled = gradient / lengths
        size = np.abs(scaled).max()
        if not size:
            return 0.0
        half = solve_triangular(R, scaled / size, trans="T")
        step = solve_triangular(R, half) / lengths
        return float(np.linalg.norm(self.centered @ step) * size)
