"""
LING beside its rivals: test error against passes over the data
===============================================================

The paper compares LING with gradient descent, principal component regression and SVRG. This
example repeats the comparison on real data, and adds ``two_stage``, the solver that grew out of
LING, and the solvers of scikit-learn's ``Ridge``. All of them aim at the same solution, except for
principal component regression. They differ in how often they have to read the data.
"""

# %%
# The data are the handwritten digits that come with scikit-learn. The features are the inner 48
# pixels and their products, the target is +1 for odd digits and -1 for even ones. X and y are
# centred, because the functions of ``ling.paper`` have no intercept.
import matplotlib.pyplot as plt
import numpy as np
from sklearn import linear_model
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import PolynomialFeatures

import ling
from ling import paper

digits = load_digits()
pixels = digits.images[:, :, 1:7].reshape(len(digits.images), -1) / 16
features = PolynomialFeatures(2, include_bias=False).fit_transform(pixels)
odd = np.where(digits.target % 2 == 1, 1.0, -1.0)
X, X_test, y, y_test = train_test_split(features, odd, test_size=0.25, random_state=0)
X_mean, y_mean = X.mean(axis=0), y.mean()
X, X_test, y = X - X_mean, X_test - X_mean, y - y_mean
n, p = X.shape
alpha = 3.0
lam = alpha / n  # the paper's lambda
print(f"{n} training rows, {len(X_test)} test rows, {p} features, lambda = {lam:.2g}")

# %%
# A pass is one sweep over X, and a product with X or its transpose takes one. ``ling`` counts the
# passes and FLOPs of its own fits. scikit-learn does not, so they are counted here from the number
# of iterations.
curves = {}


def add(name, coef, passes, flops):
    """Add a fit to the curve `name`: passes, GFLOP, mean squared error, share of errors."""
    predicted = X_test @ np.ravel(coef) + y_mean
    error = np.mean((predicted - y_test) ** 2)
    wrong = np.mean(np.sign(predicted) != y_test)
    curves.setdefault(name, []).append((passes, flops / 1e9, error, wrong))


# %%
# The paper's algorithms. Stage 1 of LING takes three passes, in which X is multiplied with
# ``n_components`` vectors at once. The step of SVRG is chosen by cross-validation, whose cost is
# not counted, as in the paper.
for n_iter in (1, 2, 4, 8, 16, 32, 64, 128):
    fit = ling.LingRegressor(
        alpha, n_components=30, n_iter=n_iter, fit_intercept=False, random_state=0
    ).fit(X, y)
    add("LING, k = 30", fit.coef_, fit.cost_.passes, fit.cost_.flops)
for n_iter in (1, 2, 4, 8, 16, 32, 64, 128):
    fit = paper.gradient_descent(X, y, lam, n_iter)
    add("gradient descent", fit.coef, fit.cost.passes, fit.cost.flops)
for k in (10, 30, 100, 300):
    fit = paper.pcr(X, y, k, random_state=0)
    add("PCR, k from 10 to 300", fit.coef, fit.cost.passes, fit.cost.flops)
step = paper.svrg(X, y, lam, n_passes=5, random_state=0).step
for n_passes in (2, 4, 8, 16, 32, 64):
    fit = paper.svrg(X, y, lam, n_passes, step, random_state=0)
    add("SVRG", fit.coef, fit.cost.passes, fit.cost.flops)

# %%
# ``two_stage``, with several tolerances. Its count includes the pass that proves the accuracy.
# ``ling`` computes X'(Xv) in one pass, so an iteration takes one.
for tol in (1.0, 0.5, 0.2, 0.1, 3e-2, 1e-2, 1e-3):
    fit = ling.Ridge(alpha, fit_intercept=False, solver="two_stage", tol=tol, random_state=0)
    fit.fit(X, y)
    add("ling.Ridge, two_stage", fit.coef_, fit.report_.cost.passes, fit.report_.cost.flops)

