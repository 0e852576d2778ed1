"""Dask arrays: blocks of rows stay on the workers, and what is done goes to them."""

from ling.design.dask.storage import DaskStorage

__all__ = ["DaskStorage"]
