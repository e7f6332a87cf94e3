"""The bus, captured by tcpdump on loopback: other ports are captured too, without a gap; nothing is there twice."""

from __future__ import annotations

import gzip
import shutil
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from cluster_core.formats.capture.pcap import CaptureReader, Packet
from cluster_core.formats.landing import Kind
from slotscope.recording.bus import BusRecorder, CaptureOptions, command_of
from slotscope.recording.point import GapBook
from slotscope.recording.series import Rotation, Series
from tests.benches.servers import free_port, wait_for

MARK = b"slotscope-%06d"


def talk(port: int, numbers: range) -> None:
    """Send numbered segments over a connection of its own."""
    with socket.create_server(("127.0.0.1", port)) as listener, socket.create_connection(("127.0.0.1", port)) as sender:
        receiver, _ = listener.accept()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in numbers:
            sender.sendall(MARK % number)
            time.sleep(0.01)
        receiver.close()


def packets_in(folder: Path) -> list[bytes]:
    """All packets with a number; one that TCP sent again differs from the first by the id of IP."""
    result = []
    for path in sorted(folder.glob("[!.]*")):
        packets = CaptureReader().feed(gzip.decompress(path.read_bytes()))
        result += [packet.data for packet in packets if isinstance(packet, Packet) and MARK[:10] in packet.data]
    return result


@pytest.mark.servers
def test_while_the_ports_change_nothing_is_lost_and_nothing_is_twice(tmp_path):
    if shutil.which("tcpdump") is None:
        pytest.skip("tcpdump is not installed")
    first, second = free_port(), free_port()
    wanted = [frozenset([first])]
    stop = threading.Event()
    gaps = GapBook(tmp_path / "gaps.jsonl", lambda line: None)
    series = Series(tmp_path / "bus", Kind.BUS, Rotation(10**9, 1 << 20))
    recorder = BusRecorder(CaptureOptions("tcpdump", "lo"), series, gaps, lambda: wanted[0], stop)
    thread = threading.Thread(target=recorder.run)
    thread.start()
    try:
        wait_for(lambda: recorder.series.head or gaps.count, "tcpdump to listen")
        if gaps.count:
            pytest.skip(f"tcpdump may not capture here: {gaps.read()[0].detail}")
        threading.Timer(0.4, lambda: wanted.__setitem__(0, frozenset([first, second]))).start()
        talk(first, range(150))
        wait_for(lambda: recorder._filter == {first, second}, "the wider filter")
        talk(second, range(150, 170))
    finally:
        stop.set()
        thread.join(20)

    packets = packets_in(tmp_path / "bus")
    numbers = {int(data[(start := data.index(MARK[:10]) + 10) : start + 6]) for data in packets}

    assert numbers == set(range(170))
    assert max(Counter(packets).values()) == 1
    assert gaps.read() == []


def test_words_of_a_user_are_arguments_and_never_a_shell():
    """The filter is made of numbers."""
    command = command_of("tcpdump", "lo; reboot", [17_001, 17_000])

    assert command[:3] == ["tcpdump", "-i", "lo; reboot"]
    assert command[-1] == "tcp and (port 17000 or port 17001)"