# %%
# scikit-learn's solvers. "sparse_cg" does not report its iterations, so they are set by
# ``max_iter``.
product = 2 * n * p  # FLOPs of X v
for tol in (0.5, 0.1, 3e-2, 1e-2, 1e-3):
    fit = linear_model.Ridge(alpha, fit_intercept=False, solver="lsqr", tol=tol).fit(X, y)
    passes = 2 * fit.n_iter_[0] + 1  # X v and X'u in every iteration, and X'y
    add("scikit-learn, lsqr", fit.coef_, passes, passes * product)
for n_iter in (1, 2, 4, 8, 16, 32, 48):
    fit = linear_model.Ridge(
        alpha, fit_intercept=False, solver="sparse_cg", tol=1e-12, max_iter=n_iter
    ).fit(X, y)
    passes = 2 * n_iter + 1  # X v and X'(Xv) in every iteration, and X'y
    add("scikit-learn, sparse_cg", fit.coef_, passes, passes * product)
for tol in (0.5, 0.1, 3e-2, 1e-2, 3e-3):
    fit = linear_model.Ridge(alpha, fit_intercept=False, solver="sag", tol=tol, random_state=0)
    fit.fit(X, y)
    epochs = fit.n_iter_[0]
    # n single rows in every epoch, each multiplied with the coefficients and added to a gradient
    # that updates them; and the norms of all rows, for the step.
    add("scikit-learn, sag", fit.coef_, epochs + 1, 3 * epochs * product + product)
fit = linear_model.Ridge(alpha, fit_intercept=False, solver="cholesky").fit(X, y)
# X'X and X'y. The first of them costs as much as p / 2 other passes.
add("scikit-learn, cholesky", fit.coef_, 2, n * p**2 + p**3 / 3 + product)

# %%
# The cheapest fit of each method whose test error is within 5 % of exact ridge regression's, or
# its best fit if there is none.
exact = curves["scikit-learn, cholesky"][0][2]
print(f"{'':<25}{'passes':>8}{'GFLOP':>8}{'test MSE':>10}{'wrong':>8}")
for name, points in curves.items():
    near = [point for point in points if point[2] <= 1.05 * exact]
    passes, gflop, error, wrong = min(near) if near else min(points, key=lambda point: point[2])
    note = "" if near else "  not within 5 %"
    print(f"{name:<25}{passes:>8.0f}{gflop:>8.2f}{error:>10.4f}{wrong:>8.1%}{note}")

# %%
# Principal component regression misses what lies in the weak directions. Gradient descent is slowed
# down by the strong ones. LING removes these first, and then needs far fewer iterations. SVRG and
# "sag", which visit single rows, gain most from their first passes. Conjugate gradients ("lsqr",
# "sparse_cg") are slow at first and fast later. ``two_stage`` removes the strong directions *and*
# uses conjugate gradients. "cholesky" reads X only twice, but needs the most FLOPs of all fits that
# reach ridge regression.
figure, ax = plt.subplots(figsize=(8, 5.4), layout="constrained")
styles = {
    "LING, k = 30": ("#0072B2", "o", 2.4),
    "gradient descent": ("#E69F00", "s", 1.4),
    "PCR, k from 10 to 300": ("0.55", "^", 1.4),
    "SVRG": ("#CC79A7", "v", 1.4),
    "ling.Ridge, two_stage": ("#009E73", "D", 2.4),
    "scikit-learn, lsqr": ("#56B4E9", "<", 1.4),
    "scikit-learn, sparse_cg": ("#D55E00", ">", 1.4),
    "scikit-learn, sag": ("#6A3D9A", "P", 1.4),
    "scikit-learn, cholesky": ("black", "*", 0),
}
for name, (colour, marker, width) in styles.items():
    passes, _, errors, _ = zip(*curves[name], strict=True)
    size = 12 if marker == "*" else 6
    ax.loglog(
        passes, errors, marker=marker, color=colour, linewidth=width, markersize=size, label=name
    )
ax.axhline(exact, color="0.3", linestyle=":", label="exact ridge regression")
ax.set(xlabel="passes over X", ylabel="mean squared error on test rows")
ax.xaxis.set_major_formatter("{x:g}")
ax.yaxis.set_major_formatter("{x:g}")
ax.yaxis.set_minor_formatter("{x:.1g}")
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()
