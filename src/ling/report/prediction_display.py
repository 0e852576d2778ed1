"""`PredictionDisplay` and `DecisionDisplay`: what was predicted for samples that were left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from ling._typing import Array, MatrixLike, PredictionPlotKind
from ling.errors import InputTypeError, OptionError
from ling.estimators import LingRegressor, Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.estimators.out_of_sample import predict_held_out, rebuild_problem
from ling.report.fitted_model import check_target_index
from ling.report.plot_style import (
    DATA_COLOR,
    LINE_COLORS,
    RASTERIZE_ABOVE,
    TICK_FORMAT,
    draw_legend_above,
    prepare_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Samples that are drawn as points: more only lie on each other.
MAX_POINTS = 2000
# Of these, the samples that are farthest from what was predicted: they are what one looks for.
N_WORST_POINTS = 20
# Most bars of a histogram.
MAX_BARS = 40
# Groups of samples with about the same prediction, and samples that each has to have.
N_RESIDUAL_GROUPS, MIN_GROUP_SAMPLES = 10, 20
PLOT_KINDS: tuple[PredictionPlotKind, ...] = ("actual_vs_predicted", "residual_vs_predicted")
REFERENCE_COLOR = "0.4"


class PredictionDisplay:
    """Predictions for samples that were left out, beside what was there.

    Parameters
    ----------
    actual, predicted : arrays of shape (n_samples,)
    name : str, default="y"
        What is predicted, for the axes.
    how : str, default=""
        How samples were left out, for the legend's title.

    Attributes
    ----------
    figure_, ax_
        Where it is drawn.
    points_ : PathCollection
        The samples; of more than 2000 a random choice, and the 20 that are farthest off.
    line_ : Line2D
        Where predictions are right.
    means_ : Line2D or None
        Of residuals, in ten groups of samples with about the same prediction.
    bars_ax_ : Axes or None
        How residuals are distributed, all of them.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ling import PredictionDisplay, RidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RidgeCV(cv=5).fit(X, y)
    >>> display = PredictionDisplay.from_estimator(model, X, y, name="progression")
    >>> display.ax_.get_ylabel()
    'actual progression'
    """

    figure_: Figure
    ax_: Axes
    points_: PathCollection
    line_: Line2D
    means_: Line2D | None
    bars_ax_: Axes | None

    def __init__(self, *, actual: Array, predicted: Array, name: str = "y", how: str = "") -> None:
        self.actual = np.asarray(actual, dtype=np.float64)
        self.predicted = np.asarray(predicted, dtype=np.float64)
        self.name = name
        self.how = how

    @classmethod
    def from_estimator(
        cls, model: Ridge | RidgeCV | LingRegressor, X: MatrixLike, y: ArrayLike | None = None, *,
        sample_weight: ArrayLike | None = None, target: int = 0,
        kind: PredictionPlotKind = PLOT_KINDS[0], name: str = "y", ax: Axes | None = None,
    ) -> PredictionDisplay:  # fmt: skip
        """Draw what fits with the model's alpha predict for samples that they have not seen.

        Parameters
        ----------
        model : Ridge, RidgeCV or LingRegressor
            Fitted to the same X, y and `sample_weight`. Samples are left out as its `cv` says;
            models without `cv` get five folds.
        X, y, sample_weight
            As for `fit`.
        target : int, default=0
            Which, if there are several.
        kind : {"actual_vs_predicted", "residual_vs_predicted"}
        name : str, default="y"
        ax : Axes, default=None
        """
        if is_classifier(model):
            raise InputTypeError("model", "is a classifier", "use DecisionDisplay")
        again = rebuild_problem(model, X, y, sample_weight)
        found = predict_held_out(again)
        Y = again.cv_problem.to_data_units(again.cv_problem.Y[found.rows])
        check_target_index(target, Y.shape[1])
        display = cls(
            actual=Y[:, target], predicted=found.predictions[found.rows, target], name=name,
            how=found.how,
        )  # fmt: skip
        return display.plot(ax=ax, kind=kind)

    def plot(
        self, ax: Axes | None = None, *, kind: PredictionPlotKind = PLOT_KINDS[0]
    ) -> PredictionDisplay:
        """Draw into `ax`, or a figure of its own; a figure without a layout engine gets one."""
        if kind not in PLOT_KINDS:
            kinds = " or ".join(map(repr, PLOT_KINDS))
            raise OptionError("kind", f"is {kind!r}", f"pass {kinds}")
        self.figure_, self.ax_ = prepare_axes(ax, self)
        for axis in (self.ax_.xaxis, self.ax_.yaxis):
            axis.set_major_formatter(TICK_FORMAT)
            axis.label.set_parse_math(False)  # a name may have a dollar in it
        self.means_ = self.bars_ax_ = None
        self.ax_.set_xlabel(f"predicted {self.name}")
        if kind == PLOT_KINDS[0]:
            self._draw_actual()
        else:
            self._draw_residuals()
        draw_legend_above(self.ax_, title=f"held out: {self.how}" if self.how else "")
        return self

    def _draw_actual(self) -> None:
        self.ax_.set_ylabel(f"actual {self.name}")
        self._draw_points(self.actual)
        both = np.concatenate([self.actual, self.predicted])
        ends = [both.min(), both.max()]
        (self.line_,) = self.ax_.plot(
            ends, ends, "--", color=REFERENCE_COLOR, linewidth=1, label="predicted = actual"
        )

    def _draw_residuals(self) -> None:
        residuals = self.actual - self.predicted
        self.ax_.set_ylabel("actual less predicted")
        self._draw_points(residuals)
        self.line_ = self.ax_.axhline(0, color=REFERENCE_COLOR, linewidth=1)
        if len(residuals) >= N_RESIDUAL_GROUPS * MIN_GROUP_SAMPLES:
            order = np.argsort(self.predicted, kind="stable")
            groups = np.array_split(order, N_RESIDUAL_GROUPS)
            (self.means_,) = self.ax_.plot(
                [self.predicted[some].mean() for some in groups],
                [residuals[some].mean() for some in groups],
                "o-", color="0.1", linewidth=1.2, markersize=3.5, label="mean of each tenth",
            )  # fmt: skip
        self.bars_ax_ = self.ax_.inset_axes((1.02, 0, 0.2, 1), sharey=self.ax_)
        self.bars_ax_.hist(
            residuals,
            bins=_bin_edges(residuals).tolist(),
            orientation="horizontal",
            color=DATA_COLOR,
            alpha=0.6,
        )
        self.bars_ax_.axis("off")

    def _draw_points(self, heights: Array) -> None:
        n, some = len(heights), self._select_points()
        words = f"{n:,} samples"
        if len(some) < n:
            words = f"{len(some):,} of {n:,} samples, the {N_WORST_POINTS} worst too"
        self.points_ = self.ax_.scatter(
            self.predicted[some], heights[some], color=DATA_COLOR, linewidths=0, label=words,
            s=float(np.clip(6000 / max(1, n), 7, 20)), rasterized=len(some) > RASTERIZE_ABOVE,
            alpha=float(np.clip(150 / max(1, n), 0.35, 0.7)),
        )  # fmt: skip

    def _select_points(self) -> NDArray[np.intp]:
        """Which samples are points: all, or a random choice and those that are farthest off."""
        n = len(self.actual)
        if n <= MAX_POINTS:
            return np.arange(n)
        order = np.argsort(-np.abs(self.actual - self.predicted), kind="stable")
        rng = np.random.default_rng(0)
        others = rng.choice(order[N_WORST_POINTS:], MAX_POINTS - N_WORST_POINTS, replace=False)
        return np.concatenate([order[:N_WORST_POINTS], others])


class DecisionDisplay:
    """Decision values of samples that were left out, of one class and of the others.

    Parameters
    ----------
    values : array of shape (n_samples,)
    belongs : boolean array of shape (n_samples,)
        Which of the samples are of the class.
    name, other : str
        The class, and what is not of it.
    threshold : float, default=None
        Above it a sample is said to be of the class, where there is such a number.
    how : str, default=""
        How samples were left out, for the legend's title.

    Attributes
    ----------
    figure_, ax_
        Where it is drawn.
    counts_ : pair of arrays
        The shares, in %, of those that belong and of those that do not, bar by bar.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from ling import DecisionDisplay, RidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RidgeClassifier().fit(X, y)
    >>> DecisionDisplay.from_estimator(model, X, y).ax_.get_xlabel()
    'decision value for class 1'
    """

    figure_: Figure
    ax_: Axes
    counts_: tuple[Array, Array]

    def __init__(
        self, *, values: Array, belongs: NDArray[np.bool_], name: str, other: str = "other classes",
        threshold: float | None = None, how: str = "",
    ) -> None:  # fmt: skip
        self.values = np.asarray(values, dtype=np.float64)
        self.belongs = np.asarray(belongs, dtype=bool)
        self.name = name
        self.other = other
        self.threshold = threshold
        self.how = how

    @classmethod
    def from_estimator(
        cls, model: RidgeClassifier | RidgeClassifierCV, X: MatrixLike,
        y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None, target: int = 0,
        ax: Axes | None = None,
    ) -> DecisionDisplay:  # fmt: skip
        """Draw the decision values of a fitted RidgeClassifier or RidgeClassifierCV.

        Parameters
        ----------
        model, X, y, sample_weight
            The model, and what it was fitted to. Samples are left out as its `cv` says; a
            RidgeClassifier, which has none, gets five folds.
        target : int, default=0
            Which class, if there are more than two.
        ax : Axes, default=None
        """
        if not is_classifier(model):
            raise InputTypeError("model", "is not a classifier", "use PredictionDisplay")
        again = rebuild_problem(model, X, y, sample_weight)
        found = predict_held_out(again)
        check_target_index(target, again.cv_problem.n_targets)
        values = found.predictions[found.rows, target]
        Y = again.cv_problem.to_data_units(again.cv_problem.Y[found.rows])[:, target]
        display = cls(values=values, belongs=Y > 0, how=found.how, **describe_class(model, target))
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> DecisionDisplay:
        """Draw into `ax`, or a figure of its own; a figure without a layout engine gets one."""
        self.figure_, self.ax_ = prepare_axes(ax, self)
        self.ax_.set(xlabel=f"decision value for {self.name}", ylabel="% of samples")
        self.ax_.xaxis.label.set_parse_math(False)
        edges = _bin_edges(self.values)
        found = []
        for mask, colour, words in (
            (self.belongs, DATA_COLOR, self.name), (~self.belongs, LINE_COLORS[1], self.other)
        ):  # fmt: skip
            counts, _ = np.histogram(self.values[mask], edges)
            share = 100 * counts / max(1, mask.sum())
            found.append(share)
            self.ax_.stairs(
                share, edges, fill=True, color=colour, alpha=0.45, label=f"{words} ({mask.sum():,})"
            )
            self.ax_.stairs(share, edges, color=colour, linewidth=1.2)
        self.counts_ = found[0], found[1]
        if self.threshold is not None:
            self.ax_.axvline(
                self.threshold, color=REFERENCE_COLOR, linestyle="--", linewidth=1,
                label=f"above: said to be {self.name}",
            )  # fmt: skip
        draw_legend_above(self.ax_, title=f"held out: {self.how}" if self.how else "")
        return self


def describe_class(model: Any, target: int) -> dict[str, Any]:
    """What a column of a classifier's decision values is about."""
    classes = model.classes_
    if model._label_decoder.is_multilabel:
        return {"name": f"label {classes[target]}", "other": "without it", "threshold": 0.0}
    if len(classes) == 2:  # one column, which is 1 for the second
        return {
            "name": f"class {classes[1]}",
            "other": f"class {classes[0]}",
            "threshold": 0.0,
        }
    return {"name": f"class {classes[target]}"}


def _bin_edges(values: Array) -> Array:
    """Of bars of equal width, as many as the values can bear."""
    bars = int(np.clip(2 * np.cbrt(len(values)), 5, MAX_BARS))
    return np.histogram_bin_edges(values, bars)
