"""Capture the cluster bus of the nodes of this host: run tcpdump, cut its output into files, restart it when it ends.

tcpdump is started without a shell.  It needs CAP_NET_RAW; the recorder does not.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from fcntl import F_SETPIPE_SZ, fcntl
from typing import Final, NamedTuple

from cluster_core.formats.capture.pcap import FILE_HEADER_BYTES, CaptureProblem, CaptureReader, Packet
from cluster_core.formats.landing import Gap, Kind, Reason
from slotscope.recording.point import GapBook
from slotscope.recording.series import Series

BUFFER_KIB: Final = 16 << 10
"""Size of the kernel's buffer for packets that the recorder has not read."""
PIPE_BYTES: Final = 1 << 20
READ_BYTES: Final = 1 << 20
ERROR_CHARS_MAX: Final = 300
ERROR_BYTES_MAX: Final = 1 << 16
STOP_S: Final = 5.0
_DROPPED: Final = re.compile(r"(\d{1,18}) packets? dropped by (?:kernel|interface)")
_LISTENING: Final = "listening on "
_COUNT: Final = re.compile(r"\d+ packets? ")
SNAPLEN: Final = 262_144
"""Captured bytes of a packet: all of them."""
DRAIN_NS: Final = 2_400_000_000
"""Time for tcpdump to take the last block on a busy host."""
DELAY_NS: Final = 1_200_000_000
"""A packet comes at most so late: the kernel hands over a block of packets when it is full, or after the second that tcpdump asks for.

``--immediate-mode`` would hand over each packet at once, but from a buffer with room for `SNAPLEN` bytes a packet, which a burst of 64 packets fills.
"""


def command_of(program: str, interface: str, ports: Iterable[int]) -> list[str]:
    """The argument list: the bus *ports* only, nanoseconds, to the standard output without a buffer of tcpdump's own."""
    wanted = "tcp and (" + " or ".join(f"port {port}" for port in sorted(set(ports))) + ")"
    options = ["-n", "-p", "-U", "--time-stamp-precision=nano", "-B", str(BUFFER_KIB)]
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
        self.counted_ns = 0
        """When that count was requested."""
        self.error = ""
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
        self._taken = self._asked_ns = 0
        self._error_bytes = bytearray()

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
            self.has_ended, self.error = True, "its output is not a capture"
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
        self._error_bytes += data
        *lines, rest = bytes(self._error_bytes[-ERROR_BYTES_MAX:]).split(b"\n")
        self._error_bytes = bytearray(rest)
        for line in lines:
            message = line.decode("utf-8", "replace").strip().removeprefix("tcpdump: ")
            if _LISTENING in message:
                self.is_listening = True
            counts = _DROPPED.findall(message)
            if counts:
                self.dropped, self.counted_ns = sum(map(int, counts)), self._asked_ns
            elif message and not _COUNT.match(message):
                self.error = message[:ERROR_CHARS_MAX]

    def ask_counts(self) -> None:
        """Request the count of dropped packets; a later `read` stores it."""
        self._asked_ns = time.time_ns()
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


TURN_S: Final = 0.2
START_S: Final = 10.0
"""How long tcpdump may take until it listens."""
RETRY_S: Final = (1.0, 60.0)
"""First and longest pause before a failed capture is tried again; the pause doubles each time."""


class CaptureOptions(NamedTuple):
    """The program (tcpdump, or a path of it) and the interface."""

    program: str
    interface: str


