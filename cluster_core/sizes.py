"""Sizes in the servers' configuration syntax: ``64kb``, ``1mb``, ``1048576`` (`memtoull`)."""

from __future__ import annotations

import re
from typing import Final

UNITS: Final = {
    "": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 10**6, "mb": 1 << 20, "g": 10**9, "gb": 1 << 30, "t": 10**12, "tb": 1 << 40,
}  # fmt: skip
"""Bytes per unit; servers support none beyond gb."""
_SIZE = re.compile(r"([0-9]{1,18})(b|kb?|mb?|gb?)?")


def read_bytes(text: str) -> int | None:
    """Parse a size such as ``64kb``; None if invalid.

    >>> read_bytes("64kb")
    65536
    """
    match = _SIZE.fullmatch(text.strip().lower())
    return int(match[1]) * UNITS[match[2] or ""] if match else None


def write_bytes(count: int) -> str:
    """Format a size: 64 KiB, 1 MiB, 300 bytes."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit:,} {name}"
    return f"{count:,} bytes"
