"""Pictures of fitted models, in the manner of scikit-learn's displays.

matplotlib is loaded by `plot`, so that nothing else here needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import is_classifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import check_is_fitted, validate_data

from ling import problem as problems
from ling.design import Array
from ling.engines.tridiagonal import tridiagonal
from ling.errors import BadOption, WrongType
from ling.estimators.inputs import weights_of
from ling.estimators.path import RidgePath, ridge_path
from ling.problem import Centring, Problem
from ling.selection import CVResults, default_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection, LineCollection, PathCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

# Okabe & Ito's colours, distinct to colour-blind eyes. What is measured is blue, the alpha in use
# vermilion and its more cautious neighbour green; what is only background is grey.
MEASURED, CHOSEN, CAUTIOUS, GREY = "#0072B2", "#D55E00", "#009E73", "0.75"
# For lines that have names; the colour of the chosen alpha is not among them.
NAMED = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
# How much of a light line is left.
FAINT = 0.35
SMALL = 8.5
# Whole numbers at the ticks, not a common factor where the legend is.
TICKS = "{x:g}"
# Targets that are drawn one by one.
MOST_TARGETS = 50
# Lines or points above which a vector format would be too large.
RASTERISED = 500
# Characters of a feature's name.
LONGEST = 24
# Alphas of a path through the range that cross-validation has tried.
N_PATH = 60
# Shares of a direction that the axis of a spectrum shows.
SHARES = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
# min(n, p) up to which all eigenvalues are computed, and how many beyond.
EXACT, SOME = 3000, 100


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

    def __init__(
        self, *, alphas: Array, mean: Array, std_error: Array, certified: Array, alpha: Any,
        alpha_1se: Any, score: str = "score", method: str = "",
    ) -> None:  # fmt: skip
        self.alphas = np.asarray(alphas)
        self.mean = np.asarray(mean)
        self.std_error = np.asarray(std_error)
        self.certified = np.asarray(certified, dtype=bool)
        self.alpha = alpha
        self.alpha_1se = alpha_1se
        self.score = score
        self.method = method

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Axes | None = None) -> CVDisplay:
        """Draw the `cv_results_` of a fitted `RidgeCV` or `RidgeClassifierCV`."""
        check_is_fitted(model)
        found = getattr(model, "cv_results_", None)
        if not isinstance(found, CVResults):
            raise WrongType(
                f"model is a {type(model).__name__}, which has no scores of ling's; pass a fitted "
                "ling.RidgeCV or ling.RidgeClassifierCV."
            )
        display = cls(
            alphas=found.alphas, mean=found.mean_score, std_error=found.std_error,
            certified=found.certified, alpha=model.alpha_, alpha_1se=model.alpha_1se_,
            score=_score_name(model), method=found.method,
        )  # fmt: skip
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> CVDisplay:
        """Draw into `ax`, or a figure of its own; a figure without a layout engine gets one."""
        self.figure_, self.ax_ = _axes(ax, self)
        self.ax_.set(xscale="log", xlabel="alpha", ylabel=self.score)
        self.ax_.yaxis.set_major_formatter(TICKS)
        order = np.argsort(self.alphas)
        order = order[self.alphas[order] > 0]
        if len(order) < len(self.alphas):
            self.ax_.set_xlabel("alpha (0 is not on this axis)")
        if not len(order):
            raise BadOption("alphas has nothing above 0 to show; pass other alphas to the model.")
        self.band_, self.target_lines_ = None, []
        if self.mean.ndim == 1:
            self._draw_one(order)
        else:
            self._draw_targets(order)
        title = self.method + self._cut_low_scores(order)
        if self.mean.ndim > 1:
            self._draw_chosen()
        _legend_above(self.ax_, title=title)
        return self

    def _draw_one(self, order: NDArray[np.intp]) -> None:
        mean, error = self.mean[order], self.std_error[order]
        self._draw_line(order, mean, "score")
        if np.isfinite(error).any():
            self.band_ = self.ax_.fill_between(
                self.alphas[order], mean - error, mean + error, color=MEASURED, alpha=0.15,
                linewidth=0, label="± one standard error",
            )  # fmt: skip
        if self.alpha == self.alpha_1se:
            words = "chosen alpha = {}, the largest\nwithin one standard error"
            _vertical(self.ax_, self.alpha, words, CHOSEN, "-")
        else:
            _vertical(self.ax_, self.alpha, "chosen alpha = {}", CHOSEN, "-")
            words = "largest within one standard error = {}"
            _vertical(self.ax_, self.alpha_1se, words, CAUTIOUS, "--")

    def _draw_targets(self, order: NDArray[np.intp]) -> None:
        mean = self.mean[order]
        t = mean.shape[1]
        some = np.unique(np.linspace(0, t - 1, min(t, MOST_TARGETS)).astype(int))
        self.target_lines_ = self.ax_.plot(
            self.alphas[order], mean[:, some], color=GREY, linewidth=0.8
        )
        each = "each target" if len(some) == t else f"{len(some)} of {t} targets"
        self.target_lines_[0].set_label(each)
        self._draw_line(order, np.nanmedian(mean, axis=1), "median")

    def _draw_line(self, order: NDArray[np.intp], mean: Array, label: str) -> None:
        """The score: faint, if some are not certified, and again in full where they are."""
        style: dict[str, Any] = {
            "color": MEASURED,
            "linewidth": 1.8,
            "marker": "o",
            "markersize": 3.5,
        }
        faint = {**style, "alpha": FAINT, "markerfacecolor": "white"}
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
        mean, error = mean[:, some], self.std_error[order].reshape(mean.shape)[:, some]
        at = np.expand_dims(np.nanargmax(mean, axis=0), 0)
        best = np.take_along_axis(mean, at, 0)
        far = np.fmax(best - mean[-1], 4 * np.take_along_axis(error, at, 0))
        if not np.nanmin(mean) < np.nanmin(best - 6 * far):
            return ""
        self.ax_.set_ylim(np.nanmin(best - 3 * far), np.nanmax(best + far))
        return f"{'; ' if self.method else ''}low scores are off the chart"

    def _draw_chosen(self) -> None:
        """How many targets have chosen each alpha, as bars at the foot of the picture."""
        low, high = self.ax_.get_ylim()
        chosen, counts = np.unique(self.alpha, return_counts=True)
        words = f"chosen alphas (longest bar: {counts.max()} of {counts.sum()})"
        self.ax_.vlines(
            chosen[chosen > 0], 0, 0.14 * (counts / counts.max())[chosen > 0], color=CHOSEN,
            linewidth=4, transform=self.ax_.get_xaxis_transform(), label=words,
        )  # fmt: skip
        self.ax_.set_ylim(low - 0.2 * (high - low), high)


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
        feature_names: Any = None, label: str = "coefficient",
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
        cls, model: Any, X: Any, y: Any, *, alphas: Any = None, sample_weight: Any = None,
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
        X, each = _checked(model, X)
        alpha = float(each[target] if 0 <= target < len(each) else each[0])
        Y, weights = _targets(model, X, y, sample_weight)
        path = ridge_path(
            X, Y, _path_alphas(model, X, weights, alpha) if alphas is None else alphas,
            sample_weight=weights, fit_intercept=bool(model.fit_intercept),
            tol=getattr(model, "tol", 1e-4), random_state=getattr(model, "random_state", None),
            memory_budget=getattr(model, "memory_budget", None),
        )  # fmt: skip
        display = cls._of_target(path, target, alpha, getattr(model, "feature_names_in_", None))
        if is_classifier(model):
            # Two classes have one column, which is 1 for the second.
            at = target if Y.ndim > 1 and Y.shape[1] > 1 else 1
            display.label = f"coefficient for class {model.classes_[at]}"
        return display.plot(ax=ax, n_highlighted=n_highlighted)

    @classmethod
    def from_path(
        cls, path: RidgePath, *, alpha: float | None = None, feature_names: Any = None,
        target: int = 0, n_highlighted: int = 10, ax: Axes | None = None,
    ) -> PathDisplay:  # fmt: skip
        """Draw what `ling.ridge_path` gave; without an `alpha`, names go by the whole path."""
        display = cls._of_target(path, target, alpha, feature_names)
        return display.plot(ax=ax, n_highlighted=n_highlighted)

    @classmethod
    def _of_target(cls, path: RidgePath, target: int, alpha: Any, names: Any) -> PathDisplay:
        coef, label = np.asarray(path.coef), "coefficient"
        if coef.ndim == 3:
            if not 0 <= target < coef.shape[1]:
                raise BadOption(f"target is {target}; pass one of 0 to {coef.shape[1] - 1}.")
            label = f"coefficient for y[:, {target}]" if coef.shape[1] > 1 else label
            coef = coef[:, target]
        return cls(
            alphas=path.alphas, coef=coef, edf=path.edf, alpha=alpha, feature_names=names,
            label=label,
        )  # fmt: skip

    def plot(self, ax: Axes | None = None, *, n_highlighted: int = 10) -> PathDisplay:
        """Draw into `ax`, or a figure of its own; a figure without a layout engine gets one."""
        self.figure_, self.ax_ = _axes(ax, self)
        self.ax_.set(xscale="log", xlabel="alpha", ylabel=self.label)
        self.ax_.yaxis.set_major_formatter(TICKS)
        self.ax_.yaxis.label.set_parse_math(False)  # a class may have a dollar in its name
        self.ax_.axhline(0, color="0.4", linewidth=0.8, zorder=1)
        # The names take the left side, where the lines are apart.
        self.ax_.yaxis.set_label_position("right")
        self.ax_.yaxis.tick_right()
        self.ax_.spines["left"].set_visible(False)
        self.ax_.spines["right"].set_visible(True)
        self.highlighted_, others = self._ranked(n_highlighted)
        self.others_ = self._draw_others(others) if others.size else None
        self._draw_named()
        if self.alpha is not None:
            _vertical(self.ax_, self.alpha, "alpha = {}", CHOSEN, "-")
        self.ax_.margins(x=0)
        self.ax_.set_ylim(*self._limits())
        _legend_above(self.ax_, self._draw_degrees())
        return self

    def _ranked(self, n_highlighted: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which coefficients have names, from the lowest to the highest end, and the others."""
        if n_highlighted < 0:
            raise BadOption(f"n_highlighted is {n_highlighted}; pass 0 or more.")
        sizes = np.abs(self.coef).max(axis=0)
        if self.alpha is not None:
            sizes = np.abs(self.coef[_nearest(self.alphas, self.alpha)])
        order = np.argsort(-sizes, kind="stable")
        named = order[:n_highlighted]
        return named[np.argsort(self.coef[0, named], kind="stable")], order[n_highlighted:]

    def _draw_others(self, others: NDArray[np.intp]) -> LineCollection:
        """Thin grey lines, the fainter the more there are."""
        from matplotlib.collections import LineCollection

        coef = self.coef[:, others]
        x = np.broadcast_to(self.alphas, coef.T.shape)
        lines = LineCollection(
            list(np.stack([x, coef.T], axis=2)), colors=GREY, linewidths=0.6, zorder=1.5,
            alpha=float(np.clip(200 / len(others), 0.15, 1)), rasterized=len(others) > RASTERISED,
        )  # fmt: skip
        self.ax_.add_collection(lines)
        low, high = self._limits()
        off = int(((coef < low) | (coef > high)).any(axis=0).sum())
        words = f"{len(others)} other coefficient{'s' if len(others) > 1 else ''}"
        words += f" ({off} off the chart)" if off else ""
        self.ax_.plot([], [], color=GREY, linewidth=0.8, label=words)
        return lines

    def _draw_named(self) -> None:
        names = self.feature_names
        self.lines_, self.texts_ = [], []
        labels = _Column(self.ax_, self.alphas[0], self.coef[0, self.highlighted_])
        for number, feature in enumerate(self.highlighted_):
            # Neighbours differ in colour, as they are in the order of their ends.
            dashes = ("-", "--", ":")[number // len(NAMED) % 3]
            colour = NAMED[number % len(NAMED)]
            self.lines_ += self.ax_.plot(
                self.alphas, self.coef[:, feature], dashes, color=colour, linewidth=1.6
            )
            name = f"x{feature}" if names is None else str(names[feature])
            self.texts_.append(labels.add(number, _shortened(name), colour))

    def _limits(self) -> tuple[float, float]:
        """Room for all lines from the alpha in use upwards, and all of those that have names.

        Others may leave the picture at smaller alphas, where they can be so large as to flatten it.
        """
        seen = np.zeros(self.coef.shape, dtype=bool)
        seen[0 if self.alpha is None else _nearest(self.alphas, self.alpha) :] = True
        seen[:, self.highlighted_] = True
        low, high = (float(end(self.coef, where=seen, initial=0.0)) for end in (np.min, np.max))
        more = 0.05 * (high - low) or 1.0
        return low - more, high + more

    def _draw_degrees(self) -> Any:
        """Effective degrees of freedom on top, at alphas that are about equally far apart."""
        wanted = np.geomspace(self.alphas[0], self.alphas[-1], 6)
        at = np.unique([_nearest(self.alphas, alpha) for alpha in wanted])
        top = self.ax_.secondary_xaxis("top")
        top.set_xticks(self.alphas[at], [f"{edf:.3g}" for edf in self.edf[at]])
        top.set_xticks([], minor=True)
        top.set_xlabel("effective degrees of freedom")
        return top


class SpectrumDisplay:
    """Eigenvalues of X'X beside alpha, and how much ridge regression keeps of each direction.

    That is d / (d + alpha) of a direction with eigenvalue d: those far above alpha are kept, those
    far below are as good as left out. The sum is the effective degrees of freedom.

    Parameters
    ----------
    eigenvalues : array of shape (n_values,)
        Decreasing; those that are 0 but for rounding left out.
    alpha : float or array of shape (n_targets,)
    edf : tuple of float
        Effective degrees of freedom for the median alpha: bounds, equal where they are exact.
    n_directions : int
        Of how many: at most n_features.
    note : str, default=""
        What is not shown.

    Attributes
    ----------
    figure_, ax_
        Where it is drawn.
    points_ : PathCollection
        The eigenvalues, dark as far as they are kept.
    line_ : Line2D or None
        At the (median) alpha, if that is above 0.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ling import Ridge, SpectrumDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> display = SpectrumDisplay.from_estimator(Ridge(alpha=0.1).fit(X, y), X)
    >>> print(display.ax_.get_title(loc="left"))
    effective degrees of freedom: 7.64 of 10
    """

    figure_: Figure
    ax_: Axes
    points_: PathCollection
    line_: Line2D | None

    def __init__(
        self, *, eigenvalues: Array, alpha: Any, edf: tuple[float, float], n_directions: int,
        note: str = "",
    ) -> None:  # fmt: skip
        self.eigenvalues = np.asarray(eigenvalues)
        self.alpha = alpha
        self.edf = edf
        self.n_directions = n_directions
        self.note = note

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, *, sample_weight: Any = None, n_values: int | None = None,
        ax: Axes | None = None,
    ) -> SpectrumDisplay:  # fmt: skip
        """Draw the spectrum of the X that a model was fitted to.

        Parameters
        ----------
        model : Ridge, RidgeCV, RidgeClassifier or RidgeClassifierCV
            Fitted to the same X; X is centred as it was for the fit, if it has an intercept.
        X, sample_weight
            As for `fit`.
        n_values : int, default=None
            How many eigenvalues, the largest. None for all up to min(X.shape) = 3000, where they
            are computed exactly, and for 100 beyond, where each takes a few passes over X.
        ax : Axes, default=None
        """
        if n_values is not None and n_values < 1:
            raise BadOption(f"n_values is {n_values}; pass at least 1, or None.")
        X, alpha = _checked(model, X)
        middle = np.array([np.median(alpha)])
        problem, centring = _without_targets(model, X, sample_weight, middle)
        values, edf, note = _spectrum(problem, float(problem.alphas[0]), n_values)
        display = cls(
            eigenvalues=values * centring.x_unit**2, alpha=alpha, edf=edf,
            n_directions=problem.shape[1], note=note,
        )  # fmt: skip
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> SpectrumDisplay:
        """Draw into `ax`, or a figure of its own; a figure without a layout engine gets one."""
        self.figure_, self.ax_ = _axes(ax, self)
        self.ax_.set(
            xscale="log", yscale="log", xlabel="number of the direction",
            ylabel="eigenvalue of X'X, d",
        )  # fmt: skip
        self.ax_.margins(y=0.1)
        middle = float(np.median(self.alpha))
        self._draw_points(middle)
        self.line_ = None
        if middle > 0:
            self._draw_alpha(middle)
            self._draw_shares(middle)
        self.ax_.set_title(self._words(), loc="left", fontsize=SMALL + 1)
        return self

    def _draw_points(self, alpha: float) -> None:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.ticker import LogLocator

        d = self.eigenvalues
        kept = LinearSegmentedColormap.from_list("kept", ["#C9D9E6", MEASURED, "#00304D"])
        self.points_ = self.ax_.scatter(
            np.arange(1, len(d) + 1), d, c=d / (d + alpha), cmap=kept, vmin=0, vmax=1,
            s=float(np.clip(1500 / max(1, len(d)), 5, 36)), rasterized=len(d) > RASTERISED,
            zorder=3,
        )  # fmt: skip
        self.ax_.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if len(d) < 500 else (1,)))
        self.ax_.xaxis.set_major_formatter(TICKS)
        self.ax_.xaxis.set_minor_formatter("")
        self.ax_.set_xlim(0.85, max(2, 1.18 * len(d)))

    def _draw_alpha(self, alpha: float) -> None:
        """A line at alpha; its label above it at the right or below at the left, off the points."""
        self.line_ = self.ax_.axhline(alpha, color=CHOSEN, linewidth=1.4)
        words = f"alpha = {_plain(alpha)}"
        if np.size(self.alpha) > 1:
            low, high = float(np.min(self.alpha)), float(np.max(self.alpha))
            self.ax_.axhspan(low, high, color=CHOSEN, alpha=0.12, linewidth=0)
            words = (
                f"median of {np.size(self.alpha)} alphas = {_plain(alpha)}, "
                f"from {_plain(low)} to {_plain(high)}"
            )
        above = int((self.eigenvalues > alpha).sum())
        if above**2 < len(self.eigenvalues):  # they cross in the left half
            x, y, side, base = 1, 3, "right", "bottom"
        else:
            x, y, side, base = 0, -3, "left", "top"
        self.ax_.annotate(
            words, (x, alpha), (4 - 8 * x, y), xycoords=("axes fraction", "data"),
            textcoords="offset points", color=CHOSEN, fontsize=SMALL, annotation_clip=False,
            ha=side, va=base,
        )  # fmt: skip

    def _draw_shares(self, alpha: float) -> None:
        """An axis at the right: what is kept of a direction with that eigenvalue."""
        low, high = self.ax_.get_ylim()
        self.ax_.set_ylim(low, high)
        shares = np.array(SHARES)
        at = alpha * shares / (1 - shares)
        seen = (at >= low) & (at <= high)
        right = self.ax_.secondary_yaxis("right")
        right.set_yticks(at[seen], [f"{100 * share:.3g}%" for share in shares[seen]])
        right.set_yticks([], minor=True)
        right.set_ylabel("kept by ridge, d / (d + alpha)")

    def _words(self) -> str:
        low, high = (f"{edf:.3g}" for edf in self.edf)
        found = low if low == high else f"between {low} and {high}"
        words = f"effective degrees of freedom: {found} of {self.n_directions}"
        words += " at the median alpha" if np.size(self.alpha) > 1 else ""
        return f"{words}\n{self.note}" if self.note else words


