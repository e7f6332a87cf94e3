"""The bus, captured by tcpdump on loopback: other ports are captured too, without a gap; nothing is there twice."""

from __future__ import annotations

import gzip
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_core.formats.capture.pcap import CaptureReader, Packet
from cluster_core.formats.landing import Kind, Reason
from slotscope.recording.bus import BusRecorder, CaptureOptions, command_of
from slotscope.recording.point import GapBook
from slotscope.recording.series import Rotation, Series
from tests.benches.servers import free_port, wait_for

MARK = b"slotscope-%06d"
THREAD = "bus-recorder"


def talk(port: int, numbers: range, pause_s: float = 0) -> None:
    """Send numbered segments over a connection of its own."""
    with socket.create_server(("127.0.0.1", port)) as listener, socket.create_connection(("127.0.0.1", port)) as sender:
        receiver, _ = listener.accept()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in numbers:
            sender.sendall(MARK % number)
            receiver.recv(len(MARK % number))
            time.sleep(pause_s)
        receiver.close()


def packets_in(folder: Path) -> list[bytes]:
    """All packets with a number; one that TCP sent again differs from the first by the id of IP."""
    result = []
    for path in sorted(folder.glob("[!.]*")):
        packets = CaptureReader().feed(gzip.decompress(path.read_bytes()))
        result += [packet.data for packet in packets if isinstance(packet, Packet) and MARK[:10] in packet.data]
    return result


@pytest.fixture
def recorder(tmp_path) -> Iterator[BusRecorder]:
    """A recorder of a free port on loopback; its files are whole after `end`."""
    if shutil.which("tcpdump") is None:
        pytest.skip("tcpdump is not installed")
    wanted, stop = frozenset([free_port()]), threading.Event()
    gaps = GapBook(tmp_path / "gaps.jsonl", lambda line: None)
    series = Series(tmp_path / "bus", Kind.BUS, Rotation(10**9, 1 << 20))
    recorder = BusRecorder(CaptureOptions("tcpdump", "lo"), series, gaps, lambda: wanted, stop)
    threading.Thread(target=recorder.run, name=THREAD).start()
    try:
        wait_for(lambda: series.head or gaps.count, "tcpdump to listen")
        if gaps.count:
            pytest.skip(f"tcpdump may not capture here: {gaps.read()[0].detail}")
        yield recorder
    finally:
        end(recorder)


def end(recorder: BusRecorder) -> None:
    """Stop it, and wait until its files are whole."""
    recorder.stop.set()
    for thread in [each for each in threading.enumerate() if each.name == THREAD]:
        thread.join(60)


def numbers_in(packets: list[bytes]) -> set[int]:
    """The numbers of segments."""
    return {int(data[(start := data.index(MARK[:10]) + 10) : start + 6]) for data in packets}


@pytest.mark.servers
def test_a_change_of_ports_loses_and_repeats_nothing(recorder, tmp_path):
    (first,), second = recorder.ports(), free_port()
    wider = frozenset([first, second])
    threading.Timer(0.4, lambda: setattr(recorder, "ports", lambda: wider)).start()
    talk(first, range(300), 0.01)
    wait_for(lambda: recorder._filter == wider, "the wider filter")
    talk(second, range(300, 320), 0.01)
    end(recorder)
    packets = packets_in(tmp_path / "bus")

    assert numbers_in(packets) == set(range(320))
    assert max(Counter(packets).values()) == 1
    assert recorder.gaps.read() == []


@pytest.mark.servers
def test_a_burst_that_the_recorder_reads_late_is_recorded(recorder, tmp_path):
    """The kernel keeps packets while tcpdump does not run, as on a busy host."""
    (port,) = recorder.ports()
    assert recorder._run is not None
    capture = recorder._run._process
    capture.send_signal(signal.SIGSTOP)
    talk(port, range(500))
    capture.send_signal(signal.SIGCONT)
    end(recorder)

    assert numbers_in(packets_in(tmp_path / "bus")) == set(range(500))
    assert recorder.gaps.read() == []


@pytest.mark.servers
def test_the_gap_of_dropped_packets_begins_at_the_count_before(recorder):
    """tcpdump counts them when a file ends."""
    assert recorder._run is not None
    run = recorder._run
    wait_for(lambda: run.counted_ns, "a count")
    run.ask_counts = lambda: None
    wait_for(lambda: run.counted_ns == run._asked_ns, "the answer on the way")
    counted_ns = run.counted_ns
    run.dropped = 7
    wait_for(lambda: recorder.gaps.read(), "the gap")
    (gap,) = recorder.gaps.read()

    assert (gap.reason, gap.missed) == (Reason.DROPPED, 7)
    assert gap.from_ns >= counted_ns // 1000 * 1000


def test_text_of_a_user_is_an_argument_and_never_a_shell():
    """The filter is made of numbers."""
    command = command_of("tcpdump", "lo; reboot", [17_001, 17_000])

    assert command[:3] == ["tcpdump", "-i", "lo; reboot"]
    assert command[-1] == "tcp and (port 17000 or port 17001)"
