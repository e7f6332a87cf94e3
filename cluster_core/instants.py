"""Times in text: ISO 8601, or a number since the epoch in s, ms, µs or ns."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

TIME_NS_MAX: Final = 2**63 - 1
_LENGTH_MAX: Final = 64
_UNITS: Final = ((10**17, 1), (10**14, 1_000), (10**11, 1_000_000), (0, 1_000_000_000))
"""Smallest number in each unit, and its ns per unit: covers the years 1973 to 5138."""
_NUMBER: Final = re.compile(r"\d{1,19}(?:\.\d{1,9})?")
_FRACTION: Final = re.compile(r"(?<=:\d\d)[.,](\d{1,9})")
_SPACE: Final = re.compile(r"\s+(?=[+-])|\s*(?:Z|UTC)$", re.IGNORECASE)
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_ns(value: Any) -> int | None:
    """Parse a time to ns since the epoch; None if invalid.

    The size of a number gives its unit; ISO 8601 without offset is UTC.

    >>> time_ns(1795254729), time_ns("1795254729693"), time_ns("2026-11-21T10:00:00.5+01:00")
    (1795254729000000000, 1795254729693000000, 1795251600500000000)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(text := value.strip()):
        instant = _iso_ns(text) if len(text) <= _LENGTH_MAX else None
    else:
        number = Decimal(value if isinstance(value, int) else str(value).strip())
        if not number.is_finite() or not 0 <= number <= TIME_NS_MAX:
            return None
        instant = int(number * next(factor for least, factor in _UNITS if number >= least))
    return instant if instant is not None and 0 <= instant <= TIME_NS_MAX else None


def _iso_ns(text: str) -> int | None:
    plain = _SPACE.sub("", text)
    fraction = _FRACTION.search(plain)
    try:
        moment = datetime.fromisoformat(_FRACTION.sub("", plain))
        passed = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _START
    except (ValueError, OverflowError):
        return None
    return passed // timedelta(microseconds=1) * 1000 + (int(fraction[1].ljust(9, "0")) if fraction else 0)


def write_instant(ts_ns: int) -> str:
    """Format a time in UTC to the microsecond, as `time_ns` parses it.

    >>> write_instant(1700000000123456789)
    '2023-11-14T22:13:20.123456Z'
    """
    try:
        moment = _START + timedelta(microseconds=ts_ns // 1000)
    except OverflowError:
        return f"{ts_ns} ns"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}Z"
