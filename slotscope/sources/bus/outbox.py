"""Evidence on its way out: rows for each process, handed out as blobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import INITIATOR
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.known_links import Passing
from cluster_core.replay.dispatch import PROCESSES_MAX, Delivery
from cluster_core.replay.evidence import Endpoint
from slotscope.sources.bus.blobs import MESSAGE, OUTBOUND, SENT, EvidenceColumns, code_of, joined, pack_columns


class Outbox:
    """Gathers evidence; *processes* are those that had some, and grow up to `PROCESSES_MAX`."""

    def __init__(self, processes: dict[Endpoint, None]) -> None:
        self.size_bytes = 0
        self._processes = processes
        self._numbers: dict[Endpoint, int] = {}
        self._ends: list[Endpoint] = []
        self._single: list[Delivery] = []
        self._parts: list[EvidenceColumns] = []
        self._blobs = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not (self._single or self._parts)

    def number_of(self, end: Endpoint) -> int:
        """The number of a process or another address."""
        number = self._numbers.setdefault(end, len(self._ends))
        if number == len(self._ends):
            self._ends.append(end)
        return number

    def put(self, delivery: Delivery) -> None:
        """Add a piece of evidence; none where there are too many processes."""
        if self._admits(delivery.process):
            self._single.append(delivery)
            self.size_bytes += len(delivery.packed)

    def put_passing(
        self, batch: BusBatch, first_id: int, bitmaps: NDArray[np.int64], first_number: int, passed: Passing
    ) -> None:
        """Add messages of a batch that passed, numbered from *first_number* on, for the processes at both ends."""
        self._gather_single()
        rows, messages = passed.rows, batch.messages.view(np.ndarray)
        processes = np.stack((passed.opener, passed.acceptor), 1).ravel()
        by_opener = messages["direction"][rows] == INITIATOR
        numbers = np.arange(first_number, first_number + len(rows))
        flags = np.stack((OUTBOUND + SENT * by_opener, SENT * ~by_opener), 1).ravel().astype(np.uint8)
        stop = batch.packed_ends[rows]
        start = np.where(rows > 0, batch.packed_ends[rows - 1], 0)
        columns = numbers, passed.ts_ns, rows + first_id, messages["connection"][rows], bitmaps[rows], start, stop
        number, ts_ns, ref, connection, bitmap, start, stop = (np.repeat(column, 2) for column in columns)
        peers = np.stack((passed.acceptor, passed.opener_end), 1).ravel()
        kinds = np.full(len(processes), MESSAGE, np.uint8)
        part = EvidenceColumns(
            processes, kinds, number, ts_ns, ref, connection, flags, peers, bitmap, start, stop, batch.packed
        )
        refused = [number for number in np.unique(processes).tolist() if not self._admits(self._ends[number])]
        if refused:
            part = part.part(np.flatnonzero(~np.isin(processes, refused)))
        self._parts.append(part)
        self.size_bytes += int((part.stop - part.start).sum())

    def flush(self, bitmaps: Sequence[bytes]) -> Iterator[tuple[str, int, bytes]]:
        """Hand out all of it: the process as text, the number of the blob, the blob; *bitmaps* holds the content of every bitmap number.

        The outbox is empty at once; a thread may go through what is handed out while it fills again.
        """
        self._gather_single()
        parts, self._parts, self.size_bytes = self._parts, [], 0
        first, self._blobs = self._blobs, self._blobs + len(self._ends)
        return _blobs_of(parts, self._ends, bitmaps, first)

    def _admits(self, process: Endpoint) -> bool:
        if process not in self._processes:
            if len(self._processes) >= PROCESSES_MAX:
                return False
            self._processes[process] = None
        return True

    def _gather_single(self) -> None:
        items, self._single = self._single, []
        if not items:
            return
        stops = np.cumsum([len(item.packed) for item in items])
        columns = (
            ([self.number_of(item.process) for item in items], np.int32),
            ([code_of(item.kind) for item in items], np.uint8),
            ([item.number for item in items], np.int64),
            ([item.ts_ns for item in items], np.int64),
            ([item.ref for item in items], np.int64),
            ([item.connection for item in items], np.int64),
            ([item.outbound * OUTBOUND + item.sent * SENT for item in items], np.uint8),
            ([self.number_of(item.peer) for item in items], np.int32),
            ([item.bitmap for item in items], np.int64),
        )
        data = np.frombuffer(b"".join(item.packed for item in items), np.uint8)
        arrays = [np.array(values, kind) for values, kind in columns]
        self._parts.append(EvidenceColumns._make([*arrays, np.concatenate(([0], stops[:-1])), stops, data]))


def _blobs_of(
    parts: list[EvidenceColumns], ends: Sequence[Endpoint], bitmaps: Sequence[bytes], first: int
) -> Iterator[tuple[str, int, bytes]]:
    if not parts:
        return
    evidence = joined(parts)
    evidence = evidence.part(np.argsort(evidence.process, kind="stable"))
    edges = np.flatnonzero(np.diff(evidence.process)) + 1
    for number, (begin, end) in enumerate(pairwise([0, *edges.tolist(), len(evidence.process)]), first + 1):
        process = ends[evidence.process[begin]]
        yield f"{process.ip}|{process.port}", number, pack_columns(evidence.part(slice(begin, end)), ends, bitmaps)
