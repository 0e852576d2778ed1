"""Everything X can be, behind one class: `Design`."""

from ling._typing import Array
from ling.design.affine import AffineMap
from ling.design.base import Design, Meter, as_design
from ling.design.cg_state import DiagonalCGState
from ling.design.chunked import ChunkedStorage
from ling.design.dense import DenseStorage
from ling.design.quantized import QuantizedMatrix
from ling.design.row_source import ArraySource, RowSource
from ling.design.rows import AffineRowTransform, FoldMask, RowTransform
from ling.design.sparse import SparseStorage
from ling.design.storage import Storage

__all__ = [
    "AffineMap",
    "AffineRowTransform",
    "Array",
    "ArraySource",
    "ChunkedStorage",
    "DenseStorage",
    "Design",
    "DiagonalCGState",
    "FoldMask",
    "Meter",
    "QuantizedMatrix",
    "RowSource",
    "RowTransform",
    "SparseStorage",
    "Storage",
    "as_design",
]
