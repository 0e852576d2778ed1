"""
The paper's algorithms: what a pass over the data buys
======================================================

``ling.paper`` has the algorithms of Lu and Foster as printed. LING spends its first passes on
the few strong directions of X and leaves the rest to gradient descent, which then converges
fast. This example puts it beside its rivals on the paper's third model, which is made to be
hard for both of them.
"""

# %%
# Model 3: 15 strong directions above a flat floor, and coefficients on both. As it is simulated,
# the risk of a fit is known: how far it is from the mean of y, not from y. (The columns are
# rotated, which changes nothing for the algorithms of the paper. As printed they are orthogonal,
# and an engine that scales columns, as those of ``ling.Ridge`` do, would see through it at once.)
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

import ling
from ling import paper

model = paper.models.model3(random_state=0, n=1000, p=750)
y, lam = model.y, model.lam
rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((750, 750)))[0]
X = model.X @ rotation
print(f"{X.shape[0]} x {X.shape[1]}, lambda = {lam:.2g}")

# %%
# Exact ridge regression is the target. The paper's lambda is scikit-learn's alpha divided by the
# number of rows, and it has no intercept.
exact = paper.ridge(X, y, lam)
from_sklearn = Ridge(alpha=len(y) * lam, fit_intercept=False).fit(X, y)
apart = np.abs(exact.coef - from_sklearn.coef_).max()
print(f"risk {model.risk(exact.fitted):.3f}; coefficients are within {apart:.0e} of scikit-learn's")

# %%
# Every fit knows what it has cost, in passes over X and in FLOPs.
fits = {
    "principal components": [paper.pcr(X, y, k, random_state=0) for k in (5, 15, 50, 100, 200)],
    "gradient descent": [paper.gradient_descent(X, y, lam, t) for t in (1, 2, 5, 10, 20, 40, 80)],
    "LING, k = 20": [
        paper.ling(X, y, lam, k=20, n_iter=t, random_state=0) for t in (0, 1, 2, 3, 5, 8, 12, 18)
    ],
}
step = paper.svrg(X, y, lam, n_passes=10, random_state=0).step
fits["SVRG, step tuned for free"] = [
    paper.svrg(X, y, lam, passes, step, random_state=0) for passes in (2, 5, 10, 20, 40, 80)
]
for name, some in fits.items():
    last = some[-1]
    print(f"{name:<26} {last.cost.passes:5.0f} passes, risk {model.risk(last.fitted):9.3f}")

# %%
# ``ling.Ridge`` has grown out of that idea: conjugate gradients instead of gradient descent, a
# sketch from a sample of rows instead of passes, and a proof of how close it is. Here it is with
# four tolerances.
certified = [
    ling.Ridge(
        alpha=len(y) * lam, fit_intercept=False, solver="two_stage", tol=tol, random_state=0
    ).fit(X, y)
    for tol in (1e-1, 1e-2, 1e-3, 1e-4)
]
print(certified[-1].report_)

# %%
# Principal components alone miss what lies in the floor, whatever their number. Gradient descent
# is held up by the strong directions. LING has neither fault.
figure, ax = plt.subplots(figsize=(8, 4.8), layout="constrained")
colours = ["0.6", "#E69F00", "#0072B2", "#CC79A7"]
for (name, some), colour, marker in zip(fits.items(), colours, "^sov", strict=True):
    risks = [model.risk(fit.fitted) for fit in some]
    passes = [fit.cost.passes for fit in some]
    ax.loglog(passes, risks, marker=marker, color=colour, linewidth=1.6, label=name)
ax.loglog(
    [fit.report_.cost.passes for fit in certified],
    [model.risk(fit.predict(X)) for fit in certified],
    marker="D", color="#009E73", linewidth=1.6, label="ling.Ridge, tol from 0.1 to 0.0001",
)  # fmt: skip
ax.axhline(model.risk(exact.fitted), color="0.3", linestyle=":", label="exact ridge regression")
ax.set(xlabel="passes over X", ylabel="risk")
ax.xaxis.set_major_formatter("{x:g}")
figure.legend(loc="outside lower center", ncols=3, frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
