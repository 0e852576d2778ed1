"""
What the plan predicts
======================

``ling.plan_fit`` tells what every engine would cost, from the shape of the data and the measured
speed of the machine, without touching the numbers in X. Here: 20 000 rows, more and more columns,
on the machine that made this page.
"""

# %%
# X is never looked into, so one number in the place of all will do.
import matplotlib.pyplot as plt
import numpy as np

import ling

n = 20_000
columns = np.unique(np.geomspace(10, 20_000, 40).astype(int))
plans = [ling.plan_fit(np.broadcast_to(1.0, (n, p)), memory_budget="8GB") for p in columns]
print(plans[-1])

# %%
# An engine is drawn where it fits the memory budget, and thick where it is the first choice. The
# direct one is preferred to what may be faster, as its cost is certain.
colours = {"direct": "#0072B2", "two_stage": "#D55E00"}
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for engine, colour in colours.items():
    seconds = [
        plan.estimate_for(engine).seconds if plan.estimate_for(engine).fits else np.nan
        for plan in plans
    ]
    first = [
        s if plan.steps[0].engine == engine else np.nan
        for s, plan in zip(seconds, plans, strict=True)
    ]
    ax.loglog(columns, seconds, color=colour, linewidth=1, label=engine)
    ax.loglog(columns, first, color=colour, linewidth=4, solid_capstyle="round")
ax.set(xlabel="columns of X", ylabel="predicted seconds", title=f"One target, {n} rows")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
