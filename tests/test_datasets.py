"""The loaders: where they look, what they accept, and what they say when there is nothing."""

import functools
import hashlib
import http.server
import io
import tarfile
import threading
from dataclasses import replace

import numpy as np
import pytest

from ling.errors import DataFileError, OptionError
from ling.reproduction import datasets
from tests.memory import peak_memory
from tests.raising import raises


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty $LING_DATA and an empty cache."""
    named, cache = tmp_path / "data", tmp_path / "cache"
    named.mkdir()
    monkeypatch.setenv("LING_DATA", str(named))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return named, cache / "ling"


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(datasets.urllib.request, "urlopen", refuse)


@pytest.fixture
def served(tmp_path):
    """A folder and the address at which a server on this machine serves it."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


GISETTE_TEXT = "0 999 12 \n7 0 0 \n1 2 3 \n"
LABELS_TEXT = "1\n-1\n1\n"
BUZZ_TEXT = "\n".join(",".join(str(float(i + j)) for j in range(78)) for i in range(4)) + "\n"


def write_gisette(folder):
    (folder / "gisette_train.data").write_text(GISETTE_TEXT)
    (folder / "gisette_train.labels").write_text(LABELS_TEXT)


def test_gisette_parses_as_uci_publishes_it(folders):
    write_gisette(folders[0])
    found = datasets.load_gisette()
    np.testing.assert_array_equal(found.X, [[0, 999, 12], [7, 0, 0], [1, 2, 3]])
    np.testing.assert_array_equal(found.y, [1, -1, 1])
    assert found.name == "Gisette format, 3 x 3", "never just Gisette unless it is all of it"


def test_buzz_parses_as_uci_publishes_it(folders):
    (folders[0] / "Twitter.data").write_text(BUZZ_TEXT)
    found = datasets.load_buzz()
    assert found.X.shape == (4, 77)
    np.testing.assert_array_equal(found.y, [77, 78, 79, 80])
    assert "4 rows" in found.name


def test_the_named_folder_comes_before_the_cache(folders):
    named, cache = folders
    cache.mkdir(parents=True)
    write_gisette(cache)
    assert datasets.load_gisette().source.parent == cache
    write_gisette(named)
    assert datasets.load_gisette().source.parent == named


def test_the_recovered_variants_say_what_they_are(folders):
    named, _ = folders
    whole = np.ones((6000, 1000), np.uint16)
    np.savez(named / "gisette_first1000.npz", X=whole, y=np.ones(6000, np.int8))
    np.savez(
        named / "buzz_twitter_38500.npz",
        X=np.arange(12.0).reshape(6, 2), y=np.arange(6.0), part=np.array([0, 0, 1, 1, 2, 0]),
    )  # fmt: skip
    assert datasets.load_gisette().name == "Gisette, first 1000 columns"
    np.savez(named / "gisette_first1000.npz", X=whole[:6, :4], y=np.ones(6, np.int8))
    assert datasets.load_gisette().name == "Gisette, some columns, 6 x 4"
    buzz = datasets.load_buzz()
    assert buzz.name == "Buzz (Twitter), random sample of 3 rows"
    np.testing.assert_array_equal(buzz.y, [0, 1, 5])


def test_the_surrogate_is_given_only_when_asked_for(folders, offline, rng):
    pixels = rng.integers(0, 256, (6500, 784), dtype=np.uint8)
    labels = np.where(rng.random(6500) < 0.5, 1, -1).astype(np.int8)
    np.savez(folders[0] / "mnist49.npz", X=pixels, y=labels)
    with raises(DataFileError, "variant"):
        datasets.load_gisette()
    found = datasets.load_gisette("surrogate")
    assert found.X.shape == (6000, 5000)
    assert found.name == "Gisette-style surrogate from MNIST"


@pytest.mark.parametrize("load", [datasets.load_gisette, datasets.load_buzz])
def test_without_files_and_network_the_error_says_how_to_get_them(folders, offline, load):
    named, cache = folders
    with raises(DataFileError, "variant", mentions="no network") as caught:
        load()
    for word in ("LING_DATA", str(named), str(cache), "sha256", "bytes"):
        assert word in str(caught.value)
    assert not list(cache.glob("*"))


