"""Reading captures of the cluster bus and replaying them: file to Arrow rows, its parts, other readers, the machine.

All measured on the same file in one run, in this process unless a row says otherwise, with the ways taking turns.
"""

from __future__ import annotations

import gc
import importlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bus_data import bus_capture
from benchmarks.measure import RunError, run_program
from benchmarks.native_code import compile_program
from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.gossip.events import MessageReceived
from cluster_core.gossip.node import ClusterNode
from cluster_core.gossip.prefilter import Prefilter
from cluster_core.gossip.profile import REDIS_7_0
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.containers import PacketReader
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.packing import unpack
from cluster_core.kernels.bus.pong_ages import DEFAULT_NODE_TIMEOUT_MS
from cluster_core.replay.evidence import Endpoint, Evidence, MessageSeen
from cluster_core.replay.observer import ObserverReplay
from cluster_core.wire.bus import decode_message
from slotscope.sources.bus.blobs import EvidenceReader
from slotscope.sources.bus.captured import EVIDENCE
from slotscope.sources.bus.data_source import ClusterBusReader
from slotscope.sources.bus.evidence import CaptureOptions, CaptureTask
from slotscope.sources.bus.files import CaptureFile, find_captures, survey
from slotscope.sources.bus.point_series import PointSeries, SeriesState
from slotscope.sources.bus.polls_and_logs import PollsAndLogs

NAME = "bus"
CHUNK_BYTES = 2 << 20
MESSAGES_READ = "messages"
MESSAGES = 70_000
FULL_MESSAGES = 50_000
ROUNDS = 15
SLOW_ROUNDS = 3
PLAIN_MESSAGES = 5_000
OBSERVERS = 3
QUIET_TAIL = 1_000
QUIET_PASSES = 10
ARROW = "file to all Arrow columns"
DECODED = "file to BusBatch columns"
WALK = "packet walk"
REPLAY = "replay of an observer"
QUIET = "the machine, quiet messages only"


@dataclass(slots=True)
class Way:
    """One way over the capture: *run* returns how many *unit* it did; *best* is its least CPU time of one unit, in s."""

    name: str
    does: str
    unit: str
    run: Callable[[], int]
    rounds_max: int = ROUNDS
    best: float = field(default=float("inf"))
    done: int = 0

    def take_turn(self) -> None:
        """Run once."""
        start = time.process_time()
        self.done = self.run()
        self.best = min(self.best, (time.process_time() - start) / max(self.done, 1))

    @property
    def rate(self) -> float:
        """Units a CPU second."""
        return 1 / self.best


