"""The laws that every design obeys, each stated once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ling.design import AffineRowTransform, Design, RowTransform
from ling.design.rows import GeneratedColumns, per_row
from tests.design.registry import OPERANDS, Case


@dataclass(frozen=True, eq=False)
class Multiply(RowTransform):
    """Rows times factors: one for each row, or one for each entry; in place if asked for."""

    factors: np.ndarray = per_row()
    in_place: bool = False

    def __call__(self, U):
        factors = self.factors if self.factors.ndim == U.ndim else self.factors[:, 0]
        return np.multiply(U, factors, out=U if self.in_place else None)


@dataclass(frozen=True, eq=False)
class Call(RowTransform):
    """`function(U, rows)`, with the slice of the rows of the block; in this process only."""

    function: Callable[[np.ndarray, slice], np.ndarray]
    index: np.ndarray = per_row()

    def __call__(self, U):
        first = int(self.index[0]) if len(self.index) else 0
        return self.function(U, slice(first, first + len(self.index)))


def calling(design: Design, function) -> Call:
    return Call(function, np.arange(design.shape[0]))


@dataclass(frozen=True)
class Product:
    """A method of a design, the axis of X its operand runs along, and the dense equivalent."""

    axis: int
    dense: Callable[[np.ndarray, np.ndarray], np.ndarray]


PRODUCTS = {
    "matmat": Product(1, lambda X, V: X @ V),
    "rmatmat": Product(0, lambda X, U: X.T @ U),
    "gram_matmat": Product(1, lambda X, V: X.T @ (X @ V)),
}
GRAMS = {
    "gram": lambda X: X.T @ X,
    "row_gram": lambda X: X @ X.T,
}


def assert_close(actual, expected, magnitude, dtype=np.float64, what=""):
    """Equal up to the rounding in `dtype` of sums whose terms' sizes add up to `magnitude`."""
    assert actual.shape == expected.shape, what
    error, allowed = np.abs(actual - expected), 16 * np.finfo(dtype).eps * magnitude
    assert (error <= allowed).all(), f"{what}: off by {np.max(error / allowed):.3g} x the rounding"


def operands(rng, case: Case, axis: int) -> dict[str, np.ndarray]:
    """Right-hand sides along an axis: all kinds for two matrices, and the usual ones for others."""
    every_kind = case.name.endswith(("square", "tall"))
    kinds = OPERANDS if every_kind else ("vector", "block")
    return {name: OPERANDS[name](rng, case.matrix.shape[axis]) for name in kinds}


def call_everything(design: Design, V, U) -> dict[str, np.ndarray]:
    """The result of each method that computes something, by its name."""
    return {
        "matmat": design.matmat(V),
        "rmatmat": design.rmatmat(U),
        "gram_matmat": design.gram_matmat(V),
        "gram_matmat between": design.gram_matmat(
            V, Multiply(-np.ones((design.shape[0], 1)), in_place=True)
        ),
        "gram": design.gram(),
        "row_gram": design.row_gram(),
        "take": design.take(np.arange(design.shape[0])[::2]),
    }


def products_are_the_dense_ones(case: Case, rng) -> None:
    """With every operand, and in the dtype that is promised."""
    for method, product in PRODUCTS.items():
        for kind, operand in operands(rng, case, product.axis).items():
            what = f"{method} of {kind}"
            actual = getattr(case.design, method)(operand)
            dtype = case.result_dtype(operand)
            assert actual.dtype == dtype, what
            exact = operand.astype(np.float64)
            expected = product.dense(case.matrix, exact)
            magnitude = product.dense(case.magnitude, np.abs(exact))
            assert_close(actual, expected, magnitude, dtype, what)


def grams_are_the_dense_ones(case: Case, rng) -> None:
    """In the design's own dtype, and in float64 where that is asked for; and symmetric."""
    for method, dense in GRAMS.items():
        expected, magnitude = dense(case.matrix), dense(case.magnitude)
        for asked, dtype in ((None, case.design.dtype), (np.float64, np.dtype(np.float64))):
            what = f"{method} in {asked}"
            actual = getattr(case.design, method)(asked)
            assert actual.dtype == dtype, what
            assert_close(actual, expected, magnitude, dtype, what)
            assert_close(actual, actual.T, magnitude, dtype, f"{what}, transposed")


def adjoint_is_the_transpose(case: Case, rng) -> None:
    """<X v, u> == <v, X'u>."""
    n, p = case.matrix.shape
    v, u = rng.standard_normal(p), rng.standard_normal(n)
    there, back = case.design.matmat(v) @ u, v @ case.design.rmatmat(u)
    assert_close(there, back, np.abs(u) @ case.magnitude @ np.abs(v))


def fused_product_is_one_after_the_other(case: Case, rng) -> None:
    """gram_matmat(V) == rmatmat(matmat(V))."""
    V = rng.standard_normal((case.matrix.shape[1], 2))
    fused, composed = case.design.gram_matmat(V), case.design.rmatmat(case.design.matmat(V))
    assert_close(fused, composed, case.magnitude.T @ (case.magnitude @ np.abs(V)))


def every_row_is_seen_exactly_once(case: Case, rng) -> None:
    """`transform` is handed X V in blocks that partition its rows: the proof of a single sweep."""
    n, p = case.matrix.shape
    for V in (rng.standard_normal(p), rng.standard_normal((p, 1)), rng.standard_normal((p, 3))):
        seen: list[slice] = []
        product = np.full((n, *V.shape[1:]), np.nan)

        def record(U, rows, seen=seen, product=product):
            seen.append(rows)
            product[rows] = U
            return U

        case.design.gram_matmat(V, calling(case.design, record))
        visited = sorted(row for rows in seen for row in range(rows.start, rows.stop))
        assert visited == list(range(n))
        assert_close(product, case.matrix @ V, case.magnitude @ np.abs(V))


