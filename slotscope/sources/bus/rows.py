"""Captures as rows, one after the other, without Spark: what `lab bus-dump` shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_capture import BusCapture, Row
from cluster_core.formats.capture.packet import CaptureProblem
from slotscope.sources.bus.capture_points import PointClocks
from slotscope.sources.bus.files import CaptureFile, bundles, find_captures, read_lines, read_packets, survey


def read_rows(patterns: Sequence[str], clocks: PointClocks) -> Iterator[tuple[str, Row]]:
    """The rows of a series of captures and files of JSON lines with the file that each ended in.

    What is found of the clocks of several points is noted in *clocks*.  Raises DecodeError for files that are not there;
    damage in a file is a row (`CaptureProblem`).
    """
    capture = BusCapture()
    name = ""
    for bundle in bundles(survey(find_captures(patterns))):
        name = " + ".join(file.path for file in bundle)
        for row in _lines(bundle[0]) if bundle[0].is_json else _packets(bundle, capture, clocks):
            yield name, row
    for row in capture.finish():
        yield name, row


def _lines(file: CaptureFile) -> Iterator[Row]:
    for row in read_lines(file):
        yield CaptureProblem(row.offset, row.reason) if isinstance(row, DecodeError) else row


def _packets(bundle: Sequence[CaptureFile], capture: BusCapture, clocks: PointClocks) -> Iterator[Row]:
    for _, packet in read_packets(bundle, clocks):
        yield from [packet] if isinstance(packet, CaptureProblem) else capture.handle(packet)
    yield from capture.end_source()
