"""One run of tcpdump: its packets and its counts of dropped packets.

The process is started without a shell.  It needs CAP_NET_RAW; the recorder does not.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from fcntl import F_SETPIPE_SZ, fcntl
from typing import Final, NamedTuple

from cluster_core.formats.capture.pcap import FILE_HEADER_BYTES, CaptureProblem, CaptureReader, Packet

BUFFER_KIB: Final = 16 << 10
"""Size of the kernel's buffer for packets that the recorder has not read."""
PIPE_BYTES: Final = 1 << 20
READ_BYTES: Final = 1 << 20
SAID_CHARS_MAX: Final = 300
SAID_BYTES_MAX: Final = 1 << 16
STOP_S: Final = 5.0
_DROPPED: Final = re.compile(r"(\d{1,18}) packets? dropped by (?:kernel|interface)")
_LISTENING: Final = "listening on "
_COUNT: Final = re.compile(r"\d+ packets? ")
SNAPLEN: Final = 262_144
"""Captured bytes of a packet: all of them."""


def command_of(program: str, interface: str, ports: Iterable[int]) -> list[str]:
    """The argument list: the bus *ports* only, every packet at once, nanoseconds, to the standard output."""
    wanted = "tcp and (" + " or ".join(f"port {port}" for port in sorted(set(ports))) + ")"
    options = ["-n", "-p", "-U", "--immediate-mode", "--time-stamp-precision=nano", "-B", str(BUFFER_KIB)]
    return [program, "-i", interface, *options, "-s", str(SNAPLEN), "-w", "-", wanted]


class Packets(NamedTuple):
    """Whole packets in the format of the capture, the time of the last packet, and their number."""

    data: bytes = b""
    last_ns: int = 0
    packets: int = 0


NO_PACKETS: Final = Packets()


class Tcpdump:
    """A run of *command* (`command_of`): started by the constructor, which raises OSError; ended by `stop`."""

    def __init__(self, command: list[str]) -> None:
        self.head = b""
        """The header of the capture; empty until it is read."""
        self.is_listening = False
        self.has_ended = False
        self.dropped = 0
        """Packets that the kernel dropped, by the last count of tcpdump."""
        self.said = ""
        """The last line of its standard error that is no count."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out, self._err = self._process.stdout.fileno(), self._process.stderr.fileno()
        for pipe in (self._out, self._err):
            os.set_blocking(pipe, False)
        with suppress(OSError):  # above the limit of this user
            fcntl(self._out, F_SETPIPE_SZ, PIPE_BYTES)
        self._reader = CaptureReader()
        self._rest = bytearray()
        self._taken = 0
        self._words = bytearray()

    def read(self, wait_s: float, after_ns: int = 0) -> Packets:
        """The packets later than *after_ns* that come within *wait_s*."""
        ready = self._hear(wait_s, self._out)
        if self._out not in ready:
            return NO_PACKETS
        data = os.read(self._out, READ_BYTES)
        if not data:
            self.has_ended = True
            return NO_PACKETS
        return self._cut(data, after_ns)

    def wait_until_listening(self, wait_s: float) -> bool:
        """Whether it listens, or has ended, within *wait_s*; packets stay in the pipe."""
        if self._err < 0:
            self.has_ended = True
        elif not self.is_listening:
            self._hear(wait_s)
        return self.is_listening or self.has_ended

    def _hear(self, wait_s: float, *pipes: int) -> list[int]:
        """Read its standard error for up to *wait_s*; return the pipes that have data."""
        ready: list[int] = select.select([*pipes, *([self._err] if self._err >= 0 else [])], [], [], wait_s)[0]
        if self._err in ready:
            self._listen()
        return ready

    def _cut(self, data: bytes, after_ns: int) -> Packets:
        self._rest += data
        items = self._reader.feed(data)
        packets = [item for item in items if isinstance(item, Packet)]
        if any(isinstance(item, CaptureProblem) for item in items):
            self.has_ended, self.said = True, "its output is not a capture"
        end = self._reader.offset
        if not self.head and end >= FILE_HEADER_BYTES:
            self.head = bytes(self._rest[:FILE_HEADER_BYTES])
            self._drop(FILE_HEADER_BYTES)
        if not packets:
            return NO_PACKETS
        first = bisect_right(packets, after_ns, key=lambda packet: packet.ts_ns) if after_ns else 0
        start = packets[first].offset if first < len(packets) else end
        whole = bytes(self._rest[start - self._taken : end - self._taken])
        self._drop(end)
        return Packets(whole, max(packet.ts_ns for packet in packets), len(packets) - first)

    def _drop(self, end: int) -> None:
        """Forget the bytes of the capture before *end*."""
        del self._rest[: end - self._taken]
        self._taken = end

    def _listen(self) -> None:
        data = os.read(self._err, READ_BYTES)
        if not data:
            self._err = -1
            return
        self._words += data
        *lines, rest = bytes(self._words[-SAID_BYTES_MAX:]).split(b"\n")
        self._words = bytearray(rest)
        for line in lines:
            message = line.decode("utf-8", "replace").strip().removeprefix("tcpdump: ")
            if _LISTENING in message:
                self.is_listening = True
            counts = _DROPPED.findall(message)
            if counts:
                self.dropped = sum(map(int, counts))
            elif message and not _COUNT.match(message):
                self.said = message[:SAID_CHARS_MAX]

    def ask_counts(self) -> None:
        """Request the count of dropped packets; a later `read` stores it."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        """Terminate it; `read` returns the remaining packets until `has_ended`."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def close(self) -> None:
        """Wait up to `STOP_S` for its end, and read the rest of its standard error."""
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        while self._err >= 0 and self._hear(0):
            pass
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
