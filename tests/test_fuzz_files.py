"""Damaged and hostile files give an error of ling or a valid fit; `make fuzz` tries many more."""

import json
import random
import sys
from collections import Counter

import pytest

from tests.extras import needs
from tools import fuzz_files, fuzz_formats
from tools.fuzz_formats import FORMATS, damage_json, open_files, prepare_case
from tools.hostile_files import HOSTILE

needs("pyarrow", "zarr")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="limits memory by /proc")
N_CASES = 60
#: Formats whose reader may end the process, or take gigabytes: they are read in another one.
ISOLATED = ("parquet", "feather")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    return {name: form.make(tmp_path_factory.mktemp(name)) for name, form in FORMATS.items()}


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ISOLATED])
def test_damaged_files(name, seeds, tmp_path):
    outcomes = Counter(
        open_files(
            name, tmp_path / "case", prepare_case(name, seeds[name], tmp_path / "case", 1, i)
        )
        for i in range(N_CASES)
    )
    assert outcomes.total() == N_CASES
    assert N_CASES / 2 < N_CASES - outcomes["fit"] < N_CASES


@pytest.mark.parametrize("name", FORMATS)
def test_files_without_damage_are_fitted(name, seeds, tmp_path):
    for files in seeds[name]:
        fuzz_formats.write_files(tmp_path / "case", files)
        outcome = open_files(name, tmp_path / "case", random.Random(0))
        assert outcome in ("fit", "MissingValueError")  # a table has a gap, which may be refused


@pytest.mark.parametrize("name", FORMATS)
def test_a_case_can_be_repeated(name, seeds, tmp_path):
    """The files depend on format, seed and number, not on the cases before."""
    prepare_case(name, seeds[name], tmp_path / "first", 0, 5)
    for case in (3, 4, 5):
        prepare_case(name, seeds[name], tmp_path / "second", 0, case)
    first, second = (fuzz_formats.read_files(tmp_path / each) for each in ("first", "second"))
    assert first == second


@linux_only
def test_errors_of_others_and_much_memory_are_failures(seeds, tmp_path, monkeypatch):
    def run():
        return fuzz_files.run_case("npy", seeds["npy"], tmp_path / "case", 0, 0)

    assert run()[0] not in fuzz_files.FAILURES
    monkeypatch.setattr(fuzz_formats, "open_files", lambda *_: {}["missing"])
    assert run()[0] == "foreign error"
    assert "KeyError" in run()[1]
    monkeypatch.setattr(fuzz_formats, "open_files", lambda *_: str(len(bytearray(b"x") * 2**29)))
    assert run()[0] == "memory"


def test_damaged_json_can_be_nested_deeply():
    texts = [damage_json(b'{"a": [1, {"b": 2}], "c": "d"}', random.Random(i)) for i in range(300)]
    assert max(map(len, texts)) > 10**6
    assert sum(json.loads(text) != {} for text in texts if len(text) < 1000) > 100


@linux_only
@pytest.mark.processes
@pytest.mark.parametrize("name", ISOLATED)
def test_damaged_files_in_another_process(name):
    counts = fuzz_files.run_format(name, seed=1, first=0, count=2 * N_CASES)
    assert not any(counts[kind] for kind in fuzz_files.FAILURES)
    assert counts.total() == 2 * N_CASES


@linux_only
@pytest.mark.processes
def test_hostile_files(capsys):
    counts = fuzz_files.run_format("hostile", seed=0, first=0, count=len(HOSTILE))
    assert not any(counts[kind] for kind in fuzz_files.FAILURES), capsys.readouterr().out
    assert counts.total() == len(HOSTILE)