class _Column:
    """Names beside the left ends of lines, moved apart just as far as they need.

    Where they go is worked out whenever they are drawn, so it holds at every size of the figure.
    """

    def __init__(self, ax: Axes, x: float, heights: Array) -> None:
        self.ax, self.x, self.heights = ax, x, heights
        tall = ax.get_window_extent().height * 72 / ax.figure.dpi
        self.size = float(np.clip(0.8 * tall / max(1, len(heights)), 4, SMALL))

    def add(self, number: int, name: str, colour: str) -> Any:
        """The name of a line, and a short stroke that leads to it."""
        return self.ax.annotate(
            name, (self.x, self.heights[number]), (0, 0), textcoords=self._place(number),
            ha="right", va="center", fontsize=self.size, annotation_clip=False, parse_math=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 1,
                        "shrinkB": 0, "relpos": (1, 0.5)},
        )  # fmt: skip

    def _place(self, number: int) -> Callable[[Any], Any]:
        from matplotlib.transforms import Affine2D

        def place(renderer: Any) -> Any:
            ends = self.ax.transData.transform([(self.x, height) for height in self.heights])
            gap = renderer.points_to_pixels(1.3 * self.size)
            box = self.ax.get_window_extent()
            y = _apart(ends[:, 1], gap, box.y0, box.y1)[number]
            return Affine2D().translate(box.x0 - renderer.points_to_pixels(16), y)

        return place


