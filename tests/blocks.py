"""Storages whose blocks stay as small as a test made them."""

import copy

from ling.design import ChunkedStorage


def keep_block_size(monkeypatch):
    """Fits read a ChunkedStorage in the blocks that it has, whatever the memory budget."""

    def with_memory_budget(storage, budget, progress=None):
        same = copy.copy(storage)
        same.progress = progress
        return same

    monkeypatch.setattr(ChunkedStorage, "with_memory_budget", with_memory_budget)
