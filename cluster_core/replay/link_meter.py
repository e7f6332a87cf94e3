"""Traffic between nodes: messages, bytes by type, silences."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.kernels.bus.known_links import BYTES, FIRST, GOSSIP, LAST, LONGEST, MESSAGES, TYPES, doubled, new_sums
from cluster_core.wire.bus import GOSSIP_TYPES, HEADER_BYTES, TYPE_NAMES, type_name

SILENCES_MAX: Final = 1000
"""Maximum silences listed per pair."""
CONNECTIONS_MAX: Final = 10_000
"""Maximum connections counted per pair."""
PAIRS_MAX: Final = 2_000_000
TYPES_MAX: Final = 64
"""Maximum types per pair; others are counted as ``other``."""
_PAIRS_MIN: Final = 64


class LinkRow(NamedTuple):
    """Traffic from *source* to *target*; times in ns since the epoch."""

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


class LinkMeter:
    """Counts messages in time order in *sums*, one row per pair; a silence is longer than *silence_ns*."""

    def __init__(self, silence_ns: int) -> None:
        self.silence_ns = silence_ns
        self.sums = new_sums(_PAIRS_MIN)
        self._pairs: dict[tuple[str, str], int] = {}
        self._connections: list[dict[int, None]] = []
        self._strange: dict[int, dict[str, list[int]]] = {}
        self._silences: dict[int, list[tuple[int, int]]] = {}

    def pair_of(self, source: str, target: str) -> int:
        """Return the row of a pair, -1 if there are too many."""
        pair = self._pairs.get((source, target))
        if pair is None:
            if len(self._pairs) >= PAIRS_MAX:
                return -1
            pair = self._pairs[source, target] = len(self._pairs)
            self._connections.append({})
            if pair == len(self.sums.is_open):
                self.sums = doubled(self.sums)
        return pair

    def note(self, source: str, target: str, connection: int, kind: int, total_bytes: int, ts_ns: int) -> None:
        """Count one message."""
        pair = self.pair_of(source, target)
        if pair < 0:
            return
        row = self.sums.sums[pair]
        if not row[MESSAGES]:
            row[FIRST] = row[LAST] = ts_ns
        last_ns = int(row[LAST])
        row[LONGEST] = max(row[LONGEST], ts_ns - last_ns)
        if ts_ns - last_ns > self.silence_ns:
            self.note_silence(pair, last_ns, ts_ns)
        row[LAST] = ts_ns
        row[MESSAGES] += 1
        row[BYTES] += total_bytes
        if kind in GOSSIP_TYPES:
            row[GOSSIP] += max(0, total_bytes - HEADER_BYTES)
        self.note_connection(pair, connection)
        self._note_type(pair, kind, total_bytes)

    def note_connection(self, pair: int, connection: int) -> None:
        """Count a connection of a pair."""
        known = self._connections[pair]
        if len(known) < CONNECTIONS_MAX:
            known[connection] = None

    def note_silence(self, pair: int, from_ns: int, to_ns: int) -> None:
        """Record a silence of a pair."""
        known = self._silences.setdefault(pair, [])
        if len(known) < SILENCES_MAX:
            known.append((from_ns, to_ns))

    def rows(self, end_ns: int) -> list[LinkRow]:
        """Return the sums of every pair, with silences up to *end_ns*; call it last."""
        found = []
        for (source, target), pair in sorted(self._pairs.items()):
            row = self.sums.sums[pair].tolist()
            if not row[MESSAGES]:
                continue
            if end_ns - row[LAST] > self.silence_ns:
                self.note_silence(pair, row[LAST], end_ns)
            by_type = dict(sorted(self._types(pair).items()))
            found.append(
                LinkRow(
                    source,
                    target,
                    len(self._connections[pair]),
                    row[MESSAGES],
                    row[BYTES],
                    row[GOSSIP],
                    {name: sums[0] for name, sums in by_type.items()},
                    {name: sums[1] for name, sums in by_type.items()},
                    row[FIRST],
                    row[LAST],
                    max(row[LONGEST], end_ns - row[LAST]),
                    self._silences.get(pair, []),
                )
            )
        return found

    def _types(self, pair: int) -> dict[str, list[int]]:
        known = zip(TYPE_NAMES, self.sums.types[pair].tolist(), strict=True)
        return {name: sums for name, sums in known if sums[0]} | self._strange.get(pair, {})

    def _note_type(self, pair: int, kind: int, total_bytes: int) -> None:
        name, types = type_name(kind), self.sums.types[pair]
        is_new = not types[kind, 0] if kind < TYPES else name not in self._strange.get(pair, {})
        if is_new and len(self._types(pair)) >= TYPES_MAX:
            name, kind = "other", TYPES
        if kind < TYPES:
            types[kind] += (1, total_bytes)
            return
        strange = self._strange.setdefault(pair, {})
        sums = strange.setdefault(name, [0, 0])
        sums[0] += 1
        sums[1] += total_bytes
        self.sums.is_open[pair] = len(strange) + TYPES < TYPES_MAX
