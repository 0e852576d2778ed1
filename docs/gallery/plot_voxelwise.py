"""
A voxelwise encoding model: 1000 targets, an alpha for each
===========================================================

Encoding models predict the response of every voxel of a brain from features of what a person
saw or heard. Voxels differ in how noisy they are, so that each needs a penalty of its own, and
neighbouring scans resemble each other, so that whole runs have to be left out. ``RidgeCV`` does
both at once, for all voxels together.
"""

# %%
# A made-up experiment: 10 runs of 80 scans, 50 features of the stimulus, each at four delays
# because blood flow lags behind. The voxels are a sheet of 25 by 40, tuned to features that vary
# smoothly over it, with two regions that respond and a rest that does not.
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn import linear_model
from sklearn.metrics import r2_score
from sklearn.model_selection import LeaveOneGroupOut

import ling

rng = np.random.default_rng(0)
RUNS, SCANS, FEATURES, DELAYS, SHEET = 10, 80, 50, 4, (25, 40)
VOXELS = SHEET[0] * SHEET[1]


def smooth_in_time(values, width):
    """Neighbouring scans resemble each other."""
    smooth = gaussian_filter(values, (0, width, 0))
    return smooth / smooth.std()


stimulus = smooth_in_time(rng.standard_normal((RUNS, SCANS, FEATURES)), 1.0)
X = np.concatenate([np.roll(stimulus, delay, axis=1) for delay in range(1, DELAYS + 1)], axis=2)
X = X.reshape(RUNS * SCANS, FEATURES * DELAYS)
run = np.repeat(np.arange(RUNS), SCANS)

row, column = np.mgrid[: SHEET[0], : SHEET[1]]
strength = 1.5 * np.exp(-((row - 8) ** 2 + (column - 10) ** 2) / 40)
strength += 1.1 * np.exp(-((row - 16) ** 2 + (column - 28) ** 2) / 60)
tuning = gaussian_filter(rng.standard_normal((*SHEET, FEATURES)), (2, 2, 0)).reshape(VOXELS, -1)
response = np.array([0.3, 1.0, 0.8, 0.3])
weights = (response[:, None, None] * tuning.T).reshape(FEATURES * DELAYS, VOXELS)
signal = X @ weights
signal *= strength.ravel() / signal.std(axis=0)
noise = smooth_in_time(rng.standard_normal((RUNS, SCANS, VOXELS)), 1.0).reshape(-1, VOXELS)
Y = signal + noise

train = run < RUNS - 2
X, X_new, Y, Y_new, signal_new = X[train], X[~train], Y[train], Y[~train], signal[~train]
run = run[train]
print(f"{X.shape[0]} scans, {X.shape[1]} features, {Y.shape[1]} voxels; 2 runs kept for testing")

# %%
# One call: 1000 voxels, 16 alphas, runs left out in turn. Voxels without a response are best
# predicted by the largest alpha of any grid; ling would warn of that, and here it is expected.
alphas = np.logspace(1, 6, 16)
warnings.filterwarnings("ignore", message="the best alpha is", category=UserWarning)
model = ling.RidgeCV(alphas, cv=LeaveOneGroupOut(), alpha_per_target=True)
model.fit(X, Y, groups=run)
print(model.report_)

# %%
# What could be reached is known here, because the signal is: that is the noise ceiling. The map
# of alphas shows by itself where there is something to predict.


def r2(predicted):
    """R² of each voxel on the runs kept for testing."""
    return r2_score(Y_new, predicted, multioutput="raw_values")


score, ceiling = r2(model.predict(X_new)), r2(signal_new)
maps = [
    ("R² on new runs", score.clip(0), "viridis"),
    ("what could be reached", ceiling.clip(0), "viridis"),
    ("chosen alpha", np.log10(model.alpha_), "cividis"),
]
figure, axes = plt.subplots(1, 3, figsize=(10, 2.9), layout="constrained")
for ax, (title, values, colours) in zip(axes, maps, strict=True):
    low, high = (1, 6) if title == "chosen alpha" else (0, ceiling.max())
    image = ax.imshow(values.reshape(SHEET), vmin=low, vmax=high, cmap=colours)
    ax.set(title=title, xlabel="column of the sheet", ylabel="row of the sheet")
    if title == "chosen alpha":
        bar = figure.colorbar(image, ax=ax, ticks=[1, 2, 3, 4, 5, 6])
        bar.ax.set_yticklabels(["10", "100", "1000", "10⁴", "10⁵", "10⁶"])
    elif title == "what could be reached":
        figure.colorbar(image, ax=axes[:2], label="R²")
plt.show()

# %%
# Is all that needed? The alternatives: one alpha for all voxels, and single scans left out
# instead of runs. Then the scans before and after, almost the same, stay in, noise looks like
# signal, and alpha comes out too small.
responds = ceiling > 0.2
alternatives = {
    "an alpha for each voxel, runs left out": score,
    "one alpha for all, runs left out": r2(
        ling.RidgeCV(alphas, cv=LeaveOneGroupOut()).fit(X, Y, groups=run).predict(X_new)
    ),
    "an alpha for each voxel, scans left out": r2(
        ling.RidgeCV(alphas, alpha_per_target=True).fit(X, Y).predict(X_new)
    ),
}
for name, values in alternatives.items():
    print(
        f"{name:<42} responding {values[responds].mean():.3f}, rest {values[~responds].mean():.3f}"
    )

# %%
# scikit-learn has an alpha for each target only where single samples are left out. There it
# chooses the same alphas. (Fastest of two turns.)
chosen, fastest = {}, {"ling": np.inf, "scikit-learn": np.inf}
for _ in range(2):
    for name, RidgeCV in [("ling", ling.RidgeCV), ("scikit-learn", linear_model.RidgeCV)]:
        started = time.perf_counter()
        chosen[name] = RidgeCV(alphas, alpha_per_target=True).fit(X, Y).alpha_
        fastest[name] = min(fastest[name], time.perf_counter() - started)
same = np.mean(chosen["ling"] == chosen["scikit-learn"])
print(f"the same alpha for {100 * same:.1f} % of the voxels")
print({name: f"{seconds:.2f} s" for name, seconds in fastest.items()})