def _apart(wanted: Array, gap: float, low: float, high: float) -> Array:
    """The places nearest to those wanted, in ascending order, that are at least `gap` apart."""
    steps = gap * np.arange(len(wanted))
    places = isotonic_regression(wanted - steps).x
    return np.asarray(np.clip(places, low, max(low, high - steps[-1])) + steps)


def _spectrum(
    problem: Problem, alpha: float, n_values: int | None
) -> tuple[Array, tuple[float, float], str]:
    """Eigenvalues of X'X, decreasing; bounds on the effective degrees of freedom; what is left."""
    n, p = problem.shape
    if min(n, p) > EXACT:
        return _largest(problem, alpha, min(n_values or SOME, min(n, p) - 1))
    G = problem.gram() if p <= n else problem.row_gram()
    values = tridiagonal(G).eigenvalues[::-1]
    values = _above_rounding(values, max(n, p))
    degrees = float((values / (values + alpha)).sum())
    zero, shown = p - len(values), values[:n_values]
    parts = []
    if len(shown) < len(values):
        parts.append(f"the {len(shown)} largest of {len(values)} eigenvalues above 0")
    if zero:
        parts.append(f"{zero} eigenvalue{'s are' if zero > 1 else ' is'} 0")
    return shown, (degrees, degrees), "; ".join(parts)


