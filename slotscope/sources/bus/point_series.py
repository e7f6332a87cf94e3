"""Captures of many points in one certain order of time: from files to packets.

Files that a user names are complete and final.  Each point of a landing finishes its files at its own times.  The watermark is the time up to which every known point has delivered its files,
or the newest recorded time minus the *lateness* if that is later (`SeriesState.reach`).  Packets up to the watermark are final.  Later ones are kept,
in memory and compressed in the state, and their rows are replaced by the next run.  A packet that arrives below the watermark is late: it is counted
and left out.  The order is a function of the files (`cluster_core.kernels.bus.packet_order`), so the number of runs changes no row.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_rows import Row
from cluster_core.formats.capture.pcap import CaptureProblem
from cluster_core.formats.landing import Kind
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.containers import PacketReader
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.packet_order import NO_PACKETS, Packets, ReusedBuffer, merged, placed, unpacked, with_file
from slotscope.runtime.priority import step_back
from slotscope.sources.bus.files import READERS, PointFile, RecordedInput
from slotscope.sources.byte_streams import FileStream
from slotscope.sources.files import exists, open_stream

LATENESS_NS: Final = 45_000_000_000
"""Time after the newest recorded moment in which files of earlier times may arrive: longer than their rotation and transfer."""
BUFFERED_BYTES: Final = 64 << 20
WINDOW_BYTES_MIN, WINDOW_BYTES_MAX = 1 << 18, 8 << 20
"""Least and most bytes that are read of one file at a time."""
SPLICE_NS: Final = 1_000_000_000
"""Longest pause between two consecutive files of a point; a longer one means that a file is still to come."""
MARGIN_NS: Final = {Kind.BUS: 1_000_000, Kind.POLLS: 5_000_000_000}
"""How much before the end of a point's files its packets and polls may be that its next file holds."""
SILENT_NS: Final = 600_000_000_000
"""A point without files for longer no longer holds the watermark back."""
SOURCES_KEPT: Final = 10_000
"""Names of files that a message that ends later may still belong to."""
_LAST: Final = (1 << 63) - 1
LATE: Final = "late"
GONE: Final = "gone"
CLOCK: Final = "clock"
"""Reasons to leave out parts of a file: it came after its time was settled; it was removed before it was read; the
error of its clock is unknown."""


class LateFile(NamedTuple):
    """A file with *left_out* packets or lines; *taken* were read; times up to *watermark_ns* were settled when it came."""

    path: str
    reason: str
    left_out: int
    taken: int
    watermark_ns: int


@dataclass(slots=True)
class SeriesState:
    """State kept from run to run: the watermark, the newest recorded time, waiting packets, files by number, and the arrived times of
    each point.
    """

    watermark_ns: int = 0
    newest_ns: int = 0
    waiting: list[bytes] = field(default_factory=list)
    sources: dict[int, str] = field(default_factory=dict)
    count: int = 0
    first_ns: int = 0
    arrived: dict[tuple[str, Kind], list[tuple[int, int]]] = field(default_factory=dict)
    """Start and end of the files of each point and kind, joined where they are consecutive, from the watermark on."""

    def kept(self) -> tuple[Any, ...]:
        """As plain values."""
        sources = dict(list(self.sources.items())[-SOURCES_KEPT:])
        return self.watermark_ns, self.newest_ns, self.waiting, sources, self.count, self.first_ns, self.arrived

    def reach(self, files: Iterable[RecordedInput], ahead_ns: dict[str, int], newest_ns: int, lateness_ns: int) -> None:
        """Raise the watermark for the new *files* of all kinds; the clocks of points are *ahead_ns*.

        Points are known when the landing is older than the lateness.  Logs arrive at any time, so with them, and while a clock
        is unknown, only the lateness counts.
        """
        self.newest_ns = max(self.newest_ns, newest_ns)
        settled_ns = self.newest_ns - lateness_ns
        can_lead = True
        for file in files:
            kind, named = file.place.kind, file.place.file
            behind_ns = ahead_ns.get(file.series, 0)
            span = named.from_ns - behind_ns, (named.to_ns or named.from_ns) - behind_ns
            self.first_ns = min(self.first_ns or span[0], span[0])
            if kind in MARGIN_NS or kind is Kind.LOGS:
                self.arrived.setdefault((file.series, kind), []).append(span)
        complete_ns, least_ns = self.newest_ns, max(self.watermark_ns, settled_ns)
        for (series, kind), spans in list(self.arrived.items()):
            joined = _joined(spans, least_ns)
            if joined[-1][1] < self.newest_ns - SILENT_NS:
                del self.arrived[series, kind]
                continue
            self.arrived[series, kind] = joined
            can_lead = can_lead and (kind is Kind.POLLS or (kind is Kind.BUS and series in ahead_ns))
            start_ns, end_ns = joined[0]
            complete_ns = min(complete_ns, end_ns - MARGIN_NS.get(kind, 0) if start_ns <= least_ns + SPLICE_NS else 0)
        if can_lead and settled_ns >= self.first_ns:
            settled_ns = max(settled_ns, complete_ns)
        self.watermark_ns = max(self.watermark_ns, settled_ns)


