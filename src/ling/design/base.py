"""The design matrix of every algorithm: a storage, an affine map of it, and a meter."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from ling._typing import Array
from ling.design.affine import AffineMap, column_magnitudes, scale_symmetric
from ling.design.arrays import (
    as_numeric_array,
    broadcast_scalar,
    n_columns,
    row_slices,
    scale_rows,
)
from ling.design.cg_state import DiagonalCGState
from ling.design.dense import DenseStorage
from ling.design.quantized import QuantizedMatrix
from ling.design.rows import (
    AffineRowTransform,
    GeneratedColumns,
    GramSum,
    RowReduction,
    RowTransform,
    take_rows,
)
from ling.design.sparse import SparseStorage
from ling.design.storage import IDENTITY, Storage
from ling.errors import NegativeWeightError, NonFiniteError, OptionError, ShapeError, Where
from ling.progress import FitProgress, RemainingWork
from ling.results import Cost

log = logging.getLogger("ling")
# Largest ratio of column scales, as a power of two, with which a Gram matrix is formed first and
# scaled afterwards, by the bytes of its entries. Columns of equal norm after scaling have norms of
# this ratio before, whose squares have to stay in the range of the dtype. With a larger ratio, rows
# are scaled first.
MAX_SCALE_EXPONENTS = {4: 20, 8: 200}
# Numbers of a product with X to which an affine map is applied at a time; they stay in a core's
# second-level cache.
FINISHED_ELEMENTS = 2**16


class Meter:
    """A running total of cost, which is also added to `parents`; designs may share one.

    `progress`, if it is given, is notified of all passes, from whichever thread they are made.
    """

    def __init__(self, *parents: Meter, progress: FitProgress | None = None) -> None:
        self.cost = Cost()
        self.parents = parents
        self.progress = progress
        self._lock = Lock()

    def __getstate__(self) -> tuple[Cost, tuple[Meter, ...]]:
        return self.cost, self.parents  # locks cannot be pickled; `__setstate__` creates a new one

    def __setstate__(self, state: tuple[Cost, tuple[Meter, ...]]) -> None:
        self.cost, self.parents = state
        self.progress = None
        self._lock = Lock()

    def add(self, flops: float = 0.0, passes: float = 0.0) -> None:
        """Add FLOPs and passes to the total, log the passes and report them as progress."""
        self._count(flops, passes)
        if not passes:
            return
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%.4g passes over X so far", self.cost.passes)
        if self.progress is not None:
            self.progress.add(passes)

    def begin_stage(self, name: str, expect: Callable[[], RemainingWork] | None = None) -> None:
        """Report that a stage of the fit begins; `expect()` predicts the remaining work."""
        if self.progress is not None:
            self.progress.begin_stage(name, expect)

    def _count(self, flops: float, passes: float) -> None:
        with self._lock:
            self.cost = Cost(self.cost.flops + flops, self.cost.passes + passes)
        for parent in self.parents:
            parent._count(flops, passes)


class Design:
    """A real (n, p) matrix that is accessed through products and blocks of rows only.

    It is X~ = (diag(row_scale) X - left right') diag(column_scale), where `storage` holds X and
    `affine` the other arrays. X~ is never formed: a product costs one pass over X plus
    O(rank (n + p)) FLOPs. The meter counts passes and FLOPs.

    Right-hand sides have shape (p,) or (p, k), and the result has as many dimensions. The dtype of
    the result is `numpy.result_type` of X and the right-hand side: float32 X times float32 V gives
    float32. float32 X times float64 V is accumulated in float64, without a converted copy of X.

    >>> import numpy as np
    >>> design = as_design(np.ones((4, 3)))
    >>> design.gram_matmat(np.ones(3))
    array([12., 12., 12.])
    >>> design.cost
    Cost(flops=48.0, passes=1.0)
    """

    def __init__(
        self,
        storage: Storage,
        affine: AffineMap = IDENTITY,
        meter: Meter | None = None,
        pass_fraction: float = 1.0,
    ) -> None:
        self.storage = storage
        self.affine = affine
        self.meter = Meter() if meter is None else meter
        # Passes that one product counts: the fraction of all rows that this design holds.
        self.pass_fraction = pass_fraction
        self.shape = storage.shape
        self.dtype = storage.dtype

    @property
    def cost(self) -> Cost:
        """The FLOPs and passes counted so far."""
        return self.meter.cost

    # --- other designs of the same X

    def mapped(self, affine: AffineMap) -> Design:
        """Return the design with `affine` applied after the map of this one."""
        return Design(self.storage, self.affine.compose(affine), self.meter, self.pass_fraction)

    def metered(self, meter: Meter) -> Design:
        """Return the same design with another meter."""
        return Design(self.storage, self.affine, meter, self.pass_fraction)

    def standardized(
        self,
        shift: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Design:
        """Return the design diag(sqrt(weights)) (X~ - 1 shift') diag(scale).

        `shift` and `scale` have shape (p,), `weights` has shape (n,); None leaves the step out.
        """
        n, p = self.shape
        root_weights = None if weights is None else np.sqrt(_check_weights(weights, n))
        column_scale = _check_vector(scale, "scale", p)
        column_shift = _check_vector(shift, "shift", p)
        if column_shift is None:
            return self.mapped(AffineMap(root_weights, column_scale))
        left = broadcast_scalar(n) if root_weights is None else root_weights
        return self.mapped(
            AffineMap(root_weights, column_scale, left[:, None], column_shift[:, None])
        )

    def centered(self, weights: ArrayLike | None = None) -> Design:
        """Return the design diag(sqrt(weights)) (X~ - 1 mean'), with the weighted mean of the rows.

        Computing the mean takes one pass.
        """
        n = self.shape[0]
        w = np.ones(n) if weights is None else _check_weights(weights, n)
        return self.standardized(shift=self.rmatmat(w / w.sum()), weights=weights)

    def low_rank_corrected(self, left: Any, right: Any) -> Design:
        """Return the design X~ - left right', with left (n, rank) and right (p, rank)."""
        left, right = as_numeric_array(left, "left"), as_numeric_array(right, "right")
        for name, factor, rows in zip(("left", "right"), (left, right), self.shape, strict=True):
            if factor.ndim != 2 or factor.shape != (rows, left.shape[-1] if left.ndim else 0):
                raise ShapeError(
                    name,
                    f"has shape {factor.shape}",
                    f"pass shape ({rows}, rank), with the same rank for `left` and `right`",
                )
        return self.mapped(AffineMap(left=left, right=right))

    def subset(self, rows: NDArray[np.intp]) -> Design:
        """Return the given rows of X~; their products count as that fraction of a pass."""
        return Design(
            self.storage.subset(rows),
            take_rows(self.affine, rows),
            self.meter,
            self.pass_fraction * len(rows) / max(1, self.shape[0]),
        )

    # --- products

    def matmat(self, V: Array) -> Array:
        """Return X~ V, of shape (n,) or (n, k); one pass."""
        V = self._check_operand(V, "V", 1, "n_features")
        scaled = scale_rows(V, self.affine.column_scale)
        low = self.affine.right_product(scaled)
        U = self.storage.matmat(scaled).astype(V.dtype, copy=False)
        if not self.affine.is_identity:
            # In blocks and in place: there is one array of all rows, not three.
            U = np.require(U, requirements="W")  # what another process has sent may be read-only
            for rows in row_slices(len(U), max(1, FINISHED_ELEMENTS // max(1, n_columns(U)))):
                U[rows] = self.affine.finish_rows(U[rows], low, rows)
        self._count_products(V, 1)
        return U

    def rmatmat(self, U: Array) -> Array:
        """Return X~'U, of shape (p,) or (p, k); one pass."""
        U = self._check_operand(U, "U", 0, "n_samples")
        sums = None if self.affine.left is None else self.affine.left.T @ U
        V = self.storage.rmatmat(scale_rows(U, self.affine.row_scale))
        V = self.affine.finish_columns(V, sums).astype(U.dtype, copy=False)
        self._count_products(U, 1)
        return scale_rows(V, self.affine.column_scale)

    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """Return X~' transform(X~ V), of the shape of V; one pass.

        `transform` applies centring, weights or fold masks to X~ V; None leaves it unchanged. An
        `AffineRowTransform` is the fastest.
        """
        V = self._check_operand(V, "V", 1, "n_features")
        self._check_transform(V, transform)
        affine, scale = self._without_column_scale
        out = self.storage.gram_matmat(affine, scale_rows(V, scale), transform)
        self._count_products(V, 2)
        return scale_rows(out, scale)

    def gram_matmat_with_rows(
        self, V: Array, transform: AffineRowTransform | None = None
    ) -> tuple[Array, Array]:
        """Return X~' transform(X~ V), and the rows scale X~ V - shift of the transform; one pass.

        The rows have the shape of X~ V. They are consistent with the product: it is computed from
        the same numbers. Without a transform they are X~ V.
        """
        V = self._check_operand(V, "V", 1, "n_features")
        if transform is None:
            transform = AffineRowTransform.identity((self.shape[0], *V.shape[1:]))
        self._check_transform(V, transform)
        affine, scale = self._without_column_scale
        out, rows = self.storage.gram_matmat_with_rows(affine, scale_rows(V, scale), transform)
        self._count_products(V, 2)
        return scale_rows(out, scale), rows.reshape(self.shape[0], *V.shape[1:])

    @property
    def can_iterate(self) -> bool:
        """Whether `cg_steps` is available, and faster than one pass after the other."""
        return self.storage.can_iterate and self.affine.rank <= 1

    def cg_steps(self, state: DiagonalCGState, max_steps: int) -> tuple[DiagonalCGState, Array]:
        """Return the state after up to `max_steps` steps of conjugate gradients, with their bounds.

        The bounds, of shape (n_steps,), are the squared error bounds after each step; the last step
        is the first one that reaches the goal. One pass per step.
        """
        state, bounds = self.storage.cg_steps(self.affine, state, max_steps)
        count = len(bounds)
        self.meter.add(2 * count * self.matvec_flops, count * self.pass_fraction)
        return state, bounds

    def residual_gradient(self, W: Array, Y: Array) -> tuple[Array, Array]:
        """Return X~'(Y - X~ W), and the column sums of squares of Y - X~ W; one pass."""
        W = self._check_operand(W, "W", 1, "n_features")
        Y = as_numeric_array(Y, "Y")
        n = self.shape[0]
        if Y.shape[:1] != (n,) or Y.size != n * n_columns(W):
            raise ShapeError("Y", f"has shape {Y.shape}", f"pass shape {(n, *W.shape[1:])}")
        transform = AffineRowTransform.negative_residual(Y)
        affine, scale = self._without_column_scale
        out, squares = self.storage.gram_matmat_with_squares(
            affine, scale_rows(W, scale), transform
        )
        self._count_products(W, 2)
        return scale_rows(out, scale), squares

    def rmatmat_generated(self, columns: GeneratedColumns) -> Array:
        """Return X~'C, (p, k), for columns C that are computed where the rows are; one pass."""
        affine, scale = self._without_column_scale
        out = self.storage.rmatmat_generated(affine, columns)
        self.meter.add(self.matvec_flops * columns.n_columns, self.pass_fraction)
        return scale_rows(out, scale)

    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X~'X~, (p, p), accumulated in `dtype` (default: the dtype of X); one pass."""
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        if self.affine.column_scale_exponents > MAX_SCALE_EXPONENTS[out_dtype.itemsize]:
            (G,) = self.storage.reduce_rows(self.affine, GramSum())
            G = G.astype(out_dtype, copy=False)
        else:
            affine, scale = self.affine.split_column_scale(self.shape[0])
            G = scale_symmetric(self.storage.gram(affine, out_dtype), scale)
        self.meter.add(self.gram_flops, self.pass_fraction)
        return G

    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X~ X~', (n, n), the Gram matrix of the dual problem; `row_gram_passes` passes."""
        K = self.storage.row_gram(self.affine, dtype)
        self.meter.add(self.row_gram_flops, self.pass_fraction * self.storage.row_gram_passes)
        return K

    def quantize(self, column_scales: Array) -> QuantizedMatrix:
        """Return X~ quantised to 16-bit integers; one pass.

        `column_scales`, (p,), are positive and about the magnitude of the entries of each column.
        """
        affine, scale = self._without_column_scale
        copy = self.storage.quantize(affine, column_magnitudes(column_scales, scale))
        self.meter.add(0.0, self.pass_fraction)
        return copy if scale is None else copy.with_scaled_columns(scale)

    def predictions(
        self, V: Array, constant: Any, finish: Callable[[Array], Any] | None = None
    ) -> Any:
        """Return finish(X~ V + constant), computed in the dtype of X; one pass.

        `finish` is the identity if it is None. If X is out of core and a prediction is not finite,
        NonFiniteError names the first bad entry of X.
        """
        predicted = (self.matmat(V) + constant).astype(self.dtype, copy=False)
        if self.is_out_of_core and not np.isfinite(predicted).all():
            self.storage.check_finite()
        return predicted if finish is None else finish(predicted)

    # `scipy.sparse.linalg.aslinearoperator`, and therefore lsmr, requires these two names.
    def matvec(self, v: Array) -> Array:
        """Return X~ v, (n,); one pass."""
        return self.matmat(v)

    def rmatvec(self, u: Array) -> Array:
        """Return X~' u, (p,); one pass."""
        return self.rmatmat(u)

    # --- rows

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows of X~, dense and in float64; counted as that fraction of a pass."""
        block = self.storage.take(rows)
        self.meter.add(0.0, self.pass_fraction * len(rows) / max(1, self.shape[0]))
        return self.affine.apply(block, rows, out=block)

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to dense float64 blocks of rows and concatenate the results; one pass.

        `function` returns an array with as many rows as the block it is given.
        """
        mapped = self.storage.map_rows(self.affine, function)
        self.meter.add(0.0, self.pass_fraction)
        return mapped

    def reduce_rows(self, reduction: RowReduction) -> tuple[Array, ...]:
        """Return the arrays of `reduction`, added up over all rows of X~; one pass."""
        totals = self.storage.reduce_rows(self.affine, reduction)
        self.meter.add(reduction.flops_per_row * self.shape[0], self.pass_fraction)
        return totals

    # --- what the storage can do, and what it costs

    @property
    def is_out_of_core(self) -> bool:
        """Whether X is stored in blocks of rows, on disk or on other machines."""
        return self.storage.is_out_of_core

    @property
    def has_row_access(self) -> bool:
        """Whether single rows can be read cheaply."""
        return self.storage.has_row_access

    @property
    def can_quantize(self) -> bool:
        """Whether X~ can be quantised to 16-bit integers, which makes passes faster."""
        return self.storage.can_quantize(self.affine.without_column_scale)

    @property
    def matvec_flops(self) -> float:
        """FLOPs of X~ v, counting 2 per multiply-add."""
        n, p = self.shape
        affine = self.affine
        scales = n * (affine.row_scale is not None) + p * (affine.column_scale is not None)
        return self.storage.matvec_flops + scales + 2.0 * affine.rank * (n + p)

    @property
    def gram_flops(self) -> float:
        """FLOPs of one triangle of X~'X~."""
        p = self.shape[1]
        scaling = 0.0 if self.affine.column_scale is None else 2.0 * p * p
        return self.storage.gram_flops(self.affine.without_column_scale) + scaling

    @property
    def row_gram_flops(self) -> float:
        """FLOPs of one triangle of X~ X~'."""
        return self.storage.row_gram_flops(self.affine)

    def __repr__(self) -> str:
        kind = "" if self.affine.is_identity else "an affine map of "
        return f"Design({kind}{self.storage!r})"

    @property
    def _without_column_scale(self) -> tuple[AffineMap, Array | None]:
        return self.affine.without_column_scale, self.affine.column_scale

    def _count_products(self, operand: Array, count: int) -> None:
        """Count a pass that multiplies every column of `operand` with X~ or its transpose."""
        self.meter.add(count * self.matvec_flops * n_columns(operand), self.pass_fraction)

    def _check_operand(self, A: Array, name: str, axis: int, rows: str) -> Array:
        """Check the shape of an operand; return it in the dtype to compute in."""
        A = as_numeric_array(A, name)
        if A.ndim not in (1, 2) or A.shape[0] != self.shape[axis]:
            raise ShapeError(
                name,
                f"has shape {A.shape}, and this design has shape {self.shape}",
                f"pass shape ({rows},) or ({rows}, k), with {rows} = {self.shape[axis]}",
            )
        return A.astype(np.result_type(self.dtype, A.dtype), copy=False)

    def _check_transform(self, V: Array, transform: RowTransform | None) -> None:
        """Raise ShapeError if the arrays of an AffineRowTransform do not match X and V.

        Compiled loops read them without looking at their length.
        """
        if not isinstance(transform, AffineRowTransform):
            return
        n = self.shape[0]
        shapes = [array.shape for array in (transform.scale, transform.shift, transform.post)]
        fits = shapes[0] == shapes[2] == (n,) == shapes[1][:1]
        if not fits or transform.shift.size != n * n_columns(V):
            raise ShapeError(
                "transform",
                f"has arrays of shape {shapes}, and `V` has shape {V.shape}",
                f"pass shape ({n},) for scale and post, and ({n}, n_columns) for shift",
            )


def as_design(X: Any) -> Design:
    """Return the Design of an array, a SciPy sparse matrix or a Storage; a Design is unchanged.

    Nothing is copied, except that sparse formats other than CSR are converted to CSR once.

    Parameters
    ----------
    X : array, sparse matrix, Storage or Design of shape (n, p)

    Returns
    -------
    Design

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.ones((3, 2)))
    Design(DenseStorage(3 x 2, float64))
    """
    if isinstance(X, Design):
        return X
    if isinstance(X, Storage):
        return Design(X)
    if sparse.issparse(X):
        return Design(SparseStorage(X))
    return Design(DenseStorage(as_numeric_array(X, "X")))


def _check_vector(values: ArrayLike | None, name: str, length: int) -> Array | None:
    if values is None:
        return None
    vector: Array = as_numeric_array(values, name).astype(np.float64)
    if vector.shape != (length,):
        raise ShapeError(name, f"has shape {vector.shape}", f"pass shape ({length},)")
    if not np.isfinite(vector).all():
        at = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise NonFiniteError(name, f"`{name}`[{at}] is {vector[at]}", "pass finite numbers")
    return vector


def _check_weights(values: Any, length: int) -> Array:
    weights = _check_vector(values, "weights", length)
    assert weights is not None
    if (weights < 0).any():
        at = int(np.flatnonzero(weights < 0)[0])
        raise NegativeWeightError(
            "weights",
            f"is {weights[at]}",
            "pass numbers >= 0, where 0 leaves a row out",
            where=Where(row=at),
        )
    if not weights.any():
        raise OptionError("weights", "is 0 in all rows", "give at least one row a weight above 0")
    return weights
