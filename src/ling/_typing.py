"""Types that all packages share, and the types of public arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]


class HasShape(Protocol):
    """An array, a sparse matrix or a table: of NumPy, SciPy, pandas, polars, pyarrow, Dask, ling.

    The type of the shape is left open, because Dask does not know the number of rows of a table.
    """

    @property
    def shape(self) -> Any:
        """Number of rows, and number of columns."""


class HasSchema(Protocol):
    """A pyarrow Table, RecordBatch or Dataset; pyarrow has no types of its own."""

    @property
    def schema(self) -> Any:
        """Names and types of the columns."""


class DaskCollection(Protocol):
    """A Dask array or data frame, for which predictions are Dask arrays as well."""

    def __dask_graph__(self) -> Any:
        """The tasks that compute it."""


class Splitter(Protocol):
    """A cross-validation splitter, such as `sklearn.model_selection.KFold()`."""

    def split(self, X: Any, y: Any, groups: Any, /) -> Iterable[tuple[Any, Any]]:
        """Pairs of the rows of a training set and of its test set."""


#: X. y, sample_weight and alphas are `numpy.typing.ArrayLike`.
MatrixLike: TypeAlias = HasShape | Sequence[Sequence[float]] | Sequence[NDArray[Any]]
CVLike: TypeAlias = int | Splitter | Iterable[tuple[Any, Any]] | None
ScoringLike: TypeAlias = str | Callable[..., float] | None
ClassWeight: TypeAlias = Mapping[Any, float] | Literal["balanced"] | None
#: `random_state` of the estimators, which scikit-learn validates, and of `ling.paper`.
RandomState: TypeAlias = int | np.integer[Any] | np.random.RandomState | None
Seed: TypeAlias = RandomState | np.random.Generator
FilePath: TypeAlias = str | os.PathLike[str]

Solver: TypeAlias = Literal[
    "auto", "direct", "two_stage",
    "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga", "lbfgs",
]  # fmt: skip
Precision: TypeAlias = Literal["auto", "float64", "float32"]
GCVMode: TypeAlias = Literal["auto", "svd", "eigen", "stochastic"]
SelectionRule: TypeAlias = Literal["best", "one_standard_error"]
MissingRule: TypeAlias = Literal["error", "mean"]
UnknownRule: TypeAlias = Literal["error", "ignore"]
PredictionPlotKind: TypeAlias = Literal["actual_vs_predicted", "residual_vs_predicted"]