def rows_may_be_weighted_and_masked(case: Case, rng) -> None:
    """X'(W * XV) for weights of rows, masks of rows, and masks of rows for each column."""
    n, p = case.matrix.shape
    V = rng.standard_normal((p, 3))
    for W in (rng.uniform(0, 2, (n, 1)), rng.random((n, 1)) < 0.5, rng.random((n, 3)) < 0.5):
        actual = case.design.gram_matmat(V, Multiply(W))
        expected = case.matrix.T @ (W * (case.matrix @ V))
        magnitude = case.magnitude.T @ (W * (case.magnitude @ np.abs(V)))
        assert_close(actual, expected, magnitude)


def a_row_map_is_the_function_it_says(case: Case, rng) -> None:
    """X'(post (scale X v - shift)), and what was seen on the way, for a vector and a column."""
    n, p = case.matrix.shape
    scale, shift, post = rng.uniform(-1, 1, (3, n))
    for v in (rng.standard_normal(p), rng.standard_normal((p, 1))):
        rows = AffineRowTransform.from_values(scale, shift, post)
        actual, row_output = case.design.gram_matmat_with_rows(v, rows)
        seen = scale * (case.matrix @ v.ravel()) - shift
        sizes = np.abs(scale) * (case.magnitude @ np.abs(v.ravel())) + np.abs(shift)
        assert_close(row_output, seen.reshape(row_output.shape), sizes.reshape(row_output.shape))
        expected = (case.matrix.T @ (post * seen)).reshape(v.shape)
        magnitude = (case.magnitude.T @ (np.abs(post) * sizes)).reshape(v.shape)
        assert_close(actual, expected, magnitude)
        assert_close(case.design.gram_matmat(v, rows), expected, magnitude)


def a_row_map_may_have_several_columns(case: Case, rng) -> None:
    """The same with a shift for every entry, for numbers of columns around those of a block."""
    n, p = case.matrix.shape
    scale, post = rng.uniform(-1, 1, (2, n))
    for columns in (1, 3, 4, 6):
        V, shift = rng.standard_normal((p, columns)), rng.uniform(-1, 1, (n, columns))
        rows = AffineRowTransform.from_values(scale, shift, post)
        actual, row_output = case.design.gram_matmat_with_rows(V, rows)
        seen = scale[:, None] * (case.matrix @ V) - shift
        sizes = np.abs(scale)[:, None] * (case.magnitude @ np.abs(V)) + np.abs(shift)
        assert_close(row_output, seen, sizes, what="rows")
        magnitude = case.magnitude.T @ (np.abs(post)[:, None] * sizes)
        assert_close(actual, case.matrix.T @ (post[:, None] * seen), magnitude)


def residuals_give_the_gradient(case: Case, rng) -> None:
    """X'(Y - X W) and the sums of squares of Y - X W."""
    n, p = case.matrix.shape
    for columns in ((), (1,), (2,)):
        W, Y = rng.standard_normal((p, *columns)), rng.standard_normal((n, *columns))
        gradient, squares = case.design.residual_gradient(W, Y)
        residual = Y - case.matrix @ W
        sizes = np.abs(Y) + case.magnitude @ np.abs(W)
        assert_close(gradient, case.matrix.T @ residual, case.magnitude.T @ sizes)
        assert_close(squares, (residual**2).sum(axis=0), (sizes**2).sum(axis=0))


@dataclass(frozen=True, eq=False)
class Powers(GeneratedColumns):
    """u, u^2 and u^3."""

    u: np.ndarray = per_row()
    n_columns = 3

    def __call__(self):
        return self.u[:, None] ** np.arange(1, 4)


def columns_may_be_generated(case: Case, rng) -> None:
    """X'C for columns C that are made from less."""
    columns = Powers(rng.uniform(-1, 1, len(case.matrix)))
    actual = case.design.rmatmat_generated(columns)
    assert_close(actual, case.matrix.T @ columns(), case.magnitude.T @ np.abs(columns()))


def rows_can_be_taken_out(case: Case, rng) -> None:
    """take(rows), in float64 and in the order asked for."""
    rows = rng.permutation(case.matrix.shape[0])[:7]
    actual = case.design.take(rows)
    assert actual.dtype == np.float64
    assert_close(actual, case.matrix[rows], case.magnitude[rows])


def blocks_may_be_changed_in_place(case: Case, rng) -> None:
    """X'(3 XV), with the block that `transform` is given overwritten; V is not."""
    V = rng.standard_normal((case.matrix.shape[1], 2))
    before = V.copy()
    in_place = case.design.gram_matmat(V, Multiply(np.full((len(case.matrix), 1), 3.0), True))
    expected, size = case.matrix.T @ (case.matrix @ (3.0 * V)), np.abs(3.0 * V)
    assert_close(in_place, expected, case.magnitude.T @ (case.magnitude @ size))
    assert (before == V).all()


#: What every design obeys, whatever the shape of the matrix and however it is swept.
LAWS = (
    products_are_the_dense_ones,
    grams_are_the_dense_ones,
    adjoint_is_the_transpose,
    fused_product_is_one_after_the_other,
    every_row_is_seen_exactly_once,
    rows_may_be_weighted_and_masked,
    a_row_map_is_the_function_it_says,
    a_row_map_may_have_several_columns,
    residuals_give_the_gradient,
    columns_may_be_generated,
    rows_can_be_taken_out,
    blocks_may_be_changed_in_place,
)


def check(law, cases: Iterable[Case], rng) -> None:
    """`law` holds for each of `cases`; an error names the first one where it does not."""
    for case in cases:
        try:
            law(case, rng)
        except Exception as error:
            error.add_note(f"the design: {case.name}")
            raise
