"""Capture files in the order of their packets: rotated files one after the other, captures of one time merged.

Files are ordered by their first packet.  Files that overlap in time, or hold the same segments, were made in
different places: their clocks are brought together (`capture_points`), their packets put in one order of time, and
reassembly drops what both have captured (it has the same sequence numbers).  Files are pcap or pcapng, plain or
compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from typing import Final

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.formats.capture.pcap import CaptureReader
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.capture_clocks import COMMON_MIN
from cluster_core.kernels.bus.containers import SegmentReader, Segments, sketch_of
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.packets import PACKETS_PER_CHUNK
from slotscope.sources.bus.capture_points import Point, PointClocks
from slotscope.sources.bus.reading import note_read
from slotscope.sources.byte_streams import ByteStream
from slotscope.sources.files import InputFile, expand, open_stream
from slotscope.sources.folder_kinds import CAPTURES

WINDOW_BYTES: Final = 8 << 20
OVERLAP_NS: Final = 1_000_000_000
"""Rotated files overlap by less: packets of several processors are out of order by microseconds."""
SHARED: Final = 0.1
"""What part of the segments of a capture must be in another one that was made at the same time under another clock."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A capture and the times between which its packets lie (0 and 0 when it has none or is alone).

    *place* is that among the files that were named, *sketch* tells whether it holds what another one holds.
    """

    path: str
    size: int
    first_ns: int = 0
    last_ns: int = 0
    place: int = 0
    sketch: tuple[int, ...] = ()


def find_captures(patterns: Sequence[str]) -> list[InputFile]:
    """The files that *patterns* name, in the order of the patterns; raises DecodeError for missing ones."""
    return list({file.path: file for pattern in patterns for file in expand([pattern], CAPTURES)}.values())


def survey(files: Sequence[InputFile], *, alone: bool = True) -> list[CaptureFile]:
    """Look at the packets' times and put the files in order; of one file that is *alone* only its kind is needed."""
    found = [_surveyed(file, place, alone=alone and len(files) == 1) for place, file in enumerate(files)]
    return sorted(found, key=lambda file: (file.first_ns, file.path))


def bundles(files: Sequence[CaptureFile]) -> list[list[CaptureFile]]:
    """Files that overlap in time or in what they hold together, in order."""
    found: list[list[CaptureFile]] = []
    end_ns = 0
    for file in files:
        if found and file.first_ns < end_ns - OVERLAP_NS:
            found[-1].append(file)
        else:
            found.append([file])
        end_ns = max(end_ns, file.last_ns)
    at = len(found) - 1
    while at > 0:
        earlier = next((i for i in range(at) if _is_shared(found[i], found[at])), at)
        if earlier < at:  # a clock that is far away: all between were made at that time, too
            found[earlier : at + 1] = [[file for part in found[earlier : at + 1] for file in part]]
        at = min(earlier, at) - (earlier == at)
    return found


def _is_shared(one: Sequence[CaptureFile], other: Sequence[CaptureFile]) -> bool:
    """Whether two captures hold so many equal segments that they are of one time, whatever their clocks say."""
    return any(
        len(marks & set(there.sketch)) >= max(COMMON_MIN, SHARED * min(len(marks), len(there.sketch)))
        for here in one
        if (marks := set(here.sketch))
        for there in other
    )


def _surveyed(file: InputFile, place: int, *, alone: bool) -> CaptureFile:
    if alone:
        return CaptureFile(file.path, file.size)
    segments = segments_of(file.path)
    low, high = (int(segments.ts_ns.min()), int(segments.ts_ns.max())) if len(segments.ts_ns) else (0, 0)
    return CaptureFile(file.path, file.size, low, high, place, sketch_of(segments))


def _segments(pieces: Iterator[memoryview]) -> Segments:
    """The TCP segments of a capture, up to where it is damaged."""
    reader = SegmentReader()
    try:
        for piece in pieces:
            for _ in reader.feed(piece):
                pass
    except DecodeError:
        pass  # reading it will tell again
    return reader.segments()


def segments_of(path: str) -> Segments:
    """The TCP segments of a capture file, up to where it is damaged or cannot be opened."""
    return _segments(_pieces(path))


def clocks_of(bundle: Sequence[CaptureFile], clocks: PointClocks) -> dict[str, int]:
    """How far the clock of each file of a bundle is ahead."""
    if len(bundle) == 1:
        return {bundle[0].path: clocks.of_alone(bundle[0].path)}
    return clocks.align([Point(file.path, file.place, segments_of(file.path)) for file in bundle])


def _batches(path: str, decoder: BusDecoder) -> Iterator[BusBatch]:
    """The batches of one file, read where the decoder wants its bytes; raises DecodeError where it is damaged."""
    stream = open_stream(path)
    try:
        while True:
            count, damage = _filled(stream, decoder.room())
            note_read(path, stream)
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


def _pieces(path: str, window_bytes: int = WINDOW_BYTES, *, is_noted: bool = False) -> Iterator[memoryview]:
    """The plain bytes of a file in windows, each good until the next; raises DecodeError where it is damaged.

    *is_noted* as in `_batches`.
    """
    stream = open_stream(path)
    try:
        room = memoryview(bytearray(window_bytes))
        while True:
            filled, damage = _filled(stream, room)
            if is_noted:
                note_read(path, stream)
            if filled:
                yield room[:filled]
            if damage is not None:
                raise damage
            if filled < window_bytes:
                return
    finally:
        stream.close()


def read_bundle(
    bundle: Sequence[CaptureFile], decoder: BusDecoder, clocks: PointClocks
) -> Iterator[tuple[str, BusBatch]]:
    """Decode captures of one time, or one of them alone: (file, batch).  Never raises: damage is a row of a batch."""
    offsets = clocks_of(bundle, clocks)
    if len(bundle) == 1 and not offsets[bundle[0].path]:
        path = bundle[0].path
        try:
            for batch in _batches(path, decoder):
                yield path, batch
        except DecodeError as error:
            yield path, _told(decoder, CaptureProblem(error.offset, error.reason, None))
        yield path, decoder.end_source()
        return
    problems: list[tuple[str, CaptureProblem]] = []
    streams = [_packets(file.path, problems, offsets[file.path]) for file in bundle]
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


def _told(decoder: BusDecoder, problem: CaptureProblem) -> BusBatch:
    batch = decoder.empty()
    batch.rows.append(problem)
    return batch


def _packets(path: str, problems: list[tuple[str, CaptureProblem]], ahead_ns: int) -> Iterator[Packet]:
    """The packets of a file at corrected times."""
    reader = CaptureReader()
    try:
        for piece in _pieces(path, is_noted=True):
            found = reader.feed(bytes(piece))
            packets = [item for item in found if isinstance(item, Packet)]
            problems += [(path, item) for item in found if not isinstance(item, Packet)]
            if ahead_ns:
                packets = [replace(packet, ts_ns=packet.ts_ns - ahead_ns) for packet in packets]
            yield from packets
        problems.extend((path, problem) for problem in reader.finish())
    except DecodeError as error:
        problems.append((path, CaptureProblem(error.offset, error.reason, None)))
