"""`SpectrumDisplay`: eigenvalues, and what ridge keeps of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, eigsh

from ling._typing import Array, MatrixLike
from ling.errors import Change, OptionError
from ling.estimators import RidgeModel
from ling.estimators.fit_session import as_fitted
from ling.linalg.tridiagonal import tridiagonalize
from ling.report.fitted_model import check_fitted_model, problem_without_targets
from ling.report.plot_style import (
    ALPHA_COLOR,
    DATA_COLOR,
    RASTERIZE_ABOVE,
    SMALL_FONT_SIZE,
    TICK_FORMAT,
    format_edf,
    format_short,
    prepare_axes,
)
from ling.solvers.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Shares of a direction that the axis of a spectrum shows.
SHRINKAGE_TICKS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
# min(n, p) up to which all eigenvalues are computed, and how many beyond.
MAX_EXACT_SIZE, N_LANCZOS_EIGENVALUES = 3000, 100


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
        self, *, eigenvalues: Array, alpha: float | Array, edf: tuple[float, float],
        n_directions: int, note: str = "",
    ) -> None:  # fmt: skip
        self.eigenvalues = np.asarray(eigenvalues)
        self.alpha = alpha
        self.edf = edf
        self.n_directions = n_directions
        self.note = note

    @classmethod
    def from_estimator(
        cls, model: RidgeModel, X: MatrixLike, *, sample_weight: ArrayLike | None = None,
        n_values: int | None = None, ax: Axes | None = None,
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
        model = as_fitted(model)
        if n_values is not None and n_values < 1:
            raise OptionError(
                "n_values", f"is {n_values}", "pass at least 1", Change("n_values", None)
            )
        X, alpha = check_fitted_model(model, X)
        middle = np.array([np.median(alpha)])
        problem, standardization = problem_without_targets(model, X, sample_weight, middle)
        values, edf, note = compute_spectrum(problem, float(problem.alphas[0]), n_values)
        display = cls(
            eigenvalues=values * standardization.x_scale**2, alpha=alpha, edf=edf,
            n_directions=problem.shape[1], note=note,
        )  # fmt: skip
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> SpectrumDisplay:
        """Draw into `ax`, or a figure of its own; a figure without a layout engine gets one."""
        self.figure_, self.ax_ = prepare_axes(ax, self)
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
            self._draw_shrinkage_axis(middle)
        self.ax_.set_title(self._title(), loc="left", fontsize=SMALL_FONT_SIZE + 1)
        return self

    def _draw_points(self, alpha: float) -> None:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.ticker import LogLocator

        d = self.eigenvalues
        kept = LinearSegmentedColormap.from_list("kept", ["#C9D9E6", DATA_COLOR, "#00304D"])
        self.points_ = self.ax_.scatter(
            np.arange(1, len(d) + 1), d, c=d / (d + alpha), cmap=kept, vmin=0, vmax=1,
            s=float(np.clip(1500 / max(1, len(d)), 5, 36)), rasterized=len(d) > RASTERIZE_ABOVE,
            zorder=3,
        )  # fmt: skip
        self.ax_.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if len(d) < 500 else (1,)))
        self.ax_.xaxis.set_major_formatter(TICK_FORMAT)
        self.ax_.xaxis.set_minor_formatter("")
        self.ax_.set_xlim(0.85, max(2, 1.18 * len(d)))

    def _draw_alpha(self, alpha: float) -> None:
        """A line at alpha; its label above it at the right or below at the left, off the points."""
        self.line_ = self.ax_.axhline(alpha, color=ALPHA_COLOR, linewidth=1.4)
        words = f"alpha = {format_short(alpha)}"
        if np.size(self.alpha) > 1:
            low, high = float(np.min(self.alpha)), float(np.max(self.alpha))
            self.ax_.axhspan(low, high, color=ALPHA_COLOR, alpha=0.12, linewidth=0)
            words = (
                f"median of {np.size(self.alpha)} alphas = {format_short(alpha)}, "
                f"from {format_short(low)} to {format_short(high)}"
            )
        above = int((self.eigenvalues > alpha).sum())
        if above**2 < len(self.eigenvalues):  # they cross in the left half
            x, y, side, base = 1, 3, "right", "bottom"
        else:
            x, y, side, base = 0, -3, "left", "top"
        self.ax_.annotate(
            words,
            (x, alpha),
            (4 - 8 * x, y),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=ALPHA_COLOR,
            fontsize=SMALL_FONT_SIZE,
            annotation_clip=False,
            ha=side,
            va=base,
        )

    def _draw_shrinkage_axis(self, alpha: float) -> None:
        """An axis at the right: what is kept of a direction with that eigenvalue."""
        low, high = self.ax_.get_ylim()
        self.ax_.set_ylim(low, high)
        shares = np.array(SHRINKAGE_TICKS)
        at = alpha * shares / (1 - shares)
        seen = (at >= low) & (at <= high)
        right = self.ax_.secondary_yaxis("right")
        right.set_yticks(at[seen], [f"{100 * share:.3g}%" for share in shares[seen]])
        right.set_yticks([], minor=True)
        right.set_ylabel("kept by ridge, d / (d + alpha)")

    def _title(self) -> str:
        low, high = (format_edf(edf) for edf in self.edf)
        found = low if low == high else f"between {low} and {high}"
        words = f"effective degrees of freedom: {found} of {self.n_directions:,}"
        words += " at the median alpha" if np.size(self.alpha) > 1 else ""
        return f"{words}\n{self.note}" if self.note else words


def compute_spectrum(
    problem: Problem, alpha: float, n_values: int | None, max_exact_size: int = MAX_EXACT_SIZE
) -> tuple[Array, tuple[float, float], str]:
    """Eigenvalues of X'X, decreasing; bounds on the effective degrees of freedom; what is left."""
    n, p = problem.shape
    if min(n, p) > max_exact_size:
        return _lanczos_spectrum(
            problem, alpha, min(n_values or N_LANCZOS_EIGENVALUES, min(n, p) - 1)
        )
    G = problem.gram() if p <= n else problem.row_gram()
    return full_spectrum(tridiagonalize(G).eigenvalues, problem.shape, alpha, n_values)


