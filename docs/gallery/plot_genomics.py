"""
Genomic prediction: 20,000 markers, 600 plants
==============================================

With many more features than samples, ridge regression is what breeders call GBLUP: every marker
gets a small effect, and none is singled out. This example chooses the penalty for made-up
genotypes, asks how many directions of the data such a model really uses, and what it says of
heritability.
"""

# %%
# Genotypes are counts, 0, 1 or 2 copies of an allele, and neighbours on a chromosome are
# inherited together, here in blocks of 100. A trait depends on 200 of the markers, and half of
# its variance on the environment. Counts are kept in 8 bits, as in genotype files.
import time
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
from sklearn import linear_model
from sklearn.metrics import r2_score

import ling

rng = np.random.default_rng(0)
N, N_NEW, P, BLOCK, CAUSAL, HERITABILITY = 600, 300, 20_000, 100, 200, 0.5
frequency = np.repeat(rng.uniform(0.1, 0.5, P // BLOCK), BLOCK).astype(np.float32)


def haplotypes(n):
    """One copy of each chromosome; alleles mostly follow an ancestor that is that of the block."""
    ancestor = np.repeat(rng.random((n, P // BLOCK), dtype=np.float32), BLOCK, axis=1)
    own = rng.random((n, P), dtype=np.float32)
    return np.where(rng.random((n, P), dtype=np.float32) < 0.8, ancestor, own) < frequency


genotypes = haplotypes(N + N_NEW).astype(np.int8) + haplotypes(N + N_NEW)
causal = rng.choice(P, CAUSAL, replace=False)
genetic = genotypes[:, causal] @ rng.standard_normal(CAUSAL)
genetic = (genetic - genetic.mean()) / genetic.std() * np.sqrt(HERITABILITY)
trait = genetic + rng.normal(0, np.sqrt(1 - HERITABILITY), N + N_NEW)
print(f"{genotypes.shape}, {genotypes.dtype}: {genotypes.nbytes / 1e6:.0f} MB")

# %%
# Every plant is left out in turn, exactly, for 30 alphas. What this takes is a matrix of 600 by
# 600, however many markers there are.
X, X_new = genotypes[:N].astype(np.float32), genotypes[N:].astype(np.float32)
y, y_new = trait[:N], trait[N:]
model = ling.RidgeCV().fit(X, y)
print(model.report_)
print(f"R² on new plants: {model.score(X_new, y_new):.2f}; no model can have more than about 0.5")

# %%
# Why float32? Estimators compute in float32 or float64. Counts may be passed as they are, but
# become float64 on the way, in a copy eight times as large; float32 holds them exactly too, and
# is used as it is. The proof is done in float64 all the same.
for dtype in (np.int8, np.float32):
    given = genotypes[:N].astype(dtype)
    tracemalloc.start()
    ling.Ridge(alpha=model.alpha_).fit(given, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"{given.dtype!s:<8} X takes {given.nbytes / 1e6:3.0f} MB, the fit {peak / 1e6:3.0f} more"
    )

# %%
# A penalty is a statement about heritability: alpha is the ratio of environmental to genetic
# variance, times the sum of the variances of the columns. So the alpha that predicts best
# estimates it.
total = X.var(axis=0).sum()
print(f"heritability that alpha implies: {total / (total + model.alpha_):.2f}, true {HERITABILITY}")

# %%
# The whole path, with degrees of freedom. Of 20,000 coefficients,
# some 200 are free in effect: a penalty does what a selection of markers would do, without
# selecting any.
path = ling.ridge_path(X, y, alphas=np.geomspace(total / 3000, total * 100, 40))
predicted = path.predict(X_new)
score = [r2_score(y_new, column) for column in predicted.T]
training = 1 - path.training_error / y.var()

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharex=True)
left.semilogx(path.alphas, training, color="0.6", label="training plants")
left.semilogx(path.alphas, score, color="#0072B2", linewidth=2, label="new plants")
left.axhline(HERITABILITY, color="0.3", linestyle=":", label="heritability")
left.set(ylabel="R²", ylim=(-0.2, 1.02))
right.loglog(path.alphas, path.edf, color="#0072B2", linewidth=2)
right.axhline(N - 1, color="0.3", linestyle="--", label=f"{N - 1}: as many as there can be")
right.set(ylabel="effective degrees of freedom")
right.yaxis.set_major_formatter("{x:g}")
for ax in (left, right):
    chosen = ax.axvline(model.alpha_, color="#D55E00")
    ax.set(xlabel="alpha")
    ax.spines[["top", "right"]].set_visible(False)
chosen.set_label("alpha chosen by leave-one-out")
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# scikit-learn on the same grid and data: the same alpha. (Fastest of two turns.)
alphas = model.alphas_
chosen, fastest = {}, {"ling": np.inf, "scikit-learn": np.inf}
for _ in range(2):
    for name, RidgeCV in [("ling", ling.RidgeCV), ("scikit-learn", linear_model.RidgeCV)]:
        start = time.perf_counter()
        chosen[name] = RidgeCV(alphas).fit(X, y).alpha_
        fastest[name] = min(fastest[name], time.perf_counter() - start)
for name, alpha in chosen.items():
    print(f"{name:<13} alpha {alpha:.4g} in {fastest[name]:.2f} s")
