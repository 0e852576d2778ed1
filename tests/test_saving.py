"""Model files: the same model again, and nothing but numbers and text in them."""

import copy
import io
import json
import os
import pickle
import random
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier
from sklearn.model_selection import KFold

import ling
from ling import (
    LingClassifier,
    LingRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    scan_arrow,
)
from ling.errors import (
    DataFileError,
    FileWriteError,
    InputTypeError,
    InvalidInputError,
    LingError,
    ModelFileError,
    OptionError,
)
from ling.model_file import read_model_file
from ling.model_file.archive import FORMAT_VERSION, HEADER_ENTRY, SAVABLE_MODELS
from tests.raising import raises

N = 60
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, 4)) * [1, 10, 0.1, 3]
Y = X @ [1.0, -0.2, 3.0, 0.0] + RNG.standard_normal(N)
BOTH = np.column_stack([Y, -2 * Y + 1])
TABLE = pa.table(
    {"size": X[:, 0], "colour": RNG.choice(["red", "blå", "green"], N), "odd": np.arange(N) % 2}
)
KINDS = np.array(["low", "mid", "high"])[np.digitize(Y, [-1.0, 1.0])]


def of_table(model, y):
    return model.fit(scan_arrow(TABLE).X, y), TABLE


def of_array(model, y, features=X):
    return model.fit(features, y), features


MODELS = {
    "ridge": lambda: of_array(Ridge(2.0, store_covariance=True), Y),
    "ridge-alphas": lambda: of_array(Ridge(np.array([1.0, 2.0])), BOTH),
    "ridge-float32": lambda: (Ridge().fit(X.astype(np.float32), Y), X.astype(np.float32)),
    "ridge-no-intercept": lambda: of_array(Ridge(fit_intercept=False), Y),
    "ridge-draws": lambda: of_array(Ridge(store_covariance=True, memory_budget=200), Y),
    "ridge-singular": lambda: of_array(
        Ridge(1e-12, store_covariance=True), Y, np.column_stack([X, X[:, 0] + 1e-6 * X[:, 1]])
    ),
    "ridge-wide": lambda: (Ridge(store_covariance=True).fit(X.T, X.T[:, 0]), X.T),
    "ridge-partial": lambda: (Ridge().partial_fit(X, Y), X),
    "ridge-positive": lambda: of_array(Ridge(positive=True), Y),
    "ridge-table": lambda: of_table(Ridge(), Y),
    "cv": lambda: of_array(RidgeCV(), Y),
    "cv-stored": lambda: of_array(RidgeCV(store_cv_results=True, alphas=[0.1, 1, 10]), Y),
    "cv-folds": lambda: of_table(RidgeCV(cv=3, alphas=(0.1, 1.0, 10.0)), Y),
    "cv-targets": lambda: of_array(RidgeCV(cv=3, alpha_per_target=True), BOTH),
    "classifier": lambda: of_array(RidgeClassifier(class_weight={0: 1.0, 1: 2.0}), Y > 0),
    "classifier-objects": lambda: of_array(RidgeClassifier(), KINDS.astype(object)),
    "classifier-cv": lambda: of_table(RidgeClassifierCV(cv=3), KINDS),
    "classifier-integers": lambda: of_array(RidgeClassifierCV(), np.arange(N) % 3),
    "ling": lambda: of_array(LingRegressor(3.0, n_iter=4), Y),
    "ling-classifier": lambda: of_table(LingClassifier(3.0, n_iter=4), KINDS),
    "classifier-labels": lambda: of_array(RidgeClassifier(), (BOTH > 0).astype(int)),
}
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def fitted():
    """Every model, fitted once."""
    return {name: make() for name, make in MODELS.items()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ling"


def saved(model, path, **options):
    ling.save(model, path, **options)
    return ling.load(path)


@every_model
def test_the_same_to_the_last_bit(name, fitted, path):
    model, new = fitted[name]
    again = saved(model, path)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(new), model.predict(new), strict=True)
    for attribute in ("coef_", "intercept_", "n_iter_"):
        mine, theirs = getattr(again, attribute), getattr(model, attribute)
        np.testing.assert_array_equal(mine, theirs)
        assert type(mine) is type(theirs)
    if is_classifier(model):
        np.testing.assert_array_equal(again.classes_, model.classes_, strict=True)
        np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))


