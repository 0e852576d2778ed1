"""Whether compiled loops can use wider vectors than BLAS does."""

from __future__ import annotations

from functools import cache

from ling.linalg import threads

# Kernels of OpenBLAS with vectors of 256 bits. It takes them on processors by AMD that have
# AVX-512 too (OpenBLAS 0.3.31 on Zen 5), where compiled loops use vectors of 512 bits.
AVX2_KERNELS = frozenset({"Haswell", "Zen"})


@cache
def has_wider_vectors_than_blas() -> bool:
    """Whether compiled loops use AVX-512 and BLAS does not; False if that is not known."""
    from llvmlite import binding

    kernels = threads.blas_kernels()
    try:
        has_avx512 = bool(binding.get_host_cpu_features().get("avx512f", False))
    except RuntimeError:  # LLVM does not know the features of this kind of processor
        return False
    return has_avx512 and bool(kernels) and kernels <= AVX2_KERNELS
