"""A fit that was killed goes on where it was, to the same bits, and touches nobody else's files."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import KFold

from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, scan_npy
from ling.design import ArraySource, ChunkedStorage
from ling.design.pass_cache import HEADER_FILE, _acquire_lock, digest
from ling.errors import CheckpointError, NonFiniteError, OptionError
from ling.progress import watch
from tests.raising import raises

MODELS = {
    "two_stage": lambda **options: Ridge(0.5, solver="two_stage", tol=1e-8, **options),
    "direct": lambda **options: Ridge(0.5, solver="direct", store_covariance=True, **options),
    "5-fold": lambda **options: RidgeCV(cv=5, **options),
    "leave-one-out": lambda **options: RidgeCV(**options),
    "stochastic": lambda **options: RidgeCV(gcv_mode="stochastic", **options),
    "classifier": lambda **options: RidgeClassifier(**options),
    "classifier, 3-fold": lambda **options: RidgeClassifierCV(cv=3, **options),
}


class Killed(BaseException):
    """What no `except Exception` catches."""


class Mortal(ChunkedStorage):
    """Rows that can be read so many times."""

    lives = 1000
    passes = 0

    def __init__(self, source, rows=None):
        super().__init__(source, rows, has_fixed_blocks=True)

    def subset(self, rows):
        return Mortal(self.source, rows if self.rows is None else self.rows[rows])

    def run(self, operation):
        if Mortal.passes >= Mortal.lives:
            raise Killed
        Mortal.passes += 1
        return super().run(operation)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20)) * np.linspace(5, 0.1, 20)
    return X, X @ rng.standard_normal(20) + rng.standard_normal(300)


@pytest.fixture(autouse=True)
def many_lives(monkeypatch):
    monkeypatch.setattr(Mortal, "lives", 1000)
    monkeypatch.setattr(Mortal, "passes", 0)
    # The plan goes by it, and two fits are compared bit by bit.
    monkeypatch.setattr(Mortal, "read_bandwidth", 1e9)


def fitted(make, data, folder, lives=1000, **options):
    """The fit with so many passes to live, and how many it took."""
    X, y = data
    Mortal.lives, Mortal.passes = lives, 0
    model = make(checkpoint=folder, **options)
    y = np.where(y > 0, "yes", "no") if "Classifier" in type(model).__name__ else y
    return model.fit(Mortal(ArraySource(X)), y), Mortal.passes


@pytest.mark.parametrize("name", MODELS)
def test_killed_after_any_pass_it_goes_on_to_the_same_bits(name, data, tmp_path):
    make = MODELS[name]
    folder = tmp_path / "checkpoint"
    known, passes = fitted(make, data, folder, random_state=3)
    assert passes > 1
    assert not folder.exists()
    every = 1 if name == "two_stage" else 3
    for lives in sorted({1, 2, *range(3, passes, every), passes - 1} & {*range(1, passes)}):
        with pytest.raises(Killed):
            fitted(make, data, folder, lives, random_state=3)
        again, more = fitted(make, data, folder, random_state=3)
        np.testing.assert_array_equal(again.coef_, known.coef_)
        np.testing.assert_array_equal(again.intercept_, known.intercept_)
        assert again.report_.cost == known.report_.cost
        assert more <= passes - lives + 1  # one to recognise X
        assert not folder.exists()


def test_it_may_be_killed_many_times(data, tmp_path):
    known, passes = fitted(MODELS["two_stage"], data, tmp_path / "known", random_state=3)
    for _ in range(passes - 2):  # one of two is to recognise X
        with pytest.raises(Killed):
            fitted(MODELS["two_stage"], data, tmp_path / "one", 2, random_state=3)
    again, more = fitted(MODELS["two_stage"], data, tmp_path / "one", random_state=3)
    assert more <= 2
    np.testing.assert_array_equal(again.coef_, known.coef_)


def test_a_seed_is_kept(data, tmp_path):
    """With random_state=None the second start draws what the first one did."""
    with pytest.raises(Killed):
        fitted(MODELS["two_stage"], data, tmp_path, 5)
    seed = json.loads((tmp_path / HEADER_FILE).read_text().splitlines()[0])["frozen_choices"][
        "seed"
    ]
    again, more = fitted(MODELS["two_stage"], data, tmp_path)
    known, passes = fitted(MODELS["two_stage"], data, tmp_path / "other", random_state=seed)
    assert more < passes
    np.testing.assert_array_equal(again.coef_, known.coef_)


def test_arrays_can_be_checkpointed_too(data, tmp_path):
    X, y = data
    model = Ridge(0.5, checkpoint=tmp_path / "folder").fit(X, y)
    np.testing.assert_allclose(model.coef_, Ridge(0.5).fit(X, y).coef_, rtol=1e-3)


def interrupted(data, folder, **options):
    with pytest.raises(Killed):
        fitted(MODELS["two_stage"], data, folder, 4, random_state=3, **options)
    Mortal.lives = 1000


def raises_other_fit(folder, differing):
    """Expect an error about a checkpoint of a fit that differs in these."""
    return raises(
        CheckpointError, "checkpoint", file=str(folder), mentions=f"differs in {differing}"
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tol": 1e-9}, "tol"),
        ({"alpha": 7.0}, "alpha"),
        ({"fit_intercept": False}, "fit_intercept"),
        ({"random_state": 4}, "random_state"),
    ],
)
def test_other_parameters_are_refused(data, tmp_path, change, named):
    interrupted(data, tmp_path)
    X, y = data
    model = MODELS["two_stage"](checkpoint=tmp_path, random_state=3).set_params(**change)
    with raises_other_fit(tmp_path, named):
        model.fit(Mortal(ArraySource(X)), y)


def test_other_data_are_refused(data, tmp_path):
    interrupted(data, tmp_path)
    X, y = data
    for other, named in (((X + 1, y), "X"), ((X, y + 1), "y"), ((X[1:], y[1:]), "shape of X, X")):
        with raises_other_fit(tmp_path, named):
            fitted(MODELS["two_stage"], other, tmp_path, random_state=3)
    with raises_other_fit(tmp_path, "sample_weight"):
        Ridge(0.5, solver="two_stage", tol=1e-8, random_state=3, checkpoint=tmp_path).fit(
            Mortal(ArraySource(X)), y, np.ones(len(y))
        )


def test_other_data_in_the_same_shape_are_refused_wherever_they_differ(data, tmp_path):
    X, y = data
    interrupted(data, tmp_path)
    other = X.copy()
    other[137, 11] += 1e-9
    with raises_other_fit(tmp_path, "X"):
        fitted(MODELS["two_stage"], (other, y), tmp_path, random_state=3)


def test_a_file_that_was_written_again_is_another(data, tmp_path):
    X, y = data
    np.save(tmp_path / "X.npy", X)
    options = {"solver": "two_stage", "tol": 1e-8, "checkpoint": tmp_path / "kept"}

    def fit():
        source = scan_npy(tmp_path / "X.npy").X.source
        return Ridge(0.5, **options).fit(Mortal(source), y)

    Mortal.lives, Mortal.passes = 4, 0
    with pytest.raises(Killed):
        fit()
    Mortal.lives = 1000
    np.save(tmp_path / "X.npy", X)
    with raises_other_fit(tmp_path / "kept", "X"):
        fit()


def test_an_error_keeps_the_checkpoint(data, tmp_path):
    """Only its owner knows that a second start is of no use."""
    X, y = data
    spoilt = X.copy()
    spoilt[200, 3] = np.nan
    folder = tmp_path / "kept"
    for _ in range(2):  # the fault is found again
        with raises(NonFiniteError, "X", row=200, column=3):
            fitted(MODELS["direct"], (spoilt, y), folder)
        assert (folder / HEADER_FILE).exists()
    with raises_other_fit(folder, "X"):
        fitted(MODELS["direct"], data, folder)
    shutil.rmtree(folder)
    fitted(MODELS["direct"], data, folder)


FULL_DISK = """
import resource
from ling import Ridge, scan_npy
from ling.errors import FileWriteError
from ling.progress import watch

