"""
Time-series classification with random convolutions (ROCKET)
============================================================

ROCKET turns a time series into thousands of features by random convolutions, and leaves the
rest to a ridge classifier whose alpha is chosen by leave-one-out. That last step is where the
time goes once there are many series. Here it is done by ``ling.RidgeClassifierCV``, in place of
scikit-learn's.
"""

# %%
# Made-up series of three kinds, all with noise and at random phases: a sine whose frequency
# rises, one whose frequency falls, and one that is louder for a moment. Some do so by very
# little.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn import linear_model
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import ling

KINDS = ["rising", "falling", "louder"]
LENGTH = 150


def made_up(n, rng):
    """n series of LENGTH values, and the kind of each."""
    kind = rng.integers(0, 3, n)
    t = np.linspace(0, 1, LENGTH)
    bend = np.array([5.0, -5.0, 0.0])[kind] * rng.uniform(0, 1, n)
    phase = rng.uniform(size=(n, 1)) + 8 * t + bend[:, None] * (t - 0.5) ** 2
    start = rng.uniform(0.1, 0.8, (n, 1))
    burst = (t > start) & (t < start + 0.1) & (kind == 2)[:, None]
    series = np.sin(2 * np.pi * phase) * np.where(burst, rng.uniform(1, 3, (n, 1)), 1.0)
    return series + 0.5 * rng.standard_normal((n, LENGTH)), kind


rng = np.random.default_rng(0)
series, kind = made_up(1000, rng)
new_series, new_kind = made_up(600, rng)

# %%
# The transform: kernels of nine random weights with a random bias and a dilation, which is how
# far apart the values are that a kernel looks at. Two numbers are kept of what a kernel gives:
# its maximum, and the share of its values that are above 0.


def rocket(series, n_kernels, seed=0):
    """Maximum and share of positive values for each of the random convolutions."""
    rng = np.random.default_rng(seed)
    series = series - series.mean(axis=1, keepdims=True)
    series = (series / series.std(axis=1, keepdims=True)).astype(np.float32)
    features = []
    for dilation in (1, 2, 4, 8, 16):
        weights = rng.standard_normal((n_kernels // 5, 9)).astype(np.float32)
        weights -= weights.mean(axis=1, keepdims=True)
        bias = rng.uniform(-1, 1, len(weights)).astype(np.float32)
        span = 8 * dilation + 1
        windows = np.lib.stride_tricks.sliding_window_view(series, span, axis=1)[..., ::dilation]
        windows = windows.reshape(-1, 9)
        for some in np.array_split(np.arange(len(weights)), 1 + len(weights) // 50):
            values = windows @ weights[some].T + bias[some]
            values = values.reshape(len(series), -1, len(some))
            features += [values.max(axis=1), (values > 0).mean(axis=1)]
    return np.hstack(features)


scaler = StandardScaler()
X = scaler.fit_transform(rocket(series, 1000))
X_new = scaler.transform(rocket(new_series, 1000))
print(X.shape, X.dtype)

# %%
# The classifier. Every series is left out in turn, exactly, for each of ten alphas.
alphas = np.logspace(-1, 5, 10)
model = ling.RidgeClassifierCV(alphas).fit(X, kind)
print(f"accuracy {model.score(X_new, new_kind):.3f} with alpha = {model.alpha_:.3g}")
print(model.report_)

# %%
# scikit-learn's in the same place: the same alpha and the same predictions. (Fastest of two
# turns.)
fastest = {"ling": np.inf, "scikit-learn": np.inf}
contestants = {"ling": ling.RidgeClassifierCV, "scikit-learn": linear_model.RidgeClassifierCV}
for _ in range(2):
    for name, RidgeClassifierCV in contestants.items():
        start = time.perf_counter()
        fit = RidgeClassifierCV(alphas).fit(X, kind)
        fastest[name] = min(fastest[name], time.perf_counter() - start)
        same = np.mean(fit.predict(X_new) == model.predict(X_new))
        print(f"{name:<13} alpha {fit.alpha_:.3g}, {100 * same:.1f} % the same predictions")
print({name: f"{seconds:.2f} s" for name, seconds in fastest.items()})

# %%
# How many kernels does it take? Beside it, the accuracy of ridge on the series as they are, which
# knows nothing of phases. All of it in a scikit-learn pipeline, as one would use it.
numbers, accuracy = [10, 25, 100, 250, 1000], []
for number in numbers[:-1]:
    pipeline = make_pipeline(
        FunctionTransformer(rocket, kw_args={"n_kernels": number}),
        StandardScaler(),
        ling.RidgeClassifierCV(alphas),
    )
    accuracy.append(pipeline.fit(series, kind).score(new_series, new_kind))
accuracy.append(model.score(X_new, new_kind))
plain = ling.RidgeClassifierCV(alphas).fit(series, kind).score(new_series, new_kind)

figure, axes = plt.subplot_mosaic(
    [["rising", "accuracy"], ["falling", "accuracy"], ["louder", "accuracy"]],
    figsize=(9, 4.4),
    layout="constrained",
)
for number, name in enumerate(KINDS):
    axes[name].plot(series[kind == number][0], color="#0072B2", linewidth=1.2)
    axes[name].set(ylabel=name, yticks=[], xticks=[])
axes["louder"].set(xlabel="time", xticks=[0, 50, 100, 150])
ax = axes["accuracy"]
ax.semilogx(numbers, accuracy, "-o", color="#0072B2", label="random convolutions")
ax.axhline(plain, color="#E69F00", label="the series themselves")
ax.axhline(1 / 3, color="0.6", linestyle=":", label="guessing")
ax.set(xlabel="number of kernels", ylabel="accuracy on 600 new series", ylim=(0.25, 1))
ax.xaxis.set_major_formatter("{x:g}")
ax.legend(loc="center right", frameon=False)
for each in axes.values():
    each.spines[["top", "right"]].set_visible(False)
plt.show()
