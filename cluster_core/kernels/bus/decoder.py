"""Captures to columns of bus messages.

How this works. A chunk of the file goes through four kernels: records of the container (`containers`), TCP segments, messages in
order, columns. What the third one only lists (holes, overlaps, lost step, cut packets) is followed by the plain
`TcpStream` and `BusFramer`, and the messages that come of it are put back in order of packets before the fourth
kernel sees them. So the two readers agree by construction wherever anything is unusual. A chunk lies in the cache of a
core, a batch has the messages of many. Memory is bounded by a batch, the directions under way and what they gather.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import STREAMS_MAX, Row, SkippedPackets
from cluster_core.formats.capture.link_layers import SKIP_REASONS
from cluster_core.formats.capture.packet import Packet
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.containers import ContainerReader
from cluster_core.kernels.bus.follower import BusFollower
from cluster_core.kernels.bus.packets import PACKETS_PER_CHUNK, SEGMENT, new_rows, view_segments

RECORDS_PER_STEP = 1 << 12
"""Packets in memory are followed so many at a time: their bytes lie in the cache for those who decode them."""
_SCRATCH = ("_records", "_segments", "_window", "_reasons")


class BusDecoder(ContainerReader[BusBatch]):
    """Feed it the (decompressed) files of a series, in pieces; it yields batches in order.

    `end_source` ends a file, `finish` the series.  Never raises on any input; the rows of problems are in the batches.
    *keep_packed*: the batches hold the messages' bytes, too.

    It can be saved between two files (`cluster_core.replay.saving`).
    """

    def __init__(self, *, streams_max: int = STREAMS_MAX, keep_packed: bool = False) -> None:
        super().__init__()
        self._follower = BusFollower(streams_max, keep_packed=keep_packed)
        self._packets = 0
        self._skipped: dict[int, list[int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _SCRATCH}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out()

    def _lay_out(self) -> None:
        super()._lay_out()
        self._segments = new_rows(SEGMENT, PACKETS_PER_CHUNK)
        self._reasons = self._segments.view(np.ndarray)["reason"]

    @property
    def repeated_bytes(self) -> int:
        """Payload bytes that came more than once, in directions that have ended."""
        return self._follower.repeated_bytes

    def take_packets(self, packets: list[Packet]) -> Iterator[BusBatch]:
        """Follow packets that somebody else has read (captures of several places, in one order of time)."""
        yield from self._take_packets(packets)
        yield from self._rest()

    def take_records(self, data: NDArray[np.uint8], records: NDArray[np.void]) -> Iterator[BusBatch]:
        """Follow packets whose *records* (`RECORD`) say where in *data* they are."""
        for start in range(0, len(records), RECORDS_PER_STEP):
            part = records[start : start + RECORDS_PER_STEP]
            self._records.view(np.ndarray)[: len(part)] = part
            yield from self._follow(data, len(part))
        yield from self._rest()

    def end_packets(self) -> BusBatch:
        """The captures behind `take_packets` end: tell what was skipped in them."""
        batch = self.empty()
        self._tell_skipped(batch)
        return batch

    def empty(self) -> BusBatch:
        """A batch without messages, for rows of others, unless something was put off."""
        return self._follower.batch()

    def end_source(self) -> BusBatch:
        """The current file ends: a batch without messages that tells what was skipped in it and what is wrong."""
        batch = self.empty()
        batch.rows.extend(self._end())
        self._tell_skipped(batch)
        return batch

    def finish(self) -> BusBatch:
        """The series ends: what every direction still held."""
        return self._follower.finish()

    def _tell_skipped(self, batch: BusBatch) -> None:
        for reason, counts in sorted(self._skipped.items()):
            batch.rows.append(SkippedPackets(SKIP_REASONS[reason], *counts))
        self._skipped = {}

    def _rest(self) -> Iterator[BusBatch]:
        yield from self._follower.rest()

    def _told(self, row: Row) -> Iterator[BusBatch]:
        yield from self._rest()
        batch = self.empty()
        batch.rows.append(row)
        yield batch

    def _follow(self, data: NDArray[np.uint8], count: int) -> Iterator[BusBatch]:
        if not count:
            return
        yield from self._follower.reserve_addresses(count)
        view_segments(data, self._records, count, self._follower.addresses, self._segments)
        self._count_skipped(count)
        base = self._packets
        self._packets += count
        yield from self._follower.follow(data, self._records, self._segments, count, base)

    def _count_skipped(self, count: int) -> None:
        reasons = self._reasons[:count]
        if not reasons.any():
            return
        for reason in np.unique(reasons[reasons > 0]).tolist():
            at = np.flatnonzero(reasons == reason)
            counts = self._skipped.setdefault(reason, [0, 0, int(self._records.offset[at[0]])])
            counts[0] += len(at)
            counts[1] += int(self._records.captured[at].sum())
