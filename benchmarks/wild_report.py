"""Tables and a picture of a run of `benchmarks.wild`."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import COLOURS
from benchmarks.harness import brief, rows
from benchmarks.ridge_peers import DEFAULT
from ling.solvers.engines import ENGINES

Record = dict[str, Any]
# Problems that every contestant fits in less time are judged apart.
SMALL_SECONDS = 0.05
N_WORST = 10
#: Families of data that share a colour in the picture.
FAMILY_GROUPS = {
    "given spectra": (
        "autocorrelated columns", "factor model", "spiked spectrum", "flat spectrum",
        "power-law spectrum", "rank-deficient", "duplicated and empty columns", "different units",
    ),
    "random features, polynomials": ("ReLU features", "Fourier features", "polynomials"),
    "signals, images, embeddings": (
        "lagged time series", "image features", "chemometric_spectra", "sentence_embeddings",
        "drifting_sensors",
    ),
    "genotypes, one-hot": ("genotypes", "one-hot"),
    "sparse": ("sparse text", "sparse one-hot crosses", "click_logs", "additive_splines"),
    "real data": ("real data",),
}  # fmt: skip
TASK_NAMES = {"ridge": "one fit", "choosing": "choice of alpha"}
RATIO_HEADS = ["problems, compared with", "count", "geometric mean", "5 %", "median", "worst"]
INK = "0.45"  # can be read on white and on black


def read_run(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """What a run says of itself, and the newest record of every problem, by number."""
    head, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    newest = {line["draw"]["number"]: line for line in lines}
    return head, [newest[number] for number in sorted(newest)]


def seconds_of(record: Record, name: str) -> float:
    return float(record["seconds"].get(name, np.inf))


def ratio_to_default(record: Record) -> float:
    """Seconds of scikit-learn's default over ling's."""
    return seconds_of(record, DEFAULT.name) / seconds_of(record, "ling")


def competitors(record: Record) -> dict[str, float]:
    """Seconds of everybody who reaches the error and is not ling."""
    default_reaches = record.get("default_error", 0.0) <= 1e-4
    return {
        name: seconds
        for name, seconds in record["seconds"].items()
        if name != "ling" and name not in ENGINES and (name != DEFAULT.name or default_reaches)
    }


def ratio_to_best(record: Record) -> float:
    """Seconds of the fastest competitor over ling's; infinite if no competitor gets there."""
    return min(competitors(record).values(), default=np.inf) / seconds_of(record, "ling")


def regret(record: Record) -> float:
    """Seconds of ling's default over those of its fastest engine."""
    ling = seconds_of(record, "ling")
    return ling / min([ling, *(seconds_of(record, engine) for engine in ENGINES)])


def is_small(record: Record) -> bool:
    return max(seconds_of(record, "ling"), seconds_of(record, DEFAULT.name)) < SMALL_SECONDS


def summary_line(record: Record) -> str:
    """One problem in a line, while the run goes on."""
    ling = record["ling"]
    words = [
        f"{ling.get('engine') or ling.get('method')} {brief(seconds_of(record, 'ling'))}",
        f"default {ratio_to_default(record):.2f}",
    ]
    if "bound" in ling:
        words += [f"best {ratio_to_best(record):.2f}", f"regret {regret(record):.2f}"]
    return ", ".join(words)


def statistics(name: str, values: list[float]) -> list[str]:
    """A row with the count, geometric mean, quantiles and worst of ratios."""
    finite = np.array([value for value in values if np.isfinite(value)])
    if not len(finite):
        return [name, "0", *4 * ["-"]]
    mean = float(np.exp(np.mean(np.log(finite))))
    low, middle = np.quantile(finite, [0.05, 0.5])
    numbers = mean, low, middle, finite.min()
    return [name, str(len(finite)), *(f"{number:.2f}" for number in numbers)]


def report(task: str, seed: int, records: list[Record]) -> str:
    """All tables in Markdown."""
    failures = [record for record in records if "failure" in record]
    records = [record for record in records if "failure" not in record]
    if not records:
        return "No problem has been measured."
    parts = [
        f"`python -m benchmarks.wild --task {task}`, seed {seed}: {len(records)} problems, "
        f"{len(failures)} without a reference. A ratio is the time of the other divided by ling's.",
        ratio_table(task, records),
        family_table(records),
        worst_table(task, records),
    ]
    if task == "ridge":
        parts += [regret_table(records), honesty(records)]
    else:
        parts += [kind_table(records), agreement(records)]
    return "\n\n".join(parts)


def ratio_table(task: str, records: list[Record]) -> str:
    return rows(RATIO_HEADS, ratio_rows(task, records))


def ratio_rows(task: str, records: list[Record]) -> list[list[str]]:
    """Quantiles of the ratios: large and small problems, compared with scikit-learn and others."""
    records = [record for record in records if "failure" not in record]
    sizes = {
        "over 50 ms": [record for record in records if not is_small(record)],
        "under 50 ms": [record for record in records if is_small(record)],
    }
    lines = []
    for size, members in sizes.items():
        others = {"scikit-learn's default": ratio_to_default}
        if task == "ridge":
            others["fastest other solver"] = ratio_to_best
        lines += [
            statistics(f"{TASK_NAMES[task]}, {size}, {other}", [ratio(r) for r in members])
            for other, ratio in others.items()
        ]
    return lines


