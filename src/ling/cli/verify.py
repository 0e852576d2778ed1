"""`ling verify`: a solution and its data in, a proven bound on its error out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ling.cli.coefficient_file import is_coefficient_file, read_coefficient_file
from ling.cli.console import CommandOutput
from ling.cli.model_summary import describe_bound
from ling.cli.options import DataOptions
from ling.cli.predict import check_data_format
from ling.cli.progress import show_progress
from ling.cli.training_table import (
    file_format,
    load_weights,
    no_rows_error,
    read_training_table,
    read_weights,
)
from ling.errors import Change, MissingValueError, ModelFileError, OptionError, Where
from ling.estimators import certify
from ling.estimators.certify_solution import certify_solution
from ling.estimators.fit_session import fitted_alpha
from ling.estimators.out_of_sample import revalidate_training_data
from ling.io import Dataset, scan_npy
from ling.io.column_spec import check_column_names
from ling.io.dataset import abbreviate_list
from ling.io.table_profile import OpenTable
from ling.model_file import SavedModel, read_model_file
from ling.results import Certificate
from ling.solvers.options import FitOptions


@dataclass(frozen=True)
class VerifyCommandOptions:
    """How to verify, as the command line says; None is what the model file has."""

    data: str
    alpha: float | None = None
    target: str | None = None
    weights: str | None = None
    missing: Any = "error"
    skip_missing_target: bool = False
    memory_budget: str | None = None
    tol: float = 1e-4
    seed: int = 0

    @property
    def fit_options(self) -> FitOptions:
        """The options for the certificate."""
        return FitOptions(
            tol=self.tol, precision="float64", random_state=self.seed,
            memory_budget=self.memory_budget,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Verdict:
    """The certificate of a solution, and the problem that it is about."""

    certificate: Certificate
    alpha: Any
    fit_intercept: bool
    shape: tuple[int, int]
    notes: tuple[str, ...] = ()


def run(path: Path, options: VerifyCommandOptions, out: CommandOutput) -> bool:
    """Read, certify, tell; True if the bound is within tol."""
    started = time.perf_counter()
    verify = _verify_coefficients if is_coefficient_file(path) else _verify_model
    verdict = verify(path, options, out)
    certificate = verdict.certificate
    notes = (*verdict.notes, *([f"{certificate.note}."] if certificate.note else []))
    for note in notes:
        out.note(note)
    out.show(f"{path}: {_describe_proof(verdict)}.")
    out.show(f"The exact solution is that of {_describe_problem(verdict, options.data)}.")
    out.print_json(
        {
            "solution": str(path),
            "data": options.data,
            "proved": certificate.holds,
            "bound": certificate.bound,
            "bounds": certificate.bounds,
            "tol": certificate.tol,
            "alpha": verdict.alpha,
            "fit_intercept": verdict.fit_intercept,
            "shape": verdict.shape,
            "seconds": time.perf_counter() - started,
            "warnings": notes,
        }
    )
    return certificate.holds


def _describe_proof(verdict: Verdict) -> str:
    if not np.all(verdict.alpha):
        return "nothing could be proved, because alpha is 0, where no bound exists"
    return describe_bound(verdict.certificate)


def _describe_problem(verdict: Verdict, data: str) -> str:
    n, p = verdict.shape
    alpha = ", ".join(f"{value:.6g}" for value in np.atleast_1d(verdict.alpha))
    intercept = "with" if verdict.fit_intercept else "without"
    return (
        f"ridge regression with alpha {alpha}, {intercept} an intercept, "
        f"on the {n:,} rows and {p:,} columns of numbers in {data}"
    )


def _verify_coefficients(path: Path, options: VerifyCommandOptions, out: CommandOutput) -> Verdict:
    """Certify the coefficients of a CSV file."""
    if options.alpha is None or options.target is None:
        name = "alpha" if options.alpha is None else "target"
        raise OptionError(
            name,
            f"is not given, and {str(path)!r} has coefficients only",
            f"pass `{name}`",
        )
    solution = read_coefficient_file(path)
    wanted = DataOptions(
        options.data, options.target, weights=options.weights, missing=options.missing,
        skip_missing_target=options.skip_missing_target,
    )  # fmt: skip
    kind = file_format(wanted.path)
    notes: tuple[str, ...] = ()
    if kind != "npy":
        columns = OpenTable.open(wanted.path, kind).names
        wanted = replace(wanted, features=solution.input_columns(columns))
        notes = _unused_column_notes(wanted, columns)
    with out.show_status(f"looking at {wanted.path}"):
        found = read_training_table(wanted)
    coef = solution.in_order_of(found.data.feature_names)
    fit_intercept = solution.intercept is not None
    with show_progress(out):
        certificate = certify(
            coef, found.data, alpha=options.alpha, intercept=solution.intercept or 0.0,
            sample_weight=found.weights, fit_intercept=fit_intercept, tol=options.tol,
            random_state=options.seed, memory_budget=options.memory_budget,
        )  # fmt: skip
    if not fit_intercept:
        notes = (*notes, "the file has no intercept, so the problem has none.")
    return Verdict(certificate, options.alpha, fit_intercept, found.data.shape, notes)


def _unused_column_notes(wanted: DataOptions, columns: Sequence[str]) -> tuple[str, ...]:
    """A note that names the columns of a table for which the file has no coefficients."""
    used = {*(wanted.features or ()), wanted.target, wanted.weights}
    unused = [name for name in columns if name not in used]
    if not unused:
        return ()
    return (
        f"the file has no coefficients for {abbreviate_list(map(repr, unused))}, so the problem "
        "leaves these columns of the data out.",
    )


def _verify_model(path: Path, options: VerifyCommandOptions, out: CommandOutput) -> Verdict:
    """Certify the coefficients of a model file."""
    saved = read_model_file(path)
    model, alpha = saved.model, fitted_alpha(saved.model)
    _check_certifiable(model, path, options)
    data = _open_data(saved, path, options)
    weights = _read_weights(saved, data, options)
    with out.show_status(f"verifying {path}"):
        training, _ = revalidate_training_data(model, data, sample_weight=weights)
        certificate = certify_solution(
            training, np.atleast_2d(model.coef_), model.intercept_, alpha,
            bool(model.fit_intercept), options.fit_options,
            getattr(model, "_data_fingerprint", None),
        )  # fmt: skip
    n, n_fitted = data.shape[0], model.report_.shape[0]
    notes: tuple[str, ...] = ()
    if n != n_fitted:
        notes = (f"the model was fitted to {n_fitted:,} rows, and the data have {n:,}.",)
    return Verdict(certificate, alpha, bool(model.fit_intercept), data.shape, notes)


def _check_certifiable(model: Any, path: Path, options: VerifyCommandOptions) -> None:
    """Raise if the model does not solve a ridge problem, or if an option contradicts it."""
    if getattr(model, "positive", False):
        raise ModelFileError(
            "path",
            "has coefficients that have to be >= 0 (`positive`=True), which is another problem",
            "read its own certificate with ling inspect",
            where=Where(file=str(path)),
        )
    if options.alpha is not None:
        raise OptionError("alpha", f"is given, and {str(path)!r} has its own", "leave it out")


def _open_data(saved: SavedModel, path: Path, options: VerifyCommandOptions) -> Dataset:
    """The data with the columns of the model and its target, which is read here."""
    target = options.target or saved.about.get("target")
    if target is None:
        raise OptionError(
            "target",
            f"is not given, and {str(path)!r} does not name it",
            "pass `target`, the column that was predicted",
        )
    kind = check_data_format(saved.model, options.data)
    if kind == "npy":
        return scan_npy(options.data, target)
    table = OpenTable.open(options.data, kind)
    check_column_names([target], table.names, "target")
    if options.skip_missing_target or saved.about.get("skip_missing_target"):
        table = table.drop_missing(target)
    data = table.build_dataset(target, saved.model.encoding_, ())
    if not data.shape[0]:
        raise no_rows_error(options.data)
    try:
        _ = data.y
    except MissingValueError as error:
        remedy = Change("skip_missing_target", True, "to leave such rows out")
        raise MissingValueError(error.argument, error.problem, remedy, where=error.where) from error
    return data


def _read_weights(saved: SavedModel, data: Dataset, options: VerifyCommandOptions) -> Any:
    """The weights of the rows, from the column or .npy file that the model was fitted with."""
    name = options.weights or saved.about.get("weights")
    if name is not None and data.encoding is None:
        return load_weights(name)
    return read_weights(data, name)
