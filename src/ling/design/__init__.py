"""Everything X can be, behind one protocol."""

from ling._typing import Array
from ling.design.affine import AffineDesign
from ling.design.base import Design, Storage, as_design
from ling.design.chunked import ChunkedStorage
from ling.design.dense import DenseStorage
from ling.design.metered import Meter, Metered
from ling.design.quantized import QuantizedMatrix
from ling.design.row_source import ArraySource, RowSource
from ling.design.row_transform import AffineRowTransform, FoldMask, RowTransform
from ling.design.sparse import SparseStorage

__all__ = [
    "AffineDesign",
    "AffineRowTransform",
    "Array",
    "ArraySource",
    "ChunkedStorage",
    "DenseStorage",
    "Design",
    "FoldMask",
    "Meter",
    "Metered",
    "QuantizedMatrix",
    "RowSource",
    "RowTransform",
    "SparseStorage",
    "Storage",
    "as_design",
]