def run(options: Options) -> Result:
    """Measure readers and the machine on one capture."""
    rounds = 2 if options.quick else ROUNDS
    path = (options.capture or bus_capture(MESSAGES // 20 if options.quick else MESSAGES)).resolve()
    result = Result(
        NAME,
        "Reading the cluster bus",
        f"One core, CPU seconds (user and system), the least of {rounds} rounds ({SLOW_ROUNDS} for slow ways) in which "
        "the ways take turns; the page cache is warm, machine code loaded. All columns are those of "
        "`bronze/bus_messages` as the data source `cluster-bus` yields them.",
        tables=[],
    )
    readers = [*_our_readers(path), *_limits(path, result.skipped), *_others(path, result.skipped)]
    _take_turns(readers, rounds)
    machine = _machine(path, 2 * SLOW_ROUNDS)  # after the readers: its evidence is millions of objects
    _take_turns(machine, rounds)
    ways = [*readers, *machine]
    by_name = {way.name: way for way in ways}
    messages, size = by_name[ARROW].done, path.stat().st_size
    rows = [_row(way, size, messages) for way in readers]
    for row in rows:
        row["× ours"] = float(row["CPU s"] or 0) / (by_name[ARROW].best * messages)
    about = f"`{path.name}`: {size / 1e6:.0f} MB, {messages:,} messages, {by_name[WALK].done:,} packets."
    result.tables.append(Table("Reading a capture", rows, about))
    result.tables.append(
        Table(
            "Replaying it",
            [{"way": way.name, "does": way.does, "messages/s": way.rate} for way in machine],
            f"Plain Python; evidence of {OBSERVERS} observers, which was decoded before.",
        )
    )
    if messages >= FULL_MESSAGES:  # below, what a decoder sets up once weighs too much
        result.bars.append(
            Bar(f"{ARROW}, reassembly included, one core", 500_000, by_name[ARROW].rate, "messages/s", False)
        )
    result.bars.append(Bar("machine, per observer", 40_000, _rate(by_name, REPLAY), "messages/s", False))
    result.bars.append(Bar("machine, quiet messages", 300_000, _rate(by_name, QUIET), "messages/s", False))
    return result


def _take_turns(ways: list[Way], rounds: int) -> None:
    gc.collect()
    gc.freeze()  # what exists now is not looked through again while something is timed
    for number in range(rounds):
        for way in ways:
            if number < way.rounds_max:
                way.take_turn()
    gc.unfreeze()


def _rate(ways: dict[str, Way], name: str) -> float | None:
    return ways[name].rate if name in ways and ways[name].done else None


def _row(way: Way, size: int, messages: int) -> dict[str, Cell]:
    """One reader; what took only some of the messages is scaled to all of them."""
    seconds = way.best * (messages if way.unit == MESSAGES_READ else way.done)
    return {
        "way": way.name,
        "does": way.does,
        "CPU s": seconds,
        "MB/s": size / seconds / 1e6,
        "a second": f"{way.rate:,.0f} {way.unit}",
    }


# -- ours ------------------------------------------------------------------------------------------------------------


def _our_readers(path: Path) -> list[Way]:
    return [
        Way(ARROW, "read, reassemble, decode, 41 columns", MESSAGES_READ, lambda: _arrow_rows(path)),
        Way(DECODED, "read, reassemble, decode", MESSAGES_READ, lambda: sum(map(len, _batches(path, BusDecoder())))),
        Way(WALK, "read, find packets", "packets", lambda: _walked_packets(path)),
        _plain_codec(path),
    ]


def _arrow_rows(path: Path) -> int:
    reader = ClusterBusReader({"path": str(path)})
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def _batches(path: Path, decoder: BusDecoder) -> Iterator[BusBatch]:
    return PointSeries([CaptureFile(str(path), path.stat().st_size)], SeriesState(), {}).all_of(decoder)


def _walked_packets(path: Path) -> int:
    reader, packets = PacketReader(), 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(reader.room(CHUNK_BYTES)):
            packets += sum(map(len, reader.take(count)))
    return packets


def _plain_codec(path: Path) -> Way:
    raws: list[bytes] = []
    for batch in _batches(path, BusDecoder(keep_packed=True)):
        start = 0
        for row, end in enumerate(batch.packed_ends.tolist()):
            slots = int(batch.messages.slots[row])
            if batch.messages.captured[row] == batch.messages.totlen[row] and len(raws) < PLAIN_MESSAGES:
                raws.append(unpack(batch.packed[start:end].tobytes(), batch.bitmap(slots) if slots >= 0 else b""))
            start = end

    def decode() -> int:
        for raw in raws:
            decode_message(raw)
        return len(raws)

    return Way(
        f"plain codec (first {len(raws):,})", "bytes of a message to an object", MESSAGES_READ, decode, SLOW_ROUNDS
    )


def _machine(path: Path, rounds: int) -> list[Way]:
    """The replay of some observers, and their machines with messages that tell nothing new."""
    options = CaptureOptions(tuple(survey(find_captures([str(path)]))), PollsAndLogs(), DEFAULT_NODE_TIMEOUT_MS)
    blobs: dict[str, list[bytes]] = {}
    for batch in CaptureTask(options).run():
        for row in batch.to_pylist():
            if row["row_kind"] == EVIDENCE:
                blobs.setdefault(row["part"], []).append(row["blob"])
    streams = {}
    for part, pieces in blobs.items():
        reader = EvidenceReader()
        streams[part] = [evidence for blob in pieces for _, evidence in reader.read(blob)]
    chosen = sorted(streams, key=lambda process: (-len(streams[process]), process))[:OBSERVERS]

    def replay() -> int:
        return sum(_replayed(process, streams[process])[1] for process in chosen)

    quiet = [_quiet_events(process, streams[process]) for process in chosen]

    def settle() -> int:
        for node, events, now_ms in quiet:
            for event in QUIET_PASSES * events:
                node.handle(event, now_ms)
        return QUIET_PASSES * sum(len(events) for _, events, _ in quiet)

    ways = [Way(REPLAY, "machine, comparison with what it sent, rows", MESSAGES_READ, replay, rounds)]
    if any(events for _, events, _ in quiet):
        ways.append(
            Way(
                QUIET,
                "messages without news, ten times each: in the cache, as just decoded",
                MESSAGES_READ,
                settle,
                rounds,
            )
        )
    return ways


def _replayed(part: str, evidence: list[Evidence]) -> tuple[ClusterNode | None, int]:
    """The machine after all *evidence*, and how many messages that was."""
    ip, _, port = part.rpartition("|")
    replay = ObserverReplay(Endpoint(ip, int(port)), node_timeout_ms=DEFAULT_NODE_TIMEOUT_MS)
    messages = 0
    for seen in evidence:
        replay.feed(seen)
        messages += type(seen) is MessageSeen
    replay.finish()
    return replay.node, messages


def _quiet_events(part: str, evidence: list[Evidence]) -> tuple[Prefilter, list[MessageReceived], int]:
    """The machine after all *evidence*, the last messages that would be quiet now, and its time."""
    node, _ = _replayed(part, evidence)
    now_ms = evidence[-1].ts_ns // 1_000_000
    if node is None:
        return Prefilter(ClusterNode("", REDIS_7_0, DEFAULT_NODE_TIMEOUT_MS)), [], now_ms
    received = [message for message in evidence[-QUIET_TAIL:] if isinstance(message, MessageSeen) and not message.sent]
    events = [MessageReceived(message.connection, message.message, message.peer.ip) for message in received]
    prefilter = Prefilter(node)
    for event in events:
        prefilter.handle(event, now_ms)
    return prefilter, [event for event in events if prefilter.settle(event, now_ms) is not None], now_ms


# -- others ----------------------------------------------------------------------------------------------------------


def _limits(path: Path, skipped: list[str]) -> list[Way]:
    ways = [Way("copy in memory", "read the file into a window, nothing else", "bytes", lambda: _copied_bytes(path))]
    touch = compile_program("touch")
    if touch is None:
        skipped.append("touching every byte: no C compiler")
        return ways
    return [*ways, _Program("touch", "C: read and add every byte", "bytes", [touch, path], path.stat().st_size)]


def _copied_bytes(path: Path) -> int:
    window, total = memoryview(bytearray(CHUNK_BYTES)), 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(window):
            total += count
    return total


def _others(path: Path, skipped: list[str]) -> list[Way]:
    ways: list[Way] = []
    try:
        dpkt = importlib.import_module("dpkt")
    except ImportError:
        skipped.append("dpkt: not installed")
    else:

        def read() -> int:
            packets = 0
            with path.open("rb") as file:
                for _, raw in dpkt.pcap.Reader(file):
                    packets += 1
                    tcp = dpkt.ethernet.Ethernet(raw).data.data
                    len(tcp.data)
            return packets

        ways.append(Way("dpkt", "packets down to TCP, no streams", "packets", read, SLOW_ROUNDS))
    tshark = shutil.which("tshark")
    if tshark is None:
        skipped.append("tshark: not installed")
        return ways
    command = [tshark, "-n", "-r", str(path), "-T", "fields", "-e", "tcp.stream", "-e", "tcp.seq", "-e", "tcp.len"]
    try:
        lines = run_program([*command, "-c", "10"], 1)
    except RunError as error:
        skipped.append(f"tshark: {error}")
        return ways
    if lines.answer:
        packets = _walked_packets(path)
        ways.append(_Program("tshark", "streams and sequence numbers, no bus", "packets", command, packets, 1))
    return ways


class _Program(Way):
    """Another program, from start to end; *done* is known before."""

    def __init__(
        self, name: str, does: str, unit: str, command: Sequence[str | Path], done: int, rounds: int = ROUNDS
    ) -> None:
        super().__init__(name, does, unit, lambda: done, rounds)
        self.done = done
        self._command = command

    def take_turn(self) -> None:
        """Run once."""
        self.best = min(self.best, run_program(self._command, 1).cpu_s / self.done)
