"""Captures as rows, one after the other, without Spark: what ``bus-dump`` shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_capture import BusCapture, Row, merge_packets
from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.formats.capture.reader import CaptureReader
from jobs.sources.bus_files import CaptureFile, bundles, find_captures, read_lines, survey
from jobs.sources.files import open_stream

_WINDOW_BYTES: Final = 1 << 20


def read_rows(patterns: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """The rows of a series of captures and files of JSON lines with the file that each ended in.

    Raises DecodeError for files that are not there; damage in a file is a row (`CaptureProblem`).
    """
    capture = BusCapture()
    name = ""
    for bundle in bundles(survey(find_captures(patterns))):
        name = " + ".join(file.path for file in bundle)
        for row in _lines(bundle[0]) if bundle[0].is_json else _packets(bundle, capture):
            yield name, row
    for row in capture.finish():
        yield name, row


def _lines(file: CaptureFile) -> Iterator[Row]:
    for row in read_lines(file):
        yield CaptureProblem(row.offset, row.reason) if isinstance(row, DecodeError) else row


def _packets(bundle: Sequence[CaptureFile], capture: BusCapture) -> Iterator[Row]:
    problems: list[CaptureProblem] = []
    for packet in merge_packets([_packets_of(file.path, problems) for file in bundle]):
        if problems:
            yield from problems
            problems.clear()
        yield from capture.handle(packet)
    yield from problems
    yield from capture.end_source()


def _packets_of(path: str, problems: list[CaptureProblem]) -> Iterator[Packet]:
    """The packets of one file; what is wrong with it goes to *problems*."""
    reader = CaptureReader()
    try:
        stream = open_stream(path)
        try:
            room = memoryview(bytearray(_WINDOW_BYTES))
            while count := stream.readinto(room):
                for item in reader.feed(bytes(room[:count])):
                    if isinstance(item, Packet):
                        yield item
                    else:
                        problems.append(item)
        finally:
            stream.close()
    except DecodeError as error:
        problems.append(CaptureProblem(error.offset, error.reason))
    problems.extend(reader.finish())
