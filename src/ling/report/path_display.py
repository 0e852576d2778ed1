"""`PathDisplay`: coefficients against alpha."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from sklearn.base import is_classifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import compute_sample_weight

from ling._typing import Array, MatrixLike
from ling.errors import OptionError
from ling.estimators import RidgeModel
from ling.estimators.fit_session import as_fitted
from ling.estimators.open_data import split_dataset
from ling.estimators.path import RidgePath, ridge_path
from ling.estimators.validation import check_sample_weight, check_y_given
from ling.model_selection import CVScores, default_alpha_grid
from ling.report.fitted_model import check_fitted_model, check_target_index, problem_without_targets
from ling.report.plot_style import (
    ALPHA_COLOR,
    BACKGROUND_COLOR,
    LINE_COLORS,
    RASTERIZE_ABOVE,
    SMALL_FONT_SIZE,
    TICK_FORMAT,
    draw_alpha_line,
    draw_legend_above,
    format_edf,
    prepare_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

FeatureNames: TypeAlias = Sequence[str] | NDArray[np.object_]
# Characters of a feature's name.
MAX_NAME_CHARS = 24
# Alphas of a path through the range that cross-validation has tried.
N_PATH_ALPHAS = 60
# Characters that a small picture has room for on its top axis.
MAX_TOP_AXIS_CHARS = 30


class PathDisplay:
    """Coefficients against alpha, with names at the ends of the largest.

    Parameters
    ----------
    alphas : array of shape (n_alphas,)
    coef : array of shape (n_alphas, n_features)
    edf : array of shape (n_alphas,)
        Effective degrees of freedom, for the axis on top.
    alpha : float, default=None
        The alpha in use, drawn as a line.
    feature_names : sequence of str, default=None
        None for x0, x1, ...
    label : str, default="coefficient"
        What the coefficients are, for the axis.

    Attributes
    ----------
    figure_, ax_
        Where it is drawn.
    lines_ : list of Line2D
        The coefficients that have names.
    highlighted_ : array of int
        Which they are, line by line.
    others_ : LineCollection or None
        All others.
    texts_ : list of Annotation
        The names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ling import PathDisplay, Ridge
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = Ridge(alpha=0.1).fit(X, y)
    >>> display = PathDisplay.from_estimator(model, X, y, n_highlighted=3)
    >>> sorted(text.get_text() for text in display.texts_)
    ['bmi', 'bp', 's5']
    """

    figure_: Figure
    ax_: Axes
    lines_: list[Line2D]
    highlighted_: NDArray[np.intp]
    others_: LineCollection | None
    texts_: list[Annotation]

    def __init__(
        self, *, alphas: Array, coef: Array, edf: Array, alpha: float | None = None,
        feature_names: FeatureNames | None = None, label: str = "coefficient",
    ) -> None:  # fmt: skip
        order = np.argsort(alphas)
        self.alphas = np.asarray(alphas)[order]
        self.coef = np.asarray(coef)[order]
        self.edf = np.asarray(edf)[order]
        self.alpha = alpha
        self.feature_names = feature_names
        self.label = label

    @classmethod
    def from_estimator(
        cls, model: RidgeModel, X: MatrixLike, y: ArrayLike | None = None, *,
        alphas: ArrayLike | None = None, sample_weight: ArrayLike | None = None,
        target: int = 0, n_highlighted: int = 10, ax: Axes | None = None,
    ) -> PathDisplay:  # fmt: skip
        """Draw the path that leads through a fitted model.

        Parameters
        ----------
        model : Ridge, RidgeCV, RidgeClassifier or RidgeClassifierCV
            Fitted to the same X, y and `sample_weight`.
        X, y, sample_weight
            As for `fit`.
        alphas : array of shape (n_alphas,), default=None
            None for 60 over what cross-validation has tried, or what `ridge_path` would.
        target : int, default=0
            Whose coefficients, if there are several targets or classes.
        n_highlighted : int, default=10
            How many of the coefficients, the largest at the model's alpha, have names.
        ax : Axes, default=None
        """
        X, y = split_dataset(X, y)
        check_y_given(type(model).__name__, y)
        model = as_fitted(model)
        X, each = check_fitted_model(model, X)
        alpha = float(each[target] if 0 <= target < len(each) else each[0])
        Y, weights = _encode_targets(model, y, sample_weight)
        path = ridge_path(
            X, Y, _path_alphas(model, X, weights, alpha) if alphas is None else alphas,
            sample_weight=weights, fit_intercept=bool(model.fit_intercept),
            tol=getattr(model, "tol", 1e-4), random_state=getattr(model, "random_state", None),
            memory_budget=getattr(model, "memory_budget", None),
        )  # fmt: skip
        display = cls._from_target(path, target, alpha, getattr(model, "feature_names_in_", None))
        if is_classifier(model):
            # Two classes have one column, which is 1 for the second.
            at = target if Y.ndim > 1 and Y.shape[1] > 1 else 1
            display.label = f"coefficient for class {model.classes_[at]}"
        return display.plot(ax=ax, n_highlighted=n_highlighted)

    @classmethod
    def from_path(
        cls, path: RidgePath, *, alpha: float | None = None,
        feature_names: FeatureNames | None = None, target: int = 0, n_highlighted: int = 10,
        ax: Axes | None = None,
    ) -> PathDisplay:  # fmt: skip
        """Draw what `ling.ridge_path` gave; without an `alpha`, names go by the whole path."""
        display = cls._from_target(path, target, alpha, feature_names)
        return display.plot(ax=ax, n_highlighted=n_highlighted)

    @classmethod
    def _from_target(cls, path: RidgePath, target: int, alpha: Any, names: Any) -> PathDisplay:
        coef, label = np.asarray(path.coef), "coefficient"
        if coef.ndim == 3:
            check_target_index(target, coef.shape[1])
            label = f"coefficient for y[:, {target}]" if coef.shape[1] > 1 else label
            coef = coef[:, target]
        return cls(
            alphas=path.alphas, coef=coef, edf=path.edf, alpha=alpha, feature_names=names,
            label=label,
        )  # fmt: skip

    def plot(self, ax: Axes | None = None, *, n_highlighted: int = 10) -> PathDisplay:
        """Draw into `ax`, or a figure of its own; a figure without a layout engine gets one."""
        self.figure_, self.ax_ = prepare_axes(ax, self)
        self.ax_.set(xscale="log", xlabel="alpha", ylabel=self.label)
        self.ax_.yaxis.set_major_formatter(TICK_FORMAT)
        self.ax_.yaxis.label.set_parse_math(False)  # a class may have a dollar in its name
        self.ax_.axhline(0, color="0.4", linewidth=0.8, zorder=1)
        # The names take the left side, where the lines are apart.
        self.ax_.yaxis.set_label_position("right")
        self.ax_.yaxis.tick_right()
        self.ax_.spines["left"].set_visible(False)
        self.ax_.spines["right"].set_visible(True)
        self.highlighted_, others = self._rank_features(n_highlighted)
        self.others_ = self._draw_others(others) if others.size else None
        self._draw_highlighted()
        if self.alpha is not None:
            draw_alpha_line(self.ax_, self.alpha, "alpha = {}", ALPHA_COLOR, "-")
        self.ax_.margins(x=0)
        self.ax_.set_ylim(*self._y_limits())
        draw_legend_above(self.ax_, self._draw_edf_axis())
        return self

    def _rank_features(self, n_highlighted: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which coefficients have names, from the lowest to the highest end, and the others."""
        if n_highlighted < 0:
            raise OptionError("n_highlighted", f"is {n_highlighted}", "pass 0 or more")
        sizes = np.abs(self.coef).max(axis=0)
        if self.alpha is not None:
            sizes = np.abs(self.coef[_nearest_alpha(self.alphas, self.alpha)])
        order = np.argsort(-sizes, kind="stable")
        named = order[:n_highlighted]
        return named[np.argsort(self.coef[0, named], kind="stable")], order[n_highlighted:]

    def _draw_others(self, others: NDArray[np.intp]) -> LineCollection:
        """Thin grey lines, the fainter the more there are."""
        from matplotlib.collections import LineCollection

        coef = self.coef[:, others]
        x = np.broadcast_to(self.alphas, coef.T.shape)
        lines = LineCollection(
            list(np.stack([x, coef.T], axis=2)),
            colors=BACKGROUND_COLOR,
            linewidths=0.6,
            zorder=1.5,
            alpha=float(np.clip(200 / len(others), 0.15, 1)),
            rasterized=len(others) > RASTERIZE_ABOVE,
        )
        self.ax_.add_collection(lines)
        low, high = self._y_limits()
        off = int(((coef < low) | (coef > high)).any(axis=0).sum())
        words = f"{len(others):,} other coefficient{'s' if len(others) > 1 else ''}"
        words += f" ({off:,} off the chart)" if off else ""
        self.ax_.plot([], [], color=BACKGROUND_COLOR, linewidth=0.8, label=words)
        return lines

    def _draw_highlighted(self) -> None:
        names = self.feature_names
        self.lines_, self.texts_ = [], []
        labels = _LabelColumn(self.ax_, self.alphas[0], self.coef[0, self.highlighted_])
        for number, feature in enumerate(self.highlighted_):
            # Neighbours differ in colour, as they are in the order of their ends.
            dashes = ("-", "--", ":")[number // len(LINE_COLORS) % 3]
            colour = LINE_COLORS[number % len(LINE_COLORS)]
            self.lines_ += self.ax_.plot(
                self.alphas, self.coef[:, feature], dashes, color=colour, linewidth=1.6
            )
            name = f"x{feature}" if names is None else str(names[feature])
            self.texts_.append(labels.add_label(number, _truncate_middle(name), colour))

    def _y_limits(self) -> tuple[float, float]:
        """Room for all lines from the alpha in use upwards, and all of those that have names.

        Others may leave the picture at smaller alphas, where they can be so large as to flatten it.
        """
        seen = np.zeros(self.coef.shape, dtype=bool)
        seen[0 if self.alpha is None else _nearest_alpha(self.alphas, self.alpha) :] = True
        seen[:, self.highlighted_] = True
        low, high = (float(end(self.coef, where=seen, initial=0.0)) for end in (np.min, np.max))
        more = 0.05 * (high - low) or 1.0
        return low - more, high + more

    def _draw_edf_axis(self) -> Any:
        """Effective degrees of freedom on top, at alphas that are about equally far apart."""
        for n_ticks in (6, 5, 4, 3):
            wanted = np.geomspace(self.alphas[0], self.alphas[-1], n_ticks)
            at = np.unique([_nearest_alpha(self.alphas, alpha) for alpha in wanted])
            labels = [format_edf(edf) for edf in self.edf[at]]
            if len(at) * (1 + max(map(len, labels))) <= MAX_TOP_AXIS_CHARS:
                break
        top = self.ax_.secondary_xaxis("top")
        top.set_xticks(self.alphas[at], labels)
        top.set_xticks([], minor=True)
        top.set_xlabel("effective degrees of freedom")
        return top


class _LabelColumn:
    """Names beside the left ends of lines, moved apart just as far as they need.

    Where they go is worked out whenever they are drawn, so it holds at every size of the figure.
    """

    def __init__(self, ax: Axes, x: float, heights: Array) -> None:
        self.ax, self.x, self.heights = ax, x, heights
        tall = ax.get_window_extent().height * 72 / ax.figure.dpi
        self.size = float(np.clip(0.8 * tall / max(1, len(heights)), 4, SMALL_FONT_SIZE))

    def add_label(self, number: int, name: str, colour: str) -> Any:
        """The name of a line, and a short stroke that leads to it."""
        return self.ax.annotate(
            name, (self.x, self.heights[number]), (0, 0), textcoords=self._label_position(number),
            ha="right", va="center", fontsize=self.size, annotation_clip=False, parse_math=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 1,
                        "shrinkB": 0, "relpos": (1, 0.5)},
        )  # fmt: skip

    def _label_position(self, number: int) -> Callable[[Any], Any]:
        from matplotlib.transforms import Affine2D

        def place(renderer: Any) -> Any:
            ends = self.ax.transData.transform([(self.x, height) for height in self.heights])
            gap = renderer.points_to_pixels(1.3 * self.size)
            box = self.ax.get_window_extent()
            y = _separate_labels(ends[:, 1], gap, box.y0, box.y1)[number]
            return Affine2D().translate(box.x0 - renderer.points_to_pixels(16), y)

        return place


