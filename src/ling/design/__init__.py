"""Everything X can be, behind one protocol."""

from ling.design.affine import AffineDesign
from ling.design.base import Array, Between, Design, RowMap, Storage, as_design
from ling.design.dense import DenseDesign
from ling.design.metered import Meter, Metered
from ling.design.short import ShortCopy
from ling.design.sparse import SparseDesign

__all__ = [
    "AffineDesign",
    "Array",
    "Between",
    "DenseDesign",
    "Design",
    "Meter",
    "Metered",
    "RowMap",
    "ShortCopy",
    "SparseDesign",
    "Storage",
    "as_design",
]
