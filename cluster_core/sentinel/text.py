"""Numbers and patterns in text, as the server reads them."""

from __future__ import annotations

import re
from typing import Final

INT64_MAX: Final = 2**63 - 1
_LEADING = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]{1,40})")


def leading_number(text: str) -> int:
    """Return the number that *text* begins with, cut to 64 bits, or 0 (strtoll, atoi)."""
    found = _LEADING.match(text)
    return max(-INT64_MAX - 1, min(int(found[1]), INT64_MAX)) if found else 0


def whole_number(text: str) -> int | None:
    """Return the number that *text* is, or None if it is anything else (string2ll)."""
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or (digits[0] == "0" and text != "0"):
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


PATTERN_BYTES_MAX: Final = 1024
_STAR, _ANY, _OPEN, _CLOSE, _NOT, _DASH, _ESCAPE = b"*?[]^-\\"


def matches(pattern: bytes, text: bytes) -> bool:
    """Return whether *text* as a whole fits *pattern*; one longer than `PATTERN_BYTES_MAX` fits nothing.

    It takes time in the product of both lengths at most: a star is only tried again from its last place.

    >>> matches(b"+switch-*", b"+switch-master"), matches(b"h[^e]llo", b"hello")
    (True, False)
    """
    if len(pattern) > PATTERN_BYTES_MAX:
        return False
    p = t = 0
    star, star_text = -1, 0
    while t < len(text):
        if p < len(pattern) and pattern[p] == _STAR:
            star, star_text, p = p, t, p + 1
            continue
        step = _step(pattern, p, text[t]) if p < len(pattern) else 0
        if step:
            p, t = p + step, t + 1
        elif star >= 0:
            star_text += 1
            p, t = star + 1, star_text
        else:
            return False
    return all(byte == _STAR for byte in pattern[p:])


def _step(pattern: bytes, at: int, byte: int) -> int:
    """How many bytes of the pattern *byte* uses up; 0 if it does not fit."""
    kind = pattern[at]
    if kind == _ANY:
        return 1
    if kind == _OPEN:
        return _class(pattern, at + 1, byte)
    if kind == _ESCAPE and at + 1 < len(pattern):
        return 2 if pattern[at + 1] == byte else 0
    return 1 if kind == byte else 0


def _class(pattern: bytes, start: int, byte: int) -> int:
    at, found = start, False
    inverted = pattern[at : at + 1] == b"^"
    at += inverted
    while at < len(pattern) and pattern[at] != _CLOSE:
        if pattern[at] == _ESCAPE and at + 1 < len(pattern):
            at += 1
            found = found or pattern[at] == byte
        elif at + 2 < len(pattern) and pattern[at + 1] == _DASH:
            low, high = sorted((pattern[at], pattern[at + 2]))
            found = found or low <= byte <= high
            at += 2
        else:
            found = found or pattern[at] == byte
        at += 1
    end = min(at + 1, len(pattern))
    return end - start + 1 if found != inverted else 0