def _largest(
    problem: Problem, alpha: float, n_values: int
) -> tuple[Array, tuple[float, float], str]:
    """A few eigenvalues by Lanczos' process; the trace tells how much the others can add.

    They are at most the least that was found, d, and their sum is known: their shares of it are
    least if as many as possible are d, and greatest if all are equal.
    """
    p = problem.shape[1]
    product = LinearOperator((p, p), matvec=problem.design.gram_matmat, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(p)
    found = eigsh(product, n_values, v0=start, return_eigenvectors=False)
    values = _above_rounding(np.sort(found)[::-1], max(problem.shape))
    degrees = float((values / (values + alpha)).sum())
    note = f"from the {len(values)} largest eigenvalues, and the sum of all"
    rest = float((problem.column_norms**2).sum() - values.sum())
    if rest <= 0 or len(values) < n_values:  # nothing but rounding
        return values, (degrees, degrees), note
    mean = rest / (min(problem.shape) - n_values)
    least, most = rest / (values[-1] + alpha), rest / (mean + alpha)
    return values, (degrees + min(least, most), degrees + most), note


def _above_rounding(values: Array, size: int) -> Array:
    """Decreasing eigenvalues without those that are 0 but for rounding."""
    return np.asarray(values[values > size * np.finfo(np.float64).eps * values[0]])


def _axes(ax: Axes | None, display: object) -> tuple[Figure, Axes]:
    """Those given, or new ones, in a figure whose layout leaves room for legends and names."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as missing:
        raise ImportError(
            f"{type(display).__name__}.plot needs {missing.name}: pip install 'ling[plot]'"
        ) from missing
    if ax is None:
        _, ax = plt.subplots()
    figure: Any = ax.figure
    if figure.get_layout_engine() is None and hasattr(figure, "set_layout_engine"):
        figure.set_layout_engine("constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def _vertical(ax: Axes, alpha: float, words: str, colour: str, dashes: str) -> None:
    """A labelled line at alpha; only the label at 0, which is not on a logarithmic axis."""
    style: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 1.4}
    if alpha > 0:
        ax.axvline(alpha, label=words.format(_plain(alpha)), **style)
    else:
        ax.plot([], [], label=words.format(0), **style)


def _legend_above(ax: Axes, top: Any = None, title: str = "") -> None:
    """Above the axes, and above the axis on `top` of them: where it covers nothing."""
    from matplotlib.transforms import ScaledTranslation

    if not ax.get_legend_handles_labels()[0]:
        return
    dpi = ax.figure.dpi_scale_trans
    taken = 0.0 if top is None else top.get_tightbbox().height / ax.figure.dpi
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=SMALL,
        bbox_transform=ax.transAxes + ScaledTranslation(0, taken, dpi), borderaxespad=0.3,
        title=fill(title, 70) or None, title_fontsize=SMALL + 1, alignment="left",
    )  # fmt: skip


def _score_name(model: Any) -> str:
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


def _checked(model: Any, X: Any) -> tuple[Any, Array]:
    """X as the model was fitted to it, and its alpha or alphas."""
    check_is_fitted(model)
    alpha = getattr(model, "alpha_", getattr(model, "alpha", None))
    if alpha is None or not hasattr(model, "fit_intercept"):
        raise WrongType(
            f"model is a {type(model).__name__}, which has no alpha; pass a fitted Ridge, RidgeCV, "
            "RidgeClassifier or RidgeClassifierCV (of a pipeline, its last step and its X)."
        )
    if getattr(model, "positive", False):
        raise BadOption(
            "model has positive=True, to which neither paths nor spectra apply; pass a model with "
            "positive=False."
        )
    X = validate_data(model, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
    return X, np.ravel(np.asarray(alpha, dtype=np.float64))


def _targets(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
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
        sample_weight = balance if sample_weight is None else balance * weights_of(sample_weight, X)
    return Y, sample_weight


def _path_alphas(model: Any, X: Any, weights: Any, alpha: float) -> Array:
    """Smoothly over what cross-validation has tried, or would, and the one in use among them."""
    found = getattr(model, "cv_results_", None)
    if isinstance(found, CVResults) and np.ptp(found.alphas) > 0:
        tried = found.alphas
    else:
        problem, centring = _without_targets(model, X, weights, np.ones(1))
        tried = default_grid(problem) * centring.x_unit**2
    ends = np.append(tried, alpha)
    ends = ends[ends > 0]
    # The ends and alpha are exact, not as logarithms leave them.
    inner = np.geomspace(ends.min(), ends.max(), N_PATH)[1:-1]
    return np.unique([ends.min(), *inner, alpha or ends.min(), ends.max()])


def _without_targets(model: Any, X: Any, weights: Any, alphas: Array) -> tuple[Problem, Centring]:
    """X as the model centres and weights it."""
    Y = np.zeros((X.shape[0], 1))
    return problems.build(X, Y, alphas, weights_of(weights, X), bool(model.fit_intercept))


def _nearest(alphas: Array, alpha: float) -> int:
    """Number of the alpha that is nearest in ratio."""
    return int(np.argmin(np.abs(np.log(alphas) - np.log(max(alpha, np.finfo(float).tiny)))))


def _shortened(name: str) -> str:
    """Both ends of a long name: families of features share one of them."""
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[: half - 1]}…{name[-half:]}"


def _plain(value: float) -> str:
    """Three digits, and no exponent below a million."""
    return f"{float(f'{value:.3g}'):g}"
