"""
On a Dask cluster: only coefficients travel
===========================================

X lies in blocks on the workers of a cluster, larger than any one of them could hold. ling
leaves it there: a pass over the data sends a few vectors to the blocks and adds up what comes
back. This example fits on a small cluster, counts passes and bytes, and checks the answer
against memory.
"""

# %%
# A cluster within this process, so that the example runs anywhere: two workers of one thread
# each. With real machines, ``Client("scheduler:8786")`` is all that changes.
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client
from sklearn import linear_model

import ling

client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None)

# %%
# 20,000 rows of 200 columns in eight blocks, made where they will lie; ``persist`` keeps them
# there.
n, p = 20_000, 200
random = da.random.default_rng(0)
X = random.standard_normal((n, p), chunks=(2_500, p)) * np.geomspace(10, 0.05, p)
y = X @ np.random.default_rng(1).standard_normal(p) + 5 * random.standard_normal(n, chunks=2_500)
X, y = client.persist([X, y])
print(X)

# %%
# The same estimators take Dask arrays. The report counts passes: how often every block was gone
# through.
model = ling.Ridge(alpha=100.0).fit(X, y)
print(model.report_)

# %%
# Predictions are a Dask array again, computed when and where they are needed.
print(model.predict(X))
print(f"R² {model.score(X, y):.4f}")

# %%
# With everything in memory, ling and scikit-learn give the same coefficients.
X_here, y_here = X.compute(), y.compute()
for name, module in [("ling", ling), ("scikit-learn", linear_model)]:
    here = module.Ridge(alpha=100.0).fit(X_here, y_here)
    apart = np.abs(here.coef_ - model.coef_).max()
    print(f"in memory, {name}: coefficients differ by {apart:.0e} at most")

# %%
# Cross-validation shares its passes among all alphas and folds.
chosen = ling.RidgeCV(cv=5).fit(X, y)
print(chosen.report_)

# %%
# A pass on a cluster is a round trip, so their number matters. Here an iterative engine is asked
# for more and more accuracy: every digit takes one or two passes more, on the cluster as in
# memory.
reports = {"in memory": [], "on the cluster": []}
for tol in 10.0 ** -np.arange(1, 11, 1.5):
    engine = ling.Ridge(alpha=100.0, solver="two_stage", tol=tol, random_state=0)
    reports["in memory"].append(engine.fit(X_here, y_here).report_)
    reports["on the cluster"].append(engine.fit(X, y).report_)
client.close()

# %%
# And this is why: in a pass of that engine a worker gets one number for each column and sends one
# back. (These bytes are calculated, not measured.) The direct engine has one pass whose sums are
# p by p; sending the data to where the model is would be another thing altogether.
total_passes = reports["on the cluster"][-1].cost.passes
travels = {
    "the data": 8 * n * p,
    "direct: X'X from\n2 workers": 2 * 8 * p * p,
    f"two_stage: {total_passes:.0f} passes,\n2 workers": 2 * total_passes * 2 * 8 * p,
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for (where, each), style in zip(reports.items(), ["o", "x"], strict=True):
    bounds = [report.certificate.bound for report in each]
    passes = [report.cost.passes for report in each]
    colour = "#0072B2" if where == "on the cluster" else "#E69F00"
    left.semilogy(passes, bounds, style, color=colour, label=where, markersize=9, mfc="none")
left.set(xlabel="passes over X", ylabel="certified distance from the exact predictions")
left.legend(loc="upper right", frameon=False)
bars = right.barh(list(travels), [size / 1e6 for size in travels.values()], color="#0072B2")
right.bar_label(bars, fmt="{:.2g} MB", padding=4)
right.set(xscale="log", xlabel="MB that travel", xlim=(0.01, 400))
right.invert_yaxis()
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
