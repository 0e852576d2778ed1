"""Check the error bound of a model file of ling, without ling: only Python and NumPy.

    python verify_model.py model.ling X.npy y.npy [weights.npy]
    python verify_model.py model.ling data.csv target_column

It reads the coefficients, the penalty and the claimed bound from the file, and everything else from
the data. With g = X'(y - Xw) - alpha w, the exact solution w* has

    ||X(w - w*)||^2 + alpha ||w - w*||^2 = g'(X'X + alpha I)^-1 g

Exit code 0: the bound is confirmed, or the error is within tol. 1: neither. 2: these are not the
data of the fit. 3: nothing was checked, because the files or columns could not be read.
"""

import json
import sys
import zipfile

import numpy as np

EPS, LONG = np.finfo(float).eps, np.longdouble
MAX_COLUMNS = 3000  # up to which X'X is formed and factored
SAME_DATA_RTOL = 1e-8


def read_model(path):
    """Parameters and attributes of a model file, as plain Python values and arrays."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("model.json"))

        def array(number):
            with archive.open(f"{number}.npy") as file:
                return np.lib.format.read_array(file, allow_pickle=False)

        def value(packed):
            if not isinstance(packed, dict):
                return packed
            ((kind, content),) = packed.items()
            if kind in ("array", "scalar"):
                return array(content)[()]
            if kind == "dict":
                pairs = {value(key): value(item) for key, item in content}
                return np.array(pairs["ling floats"]) if set(pairs) == {"ling floats"} else pairs
            if kind in ("list", "tuple"):
                return [value(item) for item in content]
            return np.array(content) if kind == "texts" else float(content)

        known = {**header["parameters"], **header["attributes"]}
        model = {name: value(packed) for name, packed in known.items()}
        return {**model, **model.get("_fit_parameters", {})}  # those of the fit, if changed since


def read_data(model, paths):
    """X (n, p) in its own dtype, y as it is stored, and weights (n,)."""
    if not paths[0].endswith(".csv"):
        X, y, *weights = [np.load(path, allow_pickle=False) for path in paths]
        return X, y, (weights[0] if weights else np.ones(len(X)))
    table = np.genfromtxt(paths[0], delimiter=",", names=True, dtype=None, encoding="utf-8",
                          deletechars="", replace_space=" ")  # fmt: skip
    names = model.get("feature_names_in_")
    if names is None:
        names = [name for name in table.dtype.names if name != paths[1]]
    return np.column_stack([table[name] for name in names]), table[paths[1]], np.ones(len(table))


def targets(model, y):
    """y as numbers (n, t); classes are -1 and 1, and multilabel y is given by 0 and 1."""
    classes = model.get("classes_")
    if classes is None:
        return np.asarray(y, float).reshape(len(y), -1)
    if np.ndim(y) == 2:
        return np.where(y, 1.0, -1.0)
    return np.where(y[:, None] == (classes[1:] if len(classes) == 2 else classes), 1.0, -1.0)


def main(path, *paths):
    """Recompute the bound and print it beside the one in the file; returns the exit code."""
    model = read_model(path)
    certificate = model["report_"]["fields"][3]["fields"]
    claimed, tol, region = certificate[0], certificate[1], certificate[2]["fields"]
    x_scale, y_scale = region[4], region[5]
    X, y, weights = read_data(model, paths)
    Y, (n, p) = targets(model, y), X.shape
    W = np.atleast_2d(model["coef_"]).T.astype(LONG) * (LONG(x_scale) / y_scale)
    b = np.atleast_1d(model["intercept_"]).astype(LONG)
    alphas = np.broadcast_to(model.get("alpha_", model.get("alpha")), Y.shape[1]) / x_scale**2
    centred, w = bool(model["fit_intercept"]), weights.astype(LONG)
    # Means, residual and gradient in extended precision, in blocks of rows.
    blocks = [slice(i, i + 1000) for i in range(0, n, 1000)]
    x_mean, total = np.zeros(p, LONG), w.sum()
    if centred:
        x_mean = sum(w[rows] @ X[rows].astype(LONG) for rows in blocks) / total
    y_mean = w @ Y.astype(LONG) / total * centred
    gradient, products, norms = -W * alphas, 0, 0
    gram, squares, raw = np.zeros((p, p)) if p <= MAX_COLUMNS else None, 0, 0
    for rows in blocks:
        root = np.sqrt(w[rows])[:, None]
        Z, V = root * (X[rows] - x_mean) / x_scale, root * (Y[rows] - y_mean) / y_scale
        gradient, products = gradient + Z.T @ (V - Z @ W), products + Z.T @ V
        norms, squares = norms + (V**2).sum(0), squares + (Z**2).sum(0)
        raw = raw + (root**2 * (X[rows].astype(LONG) / x_scale) ** 2).sum(0)
        if gram is not None:
            gram += Z.T.astype(float) @ Z.astype(float)
    norms = np.sqrt(norms).astype(float)
    # Are these the data of the fit?
    seen = model["_data_fingerprint"]["fields"]
    c = np.cos(np.arange(1, p + 1))
    size = float(raw.sum())
    y_size = np.sqrt((w @ (Y / y_scale).astype(LONG) ** 2).astype(float))
    same = [
        seen[0] == np.count_nonzero(weights),
        abs(seen[1] - total) <= SAME_DATA_RTOL * total,
        abs(seen[2] - c @ squares) <= SAME_DATA_RTOL * size,
        (abs(seen[4] - norms) <= SAME_DATA_RTOL * y_size).all(),
        (abs(seen[5] - c @ products) <= SAME_DATA_RTOL * np.sqrt(size) * y_size).all(),
        (abs(seen[3] - y_mean) <= SAME_DATA_RTOL * np.abs(Y).max(0, initial=0)).all(),
    ]
    print("data: " + ("those of the fit" if all(same) else "NOT those of the fit"))
    if not all(same):
        return 2
    if model.get("positive"):  # w* is the best of all w >= 0
        gradient = np.where(W > 0, gradient, np.maximum(gradient, 0))
    gradient = gradient.astype(float)
    # E^2 >= g'(X'X + alpha I)^-1 g: at most ||g||^2 / alpha, and less with a factor of X'X that is
    # reduced by its own rounding error.
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.linalg.norm(gradient, axis=0) / np.sqrt(alphas)
    errors = np.where(alphas > 0, errors, np.inf)
    if gram is not None:
        noise = (n + 2 * p) * EPS * np.trace(gram)
        for t, alpha in enumerate(alphas):
            try:
                L = np.linalg.cholesky(gram + (alpha - noise) * np.eye(p))
            except np.linalg.LinAlgError:
                continue
            errors[t] = min(errors[t], np.linalg.norm(np.linalg.solve(L, gradient[:, t])))
        if region[9] is not None:  # the minorant in the file: U diag(v) U' <= X'X + slack I
            U, values, slack = region[9].astype(float), region[10], region[11]
            least = np.linalg.eigvalsh(gram + slack * np.eye(p) - (U * values) @ U.T)[0]
            verdict = "confirmed" if least >= -noise else "WRONG"
            print(f"minorant of rank {len(values)}: {verdict}")
            if verdict == "WRONG":
                return 1
    shift = abs(b - (y_mean - x_mean @ (W / x_scale * y_scale))) / y_scale * centred
    total_errors = np.hypot(errors, (shift * np.sqrt(total)).astype(float)) * (1 + 1e-6)
    bounds = np.where(norms > 0, total_errors / np.where(norms > 0, norms, 1), 0.0)
    for t, (stored, bound) in enumerate(zip(claimed, bounds, strict=True)):
        print(f"target {t}: bound in the file {stored:.3e}, recomputed {bound:.3e}, tol {tol:g}")
    confirmed = bool((np.isfinite(bounds) & (bounds <= np.maximum(claimed, tol))).all())
    print("confirmed" if confirmed else "NOT confirmed")
    return 0 if confirmed else 1


def run(arguments):
    """Exit code of `main`, or 3 with one line on stderr if the files cannot be read."""
    if len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 3
    try:
        return main(*arguments)
    except (OSError, ValueError, TypeError, LookupError, zipfile.BadZipFile) as error:
        print(f"cannot check {' '.join(arguments)}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
