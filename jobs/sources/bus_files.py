"""Capture files in the order of their packets: rotated files one after the other, captures of one time merged.

Files are ordered by their first packet.  Files that overlap in time were made in different places: their packets are
put in one order of time, and reassembly drops what both have captured (it has the same sequence numbers).  Files are
pcap, pcapng or JSON lines (`cluster_core.formats.capture.bus_lines`), plain or compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_capture import CapturedMessage, ConnectionEvent, Row
from cluster_core.formats.capture.bus_lines import row_from_line
from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.formats.capture.reader import CaptureReader
from cluster_core.kernels.bus_batch import BusBatch
from cluster_core.kernels.bus_decoder import BusDecoder
from cluster_core.kernels.packets import PACKETS_PER_CHUNK
from jobs.sources.files import ByteStream, InputFile, expand, open_stream

WINDOW_BYTES: Final = 8 << 20
KIND_BYTES: Final = 64
"""The first bytes, which tell a capture from JSON lines."""
OVERLAP_NS: Final = 1_000_000_000
"""Rotated files overlap by less: packets of several processors are out of order by microseconds."""
LINE_BYTES_MAX: Final = 64 << 20
"""A message of JSON is far below this."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A capture and the times between which its packets lie (0 and 0 when it has none or is alone)."""

    path: str
    size: int
    is_json: bool = False
    first_ns: int = 0
    last_ns: int = 0


def find_captures(patterns: Sequence[str]) -> list[InputFile]:
    """The files that *patterns* name; raises DecodeError for missing ones."""
    return expand(list(patterns))


def survey(files: Sequence[InputFile], *, alone: bool = True) -> list[CaptureFile]:
    """Look at the packets' times and put the files in order; of one file that is *alone* only its kind is needed."""
    found = [_surveyed(file, alone=alone and len(files) == 1) for file in files]
    return sorted(found, key=lambda file: (file.first_ns, file.path))


def bundles(files: Sequence[CaptureFile]) -> list[list[CaptureFile]]:
    """Files that overlap in time together, in order; JSON lines are never merged."""
    found: list[list[CaptureFile]] = []
    end_ns = 0
    for file in files:
        mergeable = found and not file.is_json and not found[-1][0].is_json
        if mergeable and file.first_ns < end_ns - OVERLAP_NS:
            found[-1].append(file)
        else:
            found.append([file])
        end_ns = max(end_ns, file.last_ns)
    return found


def _surveyed(file: InputFile, *, alone: bool) -> CaptureFile:
    pieces = _pieces(file.path, KIND_BYTES if alone else WINDOW_BYTES)
    try:
        first = next(pieces, memoryview(b""))
        is_json = bytes(first[:KIND_BYTES]).lstrip()[:1] == b"{"
        if alone:
            return CaptureFile(file.path, file.size, is_json)
        times = _line_times(first, pieces) if is_json else _packet_times(first, pieces)
    except DecodeError:
        return CaptureFile(file.path, file.size)  # reading it will tell again, with what stands before it
    return CaptureFile(file.path, file.size, is_json, *times)


def _packet_times(first: memoryview, pieces: Iterator[memoryview]) -> tuple[int, int]:
    """The earliest and latest packet; what is damaged ends the search."""
    reader = CaptureReader()
    low = high = 0
    for piece in _chain(first, pieces):
        for item in reader.feed(bytes(piece)):
            if isinstance(item, Packet):
                low = min(low or item.ts_ns, item.ts_ns)
                high = max(high, item.ts_ns)
    return low, high


def _line_times(first: memoryview, pieces: Iterator[memoryview]) -> tuple[int, int]:
    low = high = 0
    for _, line in _lines(_chain(first, pieces), "<json>"):
        try:
            row = row_from_line(line)
        except DecodeError:
            continue
        if isinstance(row, CapturedMessage | ConnectionEvent):
            low = min(low or row.origin.ts_ns, row.origin.ts_ns)
            high = max(high, row.origin.ts_ns)
    return low, high


def _chain(first: memoryview, pieces: Iterator[memoryview]) -> Iterator[memoryview]:
    yield first
    yield from pieces


def _batches(path: str, decoder: BusDecoder) -> Iterator[BusBatch]:
    """The batches of one file, read where the decoder wants its bytes; raises DecodeError where it is damaged."""
    stream = open_stream(path)
    try:
        while True:
            count, damage = _filled(stream, decoder.room())
            yield from decoder.take(count)
            if damage is not None:
                raise damage
            if not count:
                return
    finally:
        stream.close()


