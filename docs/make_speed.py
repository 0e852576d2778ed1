"""Draws docs/figures/speed.svg, the picture of the README, from the record of the last full run."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same picture gives the same bytes.
matplotlib.rcParams["svg.hashsalt"] = "ling"

import matplotlib.pyplot as plt  # noqa: E402

from benchmarks import harness, ridge_report  # noqa: E402
from benchmarks.bars import COLOURS  # noqa: E402
from benchmarks.published import MODELS  # noqa: E402

FIGURES = Path(__file__).parent / "figures"
INK = "0.45"  # can be read on white and on black


def named(o: ridge_report.Outcome) -> str:
    n, p = o.shape
    return f"{MODELS.get(o.cell, o.cell)}\n{n:,} x {p:,}".replace(",", "\u2009")


def main() -> None:
    records = harness.outcomes_in(ridge_report.RESULTS)
    outcomes = [ridge_report.outcome(record) for record in records][::-1]
    fig, ax = plt.subplots(figsize=(8.2, 0.44 * len(outcomes) + 1.3), layout="constrained")
    fig.patch.set_alpha(0)
    ax.patch.set_alpha(0)
    seen = {}
    for place, o in enumerate(outcomes):
        peers = [peer for peer in o.peers if o.reached(peer)]
        ratios = [peer.seconds / o.ling.seconds for peer in peers]
        ax.plot(
            [min(1.0, *ratios), max(ratios)], [place, place], color=INK, linewidth=0.6, alpha=0.5
        )
        for peer, ratio in zip(peers, ratios, strict=True):
            origin = peer.name.split()[0]
            seen[origin] = ax.plot(ratio, place, "o", color=COLOURS[origin], markersize=6.5)[0]
    ax.axvline(1, color=COLOURS["ling"], linewidth=2)
    ax.annotate(
        "ling, proof included", (1, len(outcomes) - 0.4), xytext=(4, 0), color=COLOURS["ling"],
        textcoords="offset points", va="bottom", fontsize=9,
    )  # fmt: skip
    ax.set(xscale="log", ylim=(-0.6, len(outcomes) + 0.1), yticks=range(len(outcomes)))
    ax.set_yticklabels([named(o) for o in outcomes], fontsize=8)
    ax.set_xlabel("times as long as ling takes, to the same measured error", color=INK)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.tick_params(colors=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(INK)
    order = [name for name in COLOURS if name in seen]
    legend = fig.legend(
        [seen[name] for name in order], order, loc="outside upper center", ncols=len(order),
        frameon=False, fontsize=9,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_color(INK)
    fig.savefig(FIGURES / "speed.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