def full_spectrum(
    eigenvalues: Array, shape: tuple[int, int], alpha: float, n_values: int | None
) -> tuple[Array, tuple[float, float], str]:
    """The same where all of them are known, in ascending order."""
    p = shape[1]
    values = _drop_rounding_zeros(eigenvalues[::-1], max(shape))
    effective_dof = float((values / (values + alpha)).sum())
    zero, shown = p - len(values), values[:n_values]
    parts = []
    if len(shown) < len(values):
        parts.append(f"the {len(shown)} largest of {len(values)} eigenvalues above 0")
    if zero:
        parts.append(f"{zero} eigenvalue{'s are' if zero > 1 else ' is'} 0")
    return shown, (effective_dof, effective_dof), "; ".join(parts)


def _lanczos_spectrum(
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
    values = _drop_rounding_zeros(np.sort(found)[::-1], max(problem.shape))
    effective_dof = float((values / (values + alpha)).sum())
    note = f"from the {len(values)} largest eigenvalues, and the sum of all"
    rest = float((problem.column_norms**2).sum() - values.sum())
    if rest <= 0 or len(values) < n_values:  # nothing but rounding
        return values, (effective_dof, effective_dof), note
    mean = rest / (min(problem.shape) - n_values)
    least, most = rest / (values[-1] + alpha), rest / (mean + alpha)
    return values, (effective_dof + min(least, most), effective_dof + most), note


def _drop_rounding_zeros(values: Array, size: int) -> Array:
    """Decreasing eigenvalues without those that are 0 but for rounding."""
    return np.asarray(values[values > size * np.finfo(np.float64).eps * values[0]])
