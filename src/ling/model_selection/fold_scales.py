"""What error bounds need to know about the systems and test rows of a cross-validation problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ling._typing import Array
from ling.linalg.rounding import EPS, sum_noise
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.fold_errors import SystemScales, TestRows
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.problem import Problem
from ling.solvers.sufficient_statistics import SufficientStatistics


def scales_of_remainder(samples: CVProblem, training: SufficientStatistics) -> SystemScales:
    """Magnitudes of the rounding errors of statistics of all rows without those of others."""
    p, problem = training.n_features, samples.problem
    scales = training.gram_error_scale
    columns = np.maximum(scales[:p], problem.gram_error_scale)
    targets = np.maximum(np.sqrt(scales[p:]), target_scales(problem))
    return SystemScales(np.sqrt(columns), targets, training.noise)


def scales_of_sums(samples: CVProblem, training: SufficientStatistics) -> SystemScales:
    """Magnitudes of the rounding errors of statistics that were summed about their own mean.

    The error of a column is relative to its norm, and to that before it was centred: on the mean of
    all rows in the design, and on the mean of the training rows after that.
    """
    root_weight, standardization = np.sqrt(training.total_weight), samples.standardization
    x_mean = np.abs(standardization.x_mean / standardization.x_scale) + np.abs(training.x_mean)
    norms = np.sqrt(np.maximum(np.diag(training.gram), 0.0))
    raw_norms = norms + 2 * root_weight * x_mean
    columns = np.sqrt((norms + 4 * EPS * raw_norms) * raw_norms)
    y_mean = np.abs(standardization.y_mean / standardization.y_scale) + np.abs(training.y_mean)
    targets = np.sqrt(np.maximum(training.squares, 0.0)) + 2 * root_weight * y_mean
    return SystemScales(columns, targets, training.noise)


def target_scales(problem: Problem) -> Array:
    """Magnitudes (t,) of the rounding errors of y: its norms before centring.

    They are 0 for a constant y, which is centred to exactly 0.
    """
    return np.where(problem.target_norms > 0, problem.raw_target_norms, 0.0)


def scales_of_problem(problem: Problem) -> SystemScales:
    """Magnitudes of the rounding errors of X'X and X'Y of all rows."""
    return SystemScales(
        np.sqrt(problem.gram_error_scale), target_scales(problem), sum_noise(problem.shape[0])
    )


def scales_of_rows(problem: Problem) -> SystemScales:
    """Magnitudes of the rounding errors of centred rows, for forms from singular values."""
    return SystemScales(
        problem.raw_column_norms, target_scales(problem), sum_noise(problem.shape[0])
    )


def scales_of_kernel(samples: CVProblem, added: float = 0.0, multiplicity: int = 1) -> SystemScales:
    """Magnitudes of the rounding errors of X X' of all rows, and of `added` u u' with ||u|| = 1.

    Centring on the mean of a training set changes the kernel by up to three times its norm. A row
    may occur up to `multiplicity` times.
    """
    problem = samples.problem
    size = 4 * multiplicity * float(problem.gram_error_scale.sum()) + added
    targets = np.sqrt(multiplicity) * target_scales(problem)
    noise = sum_noise(problem.shape[1])
    return SystemScales(np.array([np.sqrt(size)]), targets, noise, is_dual=True)


def largest_multiplicity(rows: RowIndices) -> int:
    """How often the most frequent row occurs among `rows`."""
    return int(np.bincount(rows).max(initial=1))


def test_rows_of_all(samples: CVProblem) -> TestRows:
    """All rows as test rows of a fit to all rows."""
    mean_scale = samples.root_weight(slice(None))
    return _test_rows(samples, slice(None), 0.0, np.zeros(samples.n_targets), mean_scale)


def test_rows_of_split(
    samples: CVProblem, splits: Splits, number: int, x_shift: Array | None, y_shift: Array
) -> TestRows:
    """The test rows of split `number`, centred on the mean of its training rows.

    `x_shift` (p,) is that mean, about the mean of all rows; with None it is bounded.
    """
    train, test = splits.train_rows(number), splits.test_rows(number)
    repeats = np.sqrt(largest_multiplicity(train))
    # The mean of some rows is at most their norm divided by the root of their weight.
    bound = repeats * samples.length / max(samples.root_weight(train), 1e-300)
    norm = bound * samples.fit_intercept
    if x_shift is not None:
        norm = float(np.linalg.norm(x_shift))
    mean_scale = samples.root_weight(train) ** 2 / samples.root_weight(slice(None)) / repeats
    rows = _test_rows(samples, test, norm, y_shift, mean_scale)
    return replace(rows, length=np.sqrt(largest_multiplicity(test)) * samples.length)


def _test_rows(
    samples: CVProblem, rows: RowIndices | slice, x_shift: float, y_shift: Array,
    mean_scale: float,
) -> TestRows:  # fmt: skip
    """`mean_scale` is the weight of the training rows over the root of that of all rows.

    The mean of the training rows may be a difference of sums over all rows, divided by the weight
    of the training rows.
    """
    problem, n = samples.problem, samples.shape[0]
    noise = 4 * sum_noise(n) * samples.fit_intercept  # of the sums, and of their difference
    return TestRows(
        length=samples.length,
        root_weight=samples.root_weight(rows),
        x_shift=x_shift,
        y_shift=y_shift,
        intercept_error=noise * target_scales(problem) / mean_scale,
        intercept_slope=noise * float(np.linalg.norm(problem.raw_column_norms)) / mean_scale,
        noise=sum_noise(samples.shape[1]),
        spread=np.sqrt(samples.weights[rows] @ (samples.Y[rows] - y_shift) ** 2),
    )