def _separate_labels(wanted: Array, gap: float, low: float, high: float) -> Array:
    """The places nearest to those wanted, in ascending order, that are at least `gap` apart."""
    steps = gap * np.arange(len(wanted))
    places = isotonic_regression(wanted - steps).x
    return np.asarray(np.clip(places, low, max(low, high - steps[-1])) + steps)


def _encode_targets(model: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Y and weights as the model makes them of its classes."""
    if not is_classifier(model):
        return y, sample_weight
    binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(model.classes_)
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:  # several labels for a sample
        Y = 2.0 * np.asarray(y) - 1
    else:
        Y = binarizer.transform(np.ravel(y)).astype(np.float64)
    if model.class_weight:
        balance = compute_sample_weight(model.class_weight, y)
        sample_weight = (
            balance
            if sample_weight is None
            else balance * check_sample_weight(sample_weight, len(y))
        )
    return Y, sample_weight


def _path_alphas(model: Any, X: Any, weights: Any, alpha: float) -> Array:
    """Smoothly over what cross-validation has tried, or would, and the one in use among them."""
    found = getattr(model, "cv_scores_", None)
    if isinstance(found, CVScores) and np.ptp(found.alphas) > 0:
        tried = found.alphas
    else:
        problem, standardization = problem_without_targets(model, X, weights, np.ones(1))
        tried = default_alpha_grid(problem) * standardization.x_scale**2
    return refine_alpha_grid(tried, alpha)


def refine_alpha_grid(tried: Array, alpha: float, n_alphas: int = N_PATH_ALPHAS) -> Array:
    """So many alphas from end to end of those tried, and the one in use among them."""
    ends = np.append(tried, alpha)
    ends = ends[ends > 0]
    # The ends and alpha are exact, not as logarithms leave them.
    inner = np.geomspace(ends.min(), ends.max(), n_alphas)[1:-1]
    return np.unique([ends.min(), *inner, alpha or ends.min(), ends.max()])


def _nearest_alpha(alphas: Array, alpha: float) -> int:
    """Number of the alpha that is nearest in ratio."""
    return int(np.argmin(np.abs(np.log(alphas) - np.log(max(alpha, np.finfo(float).tiny)))))


def _truncate_middle(name: str) -> str:
    """Both ends of a long name: families of features share one of them."""
    half = MAX_NAME_CHARS // 2
    return name if len(name) <= MAX_NAME_CHARS else f"{name[: half - 1]}…{name[-half:]}"