def fill_disk(event):
    # Files of more bytes than this end in EFBIG, as those on a full disk do in ENOSPC.
    if event.passes >= 6:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))

data = scan_npy("X.npy", "y.npy")
model = Ridge(1e-3, solver="two_stage", tol=1e-9, random_state=0, memory_budget="2MB",
              checkpoint="kept")
with watch(fill_disk):
    try:
        model.fit(data.X, data.y)
    except FileWriteError as error:
        print(error)
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="Unix limits the size of files, Windows not")
def test_a_full_disk_keeps_the_checkpoint(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5_000, 80)) * np.linspace(3, 0.1, 80)
    np.save(tmp_path / "X.npy", X)
    coef = rng.standard_normal(80)
    np.save(tmp_path / "y.npy", X @ coef)

    command = [sys.executable, "-c", FULL_DISK]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    (error,) = ended.stdout.splitlines()
    assert error.endswith("cannot be written: File too large.")
    kept = os.listdir(tmp_path / "kept")
    passes = sum(name.endswith(".pass") for name in kept)
    assert passes >= 6
    assert sorted(name for name in kept if not name.endswith(".pass")) == [HEADER_FILE, "lock"]
    monkeypatch.chdir(tmp_path)
    data = scan_npy("X.npy", "y.npy")
    options = {"random_state": 0, "memory_budget": "2MB", "checkpoint": "kept"}
    model = Ridge(1e-3, solver="two_stage", tol=1e-9, **options).fit(data.X, data.y)
    assert f"Resumed after {passes} passes" in " ".join(model.report_.notes)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-4)
    assert not (tmp_path / "kept").exists()


