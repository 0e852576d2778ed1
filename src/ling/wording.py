"""Numbers and sentences as people read them; everything here is text, not yet HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

MINUS_SIGN, NO_VALUE = "\N{MINUS SIGN}", "\N{EN DASH}"
TIMES_SIGN = "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Characters of a name in a sentence; tables have all of it.
MAX_NAME_CHARS = 40


def format_number(value: float, digits: int = 3) -> str:
    """So many digits, groups of thousands, and powers of ten where there would be many zeros."""
    if not math.isfinite(value):
        return NO_VALUE
    if value == 0:
        return "0"
    size = abs(value)
    if 1e-3 <= size < 1e7:
        decimals = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{value:,.{decimals}f}"
        return _with_minus_sign(text.rstrip("0").rstrip(".") if "." in text else text)
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return _with_minus_sign(f"{mantissa}{TIMES_SIGN}10{str(int(exponent)).translate(SUPERSCRIPTS)}")


def format_count(value: float) -> str:
    """A whole number."""
    return f"{value:,.0f}"


def pluralize(value: int, one: str, several: str = "") -> str:
    """'1 row', '2 rows'."""
    return f"{format_count(value)} {one if value == 1 else several or one + 's'}"


def format_percent(share: float) -> str:
    """A share in %."""
    if not math.isfinite(share):
        return NO_VALUE
    return f"{100 * share:.1f} %".replace(".0 %", " %").replace("-", MINUS_SIGN)


def format_seconds(value: float) -> str:
    """Seconds as text."""
    if value >= 120:
        return f"{format_number(value / 60)} min"
    return f"{format_number(value)} s" if value >= 0.1 else f"{format_number(1000 * value)} ms"


def format_bytes(value: float) -> str:
    """Bytes as text.

    >>> format_bytes(3), format_bytes(80_640), format_bytes(3.999e9)
    ('3 B', '80.6 kB', '4 GB')
    """
    return _with_si_prefix(value, "B")


def format_flops(value: float) -> str:
    """Floating-point operations."""
    return _with_si_prefix(value, "FLOPs")


def _with_si_prefix(value: float, unit: str) -> str:
    """With the prefix that leaves one to three digits before the point."""
    prefixes = ("", "k", "M", "G", "T", "P")
    value = float(f"{value:.2e}")  # 999.9 MB are 1 GB
    power = int(math.log10(value) // 3) if value >= 1 else 0
    power = min(power, len(prefixes) - 1)
    return f"{format_number(value / 1000.0**power)} {prefixes[power]}{unit}"


def truncate_middle(name: str) -> str:
    """Both ends of a long name."""
    half = MAX_NAME_CHARS // 2
    return name if len(name) <= MAX_NAME_CHARS else f"{name[: half - 1]}…{name[-half:]}"


def join_names(parts: Sequence[str]) -> str:
    """'a, b and c'."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def as_sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = re.sub(r"\s+", " ", text.strip())
    if not text:
        return text
    return f"{text[0].upper()}{text[1:]}{'' if text[-1] in '.!?' else '.'}"


def unique_sentences(texts: Iterable[str]) -> list[str]:
    """Each once."""
    return list(dict.fromkeys(as_sentence(text) for text in texts if text))


def _with_minus_sign(text: str) -> str:
    return text.replace("-", MINUS_SIGN)
