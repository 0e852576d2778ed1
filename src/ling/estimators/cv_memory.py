"""The memory that a choice of alpha takes, checked before the first pass."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ling._typing import Array
from ling.errors import Change, OptionError
from ling.estimators.memory_checks import (
    allows,
    allows_fit,
    check_row_memory,
    enough_memory,
    memory_error,
)
from ling.model_selection import Scoring, Splits
from ling.model_selection.alpha_grid import DEFAULT_N_ALPHAS
from ling.model_selection.iterated_folds import DIRECTIONS_PER_PASS, MAX_BUDGET_FRACTION
from ling.model_selection.strategy import exact_loo_obstacle
from ling.solvers.cv_cost import (
    cv_vector_bytes,
    fold_factorization_bytes,
    splitter_bytes,
    subspace_bytes,
)
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan
from ling.solvers.problem import TrainingData
from ling.wording import format_bytes

# Directions that a subspace needs for the choice of alpha at least. In 70 random problems without
# memory for factorisations, no choice was proved with fewer than 8; those proved took 8 to 257.
MIN_DIRECTIONS = 2 * DIRECTIONS_PER_PASS


@dataclass(frozen=True, eq=False)
class CVNeeds:
    """What the memory of a choice of alpha depends on, besides the plan of its fit.

    Attributes
    ----------
    options : FitOptions
        Those of the fit with the chosen alpha.
    n_splits : int or None
        None for leave-one-out.
    stochastic : bool or None
        Whether leave-one-out is estimated; None leaves it to the plan.
    sums_scores : bool
        Whether scores follow from sums over samples.
    n_stored : int
        Number of alphas whose values for every sample are stored.
    has_zero_alpha : bool
    uses_splitter : bool
        Whether scikit-learn, or the user, assigns rows to folds.
    """

    options: FitOptions
    n_splits: int | None
    stochastic: bool | None = None
    sums_scores: bool = True
    n_stored: int = 0
    has_zero_alpha: bool = False
    uses_splitter: bool = False

    @classmethod
    def of_model(
        cls, model: Any, splits: Splits | None, scoring: Scoring, alphas: Array | None,
        options: FitOptions,
    ) -> CVNeeds:  # fmt: skip
        """What `RidgeCV` or `RidgeClassifierCV` needs; `alphas` are the user's."""
        n_splits = None if splits is None else len(splits)
        has_errors = scoring.has_std_error_from_sums or (n_splits or 0) > 1
        n_alphas = DEFAULT_N_ALPHAS if alphas is None else len(alphas)
        return cls(
            options,
            n_splits,
            wants_stochastic_gcv(model),
            scoring.sample_loss is not None and has_errors and not model.store_cv_results,
            n_alphas if model.store_cv_results else 0,
            alphas is not None and not alphas.all(),
            n_splits is not None and (is_classifier(model) or not isinstance(model.cv, Integral)),
        )

    def has_direct_strategy(self, plan: Plan) -> bool:
        """Whether alpha can be chosen by factorisations, with the budget of a plan."""
        if self.n_splits is None:
            return not (exact_loo_obstacle(plan) if self.stochastic is None else self.stochastic)
        return plan.memory.allows(_factorization_bytes(plan))

    def n_bytes(self, plan: Plan) -> float:
        """Bytes of arrays of all rows, and of factorisations or of the smallest subspaces."""
        is_direct = self.has_direct_strategy(plan)
        matrices = (
            _factorization_bytes(plan) if is_direct else self._subspace_bytes(plan, MIN_DIRECTIONS)
        )
        return self._row_bytes(plan) + matrices

    def may_suffice(self, plan: Plan) -> bool:
        """Whether the budget of a plan may allow a choice; it may turn out that it does not."""
        if not self._allows_arrays(plan):
            return False
        return self.has_direct_strategy(plan) or self._allows_subspaces(plan, MIN_DIRECTIONS)

    def suffices(self, plan: Plan) -> bool:
        """Whether the budget of a plan allows a choice, whatever the data."""
        if not self._allows_arrays(plan, exactly=True):
            return False
        return self.has_direct_strategy(plan) or self._allows_subspaces(plan, _full_rank(plan))

    def most(self, plan: Plan) -> float:
        """Bytes that a choice of alpha takes at most, by factorisations unless that is excluded."""
        if self.stochastic:
            return self._row_bytes(plan) + self._subspace_bytes(plan, _full_rank(plan))
        return self._row_bytes(plan) + _factorization_bytes(plan)

    def _allows_arrays(self, plan: Plan, exactly: bool = False) -> bool:
        is_direct = self.has_direct_strategy(plan)
        if self.has_zero_alpha and not (is_direct and allows_fit(self.options, np.zeros(1), plan)):
            return False
        fits = [plan.estimate_for("direct")] if is_direct else plan.steps
        fit_bytes = min(fit.n_bytes for fit in fits) if exactly else fits[0].n_bytes
        sizes = (self.n_bytes(plan), fit_bytes)
        return all(allows(self.options, plan, n_bytes, exactly) for n_bytes in sizes)

    def _row_bytes(self, plan: Plan) -> float:
        shape = plan.dimensions
        n, t = shape.n, shape.n_targets
        vectors = cv_vector_bytes(n, t, shape.is_weighted, self.sums_scores)
        vectors += 16.0 * n * t * self.n_stored
        return max(vectors, splitter_bytes(n)) if self.uses_splitter else vectors

    def _subspace_bytes(self, plan: Plan, n_directions: int) -> float:
        return subspace_bytes(plan.dimensions.p, [n_directions] * (self.n_splits or 1))

    def _allows_subspaces(self, plan: Plan, n_directions: int) -> bool:
        return plan.memory.allows(self._subspace_bytes(plan, n_directions), MAX_BUDGET_FRACTION)


def check_cv_memory(data: TrainingData, plan: Plan, needs: CVNeeds) -> None:
    """Raise OptionError if the budget cannot allow a choice of alpha, whatever the data."""
    if needs.may_suffice(plan):
        return
    check_row_memory(data, plan, needs.options, needs.suffices)
    if needs.has_zero_alpha:
        raise OptionError(
            "alphas",
            "contains 0, for which factorisations and singular values of `X` have to fit into "
            "`memory_budget`",
            "pass alphas above 0",
            _enough_for_choice(data, plan, needs),
        )
    raise choice_memory_error(data, plan, needs)


def choice_memory_error(
    data: TrainingData, plan: Plan, needs: CVNeeds, action: str = "choosing alpha"
) -> OptionError:
    """The error for a budget that does not allow a choice; it names one that does."""
    n, p = plan.dimensions.n, plan.dimensions.p
    takes = f"{action} for {n} rows and {p} columns takes up to {format_bytes(needs.most(plan))}"
    return memory_error(takes, _enough_for_choice(data, plan, needs), plan)


def _enough_for_choice(data: TrainingData, plan: Plan, needs: CVNeeds) -> Change:
    return enough_memory(data, plan, needs.options, needs.suffices)


def _factorization_bytes(plan: Plan) -> float:
    return fold_factorization_bytes(plan.dimensions.n, plan.dimensions.p)


def _full_rank(plan: Plan) -> int:
    """Directions of a subspace that needs no more, and of one further pass."""
    return min(plan.dimensions.n, plan.dimensions.p) + DIRECTIONS_PER_PASS


def wants_stochastic_gcv(model: Any) -> bool | None:
    """True if `gcv_mode` asks for stochastic GCV, False for exact; None leaves it to the plan."""
    return {None: None, "stochastic": True}.get(getattr(model, "gcv_mode", None), False)