def test_one_folder_is_for_one_fit_at_a_time(data, tmp_path):
    X, y = data
    lock = _acquire_lock(tmp_path)
    with raises(CheckpointError, "checkpoint", file=str(tmp_path), mentions="in use"):
        Ridge(checkpoint=tmp_path).fit(X, y)
    lock.close()
    Ridge(checkpoint=tmp_path).fit(X, y)
    assert not tmp_path.exists()


def test_another_budget_goes_on_with_what_is_kept(data, tmp_path):
    _, passes = fitted(MODELS["two_stage"], data, tmp_path / "known", random_state=3)
    interrupted(data, tmp_path / "kept", memory_budget="1GB")
    _, more = fitted(
        MODELS["two_stage"], data, tmp_path / "kept", random_state=3, memory_budget="2GB"
    )
    assert more < passes


def test_splits_are_part_of_a_fit(data, tmp_path):
    X, y = data
    known = RidgeCV(cv=list(KFold(7).split(X)), checkpoint=tmp_path / "kept").fit(X, y)
    assert known.alpha_ == pytest.approx(RidgeCV(cv=KFold(7)).fit(X, y).alpha_)
    make = MODELS["5-fold"]
    with pytest.raises(Killed):
        fitted(make, data, tmp_path / "kept", 3, random_state=3)
    Mortal.lives = 1000
    with raises_other_fit(tmp_path / "kept", "splits of cv"):
        RidgeCV(cv=KFold(5, shuffle=True, random_state=1), checkpoint=tmp_path / "kept",
                random_state=3).fit(Mortal(ArraySource(X)), y)  # fmt: skip


def signed_header(folder, **changes):
    """Change values of the header, with a right checksum, as another program could."""
    header = json.loads((folder / HEADER_FILE).read_bytes().rpartition(b"\n")[0])
    text = json.dumps(header | changes).encode()
    (folder / HEADER_FILE).write_bytes(text + b"\n" + sha256(text).hexdigest().encode())


@pytest.mark.parametrize(
    "changes",
    [{"seed": -1}, {"seed": 1.5}, {"machine": 5}, {"machine": {}}, {"rate": "fast"}, {"budget": []},
     {"budget": 0}],
    ids=str,
)  # fmt: skip
def test_choices_that_cannot_be_used_are_refused(changes, data, tmp_path):
    interrupted(data, tmp_path)
    header = (tmp_path / HEADER_FILE).read_bytes()
    choices = json.loads(header.rpartition(b"\n")[0])["frozen_choices"]
    signed_header(tmp_path, frozen_choices=choices | changes)
    with raises(CheckpointError, "checkpoint", file=str(tmp_path), mentions=HEADER_FILE):
        fitted(MODELS["two_stage"], data, tmp_path, random_state=3)
    # Nothing was deleted, and the lock was released.
    (tmp_path / HEADER_FILE).write_bytes(header)
    assert "Resumed" in str(fitted(MODELS["two_stage"], data, tmp_path, random_state=3)[0].report_)


