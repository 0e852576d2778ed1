"""Products of parameters, thinned to every pair of values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations


def every_pair(cases: Sequence[Sequence[Hashable]]) -> list[int]:
    """The indices of few of the cases in which every pair of values occurs that occurs in all.

    The next case is the one with the most pairs that are not there yet (greedy set cover).
    """
    pairs = [{*combinations(enumerate(case), 2)} for case in cases]
    missing, kept = set().union(*pairs), []
    while missing:
        best = max(range(len(cases)), key=lambda i: len(pairs[i] & missing))
        missing -= pairs[best]
        kept.append(best)
    return sorted(kept)
