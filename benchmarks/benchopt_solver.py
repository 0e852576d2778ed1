"""ling in benchopt's ridge benchmark (github.com/benchopt/benchmark_ridge).

Copy this file into its `solvers/`, as ling.py, and `benchopt run . -s ling`; ling has to be
installed in the environment that benchopt runs in. The objective there is
1/2 ||y - Xw - b||^2 + lmbd/2 ||w||^2, so that alpha is lmbd. A point of the curve is a fit to a
tolerance: `tol` bounds the error of the training predictions, for every engine.
"""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

from ling import Ridge


class Solver(BaseSolver):
    name = "ling"
    sampling_strategy = "tolerance"
    parameters = {"solver": ["auto"]}  # noqa: RUF012  (benchopt's way)

    references = [  # noqa: RUF012
        "Y. Lu and D. P. Foster, 'Fast Ridge Regression with Randomized Principal Component "
        "Analysis and Gradient Descent', Uncertainty in Artificial Intelligence (2014)"
    ]

    def set_objective(self, X, y, lmbd, fit_intercept):
        self.X, self.y = X, y
        self.model = Ridge(
            alpha=lmbd, fit_intercept=fit_intercept, solver=self.solver,
            random_state=0,
        )  # fmt: skip
        self.beta = self._nothing()

    def warm_up(self):
        self.run_once(1e-2)  # loops are compiled, and the machine is measured

    def get_next(self, tol):
        return min(tol, 1.0) / 10

    def run(self, tol):
        if tol >= 1:  # where curves begin
            self.beta = self._nothing()
            return
        with warnings.catch_warnings():
            # In the end benchopt asks for more digits than there are.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.set_params(tol=tol).fit(self.X, self.y)
        coef, intercept = self.model.coef_.ravel(), self.model.intercept_
        self.beta = np.r_[coef, intercept] if self.model.fit_intercept else coef

    def get_result(self):
        return {"beta": self.beta}

    def _nothing(self):
        return np.zeros(self.X.shape[1] + bool(self.model.fit_intercept))
