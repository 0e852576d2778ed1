"""SpectrumDisplay: every number here is read back from the picture."""

import numpy as np
import pytest
from scipy import sparse

from ling import Ridge, RidgeCV, SpectrumDisplay
from ling.errors import OptionError
from ling.report.fitted_model import problem_without_targets
from ling.report.spectrum_display import compute_spectrum
from tests.raising import raises
from tests.report.displays import drawn

pytestmark = pytest.mark.usefixtures("closed_figures")


class TestSpectrum:
    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("shape", [(40, 8), (8, 40)])
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_draws_the_eigenvalues(self, rng, shape, fit_intercept, make):
        X = rng.standard_normal(shape) + 3
        model = Ridge(alpha=2.0, fit_intercept=fit_intercept).fit(make(X), X[:, 0])
        shown = SpectrumDisplay.from_estimator(model, make(X))
        drawn(shown)
        s = np.linalg.svd(X - X.mean(axis=0) if fit_intercept else X, compute_uv=False)
        d = s[s > 1e-9] ** 2
        points = shown.points_.get_offsets()
        np.testing.assert_array_equal(points[:, 0], np.arange(1, len(d) + 1))
        np.testing.assert_allclose(points[:, 1], d, rtol=1e-8)
        np.testing.assert_allclose(shown.points_.get_array(), d / (d + 2))
        assert shown.edf == pytest.approx(((d / (d + 2)).sum(),) * 2)
        assert shown.line_.get_ydata()[0] == 2.0

    def test_says_what_it_is(self, rng):
        X = rng.standard_normal((20, 30))
        model = Ridge(alpha=3.0, store_covariance=True).fit(X, X[:, 0])
        shown = SpectrumDisplay.from_estimator(model, X)
        title = shown.ax_.get_title(loc="left").splitlines()
        assert title == [
            f"effective degrees of freedom: {model.edf_:.3g} of 30",
            "11 eigenvalues are 0",
        ]
        assert "alpha = 3" in [text.get_text() for text in shown.ax_.texts]

    def test_the_right_axis_says_what_is_kept(self, diabetes):
        X, y = diabetes
        shown = SpectrumDisplay.from_estimator(Ridge(alpha=0.5).fit(X, y), X)
        (right,) = shown.ax_.child_axes
        kept = [float(label.get_text()[:-1]) / 100 for label in right.get_yticklabels()]
        at = np.asarray(right.get_yticks())
        np.testing.assert_allclose(at / (at + 0.5), kept)
        assert 0.5 in kept

    def test_weights_and_units(self, rng):
        X = rng.standard_normal((30, 4)) * 1e-40
        weights = rng.uniform(0.1, 3, 30)
        model = Ridge(alpha=1e-80).fit(X, X[:, 0], weights)
        shown = SpectrumDisplay.from_estimator(model, X, sample_weight=weights)
        centred = (X - weights @ X / weights.sum()) * np.sqrt(weights)[:, None] * 1e40
        d = np.linalg.svd(centred, compute_uv=False) ** 2
        np.testing.assert_allclose(shown.eigenvalues * 1e80, d, rtol=1e-8)
        assert shown.edf[0] == pytest.approx((d / (d + 1)).sum())

    def test_some_of_many(self, rng):
        X = rng.standard_normal((40, 8))
        shown = SpectrumDisplay.from_estimator(Ridge().fit(X, X[:, 0]), X, n_values=3)
        assert len(shown.points_.get_offsets()) == 3
        assert shown.edf[0] > 3
        assert "the 3 largest of 8" in shown.ax_.get_title(loc="left")

    @pytest.mark.parametrize("shape", [(90, 60), (60, 90)])
    @pytest.mark.parametrize("alpha", [1e-3, 10.0, 1e4])
    def test_large_data_is_bounded(self, rng, shape, alpha):
        X = rng.standard_normal(shape) * np.arange(1, shape[1] + 1) ** -0.5
        problem, _ = problem_without_targets(Ridge(), X, None, np.array([alpha]))
        inner = float(problem.alphas[0])
        exact, (edf, _), _ = compute_spectrum(problem, inner, None)
        values, (low, high), note = compute_spectrum(problem, inner, 20, max_exact_size=50)
        np.testing.assert_allclose(values, exact[:20], rtol=1e-8)
        assert low <= edf <= high
        assert low < high
        shown = SpectrumDisplay(
            eigenvalues=values, alpha=inner, edf=(low, high), n_directions=shape[1], note=note
        ).plot()
        title = shown.ax_.get_title(loc="left")
        assert "from the 20 largest eigenvalues" in title
        assert "effective degrees of freedom: " in title

    def test_an_alpha_for_each_target(self, targets):
        X, Y = targets
        model = RidgeCV(alpha_per_target=True).fit(X, Y)
        shown = SpectrumDisplay.from_estimator(model, X)
        assert shown.line_.get_ydata()[0] == np.median(model.alpha_)
        assert "at the median alpha" in shown.ax_.get_title(loc="left")

    def test_nothing_to_show(self):
        X = np.ones((9, 3))
        shown = SpectrumDisplay.from_estimator(Ridge().fit(X, np.arange(9.0)), X)
        drawn(shown)
        assert shown.edf == (0, 0)

    def test_no_penalty_has_no_line(self, diabetes):
        X, y = diabetes
        shown = SpectrumDisplay.from_estimator(Ridge(alpha=0.0).fit(X, y), X)
        drawn(shown)
        assert shown.line_ is None
        assert shown.edf[0] == pytest.approx(10)

    def test_refusals(self, diabetes):
        X, y = diabetes
        with raises(OptionError, "n_values", change=("n_values", None)):
            SpectrumDisplay.from_estimator(Ridge().fit(X, y), X, n_values=0)
        with pytest.raises(ValueError, match="expecting 10 features"):
            SpectrumDisplay.from_estimator(Ridge().fit(X.to_numpy(), y), np.ones((4, 3)))
