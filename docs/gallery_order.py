"""Examples in the order in which they are best read; those not named here follow by name."""

from __future__ import annotations

NAMES = (
    "first_fit",
    "choosing_alpha",
    "uncertainty",
    "certify_any_solver",
    "planner",
    "bigger_than_memory",
    "dask",
)


class Order:
    """Called by sphinx-gallery with the name of a file, to sort by."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removeprefix("plot_").removesuffix(".py")
        return NAMES.index(name) if name in NAMES else len(NAMES), name
