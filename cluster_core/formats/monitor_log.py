r"""Logs of MONITOR: one line a command, with its time, its client and its words in quotes.

``1795254729.693956 [0 127.0.0.1:51200] "SET" "user:1" "\x00"``; *lua* and unix sockets stand in the place of the address.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.key_list import unquote

LINE_BYTES_MAX: Final = 64 << 20

_LINE = re.compile(rb"\+?(\d{1,12})\.(\d{6}) \[(\d{1,10}) ([^\]]{1,300}|\[[^\]]{1,100}\]:\d+)\] (\".*)")
_PLAIN = re.compile(
    rb"\+?(\d{1,12})\.(\d{6}) \[\d{1,10} [^\]]{1,300}\] \"([A-Za-z.]{1,40})\" \"([^\"\\]*)\"(?: \"(?:[^\"\\]|\\.)*\")*\r?"
)
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NOISE = frozenset((b"OK", b"+OK"))


class MonitorLine(NamedTuple):
    """One command: *ts_ns* since the epoch, database, client (``lua`` for one that a script called), words."""

    ts_ns: int
    db: int
    client: bytes
    words: tuple[bytes, ...]


def read_monitor_line(raw: bytes, *, offset: int, source: str = "<monitor>") -> MonitorLine | None:
    """Return the command of a line, None for a blank one and for the OK that MONITOR begins with; DecodeError for any other."""
    text = raw.rstrip(b"\r\n")
    if not text or text in _NOISE:
        return None
    match = _LINE.fullmatch(text)
    if match is None:
        raise DecodeError(f"not a line of MONITOR: {text[:60]!r}", offset=offset, source=source)
    words = _WORD.findall(match[5])
    if b" ".join(words) != match[5]:
        raise DecodeError("words without a closing quote", offset=offset, source=source)
    ts_ns = int(match[1]) * 1_000_000_000 + int(match[2]) * 1_000
    plain = tuple(w[1:-1] if b"\\" not in w else unquote(w, source=source, offset=offset) for w in words)
    return MonitorLine(ts_ns, int(match[3]), match[4], plain)


class PlainLine(NamedTuple):
    """The beginning of a command whose name and first word need no unquoting; *ts_ns* since the epoch."""

    ts_ns: int
    name: bytes
    first: bytes


def read_plain_line(raw: bytes) -> PlainLine | None:
    """Return name and first word of most lines at a third of the cost of `read_monitor_line`; None for a line that is not plain."""
    match = _PLAIN.fullmatch(raw)
    if match is None:
        return None
    seconds, micros, name, first = match.groups()
    return PlainLine(int(seconds) * 1_000_000_000 + int(micros) * 1_000, name, first)
