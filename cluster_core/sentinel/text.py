"""Parse numbers in text like the server."""

from __future__ import annotations

import re
from typing import Final

INT64_MAX: Final = 2**63 - 1
_LEADING = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]{1,40})")


def leading_number(text: str) -> int:
    """Return the number at the start of *text*, clamped to 64 bits, or 0 (strtoll, atoi)."""
    match = _LEADING.match(text)
    return max(-INT64_MAX - 1, min(int(match[1]), INT64_MAX)) if match else 0


def whole_number(text: str) -> int | None:
    """Return *text* as a 64-bit number, or None (string2ll)."""
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or (digits[0] == "0" and text != "0"):
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None
