"""Open damaged files as users do: each gives an error of ling or a valid fit, and nothing else.

    python tools/fuzz_files.py                               # 10,000 cases of every format
    python tools/fuzz_files.py --format npy --count 500
    python tools/fuzz_files.py --format npy --seed 0 --first 417 --count 1     # repeat one case

Foreign errors, crashes, hangs and large memory are failures. Each is printed with the command that
repeats it. A case depends on format, seed and number only, so a run that was interrupted goes on
with `--first`. Cases run in worker processes, which are replaced when they crash. The format
"hostile" consists of files that were made to do harm (`tools/hostile_files.py`).
"""

from __future__ import annotations

import os

# Arrow's own allocator reserves address space in large pieces, which the limit would count.
os.environ.update(OPENBLAS_NUM_THREADS="1", ARROW_DEFAULT_MEMORY_POOL="system")

import argparse
import json
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
# Address space that a worker may take beyond what it has after its imports.
MAX_ADDRESS_BYTES = 2**31
# Growth of resident memory that counts as a failure; the files are below a megabyte. pyarrow takes
# as much memory as a page of a Parquet file says that it needs, which can be 2 GiB.
MAX_RESIDENT_GROWTH_BYTES = {"parquet": 2**31}
DEFAULT_MAX_RESIDENT_GROWTH_BYTES = 2**28
# A case takes milliseconds. The limit leaves room for a busy machine.
MAX_SECONDS_PER_CASE = 120
FAILURES = ("foreign error", "crash", "hang", "memory")


def work(name: str, seed: int, first: int, count: int) -> None:
    """Run cases and print one line of JSON for each."""
    from tools.fuzz_formats import FORMATS

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "make").mkdir()
        seeds = FORMATS[name].make(folder / "make") if name in FORMATS else []
        limit_memory()
        for case in range(first, first + count):
            outcome, details = run_case(name, seeds, folder / "case", seed, case)
            print(json.dumps([case, outcome, details]), flush=True)


def run_case(name: str, seeds: list, folder: Path, seed: int, case: int) -> tuple[str, str]:
    """The outcome of a case, and details of a failure."""
    from tools.fuzz_formats import open_files, prepare_case
    from tools.hostile_files import prepare_hostile

    rng = random.Random(0)
    if name == "hostile":
        name = prepare_hostile(case, folder)
    else:
        rng = prepare_case(name, seeds, folder, seed, case)
    before = reset_peak_memory()
    try:
        outcome, details = open_files(name, folder, rng), ""
    except Exception as error:
        outcome, details = "foreign error", "".join(traceback.format_exception(error)[-4:])
    growth = status_bytes("VmHWM") - before
    # The first case of a worker loads modules, which takes less than the limit.
    if growth > MAX_RESIDENT_GROWTH_BYTES.get(name, DEFAULT_MAX_RESIDENT_GROWTH_BYTES):
        return "memory", f"{growth / 1e6:.0f} MB ({outcome}) {details}"
    return outcome, details


def limit_memory() -> None:
    import resource  # not on every system

    limit = status_bytes("VmSize") + MAX_ADDRESS_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def reset_peak_memory() -> int:
    """Resident memory in bytes, from which the peak (VmHWM of proc(5)) is counted anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return status_bytes("VmRSS")


def status_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


class Worker:
    """A process that runs cases, and its lines of output."""

    def __init__(self, name: str, seed: int, first: int, count: int) -> None:
        numbers = ["--seed", str(seed), "--first", str(first), "--count", str(count)]
        command = [sys.executable, __file__, "--worker", "--format", name, *numbers]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read_lines, daemon=True)
        self.reader.start()

    def _read_lines(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def outcomes(self):
        """(case, outcome, details) until the worker ends; ends with a crash or a hang, if any."""
        try:
            while (line := self.lines.get(timeout=MAX_SECONDS_PER_CASE)) is not None:
                yield json.loads(line)
        except queue.Empty:
            yield None, "hang", f"more than {MAX_SECONDS_PER_CASE} s"
        else:
            if self.process.wait():
                yield None, "crash", f"exit code {self.process.returncode}"
        finally:
            self.process.kill()
            self.process.wait()
            self.reader.join()
            self.process.stdout.close()


def run_format(name: str, seed: int, first: int, count: int) -> Counter[str]:
    """The number of cases by outcome; failures are printed."""
    counts: Counter[str] = Counter()
    case, end, started = first, first + count, time.monotonic()
    while case < end:
        for number, outcome, details in Worker(name, seed, case, end - case).outcomes():
            number = case if number is None else number
            counts[outcome] += 1
            case = number + 1
            if outcome in FAILURES:
                print(f"\n{outcome} in {name}: {details.rstrip()}")
                repeat = f"--format {name} --seed {seed} --first {number} --count 1"
                print(f"  python tools/fuzz_files.py {repeat}", flush=True)
            show_progress(name, case - first, count, counts, started)
    return counts


def show_progress(name: str, done: int, count: int, counts: Counter[str], started: float) -> None:
    if done % 100 == 0 and sys.stderr.isatty():
        rate = done / (time.monotonic() - started)
        failures = sum(counts[kind] for kind in FAILURES)
        print(f"\r{name}: {done} of {count}, {rate:.0f}/s, {failures} failures", end="",
              file=sys.stderr, flush=True)  # fmt: skip


def print_table(results: dict[str, Counter[str]]) -> None:
    print("\n| format | cases | valid fit | error of ling | failures |\n" + "| --- " * 5 + "|")
    for name, counts in results.items():
        failures = sum(counts[kind] for kind in FAILURES)
        refused = counts.total() - counts["fit"] - failures
        print(f"| {name} | {counts.total():,} | {counts['fit']:,} | {refused:,} | {failures} |")
    for name, counts in results.items():
        print(f"{name}: {dict(counts.most_common())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--format", help="one format; default: all, one after the other")
    parser.add_argument("--count", type=int, default=10_000, help="cases of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.format, options.seed, options.first, options.count)
        return
    from tools.fuzz_formats import FORMATS
    from tools.hostile_files import HOSTILE

    results = {}
    for name in [options.format] if options.format else ["hostile", *FORMATS]:
        most = len(HOSTILE) - options.first if name == "hostile" else options.count
        results[name] = run_format(name, options.seed, options.first, min(options.count, most))
    print_table(results)
    sys.exit(any(counts[kind] for counts in results.values() for kind in FAILURES))


if __name__ == "__main__":
    main()
