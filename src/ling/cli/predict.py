"""`ling predict`: a model file and new data in, predictions out, a block at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ling._typing import UnknownRule
from ling.cli.console import CommandOutput
from ling.cli.output_paths import check_output_paths
from ling.cli.prediction_writer import (
    PREDICTION_COLUMN,
    check_prediction_path,
    open_prediction_writer,
)
from ling.cli.training_table import SCANNERS, expand_path, file_format, no_rows_error
from ling.errors import InputTypeError, MissingValueError, UnknownColumnError, Where
from ling.io import Dataset, scan_csv, scan_npy
from ling.io.arrow_source import ArrowSource
from ling.io.column_spec import check_column_names
from ling.io.column_writers import EncodingCounts, is_numeric_type, is_string_type, numeric_to_numpy
from ling.io.dataset import abbreviate_list
from ling.io.table_target import TableTargetReader
from ling.model_file import SavedModel, read_model_file
from ling.progress_bar import format_duration


@dataclass(frozen=True)
class PredictCommandOptions:
    """What the command line says."""

    keep: tuple[str, ...] = ()
    strict: bool = False
    unknown: UnknownRule = "error"


@dataclass
class StreamingScore:
    """R^2, or the share of right classes, of rows whose target is known; from sums alone."""

    is_classification: bool
    #: Whether classes are text.
    has_text_classes: bool = False
    n: int = 0
    n_correct: int = 0
    #: Rows of each class, and how many of them are predicted right.
    by_class: dict[Any, tuple[int, int]] = field(default_factory=dict)
    mean: float = 0.0
    total_sum_of_squares: float = 0.0
    residual_sum_of_squares: float = 0.0
    #: The type of targets that nothing can be compared with.
    incomparable_type: Any = None

    def can_compare(self, kind: Any) -> bool:
        """Whether targets of this Arrow type can be compared."""
        fits = is_string_type(kind) if self.has_text_classes else is_numeric_type(kind)
        self.incomparable_type = self.incomparable_type if fits else kind
        return fits

    def update(self, y: NDArray[Any], predicted: NDArray[Any]) -> None:
        """Some more rows."""
        if not len(y):
            return
        if self.is_classification:
            self.n, self.n_correct = self.n + len(y), self.n_correct + int((y == predicted).sum())
            for kind, count in zip(*np.unique(y, return_counts=True), strict=True):
                rows, right = self.by_class.get(kind.item(), (0, 0))
                here = int(((y == kind) & (y == predicted)).sum())
                self.by_class[kind.item()] = rows + int(count), right + here
            return
        mean, m, n = float(y.mean()), len(y), self.n
        # Chan, Golub & LeVeque's update: squares around a mean that is not known before.
        self.total_sum_of_squares += float(((y - mean) ** 2).sum()) + (
            mean - self.mean
        ) ** 2 * n * m / (n + m)
        self.mean += (mean - self.mean) * m / (n + m)
        self.residual_sum_of_squares += float(((y - predicted) ** 2).sum())
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
        if self.is_classification:
            return self.n_correct / self.n if self.n else None
        return (
            1 - self.residual_sum_of_squares / self.total_sum_of_squares
            if self.total_sum_of_squares > 0
            else None
        )


@dataclass
class RowAligner:
    """Columns of the file that go along with blocks of predictions."""

    batches: Iterator[Any]
    leftover: list[Any] = field(default_factory=list)

    def next_rows(self, count: int) -> Any:
        """The next rows, as a `pyarrow.Table`."""
        import pyarrow as pa

        taken = []
        while count:
            batch = self.leftover.pop() if self.leftover else next(self.batches)
            taken.append(batch.slice(0, count))
            if batch.num_rows > count:
                self.leftover.append(batch.slice(count))
            count -= taken[-1].num_rows
        tables = [pa.Table.from_batches([_decode_dictionaries(batch)]) for batch in taken]
        # Files of a folder need not have the same columns besides those of the model.
        return pa.concat_tables(tables, promote_options="permissive")


def run(path: Path, new: str, to: Path, options: PredictCommandOptions, out: CommandOutput) -> None:
    """Read, predict, write, tell."""
    check_prediction_path(to, options.keep)
    check_output_paths({"--out": to}, [path, *expand_path(new)])
    started = time.perf_counter()
    saved = read_model_file(path)
    data = _scan_new_data(saved, new, options)
    target = _target_column(saved, data)
    extra = _unused_columns(saved, data, target, options)
    if extra and options.strict:
        raise UnknownColumnError(
            "data",
            f"has columns that the model does not know: {abbreviate_list(map(repr, extra))}",
            "leave out `strict` to ignore them",
            "name them in `keep`",
            where=Where(file=new),
        )
    if extra:
        out.note(f"ignored, as the model does not use them: {abbreviate_list(extra)}")
    score, tally = _empty_score(saved.model), EncodingCounts()
    if isinstance(data.source, ArrowSource):
        data = replace(data, source=data.source.with_encoding_counts(tally))
    with (
        out.show_status(f"predicting {data.shape[0]:,} rows"),
        _advice_for_missing_values(),
        open_prediction_writer(to, data.shape[0]) as written,
    ):
        for table in _prediction_tables(saved.model, data, options.keep, target, score):
            written.write(table)
    seconds = time.perf_counter() - started
    notes = list(_data_notes(tally, score, target, data.shape[0]))
    for note in notes:
        out.note(note)
    _show_result(data.shape[0], to, target, score, seconds, out)
    out.print_json(
        {
            "rows": data.shape[0],
            "written": str(to),
            "ignored": extra,
            "seconds": seconds,
            "filled": +tally.filled,
            "unknown": +tally.unknown,
            "warnings": notes,
            "score": None
            if score.value is None
            else {
                "name": _score_name(score),
                "value": score.value,
                "rows": score.n,
                **({"recall": score.recall} if score.is_classification else {}),
            },
        }
    )


@contextmanager
def _advice_for_missing_values() -> Iterator[None]:
    """What to do about missing values in new data: only a fit can provide means."""
    try:
        yield
    except MissingValueError as error:
        raise MissingValueError(
            error.argument,
            error.problem,
            "fit the model again with `missing` mean",
            "leave such rows out",
            where=error.where,
        ) from error


def _empty_score(model: Any) -> StreamingScore:
    if not is_classifier(model):
        return StreamingScore(is_classification=False)
    return StreamingScore(
        is_classification=True, has_text_classes=np.asarray(model.classes_).dtype.kind in "UO"
    )


def check_data_format(model: Any, new: str) -> str:
    """The kind of the file `new`; raises if only one of file and model has column names."""
    kind = file_format(new)
    named = getattr(model, "encoding_", None) is not None
    if kind == "npy" and named:
        raise InputTypeError(
            "data",
            "has no column names, but the model needs "
            f"{abbreviate_list(map(repr, model.encoding_.inputs))}",
            "pass Parquet, CSV or Feather",
            where=Where(file=new),
        )
    if kind != "npy" and not named:
        raise InputTypeError(
            "data",
            "is a table, but the model was fitted to an array without column names",
            f"pass a .npy file of {model.n_features_in_} columns",
            where=Where(file=new),
        )
    return kind


def _scan_new_data(saved: SavedModel, new: str, options: PredictCommandOptions) -> Dataset:
    model = saved.model
    kind = check_data_format(model, new)
    if kind == "npy":
        data = scan_npy(new)
    elif kind == "csv":
        # What is only copied is copied as it is written: numbers of customers may begin with 0.
        used = {*model.encoding_.inputs, saved.about.get("target")}
        texts = [name for name in options.keep if name not in used]
        data = scan_csv(new, like=model, unknown=options.unknown, texts=texts)
    else:
        data = SCANNERS[kind](new, like=model, unknown=options.unknown)
    if not data.shape[0]:
        raise no_rows_error(new)
    return data


def _column_names(data: Dataset) -> tuple[str, ...]:
    reader = data.target_reader
    return reader.column_names if isinstance(reader, TableTargetReader) else ()


def _target_column(saved: SavedModel, data: Dataset) -> str | None:
    """The column that was predicted, if the new data have it too."""
    name = saved.about.get("target")
    return name if name in _column_names(data) else None


def _unused_columns(
    saved: SavedModel, data: Dataset, target: str | None, options: PredictCommandOptions
) -> list[str]:
    """Columns that nobody has a use for; those that the fit left out are no surprise."""
    known = _column_names(data)
    check_column_names(options.keep, known, "keep")
    encoding = saved.model.encoding_ if known else None
    used = {*(encoding.inputs if encoding else ()), *options.keep, target}
    used |= {*saved.about.get("left_out", ()), saved.about.get("weights")}
    return [name for name in known if name not in used]


def _prediction_tables(
    model: Any, data: Dataset, keep: tuple[str, ...], target: str | None, score: StreamingScore
) -> Iterator[Any]:
    """Predictions, with the columns to keep; the score goes along."""
    import pyarrow as pa

    names = list(dict.fromkeys([*keep, *([] if target is None else [target])]))
    others = RowAligner(data.batches(names)) if names else None
    schema = None
    for rows, found in model.predict_blocks(data):
        predicted = np.asarray(found)
        table = pa.table({}) if others is None else others.next_rows(rows.stop - rows.start)
        if target is not None and score.can_compare(table.column(target).type):
            score.update(*_present_targets(table.column(target), predicted))
        columns = {name: table.column(name) for name in keep}
        values = predicted.astype(str) if predicted.dtype == object else predicted
        kept = pa.table({**columns, PREDICTION_COLUMN: values})
        schema = schema or kept.schema.with_metadata({"dtype": _npy_dtype(model, values)})
        yield _cast_to_schema(kept, schema).replace_schema_metadata(schema.metadata)


def _cast_to_schema(table: Any, schema: Any) -> Any:
    """The table with the types of the first rows."""
    import pyarrow as pa

    try:
        return table.cast(schema)
    except pa.ArrowInvalid as error:
        raise InputTypeError(
            "keep",
            f"has columns whose type differs from file to file ({error})",
            "leave them out of `keep`",
            "write them with one type",
        ) from error


def _npy_dtype(model: Any, values: NDArray[Any]) -> str:
    """Texts of all classes have to fit, not only those of the first rows."""
    if values.dtype.kind == "U":
        return np.asarray(model.classes_).astype(str).dtype.str
    return values.dtype.str


def _present_targets(column: Any, predicted: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Targets that are there, and what was predicted for them."""
    array = column.combine_chunks()
    if is_string_type(array.type):
        there = ~np.asarray(array.is_null().to_numpy(zero_copy_only=False))
        return np.asarray(array.to_numpy(zero_copy_only=False))[there].astype(str), predicted[
            there
        ].astype(str)
    y = numeric_to_numpy(array).astype(np.float64)
    there = ~np.isnan(y)
    return y[there], predicted[there].astype(np.float64)


