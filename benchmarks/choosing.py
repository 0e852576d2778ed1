"""`python -m benchmarks.choosing [WORD ...]`: choosing alpha with ling, beside its peers.

Everybody is given the same alphas and starts from raw arrays. ling and the peer have to choose the
same ones, inside the grid; where they do not, the table says so and the exit status is 1.
"""

from __future__ import annotations

import gc
import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context

import numpy as np
from scipy import sparse, special
from threadpoolctl import threadpool_limits

from benchmarks import choosing_peers as by
from benchmarks import choosing_report, harness
from benchmarks.choosing_peers import Array, Choice, Contender, Task
from benchmarks.choosing_report import RESULTS, Outcome, Pairing, Score, figure
from benchmarks.harness import HOPELESS, Options, say, timed
from benchmarks.ridge_data import MODEL_1, POWER_LAW, Data, factors, zipf

__all__ = ["CELLS", "figure", "main", "run"]

# A fit that takes longer is timed once: the machine's noise is small beside it.
LONGEST = 60.0
# The same alpha, up to what a logarithm and back do to it.
SAME = 1e-9
GRID = (1e-3, 1e6, 30)
# Around the alpha of `benchmarks.ridge`, which is between 10 and 20 for these sizes.
PATH = (1e-2, 1e5, 100)
# Those of the paper on ROCKET.
ROCKET = (1e-3, 1e3, 10)


@dataclass(frozen=True)
class Bout:
    """`wanted` is the least ratio of the peer's seconds to ling's.

    `most_memory` is the largest wanted ratio of ling's memory to the peer's.
    """

    ling: Contender
    peer: Contender
    wanted: float
    most_memory: float | None = None


@dataclass(frozen=True)
class ChoosingCell:
    """`make(rng, n, p)` gives X and y; `grid` is the least alpha, the largest, and how many."""

    name: str
    n: int
    p: int
    make: Callable[..., Data]
    bouts: tuple[Bout, ...]
    grid: tuple[float, float, int] = GRID
    # Whether what is wanted is wanted of the fastest peer only.
    of_fastest: bool = False

    @property
    def ours(self) -> list[Contender]:
        return list(dict.fromkeys(bout.ling for bout in self.bouts))

    @property
    def contenders(self) -> list[Contender]:
        """Those of ling, then the peers, each once."""
        return list(dict.fromkeys([*self.ours, *(bout.peer for bout in self.bouts)]))


def many(rng: np.random.Generator, n: int, p: int, n_targets: int = 1000) -> Data:
    """Targets whose noise, and with it their best alpha, differs: by a factor of 10, and 100."""
    return POWER_LAW(rng, n, p, n_targets=n_targets, noise=np.geomspace(0.5, 5.0, n_targets))


def rocket(rng: np.random.Generator, n: int, p: int, n_classes: int = 10, rank: int = 40) -> Data:
    """Like what ROCKET makes of time series: shares of positive values in turn with maxima.

    All features follow from a few of the series, with a little noise, and the classes overlap.
    """
    y = rng.integers(n_classes, size=n)
    series = 0.7 * rng.standard_normal((n_classes, rank))[y] + rng.standard_normal((n, rank))
    X = series @ rng.standard_normal((rank, p)) / np.sqrt(rank) + rng.standard_normal(p)
    X += 0.1 * rng.standard_normal((n, p))
    X[:, ::2] = special.ndtr(X[:, ::2])
    return X, y