def regret_table(records: list[Record]) -> str:
    """Regret of the default, and what leaving an engine out would cost."""
    larger = [record for record in records if not is_small(record)]
    values = np.array([regret(record) for record in larger] or [1.0])
    lines = [["ling's default", f"{np.exp(np.log(values).mean()):.3f}",
              f"{np.quantile(values, 0.95):.2f}", f"{values.max():.2f}"]]  # fmt: skip
    for left_out in ENGINES:
        others = [engine for engine in ENGINES if engine != left_out]
        loss = []
        for record in larger:
            with_all = min(seconds_of(record, engine) for engine in ENGINES)
            without = min(seconds_of(record, engine) for engine in others)
            if np.isfinite(without) and np.isfinite(with_all):
                loss.append(without / with_all)
        if loss:
            lines.append([f"best engine without {left_out}", f"{np.exp(np.mean(np.log(loss))):.3f}",
                          f"{np.quantile(loss, 0.95):.2f}", f"{max(loss):.2f}"])  # fmt: skip
    return rows(["time over that of the fastest engine", "geometric mean", "95 %", "worst"], lines)


def family_table(records: list[Record]) -> str:
    families: dict[str, list[float]] = defaultdict(list)
    for record in records:
        families[record["draw"]["family"]].append(ratio_to_default(record))
    lines = [statistics(name, values) for name, values in sorted(families.items())]
    return rows(["family, scikit-learn's default", "count", "geometric mean", "5 %", "median",
                 "worst"], lines)  # fmt: skip


def kind_table(records: list[Record]) -> str:
    kinds: dict[str, list[float]] = defaultdict(list)
    for record in records:
        kinds[record["kind"]].append(ratio_to_default(record))
    lines = [statistics(name, values) for name, values in sorted(kinds.items())]
    return rows(["task", "count", "geometric mean", "5 %", "median", "worst"], lines)


def worst_table(task: str, records: list[Record]) -> str:
    """The problems with the smallest ratios, small ones left out."""
    larger = sorted((r for r in records if not is_small(r)), key=ratio_to_default)[:N_WORST]
    lines = []
    for record in larger:
        draw, ling = record["draw"], record["ling"]
        line = [
            str(draw["number"]),
            f"{draw['family']}, {draw['n']:,} x {draw['p']:,}, {draw['dtype']}"
            + f", {draw['n_targets']} targets" * (draw["n_targets"] > 1)
            + ", out of core" * draw["out_of_core"],
            str(ling.get("engine") or f"{record['kind']}, {ling['method']}"),
            brief(seconds_of(record, "ling")),
            f"{ratio_to_default(record):.2f}",
        ]
        if task == "ridge":
            others = competitors(record)
            best = min(others, key=others.__getitem__, default="-")
            line += [f"{ratio_to_best(record):.2f} ({best})", f"{regret(record):.2f}"]
        lines.append(line)
    heads = ["number", "worst problems", "engine", "ling", "default"]
    return rows(heads + ["fastest other", "regret"] * (task == "ridge"), lines)


def honesty(records: list[Record]) -> str:
    """How often an error is above its bound, and how often tol is not reached."""
    lies = sum(
        r["ling"]["error"] > 1.001 * r["ling"]["bound"] + r["reference_bound"] + 1e-12
        for r in records
    )
    missed = sum(r["ling"]["bound"] > 1e-4 for r in records)
    default = sum(r["default_error"] > 1e-4 for r in records)
    return (
        f"ling: {lies} errors above their bound, {missed} bounds above tol. scikit-learn's default "
        f"misses the error of 1e-4 in {default} of {len(records)} problems."
    )


def agreement(records: list[Record]) -> str:
    chosen = [r["ling"] for r in records if r["ling"]["their_alpha"] is not None]
    same = sum(np.isclose(c["alpha"], c["their_alpha"]) for c in chosen)
    close = sum(np.isclose(c["score"], c["score_at_theirs"], rtol=1e-6, atol=1e-9) for c in chosen)
    text = f"The same alpha in {same} of {len(chosen)} problems, the same score in {close}."
    n_stopped = len(records) - len(chosen)
    return text + (f" scikit-learn was stopped in {n_stopped} others." if n_stopped else "")


def draw_ratios(records: list[Record], path: Path) -> None:
    """Sorted ratios to scikit-learn's default: one panel for large problems, one for small ones."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ling"
    import matplotlib.pyplot as plt

    records = sorted((r for r in records if "failure" not in r), key=ratio_to_default)
    panels = {
        "over 50 ms": [r for r in records if not is_small(r)],
        "under 50 ms": [r for r in records if is_small(r)],
    }
    colours = dict(zip(FAMILY_GROUPS, COLOURS.values(), strict=True))
    figure, axes = plt.subplots(
        1, 2, figsize=(9, 4.2), sharey=True, layout="constrained",
        gridspec_kw={"width_ratios": [max(1, len(panel)) for panel in panels.values()]},
    )  # fmt: skip
    figure.patch.set_alpha(0)
    for ax, (title, panel) in zip(axes, panels.items(), strict=True):
        ax.patch.set_alpha(0)
        ax.axhline(1.0, color=INK, linewidth=0.8)
        for group, families in FAMILY_GROUPS.items():
            places = [i for i, r in enumerate(panel) if r["draw"]["family"] in families]
            ax.scatter(
                places, [ratio_to_default(panel[i]) for i in places], 16, color=colours[group],
                label=group,
            )  # fmt: skip
        ax.set_title(f"{len(panel)} problems {title}", fontsize=10, color=INK)
        ax.set(yscale="log", xticks=[], xlabel="problems, sorted")
        ax.tick_params(colors=INK, which="both")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.xaxis.label.set_color(INK)
        ax.spines[:].set_visible(False)
        ax.grid(axis="y", color=INK, alpha=0.25, linewidth=0.5)
    axes[0].set_ylabel("scikit-learn's time / ling's", color=INK)
    handles, labels = axes[0].get_legend_handles_labels()
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8,
        handletextpad=0.1, columnspacing=1.0,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_color(INK)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
