"""Slot activity: CLUSTER SLOT-STATS and MONITOR.

A poll is one line of JSON, as written by ``slotscope collect --slot-stats``::

    {"time": 1795254729693956704, "node": "127.0.0.1:7000", "slot_stats": [[0, {"key-count": 3, "cpu-usec": 12, …}], …]}

*time* and *node* as in `cluster_core.formats.poll_lines`; *slot_stats* is the RESP3 reply (maps) or the RESP2 reply
(alternating names and values). A file may also hold a single reply without a time (`cluster_core.topology.cli_text`).
A MONITOR line is ``1795254729.693956 [0 127.0.0.1:51200] "SET" "user:1" "\\x00"``; the address may be *lua* or a socket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.key_list import unquote
from cluster_core.formats.poll_lines import read_object
from cluster_core.instants import time_ns
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.topology.cli_text import read_reply_value

LINE_BYTES_MAX: Final = 64 << 20
"""Maximum bytes; 16384 slots with five metrics need two megabytes."""
VALUE_MAX: Final = 2**63 - 1

METRICS: Final = {
    "key-count": "keys",
    "cpu-usec": "cpu_usec",
    "network-bytes-in": "network_bytes_in",
    "network-bytes-out": "network_bytes_out",
    "memory-bytes": "memory_bytes",
}
"""Our names by server name; other metrics are ignored."""
COUNTERS: Final = frozenset(("cpu_usec", "network_bytes_in", "network_bytes_out"))
"""Counters that grow from 0 on the slot's owner; the other metrics are gauges."""

_MONITOR_LINE = re.compile(rb"\+?(\d{1,12})\.(\d{6}) \[\d{1,10} (?:[^\]]{1,300}|\[[^\]]{1,100}\]:\d+)\] (\".*)")
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"')


class SlotSample(NamedTuple):
    """One metric of one slot at *node*, at *ts_ns* (None: unknown)."""

    ts_ns: int | None
    node: str
    slot: int
    metric: str
    value: int


def read_slot_stats_line(raw: bytes, *, line: int, source: str = "<polls>") -> list[SlotSample]:
    """Parse one poll; DecodeError with offset *line* if invalid."""
    record = read_object(raw, line=line, source=source)
    if record.get("slot_stats") is None:
        return []
    moment = time_ns(record.get("time"))
    if moment is None:
        raise DecodeError("the time is missing or cannot be parsed", offset=line, source=source)
    node = record.get("node")
    return list(_samples(record["slot_stats"], moment, str(node)[:300] if node else "", line, source))


def read_slot_stats(data: bytes, *, source: str = "<bytes>") -> list[SlotSample]:
    """Parse one CLUSTER SLOT-STATS reply; DecodeError if invalid."""
    return list(_samples(read_reply_value(data, source=source), None, "", 0, source))


def _samples(reply: Any, ts_ns: int | None, node: str, offset: int, source: str) -> Iterator[SlotSample]:
    if not isinstance(reply, list) or len(reply) > SLOT_COUNT:
        raise DecodeError("a reply of CLUSTER SLOT-STATS is a list of slots", offset=offset, source=source)
    for number, entry in enumerate(reply):
        if not isinstance(entry, list) or len(entry) != 2 or not _is_count(entry[0], SLOT_COUNT - 1):
            raise DecodeError(f"entry {number} is not a slot with its metrics", offset=offset, source=source)
        slot, metrics = entry
        for name, value in _pairs(metrics, slot, offset, source):
            if name in METRICS:
                if not _is_count(value, VALUE_MAX):
                    raise DecodeError(f"slot {slot}: {name} is {str(value)[:40]}", offset=offset, source=source)
                yield SlotSample(ts_ns, node, slot, METRICS[name], value)


def _pairs(metrics: Any, slot: int, offset: int, source: str) -> list[tuple[Any, Any]]:
    if isinstance(metrics, dict):
        return list(metrics.items())
    if isinstance(metrics, list) and len(metrics) % 2 == 0 and all(isinstance(name, str) for name in metrics[::2]):
        return list(zip(metrics[::2], metrics[1::2], strict=True))
    raise DecodeError(f"slot {slot}: its metrics are not pairs of name and value", offset=offset, source=source)


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


class MonitorLine(NamedTuple):
    """One command: *ts_ns* since the epoch, and arguments, name first."""

    ts_ns: int
    arguments: tuple[bytes, ...]


def read_monitor_line(raw: bytes, *, offset: int, source: str = "<monitor>") -> MonitorLine | None:
    """Parse a line of MONITOR; None for a blank line and the initial OK; DecodeError otherwise."""
    text = raw.rstrip(b"\r\n")
    if text in (b"", b"OK", b"+OK"):
        return None
    match = _MONITOR_LINE.fullmatch(text)
    if match is None:
        raise DecodeError(f"not a line of MONITOR: {text[:60]!r}", offset=offset, source=source)
    arguments = _WORD.findall(match[3])
    if b" ".join(arguments) != match[3]:
        raise DecodeError("a word without a closing quote", offset=offset, source=source)
    ts_ns = int(match[1]) * 1_000_000_000 + int(match[2]) * 1_000
    plain = tuple(w[1:-1] if b"\\" not in w else unquote(w, source=source, offset=offset) for w in arguments)
    return MonitorLine(ts_ns, plain)
