"""Fit random problems with all engines, and compare every certificate with the exact error.

    python tools/soak.py                      # 100,000 problems; goes on where it was interrupted
    python tools/soak.py --count 3000 --state /tmp/soak.json
    python tools/soak.py --problem 1234       # one problem again, in detail

Counted are lies (the error exceeds the bound of the certificate), silent misses (the error exceeds
`tol`, but the fit is said to be certified and nothing warns), crashes (errors that are not ling's)
and refusals (errors of ling). The counts are kept in a JSON file. At the end they are printed as
the table of docs/certificate.md.
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import argparse
import json
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from scipy import sparse

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import ling
from ling.design import ArraySource, ChunkedStorage
from ling.errors import LingError
from ling.results import Status
from tools.soak_problems import ENGINES, ExactProblem, SoakProblem, draw_problem

# Relative accuracy of the exact error, on the problems that tests compare with mpmath. A larger
# margin would hide bounds that are slightly too small.
ERROR_ACCURACY = 1e-7
FAILURES = ("lie", "silent miss", "crash")
# Failures that are kept in the state, with what is needed to repeat them.
MAX_KEPT_FAILURES = 200
SECONDS_BETWEEN_SAVES = 10.0


def stored(problem: SoakProblem, folder: Path):
    """X in the storage of the problem."""
    X = problem.X
    if problem.storage == "F":
        return np.asfortranarray(X)
    if problem.storage == "strided":
        return np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    if problem.storage == "csr":
        return sparse.csr_array(X)
    if problem.storage == "blocks":
        rows = max(1, len(X) // 3) * X.shape[1] * X.itemsize
        return ChunkedStorage(ArraySource(X), max_resident_bytes=4 * rows, has_fixed_blocks=True)
    if problem.storage in ("memmap", "npy"):
        path = folder / "X.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r") if problem.storage == "memmap" else ling.scan_npy(path)
    return np.ascontiguousarray(X)


def solve(problem: SoakProblem, folder: Path):
    """Coefficients (t, p), intercepts (t,), bounds (t,), and the status or None."""
    if problem.engine == "certify":
        return certify_perturbed(problem, folder)
    solver = problem.engine if problem.engine != "partial_fit" else "auto"
    model = ling.Ridge(problem.alpha, fit_intercept=problem.fit_intercept, tol=problem.tol,
                       solver=solver, precision=problem.precision,
                       max_iter=problem.max_iter)  # fmt: skip
    if problem.engine == "partial_fit":
        fit_in_batches(model, problem)
    else:
        model.fit(stored(problem, folder), problem.y, sample_weight=problem.weights)
    coef = np.atleast_2d(model.coef_)
    intercept = np.broadcast_to(model.intercept_, len(coef))
    return coef, intercept, model.report_.certificate.bounds, model.report_.status


def fit_in_batches(model: ling.Ridge, problem: SoakProblem) -> None:
    middle = (len(problem.X) + 1) // 2
    for rows in (slice(0, middle), slice(middle, None)):
        weights = None if problem.weights is None else problem.weights[rows]
        if len(problem.X[rows]):
            model.partial_fit(problem.X[rows], problem.y[rows], sample_weight=weights)


def certify_perturbed(problem: SoakProblem, folder: Path):
    """The certificate of a solution that somebody else has computed, and not exactly."""
    X, rng = np.asarray(problem.X, np.float64), np.random.default_rng(0)
    Y = problem.y.reshape(len(X), -1)
    weights = np.ones(len(X)) if problem.weights is None else problem.weights
    means = [np.average(each, axis=0, weights=weights) for each in (X, Y)]
    x_mean, y_mean = means if problem.fit_intercept else (0.0 * each for each in means)
    centered, roots = X - x_mean, np.sqrt(weights)[:, None]
    scale = np.linalg.norm(centered) or 1.0
    coef = []
    for y, alpha in zip((roots * (Y - y_mean)).T, problem.alphas, strict=True):
        gram = (roots * centered).T @ (roots * centered) + alpha * np.eye(X.shape[1])
        exact = np.linalg.lstsq(gram / scale**2, (roots * centered).T @ y / scale**2, rcond=None)[0]
        coef.append(exact * (1 + problem.tol * rng.standard_normal(len(exact))))
    coef = np.array(coef)
    intercept = y_mean - coef @ x_mean
    certificate = ling.certify(coef if problem.y.ndim == 2 else coef[0], stored(problem, folder),
                               problem.y, alpha=problem.alpha,
                               intercept=intercept if problem.y.ndim == 2 else intercept[0],
                               sample_weight=problem.weights, tol=problem.tol,
                               fit_intercept=problem.fit_intercept)  # fmt: skip
    return coef, intercept, certificate.bounds, Status.CERTIFIED if certificate.holds else None


def examine(problem: SoakProblem, folder: Path) -> tuple[str, float, str]:
    """The outcome of a problem, the ratio of bound and error, and details of a failure."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            coef, intercept, bounds, status = solve(problem, folder)
        except LingError as error:
            return f"refusal: {type(error).__name__}", np.nan, str(error)
        except Exception as error:
            return "crash", np.nan, "".join(traceback.format_exception(error)[-3:])
    foreign = [each for each in caught if "Convergence" not in each.category.__name__]
    if foreign:
        return "crash", np.nan, f"warning: {foreign[0].message} at {foreign[0].filename}"
    errors = ExactProblem(problem).errors(coef.astype(np.float64), intercept)
    known = (errors > 0) & np.isfinite(errors)
    ratio = float((bounds[known] / errors[known]).min(initial=np.inf))
    details = f"errors {errors}, bounds {bounds}, tol {problem.tol:g}, {status}"
    if (errors * (1 - ERROR_ACCURACY) > bounds).any():
        return "lie", ratio, details
    is_silent = status is Status.CERTIFIED and not caught
    if is_silent and (errors * (1 - ERROR_ACCURACY) > problem.tol).any():
        return "silent miss", ratio, details
    if status is Status.CERTIFIED:
        return "certified", ratio, details
    if status is Status.NOT_REACHED and not caught:
        return "silent miss", ratio, f"not reached, and no warning; {details}"
    return "rounded" if status is Status.ROUNDED else "warned", ratio, details


