"""Conversion of bytes, numbers and times from outside to printable text.

Key names are hostile text: they may hold terminal escapes, direction overrides, NULs or no text at all.
Everything that a report prints goes through this module first; HTML escaping comes on top of it (`page`),
never instead of it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime

KEY_LENGTH_MAX = 60
KEY_LENGTH_MIN = 8
"""No limit asks for less: the length of a long key must fit."""

NOTHING = "—"
"""Stands for a figure that no source knows."""

_LIMIT_WITH_LENGTH = 24
_MARKS_IN_A_ROW_MAX = 2
_UNPRINTABLE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_INVISIBLE = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
    | set(range(0x180B, 0x1810))
    | set(range(0xFE00, 0xFE10))
    | set(range(0xE0100, 0xE01F0))
)
_HOURS_MAX = 72
"""Longer times are written in days."""
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def shown(key: bytes, limit: int = KEY_LENGTH_MAX, *, ascii_only: bool = False) -> str:
    r"""Return *key* as one line of at most *limit* characters that no terminal or browser acts upon.

    Valid UTF-8 stays text.  Control characters and bytes that are not UTF-8 become ``\xNN``; direction
    overrides, zero-width, private and unassigned characters become ``\u{NNNN}``; a backslash is doubled, so
    the escapes can be read back.  Long keys lose their middle; their length in bytes stands there if *limit*
    leaves room for it.  Only the ends of a long key are looked at.

    >>> shown(b"user:1\x1b[31m")
    'user:1\\x1b[31m'
    """
    if not key:
        return '""'
    limit = max(limit, KEY_LENGTH_MIN)
    if len(key) <= _bytes_for(limit):
        whole = _named_pieces(key, ascii_only)
        if sum(map(len, whole)) <= limit:
            return "".join(whole)
    dots = "..." if ascii_only else "…"
    middle = f"{dots}{len(key):,} bytes{dots}" if limit >= _LIMIT_WITH_LENGTH else dots
    room = limit - len(middle)
    tail = _fill(reversed(_named_pieces(key[-_bytes_for(room // 3) :], ascii_only)), room // 3)[::-1]
    head = _fill(iter(_named_pieces(key[: _bytes_for(room)], ascii_only)), room - sum(map(len, tail)))
    return "".join(head) + middle + "".join(tail)


def _bytes_for(length: int) -> int:
    """Return how many bytes hold more than *length* characters, so that a torn one at their end is not kept."""
    return 4 * length + 4


def _named_pieces(raw: bytes, ascii_only: bool) -> list[str]:
    """Return the characters of a name, escaped; a space at either end would not be seen, so it is too."""
    if raw.isascii() and (plain := raw.decode("ascii")).isprintable() and "\\" not in plain and plain == plain.strip():
        return list(plain)
    pieces = list(_pieces(raw.decode("utf-8", "surrogateescape"), ascii_only, escape_backslash=True))
    for end in (0, -1):
        if pieces[end] == " ":
            pieces[end] = "\\x20"
    return pieces


def printable(text: str, limit: int = 2000, *, ascii_only: bool = False) -> str:
    """Return *text* of our own (a warning, a path, an address) with unsafe characters escaped as in `shown`.

    Backslashes stay single, because such text may already hold escapes.  Anything beyond *limit* characters
    is cut.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + ("~" if ascii_only else "…")
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(_pieces(cut, ascii_only, escape_backslash=False))


def _pieces(text: str, ascii_only: bool, *, escape_backslash: bool) -> Iterator[str]:
    """Yield each character of *text*, escaped where it must be; lone surrogates stand for single bytes."""
    marks = _MARKS_IN_A_ROW_MAX  # a mark needs a letter before it
    for character in text:
        code = ord(character)
        if 0x20 <= code < 0x7F:
            marks = 0
            yield "\\\\" if character == "\\" and escape_backslash else character
            continue
        category = unicodedata.category(character)
        if category in ("Mn", "Me"):
            marks += 1
            unsafe = marks > _MARKS_IN_A_ROW_MAX or code in _INVISIBLE
        else:
            marks = 0
            unsafe = category in _UNPRINTABLE_CATEGORIES or category == "Zs" or code in _INVISIBLE
        yield _escaped(code) if unsafe or ascii_only else character


def _escaped(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, see PEP 383
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{{{code:x}}}"


def _fill(pieces: Iterator[str], room: int) -> list[str]:
    """Take pieces while they fit whole into *room* characters."""
    taken: list[str] = []
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            break
        taken.append(piece)
    return taken


def count(number: int | None) -> str:
    """Return *number* with its digits in groups of three: ``12,345``."""
    return NOTHING if number is None else f"{number:,}"


def signed_count(number: int) -> str:
    """Return *number* with its sign, also when it grew: ``+12,345``, ``−7``, ``0``."""
    return _sign(number) + count(abs(number))


def size(number: int | None) -> str:
    """Return *number* bytes with three digits in decimal units: ``999 B``, ``41.2 MB``."""
    if number is None:
        return NOTHING
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    if unit == 0:
        return f"{number} B"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def signed_size(number: int) -> str:
    """Return *number* bytes with its sign: ``+41.2 MB``."""
    return _sign(number) + size(abs(number))


def _sign(number: int) -> str:
    return "+" if number > 0 else "−" if number < 0 else ""


def percent(part: int | None, whole: int | None) -> str:
    """Return *part* as a percentage of *whole*; only nothing is ``0 %`` and only everything is ``100 %``."""
    if part is None or not whole:
        return NOTHING
    value = 100 * part / whole
    if part == 0:
        return "0 %"
    if value < 0.1:
        return "<0.1 %"
    if value < 9.95:
        return f"{value:.1f} %"
    if 99.5 <= value < 100:
        return ">99 %"
    return f"{value:.0f} %"


def unread(share: float | None) -> str:
    """Describe the unread part; empty if everything was read."""
    return "unknown" if share is None else "" if share == 0 else percent(round(share * 1_000_000), 1_000_000)


def ratio(value: float | None) -> str:
    """Return a factor: ``1.56×``."""
    if value is None:
        return NOTHING
    return f"{value:.2f}×" if value < 100 else f"{value:,.0f}×"


def moment(time_ms: int | None) -> str:
    """Return a time in UTC, to the second; a time that no calendar holds is shown as its number."""
    if time_ms is None:
        return "an unknown time"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def share(value: float | None) -> str:
    """Return a share of 0 to 1 as in `percent`: ``12 %``, ``<0.1 %``."""
    return NOTHING if value is None else percent(round(value * 1_000_000), 1_000_000)


def duration(seconds: float | None) -> str:
    """Return a time as people say it: ``12 ms``, ``2.90 s``, ``18.4 s``, ``3 min 20 s``, ``2 h 5 min``, ``10 days``.

    >>> [duration(value) for value in (0.0, 0.44, 61, 200, 7_500, 864_000)]
    ['0 s', '440 ms', '61 s', '3 min 20 s', '2 h 5 min', '10 days']
    """
    if seconds is None:
        return NOTHING
    if 0 < seconds < 0.9995:
        return f"{max(round(1000 * seconds), 1)} ms"
    whole = round(seconds)
    if seconds < 99.95 and seconds != whole:
        return f"{seconds:.{2 if seconds < 9.995 else 1}f} s"
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours >= _HOURS_MAX:
        return plural(round(hours / 24), "day")
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def plural(number: int, singular: str, many: str | None = None) -> str:
    """Return the counted thing: ``1 key``, ``2 keys``, ``3 prefixes``."""
    return f"{count(number)} {singular if number == 1 else many or singular + 's'}"
