"""Everything X can be, behind one protocol."""

from ling.design.affine import AffineDesign
from ling.design.arrays import Array
from ling.design.base import Design, Storage, as_design
from ling.design.between import Between, Masked, RowMap
from ling.design.chunked import ChunkedDesign
from ling.design.dense import DenseDesign
from ling.design.metered import Meter, Metered
from ling.design.short import ShortCopy
from ling.design.source import ArraySource, Source
from ling.design.sparse import SparseDesign

__all__ = [
    "AffineDesign",
    "Array",
    "ArraySource",
    "Between",
    "ChunkedDesign",
    "DenseDesign",
    "Design",
    "Masked",
    "Meter",
    "Metered",
    "RowMap",
    "ShortCopy",
    "Source",
    "SparseDesign",
    "Storage",
    "as_design",
]
