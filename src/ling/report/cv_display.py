"""`CVDisplay`: scores against alpha."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array
from ling.errors import OptionError
from ling.estimators import RidgeClassifierCV, RidgeCV
from ling.estimators.fit_session import as_fitted
from ling.estimators.out_of_sample import model_type_error
from ling.model_selection import CVScores, grid_ends_with_best
from ling.report.plot_style import (
    ALPHA_1SE_COLOR,
    ALPHA_COLOR,
    BACKGROUND_COLOR,
    DATA_COLOR,
    FAINT_OPACITY,
    SMALL_FONT_SIZE,
    TICK_FORMAT,
    draw_alpha_line,
    draw_legend_above,
    prepare_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

# Targets that are drawn one by one.
MAX_TARGET_LINES = 50


class CVDisplay:
    """Cross-validated score against alpha, with the alphas that it leads to.

    Parameters
    ----------
    alphas : array of shape (n_alphas,)
    mean, std_error : arrays of shape (n_alphas,) or (n_alphas, n_targets)
        The score of each alpha, and its standard error.
    certified : array of shape (n_alphas,)
        Whether the fits behind a score are proved to be within tol.
    alpha, alpha_1se : float, or array of shape (n_targets,)
        The alpha in use, and the largest within one standard error of the best.
    score : str, default="score"
        What the score is, for the axis.
    method : str, default=""
        How it was found, for the legend's title.
    edges : sequence of {"smallest", "largest"}, default=()
        Ends of the user's grid that have the best score: a better alpha may lie beyond.

    Attributes
    ----------
    figure_, ax_
        Where it is drawn.
    line_ : Line2D
        The score; the median over targets, if each has its own alpha.
    certified_line_ : Line2D or None
        Its certified part, if there is another; `line_` is faint then.
    band_ : PolyCollection or None
        One standard error to both sides.
    target_lines_ : list of Line2D
        The scores of single targets, up to 50 of them.
    edge_texts_ : list of Annotation
        A remark at each of `edges`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ling import CVDisplay, RidgeCV
    >>> model = RidgeCV(cv=5).fit(*load_diabetes(return_X_y=True))
    >>> CVDisplay.from_estimator(model).ax_.get_ylabel()
    'R²'
    """

    figure_: Figure
    ax_: Axes
    line_: Line2D
    certified_line_: Line2D | None
    band_: FillBetweenPolyCollection | None
    target_lines_: list[Line2D]
    edge_texts_: list[Annotation]

    def __init__(
        self, *, alphas: Array, mean: Array, std_error: Array, certified: NDArray[Any],
        alpha: float | Array, alpha_1se: float | Array, score: str = "score", method: str = "",
        edges: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.alphas = np.asarray(alphas)
        self.mean = np.asarray(mean)
        self.std_error = np.asarray(std_error)
        self.certified = np.asarray(certified, dtype=bool)
        self.alpha = alpha
        self.alpha_1se = alpha_1se
        self.score = score
        self.method = method
        self.edges = tuple(edges)

    @classmethod
    def from_estimator(
        cls, model: RidgeCV | RidgeClassifierCV, *, ax: Axes | None = None
    ) -> CVDisplay:
        """Draw the `cv_scores_` of a fitted `RidgeCV` or `RidgeClassifierCV`."""
        check_is_fitted(model)
        model = as_fitted(model)
        found = getattr(model, "cv_scores_", None)
        if not isinstance(found, CVScores):
            raise model_type_error(model, "ling.RidgeCV or ling.RidgeClassifierCV")
        display = cls(
            alphas=found.alphas, mean=found.mean_score, std_error=found.std_error,
            certified=found.certified, alpha=model.alpha_, alpha_1se=model.alpha_1se_,
            score=scoring_label(model), method=found.method,
            edges=() if model.alphas is None else grid_ends_with_best(found),
        )  # fmt: skip
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> CVDisplay:
        """Draw into `ax`, or a figure of its own; a figure without a layout engine gets one."""
        self.figure_, self.ax_ = prepare_axes(ax, self)
        self.ax_.set(xscale="log", xlabel="alpha", ylabel=self.score)
        self.ax_.yaxis.set_major_formatter(TICK_FORMAT)
        order = np.argsort(self.alphas)
        order = order[self.alphas[order] > 0]
        if len(order) < len(self.alphas):
            self.ax_.set_xlabel("alpha (0 is not on this axis)")
        if not len(order):
            raise OptionError(
                "alphas", "has no value above 0 to show", "pass other alphas to the model"
            )
        self.band_, self.target_lines_ = None, []
        if self.mean.ndim == 1:
            self._draw_single_target(order)
        else:
            self._draw_targets(order)
        title = self.method + self._cut_low_scores(order)
        if self.mean.ndim > 1:
            self._draw_chosen_alphas()
        self.edge_texts_ = [self._draw_edge(edge) for edge in self.edges]
        draw_legend_above(self.ax_, title=title)
        return self

    def _draw_single_target(self, order: NDArray[np.intp]) -> None:
        mean, error = self.mean[order], self.std_error[order]
        self._draw_line(order, mean, "score")
        if np.isfinite(error).any():
            self.band_ = self.ax_.fill_between(
                self.alphas[order], mean - error, mean + error, color=DATA_COLOR, alpha=0.15,
                linewidth=0, label="± one standard error",
            )  # fmt: skip
        alpha, alpha_1se = float(self.alpha), float(self.alpha_1se)
        if alpha == alpha_1se:
            words = "chosen alpha = {}, the largest\nwithin one standard error"
            draw_alpha_line(self.ax_, alpha, words, ALPHA_COLOR, "-")
        else:
            draw_alpha_line(self.ax_, alpha, "chosen alpha = {}", ALPHA_COLOR, "-")
            words = "largest within one standard error = {}"
            draw_alpha_line(self.ax_, alpha_1se, words, ALPHA_1SE_COLOR, "--")

    def _draw_targets(self, order: NDArray[np.intp]) -> None:
        mean = self.mean[order]
        t = mean.shape[1]
        some = np.unique(np.linspace(0, t - 1, min(t, MAX_TARGET_LINES)).astype(int))
        self.target_lines_ = self.ax_.plot(
            self.alphas[order], mean[:, some], color=BACKGROUND_COLOR, linewidth=0.8
        )
        each = "each target" if len(some) == t else f"{len(some)} of {t} targets"
        self.target_lines_[0].set_label(each)
        scored = ~np.isnan(mean).all(axis=1)
        median = np.full(len(mean), np.nan)
        median[scored] = np.nanmedian(mean[scored], axis=1)
        self._draw_line(order, median, "median")

    def _draw_line(self, order: NDArray[np.intp], mean: Array, label: str) -> None:
        """The score: faint, if some are not certified, and again in full where they are."""
        style: dict[str, Any] = {
            "color": DATA_COLOR,
            "linewidth": 1.8,
            "marker": "o",
            "markersize": 3.5,
        }
        faint = {**style, "alpha": FAINT_OPACITY, "markerfacecolor": "white"}
        alphas, certified = self.alphas[order], self.certified[order]
        self.certified_line_ = None
        if certified.all():
            (self.line_,) = self.ax_.plot(alphas, mean, label=label, **style)
            return
        (self.line_,) = self.ax_.plot(alphas, mean, label=f"{label}, not certified", **faint)
        if certified.any():
            mean = np.where(certified, mean, np.nan)
            (self.certified_line_,) = self.ax_.plot(alphas, mean, label=label, **style)

    def _cut_low_scores(self, order: NDArray[np.intp]) -> str:
        """Leave out scores so low that they would flatten the rest, and say so.

        Alphas that are far too small can be many times worse than predicting nothing, which the
        largest alpha is near. How far that is from the best, or the standard error if that is
        large, is what counts as far.
        """
        mean = self.mean[order].reshape(len(order), -1)
        some = np.isfinite(mean).any(axis=0)
        if not some.any():
            return f"{'; ' if self.method else ''}no score is finite"
        mean, error = mean[:, some], self.std_error[order].reshape(mean.shape)[:, some]
        at = np.expand_dims(np.nanargmax(mean, axis=0), 0)
        best = np.take_along_axis(mean, at, 0)
        far = np.fmax(best - mean[-1], 4 * np.take_along_axis(error, at, 0))
        if not np.nanmin(mean) < np.nanmin(best - 6 * far):
            return ""
        self.ax_.set_ylim(np.nanmin(best - 3 * far), np.nanmax(best + far))
        return f"{'; ' if self.method else ''}low scores are off the chart"

    def _draw_chosen_alphas(self) -> None:
        """How many targets have chosen each alpha, as bars at the foot of the picture."""
        low, high = self.ax_.get_ylim()
        chosen, counts = np.unique(self.alpha, return_counts=True)
        words = f"chosen alphas (longest bar: {counts.max()} of {counts.sum()})"
        self.ax_.vlines(
            chosen[chosen > 0], 0, 0.14 * (counts / counts.max())[chosen > 0], color=ALPHA_COLOR,
            linewidth=4, transform=self.ax_.get_xaxis_transform(), label=words,
        )  # fmt: skip
        self.ax_.set_ylim(low - 0.2 * (high - low), high)

    def _draw_edge(self, edge: str) -> Annotation:
        """A remark that the best alpha is at this end of the grid, beside that alpha."""
        is_left = edge == "smallest"
        words = "best at the edge of the grid"
        alphas = self.alphas[self.alphas > 0]
        # Above the bars of chosen alphas, if there are any.
        height = 0.03 if self.mean.ndim == 1 else 0.17
        return self.ax_.annotate(
            f"\N{LEFTWARDS ARROW} {words}" if is_left else f"{words} \N{RIGHTWARDS ARROW}",
            (alphas.min() if is_left else alphas.max(), height),
            xycoords=self.ax_.get_xaxis_transform(),
            xytext=(6 if is_left else -6, 0),
            textcoords="offset points",
            ha="left" if is_left else "right",
            fontsize=SMALL_FONT_SIZE,
            color=ALPHA_COLOR,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )


def scoring_label(model: Any) -> str:
    """What the score of a cross-validated model is, in words."""
    scoring = model.scoring
    if scoring is None:
        if model.cv is None:
            return "mean squared error, negated"
        return "accuracy" if is_classifier(model) else "R²"
    name = scoring
    if not isinstance(scoring, str):
        name = getattr(getattr(scoring, "_score_func", scoring), "__name__", "score")
    negated = name.startswith("neg_") or getattr(scoring, "_sign", 1) < 0
    words = "R²" if name in ("r2", "r2_score") else name.removeprefix("neg_").replace("_", " ")
    return f"{words}, negated" if negated else str(words)