@every_model
def test_what_a_model_tells_is_kept(name, fitted, path):
    model, _ = fitted[name]
    again = saved(model, path)
    assert str(again.report_) == str(model.report_)
    assert repr(again) == repr(model)
    assert again.n_features_in_ == model.n_features_in_
    assert getattr(again, "encoding_", None) == getattr(model, "encoding_", None)
    names = [getattr(m, "feature_names_in_", None) for m in (again, model)]
    np.testing.assert_array_equal(*names)
    if hasattr(model, "cv_scores_"):
        for attribute in ("alpha_", "alpha_1se_", "alphas_", "best_score_"):
            np.testing.assert_array_equal(getattr(again, attribute), getattr(model, attribute))
        assert repr(again.cv_scores_) == repr(model.cv_scores_)
        for attribute in ("alphas", "mean_score", "std_error", "split_scores", "certified"):
            mine, theirs = (getattr(m.cv_scores_, attribute) for m in (again, model))
            np.testing.assert_array_equal(mine, theirs)
    assert hasattr(again, "cv_results_") is hasattr(model, "cv_results_")
    if hasattr(model, "cv_results_"):
        np.testing.assert_array_equal(again.cv_results_, model.cv_results_, strict=True)
    if getattr(model, "store_covariance", False):
        np.testing.assert_array_equal(again.coef_std_errors(), model.coef_std_errors())
        np.testing.assert_array_equal(again.edf_, model.edf_)
        assert again.covariance_method_ == model.covariance_method_


def test_every_kind_of_covariance_is_tested(fitted):
    kept = [m._uncertainty_state for m, _ in fitted.values() if hasattr(m, "covariance_method_")]
    assert {type(k.posterior).__name__ for k in kept} == {
        "FromGram", "FromRows", "FromSVD", "FromDraws",
    }  # fmt: skip


