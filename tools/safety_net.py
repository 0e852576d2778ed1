"""Record what ling computes, and compare two records: the net under a refactoring.

    python tools/safety_net.py record before.json     # in a checkout of the old code
    python tools/safety_net.py record after.json      # in a checkout of the new code
    python tools/safety_net.py compare before.json after.json

A record holds fits (engine, iterations, rank, passes, FLOPs, status, bounds, coefficients), plans,
error messages, output of the command line and two HTML reports. Everything is seeded, BLAS runs on
one thread, and plans are made for fixed machine speeds, so that on one machine the same code gives
the same record to the last bit. Records of different machines do not compare: BLAS differs.
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import argparse
import importlib
import itertools
import json
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

BUDGET = 200e6
ENGINES = "direct", "two_stage"


def fix_machine() -> None:
    """Plan with default speeds instead of measured ones, whichever module has them."""
    for module in ("ling.solvers.machine", "ling.solvers.machine"):
        try:
            machine = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        fixed = getattr(machine, "DEFAULT_MACHINE", None) or machine.TYPICAL
        original = machine.measured_machine
        for loaded in list(sys.modules.values()):
            if getattr(loaded, "__name__", "").startswith("ling") and (
                getattr(loaded, "measured_machine", None) is original
            ):
                loaded.measured_machine = lambda speeds=fixed: speeds


def problem(kind: str, seed: int = 0):
    """X (dense, float64), y and weights of one kind."""
    rng = np.random.default_rng(seed)
    n, p = {"tall": (300, 12), "wide": (20, 60), "square": (40, 40)}[kind]
    X = rng.standard_normal((n, p)) / np.arange(1, p + 1) ** 0.7 + rng.standard_normal(p)
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    return X, y, rng.gamma(2.0, size=n)


def storages(X, folder: Path):
    """X in every storage that gives the same numbers."""
    import dask.array
    import pyarrow as pa
    import pyarrow.parquet as pq

    import ling

    rows = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    np.save(folder / "X.npy", X)
    names = {f"x{j}": column for j, column in enumerate(X.T)}
    pq.write_table(pa.table(names), folder / "X.parquet", row_group_size=64)
    return {
        "c": X,
        "fortran": np.asfortranarray(X),
        "float32": X.astype(np.float32),
        "csr": rows,
        "csc": sparse.csc_array(rows),
        "npy": ling.scan_npy(folder / "X.npy").X,
        "memmap": np.load(folder / "X.npy", mmap_mode="r"),
        "parquet": ling.scan_parquet(folder / "X.parquet").X,
        "dask": dask.array.from_array(X, chunks=(max(1, len(X) // 3), X.shape[1])),
    }


def described(model) -> dict:
    report = model.report_
    return {
        "engine": report.engine,
        "reason": report.reason,
        "n_iter": report.n_iter,
        "rank": report.rank,
        "passes": report.cost.passes,
        "flops": report.cost.flops,
        "status": report.status.name,
        "bounds": np.atleast_1d(report.certificate.bounds).tolist(),
        "notes": list(report.notes),
        "coef": np.asarray(model.coef_, dtype=np.float64).ravel().tolist(),
        "intercept": np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64)).tolist(),
        "alpha": np.atleast_1d(getattr(model, "alpha_", np.nan)).tolist(),
    }


def attempt(call) -> dict:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except Exception as error:  # the record is of errors too
            return {"error": f"{type(error).__name__}: {sorted_choices(str(error))}"}
    return {**found, "warnings": sorted({f"{w.category.__name__}: {w.message}" for w in caught})}


def sorted_choices(message: str) -> str:
    """The message with the sets that scikit-learn prints in a random order sorted."""
    return re.sub(
        r"\{('[^{}]*')\}",
        lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}",
        message,
    )


def fits(folder: Path) -> dict:
    """About 400 fits: storages x engines x weights, and the other estimators."""
    import ling

    common = {"memory_budget": BUDGET}
    record = {}
    for kind, weighted in itertools.product(("tall", "wide", "square"), (False, True)):
        X, y, weights = problem(kind)
        place = folder / f"{kind}{weighted}"
        place.mkdir()
        weights = weights if weighted else None
        labels = np.where(y > np.median(y), "b", "a")
        labels[: len(y) // 4] = "c"
        for name, data in storages(X, place).items():
            cases = {
                **{
                    f"Ridge {engine}": (ling.Ridge(solver=engine, random_state=0, **common), y)
                    for engine in ENGINES
                },
                "Ridge tol": (ling.Ridge(1e-3, tol=1e-9, solver="direct", **common), y),
                "Ridge targets": (
                    ling.Ridge([0.1, 5.0], solver="two_stage", random_state=0, **common),
                    np.c_[y, y**2],
                ),
                "Ridge no intercept": (
                    ling.Ridge(fit_intercept=False, solver="direct", **common), y,
                ),
                "RidgeCV loo": (ling.RidgeCV([0.01, 1.0, 100.0], random_state=0, **common), y),
                "RidgeCV grid": (ling.RidgeCV(random_state=0, **common), y),
                "RidgeCV 3": (
                    ling.RidgeCV([0.01, 1.0, 100.0], cv=3, random_state=0, **common), y,
                ),
                "RidgeClassifier": (
                    ling.RidgeClassifier(solver="direct", random_state=0, **common), labels,
                ),
                "RidgeClassifierCV": (
                    ling.RidgeClassifierCV([0.1, 10.0], cv=3, random_state=0, **common), labels,
                ),
            }  # fmt: skip
            for label, (model, target) in cases.items():

                def call(model=model, data=data, target=target, weights=weights):
                    return described(model.fit(data, target, sample_weight=weights))

                record[f"{kind} {'weighted' if weighted else 'plain'} {name} {label}"] = attempt(
                    call
                )
    record |= special_fits()
    return record


def special_fits() -> dict:
    """What has no storage of its own: positive, alpha 0, partial fits, paths, larger problems."""
    import ling

    X, y, weights = problem("tall")
    big = np.random.default_rng(1).standard_normal((3000, 300)) / np.arange(1, 301)
    target = big @ np.ones(300) + np.random.default_rng(2).standard_normal(3000)
    common = {"memory_budget": BUDGET}

    def path(**options):
        found = ling.ridge_path(X, y, memory_budget=BUDGET, **options)
        return {
            "coef": found.coef.ravel().tolist(),
            "bounds": found.bounds.ravel().tolist(),
            "edf": np.ravel(found.edf).tolist(),
        }

    def partial():
        model = ling.Ridge(**common)
        for a in range(0, 300, 100):
            model.partial_fit(X[a : a + 100], y[a : a + 100], sample_weight=weights[a : a + 100])
        model.partial_fit(X[:50], y[:50], sample_weight=weights[:50], remove=True)
        return described(model)

    calls = {
        "positive": lambda: described(ling.Ridge(positive=True, **common).fit(X, y)),
        "alpha 0": lambda: described(ling.Ridge(0.0, **common).fit(X, y)),
        "partial": partial,
        "path": lambda: path(alphas=[0.01, 1.0, 100.0]),
        "path grid": lambda: path(random_state=0),
        "offset": lambda: described(ling.Ridge(**common).fit(X + 1e6, y + 1e8)),
        "scales": lambda: described(ling.Ridge(**common).fit(X * 10.0 ** np.arange(-6, 6), y)),
        "huge": lambda: described(ling.Ridge(1e250, **common).fit(X * 1e130, y * 1e100)),
        "float32 gram": lambda: described(
            ling.Ridge(solver="direct", precision="float32", **common).fit(big, target)
        ),
        "per target": lambda: described(
            ling.RidgeCV([0.1, 10.0], alpha_per_target=True, **common).fit(X, np.c_[y, y**2])
        ),
        "stochastic": lambda: described(
            ling.RidgeCV([1.0, 10.0], gcv_mode="stochastic", random_state=0, **common).fit(X, y)
        ),
        "iterated folds": lambda: described(
            ling.RidgeCV([1.0, 10.0], cv=3, random_state=0, memory_budget=1.5e6).fit(big, target)
        ),
    }
    with tempfile.TemporaryDirectory() as place:
        np.save(f"{place}/big.npy", big)
        mapped = np.load(f"{place}/big.npy", mmap_mode="r")
        small = {"random_state": 0, "memory_budget": 7.5e6}
        block_weights = np.random.default_rng(3).gamma(2.0, size=len(target))
        calls |= {
            "folds of blocks": lambda: described(
                ling.RidgeCV([1.0, 10.0], cv=3, **small).fit(mapped, target, block_weights)
            ),
            "stochastic of blocks": lambda: described(
                ling.RidgeCV([1.0, 10.0], gcv_mode="stochastic", **small).fit(mapped, target)
            ),
            "classifier of blocks": lambda: described(
                ling.RidgeClassifierCV([1.0, 10.0], cv=3, **small).fit(mapped, target > 0)
            ),
        }
        return run_special(calls, big, target, common)


def run_special(calls: dict, big, target, common: dict) -> dict:
    """The calls, and every engine on a larger problem in both precisions."""
    import ling

    for engine in ENGINES:
        calls[f"big {engine}"] = lambda engine=engine: described(
            ling.Ridge(solver=engine, random_state=0, **common).fit(big, target)
        )
        calls[f"big float32 {engine}"] = lambda engine=engine: described(
            ling.Ridge(solver=engine, random_state=0, **common).fit(big.astype(np.float32), target)
        )
    return {f"special {name}": attempt(call) for name, call in calls.items()}


def plans() -> dict:
    """500 plans: engines in order, with seconds, bytes and passes."""
    import ling

    rng = np.random.default_rng(0)
    record = {}
    plan_fit = getattr(ling, "plan_fit", None) or ling.plan
    for number in range(500):
        n, p = (int(10**e) for e in rng.uniform([1.7, 0.7], [6, 5]))
        if n * p > 4e9:
            p = max(5, int(4e9 / n))
        dtype = rng.choice([np.float32, np.float64])
        n_targets = int(rng.choice([1, 10, 300]))
        X = np.broadcast_to(np.ones((1, 1), dtype=dtype), (n, p))
        if rng.random() < 0.2:
            X = sparse.csr_array((min(n, 20_000), p), dtype=dtype)
        y = np.broadcast_to(1.0, (X.shape[0], n_targets))
        alpha = 1.0 if rng.random() < 0.8 else 10.0 ** rng.uniform(-3, 3, n_targets)
        options = {
            "alpha": alpha,
            "memory_budget": float(10 ** rng.uniform(6.5, 10)),
            "precision": str(rng.choice(["auto", "float64"])),
            "tol": float(rng.choice([1e-4, 1e-9])),
        }

        def call(X=X, y=y, options=options):
            plan = plan_fit(X, y, **options)
            estimates = getattr(plan, "predictions", None) or plan.estimates
            return {
                "engines": [each.engine for each in estimates],
                "seconds": [each.seconds for each in estimates],
                "bytes": [each.n_bytes for each in estimates],
                "passes": [each.passes for each in estimates],
                "fits": [bool(each.fits) for each in estimates],
            }

        record[f"plan {number}: {X.shape} x {n_targets}"] = attempt(call)
    return record


def messages(folder: Path) -> dict:
    """Errors and warnings of wrong input, word by word."""
    import ling

    X, y, _ = problem("tall")
    nan = X.copy()
    nan[3, 2] = np.nan
    inputs = {
        "nan X": (nan, y, None),
        "inf y": (X, np.where(np.arange(len(y)) == 5, np.inf, y), None),
        "short y": (X, y[:-1], None),
        "3-D X": (X[:, :, None], y, None),
        "1-D X": (y, y, None),
        "text X": (X.astype(str).astype(object) + "a", y, None),
        "complex X": (X * 1j, y, None),
        "no rows": (X[:0], y[:0], None),
        "no columns": (X[:, :0], y, None),
        "negative weight": (X, y, -np.ones(len(y))),
        "zero weights": (X, y, np.zeros(len(y))),
        "short weights": (X, y, np.ones(3)),
        "no y": (X, None, None),
        "path as X": ("data.csv", y, None),
        "3-D y": (X, y[:, None, None], None),
        "text y": (X, np.full(len(y), "a"), None),
    }
    options = [
        {"alpha": -1.0}, {"alpha": "a"}, {"alpha": np.nan}, {"alpha": [1.0, 2.0, 3.0]},
        {"tol": -1.0}, {"solver": "qr"}, {"max_iter": 0}, {"memory_budget": "lots"},
        {"memory_budget": -1}, {"precision": "float16"}, {"positive": True, "solver": "direct"},
        {"solver": "lsqr"}, {"random_state": "a"}, {"checkpoint": 3}, {"verbose": -1},
        {"alpha": 0.0, "memory_budget": 1e4}, {"positive": True, "memory_budget": 1e3},
    ]  # fmt: skip
    cv_options = [
        {"alphas": [-1.0]}, {"alphas": []}, {"alphas": [0.0]}, {"alphas": ["a"]},
        {"alphas": [[1.0]]}, {"cv": 1}, {"cv": 10**6}, {"cv": "x"}, {"scoring": "nope"},
        {"selection_rule": "worst"}, {"gcv_mode": "x"}, {"cv": 3, "store_cv_results": True},
        {"alphas": [0.0, 1.0], "cv": 3, "memory_budget": 1e4}, {"scoring": "roc_auc"},
    ]  # fmt: skip
    calls = {}
    for cls in (ling.Ridge, ling.RidgeCV, ling.RidgeClassifier, ling.RidgeClassifierCV):
        for name, (A, b, w) in inputs.items():
            calls[f"{cls.__name__} {name}"] = lambda cls=cls, A=A, b=b, w=w: cls().fit(
                A, b, sample_weight=w
            )
        fitted = cls([1.0]) if cls in (ling.RidgeCV, ling.RidgeClassifierCV) else cls()
        target = y if "Classifier" not in cls.__name__ else y > 0
        calls[f"{cls.__name__} unfitted"] = lambda cls=cls: cls().predict(X)
        calls[f"{cls.__name__} columns"] = lambda m=fitted, t=target: m.fit(X, t).predict(X[:, 1:])
    for option in options:
        calls[f"Ridge {option}"] = lambda option=option: ling.Ridge(**option).fit(X, y)
    for option in cv_options:
        calls[f"RidgeCV {option}"] = lambda option=option: ling.RidgeCV(**option).fit(X, y)
    (folder / "bad.npy").write_bytes(b"not an array")
    (folder / "bad.ling").write_bytes(b"not a model")
    (folder / "bad.csv").write_text("a,b\n1,x\n2,y\n3,\n")
    calls |= {
        "scan missing": lambda: ling.scan_parquet(folder / "none.parquet"),
        "scan bad npy": lambda: ling.scan_npy(folder / "bad.npy"),
        "scan target": lambda: ling.scan_csv(folder / "bad.csv", target="c"),
        "scan gaps": lambda: ling.scan_csv(folder / "bad.csv", target="a"),
        "load bad": lambda: ling.load(folder / "bad.ling"),
        "load missing": lambda: ling.load(folder / "none.ling"),
        "save unfitted": lambda: ling.save(ling.Ridge(), folder / "m.ling"),
        "save nowhere": lambda: ling.save(ling.Ridge().fit(X, y), folder / "no" / "m.ling"),
        "path alphas": lambda: ling.ridge_path(X, y, alphas=[0.0]),
        "path tol": lambda: ling.ridge_path(X, y, tol=-1),
        "remove first": lambda: ling.Ridge().partial_fit(X, y, remove=True),
        "one sample": lambda: ling.RidgeCV().fit(X[:1], y[:1]),
        "std": lambda: ling.Ridge().fit(X, y).predict(X, return_std=True),
        "paper k": lambda: ling.paper.ling(X, y, 0.1, 99, 3),
        "paper svd": lambda: ling.paper.random_svd(X, 0),
    }

    def shown(call):
        def run():
            call()
            return {}

        return run

    record = {f"message {name}": attempt(shown(call)) for name, call in calls.items()}
    return json.loads(json.dumps(record).replace(str(folder), "FOLDER"))


def command_line(folder: Path) -> dict:
    """What the commands print, without times and measured sizes."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from typer.testing import CliRunner

    from ling.cli.app import app

    rng = np.random.default_rng(0)
    n = 300
    size, colour = rng.uniform(1, 9, n), rng.choice(["red", "green", "blue"], n)
    price = 3 * size + 5 * (colour == "red") + 0.5 * rng.standard_normal(n)
    table = pa.table({
        "id": [f"g{i}" for i in range(n)], "size": size, "colour": colour,
        "count": rng.integers(0, 9, n), "kind": np.where(price > 15, "dear", "cheap"),
        "price": price,
    })  # fmt: skip
    pq.write_table(table, folder / "goods.parquet", row_group_size=70)
    pa.csv.write_csv(table, folder / "goods.csv")
    basic = ("--target", "price", "--drop", "id,kind", "--memory-budget", "200MB")
    commands = [
        ("fit", "goods.parquet", *basic),
        ("fit", "goods.csv", *basic, "--out", "b.ling"),
        ("fit", "goods.csv", *basic, "--out", "c.ling", "--alpha", "2"),
        ("fit", "goods.csv", *basic, "--out", "d.ling", "--cv", "3", "--json"),
        ("fit", "goods.csv", "--target", "kind", "--classify", "--drop", "id", "--out", "k.ling"),
        ("fit", "goods.parquet"),
        ("fit", "goods.parquet", "--target", "nope"),
        ("fit", "goods.parquet", "--target", "price"),
        ("fit", "missing.parquet", "--target", "price"),
        ("fit", "goods.parquet", *basic, "--alpha", "-1"),
        ("fit", "goods.parquet", *basic, "--alpha", "x"),
        ("fit", "goods.parquet", *basic, "--out", "goods.parquet"),
        ("predict", "model.ling", "goods.parquet", "--out", "p.parquet"),
        ("predict", "model.ling", "goods.csv", "--out", "p.csv", "--keep", "id"),
        ("predict", "k.ling", "goods.csv", "--out", "q.csv"),
        ("predict", "missing.ling", "goods.csv"),
        ("predict", "goods.csv", "goods.csv"),
        ("inspect", "model.ling"),
        ("inspect", "model.ling", "--json"),
        ("inspect", "k.ling"),
        ("inspect", "goods.csv"),
        ("plan", "goods.parquet", *basic[:4]),
        ("--version",),
        ("--help",),
        ("fit", "--help"),
        ("predict", "--help"),
        ("inspect", "--help"),
        ("plan", "--help"),
        ("reproduce", "--help"),
        ("nonsense",),
    ]
    before = Path.cwd()
    os.chdir(folder)
    record = {}
    try:
        for words in commands:
            shown = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(app, list(words))
            record[f"cli {' '.join(words)}"] = {
                "code": shown.exit_code,
                "out": without_times(shown.stdout),
                "err": without_times(shown.stderr),
            }
    finally:
        os.chdir(before)
    return record


