"""
A first fit, and how far it is from the exact answer
====================================================

You have a table, and ridge regression from scikit-learn. This example puts ``ling.Ridge`` in
its place, reads the report that comes with every fit, and checks the claim it makes: that the
predictions are within ``tol`` of those of the exact solution.
"""

# %%
# The table is made up: 50,000 flats, with their size, rooms, year, floor, distance to the centre
# and district. Columns are in units as people write them down, metres beside years beside counts.
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn import linear_model
from sklearn.model_selection import train_test_split

import ling

rng = np.random.default_rng(0)
n = 50_000
flats = pd.DataFrame(
    {
        "size": rng.gamma(9, 8, n).round(),
        "year": rng.integers(1890, 2024, n),
        "floor": rng.poisson(2.5, n),
        "distance": rng.gamma(3, 1500, n).round(),
    }
)
flats["rooms"] = np.maximum(1, (flats["size"] / 24 + rng.normal(0, 0.6, n)).round())
district = rng.integers(0, 40, n)
price = (
    150
    + 4.1 * flats["size"]
    + 9 * flats["rooms"]
    + 0.5 * (flats["year"] - 1890)
    + 2 * flats["floor"]
    - 0.01 * flats["distance"]
    + rng.normal(0, 30, 40)[district]
    + rng.normal(0, 40, n)
).rename("price")
X = flats.join(pd.get_dummies(district, prefix="district", dtype=float))
X, X_new, y, y_new = train_test_split(X, price, random_state=0)
print(X.iloc[:3, :7])

# %%
# Nothing changes but the import: the same parameters, the same attributes, the same meaning of
# ``alpha``. ``report_`` says which engine did it and why, what that cost, and what is proved.
model = ling.Ridge(alpha=10.0).fit(X, y)
print(model.report_)

# %%
# The same numbers come out. Times are the fastest of five turns each, because the first fit of a
# process also loads compiled code.
from_sklearn = linear_model.Ridge(alpha=10.0).fit(X, y)
apart = np.abs(model.predict(X_new) - from_sklearn.predict(X_new)).max()
print(f"largest difference of predictions: {apart:.1e}, prices being about {y.mean():.0f}")
print(f"R² on new flats: {model.score(X_new, y_new):.4f}")

fastest = {"ling": np.inf, "scikit-learn": np.inf}
for _ in range(5):
    for name, Ridge in [("ling", ling.Ridge), ("scikit-learn", linear_model.Ridge)]:
        start = time.perf_counter()
        Ridge(alpha=10.0).fit(X, y)
        fastest[name] = min(fastest[name], time.perf_counter() - start)
print({name: f"{1e3 * seconds:.1f} ms" for name, seconds in fastest.items()})

# %%
# What a tolerance means
# ----------------------
#
# Both libraries have iterative solvers, which are what remains once a table is too wide to
# factorise. In scikit-learn each of them has a meaning of ``tol`` of its own, and none is the
# distance from the answer. In ling ``tol`` is that distance: of training predictions, in units of
# the spread of y. Here is what each makes of the same ``tol``. The exact solution is that of a
# Cholesky factorisation in float64.
exact = linear_model.Ridge(alpha=10.0, solver="cholesky").fit(X, y).predict(X)
spread = np.linalg.norm(y - y.mean())


def error(estimator):
    """How far the training predictions are from the exact ones."""
    return np.linalg.norm(estimator.predict(X) - exact) / spread


tolerances = 10.0 ** -np.arange(1, 9)
errors = {"ling, certified bound": [], "ling, error": []}
for tol in tolerances:
    fit = ling.Ridge(alpha=10.0, solver="two_stage", tol=tol, random_state=0).fit(X, y)
    errors["ling, certified bound"].append(fit.report_.certificate.bound)
    errors["ling, error"].append(error(fit))
for solver in ("lsqr", "sparse_cg"):
    fits = (linear_model.Ridge(alpha=10.0, solver=solver, tol=tol).fit(X, y) for tol in tolerances)
    errors[f"scikit-learn {solver}, error"] = [error(fit) for fit in fits]

# %%
# On the left, what the model is for. On the right, whoever is above the dotted line has missed
# what was asked for; nothing in scikit-learn's fit tells.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
left.scatter(model.predict(X_new), y_new, s=2, color="#0072B2", alpha=0.3, linewidth=0)
ends = [0, y_new.max()]
left.plot(ends, ends, color="0.4", linewidth=1, linestyle="--")
left.set(
    xlabel="predicted price, thousands",
    ylabel="price, thousands",
    title=f"12,500 new flats: R² = {model.score(X_new, y_new):.2f}",
)
colours = ["#0072B2", "#0072B2", "#E69F00", "#CC79A7"]
styles = ["--o", "-o", "-s", "--^"]
for (name, values), colour, style in zip(errors.items(), colours, styles, strict=True):
    right.loglog(tolerances, values, style, color=colour, label=name, markersize=4, linewidth=1.5)
right.loglog(tolerances, tolerances, color="0.4", linestyle=":", label="what tol asks for")
right.invert_xaxis()
right.set(
    xlabel="tol",
    ylabel="distance from the exact predictions",
    title="the same tol, iterative solvers",
)
figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=3, frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