def _joined(spans: Iterable[tuple[int, int]], least_ns: int) -> list[tuple[int, int]]:
    """*spans* in order, those without a pause as one; of those that end before *least_ns* at most the last."""
    spans_joined: list[tuple[int, int]] = []
    for start_ns, end_ns in sorted(spans):
        if spans_joined and start_ns <= spans_joined[-1][1] + SPLICE_NS:
            spans_joined[-1] = spans_joined[-1][0], max(spans_joined[-1][1], end_ns)
        elif spans_joined and spans_joined[-1][1] < least_ns:
            spans_joined[-1] = start_ns, end_ns
        else:
            spans_joined.append((start_ns, end_ns))
    return spans_joined


class _Stream:
    """One file that is being read."""

    def __init__(self, file: PointFile, number: int, reader: PacketReader, watermark_ns: int) -> None:
        self.file, self.number = file, number
        self.late = self.taken = 0
        self.is_gone = self.is_over = False
        self._reader = reader
        self._watermark_ns = watermark_ns
        self._stream: FileStream | None = None
        self._buffered: list[Packets] = []

    @property
    def problems(self) -> list[CaptureProblem]:
        """Problems of the file."""
        return self._reader.problems

    @property
    def known_until_ns(self) -> int:
        """Turn up to which all packets were read."""
        if self.is_over:
            return _LAST
        return self._reader.turn_ns + (self._bytes() > BUFFERED_BYTES)

    @property
    def last_ns(self) -> int:
        """Turn of the last buffered packet, 0 for none."""
        return int(self._buffered[-1].turns_ns[-1]) if self._buffered else 0

    @property
    def is_empty(self) -> bool:
        """Whether the file was read to its end and all packets were taken."""
        return self.is_over and not self._buffered

    def is_ready(self, window_bytes: int) -> bool:
        """Whether most of a window, or the rest of the file, is buffered."""
        if self.is_over:
            return True
        return 4 * self._bytes() >= 3 * window_bytes and bool(self._buffered[0].turns_ns[0] < self.known_until_ns)

    def fill(self, window_bytes: int) -> None:
        """Read a window more."""
        for read in self._read(window_bytes):
            late = int(np.searchsorted(read.turns_ns, self._watermark_ns, "right"))
            self.late, self.taken = self.late + late, self.taken + len(read) - late
            if len(read) > late:
                self._buffered.append(read.stretch(late, len(read)))

    def take(self, before_ns: int) -> list[Packets]:
        """The packets that have their turn before that time."""
        ready, rest = [], []
        for part in self._buffered:
            at = int(np.searchsorted(part.turns_ns, before_ns, "left"))
            ready.append(part.stretch(0, at))
            if at < len(part):
                rest.append(part.stretch(at, len(part)))
        self._buffered = rest
        return ready

    def _bytes(self) -> int:
        return sum(len(part.data) for part in self._buffered)

    def _read(self, window_bytes: int) -> Iterator[Packets]:
        """The packets of a window; nothing more comes after the last one."""
        count = 0
        try:
            if self._stream is None:
                self._stream = open_stream(self.file.path)
            count = self._stream.readinto(self._reader.room(window_bytes))
        except DecodeError as error:
            if self._stream is None and not exists(self.file.path):
                self.is_gone = True
            else:
                self.problems.append(CaptureProblem(error.offset, error.reason, None))
        if count:
            yield from self._reader.take(count)
        else:
            self._end()

    def note(self, meter: Meter) -> None:
        """Say how much of the file was read."""
        if self._stream is not None and not self.is_over:
            meter.note(self.file.path, self._stream)

    def _end(self) -> None:
        self.is_over = True
        if not self.is_gone:
            self._reader.end_source()
        if self._stream is not None:
            self._stream.close()


