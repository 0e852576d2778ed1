"""The memory budget of a fit: how many bytes it may use, and what fits into them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ling.design.tuning import DEFAULT_TUNING, MAX_WORKSPACE_BYTES, Tuning
from ling.solvers.machine import parse_memory_budget

BYTES_PER_MIB = 2**20
# Temporary blocks of rows take at most this fraction of the memory budget, and at least so many
# bytes. Products make up to three such blocks at the same time. Blocks of less than 1 MiB would not
# be faster to process, and slow down reading.
WORKSPACE_BUDGET_FRACTION, MIN_WORKSPACE_BYTES = 1 / 16, BYTES_PER_MIB
# Fraction of the budget that batches of work may always take, even if arrays that must exist take
# all of it: batches of single rows or alphas would be very slow.
MIN_REMAINING_FRACTION = 0.1
# Bytes by which predicted memory may exceed a budget that the user has passed. Arrays that no
# prediction counts take a few MB as well, so that stricter checks would refuse small problems for
# nothing; fits may take 10 MB more than their budget, and a fifth.
UNCOUNTED_BYTES = 8e6


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes that a fit may use in addition to the data.

    `total_bytes` is the user's memory_budget. Parts of X take `resident_bytes` of it. Whatever is
    left, batches of work may take `min_batch_bytes`.
    """

    total_bytes: float = float("inf")
    resident_bytes: float = 0.0
    min_batch_bytes: float = MIN_WORKSPACE_BYTES

    @property
    def n_bytes(self) -> float:
        """Bytes beside X; at least 1."""
        return max(1.0, self.total_bytes - self.resident_bytes)

    @classmethod
    def from_option(
        cls, memory_budget: float | str | None, resident_bytes: float = 0.0
    ) -> MemoryBudget:
        """The budget of a fit whose X already takes `resident_bytes` of `memory_budget`."""
        return cls(parse_memory_budget(memory_budget), resident_bytes)

    def allows(self, n_bytes: float, fraction: float = 1.0) -> bool:
        """Whether `n_bytes` fit into this fraction of the budget."""
        return n_bytes <= fraction * self.n_bytes

    def tolerates(self, n_bytes: float) -> bool:
        """Whether `n_bytes` exceed the budget by at most what no prediction counts."""
        return n_bytes <= self.n_bytes + UNCOUNTED_BYTES

    @property
    def tuning(self) -> Tuning:
        """Sizes for storages in memory, with temporary blocks that this budget has room for."""
        n_bytes = np.clip(
            WORKSPACE_BUDGET_FRACTION * self.n_bytes, MIN_WORKSPACE_BYTES, MAX_WORKSPACE_BYTES
        )
        return replace(DEFAULT_TUNING, workspace_bytes=int(n_bytes))

    def after(self, n_bytes: float) -> MemoryBudget:
        """The budget less `n_bytes`, but at least MIN_REMAINING_FRACTION of it."""
        left = max(MIN_REMAINING_FRACTION * self.n_bytes, self.n_bytes - n_bytes)
        return replace(self, total_bytes=left + self.resident_bytes)

    def count(self, n_bytes: float, most: int, fraction: float = 1.0) -> int:
        """How many arrays of `n_bytes` fit into this fraction of the budget: 1 to `most`."""
        allowed = max(fraction * self.n_bytes, self.min_batch_bytes)
        return int(np.clip(allowed / n_bytes, 1, most))


UNLIMITED_MEMORY = MemoryBudget()


def budget_text(n_bytes: float) -> str:
    """A memory_budget of at least `n_bytes` as text, with two digits.

    >>> budget_text(33_200_000), budget_text(1_101)
    ('34MB', '0.0012MB')
    """
    unit = 10.0 ** (np.floor(np.log10(n_bytes)) - 1)
    digits = int(n_bytes / unit)
    while True:
        text = f"{digits * unit / 1e6:.10g}MB"
        if parse_memory_budget(text) >= n_bytes:
            return text
        digits += 1
