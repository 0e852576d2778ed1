"""How well samples that were left out are predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from ling._typing import Array
from ling.estimators.out_of_sample import FittedProblem, OutOfSample


@dataclass(frozen=True, eq=False)
class RegressionScores:
    """Of a regression, target by target: R², root mean square, mean size, and spread of y.

    `actual` and `predicted` are (n_rows, n_targets); sums are weighted like the samples.
    """

    r2: Array
    rmse: Array
    mean_absolute_error: Array
    spread: Array
    actual: Array
    predicted: Array

    @property
    def worst_first(self) -> NDArray[np.intp]:
        """Targets from the worst to the best."""
        return np.argsort(np.nan_to_num(self.r2, nan=-np.inf), kind="stable")


@dataclass(frozen=True, eq=False)
class ClassificationScores:
    """Of a classifier: decision values and -1 or 1, both (n_rows, n_columns).

    `confusion` counts rows, actual classes down and predicted ones across; None where a row can
    have several labels. `right` is the share that is right, class by class or label by label.
    """

    values: Array
    signs: Array
    accuracy: float
    majority_accuracy: float
    confusion: NDArray[Any] | None
    class_accuracy: Array
    class_counts: NDArray[np.integer[Any]]

    @property
    def worst_first(self) -> NDArray[np.intp]:
        """Classes, or labels, from the worst to the best."""
        return np.argsort(self.class_accuracy, kind="stable")


def regression_scores(again: FittedProblem, held: OutOfSample) -> RegressionScores:
    """Over all rows that were left out."""
    samples, rows = again.cv_problem, held.rows
    actual = samples.to_data_units(samples.Y[rows])
    predicted = held.predictions[rows]
    weights = samples.weights[rows]
    # Squares of very large or small numbers would leave float64.
    unit = np.abs(actual).max(axis=0, initial=0.0)
    unit = np.where(unit > 0, unit, 1.0)
    residuals = actual / unit - predicted / unit
    total_weight = weights.sum() or np.nan
    centred = actual / unit - weights @ (actual / unit) / total_weight
    squares, around = weights @ residuals**2, weights @ centred**2
    # A constant y has no spread to explain, but for rounding.
    varies = np.ptp(actual, axis=0) > 1e-12 * np.abs(actual).max(axis=0, initial=0.0)
    left = np.divide(squares, around, out=np.full_like(squares, np.nan), where=varies)
    return RegressionScores(
        1 - left,
        unit * np.sqrt(squares / total_weight),
        unit * (weights @ np.abs(residuals)) / total_weight,
        np.where(varies, unit * np.sqrt(around / total_weight), 0.0),
        actual,
        predicted,
    )


def classification_scores(again: FittedProblem, held: OutOfSample) -> ClassificationScores:
    """Over all rows that were left out, each counted once whatever its weight."""
    samples, rows, decide = again.cv_problem, held.rows, again.model._label_decoder
    values, y = held.predictions[rows], np.asarray(again.y)[rows]
    signs = np.round(samples.to_data_units(samples.Y[rows]))
    if decide.is_multilabel:
        right = (values > 0) == (signs > 0)
        counts = (signs > 0).sum(axis=0)
        common = np.maximum(counts, len(rows) - counts) / len(rows)
        return ClassificationScores(
            values, signs, float(right.mean()), float(common.mean()), None, right.mean(axis=0),
            counts,
        )  # fmt: skip
    table = confusion_matrix(y, decide(values), labels=decide.classes)
    counts = table.sum(axis=1)
    right = np.divide(np.diag(table), counts, out=np.zeros(len(counts)), where=counts > 0)
    accuracy, common = np.trace(table) / len(rows), counts.max() / len(rows)
    return ClassificationScores(values, signs, float(accuracy), float(common), table, right, counts)
