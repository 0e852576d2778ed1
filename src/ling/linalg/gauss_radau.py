"""The Gauss-Radau recurrence that bounds the error of conjugate gradients from their coefficients.

It is plain arithmetic on numbers, so that compiled loops can use it as well.
"""

from __future__ import annotations

# Relative allowance of Gauss-Radau bounds for the loss of orthogonality between steps. In exact
# arithmetic the squared error is a sum over the remaining steps; with rounding the sum has a small
# relative error (Strakos & Tichy 2002), for which no practical constant is proved.
RADAU_ALLOWANCE = 1e-4


def next_radau_factor(
    factor: float, step: float, beta: float, node: float, lower_ratio: float, rounding: float,
    min_relative_gap: float,
) -> tuple[float, float]:  # fmt: skip
    """The factor of the recurrence after a step, and a constant c with squared error <= c r'P^-1 r.

    `step` and `beta` are the coefficients of the step. X'X + alpha I >= lower_ratio P for the
    preconditioner P, so that 1 / lower_ratio is always such a constant. `node`, at most
    lower_ratio, is the node of the quadrature, and `rounding` the relative error of step and beta:
    the constant grows with the gap and falls with beta, so each is taken at the end of its range
    that gives the larger one (Meurant & Tichy 2013). r'P^-1 r may have the same relative error.
    """
    inflation = (1 + RADAU_ALLOWANCE) * (1 + rounding)
    rounded_gap = factor - step
    gap = rounded_gap + rounding * (factor + step)
    denominator = node * gap + beta * (1 - rounding)
    always_valid = 1.0 / lower_ratio
    # Near convergence the gap is dominated by rounding.
    if rounded_gap > min_relative_gap * step and denominator > 0 and node > 0:
        factor = gap / denominator
        return factor, inflation * min(factor, always_valid)
    return (1.0 / node if node > 0 else 1.0), inflation * always_valid
