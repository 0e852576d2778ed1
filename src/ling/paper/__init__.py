"""Lu & Foster's paper as printed: its algorithms, its theory and its simulated models.

    minimise  ||y - X coef||^2 + n lam ||coef||^2

No intercept. X may be an array, a SciPy sparse matrix or a `ling.design.Design`; every fit is a
frozen dataclass with `coef`, `fitted`, `cost` and `predict`.
"""

from ling.paper import models, theory
from ling.paper.components import PartialSVD, exact_svd, pcr, random_svd
from ling.paper.descent import DescentFit, gradient_descent
from ling.paper.exact import ridge
from ling.paper.fit import Fit
from ling.paper.two_stage import LingFit, LingSvrgFit, ling, ling_svrg
from ling.paper.variance_reduced import SvrgFit, svrg

__all__ = [
    "DescentFit",
    "Fit",
    "LingFit",
    "LingSvrgFit",
    "PartialSVD",
    "SvrgFit",
    "exact_svd",
    "gradient_descent",
    "ling",
    "ling_svrg",
    "models",
    "pcr",
    "random_svd",
    "ridge",
    "svrg",
    "theory",
]
