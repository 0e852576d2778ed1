"""The command prints readable text, and no traceback, whatever stdout and stderr can encode."""

import codecs
import io
import json
import os
import subprocess
import sys

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


@pytest.fixture
def run(tmp_path):
    """Goods with names in several scripts, and the command beside them."""
    rng = np.random.default_rng(0)
    size, colour = rng.uniform(1, 9, 300), rng.choice(["rot", "grün", "青"], 300)
    price = 3 * size + 5 * (colour == "rot") + 0.5 * rng.standard_normal(300)
    kind = np.where(price > 15, "teuer €", "billig")
    goods = pa.table({"größe": size, "farbe": colour, "price": price, "kind": kind})
    pq.write_table(goods, tmp_path / "goods.parquet")

    def ling(encoding, *arguments):
        shown = subprocess.run(
            [*LING, *arguments], cwd=tmp_path, env=environment(encoding), capture_output=True,
            check=False,
        )  # fmt: skip
        called = "latin-1" if encoding == "latin-1" else "ascii"
        out, err = shown.stdout.decode(called), shown.stderr.decode(called)
        assert "Traceback" not in err, err
        assert "UnicodeEncodeError" not in err
        return shown.returncode, out, err

    return ling


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_pages(run, encoding):
    code, out, err = run(encoding, "fit", "goods.parquet", "-t", "price", "--drop", "kind")
    assert code == 0, err
    assert ("größe" if encoding == "latin-1" else r"gr\xf6\xdfe") in out
    assert r"farbe=\u9752" in out
    score = ("R²", "±") if encoding == "latin-1" else ("R2", "+/-")
    assert all(words in out for words in score)


def test_other_commands(run, tmp_path):
    encoding = "C"
    assert run(encoding, "fit", "goods.parquet", "-t", "price", "--drop", "kind")[0] == 0
    for arguments in (
        ("inspect", "model.ling"),
        ("plan", "goods.parquet", "-t", "price", "--drop", "kind"),
        ("predict", "model.ling", "goods.parquet", "-o", "out.csv", "--keep", "farbe"),
    ):
        code, out, err = run(encoding, *arguments)
        assert code == 0, err
        assert out
    # What is written to files is UTF-8 and complete.
    kept = pa.csv.read_csv(tmp_path / "out.csv").column("farbe")
    assert set(kept.to_pylist()) == {"rot", "grün", "青"}


def test_classes_json_and_reports(run, tmp_path):
    encoding = "C"
    fit = ("fit", "goods.parquet", "-t", "kind", "--classify", "--report", "report.html")
    code, out, err = run(encoding, *fit, "--json")
    assert code == 0, err
    assert json.loads(out)["classes"] == ["billig", "teuer €"]
    assert "teuer €" in (tmp_path / "report.html").read_text(encoding="utf-8")
    code, out, err = run(encoding, "predict", "model.ling", "goods.parquet", "-o", "out.csv")
    assert code == 0, err
    assert r"teuer \u20ac" in out


def test_help_and_errors(run):
    encoding = "ascii"
    for arguments in (["--help"], ["fit", "--help"]):
        code, out, _ = run(encoding, *arguments)
        assert code == 0
        assert "Examples" in out or "Exit codes" in out
    code, out, err = run(encoding, "fit", "goods.parquet", "-t", "kind")
    assert (code, out) == (1, "")
    assert err.startswith(r"Error: --target 'kind' is text ('teuer \u20ac' in the first row)")
    assert run(encoding, "fit", "goods.parquet", "--tärget", "price")[0] == 2
    assert run(encoding, "fit", "wäre.parquet", "-t", "price")[0] == 1


def test_file_names_that_the_locale_cannot_encode(run, tmp_path):
    (tmp_path / "goods.parquet").rename(tmp_path / "wäre.parquet")
    code, out, err = run("C", "fit", "wäre.parquet", "-t", "price", "--drop", "kind")
    assert (code, out) == (1, "")
    assert err.rstrip().endswith("has no encoding in this locale; set PYTHONUTF8=1.")


def test_progress_on_a_terminal(run, tmp_path):
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
