"""
How sure is a prediction?
=========================

A number without an error bar is half an answer. ``predict(X, return_std=True)`` gives the
standard deviation of new observations around their prediction, ``coef_std_errors()`` that of
the coefficients. This example draws such intervals, and checks by simulation whether they hold
what they promise, including where they do not.
"""

# %%
# Made-up measurements of a curve, with a gap: 60 points, and 40 bumps along the axis as features.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.linear_model import BayesianRidge

import ling

rng = np.random.default_rng(0)
centres = np.linspace(-0.1, 1.1, 40)


def bumps(x):
    """Height of 40 Gaussian bumps at each x."""
    return np.exp(-(((x[:, None] - centres) / 0.07) ** 2) / 2)


def curve(x):
    """What is measured."""
    return np.sin(7 * x) + 0.5 * x


x = np.concatenate([rng.uniform(0, 0.45, 35), rng.uniform(0.7, 1, 25)])
y = curve(x) + rng.normal(0, 0.2, len(x))

# %%
# Intervals are those of a Gaussian model: coefficients are as likely to be large as alpha says.
# So they are as good as alpha is. scikit-learn's ``BayesianRidge`` takes the alpha under which
# the data are most likely; with that one, ling's intervals are the same but for how the noise is
# estimated.
bayesian = BayesianRidge(tol=1e-6).fit(bumps(x), y)
likely = ling.Ridge(alpha=bayesian.lambda_ / bayesian.alpha_, store_covariance=True).fit(
    bumps(x), y
)
cautious = ling.RidgeCV(selection_rule="one_standard_error", store_covariance=True).fit(bumps(x), y)
best = ling.RidgeCV(store_covariance=True).fit(bumps(x), y)

grid = np.linspace(0, 1, 300)
ratio = likely.predict(bumps(grid), return_std=True)[1]
ratio /= bayesian.predict(bumps(grid), return_std=True)[1]
print(f"ling's standard deviations / BayesianRidge's: from {ratio.min():.3f} to {ratio.max():.3f}")
for name, model in {"likely": likely, "cautious": cautious, "best": best}.items():
    noise = np.sqrt(model.noise_variance_)
    widest = model.predict(bumps(grid), return_std=True)[1].max()
    print(
        f"{name:<9} {model.edf_:4.1f} degrees of freedom, noise {noise:.3f}, at most ± {widest:.2g}"
    )
# %%
# The cautious alpha is the largest that predicts within one standard error of the best. At the
# points it does well. In the gap, where no left-out point could tell, it promises too much. The
# best alpha by leave-one-out is not tested there either, and may err to the other side: with other
# draws of these points it can be so small that the curve shoots off within the gap.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
titles = ["alpha by likelihood", "alpha by the one standard error rule"]
for ax, model, title in zip(axes, (likely, cautious), titles, strict=True):
    mean, std = model.predict(bumps(grid), return_std=True)
    low, high = mean - 1.96 * std, mean + 1.96 * std
    ax.fill_between(
        grid, low, high, color="#0072B2", alpha=0.18, linewidth=0, label="95 % interval"
    )
    ax.plot(grid, mean, color="#0072B2", linewidth=2, label="prediction")
    ax.plot(grid, curve(grid), color="0.2", linestyle=":", label="the truth")
    ax.scatter(x, y, s=10, color="0.3", linewidth=0, zorder=3, label="measured")
    ax.set(xlabel="x", title=title)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("y")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# Do intervals hold?
# ------------------
#
# Of intervals that are said to hold 80 % of new observations, 80 % should. To see whether they
# do, 80 samples of 30 correlated features are drawn 200 times. First with coefficients as the
# model has them, all of about the same size and drawn anew; then with one large among small ones.
levels = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
widths = norm.ppf((1 + levels) / 2)
n, p, repeats = 80, 30, 200
mixing = np.eye(p) + 0.3 * rng.standard_normal((p, p))


def covered(coef, which):
    """Whether intervals of each level hold 20 new observations, and the coefficients `which`."""
    X = rng.standard_normal((n + 20, p)) @ mixing
    y = X @ coef + rng.normal(0, 3, n + 20)
    model = ling.RidgeCV(store_covariance=True).fit(X[:n], y[:n])
    mean, std = model.predict(X[n:], return_std=True)
    of_new = np.abs(y[n:] - mean) / std
    of_coef = (np.abs(coef - model.coef_) / model.coef_std_errors())[which]
    return [(values[:, None] < widths).mean(axis=0) for values in (of_new, of_coef)]


even = [covered(rng.standard_normal(p), slice(None)) for _ in range(repeats)]
one_large = np.where(np.arange(p) == 0, 4.0, 0.1)
uneven = [covered(one_large, slice(1)) for _ in range(repeats)]
found = {
    "new observations, even coefficients": np.mean([new for new, _ in even], axis=0),
    "new observations, one large coefficient": np.mean([new for new, _ in uneven], axis=0),
    "even coefficients": np.mean([coef for _, coef in even], axis=0),
    "the large coefficient": np.mean([coef for _, coef in uneven], axis=0),
}
for name, shares in found.items():
    print(f"{name:<40} 95 % intervals hold {100 * shares[5]:.0f} %")

# %%
# Intervals of observations hold within a point or two either way, as do those of even
# coefficients. But a penalty pulls all coefficients to 0, and one that is far larger than the
# others is pulled too far for its standard error to cover. Single coefficients of a ridge
# regression want care.
figure, ax = plt.subplots(figsize=(7.4, 4.8), layout="constrained")
ax.plot([50, 100], [50, 100], color="0.6", linestyle=":", label="as promised")
styles = [("-o", "#0072B2"), ("--s", "#0072B2"), ("-o", "#E69F00"), ("--s", "#E69F00")]
for (name, shares), (style, colour) in zip(found.items(), styles, strict=True):
    ax.plot(100 * levels, 100 * shares, style, color=colour, label=name, markersize=5)
ax.set(xlabel="promised, %", ylabel="found in 200 simulations, %")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