def test_a_variant_that_is_not_there_is_an_error(folders, offline):
    with raises(DataFileError, "variant", change=("variant", "auto"), mentions="'sample'"):
        datasets.load_buzz("sample")
    with raises(OptionError, "variant", mentions="['full', 'sample']"):
        datasets.load_buzz("half")


def test_a_folder_that_does_not_exist_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("LING_DATA", str(tmp_path / "nowhere"))
    with raises(DataFileError, "LING_DATA", file=str(tmp_path / "nowhere")):
        datasets.load_buzz()


def test_rows_and_labels_must_agree(folders):
    write_gisette(folders[0])
    (folders[0] / "gisette_train.labels").write_text("1\n")
    with raises(DataFileError, "variant", mentions="has 3 rows"):
        datasets.load_gisette()


def remote_for(original, address, content, member=""):
    digest = hashlib.sha256(content).hexdigest()
    return replace(original, url=address, sha256=digest, size=len(content), member=member)


def test_downloads_are_checked_kept_and_shown(folders, served, monkeypatch):
    folder, address = served
    write_gisette(folder)
    for attribute in ("GISETTE", "GISETTE_LABELS"):
        original = getattr(datasets, attribute)
        content = (folder / original.name).read_bytes()
        remote = remote_for(original, f"{address}/{original.name}", content)
        monkeypatch.setattr(datasets, attribute, remote)
    seen = []
    found = datasets.load_gisette(progress=lambda done, size: seen.append((done, size)))
    assert found.X.shape == (3, 3)
    assert seen == [(len(GISETTE_TEXT), len(GISETTE_TEXT)), (len(LABELS_TEXT), len(LABELS_TEXT))]
    for file in folder.iterdir():
        file.unlink()
    assert datasets.load_gisette().source.parent == folders[1], "the second time from the cache"


def test_buzz_is_taken_out_of_its_archive(folders, served, monkeypatch):
    folder, address = served
    content = BUZZ_TEXT.encode()
    entry = tarfile.TarInfo("regression/Twitter/Twitter.data")
    entry.size = len(content)
    with tarfile.open(folder / "all.tar.gz", "w:gz") as archive:
        archive.addfile(entry, io.BytesIO(content))
    remote = remote_for(datasets.BUZZ, f"{address}/all.tar.gz", content, entry.name)
    monkeypatch.setattr(datasets, "BUZZ", remote)
    assert datasets.load_buzz().X.shape == (4, 77)
    (folders[1] / "Twitter.data").unlink()
    monkeypatch.setattr(datasets, "BUZZ", replace(remote, member="other"))
    with raises(DataFileError, "variant", mentions="has no other"):
        datasets.load_buzz()


def test_a_file_with_the_wrong_hash_is_not_kept(folders, served, monkeypatch):
    folder, address = served
    (folder / "gisette_train.data").write_text("not it")
    remote = replace(datasets.GISETTE, url=f"{address}/gisette_train.data")
    monkeypatch.setattr(datasets, "GISETTE", remote)
    digest = hashlib.sha256(b"not it").hexdigest()
    with raises(DataFileError, "variant", mentions=f"sha256 {digest}"):
        datasets.load_gisette()
    assert not list(folders[1].iterdir())


def test_an_interrupted_download_leaves_nothing(folders, served, monkeypatch):
    folder, address = served
    write_gisette(folder)
    remote = replace(datasets.GISETTE, url=f"{address}/gisette_train.data")
    monkeypatch.setattr(datasets, "GISETTE", remote)

    def stop(done, size):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        datasets.load_gisette(progress=stop)
    assert not list(folders[1].iterdir())


def test_quadratic_features_are_all_products(rng):
    X = rng.standard_normal((5, 4))
    pairs = [X[:, i] * X[:, j] for i in range(4) for j in range(i, 4)]
    np.testing.assert_array_equal(datasets.quadratic_features(X), np.column_stack([X, *pairs]))


def test_quadratic_features_of_buzz_need_no_more_than_the_result():
    X = np.ones((200, 77))
    assert datasets.quadratic_features(X).shape == (200, 3080)
    assert peak_memory(lambda: datasets.quadratic_features(X)) < 1.1 * 200 * 3080 * 8, (
        "so 8000 rows take 0.2 GB"
    )
