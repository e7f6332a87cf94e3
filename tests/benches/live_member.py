"""A node of the core beside real servers: its event loop runs in a thread, tests ask it from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cluster_core.gossip.profile import VALKEY_9_1, Profile
from cluster_core.node.state import NodeSettings
from cluster_core.wire.resp import RespError, Verbatim
from slotscope.live.driver import Place
from slotscope.live.member import Member
from tests.benches.clusters import Cluster
from tests.benches.servers import Server, free_port, wait_for


@dataclass(slots=True)
class LiveMember:
    """A running `Member`: *log* is what it has said."""

    member: Member
    loop: asyncio.AbstractEventLoop
    log: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Its node id."""
        return self.member.node.view.myself.id

    @property
    def port(self) -> int:
        """Its client port."""
        return self.member.settings.port

    def order(self, *words: str) -> Any:
        """Have it carry out a command; texts come as str, errors as `RespError`."""

        async def ask() -> Any:
            return self.member.order(*words)

        reply = asyncio.run_coroutine_threadsafe(ask(), self.loop).result(10)
        if isinstance(reply, Verbatim):
            return reply.data.decode()
        return reply.decode() if isinstance(reply, bytes) else reply

    def said(self, words: str) -> bool:
        """Whether its log has a line with *words*."""
        return any(words in line for line in self.log)


@contextmanager
def living(*, node_timeout_ms: int, profile: Profile = VALKEY_9_1, **more: Any) -> Iterator[LiveMember]:
    """A node that lives inside the ``with`` block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="member", daemon=True)
    thread.start()
    log: list[str] = []
    settings = NodeSettings(profile=profile, node_timeout_ms=node_timeout_ms, port=free_port(), **more)

    async def begin() -> Member:
        member = Member(settings, Place(), log.append)
        await member.start()
        return member

    member = asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
    try:
        yield LiveMember(member, loop, log)
    finally:
        asyncio.run_coroutine_threadsafe(member.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def line_of(node: Server, node_id: str) -> list[str]:
    """What a real node's CLUSTER NODES says of *node_id*: the words of its line, none if it does not know it."""
    lines = node.call("CLUSTER", "NODES").decode().splitlines()
    return next((line.split() for line in lines if line.startswith(node_id)), [])


def join(member: LiveMember, cluster: Cluster) -> None:
    """Let *member* meet the cluster and wait until every node has it connected and unflagged."""
    assert not isinstance(member.order("CLUSTER", "MEET", "127.0.0.1", str(cluster.masters[0].port)), RespError)
    wait_for(lambda: all(is_well(line_of(node, member.id)) for node in cluster.nodes), "all nodes to know the member")


def is_well(words: list[str]) -> bool:
    """Whether a line of CLUSTER NODES is that of a connected master without a flag."""
    return words[2:3] == ["master"] and words[7:8] == ["connected"]


def give_slot(member: LiveMember, cluster: Cluster, slot: int) -> None:
    """Move one (empty) slot to *member*, as an operator would, and wait until all agree."""
    owner = next(node for node in cluster.masters if f"{slot}" in _slots_of(node))
    assert member.order("CLUSTER", "SETSLOT", str(slot), "IMPORTING", owner.call("CLUSTER", "MYID").decode()) == "OK"
    owner.call("CLUSTER", "SETSLOT", slot, "MIGRATING", member.id)
    assert member.order("CLUSTER", "SETSLOT", str(slot), "NODE", member.id) == "OK"
    owner.call("CLUSTER", "SETSLOT", slot, "NODE", member.id)
    wait_for(
        lambda: all(str(slot) in line_of(node, member.id)[8:] for node in cluster.nodes), "all nodes to see the slot"
    )


def _slots_of(node: Server) -> set[str]:
    mine = next(line for line in node.call("CLUSTER", "NODES").decode().splitlines() if "myself" in line)
    slots: set[str] = set()
    for word in mine.split()[8:]:
        first, _, last = word.partition("-")
        slots.update(str(slot) for slot in range(int(first), int(last or first) + 1))
    return slots