@pytest.mark.parametrize("part", ["fingerprint", "frozen_choices"])
def test_headers_without_their_parts_are_refused(part, data, tmp_path):
    interrupted(data, tmp_path)
    signed_header(tmp_path, **{part: 3})
    with raises(CheckpointError, "checkpoint", file=str(tmp_path), mentions=HEADER_FILE):
        fitted(MODELS["two_stage"], data, tmp_path, random_state=3)


def test_passes_that_are_no_arrays_are_refused(data, tmp_path):
    interrupted(data, tmp_path)
    file = sorted(tmp_path.glob("*.pass"))[0]
    for content in (b"", b"\x01", b"\x01\x00no array", file.read_bytes()[32:-1]):
        file.write_bytes(sha256(content).digest() + content)
        for each in tmp_path.glob("*.pass"):
            each.write_bytes(file.read_bytes())
        with raises(CheckpointError, "checkpoint", file=str(tmp_path)):
            fitted(MODELS["two_stage"], data, tmp_path, random_state=3)


def test_damage_is_noticed(data, tmp_path):
    interrupted(data, tmp_path)
    for file in sorted(tmp_path.glob("*.pass")):
        whole = file.read_bytes()
        for damaged in (whole[:-1], whole[:40], b"", whole[:-50] + b"x" + whole[-49:]):
            file.write_bytes(damaged)
            with raises(CheckpointError, "checkpoint", file=str(tmp_path), mentions=file.name):
                fitted(MODELS["two_stage"], data, tmp_path, random_state=3)
        file.write_bytes(whole)
    (tmp_path / HEADER_FILE).write_text("{")
    with raises(CheckpointError, "checkpoint", file=str(tmp_path), mentions=HEADER_FILE):
        fitted(MODELS["two_stage"], data, tmp_path, random_state=3)
    later = b'{"version": 99, "fingerprint": {}, "frozen_choices": {}}'
    (tmp_path / HEADER_FILE).write_bytes(later + b"\n" + sha256(later).hexdigest().encode())
    with raises(CheckpointError, "checkpoint", file=str(tmp_path), mentions="99"):
        fitted(MODELS["two_stage"], data, tmp_path, random_state=3)


