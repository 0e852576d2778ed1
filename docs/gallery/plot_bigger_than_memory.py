"""
A table that is larger than the memory allowed
==============================================

The table is a folder of Parquet files, with numbers and text, and as an array of numbers it
would take more memory than there is to spare. ``scan_parquet`` looks at it once; the estimators
then read it a block at a time, and stay within the ``memory_budget`` that they are given.
"""

# %%
# Made-up taxi rides: six files of 30,000, with eight columns of numbers, one of 60 zones, and a
# weekday. One file more, elsewhere, is kept for testing.
import tempfile
import threading
import time
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn import linear_model

import ling

rng = np.random.default_rng(0)
temporary = tempfile.TemporaryDirectory()
folder, new_file = Path(temporary.name) / "rides", Path(temporary.name) / "new.parquet"
folder.mkdir()
files = [folder / f"rides-{number}.parquet" for number in range(6)]
numbers = ["distance", "passengers", "hour", "rain", "wind", "tolls", "speed", "age"]
slopes = np.array([2.6, 0.3, 0.1, 1.2, 0.0, 1.0, -0.2, 0.0])
zones = np.array([f"z{number:02d}" for number in range(60)])
days = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
zone_effect, day_effect = rng.normal(0, 3, 60), np.array([0, 0, 0, 1, 3, 4, 1])
for file in [*files, new_file]:
    rides = pd.DataFrame(rng.gamma(2, 1, (30_000, 8)), columns=numbers)
    zone, day = rng.integers(0, 60, 30_000), rng.integers(0, 7, 30_000)
    fare = 4 + rides @ slopes + zone_effect[zone] + day_effect[day] + rng.normal(0, 2, 30_000)
    rides.assign(zone=zones[zone], day=days[day], fare=fare).to_parquet(file)

# %%
# Scanning finds the types of the columns and the categories in them, and holds nothing else.
data = ling.scan_parquet(folder, target="fare")
print(str(data).replace(str(folder), "rides"))
print(f"{sum(file.stat().st_size for file in files) / 1e6:.0f} MB on disk")
print(f"{8 * data.shape[0] * data.shape[1] / 1e6:.0f} MB as an array of numbers")

# %%
# Five-fold cross-validation within 20 MB. The budget is for everything but y and what is a number
# for each row: blocks of the table, sums, and what the engine needs. ``report_`` says how often
# the table was read.
model = ling.RidgeCV(cv=5, memory_budget="20MB").fit(data)
print(model.report_)

# %%
# Columns have names, those of the categories too.
for name, value in list(zip(model.feature_names_in_, model.coef_, strict=True))[:12]:
    print(f"{name:<12}{value:6.2f}")

# %%
# The rides kept for testing are encoded as those of the fit were. Predictions come in blocks as
# well.
new = ling.scan_parquet(new_file, target="fare", like=model)
squares = sum(
    float(((predicted - new.y[rows]) ** 2).sum()) for rows, predicted in model.predict_blocks(new)
)
print(f"root mean squared error {np.sqrt(squares / new.shape[0]):.3f}; the noise has 2")

# %%
# What does it take? The memory that Python, NumPy and Arrow hold is looked at every few
# milliseconds while a model is fitted to the folder, once so, and once the usual way: read,
# encode, fit. (Looking slows both.)


@contextmanager
def watched():
    """Seconds since the beginning, and MB on top of what there was, in a list that grows."""
    done, seen = threading.Event(), []
    start, before = time.perf_counter(), pa.total_allocated_bytes()

    def look():
        while not done.wait(0.005):
            held = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before
            seen.append((time.perf_counter() - start, held / 1e6))

    tracemalloc.start()
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()
        tracemalloc.stop()


def read_encode_fit():
    """All of it in memory."""
    rides = pd.read_parquet(folder)
    fare = rides.pop("fare")
    rides = pd.get_dummies(rides, prefix_sep="=", dtype=float)
    return linear_model.Ridge(alpha=1.0).fit(rides, fare)


with watched() as with_scan:
    table = ling.scan_parquet(folder, target="fare")
    scanned = ling.Ridge(alpha=1.0, memory_budget="20MB").fit(table)
with watched() as all_at_once:
    in_memory = read_encode_fit()
temporary.cleanup()
assert list(scanned.feature_names_in_) == list(in_memory.feature_names_in_)
print(f"coefficients differ by {np.abs(scanned.coef_ - in_memory.coef_).max():.0e} at most")

# %%
# On the left the price, on the right what was learnt: what each of the zones adds to a fare.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
runs = [
    ("scikit-learn, all in memory", all_at_once, "#E69F00"),
    ("ling, memory_budget='20MB'", with_scan, "#0072B2"),
]
for name, seen, colour in runs:
    seconds, taken = np.transpose(seen)
    left.fill_between(seconds, taken, color=colour, alpha=0.15, linewidth=0)
    left.plot(seconds, taken, color=colour, linewidth=2, label=f"{name}: {taken.max():.0f} MB")
left.set(xlabel="seconds", ylabel="memory on top, MB", ylim=(0, None), xlim=(0, None))
left.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
learnt = scanned.coef_[[name.startswith("zone=") for name in scanned.feature_names_in_]]
right.scatter(zone_effect - zone_effect.mean(), learnt - learnt.mean(), s=24, color="#0072B2")
ends = np.array([-8, 8])
right.plot(ends, ends, color="0.4", linewidth=1, linestyle=":")
right.set(xlabel="true effect of a zone on the fare", ylabel="coefficient, from its mean")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
