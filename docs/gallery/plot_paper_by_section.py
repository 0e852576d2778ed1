"""
The paper, section by section
=============================

This example follows Lu and Foster's paper from section 2.1 to section 3. Every algorithm is written
down as it is printed, in a few lines of NumPy, and compared with ``ling.paper``, which computes the
same numbers without forming large matrices. A picture shows what each section is about.
"""

# %%
# Everything runs on the paper's Model 3, made smaller: 15 strong directions, and many weak ones of
# similar strength. The factors of X = U D V' are known, so every fit can be looked at direction by
# direction. The paper's lambda is scikit-learn's alpha divided by the number of rows.
import matplotlib.pyplot as plt
import numpy as np

from ling import paper

model = paper.models.model3(random_state=0, n=400, p=300)
X, y, lam = model.X, model.y, model.lam
n, p = X.shape
k, d = 20, model.spectrum
U = X / d  # Model 3 has V = I
print(f"{n} x {p}, lambda = {lam:.2g}, d_1 = {d[0]:.0f}, d_16 = {d[15]:.0f}, d_{p} = {d[-1]:.0f}")


def distance(a, b):
    """The largest difference, relative to the largest entry."""
    return np.abs(a - b).max() / np.abs(b).max()


def clean(*axes):
    """Remove the frame lines that carry no information."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)


# %%
# Section 2.1, Algorithm 2: random SVD
# ------------------------------------
# X is multiplied with ``k`` random vectors, and ``power`` times with XX'. Each power makes the
# strong directions stand out more. The result spans nearly the same space as the top k components.


def algorithm2(X, k, power, rng):
    """U1, d and Q1."""
    R1 = rng.standard_normal((X.shape[1], k))
    A1 = np.linalg.matrix_power(X @ X.T, power) @ X @ R1
    Q1 = np.linalg.qr(A1)[0]
    U0, D0, _ = np.linalg.svd(Q1.T @ X, full_matrices=False)
    return Q1 @ U0, D0, Q1


# %%
# ``ling.paper.random_svd`` orthonormalises between the powers. Both span the same space, so their
# projections U1 U1' are equal.
U1, D0, Q1 = algorithm2(X, k, 1, np.random.default_rng(0))
svd = paper.random_svd(X, k, power=1, random_state=0)
assert distance(svd.d, D0) < 1e-10
assert distance(svd.U @ svd.U.T, U1 @ U1.T) < 1e-10

# %%
# The paper uses one power, i = 1. Then the 15 strong singular values are found almost exactly. The
# other five columns are mixtures of weak directions, which are hard to tell apart and need not be.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(np.arange(1, 31), d[:30], color="0.3", label="exact")
for power, colour, marker in ((0, "#E69F00", "s"), (1, "#0072B2", "o"), (2, "#009E73", "^")):
    basis, values, _ = algorithm2(X, k, power, np.random.default_rng(0))
    captured = ((basis.T @ U[:, :30]) ** 2).sum(axis=0)
    left.plot(np.arange(1, k + 1), values, marker, color=colour, markersize=5, label=f"i = {power}")
    right.plot(np.arange(1, 31), captured, marker=marker, color=colour, markersize=5, linewidth=1)
left.set(xlabel="j", ylabel="singular value $d_j$")
right.set(xlabel="j", ylabel="share of direction j in the span of $U_1$")
for ax in (left, right):
    ax.axvline(15.5, color="0.7", linestyle=":")
left.legend(frameon=False)
clean(left, right)
plt.show()

# %%
# Section 2.1, Algorithm 3: gradient descent
# ------------------------------------------
# Each step goes along the negative gradient w, as far as the objective decreases.


def algorithm3(X, y, lam, n_iter, start):
    """Gradient descent with the optimal step size, as printed: Q is formed in every iteration."""
    n, p = X.shape
    gamma = start.copy()
    for _ in range(n_iter):
        Q = 2 * X.T @ X + 2 * n * lam * np.eye(p)
        w = 2 * X.T @ y - Q @ gamma
        s = (w @ w) / (w @ Q @ w)
        gamma = gamma + s * w
    return gamma


# %%
# ``ling.paper.gradient_descent`` never forms Q. An iteration is two products with X.
fit = paper.gradient_descent(X, y, lam, n_iter=20)
assert distance(fit.coef, algorithm3(X, y, lam, 20, np.zeros(p))) < 1e-10

# %%
# Section 2.1, Algorithm 1: LING
# ------------------------------
# Stage 1 regresses y on the k components, and shrinks the result as ridge regression would (step
# 5). Stage 2 applies gradient descent to the residuals of y and X.


def algorithm1(X, y, lam, U1, d, second_stage):
    """gamma2 and the fitted values; step 4 is ``second_stage``. d = None leaves out step 5."""
    gamma1 = U1.T @ y
    y_r = y - U1 @ gamma1
    X_r = X - U1 @ U1.T @ X
    gamma2 = second_stage(X_r, y_r)
    gamma1_s = gamma1 if d is None else d**2 / (d**2 + len(y) * lam) * gamma1
    return gamma2, U1 @ gamma1_s + X_r @ gamma2


def descend(n_iter):
    return lambda X_r, y_r: algorithm3(X_r, y_r, lam, n_iter, np.zeros(p))


# %%
# ``ling.paper.ling`` never forms X_r. It also returns coefficients for new rows, which the paper
# does not give.
gamma2, fitted = algorithm1(X, y, lam, U1, D0, descend(10))
fit = paper.ling(X, y, lam, k, n_iter=10, random_state=0)
assert distance(fit.gamma2, gamma2) < 1e-10
assert distance(fit.fitted, fitted) < 1e-10
assert distance(X @ fit.coef, fitted) < 1e-10

# %%
# How much of ridge regression's fit is there, direction by direction? Gradient descent finds the
# strong directions first, and has to take small steps because of them. Stage 1 of LING finds them
# at once. The directions that are left have similar strength, and a few steps suffice. (The picture
# is drawn with exact components, as those of Algorithm 2 mix a little with other directions.)
exact = paper.ridge(X, y, lam)
components = paper.exact_svd(X, k)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for n_iter, colour in ((0, "0.6"), (2, "#56B4E9"), (10, "#0072B2")):
    for ax, result in (
        (axes[0], paper.gradient_descent(X, y, lam, n_iter)),
        (axes[1], paper.ling(X, y, lam, k, n_iter, svd=components)),
    ):
        found = (U.T @ result.fitted) / (U.T @ exact.fitted)
        ax.plot(
            np.arange(1, p + 1),
            found,
            ".",
            color=colour,
            markersize=5,
            label=f"{n_iter} iterations",
        )
axes[0].set(title="gradient descent", ylabel="share of ridge regression's fit")
axes[1].set_title(f"LING, k = {k}")
for ax in axes:
    ax.set(xlabel="direction j", xscale="log", ylim=(-0.05, 1.2))
    ax.xaxis.set_major_formatter("{x:g}")
axes[1].legend(frameon=False, loc="center left")
clean(*axes)
plt.show()

# %%
# Section 2.1: without shrinkage
# ------------------------------
# The simplified version leaves out step 5. Then only the space of the components matters, and Q1
# replaces U1. The paper's experiments use this version.
simplified = algorithm1(X, y, lam, Q1, None, descend(10))[1]
fit = paper.ling(X, y, lam, k, n_iter=10, shrink=False, random_state=0)
assert distance(fit.fitted, simplified) < 1e-10

# %%
# Section 2.2: cost
# -----------------
# LING costs O(np(k + n_iter)). In products with X, a component costs 8np FLOPs and an iteration
# costs 4np. The number of passes does not depend on k. A factorisation costs about n p^2 FLOPs.
# All FLOPs, including those for small matrices, are printed in units of np.
for n_components, n_iter in ((5, 10), (20, 10), (20, 40)):
    cost = paper.ling(X, y, lam, n_components, n_iter, random_state=0).cost
    units = cost.flops / (n * p)
    print(f"k = {n_components:>2}, {n_iter} iterations: {cost.passes:.0f} passes, {units:.0f} np")
print(f"exact ridge regression: {exact.cost.flops / (n * p):.0f} np")

# %%
# Section 2.2: rates of convergence
# ---------------------------------
# Theorem 1, inequality (3): a step leaves at most the share C of the gap of the objective.
# Equation (4) gives C for gradient descent, and equation (5) for stage 2 of LING with exact
# components. The paper's argument is that (5) is much smaller, as the right panel shows, with a
# lambda 100 times as large.
#
# In the left panel n lambda is far below all eigenvalues of X'X, and (5) promises little. It takes
# the smallest eigenvalue to be 0, that of the directions that stage 1 removed. Stage 2 never enters
# them if it starts at zero. With the smallest remaining singular value instead, as in (4), the
# bound describes what happens.


def gap(objective, fit, target, lam):
    """Distance of the objective from its minimum, relative to the start."""
    best = np.sum((target - fit.fitted) ** 2) + n * lam * np.sum(fit.coef**2)
    return (objective - best) / (objective[0] - best)


X_r = X - components.U @ components.U.T @ X
y_r = y - components.U @ components.U.T @ y
steps = np.arange(21)
figure, axes = plt.subplots(1, 2, figsize=(9, 4.8), sharey=True, layout="constrained")
for ax, factor in zip(axes, (1, 100), strict=True):
    value = factor * lam
    descent = paper.gradient_descent(X, y, value, 20)
    gd_gap = gap(descent.objective, paper.ridge(X, y, value), y, value)
    stage2 = paper.ling(X, y, value, k, 20, svd=components)
    ling_gap = gap(stage2.objective, paper.ridge(X_r, y_r, value), y_r, value)
    bound4 = paper.theory.gd_rate(d, value, n, p)
    bound5 = paper.theory.ling_rate(d, value, n, k)
    from_zero = paper.theory.ling_rate_from_zero(d, value, n, k)
    print(f"lambda {value:.2g}: C = {bound4:.3f} (4), {bound5:.3f} (5), {from_zero:.3f} from zero")
    assert np.all(gd_gap[1:] <= bound4 * gd_gap[:-1] * (1 + 1e-9))
    assert np.all(ling_gap[1:8] <= from_zero * ling_gap[:7] * (1 + 1e-9))
    seen = ling_gap > 1e-12  # the rest is rounding
    ax.semilogy(steps, gd_gap, "s", color="#E69F00", label="gradient descent")
    ax.semilogy(steps, bound4**steps, color="#E69F00", linewidth=1.2, label="bound (4)")
    ax.semilogy(steps[seen], ling_gap[seen], "o", color="#0072B2", label="stage 2 of LING")
    ax.semilogy(steps, bound5**steps, "--", color="#0072B2", linewidth=1.2, label="bound (5)")
    ax.semilogy(
        steps, from_zero**steps, color="#0072B2", linewidth=1.2, label="bound if started at zero"
    )
    ax.set(xlabel="iteration", title=f"lambda = {value:.2g}", ylim=(1e-12, 3))
    ax.set_xticks([0, 5, 10, 15, 20])
axes[0].set_ylabel("distance of the objective from its minimum")
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
)
clean(*axes)
plt.show()

# %%
# Section 3: the risk is that of ridge regression
# -----------------------------------------------
# Assume that U1 is exact and that stage 2 is solved to the end. Then LING's predictions on the
# training rows are those of ridge regression, so the risk is the same (Theorem 2). With U1 from
# Algorithm 2 they are close to it.


def solve(lam):
    """Step 4 with the exact solution in place of gradient descent."""
    return lambda X_r, y_r: np.linalg.solve(X_r.T @ X_r + n * lam * np.eye(p), X_r.T @ y_r)


solved = algorithm1(X, y, lam, components.U, components.d, solve(lam))[1]
assert distance(solved, exact.fitted) < 1e-10
approximate = algorithm1(X, y, lam, U1, D0, solve(lam))[1]
print(f"U1 exact: predictions within {distance(solved, exact.fitted):.0e} of ridge regression's")
print(f"U1 by Algorithm 2: within {distance(approximate, exact.fitted):.0e}")

# %%
# The left picture has the risk as a function of lambda. The bands are the two sums of Theorem 2.
# The points are the loss of LING with exact U1, averaged over 20 draws of the noise. The right
# picture shows what shrinkage changes. The risk of the simplified version exceeds that of
# Algorithm 1 by at most k / n, the variance of the k components (the noise has variance 1). Where
# lambda is large, shrinkage adds more bias than it removes variance.
lams = lam * np.geomspace(1e-2, 1e3, 51)
total = np.array([paper.theory.ling_risk(d, model.rotated, 1.0, value, n, k) for value in lams])
ridge = np.array([paper.theory.ridge_risk(d, model.rotated, 1.0, value, n) for value in lams])
assert distance(total, ridge) < 1e-10
D, gamma1 = d[:k, None], (d * model.rotated)[:k, None]
lemma1 = np.sum((D**4 + (n * lams * gamma1) ** 2) / (D**2 + n * lams) ** 2, axis=0) / n

rng = np.random.default_rng(1)
simulated, n_draws = lams[3::6], 20
losses = np.zeros((2, len(simulated), n_draws))
for i, value in enumerate(simulated):
    for draw in range(n_draws):
        y_draw = model.mean + rng.standard_normal(n)
        for version, shrinkage in enumerate((components.d, None)):
            fitted = algorithm1(X, y_draw, value, components.U, shrinkage, solve(value))[1]
            losses[version, i, draw] = model.risk(fitted)


def draw_means(ax, values, label):
    """Means over the draws, with their standard errors."""
    errors = values.std(axis=1, ddof=1) / np.sqrt(n_draws)
    ax.errorbar(simulated, values.mean(axis=1), errors, fmt="o", color="#0072B2", label=label)


figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.fill_between(lams, lemma1, color="#56B4E9", alpha=0.6, linewidth=0, label="stage 1")
left.fill_between(lams, lemma1, total, color="#E69F00", alpha=0.5, linewidth=0, label="stage 2")
left.plot(lams, ridge, color="0.2", label="ridge regression")
draw_means(left, losses[0], "LING, simulated")
left.set(xscale="log", xlabel="lambda", ylabel="risk", xlim=(lams[0], 30 * lam), ylim=(0, 1.8))
left.legend(frameon=False, loc="upper left")
right.semilogx(lams, k / n - lemma1, color="0.2", label="by Lemma 1")
draw_means(right, losses[1] - losses[0], "simulated")
right.axhline(k / n, color="#D55E00", linestyle=":", label="k / n")
right.set(xlabel="lambda", ylabel="risk without shrinkage minus risk with it")
right.set(xlim=(lams[0], 300 * lam), ylim=(-0.06, 0.06))
right.legend(frameon=False, loc="lower left")
clean(left, right)
plt.show()