def without_times(text: str) -> str:
    """Text whose measured seconds, rates and boxes' widths do not matter."""
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]?[\d:+]*", "DATE", text)
    text = re.sub(r"\d[\d.e+-]*( ?(s|ms|seconds|MB/s|GB/s|MB|minutes)\b)", r"#\1", text)
    text = re.sub(r'("[a-z_ ]*(seconds|bytes|started|created)[a-z_ ]*": )[^,\n}]*', r"\1#", text)
    text = re.sub(r'("(prepare|solve|certify|choose alpha)": )[\d.e+-]+', r"\1#", text)
    return re.sub(r"[ ─]+", " ", text)


def reports(folder: Path) -> dict:
    """Two HTML pages without their times and pictures."""
    import ling

    X, y, _ = problem("tall")
    models = {
        "ridge": ling.Ridge(memory_budget=BUDGET).fit(X, y),
        "cv": ling.RidgeCV(cv=3, memory_budget=BUDGET).fit(X, y),
    }
    record = {}
    for name, model in models.items():
        page = folder / f"{name}.html"
        ling.write_report(page, model, X, y)
        text = re.sub(r"<svg.*?</svg>", "<svg>", page.read_text(), flags=re.S)
        text = re.sub(r'base64,[^"]*', "base64", text)
        text = re.sub(r'style="width:[\d.]+%"', "width", text)
        text = without_times(text)
        record[f"report {name}"] = {"text": text}
    return record