class PointSeries:
    """The captures of one run; *ahead_ns* is the lead of each series' clock.

    In a landing, with *turns* at the watermark of the run, packets up to *before_ns* were final before.
    *meter* is the file of a `Meter`.
    """

    def __init__(
        self,
        files: Sequence[PointFile],
        turns: SeriesState,
        ahead_ns: dict[str, int],
        before_ns: int | None = None,
        meter: str = "",
    ) -> None:
        self.turns = turns
        self._meter = Meter(meter)
        self.late: list[LateFile] = []
        self.before_ns, self._final_ns = -1, _LAST
        if before_ns is not None:
            self.before_ns, self._final_ns = before_ns, turns.watermark_ns
        self._problems: list[Row] = []
        self._ahead_ns = ahead_ns
        self._files = sorted(files, key=lambda file: (self._from_ns(file), file.series, file.path))

    def place(self, offset: int) -> tuple[str, int]:
        """The file and the offset in it."""
        number, at = placed(offset)
        return self.turns.sources.get(number, ""), at

    def settled(self, decoder: BusDecoder) -> Iterator[BusBatch]:
        """Yield the messages of settled packets and the problems of files; later packets wait."""
        turns = self.turns
        waiting, room = list[bytes](), ReusedBuffer()
        for packets in self._in_turn():
            yield from self._wrong(decoder)
            at = int(np.searchsorted(packets.turns_ns, self._final_ns, "right"))
            yield from decoder.take_records(packets.data, packets.records[:at])
            if at < len(packets):
                waiting.append(packets.part(at, len(packets)).packed(room))
        yield from self._wrong(decoder)
        yield from decoder.rest()
        turns.waiting = waiting

    def all_of(self, decoder: BusDecoder) -> Iterator[BusBatch]:
        """Everything of files that are final."""
        yield from self.settled(decoder)
        yield decoder.end_packets()
        yield decoder.finish()

    def provisional(self, decoder: BusDecoder) -> Iterator[BusBatch]:
        """Yield the messages of waiting packets."""
        for blob in self.turns.waiting:
            packets = unpacked(blob)
            yield from decoder.take_records(packets.data, packets.records)
        yield from decoder.rest()

    def _wrong(self, decoder: BusDecoder) -> Iterator[BusBatch]:
        if self._problems:
            batch = decoder.empty()
            batch.rows, self._problems = self._problems, []
            yield batch

    def _in_turn(self) -> Iterator[Packets]:
        """All packets in the order of their turns; those of equal turns come together.  Threads read on while these are used."""
        with ThreadPoolExecutor(READERS, "captures", step_back) as readers:
            yield from self._merged(readers)

    def _merged(self, readers: ThreadPoolExecutor) -> Iterator[Packets]:
        unopened = deque(self._files)
        blobs = deque(self.turns.waiting)
        held, room = NO_PACKETS, ReusedBuffer()
        streams: list[_Stream] = []
        while unopened or streams or blobs or len(held):
            if not len(held) and blobs:
                held = unpacked(blobs.popleft())
            window = max(WINDOW_BYTES_MIN, min(WINDOW_BYTES_MAX, BUFFERED_BYTES // max(len(streams), 1)))
            _wait(_filled(streams, window, readers))
            limit_ns = min((stream.known_until_ns for stream in streams), default=_LAST)
            if limit_ns == _LAST and unopened:
                limit_ns = max(self._from_ns(unopened[0]), *(stream.last_ns for stream in streams), 0)
            if len(held):
                limit_ns = min(limit_ns, int(held.turns_ns[-1]) + 1)
            fresh = len(streams)
            while unopened and self._from_ns(unopened[0]) <= limit_ns:
                streams.append(self._opened(unopened.popleft()))
            if len(streams) > fresh:
                continue
            at = int(np.searchsorted(held.turns_ns, limit_ns, "left"))
            parts = [held.stretch(0, at), *(part for stream in streams for part in stream.take(limit_ns))]
            held = held.stretch(at, len(held))
            ahead = _filled(streams, window, readers)
            if len(streams) == 1 and self._final_ns == _LAST:  # in their order as they are
                yield from filter(len, parts)
            else:
                yield merged(parts, room)
            _wait(ahead)
            for stream in streams:
                stream.note(self._meter)
            for stream in [stream for stream in streams if stream.is_empty]:
                streams.remove(stream)
                self._tell(stream)

    def _opened(self, file: PointFile) -> _Stream:
        turns = self.turns
        number, turns.count = turns.count, turns.count + 1
        turns.sources[number] = file.path
        rank = int.from_bytes(hashlib.blake2b(file.name.encode("utf-8", "surrogateescape"), digest_size=7).digest())
        reader = PacketReader(number, rank, ahead_ns=self._ahead_ns.get(file.series, 0), from_ns=self._from_ns(file))
        return _Stream(file, number, reader, self.before_ns)

    def _tell(self, stream: _Stream) -> None:
        """Yield the problems of a file that was read."""
        for problem in stream.problems:
            self._problems.append(replace(problem, offset=with_file(stream.number, problem.offset)))
        if stream.is_gone:
            self.late.append(LateFile(stream.file.path, GONE, 0, 0, self.before_ns))
        elif stream.late:
            self.late.append(LateFile(stream.file.path, LATE, stream.late, stream.taken, self.before_ns))

    def _from_ns(self, file: PointFile) -> int:
        return file.from_ns - self._ahead_ns.get(file.series, 0)


def _filled(streams: Iterable[_Stream], window: int, readers: ThreadPoolExecutor) -> list[Future[None]]:
    """Begin to read on in those that are not ready."""
    return [readers.submit(stream.fill, window) for stream in streams if not stream.is_ready(window)]


def _wait(tasks: Iterable[Future[None]]) -> None:
    """Wait for all *tasks*; raises the first error of a task."""
    for task in list(tasks):
        task.result()


NOTE_S: Final = 0.5
"""How often it is written down."""
_WIDTH: Final = 20
"""Digits of a count: each takes the place of the one before in one write."""


class Meter:
    """Counts the bytes of files as they are stored, into the file *path* if there is one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read: dict[str, int] = {}
        self._noted_s = 0.0

    def note(self, source: str, stream: FileStream) -> None:
        """Note how far *stream* has read in the file *source*."""
        if not self._path:
            return
        self._read[source] = stream.stored_bytes()
        if time.monotonic() - self._noted_s > NOTE_S:
            self._noted_s = time.monotonic()
            with suppress(OSError):  # the driver has all it wanted, and the file is gone
                file = os.open(self._path, os.O_WRONLY)
                os.pwrite(file, f"{sum(self._read.values()):{_WIDTH}}".encode(), 0)
                os.close(file)


class ReplayProgress:
    """A replay of *size_bytes* as its driver sees it; *path* is the file for its task, empty where that runs elsewhere."""

    def __init__(self, size_bytes: int, *, is_here: bool) -> None:
        self._size_bytes = size_bytes
        self.path = ""
        self._is_here = is_here and size_bytes > 0

    def __enter__(self) -> ReplayProgress:
        if self._is_here:
            file, self.path = tempfile.mkstemp(prefix="slotscope-read-")
            os.close(file)
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def share(self) -> float:
        """Part that was read, from 0 to 1; 0 if unknown."""
        try:
            return min(int(Path(self.path).read_bytes()) / self._size_bytes, 1.0)
        except (OSError, ValueError):
            return 0.0
