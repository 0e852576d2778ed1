"""`ling predict`: a model file and new data in, predictions out, a block at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ling.cli.out import Out
from ling.cli.places import check_places
from ling.cli.reading import SCANS, files_of, kind_of
from ling.cli.writing import PREDICTION, check_sink, sink
from ling.errors import BadOption, UnknownColumn, WrongType
from ling.progress_bar import duration
from ling.saving import Saved, read
from ling.scan import Dataset, scan_csv, scan_npy
from ling.scan.arrow import ArrowSource, TableOthers
from ling.scan.asked import check_known
from ling.scan.convert import Tally, is_number, is_string, numbers
from ling.scan.dataset import listed


@dataclass(frozen=True)
class PredictOptions:
    """What the command line says."""

    keep: tuple[str, ...] = ()
    strict: bool = False
    unknown: str = "error"


@dataclass
class Score:
    """R^2, or the share of right classes, of rows whose target is known; from sums alone."""

    classes: bool
    #: Whether classes are text.
    texts: bool = False
    n: int = 0
    right: int = 0
    #: Rows of each class, and how many of them are predicted right.
    by_class: dict[Any, tuple[int, int]] = field(default_factory=dict)
    mean: float = 0.0
    around: float = 0.0
    off: float = 0.0
    #: The type of targets that nothing can be compared with.
    other: Any = None

    def takes(self, kind: Any) -> bool:
        """Whether targets of this Arrow type can be compared."""
        fits = is_string(kind) if self.texts else is_number(kind)
        self.other = self.other if fits else kind
        return fits

    def add(self, y: NDArray[Any], predicted: NDArray[Any]) -> None:
        """Some more rows."""
        if not len(y):
            return
        if self.classes:
            self.n, self.right = self.n + len(y), self.right + int((y == predicted).sum())
            for kind, count in zip(*np.unique(y, return_counts=True), strict=True):
                rows, right = self.by_class.get(kind.item(), (0, 0))
                here = int(((y == kind) & (y == predicted)).sum())
                self.by_class[kind.item()] = rows + int(count), right + here
            return
        mean, m, n = float(y.mean()), len(y), self.n
        # Chan, Golub & LeVeque's update: squares around a mean that is not known before.
        self.around += float(((y - mean) ** 2).sum()) + (mean - self.mean) ** 2 * n * m / (n + m)
        self.mean += (mean - self.mean) * m / (n + m)
        self.off += float(((y - predicted) ** 2).sum())
        self.n += m

    @property
    def recall(self) -> dict[str, float]:
        """The share of each class that is predicted right, the worst first."""
        shares = {f"{kind:.17g}" if isinstance(kind, float) else str(kind): right / rows
                  for kind, (rows, right) in self.by_class.items()}  # fmt: skip
        return dict(sorted(shares.items(), key=lambda item: item[1]))

    @property
    def value(self) -> float | None:
        """None if it is not defined."""
        if self.classes:
            return self.right / self.n if self.n else None
        return 1 - self.off / self.around if self.around > 0 else None


@dataclass
class Alongside:
    """Columns of the file that go along with blocks of predictions."""

    batches: Iterator[Any]
    waiting: list[Any] = field(default_factory=list)

    def take(self, count: int) -> Any:
        """The next rows, as a `pyarrow.Table`."""
        import pyarrow as pa

        taken = []
        while count:
            batch = self.waiting.pop() if self.waiting else next(self.batches)
            taken.append(batch.slice(0, count))
            if batch.num_rows > count:
                self.waiting.append(batch.slice(count))
            count -= taken[-1].num_rows
        tables = [pa.Table.from_batches([_decoded(batch)]) for batch in taken]
        # Files of a folder need not have the same columns besides those of the model.
        return pa.concat_tables(tables, promote_options="permissive")


def run(path: Path, new: str, to: Path, options: PredictOptions, out: Out) -> None:
    """Read, predict, write, tell."""
    check_sink(to, options.keep)
    check_places({"--out": to}, [path, *files_of(new)])
    started = time.perf_counter()
    saved = read(path)
    data = _scanned(saved, new, options)
    target = _target(saved, data)
    extra = _extra(saved, data, target, options)
    if extra and options.strict:
        raise UnknownColumn(
            f"{new!r} has columns that the model does not know: {listed(map(repr, extra))}; leave "
            "out --strict to ignore them, or name them in --keep."
        )
    if extra:
        out.note(f"ignored, as the model does not use them: {listed(extra)}")
    score, tally = _score(saved.model), Tally()
    if isinstance(data.source, ArrowSource):
        data.source.tally = tally
    with out.doing(f"predicting {data.shape[0]:,} rows"), sink(to, data.shape[0]) as written:
        for table in _tables(saved.model, data, options.keep, target, score):
            written.write(table)
    seconds = time.perf_counter() - started
    notes = list(_notes(tally, score, target, data.shape[0]))
    for note in notes:
        out.note(note)
    _tell(data.shape[0], to, target, score, seconds, out)
    out.result(
        {
            "rows": data.shape[0], "written": str(to), "ignored": extra, "seconds": seconds,
            "filled": +tally.missing, "unknown": +tally.unknown, "warnings": notes,
            "score": None if score.value is None else {
                "name": _score_name(score), "value": score.value, "rows": score.n,
                **({"recall": score.recall} if score.classes else {}),
            },
        }
    )  # fmt: skip


def _score(model: Any) -> Score:
    if not is_classifier(model):
        return Score(classes=False)
    return Score(classes=True, texts=np.asarray(model.classes_).dtype.kind in "UO")


def _scanned(saved: Saved, new: str, options: PredictOptions) -> Dataset:
    kind, model = kind_of(new), saved.model
    named = getattr(model, "encoding_", None) is not None
    if kind == "npy" and named:
        raise WrongType(
            f"{new!r} has no names of columns, and the model needs "
            f"{listed(map(repr, model.encoding_.inputs))}; pass Parquet, CSV or Feather."
        )
    if kind != "npy" and not named:
        raise WrongType(
            f"the model was fitted to an array of {model.n_features_in_} columns without names; "
            f"{new!r} is a table, so pass a .npy file of as many columns."
        )
    if kind == "npy":
        data = scan_npy(new)
    elif kind == "csv":
        # What is only copied is copied as it is written: numbers of customers may begin with 0.
        used = {*model.encoding_.inputs, saved.about.get("target")}
        texts = [name for name in options.keep if name not in used]
        data = scan_csv(new, like=model, unknown=options.unknown, texts=texts)
    else:
        data = SCANS[kind](new, like=model, unknown=options.unknown)
    if not data.shape[0]:
        raise BadOption(f"{new!r} has no rows.")
    return data


def _known(data: Dataset) -> tuple[str, ...]:
    return data.others.known if isinstance(data.others, TableOthers) else ()


def _target(saved: Saved, data: Dataset) -> str | None:
    """The column that was predicted, if the new data have it too."""
    name = saved.about.get("target")
    return name if name in _known(data) else None


def _extra(saved: Saved, data: Dataset, target: str | None, options: PredictOptions) -> list[str]:
    """Columns that nobody has a use for; those that the fit left out are no surprise."""
    known = _known(data)
    check_known(options.keep, known, "--keep")
    encoding = saved.model.encoding_ if known else None
    used = {*(encoding.inputs if encoding else ()), *options.keep, target}
    used |= {*saved.about.get("left_out", ()), saved.about.get("weights")}
    return [name for name in known if name not in used]


def _tables(
    model: Any, data: Dataset, keep: tuple[str, ...], target: str | None, score: Score
) -> Iterator[Any]:
    """Predictions, with the columns to keep; the score goes along."""
    import pyarrow as pa

    names = list(dict.fromkeys([*keep, *([] if target is None else [target])]))
    others = Alongside(data.batches(names)) if names else None
    schema = None
    for rows, found in model.predict_blocks(data.X):
        predicted = np.asarray(found)
        table = pa.table({}) if others is None else others.take(rows.stop - rows.start)
        if target is not None and score.takes(table.column(target).type):
            score.add(*_known_targets(table.column(target), predicted))
        columns = {name: table.column(name) for name in keep}
        values = predicted.astype(str) if predicted.dtype == object else predicted
        kept = pa.table({**columns, PREDICTION: values})
        schema = schema or kept.schema.with_metadata({"dtype": _npy_kind(model, values)})
        yield _like(kept, schema).replace_schema_metadata(schema.metadata)


def _like(table: Any, schema: Any) -> Any:
    """The table with the types of the first rows."""
    import pyarrow as pa

    try:
        return table.cast(schema)
    except pa.ArrowInvalid as error:
        raise WrongType(
            f"columns of --keep change their type from file to file ({error}); leave them out of "
            "--keep, or write them with one type."
        ) from error


def _npy_kind(model: Any, values: NDArray[Any]) -> str:
    """Texts of all classes have to fit, not only those of the first rows."""
    if values.dtype.kind == "U":
        return np.asarray(model.classes_).astype(str).dtype.str
    return values.dtype.str


def _known_targets(column: Any, predicted: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Targets that are there, and what was predicted for them."""
    array = column.combine_chunks()
    if is_string(array.type):
        there = ~np.asarray(array.is_null().to_numpy(zero_copy_only=False))
        return np.asarray(array.to_numpy(zero_copy_only=False))[there].astype(str), predicted[
            there
        ].astype(str)
    y = numbers(array).astype(np.float64)
    there = ~np.isnan(y)
    return y[there], predicted[there].astype(np.float64)