@dataclass(slots=True)
class BusRecorder:
    """Records until *stop*; *ports* returns the bus ports of this host's nodes.  *since_ns* is the last sign of life of the previous recorder."""

    options: CaptureOptions
    series: Series
    gaps: GapBook
    ports: Callable[[], frozenset[int]]
    stop: threading.Event
    since_ns: int | None = None
    packets: int = 0
    _run: Tcpdump | None = None
    _filter: frozenset[int] = frozenset()
    _after_ns: int = 0
    """Packets up to then were taken from the run before."""
    _begun_ns: int = field(default_factory=time.time_ns)
    _last_ns: int = 0
    _dropped: int = 0
    _dropped_ns: int = 0
    """When the last count was requested."""
    _ended_ns: int = 0
    _failed: int = 0
    _next_s: float = 0.0
    _lost_since_ns: int = 0

    def run(self) -> None:
        """Record; returns when all is on the disk."""
        self._lost_since_ns = self._begun_ns if self.since_ns is None else self.since_ns
        self._hold_not_running(self.since_ns is not None)
        try:
            while not self.stop.is_set():
                self._adjust()
                if self._run is None:
                    self.stop.wait(TURN_S)
                else:
                    self._take(self._run, TURN_S)
                    if self._run.has_ended:
                        self._fail(self._run)
                self._turn()
            if self._run is not None:
                self._drain(self._run)
        finally:
            if self._run is not None:
                self._run.end()
                self._run.close()
            self.series.end(self._ended_ns or time.time_ns())
            self._note_room(time.time_ns())

    def _adjust(self) -> None:
        """Capture the present ports; after a change of ports a new run listens before the old one ends."""
        wanted = self.ports()
        if not wanted or (self._run is not None and wanted == self._filter) or time.monotonic() < self._next_s:
            return
        command = command_of(self.options.program, self.options.interface, wanted)
        try:
            tcpdump = Tcpdump(command)
        except OSError as error:
            self._note_failure(f"{self.options.program}: {error.strerror or error}")
            return
        end_s = time.monotonic() + START_S
        while not tcpdump.wait_until_listening(TURN_S) and time.monotonic() < end_s and not self.stop.is_set():
            if self._run is not None:
                self._take(self._run, 0)
        if not tcpdump.is_listening:
            tcpdump.end()
            tcpdump.close()
            self._note_failure(tcpdump.error or "it does not begin to listen")
            return
        if self._run is not None:
            self._drain(self._run)
            self._after_ns = self._last_ns
        self._run, self._filter = tcpdump, wanted
        self._begun_ns = self._dropped_ns = time.time_ns()
        self._dropped = self._failed = self._ended_ns = 0
        self._hold_not_running(False)
        self.gaps.hold(self._failure(""), False, self._begun_ns)

    def _take(self, run: Tcpdump, wait_s: float) -> None:
        """Write the packets that arrive within *wait_s*."""
        lines = run.read(wait_s, self._after_ns)
        if run.head and self.series.head != run.head:
            self.series.end(self._arrived_ns)
            self.series.head = run.head
        if lines.data:
            self._after_ns, self._last_ns = 0, lines.last_ns
            self.packets += lines.packets
            self.series.add(lines.data, self._arrived_ns, lines.last_ns)

    @property
    def _arrived_ns(self) -> int:
        """Packets up to this time have arrived."""
        now_ns = time.time_ns()
        return max(now_ns - DELAY_NS, min(self._begun_ns, now_ns))

    def _turn(self) -> None:
        now_ns = time.time_ns()
        if self._run is not None:
            if self.series.turn(self._arrived_ns):
                self._run.ask_counts()
            self._note_drops(self._run, now_ns)
        self._note_room(now_ns)

    def _drain(self, run: Tcpdump) -> None:
        """End a run and write its packets up to now, which the kernel may hold for a while."""
        self._ended_ns = time.time_ns()
        while not run.has_ended and time.time_ns() < self._ended_ns + DRAIN_NS:
            self._take(run, TURN_S)
        run.end()
        end_s = time.monotonic() + STOP_S
        while not run.has_ended and time.monotonic() < end_s:
            self._take(run, TURN_S)
        run.close()
        self._note_drops(run, time.time_ns())
        self._run = None

    def _fail(self, run: Tcpdump) -> None:
        run.close()
        self._run = None
        now_ns = time.time_ns()
        self._note_drops(run, now_ns)
        self.series.end(now_ns)
        self._lost_since_ns = max(self.series.covered_ns, self._begun_ns)
        self._note_failure(run.error or "it ended")

    def _note_failure(self, detail: str) -> None:
        self._next_s = time.monotonic() + min(RETRY_S[0] * 2.0 ** min(self._failed, 16), RETRY_S[1])
        self._failed += 1
        if self._run is None:
            self._hold_not_running(False)
            self.gaps.hold(self._failure(detail), True, time.time_ns())

    def _failure(self, detail: str) -> Gap:
        return Gap(Kind.BUS, self._lost_since_ns, None, Reason.PROGRAM, self.options.interface, detail)

    def _hold_not_running(self, holds: bool) -> None:
        self.gaps.hold(Gap(Kind.BUS, self._lost_since_ns, None, Reason.NOT_RUNNING), holds, time.time_ns())

    def _note_drops(self, run: Tcpdump, now_ns: int) -> None:
        if run.dropped > self._dropped:
            count = run.dropped - self._dropped
            self.gaps.add(Gap(Kind.BUS, self._dropped_ns, now_ns, Reason.DROPPED, self.options.interface, missed=count))
        self._dropped, self._dropped_ns = run.dropped, max(self._dropped_ns, run.counted_ns)

    def _note_room(self, now_ns: int) -> None:
        from_ns = max(self.series.covered_ns, self._begun_ns)
        self.gaps.hold(Gap(Kind.BUS, from_ns, None, Reason.DISK_FULL), self.series.is_full, now_ns)
