"""Storage for Dask arrays: blocks of rows stay on the workers, and operations are sent to them."""

from ling.design.dask.storage import DaskStorage

__all__ = ["DaskStorage"]
