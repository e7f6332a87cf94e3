"""Servers that share a machine are asked in turn."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from slotscope.servers import pacing
from slotscope.servers.node_link import Access, Address, LinkError
from slotscope.servers.pacing import PacedLink
from tests.benches.fake_servers import scripted

FAST = 1e6
"""A rate that nothing here comes near."""


def ask_side_by_side(turns: list[threading.Lock]) -> int:
    """Ask a server with each of *turns* ten times; return how many answered at once at most."""
    lock, answering, most = threading.Lock(), 0, 0

    def answer(words: list[bytes]) -> bytes:
        nonlocal answering, most
        with lock:
            answering += 1
            most = max(most, answering)
        time.sleep(0.005)
        with lock:
            answering -= 1
        return b"+PONG\r\n"

    with scripted(answer) as (port, _), ThreadPoolExecutor(len(turns)) as pool:
        links = [PacedLink(Access().connect(Address("127.0.0.1", port)), FAST, turn) for turn in turns]
        every = list(pool.map(lambda link: [link.ask([("PING",)]) for _ in range(10)], links))
        for link in links:
            link.close()
    assert every == [[["PONG"]] * 10] * len(turns)
    return most


def test_servers_of_one_machine_are_asked_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of machines of their own are asked at the same time."""
    monkeypatch.setattr(pacing, "TURN_S", 60.0)
    turn = threading.Lock()

    assert ask_side_by_side([turn, turn, turn]) == 1
    assert ask_side_by_side([threading.Lock() for _ in range(3)]) > 1


def test_a_silent_server_holds_nobody_of_its_machine_up() -> None:
    """Who shares its turn is answered while it is still waited for."""
    turn, asked = threading.Lock(), threading.Event()

    def say_nothing(words: list[bytes]) -> None:
        asked.set()

    with (
        scripted(say_nothing) as (silent, _),
        scripted(lambda words: b"+PONG\r\n") as (port, _),
        ThreadPoolExecutor(1) as pool,
    ):
        mute = PacedLink(Access(timeout_s=5.0).connect(Address("127.0.0.1", silent)), FAST, turn)
        good = PacedLink(Access().connect(Address("127.0.0.1", port)), FAST, turn)
        waiting = pool.submit(mute.ask, [("PING",)])
        assert asked.wait(5.0)
        assert good.ask([("PING",)] * 3) == ["PONG"] * 3
        assert not waiting.done()
        with pytest.raises(LinkError, match="no answer in time"):
            waiting.result()
        mute.close()
        good.close()