class Soak:
    """The counts of a run, in a file."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.state = {"seed": seed, "next": 0, "seconds": 0.0, "counts": {}, "ratios": {},
                      "failures": [], "refusals": {}}  # fmt: skip
        if path.exists():
            kept = json.loads(path.read_text())
            if kept["seed"] != seed:
                sys.exit(f"{path} is of seed {kept['seed']}; pass --seed or another --state")
            self.state = kept

    def add(self, number: int, problem: SoakProblem, outcome: str, ratio: float, text: str) -> None:
        counts = self.state["counts"].setdefault(problem.engine, {})
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome == "certified" and np.isfinite(ratio):
            decade = str(int(np.clip(np.floor(np.log10(max(ratio, 1e-9))), -9, 20)))
            ratios = self.state["ratios"].setdefault(problem.engine, {})
            ratios[decade] = ratios.get(decade, 0) + 1
        if outcome.startswith("refusal"):
            self.state["refusals"].setdefault(f"{outcome}: {text[:100]}", number)
        if outcome in FAILURES and len(self.state["failures"]) < MAX_KEPT_FAILURES:
            self.state["failures"].append([number, problem.engine, problem.storage, outcome, text])
        self.state["next"] = number + 1

    def save(self) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.state, indent=1))
        part.replace(self.path)

    def totals(self) -> Counter[str]:
        return sum((Counter(counts) for counts in self.state["counts"].values()), Counter())


def run(soak: Soak, count: int) -> None:
    """Problems until `count` are done; the state is saved every few seconds."""
    started, saved = time.process_time(), time.monotonic()
    before = soak.state["seconds"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number in range(soak.state["next"], count):
                problem = draw_problem(soak.state["seed"], number)
                soak.add(number, problem, *examine(problem, Path(folder)))
                if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                    saved = time.monotonic()
                    soak.state["seconds"] = before + time.process_time() - started
                    soak.save()
                    show_progress(soak, count)
        finally:
            soak.state["seconds"] = before + time.process_time() - started
            soak.save()


def show_progress(soak: Soak, count: int) -> None:
    totals, rate = soak.totals(), soak.state["next"] / soak.state["seconds"]
    failures = ", ".join(f"{totals[kind]} {kind}" for kind in FAILURES)
    print(f"{soak.state['next']:,} of {count:,}, {rate:.0f} per CPU second: {failures}", flush=True)


def table(soak: Soak) -> str:
    """Markdown, one line for each engine."""
    columns = ("certified", "warned", "rounded", "refusal", *FAILURES)
    titles = ("certified", "tol not reached, said so", "rounded to float32, said so", "refused",
              "lies", "silent misses", "crashes")  # fmt: skip
    lines = ["| engine | problems | " + " | ".join(titles) + " |", "| --- " * 9 + "|"]
    rows = {engine: Counter(soak.state["counts"].get(engine, {})) for engine in ENGINES}
    for engine, counts in {**rows, "all": soak.totals()}.items():
        counts["refusal"] = sum(n for kind, n in counts.items() if kind.startswith("refusal:"))
        n = sum(counts[column] for column in columns)
        cells = " | ".join(f"{counts[column]:,}" for column in columns)
        lines.append(f"| {engine} | {n:,} | {cells} |")
    return "\n".join(lines)


def print_results(soak: Soak) -> None:
    for failure in soak.state["failures"]:
        number, engine, storage, outcome, text = failure
        print(f"{outcome} in problem {number} ({engine}, {storage}): {text.strip()}")
    for text, number in soak.state["refusals"].items():
        print(f"{text} (first in problem {number})")
    for engine, ratios in soak.state["ratios"].items():
        decades = ", ".join(f"1e{decade}: {ratios[decade]}" for decade in sorted(ratios, key=int))
        print(f"bound / error of certified fits with {engine}, by decade: {decades}")
    rate = soak.state["next"] / max(soak.state["seconds"], 1e-9)
    print(f"{soak.state['next']:,} problems, {rate:.0f} per second of CPU time\n\n{table(soak)}")


def show_problem(seed: int, number: int) -> None:
    problem = draw_problem(seed, number)
    told = {name: value for name, value in vars(problem).items() if name not in ("X", "y")}
    print(problem.X.shape, problem.X.dtype, problem.y.shape, told)
    with tempfile.TemporaryDirectory() as folder:
        print(*examine(problem, Path(folder)), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="problems in total")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, default=Path("soak.json"), help="file of the counts")
    parser.add_argument("--problem", type=int, help="examine this problem only")
    options = parser.parse_args()
    if options.problem is not None:
        show_problem(options.seed, options.problem)
        return
    soak = Soak(options.state, options.seed)
    run(soak, options.count)
    print_results(soak)
    sys.exit(any(soak.totals()[kind] for kind in FAILURES))


if __name__ == "__main__":
    main()