def _data_notes(
    tally: EncodingCounts, score: StreamingScore, target: str | None, n: int
) -> Iterator[str]:
    """What was done about values that the model cannot use."""
    words = (
        (
            tally.filled,
            "missing values, filled with the mean of the training data (missing text: no category)",
        ),
        (tally.unknown, "texts that the fit has not seen, treated as no category"),
    )
    for counts, what in words:
        found = [
            f"{name!r} ({'every row' if count == n else f'{count:,} of {n:,} rows'})"
            for name, count in counts.items()
            if count
        ]
        if found:
            yield f"{what}: {abbreviate_list(found)}"
    if score.incomparable_type is not None:
        number = (
            "numbers"
            if is_numeric_type(score.incomparable_type)
            else f"of type {score.incomparable_type}"
        )
        kind = "text" if is_string_type(score.incomparable_type) else number
        yield f"{target!r} is {kind} here; no score."


def _decode_dictionaries(batch: Any) -> Any:
    """Texts as texts: files read them as numbers of categories."""
    import pyarrow as pa

    arrays = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _score_name(score: StreamingScore) -> str:
    return "accuracy" if score.is_classification else "R²"


def _show_result(
    n: int, to: Path, target: str | None, score: StreamingScore, seconds: float, out: CommandOutput
) -> None:
    out.show(f"{n:,} predictions in {format_duration(seconds)}, written to {to}")
    if score.value is not None:
        out.show(
            f"{_score_name(score)} {score.value:.4f} on the {score.n:,} rows that have {target!r}"
        )
    if score.recall:
        shares = abbreviate_list(f"{kind} {share:.4f}" for kind, share in score.recall.items())
        out.show(f"recall of each class, the worst first: {shares}")
