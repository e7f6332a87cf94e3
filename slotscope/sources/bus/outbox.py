"""Evidence on its way out: rows for each process, handed out as blobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cluster_core.replay.dispatch import PROCESSES_MAX
from cluster_core.replay.evidence import Endpoint
from slotscope.sources.bus.blobs import Row, pack_rows


class Outbox:
    """Gathers rows; *processes* are those that had one, and grow up to `PROCESSES_MAX`."""

    def __init__(self, processes: dict[Endpoint, None]) -> None:
        self.size_bytes = 0
        self._processes = processes
        self._pending: dict[Endpoint, list[Row]] = {}
        self._blobs = 0

    def put(self, process: Endpoint, row: Row) -> None:
        """Add a row for *process*; none where there are too many processes."""
        if process not in self._processes:
            if len(self._processes) >= PROCESSES_MAX:
                return
            self._processes[process] = None
        self._pending.setdefault(process, []).append(row)
        self.size_bytes += len(row[-1])

    def flush(self, bitmaps: Sequence[bytes]) -> Iterator[tuple[str, int, bytes]]:
        """Hand out all of it: the process as text, the number of the blob, the blob; *bitmaps* holds the content of every bitmap number."""
        for process, rows in self._pending.items():
            self._blobs += 1
            yield f"{process.ip}|{process.port}", self._blobs, pack_rows(rows, bitmaps)
        self._pending, self.size_bytes = {}, 0