CELLS = (
    ChoosingCell(
        "leave-one-out",
        10_000,
        2_000,
        POWER_LAW,
        # scikit-learn's default is its 'eigen', which forms a p x p inverse for every alpha.
        (Bout(by.LING_LOO, by.SKLEARN_SVD, 4.0), Bout(by.LING_LOO, by.SKLEARN_LOO, 15.0)),
    ),
    ChoosingCell(
        "5-fold",
        10_000,
        2_000,
        POWER_LAW,
        (Bout(by.LING_FOLDS, by.SKLEARN_FOLDS, 15.0), Bout(by.LING_FOLDS, by.HIMALAYA, 40.0)),
    ),
    ChoosingCell(
        "5-fold, large p",
        20_000,
        10_000,
        MODEL_1,
        (Bout(by.LING_FOLDS, by.SKLEARN_ONE, 1 / 3),),
    ),
    ChoosingCell(
        "wide leave-one-out",
        1_000,
        20_000,
        factors,
        (Bout(by.LING_LOO, by.SKLEARN_LOO, 10.0),),
    ),
    ChoosingCell(
        "1000 targets",
        5_000,
        3_000,
        many,
        (
            Bout(by.LING_LOO_EACH, by.SKLEARN_EACH, 3.0),
            Bout(by.LING_FOLDS_EACH, by.HIMALAYA, 3.0, most_memory=1 / 5),
        ),
        of_fastest=True,
    ),
    ChoosingCell(
        "ROCKET-like classifier",
        5_000,
        10_000,
        rocket,
        (Bout(by.LING_CLASSES, by.SKLEARN_CLASSES, 5.0),),
        ROCKET,
    ),
    ChoosingCell(
        "sparse 5-fold",
        200_000,
        47_000,
        partial(zipf, per_row=60),
        (Bout(by.LING_FOLDS, by.SKLEARN_FOLDS_FEW, 10.0),),
    ),
    ChoosingCell(
        "path of 100 alphas",
        10_000,
        2_000,
        POWER_LAW,
        (Bout(by.LING_PATH, by.LING_ONE, 1 / 2),),
        PATH,
    ),
    ChoosingCell(
        "path of 100 alphas, M1",
        20_000,
        4_000,
        MODEL_1,
        (Bout(by.LING_PATH, by.LING_ONE, 1 / 2),),
        PATH,
    ),
)


def task_of(cell: ChoosingCell, options: Options) -> Task:
    """The cell's data, with n and p shrunk by `options.scale`."""
    n, p = options.shrunk(cell.n), options.shrunk(cell.p)
    X, y = cell.make(np.random.default_rng(options.seed), n, p)
    return Task(X, y, np.geomspace(*cell.grid), options.seed)


@dataclass(frozen=True, eq=False)
class Entry:
    """What the first fit of a contender says: its choice and seconds, or why there are none."""

    contender: Contender
    note: str = ""
    choice: Choice | None = None
    seconds: float = math.inf
    races: bool = False

    def __str__(self) -> str:
        return f"{self.contender.name}: {self.seconds:.3g} s {self.note}".strip()


def admit(contender: Contender, task: Task, best: float) -> Entry:
    """The first fit of a peer; far behind the best, or long, it takes no turn after that."""
    if not contender.installed:
        return Entry(contender, "not installed")
    try:
        entry = first_fit(contender, task)
    except Exception as failure:  # whatever a peer dies of, the others go on
        return Entry(contender, harness.failed(failure))
    words = [entry.note] if entry.note else []
    if entry.seconds > HOPELESS * best:
        words.append(f"over {HOPELESS:g} x the best peer")
    races = entry.seconds <= HOPELESS * best and entry.seconds <= LONGEST * contender.scaling(task)
    if not races:
        words.append("one fit only")
    return replace(entry, note=", ".join(words), races=races)


def first_fit(contender: Contender, task: Task) -> Entry:
    gc.collect()
    choice, seconds = timed(partial(contender, task))
    tried, scaling = len(task.trying(contender.tries).alphas), contender.scaling(task)
    note = f"{tried} of {len(task.alphas)} alphas timed, scaled by {scaling:.2f} to all"
    return Entry(contender, note if scaling > 1 else "", choice, scaling * seconds, races=True)


def admit_all(cell: ChoosingCell, task: Task) -> dict[Contender, Entry]:
    entries: dict[Contender, Entry] = {}
    best = math.inf
    for contender in cell.contenders:
        if contender in cell.ours:
            entries[contender] = first_fit(contender, task)
        else:
            entries[contender] = admit(contender, task, best)
            best = min(best, entries[contender].seconds)
        say(f"  {entries[contender]}")
    return entries


