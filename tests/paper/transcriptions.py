"""The algorithms as their papers print them: slow, dense, and every matrix formed."""

from __future__ import annotations

import numpy as np


def algorithm1(X, y, lam, U1, d, second_stage):
    """LING: gamma1 shrunk by d^2 / (d^2 + n lam), gamma2, and the final estimator.

    `second_stage(X_r, y_r)` is step 4. d = None leaves out step 5, as in section 2.1.
    """
    gamma1 = U1.T @ y
    y_r = y - U1 @ gamma1
    X_r = X - U1 @ U1.T @ X
    gamma2 = second_stage(X_r, y_r)
    gamma1_s = gamma1 if d is None else d**2 / (d**2 + len(y) * lam) * gamma1
    return gamma1_s, gamma2, U1 @ gamma1_s + X_r @ gamma2


def algorithm2(X, k, power, rng):
    """Random SVD: U1, d and Q1."""
    R1 = rng.standard_normal((X.shape[1], k))
    A1 = np.linalg.matrix_power(X @ X.T, power) @ X @ R1
    Q1 = np.linalg.qr(A1)[0]
    U0, d, _ = np.linalg.svd(Q1.T @ X, full_matrices=False)
    return Q1 @ U0, d, Q1


def algorithm3(X, y, lam, n_iter, start):
    """Gradient descent with the optimal step size."""
    n, p = X.shape
    gamma = np.array(start, dtype=np.float64)
    for _ in range(n_iter):
        Q = 2 * X.T @ X + 2 * n * lam * np.eye(p)
        w = 2 * X.T @ y - Q @ gamma
        s = (w @ w) / (w @ Q @ w)
        gamma = gamma + s * w
    return gamma


def johnson_zhang(X, y, lam, n_passes, step, rng):
    """SVRG, figure 1 of Johnson & Zhang (2013) with option I and m = 2 n.

    The loss of row i is psi_i(w) = (x_i'w - y_i)^2 / 2 + lam ||w||^2 / 2.
    """
    n, p = X.shape

    def gradient(i, w):
        return X[i] * (X[i] @ w - y[i]) + lam * w

    w = np.zeros(p)
    steps_left = n_passes * n
    while steps_left:
        snapshot = w
        full = X.T @ (X @ snapshot - y) / n + lam * snapshot
        n_steps = min(2 * n, steps_left)
        for i in rng.integers(n, size=n_steps):
            w = w - step * (gradient(i, w) - gradient(i, snapshot) + full)
        steps_left -= n_steps
    return w
