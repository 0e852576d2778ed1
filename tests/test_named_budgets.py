"""A budget that an error about memory names is accepted, whatever the data and the estimator."""

import numpy as np
import pytest
from scipy import sparse

from ling import Ridge, RidgeClassifierCV, RidgeCV, ridge_path
from ling.errors import Change, OptionError
from ling.io import scan_npy
from ling.progress import watch

STORAGES = "array", "fortran", "csr", "npy", "memmap"
SHAPES = {
    "wide": lambda rng: (int(rng.uniform(30, 300)), int(rng.uniform(500, 3000)), 1),
    "tall": lambda rng: (int(rng.uniform(5e3, 5e4)), int(rng.uniform(3, 30)), 1),
    "square": lambda rng: (int(rng.uniform(300, 900)), int(rng.uniform(300, 900)), 1),
    "tiny": lambda rng: (int(rng.uniform(8, 50)), int(rng.uniform(1, 60)), 1),
    "many targets": lambda rng: (
        int(rng.uniform(500, 6000)), int(rng.uniform(5, 80)), int(rng.uniform(100, 600)),
    ),
}  # fmt: skip
FITS = {
    "auto": lambda B: Ridge(memory_budget=B),
    "direct": lambda B: Ridge(solver="direct", memory_budget=B),
    "two_stage": lambda B: Ridge(solver="two_stage", memory_budget=B, max_iter=5),
    "positive": lambda B: Ridge(positive=True, memory_budget=B),
    "minimum norm": lambda B: Ridge(0.0, memory_budget=B),
    "batch": lambda B: Ridge(memory_budget=B),
    "path": lambda B: B,
    "leave-one-out": lambda B: RidgeCV(memory_budget=B),
    "estimated": lambda B: RidgeCV(gcv_mode="stochastic", memory_budget=B, random_state=0),
    "folds": lambda B: RidgeCV(cv=3, memory_budget=B),
    "alpha per target": lambda B: RidgeCV(cv=3, alpha_per_target=True, memory_budget=B),
    "zero among alphas": lambda B: RidgeCV([0.0, 1.0], cv=3, memory_budget=B),
    "stored": lambda B: RidgeCV([1.0, 2.0], store_cv_results=True, memory_budget=B),
    "scorer": lambda B: RidgeCV([1.0, 2.0], scoring="neg_median_absolute_error", memory_budget=B),
    "classes": lambda B: RidgeClassifierCV(cv=3, memory_budget=B),
}
#: Fits that no budget is too small for, at these sizes and with the excess that is allowed.
NEVER_REFUSED = {"two_stage"}
N_DRAWS = 12


def draw_data(rng, name, folder):
    """X in a random storage, y, and weights or None."""
    n, p, t = SHAPES[rng.choice(list(SHAPES))](rng)
    if name == "scorer":
        t = 1
    storage = rng.choice(STORAGES)
    if storage == "csr":
        X = sparse.random_array((n, p), density=0.2, format="csr", rng=rng)
    else:
        X = rng.standard_normal((n, p)) * np.linspace(2, 0.1, p)
        X = X.astype(rng.choice([np.float32, np.float64]))
    Y = X @ (rng.standard_normal((p, t)) / np.sqrt(p)) + rng.standard_normal((n, t))
    if name == "classes":
        Y = np.argmax(Y[:, :9], axis=1) if t > 1 else (Y[:, 0] > np.median(Y)).astype(int)
    elif t == 1:
        Y = Y[:, 0]
    if storage == "fortran":
        X = np.asfortranarray(X)
    if storage in ("npy", "memmap"):
        np.save(folder / "X.npy", X)
        path = folder / "X.npy"
        X = scan_npy(path).X if storage == "npy" else np.load(path, mmap_mode="r")
    return X, Y, rng.uniform(0.5, 2, n) if rng.random() < 0.3 else None


def fit(name, budget, X, y, weights):
    model = FITS[name](budget)
    if name == "path":
        ridge_path(X, y, [1.0, 2.0], sample_weight=weights, memory_budget=budget)
    elif name == "batch":
        model.partial_fit(X, y, weights)
    else:
        model.fit(X, y, weights)


def named_budget(error):
    """The budget that an error names; fails if it is not about memory."""
    (budget,) = (
        remedy.value
        for remedy in error.remedies
        if isinstance(remedy, Change) and remedy.parameter == "memory_budget"
    )
    return budget


@pytest.mark.parametrize("name", FITS)
@pytest.mark.filterwarnings("ignore")  # accuracy does not matter here
def test_a_budget_that_an_error_names_is_accepted(name, tmp_path):
    n_refused = 0
    for seed in range(N_DRAWS):
        rng = np.random.default_rng([seed, *name.encode()])
        data = draw_data(rng, name, tmp_path)
        budget = float(np.exp(rng.uniform(np.log(1e3), np.log(3e6))))
        try:
            fit(name, budget, *data)
        except OptionError as error:
            n_refused += 1
            fit(name, named_budget(error), *data)
    assert n_refused >= 1 or name in NEVER_REFUSED


#: Fits for which the shapes alone show that the budget is too small: X, number of targets, budget.
REFUSED_BY_SHAPE = {
    "auto": ((3000, 20), 900, 1e6),
    "direct": ((2000, 1500), 1, 1e6),
    "positive": ((50, 20), 1, 1e3),
    "minimum norm": ((50, 20), 1, 1e3),
    "batch": ((50, 20), 1, 1e3),
    "path": ((3000, 20), 900, 1e6),
    "leave-one-out": ((3000, 20), 900, 1e6),
    "estimated": ((400, 300), 1, 2e4),
    "folds": ((400, 300), 1, 1e5),
    "zero among alphas": ((400, 300), 1, 1e6),
    "stored": ((3000, 20), 200, 1e6),
    "classes": ((400, 300), 1, 1e5),
}


@pytest.mark.parametrize("name", REFUSED_BY_SHAPE)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_shapes_show_is_refused_before_the_first_pass(name, is_sparse, rng):
    shape, t, budget = REFUSED_BY_SHAPE[name]
    X = rng.standard_normal(shape)
    Y = rng.standard_normal((shape[0], t)) if t > 1 else rng.standard_normal(shape[0])
    Y = (Y > 0).astype(int) if name == "classes" else Y
    events = []
    with watch(events.append), pytest.raises(OptionError) as caught:
        fit(name, budget, sparse.csr_array(X) if is_sparse else X, Y, None)
    named_budget(caught.value)
    assert not any(event.passes for event in events)
