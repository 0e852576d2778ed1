"""
Choosing alpha, and reading the choice
======================================

How strong should the penalty be? ``RidgeCV`` tries many with one factorisation, says
which predicts best on samples left out, and which larger one is as good within the error of
that judgement. Three displays show what lies behind the choice.
"""

# %%
# scikit-learn's diabetes data: ten measurements of 442 patients, here with all their products and
# squares. That makes 65 features, many of them nearly dependent: a case for a penalty.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn import linear_model
from sklearn.datasets import load_diabetes
from sklearn.model_selection import RepeatedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import ling

X, y = load_diabetes(return_X_y=True, as_frame=True)
features = make_pipeline(
    StandardScaler(), PolynomialFeatures(2, include_bias=False), StandardScaler()
).set_output(transform="pandas")
X = features.fit_transform(X).rename(columns=lambda name: name.replace(" ", " x "))
print(f"{X.shape[0]} patients, {X.shape[1]} features")

# %%
# Without ``alphas`` the grid follows from the data, and is extended until the best one lies
# inside.
model = ling.RidgeCV(cv=10, store_covariance=True).fit(X, y)
print(f"best {model.alpha_:.3g}, largest within one standard error {model.alpha_1se_:.3g}")
print(f"degrees of freedom at the best: {model.edf_:.1f} of {X.shape[1]}")

# %%
# The curve is flat around its top: many alphas predict about equally well, and the shaded
# standard error says how little one should make of the differences.
ling.CVDisplay.from_estimator(model)
plt.show()

# %%
# Along the path, coefficients shrink and change places; on top is how many of them are free in
# effect. Named are the largest at the chosen alpha.
ling.PathDisplay.from_estimator(model, X, y, n_highlighted=6)
plt.show()

# %%
# Which directions of the data are kept: those whose eigenvalue is above alpha.
ling.SpectrumDisplay.from_estimator(model, X)
plt.show()

# %%
# What does the cautious choice cost? Both choices are judged on rows that neither has seen; so is
# a fit with next to no penalty. The single test sets differ far more than the two choices do.
splits = RepeatedKFold(n_splits=5, n_repeats=3, random_state=0)
candidates = {
    "no penalty": ling.Ridge(alpha=1e-6),
    "best": ling.RidgeCV(),
    "one standard error": ling.RidgeCV(selection_rule="one_standard_error"),
}
scores = {name: cross_val_score(each, X, y, cv=splits) for name, each in candidates.items()}
figure, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
colours = ["0.6", "#D55E00", "#009E73"]
for place, ((name, values), colour) in enumerate(zip(scores.items(), colours, strict=True)):
    print(f"{name:<20} R² {values.mean():.3f} ± {values.std():.3f}")
    jitter = np.random.default_rng(0).uniform(-0.15, 0.15, len(values))
    ax.scatter(values, place + jitter, color=colour, s=18, alpha=0.7, linewidth=0)
    ax.plot([values.mean()] * 2, [place - 0.3, place + 0.3], color=colour, linewidth=2.5)
ax.set(
    yticks=range(3), yticklabels=list(scores), xlabel="R² of 15 test sets; the bar is their mean"
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# scikit-learn's ``RidgeCV`` on the same grid chooses the same alpha: with ``cv=None`` both leave
# out one sample at a time, exactly, and with ``cv=10`` both go by true folds. Fastest of two
# turns.
alphas, values = model.alphas_, X.to_numpy()
for cv in (None, 10):
    chosen, fastest = {}, {"ling": np.inf, "scikit-learn": np.inf}
    for _ in range(2):
        for name, RidgeCV in [("ling", ling.RidgeCV), ("scikit-learn", linear_model.RidgeCV)]:
            start = time.perf_counter()
            chosen[name] = RidgeCV(alphas, cv=cv).fit(values, y).alpha_
            fastest[name] = min(fastest[name], time.perf_counter() - start)
    for name, alpha in chosen.items():
        print(f"cv={cv!s:<5}{name:<13} alpha {alpha:.4g} in {1e3 * fastest[name]:.0f} ms")
