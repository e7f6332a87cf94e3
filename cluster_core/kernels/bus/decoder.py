"""Decode packets of captures to columns of bus messages.

Three kernels: TCP segments, messages in order, columns. The second one lists holes, overlaps, lost step and cut packets
for the plain `TcpStream` and `BusFramer`, and their messages are merged in packet order. Memory is bounded by a batch, the
open directions and their incomplete messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import STREAMS_MAX, SkippedPackets
from cluster_core.formats.capture.link_layers import SKIP_REASONS
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.follower import BusFollower
from cluster_core.kernels.bus.packets import PACKETS_PER_CHUNK, RECORD, SEGMENT, new_rows, rows_to_fill, view_segments

_SCRATCH = ("_records", "_segments", "_reasons")


class BusDecoder:
    """Decodes the packets of a series in order into batches; problems are rows of the batches, never exceptions.

    *keep_packed*: keep the messages' bytes. The state can be saved between two files (`cluster_core.replay.saving`).
    """

    def __init__(self, *, streams_max: int = STREAMS_MAX, keep_packed: bool = False) -> None:
        self._lay_out()
        self._follower = BusFollower(streams_max, keep_packed=keep_packed)
        self._packets = 0
        self._skipped: dict[int, list[int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _SCRATCH}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out()

    def _lay_out(self) -> None:
        self._records = rows_to_fill(RECORD, PACKETS_PER_CHUNK)
        self._segments = new_rows(SEGMENT, PACKETS_PER_CHUNK)
        self._reasons = self._segments.view(np.ndarray)["reason"]

    @property
    def repeated_bytes(self) -> int:
        """Return the duplicated payload bytes of ended directions."""
        return self._follower.repeated_bytes

    def take_records(self, data: NDArray[np.uint8], records: NDArray[np.void]) -> Iterator[BusBatch]:
        """Follow packets at the positions *records* (`RECORD`) of *data*."""
        for start in range(0, len(records), PACKETS_PER_CHUNK):
            part = records[start : start + PACKETS_PER_CHUNK]
            self._records.view(np.ndarray)[: len(part)] = part
            yield from self._follow(data, len(part))

    def rest(self) -> Iterator[BusBatch]:
        """Yield deferred messages."""
        yield from self._follower.rest()

    def end_packets(self) -> BusBatch:
        """End the captures: report skipped packets."""
        batch = self.empty()
        for reason, counts in sorted(self._skipped.items()):
            batch.rows.append(SkippedPackets(SKIP_REASONS[reason], *counts))
        self._skipped = {}
        return batch

    def empty(self) -> BusBatch:
        """Return a batch without messages, for other rows, unless messages are deferred."""
        return self._follower.batch()

    def finish(self) -> BusBatch:
        """End the series: return the remaining content of all directions."""
        return self._follower.finish()

    def _follow(self, data: NDArray[np.uint8], count: int) -> Iterator[BusBatch]:
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
