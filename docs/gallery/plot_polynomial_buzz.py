"""
Polynomial features: 77 columns become 3080
===========================================

Products of all pairs of features are the simplest way to let a linear model bend. They are also
wide, strongly dependent and heavy-tailed, which is where iterative solvers lose their way and
where least squares without a penalty falls apart. The data are those of Buzz: how much will a
topic be talked about on Twitter, given seven days of eleven indicators?
"""

# %%
# ``load_buzz`` finds the data in the folder ``$LING_DATA`` (``load_buzz()`` alone would download
# what it does not find, 283 MB). Where they are not to be had, this example makes a surrogate of
# the same shape, with tails as heavy; the pictures below say which of the two they show.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn import linear_model
from sklearn.preprocessing import StandardScaler

import ling
from ling.reproduction.datasets import load_buzz, quadratic_features

rng = np.random.default_rng(0)


def surrogate(n=3000):
    """Eleven series over seven days that follow a topic's popularity; not real data."""
    popularity = rng.normal(3, 2, (n, 1, 1))
    series = rng.normal(0, 0.7, (n, 11, 1)) * rng.uniform(0, 1.5, (11, 1))
    days = 0.4 * np.cumsum(rng.standard_normal((n, 11, 7)), axis=2)
    logs = popularity * rng.uniform(0.3, 1, (11, 1)) + series + days
    trend = logs[:, -1, -1] + 0.1 * logs[:, 0, -1] * logs[:, 1, -1] / 3
    counts = np.exp(trend + rng.normal(0, 0.5, n))
    return np.round(np.exp(logs)).reshape(n, 77), np.round(2 * counts) / 2


try:
    buzz = load_buzz("sample")
    X, y, name = buzz.X, buzz.y, buzz.name
except ling.LingError as missing:
    print(missing)
    X, y = surrogate()
    name = "made-up surrogate of Buzz"
rows = rng.permutation(len(y))[:3000]
X, y = X[rows], y[rows]
print(f"{name}: y from {y.min():g} to {y.max():g}, median {np.median(y):g}")

# %%
# Counts go by their logarithms, so that a topic that is talked about a thousand times more does
# not decide everything. Products of columns in units of their own spread, then units once more.
n_train = len(y) // 2
X, y = np.log1p(X), np.log1p(y)


def scaled(X):
    """In units of the training rows."""
    return StandardScaler().fit(X[:n_train]).transform(X)


linear = scaled(X)
products = scaled(quadratic_features(linear))
print(
    f"{linear.shape[1]} features, {products.shape[1]} with products: {products.nbytes / 1e6:.0f} MB"
)

# %%
# The penalty for both sets of features, by exact leave-one-out on half of the topics. The other
# half judges.
train, test = slice(0, n_train), slice(n_train, None)
models = {}
for features in (linear, products):
    model = ling.RidgeCV().fit(features[train], y[train])
    score = model.score(features[test], y[test])
    models[features.shape[1]] = model
    print(
        f"{features.shape[1]:>4} features: alpha {model.alpha_:.3g}, R² on new topics {score:.3f}"
    )
print(model.report_)

# %%
# How much the penalty matters is seen along the path. With the one that was chosen, forty times
# as many features do little harm; with too small a one they do. They do no good here either,
# which is worth knowing before building something larger.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
for features, colour in ((linear, "#E69F00"), (products, "#0072B2")):
    path = ling.ridge_path(features[train], y[train], alphas=np.geomspace(1e-2, 1e5, 29))
    residuals = path.predict(features[test]) - y[test, None]
    score = 1 - (residuals**2).mean(axis=0) / y[test].var()
    p = features.shape[1]
    left.semilogx(path.alphas, score, color=colour, linewidth=2, label=f"{p} features")
    chosen = np.argmin(np.abs(np.log(path.alphas / models[p].alpha_)))
    left.plot(path.alphas[chosen], score[chosen], "o", color=colour, markersize=9)
left.set(xlabel="alpha", ylabel="R² on new topics", ylim=(0.5, 1))
left.plot([], [], "o", color="0.5", label="chosen by leave-one-out")
left.legend(loc="lower right", frameon=False)
predicted = np.expm1(model.predict(products[test])).clip(0)
right.scatter(1 + predicted, 1 + np.expm1(y[test]), s=6, alpha=0.4, color="#0072B2", linewidth=0)
ends = [1, 1 + np.expm1(y[test].max())]
right.plot(ends, ends, color="0.3", linestyle=":", label="as predicted")
right.set(
    xscale="log",
    yscale="log",
    xlabel="1 + predicted number of discussions",
    ylabel="1 + number of discussions",
)
right.legend(loc="upper left", frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
figure.suptitle(name)
plt.show()

# %%
# One fit with the chosen penalty beside scikit-learn's, and how far apart the predictions are in
# units of the spread of y. (Fastest of two turns.) ``plan`` says what each engine was expected to
# cost.
print(ling.plan_fit(products[train], y[train], alpha=model.alpha_))
fastest, predictions = {"ling": np.inf, "scikit-learn": np.inf}, {}
for _ in range(2):
    for name, Ridge in [("ling", ling.Ridge), ("scikit-learn", linear_model.Ridge)]:
        start = time.perf_counter()
        fit = Ridge(alpha=model.alpha_).fit(products[train], y[train])
        fastest[name] = min(fastest[name], time.perf_counter() - start)
        predictions[name] = fit.predict(products[test])
apart = np.std(predictions["ling"] - predictions["scikit-learn"]) / y[test].std()
print({name: f"{seconds:.2f} s" for name, seconds in fastest.items()}, f"apart: {apart:.0e}")
