"""The command prints readable text, and no traceback, whatever stdout and stderr can encode."""

import codecs
import io
import json
import os
import re
import subprocess
import sys
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ling.cli.streams import make_printable

pytestmark = pytest.mark.processes

LING = [sys.executable, "-m", "ling"]
# Names of encodings, and what makes them those of stdout.
ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


def environment(encoding):
    kept = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return {**kept, "COLUMNS": "100", **ENCODINGS[encoding]}


# Runs several commands, one after the other: most of their time is the start of Python. After each
# one, both streams get a line with its exit code.
SEVERAL = """
import sys
from ling.cli import main
commands, name = " ".join(sys.argv[1:]).split(" ; "), sys.argv[0]
for command in commands:
    sys.argv = [name, *command.split(" ")]
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    for stream in (sys.stdout, sys.stderr):
        print("exit code", code or 0, file=stream, flush=True)
"""


def write_goods(path):
    """Goods with names in several scripts."""
    rng = np.random.default_rng(0)
    size, colour = rng.uniform(1, 9, 300), rng.choice(["rot", "grün", "青"], 300)
    price = 3 * size + 5 * (colour == "rot") + 0.5 * rng.standard_normal(300)
    kind = np.where(price > 15, "teuer €", "billig")
    goods = pa.table({"größe": size, "farbe": colour, "price": price, "kind": kind})
    pq.write_table(goods, path)


PRICE = "-t price --drop kind"
#: By encoding, what is run in one process.
COMMANDS = {
    "ascii": {
        "fit": f"fit goods.parquet {PRICE}",
        "help": "--help",
        "help of fit": "fit --help",
        "text": "fit goods.parquet -t kind",
        "unknown option": "fit goods.parquet --tärget price",
        "no file": "fit wäre.parquet -t price",
    },
    "latin-1": {"fit": f"fit goods.parquet {PRICE}"},
    "C": {
        "fit": f"fit goods.parquet {PRICE}",
        "inspect": "inspect model.ling",
        "plan": f"plan goods.parquet {PRICE}",
        "predict": "predict model.ling goods.parquet -o out.csv --keep farbe",
        "json": "fit goods.parquet -t kind --classify --out kind.ling --report report.html --json",
        "classes": "predict kind.ling goods.parquet -o classes.csv",
        "file name": f"fit wäre2.parquet {PRICE}",
    },
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """By encoding: the folder, and by command its exit code, stdout and stderr."""

    @cache
    def run(encoding):
        folder = tmp_path_factory.mktemp(encoding)
        write_goods(folder / "goods.parquet")
        write_goods(folder / "wäre2.parquet")
        arguments = " ; ".join(COMMANDS[encoding].values()).split(" ")
        shown = subprocess.run(
            [sys.executable, "-c", SEVERAL, *arguments], cwd=folder, env=environment(encoding),
            capture_output=True, check=False,
        )  # fmt: skip
        called = "latin-1" if encoding == "latin-1" else "ascii"
        out, err = shown.stdout.decode(called), shown.stderr.decode(called)
        assert shown.returncode == 0, err
        assert "Traceback" not in err, err
        assert "UnicodeEncodeError" not in err
        # Text, code, text, code, ...
        out, err = (re.split(r"exit code (\d+)\r?\n", text) for text in (out, err))
        codes = [int(code) for code in out[1::2]]
        results = zip(codes, out[::2], err[::2], strict=False)
        return folder, dict(zip(COMMANDS[encoding], results, strict=True))

    return run


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_pages(ended, encoding):
    code, out, err = ended(encoding)[1]["fit"]
    assert code == 0, err
    assert ("größe" if encoding == "latin-1" else r"gr\xf6\xdfe") in out
    assert r"farbe=\u9752" in out
    score = ("R²", "±") if encoding == "latin-1" else ("R2", "+/-")
    assert all(words in out for words in score)


def test_other_commands(ended):
    folder, results = ended("C")
    for name in ("fit", "inspect", "plan", "predict"):
        code, out, err = results[name]
        assert code == 0, err
        assert out
    # What is written to files is UTF-8 and complete.
    kept = pa.csv.read_csv(folder / "out.csv").column("farbe")
    assert set(kept.to_pylist()) == {"rot", "grün", "青"}


def test_classes_json_and_reports(ended):
    folder, results = ended("C")
    code, out, err = results["json"]
    assert code == 0, err
    assert json.loads(out)["classes"] == ["billig", "teuer €"]
    assert "teuer €" in (folder / "report.html").read_text(encoding="utf-8")
    code, out, err = results["classes"]
    assert code == 0, err
    assert r"teuer \u20ac" in out


def test_help_and_errors(ended):
    _, results = ended("ascii")
    for name in ("help", "help of fit"):
        code, out, _ = results[name]
        assert code == 0
        assert "Examples" in out or "Exit codes" in out
    code, out, err = results["text"]
    assert (code, out) == (1, "")
    assert err.startswith(r"Error: --target 'kind' is text ('teuer \u20ac' in the first row)")
    assert results["unknown option"][0] == 2
    assert results["no file"][0] == 1


def test_file_names_that_the_locale_cannot_encode(ended):
    code, out, err = ended("C")[1]["file name"]
    assert (code, out) == (1, "")
    assert err.rstrip().endswith("has no encoding in this locale; set PYTHONUTF8=1.")


def test_progress_on_a_terminal(tmp_path):
    write_goods(tmp_path / "goods.parquet")
    pty = pytest.importorskip("pty", reason="Windows has other terminals")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*LING, "fit", "goods.parquet", "-t", "price", "--drop", "kind"], cwd=tmp_path,
        env={**environment("ascii"), "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert process.returncode == 0, shown
    assert b"Traceback" not in shown
    assert b"\\u28" not in shown  # rich's spinner
    assert b"Written to model.ling" in shown


def test_handlers_that_the_user_chose_stay():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    make_printable(out)
    assert out.errors == "replace"
    make_printable(None)  # a service has no streams


def test_utf8_is_printed_as_it_is():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8")
    make_printable(out)
    out.write("R² ± größe 青 \udcff")
    out.flush()
    assert raw.getvalue().decode() == r"R² ± größe 青 \udcff"


def test_only_encoding_is_handled():
    make_printable(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    with pytest.raises(UnicodeDecodeError):
        codecs.decode(b"\xff", "ascii", "ling-readable")
