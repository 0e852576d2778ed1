"""How much memory a call takes."""

import tracemalloc


def peak_memory(call) -> int:
    """Bytes allocated while `call()` runs, at most at one time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
