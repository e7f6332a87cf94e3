"""A sentinel of the core beside real servers: its event loop runs in a thread, tests ask it from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cluster_core.sentinel.state import SentinelSettings, Watched
from slotscope.live.sentinel_member import SentinelMember
from tests.benches.servers import free_port

WATCHED = Watched("mymaster", "127.0.0.1", 0, 2, down_after_ms=1000, failover_timeout_ms=10_000)


@dataclass(slots=True)
class LiveSentinel:
    """A running `SentinelMember`: *log* is what it has said."""

    member: SentinelMember
    loop: asyncio.AbstractEventLoop
    log: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Its id."""
        return self.member.sentinel.my_id

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.member.settings.port

    def order(self, *words: str) -> Any:
        """Have it carry out a command."""

        async def ask() -> Any:
            return self.member.order(*words)

        return asyncio.run_coroutine_threadsafe(ask(), self.loop).result(10)

    def said(self, words: str) -> bool:
        """Whether its log has a line with *words*."""
        return any(words in line for line in self.log)


@contextmanager
def living_sentinel(master_port: int, **options: Any) -> Iterator[LiveSentinel]:
    """A sentinel that lives inside the ``with`` block and watches a master on loopback; *options* are fields of `Watched`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="sentinel", daemon=True)
    thread.start()
    log: list[str] = []
    port = free_port()

    async def begin() -> SentinelMember:
        watched = WATCHED._replace(port=master_port, **options)
        member = SentinelMember(SentinelSettings(port=port), "127.0.0.1", watched, log.append)
        await member.start()
        return member

    member = asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
    try:
        yield LiveSentinel(member, loop, log)
    finally:
        asyncio.run_coroutine_threadsafe(member.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
