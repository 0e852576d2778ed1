"""The design layer's fused products, and SVRG's row loop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import sparse
from threadpoolctl import ThreadpoolController

from benchmarks.harness import Cell, Contest, Figure
from ling import paper
from ling.design import Design, as_design

BLAS = ThreadpoolController()


def limited(threads: int, call: Callable[[], object]) -> object:
    with BLAS.limit(limits=threads):
        return call()


def dense(order: str, dtype: str, centred: bool = False) -> Contest:
    """gram_matmat of one vector beside X @ v, on 0.8 GB."""
    rng = np.random.default_rng(0)
    p = 4000
    n = int(0.8e9) // p // np.dtype(dtype).itemsize
    X = np.asarray(rng.standard_normal((n, p), dtype=dtype), order=order)
    v = rng.standard_normal(p, dtype=dtype)
    design: Design = as_design(X)
    if centred:
        design = design.centered()
    return {"X'(Xv)": lambda: design.gram_matmat(v), "X @ v": lambda: X @ v}


SCALED, UNSCALED = "columns scaled", "not scaled"


def column_scaled(use: Callable[[Design], object], dtype: str = "float64") -> Contest:
    """The same products of centred data with and without a scale for every column."""
    rng = np.random.default_rng(0)
    n, p = 40_000, 1_000
    X = rng.standard_normal((n, p), dtype=dtype)
    plain = as_design(X).centered()
    scaled = plain.standardized(scale=rng.uniform(0.1, 10.0, p))
    return {SCALED: lambda: use(scaled), UNSCALED: lambda: use(plain)}


def products(columns: int) -> Callable[[Design], object]:
    V = np.random.default_rng(1).standard_normal((1_000, columns))
    return lambda design: design.gram_matmat(V)


def sweeps(design: Design) -> object:
    """A copy in 16-bit integers, and ten products with it."""
    copy = design.quantize(np.ones(design.shape[1]))
    return [copy.gram_matmat(np.ones(design.shape[1])) for _ in range(10)]


def random_csr(
    rng: np.random.Generator, n: int, p: int, per_row: int, zipf: bool
) -> sparse.csr_array:
    """`per_row` draws of a column in each row; two that coincide stay two entries."""
    chance = 1.0 / np.arange(1, p + 1) if zipf else np.ones(p)
    columns = np.searchsorted(np.cumsum(chance) / chance.sum(), rng.random((n, per_row)))
    indices = np.sort(columns, axis=1).astype(np.int32).ravel()
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    return sparse.csr_array((rng.standard_normal(n * per_row), indices, indptr), shape=(n, p))


def csr(n: int, p: int, per_row: int, zipf: bool) -> Contest:
    """The fused kernel on one and two threads beside SciPy's two products."""
    rng = np.random.default_rng(0)
    X = random_csr(rng, n, p, per_row, zipf)
    v = rng.standard_normal(p)
    design = as_design(X)
    fused = partial(design.gram_matmat, v)
    return {
        "fused, 1 thread": lambda: limited(1, fused),
        "fused, 2 threads": lambda: limited(2, fused),
        "X.T @ (X @ v)": lambda: X.T @ (X @ v),
    }


def svrg() -> Contest:
    """SVRG on the paper's Model 3, compiled beforehand, for 20 passes."""
    model = paper.models.model3(0)
    X = model.X
    return {"20 passes": lambda: paper.svrg(X, model.y, model.lam, 20, step=1e-4, random_state=0)}


def imports() -> Contest:
    """`import ling`, which loads nothing yet, and all of the paper beside scikit-learn's Ridge."""

    def fresh(module: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    return {
        "import ling": lambda: fresh("ling"),
        "import ling.paper": lambda: fresh("ling.paper"),
        "import sklearn.linear_model": lambda: fresh("sklearn.linear_model"),
    }


CSR_FIGURES = (
    Figure("fused, 1 thread", "X.T @ (X @ v)", 1.0),
    Figure("fused, 2 threads", "X.T @ (X @ v)", 1 / 1.5),
)
SCALE_FIGURES = (Figure(SCALED, UNSCALED, 1.05),)
COLUMN_SCALED: dict[str, Callable[[Design], object]] = {
    "X'(Xv)": products(1),
    "X'(XV), 8 columns": products(8),
    "X'X": lambda design: design.gram(np.float64),
    "X'X in float32": lambda design: design.gram(np.float32),
    "16-bit copy": sweeps,
}
CELLS = [
    Cell(
        "import",
        imports,
        (
            Figure("import ling", "import sklearn.linear_model", 1.2),
            Figure("import ling.paper", "import sklearn.linear_model", 1.2),
        ),
    ),
    Cell("dense", partial(dense, "C", "float64"), (Figure("X'(Xv)", "X @ v", 1.4),)),
    Cell("dense centred", partial(dense, "C", "float64", True), (Figure("X'(Xv)", "X @ v", 1.4),)),
    Cell("dense float32", partial(dense, "C", "float32"), (Figure("X'(Xv)", "X @ v", 1.4),)),
    # The rows of a block lie apart in Fortran order, so one sweep is hardly better than two.
    Cell("dense Fortran", partial(dense, "F", "float64"), (Figure("X'(Xv)", "X @ v", 2.2),)),
    *(
        Cell(f"column scales, {name}", partial(column_scaled, use), SCALE_FIGURES)
        for name, use in COLUMN_SCALED.items()
    ),
    Cell("CSR Zipf columns", partial(csr, 200_000, 47_000, 60, zipf=True), CSR_FIGURES),
    Cell("CSR even columns", partial(csr, 200_000, 5_000, 50, zipf=False), CSR_FIGURES),
    Cell("CSR short rows", partial(csr, 1_000_000, 1_000, 10, zipf=False), CSR_FIGURES),
    Cell(
        "SVRG 2000 x 1500",
        svrg,
        (Figure("20 passes", 20 * 0.030, 1.0),),
    ),
]