def test_batches_can_be_added_to_a_loaded_model(path):
    model = saved(Ridge().partial_fit(X[:40], Y[:40]), path)
    whole = Ridge().partial_fit(X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
    np.testing.assert_array_equal(model.partial_fit(X[40:], Y[40:]).coef_, whole.coef_)


def test_parameters_that_are_no_data_are_described(path):
    model = RidgeCV(cv=KFold(3, shuffle=True, random_state=0), random_state=np.random.RandomState())
    found = saved(model.fit(X, Y), path)
    assert found.cv is None
    assert found.random_state is None
    assert "cv was KFold(n_splits=3, random_state=0, shuffle=True), which" in str(found.report_)
    assert set(read_model_file(path).unsaved_parameters) == {"cv", "random_state"}
    np.testing.assert_array_equal(found.cv_scores_.split_scores, model.cv_scores_.split_scores)


def test_what_the_user_says_about_it(path):
    about = {"target": "price", "rows": 3, "seen": [1.5, None, "ü"]}
    ling.save(Ridge().fit(X, Y), path, about=about)
    assert read_model_file(path).about == about
    assert read_model_file(path).ling_version == ling.__version__
    with raises(OptionError, "about", mentions="JSON"):
        ling.save(Ridge().fit(X, Y), path, about={"model": object()})
    with raises(OptionError, "about", mentions="is a list"):
        ling.save(Ridge().fit(X, Y), path, about=[1])
    assert read_model_file(path).about == about


def test_what_cannot_be_saved(path, tmp_path):
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LinearRegression

    with pytest.raises(NotFittedError):
        ling.save(Ridge(), path)
    with raises(InputTypeError, "model", mentions="LinearRegression"):
        ling.save(LinearRegression().fit(X, Y), path)
    with pytest.raises(FileWriteError, match="does not exist"):
        ling.save(Ridge().fit(X, Y), tmp_path / "no" / "model.ling")
    with pytest.raises(FileWriteError, match="is a folder"):
        ling.save(Ridge().fit(X, Y), tmp_path)
    mixed = Ridge().fit(X, Y)
    mixed.notes_ = np.array([1, "a"], dtype=object)
    with raises(InputTypeError, "model", mentions="notes_"):
        ling.save(mixed, path)
    assert not list(tmp_path.iterdir())


def test_a_file_is_replaced_whole_or_not_at_all(path, monkeypatch):
    ling.save(Ridge().fit(X, Y), path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(ling.model_file.archive.npy, "write_array", fail)
    with pytest.raises(KeyboardInterrupt):
        ling.save(Ridge(5.0).fit(X, Y), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


# What comes from others.


@pytest.fixture(scope="module")
def good(tmp_path_factory, fitted):
    """The bytes of a model file, and the predictions of its model."""
    path = tmp_path_factory.mktemp("good") / "model.ling"
    model, new = fitted["classifier-cv"]
    ling.save(model, path)
    return path.read_bytes(), model.predict(new)


@pytest.fixture(scope="module")
def attempt(tmp_path_factory, good):
    """Loads bytes: the same predictions, or the problem of a ModelFileError, and nothing else."""
    path = tmp_path_factory.mktemp("attempt") / "model.ling"

    def load(content):
        path.write_bytes(content)
        try:
            model = ling.load(path)
        except ModelFileError as found:
            error = found
        else:
            np.testing.assert_array_equal(model.predict(TABLE), good[1])
            return ""
        assert (error.argument, error.where.file) == ("path", str(path))
        return error.problem

    return load


@settings(max_examples=150)
@given(st.data())
def test_files_that_are_cut_off(good, attempt, data):
    content = good[0]
    end = data.draw(st.integers(0, len(content) - 1))
    assert attempt(content[:end])


@settings(max_examples=300)
@given(st.data())
def test_files_with_flipped_bits(good, attempt, data):
    content = bytearray(good[0])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    attempt(bytes(content))


@settings(max_examples=60)
@given(st.data())
def test_flipped_bits_in_what_counts_are_found(good, attempt, data):
    """Those of the entries themselves, not of the archive's own book-keeping such as dates."""
    with zipfile.ZipFile(io.BytesIO(good[0])) as archive:
        info = data.draw(st.sampled_from(archive.infolist()))
        begin = info.header_offset + 30 + len(info.filename)
    extra = int.from_bytes(good[0][info.header_offset + 28 : info.header_offset + 30], "little")
    content = bytearray(good[0])
    content[begin + extra + data.draw(st.integers(0, info.file_size - 1))] ^= 1
    assert "is damaged" in attempt(bytes(content))


@settings(max_examples=100)
@given(st.binary(max_size=400))
def test_files_of_anything(attempt, content):
    assert "not a model file" in attempt(content)


def rewritten(content, change, *, compress=zipfile.ZIP_STORED):
    """The archive with other entries and right checksums: damage that is meant."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", compress) as new:
        entries = {name: old.read(name) for name in old.namelist()}
        header = json.loads(entries[HEADER_ENTRY])
        change(header, entries)
        for name, entry in entries.items():
            new.writestr(name, json.dumps(header) if name == HEADER_ENTRY else entry)
    return out.getvalue()


FUSE = []


def go_off():
    FUSE.append("ran")


class Bomb:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return (go_off, ())


def as_npy(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


def pickled(header, entries):
    entries["0.npy"] = as_npy(np.array([Bomb()], dtype=object), allow_pickle=True)


def bare_pickle(header, entries):
    entries["0.npy"] = pickle.dumps(Bomb())


def huge(header, entries):
    entries["0.npy"] = entries["0.npy"].replace(b"(", b"(99999999999,", 1)


def unclosed_header(header, entries):
    entries["0.npy"] = entries["0.npy"].replace(b")", b" ", 1)


def negative(header, entries):
    entries["0.npy"] = entries["0.npy"].replace(b"(", b"(-", 1)


def missing_entry(header, entries):
    del entries["1.npy"]


def other_class(header, entries):
    header["model"] = "LinearRegression"


def code(header, entries):
    header["attributes"]["coef_"] = {
        "dict": [["ling class", "os.system"], ["fields", {"tuple": []}]]
    }


def private(header, entries):
    header["attributes"]["__class__"] = 1


def method(header, entries):
    header["attributes"]["coef_"] = {"part_": "x"}


def reader(header, entries):
    header["attributes"]["coef_"] = {"value": 1}


def parameter(header, entries):
    header["parameters"]["nothing"] = 1


def deep(header, entries):
    nested = 1
    for _ in range(400):
        nested = {"list": [nested]}
    header["attributes"]["n_iter_"] = nested
    header["attributes"]["encoding_"] = nested


def many_uses(header, entries):
    header["attributes"]["n_iter_"] = header["attributes"]["coef_"]


def other_shape(header, entries):
    entries["2.npy"] = as_npy(np.ones((2, 2)))
    number = header["attributes"]["coef_"]["array"]
    entries[f"{number}.npy"] = as_npy(np.ones((3, 99)))


def other_width(header, entries):
    header["attributes"]["n_features_in_"] = 10**12


def no_encoding(header, entries):
    header["attributes"]["encoding_"]["dict"][1][1] = {"tuple": [{"tuple": [1]}, "error"]}


def text_coefficients(header, entries):
    number = header["attributes"]["coef_"]["array"]
    entries[f"{number}.npy"] = as_npy(np.full((3, 5), "a"))


def other_classes(header, entries):
    header["attributes"]["classes_"] = {"texts": ["a", "b"]}


def no_attributes(header, entries):
    header["attributes"] = {}


def header_is_a_list(header, entries):
    header["attributes"] = [1]


MEANT = (
    pickled, bare_pickle, huge, unclosed_header, negative, missing_entry, other_class, code,
    private, method, reader, parameter, deep, many_uses, other_shape, other_width, no_encoding,
    text_coefficients, other_classes, no_attributes, header_is_a_list,
)  # fmt: skip


@pytest.mark.parametrize("change", MEANT, ids=lambda change: change.__name__)
def test_damage_that_is_meant(good, attempt, change):
    assert "is damaged" in attempt(rewritten(good[0], change))
    assert not FUSE


@pytest.mark.filterwarnings("ignore")  # of Python's parser
def test_damaged_headers_of_arrays(good, attempt):
    """With right checksums, so that NumPy's reader gets to see them."""
    rng = random.Random(0)

    def change(header, entries):
        name = rng.choice([name for name in entries if name != HEADER_ENTRY])
        content, at = bytearray(entries[name]), rng.randrange(6, 70)
        if rng.random() < 0.5:
            content[at] = rng.randrange(256)
        else:
            del content[at : at + rng.randint(1, 5)]
        entries[name] = bytes(content)

    refused = [attempt(rewritten(good[0], change)) for _ in range(150)]
    assert sum("is damaged" in error for error in refused) > 50


def test_the_bomb_would_have_gone_off():
    pickle.loads(pickle.dumps(Bomb()))
    assert FUSE == ["ran"]
    FUSE.clear()


def test_rewriting_alone_does_no_harm(good, attempt):
    assert not attempt(rewritten(good[0], lambda header, entries: None))


def test_what_would_grow_is_refused(good, attempt):
    content = rewritten(good[0], lambda *a: None, compress=zipfile.ZIP_DEFLATED)
    assert "larger than all of it" in attempt(content)
    longer = io.BytesIO(content)
    with zipfile.ZipFile(longer, "a") as archive:
        archive.comment = b" " * 50_000
    assert "model.json is compressed" in attempt(longer.getvalue())


def test_other_archives_and_versions(good, attempt):
    def newer(header, entries):
        header["format"] = FORMAT_VERSION + 1
        header["ling"] = "9.9"

    def older(header, entries):
        header["format"] = "x"

    def no_header(header, entries):
        del entries[HEADER_ENTRY]

    assert f"format {FORMAT_VERSION + 1} of ling 9.9" in attempt(rewritten(good[0], newer))
    assert "damaged (format 'x')" in attempt(rewritten(good[0], older))
    assert "zip archive" in attempt(rewritten(good[0], no_header))


def test_paths_that_lead_nowhere(tmp_path):
    for place in (tmp_path, tmp_path / "no.ling"):
        with raises(DataFileError, "path", file=str(place)):
            ling.load(place)
    assert issubclass(ModelFileError, LingError)


#: What a value in `model.json` is replaced by: something of every type.
OTHER_VALUES = [
    None, True, -1, 1.5, "x", [], {}, {"float": "nan"}, {"list": [1, 2]}, {"tuple": []},
    {"dict": []}, {"texts": ["a", "b"]}, {"array": 1}, {"scalar": 0}, {"unknown": 1}, 10**400,
]  # fmt: skip
# Numbers and names that may be edited by hand: a file with others of the same type is as good.
EDITABLE = ("about", "ling", "intercept_", "classes", "classes_", "mean")


def json_paths(node, path=()):
    """The keys that lead to every value of JSON."""
    if path:
        yield path
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        yield from json_paths(value, (*path, key))


def edit_json(header, path, change):
    """JSON with `change(container, key)` applied to the value at a path."""
    header = copy.deepcopy(header)
    node = header
    for key in path[:-1]:
        node = node[key]
    change(node, path[-1])
    return header


def _add_key(node, key):
    """Add a key to a JSON object, or an item to a list; other values stay."""
    if isinstance(node[key], dict):
        node[key]["extra"] = 1
    elif isinstance(node[key], list):
        node[key].append(1)


def edited_headers(header):
    """Every value left out, every value replaced, and a key added to every object."""
    for other in SAVABLE_MODELS.keys() - {header["model"]}:
        yield ("model",), header | {"model": other}
    for path in json_paths(header):
        if path[0] in EDITABLE or len(path) > 6:
            continue
        yield path, edit_json(header, path, lambda node, key: node.pop(key))
        yield path, edit_json(header, path, _add_key)
        for value in OTHER_VALUES:
            yield (
                path,
                edit_json(
                    header, path, lambda node, key, value=value: node.__setitem__(key, value)
                ),
            )


FUZZED = {
    "covariance": lambda X, y: Ridge(store_covariance=True).fit(X, y),
    "choice": lambda X, y: RidgeCV([0.1, 1.0]).fit(X, y),
    "classes": lambda X, y: RidgeClassifier().fit(X, np.array(list("abc"))[np.arange(len(y)) % 3]),
    "table": lambda X, y: Ridge().fit(
        scan_arrow(pa.table({"a": X[:, 0], "b": ["u", "v"] * (len(X) // 2), "y": y}), target="y")
    ),
}


@pytest.mark.parametrize("name", FUZZED)
def test_edited_json_is_refused_or_gives_the_same_model(name, path, rng):
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    model = FUZZED[name](X, y)
    new = pa.table({"a": X[:, 0], "b": ["u", "v"] * 15}) if name == "table" else X
    expected = model.predict(new)
    ling.save(model, path)
    with zipfile.ZipFile(path) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    header, n_refused, n_loaded = json.loads(entries["model.json"]), 0, 0
    for place, edited in edited_headers(header):
        with zipfile.ZipFile(path, "w") as archive:
            for entry, content in (entries | {"model.json": json.dumps(edited)}).items():
                archive.writestr(entry, content)
        try:
            loaded = ling.load(path)
        except ModelFileError:
            n_refused += 1
            continue
        n_loaded += 1
        if set(place) & set(EDITABLE):
            continue
        np.testing.assert_array_equal(loaded.predict(new), expected, err_msg=str(place))
        assert "solved by" in str(loaded.report_)
        loaded.to_sklearn()
    assert n_refused > n_loaded > 0


def test_a_covariance_that_no_fit_has_is_refused(path):
    """With right checksums, so that only its use shows it."""
    ling.save(Ridge(store_covariance=True).fit(X, Y), path)

    def negate(header, entries):
        for name, entry in entries.items():
            if b"(4, 4)" in entry[:100]:
                entries[name] = as_npy(-np.eye(4))

    path.write_bytes(rewritten(path.read_bytes(), negate))
    with raises(InvalidInputError, "model", mentions="not positive definite"):
        ling.load(path).coef_std_errors()
