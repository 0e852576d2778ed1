"""Numbers that show a misprint of the paper: Lemma 2 has n where its proof has n^2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ling.paper import theory
from ling.paper.algorithm2 import exact_svd
from ling.paper.models import Model
from ling.reproduction.outcomes import standard_error

# So many times the model's lambda: there the bias, which the misprint is about, can be seen.
LAM_FACTOR = 100.0


@dataclass(frozen=True)
class Lemma2Numbers:
    """E ||X_r gamma2 - X_r gamma2_hat||^2: measured over draws of noise, and by both formulas."""

    model: str
    measured: float
    error: float
    proved: float
    printed: float


def lemma2_numbers(model: Model, k: int, n_draws: int, rng: np.random.Generator) -> Lemma2Numbers:
    """Stage 2 of LING solved exactly for many draws of the noise, against Lemma 2.

    Parameters
    ----------
    model : Model
    k : int
        How many exact components stage 1 removes.
    n_draws : int
        Draws of the noise.
    rng : Generator

    Returns
    -------
    Lemma2Numbers
    """
    n, lam = len(model.y), LAM_FACTOR * model.lam
    U = exact_svd(model.X, k).U
    X_r = model.X - U @ (U.T @ model.X)
    signal = X_r @ model.beta
    noise = model.noise * rng.standard_normal((n, n_draws))
    y_r = signal[:, None] + noise - U @ (U.T @ noise)
    gram = X_r.T @ X_r + n * lam * np.eye(X_r.shape[1])
    fitted = X_r @ linalg.solve(gram, X_r.T @ y_r, assume_a="pos")
    losses = np.square(fitted - signal[:, None]).sum(axis=0)
    formula = model.spectrum, model.rotated, model.noise, lam, n, k
    return Lemma2Numbers(
        model.name,
        float(losses.mean()),
        float(standard_error(losses)),
        theory.lemma2(*formula),
        theory.lemma2_as_printed(*formula),
    )
