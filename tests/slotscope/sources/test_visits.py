"""Calls at the nodes of a cluster: those on this machine take turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from cluster_core.incidents.symptoms import Checkup
from slotscope.servers.node_link import Access, Address, LinkError
from slotscope.servers.visits import PacedLink, Visit, in_turns
from tests.benches.fake_servers import scripted

RATE = 1e6


@contextmanager
def visits(port: int, count: int, rate: float = RATE) -> Iterator[list[Visit]]:
    """*count* connections to the server at *port*."""
    address = Address("127.0.0.1", port)
    result = [
        Visit(address, Checkup(str(number)), PacedLink(Access(timeout_s=60).connect(address), rate))
        for number in range(count)
    ]
    try:
        yield result
    finally:
        for visit in result:
            visit.close()


def chat(visit: Visit, questions: int) -> list[str]:
    """Send its name so many times; return the answers, and whether it is gone."""
    heard: list[str] = []
    try:
        for _ in range(questions):
            heard += visit.ask([("ECHO", visit.checkup.address)])
    except LinkError as error:
        heard.append(str(error))
    return heard


def say(arguments: list[bytes]) -> bytes:
    return b"+%s\r\n" % arguments[1]


def test_servers_on_this_machine_are_queried_one_after_another() -> None:
    lock, answering, most = threading.Lock(), 0, 0

    def answer(arguments: list[bytes]) -> bytes:
        nonlocal answering, most
        with lock:
            answering += 1
            most = max(most, answering)
        time.sleep(0.002)
        with lock:
            answering -= 1
        return say(arguments)

    with scripted(answer) as (port, asked), visits(port, 3, rate=50.0) as nodes:
        assert all(node.is_here for node in nodes)
        in_turns((node, partial(chat, node, 4)) for node in nodes)

    assert most == 1
    assert sorted(arguments[1] for arguments in asked) == [b"0"] * 4 + [b"1"] * 4 + [b"2"] * 4


def test_a_rest_holds_up_only_the_node_that_rests() -> None:
    with scripted(say) as (port, asked), visits(port, 2) as nodes:
        nodes[0].link.due_s = time.monotonic() + 0.5
        in_turns((node, partial(chat, node, 3)) for node in nodes)

    assert [arguments[1] for arguments in asked] == [b"1"] * 3 + [b"0"] * 3