def _filled(stream: ByteStream, room: memoryview) -> tuple[int, DecodeError | None]:
    """Fill *room* as far as the file goes: the bytes read, and what stopped it."""
    filled = 0
    while filled < len(room):
        try:
            count = stream.readinto(room[filled:])
        except DecodeError as error:
            return filled, error
        if not count:
            break
        filled += count
    return filled, None


def _pieces(path: str, window_bytes: int = WINDOW_BYTES) -> Iterator[memoryview]:
    """The plain bytes of a file in windows, each good until the next; raises DecodeError where it is damaged."""
    stream = open_stream(path)
    try:
        room = memoryview(bytearray(window_bytes))
        while True:
            filled, damage = _filled(stream, room)
            if filled:
                yield room[:filled]
            if damage is not None:
                raise damage
            if filled < window_bytes:
                return
    finally:
        stream.close()


def read_bundle(bundle: Sequence[CaptureFile], decoder: BusDecoder) -> Iterator[tuple[str, BusBatch]]:
    """Decode captures of one time, or one of them alone: (file, batch).  Never raises: damage is a row of a batch."""
    if len(bundle) == 1:
        path = bundle[0].path
        try:
            for batch in _batches(path, decoder):
                yield path, batch
        except DecodeError as error:
            yield path, _told(decoder, CaptureProblem(error.offset, error.reason, None))
        yield path, decoder.end_source()
        return
    problems: list[tuple[str, CaptureProblem]] = []
    streams = [_packets(file.path, problems) for file in bundle]
    path = " + ".join(file.path for file in bundle)
    chunk: list[Packet] = []
    for packet in merge(*streams, key=lambda packet: packet.ts_ns):
        chunk.append(packet)
        if len(chunk) == PACKETS_PER_CHUNK:
            for batch in decoder.take_packets(chunk):
                yield path, batch
            chunk = []
    for batch in decoder.take_packets(chunk):
        yield path, batch
    for source, problem in problems:
        yield source, _told(decoder, problem)
    yield path, decoder.end_packets()


def read_packets(bundle: Sequence[CaptureFile]) -> Iterator[tuple[str, Packet | CaptureProblem]]:
    """The packets of captures of one time in one order, and what is wrong with the files, each with its file.

    Never raises: damage is a problem.  Packets of merged files go under the names of all.
    """
    problems: list[tuple[str, CaptureProblem]] = []
    path = " + ".join(file.path for file in bundle)
    streams = [_packets(file.path, problems) for file in bundle]
    for packet in merge(*streams, key=lambda packet: packet.ts_ns) if len(streams) > 1 else streams[0]:
        yield path, packet
    yield from problems


def _told(decoder: BusDecoder, problem: CaptureProblem) -> BusBatch:
    batch = decoder.empty()
    batch.rows.append(problem)
    return batch


def _packets(path: str, problems: list[tuple[str, CaptureProblem]]) -> Iterator[Packet]:
    reader = CaptureReader()
    try:
        for piece in _pieces(path):
            for item in reader.feed(bytes(piece)):
                if isinstance(item, Packet):
                    yield item
                else:
                    problems.append((path, item))
        problems.extend((path, problem) for problem in reader.finish())
    except DecodeError as error:
        problems.append((path, CaptureProblem(error.offset, error.reason, None)))


def read_lines(file: CaptureFile) -> Iterator[Row | DecodeError]:
    """The rows of a file of JSON lines; what is none is an error whose offset is its line."""
    try:
        for line, raw in _lines(_pieces(file.path), file.path):
            if not raw.strip():
                continue
            try:
                yield row_from_line(raw, line=line, source=file.path)
            except DecodeError as error:
                yield error
    except DecodeError as error:
        yield error


def _lines(pieces: Iterator[memoryview], source: str) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every line."""
    number, rest = 0, b""
    for piece in pieces:
        *whole, rest = (rest + bytes(piece)).split(b"\n")
        for raw in whole:
            number += 1
            yield number, raw
        if len(rest) > LINE_BYTES_MAX:
            raise DecodeError(f"a line longer than {LINE_BYTES_MAX} bytes", offset=number + 1, source=source)
    if rest:
        yield number + 1, rest
