"""Lu & Foster's paper as printed: its algorithms, its theory and its simulated models.

    minimise  ||y - X coef||^2 + n lam ||coef||^2

No intercept. X may be an array, a SciPy sparse matrix or a `ling.design.Design`; every fit is a
frozen dataclass with `coef`, `fitted`, `cost` and `predict`.
"""

from ling.paper import models, theory
from ling.paper.algorithm1 import LingFit, LingSvrgFit, ling, ling_svrg
from ling.paper.algorithm2 import PartialSVD, exact_svd, pcr, random_svd
from ling.paper.algorithm3 import DescentFit, gradient_descent
from ling.paper.baselines import ridge
from ling.paper.results import Fit
from ling.paper.svrg_solver import SvrgFit, svrg

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


def __dir__() -> list[str]:
    return __all__