def run(cell: ChoosingCell, options: Options) -> Outcome:
    task = task_of(cell, options)
    entries = admit_all(cell, task)
    seconds = race(entries, task, options.turns)
    scores = {one: score(entry, seconds.get(one.name)) for one, entry in entries.items()}
    for bout in cell.bouts:
        if bout.most_memory is not None:
            for one in (bout.ling, bout.peer):
                scores[one] = replace(scores[one], peak=peak_of(cell, one, options))
    return Outcome(
        cell=cell.name,
        shape=list(task.X.shape),
        entries=int(task.X.nnz if sparse.issparse(task.X) else task.X.size),
        n_targets=1 if task.y.ndim == 1 else task.y.shape[1],
        low=float(task.alphas[0]),
        high=float(task.alphas[-1]),
        n_alphas=len(task.alphas),
        pairings=[pairing(cell, bout, entries, scores, task) for bout in cell.bouts],
    )


def race(entries: dict[Contender, Entry], task: Task, turns: int) -> dict[str, list[float]]:
    """Seconds of all turns, scaled for those that do not try all alphas."""
    racing = [entry for entry in entries.values() if entry.races]
    scaling = {entry.contender.name: entry.contender.scaling(task) for entry in racing}
    contest = {entry.contender.name: partial(entry.contender, task) for entry in racing}
    first = {e.contender.name: e.seconds / scaling[e.contender.name] for e in racing}
    taken = harness.race(contest, first, turns)
    return {name: [scaling[name] * s for s in seconds] for name, seconds in taken.items()}


def score(entry: Entry, turns: list[float] | None) -> Score:
    if entry.choice is None:
        return Score(entry.contender.name, [], [], note=entry.note)
    found = [] if entry.choice.alphas is None else entry.choice.alphas.tolist()
    chosen = [[alpha, count] for alpha, count in sorted(Counter(found).items())]
    return Score(
        entry.contender.name, turns or [entry.seconds], chosen, entry.choice.how, entry.note
    )


def pairing(
    cell: ChoosingCell,
    bout: Bout,
    entries: dict[Contender, Entry],
    scores: dict[Contender, Score],
    task: Task,
) -> Pairing:
    peer = scores[bout.peer]
    fastest = min(scores[other.peer].seconds for other in cell.bouts)
    judged = not cell.of_fastest or peer.seconds == fastest
    return Pairing(
        ling=scores[bout.ling],
        peer=peer,
        wanted=bout.wanted if judged else None,
        most_memory=bout.most_memory,
        differing=differing(entries[bout.ling].choice, entries[bout.peer], task),
    )


def differing(ours: Choice, theirs: Entry, task: Task) -> int | None:
    """For how many targets they did not choose the same alpha from those that the peer tried."""
    if theirs.choice is None or theirs.choice.alphas is None:
        return None
    expected = ours.among(task.alphas, task.trying(theirs.contender.tries).alphas)
    return count_differing(expected, theirs.choice.alphas)


def count_differing(a: Array, b: Array) -> int:
    return int(np.count_nonzero(~np.isclose(*np.broadcast_arrays(a, b), rtol=SAME, atol=0)))


def peak_of(cell: ChoosingCell, contender: Contender, options: Options) -> int | None:
    """Bytes that a fit takes beside the data, in a process of its own."""
    say(f"  memory of {contender.name} ...")
    if not contender.installed:
        return None
    at = cell.contenders.index(contender)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure_peak, cell.name, at, options).result()


def measure_peak(name: str, at: int, options: Options) -> int | None:
    cell = next(cell for cell in CELLS if cell.name == name)
    contender = cell.contenders[at]
    contender.load()
    with threadpool_limits(options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        contender(task_of(cell, replace(options, scale=0.0)))  # loads what the first fit needs
        task = task_of(cell, options)
        return harness.peak_memory(partial(contender, task))


def main(line: Sequence[str]) -> int:
    asked = harness.arguments("benchmarks.choosing", __doc__, RESULTS, line)
    options = harness.options_of(asked)
    chosen = harness.matching(CELLS, asked.words)
    if not chosen:
        return 2
    for contender in {contender for cell in chosen for contender in cell.contenders}:
        contender.load()  # before the limits on threads, which hold for libraries that are loaded
    keep = partial(choosing_report.merge, options=options, path=asked.json)
    outcomes = harness.run_each(chosen, run, options, keep)
    tables = [choosing_report.table(outcomes), choosing_report.memory_table(outcomes)]
    print(*filter(None, tables), sep="\n\n")
    if asked.figure is not None and asked.json is not None:
        figure(asked.figure, asked.json)
    return 0 if all(outcome.sound for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