def _notes(tally: Tally, score: Score, target: str | None, n: int) -> Iterator[str]:
    """What was done about values that the model cannot use."""
    words = (
        (tally.missing, "missing values, for which the mean of the fit (or no category) stands"),
        (tally.unknown, "texts that the fit has not seen, treated as no category"),
    )
    for counts, what in words:
        found = [
            f"{name!r} ({'every row' if count == n else f'{count:,} of {n:,} rows'})"
            for name, count in counts.items()
            if count
        ]
        if found:
            yield f"{what}: {listed(found)}"
    if score.other is not None:
        number = "numbers" if is_number(score.other) else f"of type {score.other}"
        kind = "text" if is_string(score.other) else number
        yield f"{target!r} is {kind} here; no score."


def _decoded(batch: Any) -> Any:
    """Texts as texts: files read them as numbers of categories."""
    import pyarrow as pa

    arrays = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _score_name(score: Score) -> str:
    return "accuracy" if score.classes else "R²"


def _tell(n: int, to: Path, target: str | None, score: Score, seconds: float, out: Out) -> None:
    out.show(f"{n:,} predictions in {duration(seconds)}, written to {to}")
    if score.value is not None:
        out.show(
            f"{_score_name(score)} {score.value:.4f} on the {score.n:,} rows that have {target!r}"
        )
    if score.recall:
        shares = listed(f"{kind} {share:.4f}" for kind, share in score.recall.items())
        out.show(f"recall of each class, the worst first: {shares}")