def make_record() -> dict:
    import ling  # noqa: F401

    for name in ("estimators", "planning", "machine", "solvers.planning", "cli.app"):
        try:
            importlib.import_module(f"ling.{name}")
        except ModuleNotFoundError:
            continue
    fix_machine()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        parts = {}
        for part, make in (
            ("fits", fits), ("messages", messages), ("cli", command_line), ("reports", reports),
        ):  # fmt: skip
            (folder / part).mkdir()
            parts |= make(folder / part)
        return parts | plans()


def differences(before: dict, after: dict, rtol: float) -> list[str]:
    """One line for each entry and field that differ."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            lines.append(f"{name}: only {'after' if name in after else 'before'}")
            continue
        a, b = before[name], after[name]
        for field in sorted(a.keys() | b.keys()):
            change = field_change(a.get(field), b.get(field), rtol)
            if change:
                lines.append(f"{name}: {field}: {change}")
    return lines


def field_change(a, b, rtol: float) -> str:
    if a == b:
        return ""
    try:
        x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    except (TypeError, ValueError):
        return text_change(a, b)
    if x.shape != y.shape:
        return f"shape {x.shape} -> {y.shape}"
    if np.array_equal(x, y, equal_nan=True):
        return ""
    scale = np.abs(x).max(initial=0.0)
    change = float(np.abs(x - y).max() / scale) if scale else np.inf
    return f"changes by {change:.1e}" if not change <= rtol else ""


def text_change(a, b) -> str:
    """What differs, with a few characters around it."""
    a, b = str(a), str(b)
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
    start = max(0, start - 40)
    return f"...{a[start : start + 200]!r} -> ...{b[start : start + 200]!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("file", type=Path)
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    compare.add_argument("--rtol", type=float, default=0.0, help="relative change that is ignored")
    options = parser.parse_args()
    if options.command == "record":
        record = make_record()
        options.file.write_text(json.dumps(record, indent=1, sort_keys=True))
        print(f"{len(record)} entries in {options.file}")
        return
    before, after = (json.loads(file.read_text()) for file in (options.before, options.after))
    lines = differences(before, after, options.rtol)
    print("\n".join(lines))
    print(f"{len(lines)} differences in {len(before.keys() | after.keys())} entries")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
