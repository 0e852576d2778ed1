"""
How far are scikit-learn's solvers from the exact solution?
===========================================================

Ridge regression has one exact solution. A solver that iterates stops before it is there, and its
``tol`` means something else for each solver. ``ling.certify`` proves how far any solution is from
the exact one at most. Here it judges six solvers of ``sklearn.linear_model.Ridge``, at their
default tolerances, on ten data sets.
"""

# %%
# Ten data sets: five from data that come with scikit-learn, and five that are made up, with
# columns that are independent, correlated, of very different scales, far from 0, or many.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import ling

rng = np.random.default_rng(1)


def bundled(load, *, scale, degree=1):
    """A data set of scikit-learn, standardised or not, with products of its columns or not."""
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X) if scale else X
    X = PolynomialFeatures(degree, include_bias=False).fit_transform(X) if degree > 1 else X
    return X, y.astype(float)


def made_up(n, p, change):
    """Gaussian columns, changed in some way, with a noisy linear target."""
    X = change(rng.standard_normal((n, p)))
    signal = X @ rng.standard_normal(p)
    return X, signal + 0.3 * signal.std() * rng.standard_normal(n)


data = {
    "diabetes": bundled(datasets.load_diabetes, scale=False),
    "diabetes, products": bundled(datasets.load_diabetes, scale=True, degree=2),
    "wine": bundled(datasets.load_wine, scale=False),
    "breast cancer": bundled(datasets.load_breast_cancer, scale=False),
    "breast cancer, scaled": bundled(datasets.load_breast_cancer, scale=True),
    "independent columns": made_up(400, 40, lambda X: X),
    "correlated columns": made_up(400, 40, lambda X: X.cumsum(axis=1)),
    "columns of all scales": made_up(400, 40, lambda X: X * np.geomspace(1e-3, 1e3, 40)),
    "large means": made_up(400, 40, lambda X: X + 100),
    "few samples": made_up(60, 300, lambda X: X),
}

# %%
# One call for each solution. It needs ``coef_``, ``intercept_``, the data and alpha, and knows
# nothing of the solver. Solvers that reach ``max_iter`` warn; the bound tells how far they came.
solvers = ["svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga"]
alpha = 0.1
bounds = np.empty((len(data), len(solvers)))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    for i, (X, y) in enumerate(data.values()):
        for j, solver in enumerate(solvers):
            model = Ridge(alpha=alpha, solver=solver, random_state=0).fit(X, y)
            certificate = ling.certify(model.coef_, X, y, alpha, intercept=model.intercept_)
            bounds[i, j] = certificate.bound

for name, row in zip(data, bounds, strict=True):
    shown = "  ".join(f"{s} {bound:.0e}" for s, bound in zip(solvers, row, strict=True))
    print(f"{name:<22} {shown}")

# %%
# A bound of 1 means that predictions may be off by as much as y varies. The direct solvers, svd and
# cholesky, are exact up to rounding on all data sets. For the others the same ``tol`` gives four
# digits where columns are independent, and hardly one where columns are correlated and differ in
# scale, as those of wine and of breast cancer do. Bounds here are close to the errors themselves,
# because X'X is small enough to be factored.
edges = [-np.inf, -8, -6, -4, -2, np.inf]
labels = ["≤ 1e-8", "≤ 1e-6", "≤ 1e-4", "≤ 1e-2", "> 1e-2"]
colours = ["#08519c", "#6baed6", "#deebf7", "#fdae6b", "#d94801"]
classes = np.searchsorted(edges[1:-1], np.log10(bounds))

figure, ax = plt.subplots(figsize=(8.6, 5.4), layout="constrained")
norm = BoundaryNorm(np.arange(-0.5, 5.5), 5)
image = ax.imshow(classes, cmap=ListedColormap(colours), norm=norm, aspect="auto")
for (i, j), bound in np.ndenumerate(bounds):
    dark = classes[i, j] in (0, 4)
    ax.text(j, i, f"{bound:.1e}", ha="center", va="center", color="white" if dark else "0.15")
ax.set_xticks(range(len(solvers)), solvers)
names = [f"{name} ({len(y)} x {X.shape[1]})" for name, (X, y) in data.items()]
ax.set_yticks(range(len(data)), names)
ax.set_xticks(np.arange(len(solvers) - 1) + 0.5, minor=True)
ax.set_yticks(np.arange(len(data) - 1) + 0.5, minor=True)
ax.grid(which="minor", color="white", linewidth=2)
ax.tick_params(which="both", length=0)
ax.spines[:].set_visible(False)
ax.set(xlabel=f"solver of scikit-learn, alpha = {alpha}", ylabel="data (samples x columns)")
bar = figure.colorbar(image, ticks=range(5), shrink=0.7)
bar.ax.set_yticklabels(labels)
bar.ax.tick_params(which="both", length=0)
bar.outline.set_visible(False)
bar.set_label("proven bound on the error of predictions,\nrelative to the spread of y")
plt.show()
