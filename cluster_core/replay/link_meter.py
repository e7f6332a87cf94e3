"""What went from node to node: messages, bytes by type, and the times in which nothing did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster_core.wire.bus import GOSSIP_TYPES, HEADER_BYTES, type_name

SILENCES_MAX: Final = 1000
"""Silences of one pair beyond this are not listed."""
CONNECTIONS_MAX: Final = 10_000
"""Connections of one pair are counted up to here."""
PAIRS_MAX: Final = 2_000_000
TYPES_MAX: Final = 64
"""Types of one pair beyond this are counted together, as ``other``."""


class LinkRow(NamedTuple):
    """One pair of nodes, and what went from *source* to *target*; times are ns since the epoch."""

    source: str
    target: str
    connections: int
    messages: int
    bytes: int
    gossip_bytes: int
    messages_by_type: dict[str, int]
    bytes_by_type: dict[str, int]
    first_ns: int
    last_ns: int
    longest_silence_ns: int
    silences: list[tuple[int, int]]


@dataclass(slots=True)
class Pair:
    """The sums of one pair."""

    first_ns: int
    last_ns: int
    messages: int = 0
    bytes: int = 0
    gossip_bytes: int = 0
    connections: dict[int, None] = field(default_factory=dict)
    longest_ns: int = 0
    by_type: dict[str, list[int]] = field(default_factory=dict)
    silences: list[tuple[int, int]] = field(default_factory=list)


class LinkMeter:
    """Feed it messages in order of time; a silence is longer than *silence_ns*."""

    def __init__(self, silence_ns: int) -> None:
        self._silence_ns = silence_ns
        self._pairs: dict[tuple[str, str], Pair] = {}

    def note(self, source: str, target: str, connection: int, kind: int, total_bytes: int, ts_ns: int) -> None:
        """Count one message."""
        pair = self._pairs.get((source, target))
        if pair is None:
            if len(self._pairs) >= PAIRS_MAX:
                return
            pair = self._pairs[source, target] = Pair(ts_ns, ts_ns)
        if ts_ns - pair.last_ns > min(pair.longest_ns, self._silence_ns):
            self._note_silence(pair, ts_ns)
        pair.last_ns = ts_ns
        pair.messages += 1
        pair.bytes += total_bytes
        if kind in GOSSIP_TYPES:
            pair.gossip_bytes += max(0, total_bytes - HEADER_BYTES)
        if len(pair.connections) < CONNECTIONS_MAX:
            pair.connections[connection] = None
        name = type_name(kind)
        if name not in pair.by_type and len(pair.by_type) >= TYPES_MAX:
            name = "other"
        sums = pair.by_type.setdefault(name, [0, 0])
        sums[0] += 1
        sums[1] += total_bytes

    def rows(self, end_ns: int) -> list[LinkRow]:
        """The sums of every pair, silence up to *end_ns* included; call it last."""
        found = []
        for (source, target), pair in sorted(self._pairs.items()):
            self._note_silence(pair, end_ns)
            counts = {name: sums[0] for name, sums in sorted(pair.by_type.items())}
            sizes = {name: sums[1] for name, sums in sorted(pair.by_type.items())}
            found.append(
                LinkRow(
                    source,
                    target,
                    len(pair.connections),
                    pair.messages,
                    pair.bytes,
                    pair.gossip_bytes,
                    counts,
                    sizes,
                    pair.first_ns,
                    pair.last_ns,
                    pair.longest_ns,
                    pair.silences,
                )
            )
        return found

    def _note_silence(self, pair: Pair, ts_ns: int) -> None:
        silence_ns = ts_ns - pair.last_ns
        pair.longest_ns = max(pair.longest_ns, silence_ns)
        if silence_ns > self._silence_ns and len(pair.silences) < SILENCES_MAX:
            pair.silences.append((pair.last_ns, ts_ns))
