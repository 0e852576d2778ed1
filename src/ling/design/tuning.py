"""Sizes at which storages in memory change how they compute; they affect speed, not results."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20
# Size of temporary blocks of rows if memory is plentiful. In larger blocks no product is faster.
MAX_WORKSPACE_BYTES = 32 * MIB


@dataclass(frozen=True)
class Tuning:
    """Sizes for `DenseStorage` and `SparseStorage`.

    Attributes
    ----------
    max_cached_bytes : int
        A dense X up to this size stays in cache, where reading it a second time costs next to
        nothing; larger ones are read by compiled loops.
    block_bytes : int
        Unit of the sizes of blocks of rows of a dense X.
    block_entries : int
        Stored entries (12 bytes each) of a block of rows of a sparse X; it stays in a core's
        second-level cache.
    min_parallel_entries : int
        Stored entries of X below which starting threads costs more than it saves.
    max_iterated_entries : int
        Stored entries, rows and columns of a sparse X up to which conjugate gradients are a single
        compiled loop on one thread: an iteration in Python takes as long as a pass over 10^5.
    max_thread_gram_bytes : int
        Size of a Gram matrix of a sparse X up to which each thread sums up one of its own.
    min_blas_density : float
        Fraction of stored entries of a sparse X from which BLAS forms X'X from dense blocks. With
        density d, n p^2 d^2 multiply-adds of compiled loops, 1.5e9 per second on two cores, take as
        long as n p^2 / 2 of BLAS if d is 0.15.
    workspace_bytes : int
        Size of a temporary block of rows. A small memory budget makes it smaller.
    """

    max_cached_bytes: int = 32 * MIB
    block_bytes: int = MIB
    block_entries: int = 2**15
    min_parallel_entries: int = 2**16
    max_iterated_entries: int = 2**20
    max_thread_gram_bytes: int = 32 * MIB
    min_blas_density: float = 0.15
    workspace_bytes: int = MAX_WORKSPACE_BYTES


DEFAULT_TUNING = Tuning()