def test_other_peoples_folders_are_left_alone(data, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with raises(CheckpointError, "checkpoint", file=str(tmp_path), mentions=": 'thesis.tex';"):
        fitted(MODELS["direct"], data, tmp_path)
    file = tmp_path / "thesis.tex"
    with raises(CheckpointError, "checkpoint", file=str(file)):
        fitted(MODELS["direct"], data, file)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


# Names that only look like those of a checkpoint.
FOREIGN = [
    "film.part",
    ".film.part",
    ".thesis.tex.12-0123abcd.part",
    "ski.pass",
    f"{'0' * 63}g.pass",
]


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("resumed", [False, True], ids=["new", "resumed"])
def test_foreign_files_are_refused_by_name(name, resumed, data, tmp_path):
    if resumed:
        interrupted(data, tmp_path)
    (tmp_path / name).write_text("years of work")
    before = sorted(file.name for file in tmp_path.iterdir())
    with raises(CheckpointError, "checkpoint", file=str(tmp_path), mentions=f": {name!r};"):
        fitted(MODELS["two_stage"], data, tmp_path, random_state=3)
    assert sorted(file.name for file in tmp_path.iterdir()) == before
    (tmp_path / name).unlink()
    fitted(MODELS["two_stage"], data, tmp_path, random_state=3)
    assert not tmp_path.exists()


def test_of_many_foreign_files_some_are_named(data, tmp_path):
    for name in "abcde":
        (tmp_path / name).touch()
    with raises(CheckpointError, "checkpoint", mentions="'a', 'b', 'c' and 2 more"):
        fitted(MODELS["direct"], data, tmp_path)


def test_folders_links_and_locks_of_others_are_foreign(data, tmp_path):
    (tmp_path / "text").write_text("years of work")
    folder = tmp_path / "kept"
    for name, make in {
        f"{'0' * 64}.pass": Path.mkdir,
        f".{HEADER_FILE}.12-0123abcd.part": lambda path: path.symlink_to(tmp_path / "text"),
        "lock": lambda path: path.write_text("of another program"),
    }.items():
        folder.mkdir()
        make(folder / name)
        with raises(CheckpointError, "checkpoint", file=str(folder), mentions=repr(name)):
            fitted(MODELS["direct"], data, folder)
        assert os.listdir(folder) == [name]
        shutil.rmtree(folder)


def test_foreign_files_that_appear_during_a_fit_are_kept(data, tmp_path):
    folder = tmp_path / "kept"

    def download(event):
        if folder.exists():
            for name in FOREIGN:
                (folder / name).write_text("years of work")

    with watch(download):
        fitted(MODELS["two_stage"], data, folder)
    assert sorted(os.listdir(folder)) == sorted(FOREIGN)
    assert {file.read_text() for file in folder.iterdir()} == {"years of work"}


@pytest.mark.parametrize("resumed", [False, True], ids=["new", "resumed"])
def test_temporary_files_of_a_killed_process_are_deleted(resumed, data, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    stale = [folder / f".{name}.12-0123abcd.part" for name in (HEADER_FILE, f"{'0' * 64}.pass")]
    for file in stale:
        file.write_bytes(b"cut o")
    if resumed:
        interrupted(data, folder)
        assert not any(file.exists() for file in stale)
    fitted(MODELS["two_stage"], data, folder, random_state=3)
    assert not folder.exists()


def test_sparse_data_say_so(data, tmp_path):
    from scipy import sparse

    with raises(OptionError, "checkpoint", change=("checkpoint", None)):
        Ridge(checkpoint=tmp_path).fit(sparse.csr_array(data[0]), data[1])


def test_functions_have_no_name():
    assert digest(np.zeros(3)) == digest(np.zeros(3)) != digest(np.zeros((3, 1)))
    assert digest(lambda rows: rows) is None


KILLED = """
import sys, time
from ling import Ridge, scan_npy
from ling.design import ChunkedStorage
run = ChunkedStorage.run
def slow(self, operation):
    time.sleep(0.05)
    return run(self, operation)
ChunkedStorage.run = slow
data = scan_npy("X.npy", "y.npy")
Ridge(1e-3, **eval(sys.argv[1]), checkpoint="kept").fit(data.X, data.y)
print("not killed")
"""


@pytest.mark.processes
def test_sigkill(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 80)) * np.linspace(3, 0.1, 80)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", X @ rng.standard_normal(80))
    options = {"solver": "two_stage", "tol": 1e-9, "random_state": 0, "memory_budget": "20MB"}
    kept = tmp_path / "kept"
    for passes in (2, 5):
        running = subprocess.Popen(
            [sys.executable, "-c", KILLED, repr(options)], cwd=tmp_path, stdout=subprocess.PIPE
        )
        deadline = time.monotonic() + 300
        while len(list(kept.glob("*.pass"))) < passes and time.monotonic() < deadline:
            time.sleep(0.002)
        os.kill(running.pid, signal.SIGKILL)
        assert running.communicate()[0] == b""
        assert len(list(kept.glob("*.pass"))) >= passes
    monkeypatch.chdir(tmp_path)
    data = scan_npy("X.npy", "y.npy")
    resumed = Ridge(1e-3, **options, checkpoint="kept").fit(data.X, data.y)
    # The speeds of the first start, which decide on the size of blocks, are kept too.
    known = Ridge(1e-3, **options, speeds=resumed.report_.plan["speeds"]).fit(data.X, data.y)
    assert "Resumed after" in " ".join(resumed.report_.notes)
    np.testing.assert_array_equal(resumed.coef_, known.coef_)
    assert not kept.exists()
