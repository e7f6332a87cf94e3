"""A capture file of either container, told apart by its first bytes."""

from __future__ import annotations

from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.formats.capture.pcap import MAGICS, PcapReader
from cluster_core.formats.capture.pcapng import MAGIC, PcapngReader

_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"BZ": "bzip2", b"\xfd7": "xz"}


class CaptureReader:
    """Feed it a (decompressed) pcap or pcapng file in pieces of any size; it returns packets and problems.

    Never raises on any input; nothing but the packet under way is kept.
    """

    def __init__(self) -> None:
        self._start = b""
        self._reader: PcapReader | PcapngReader | None = None
        self._stopped = False
        self._skipped = 0

    def feed(self, data: bytes) -> list[Packet | CaptureProblem]:
        """Add the next bytes of the file and return the packets that they complete."""
        if self._reader is not None:
            return self._reader.feed(data)
        self._skipped += len(data)
        if self._stopped:
            return []
        self._start += data
        if len(self._start) < len(MAGIC):
            return []
        return self._choose(self._start)

    def finish(self) -> list[CaptureProblem]:
        """The file ends: return what is wrong with its end, or with the whole file."""
        if self._reader is not None:
            return self._reader.finish()
        return [CaptureProblem(0, not_a_capture(self._start), self._skipped)]

    def _choose(self, data: bytes) -> list[Packet | CaptureProblem]:
        if data[:4] in MAGICS:
            self._reader = PcapReader()
        elif data[:4] == MAGIC:
            self._reader = PcapngReader()
        else:
            self._stopped, self._start = True, data[:4]
            return []
        self._start = b""
        return self._reader.feed(data)


def not_a_capture(start: bytes) -> str:
    """Say what a file that begins with *start* is, when it is no capture."""
    if not start:
        return "the file is empty"
    packed = _COMPRESSED.get(start[:2])
    return f"a {packed} file: decompress it first" if packed else f"not a capture file (begins with {start[:4].hex()})"
