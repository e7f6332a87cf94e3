"""Traffic between nodes: messages, bytes by type, silences."""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.wire.bus import GOSSIP_TYPES, HEADER_BYTES, TYPE_NAMES

SILENCES_MAX: Final = 1000
"""Maximum silences listed per pair."""
CONNECTIONS_MAX: Final = 10_000
"""Maximum connections counted per pair."""
PAIRS_MAX: Final = 2_000_000
_PAIRS_MIN: Final = 64
FIRST, LAST, LONGEST, MESSAGES, BYTES, GOSSIP, SUMS = range(7)
"""Columns of the sums; times in ns."""
_NAMES: Final = (*TYPE_NAMES, "other")
_OTHER, _HEADER_BYTES = len(TYPE_NAMES), HEADER_BYTES
_GOSSIP_TYPES: Final = tuple(int(kind) for kind in sorted(GOSSIP_TYPES))


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
    """Counts messages in time order by pair of nodes; a silence is longer than *silence_ns*."""

    def __init__(self, silence_ns: int) -> None:
        self._silence_ns = silence_ns
        self._sums = np.zeros((_PAIRS_MIN, SUMS), np.int64)
        self._types = np.zeros((_PAIRS_MIN, len(_NAMES), 2), np.int64)
        self._pairs: dict[tuple[str, str], int] = {}
        self._connections: list[dict[int, None]] = []
        self._silences: dict[int, list[tuple[int, int]]] = {}

    def pair_of(self, source: str, target: str) -> int:
        """Return the row of a pair, -1 if there are too many."""
        pair = self._pairs.get((source, target))
        if pair is None:
            if len(self._pairs) >= PAIRS_MAX:
                return -1
            pair = self._pairs[source, target] = len(self._pairs)
            self._connections.append({})
            if pair == len(self._sums):
                self._sums, self._types = (np.concatenate((sums, 0 * sums)) for sums in (self._sums, self._types))
        return pair

    def note(self, source: str, target: str, connection: int, kind: int, total_bytes: int, ts_ns: int) -> None:
        """Count one message."""
        pair = self.pair_of(source, target)
        if pair < 0:
            return
        self.note_connection(pair, connection)
        self.note_all(*(np.array([value], np.int64) for value in (pair, kind, total_bytes, ts_ns)))

    def note_all(
        self, pairs: NDArray[Any], kinds: NDArray[Any], total_bytes: NDArray[Any], ts_ns: NDArray[Any]
    ) -> None:
        """Count messages of pairs."""
        silences = np.empty((len(pairs), 3), np.int64)
        columns = (column.astype(np.int64) for column in (pairs, kinds, total_bytes, ts_ns))
        count = _count(*columns, self._sums, self._types, self._silence_ns, silences)
        for pair, from_ns, to_ns in silences[:count].tolist():
            self._note_silence(pair, from_ns, to_ns)

    def note_connection(self, pair: int, connection: int) -> None:
        """Count a connection of a pair."""
        known = self._connections[pair]
        if len(known) < CONNECTIONS_MAX:
            known[connection] = None

    def _note_silence(self, pair: int, from_ns: int, to_ns: int) -> None:
        """Record a silence of a pair."""
        known = self._silences.setdefault(pair, [])
        if len(known) < SILENCES_MAX:
            known.append((from_ns, to_ns))

    def rows(self, end_ns: int) -> list[LinkRow]:
        """Return the sums of every pair, with silences up to *end_ns*; call it last."""
        link_rows = []
        for (source, target), pair in sorted(self._pairs.items()):
            row = self._sums[pair].tolist()
            if not row[MESSAGES]:
                continue
            if end_ns - row[LAST] > self._silence_ns:
                self._note_silence(pair, row[LAST], end_ns)
            by_type = {
                name: sums for name, sums in sorted(zip(_NAMES, self._types[pair].tolist(), strict=True)) if sums[0]
            }
            link_rows.append(
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
        return link_rows


@njit()
def _count(
    pairs: NDArray[np.int64],
    kinds: NDArray[np.int64],
    total_bytes: NDArray[np.int64],
    ts_ns: NDArray[np.int64],
    sums: NDArray[np.int64],
    types: NDArray[np.int64],
    silence_ns: int,
    silences: NDArray[np.int64],
) -> int:
    """Count messages; list silences as pair, beginning and end, and return their number."""
    count = 0
    for at in range(pairs.shape[0]):
        pair, now, total = pairs[at], ts_ns[at], total_bytes[at]
        row, kind = sums[pair], min(kinds[at], _OTHER)
        if not row[MESSAGES]:
            row[FIRST] = row[LAST] = now
        quiet_ns = now - row[LAST]
        row[LONGEST] = max(row[LONGEST], quiet_ns)
        if quiet_ns > silence_ns:
            silences[count, 0], silences[count, 1], silences[count, 2] = pair, row[LAST], now
            count += 1
        row[LAST] = now
        row[MESSAGES] += 1
        row[BYTES] += total
        if kind in _GOSSIP_TYPES:
            row[GOSSIP] += max(0, total - _HEADER_BYTES)
        types[pair, kind, 0] += 1
        types[pair, kind, 1] += total
    return count
