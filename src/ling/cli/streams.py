"""stdout and stderr that cannot encode every character, such as those of LC_ALL=C or Latin-1."""

from __future__ import annotations

import codecs
import io
from typing import Any

#: ASCII for characters that ling and rich print themselves.
ASCII_REPLACEMENTS = {
    "\N{SUPERSCRIPT TWO}": "2",
    "\N{PLUS-MINUS SIGN}": "+/-",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{EN DASH}": "-",
    "\N{HORIZONTAL ELLIPSIS}": "...",
}
BRAILLE_PATTERNS = range(0x2800, 0x2900)  # braille patterns
ERROR_HANDLER = "ling-readable"
# Handlers that raise an error, or know no readable ASCII. Any other was chosen by the user.
REPLACED_HANDLERS = ("strict", "surrogateescape", "backslashreplace")


def make_printable(stream: Any) -> None:
    r"""Let a text stream print every character, in place.

    Where its encoding has no such character, it prints what `ASCII_REPLACEMENTS` lists or else a
    backslash escape like that of a Python string, so no text is lost: "R²" becomes "R2", and
    "Tromsø" becomes "Troms\xf8". Nothing changes on a UTF-8 stream, except that file names that
    are not UTF-8 are escaped, too. A handler chosen with PYTHONIOENCODING, such as ascii:replace,
    stays.
    """
    if isinstance(stream, io.TextIOWrapper) and stream.errors in REPLACED_HANDLERS:
        codecs.register_error(ERROR_HANDLER, replace_unencodable)
        stream.reconfigure(errors=ERROR_HANDLER)


def replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Encoding error handler: replacements for characters, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_to_ascii, text)), error.end


def _to_ascii(character: str) -> str:
    if ord(character) in BRAILLE_PATTERNS:
        return "*"
    return (
        ASCII_REPLACEMENTS.get(character) or character.encode("ascii", "backslashreplace").decode()
    )
