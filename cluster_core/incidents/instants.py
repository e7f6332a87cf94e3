"""Times as people write them: ISO 8601, or a number since the epoch in s, ms, µs or ns."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

LENGTH_MAX: Final = 64
_NUMBER = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))?")
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d{1,9}))?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?", re.IGNORECASE
)
_SECONDS_END: Final = 10**11
_MILLISECONDS_END: Final = 10**14
_MICROSECONDS_END: Final = 10**17
NS: Final = 1_000_000_000
NS_MAX: Final = 2**63 - 1


def read_instant(text: str) -> int:
    """Return a time in ns since the epoch.

    A number is read by its size: below 10^11 as s, below 10^14 as ms, below 10^17 as µs, else as ns; s may have a
    fraction.  ISO 8601 without an offset is UTC.  Raises ValueError that says what is understood.

    >>> read_instant("1700000000"), read_instant("1700000000000"), read_instant("2023-11-14T22:13:20Z")
    (1700000000000000000, 1700000000000000000, 1700000000000000000)
    """
    words = text.strip()
    found = None if len(words) > LENGTH_MAX else _of_number(words) if words[:1].isdigit() else None
    if found is None and len(words) <= LENGTH_MAX:
        found = _of_iso(words)
    if found is None or not 0 <= found <= NS_MAX:
        raise ValueError(f"{text[:LENGTH_MAX]!r} is no time: give 2024-05-01T12:00:00.5Z, or s, ms or ns since 1970")
    return found


def _of_number(words: str) -> int | None:
    match = _NUMBER.fullmatch(words)
    if not match:
        return None
    whole, fraction = int(match[1]), match[2]
    if whole < _SECONDS_END:
        return whole * NS + (int(fraction.ljust(9, "0")) if fraction else 0)
    if fraction:
        return None
    if whole < _MILLISECONDS_END:
        return whole * 1_000_000
    return whole * 1_000 if whole < _MICROSECONDS_END else whole


def _of_iso(words: str) -> int | None:
    match = _ISO.fullmatch(words)
    if not match:
        return None
    day, clock, fraction, zone = match.groups()
    offset = "+00:00" if zone is None or zone.upper() in ("Z", "UTC") else zone
    try:
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{offset}")
    except ValueError:
        return None
    whole = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return whole * NS + (int(fraction.ljust(9, "0")) if fraction else 0)


def write_instant(ts_ns: int) -> str:
    """Return a time in UTC to the microsecond, as `read_instant` reads it.

    >>> write_instant(1700000000123456789)
    '2023-11-14T22:13:20.123456Z'
    """
    try:
        moment = datetime.fromtimestamp(ts_ns // NS, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ts_ns} ns"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ts_ns % NS // 1000:06d}Z"
