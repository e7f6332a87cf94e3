"""Join a live cluster as a test node: the state machine of replay and simulation, with sockets."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from slotscope.options import LiveOptions, ServerVersion, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from cluster_core.gossip.profile import Profile
    from cluster_core.node.state import NodeSettings
    from slotscope.live.driver import Place
    from slotscope.live.member import Member
    from slotscope.servers.node_link import Access, Address


@options
class Request(LiveOptions):
    """Options of `slotscope lab node`."""

    join: str | None = None
    """HOST:PORT of a node of the cluster (client port). Default: wait for CLUSTER MEET"""
    port: int = 7777
    """Client port"""
    bus_port: int = 0
    """Bus port; 0: client port + 10000"""
    profile: ServerVersion = None
    node_timeout: int | None = None
    """cluster-node-timeout in ms. Default: that of the cluster, 15000 until known"""
    folder: str | None = None
    """Folder of nodes.conf. Default: not stored"""
    user: str | None = None
    """ACL user for INFO, CONFIG GET and CLUSTER FORGET. Default: the default user"""


class Given(NamedTuple):
    """What the user wants, whatever the cluster does; None: as the cluster."""

    profile: Profile | None
    node_timeout_ms: int | None


def command(request: Request = Request()) -> None:
    """Join a live cluster as a test node: answer pings, detect failures, vote, and serve assigned slots.

    Follows the server version and the node timeout of the cluster, from INFO, CONFIG GET and bus messages. Options override
    them; a difference is reported.

    Keeps data in memory only and never replicates. The cluster bus has no authentication: anyone who reaches the bus port can
    change the cluster state, so the default address is loopback. Ctrl-C leaves the cluster by CLUSTER FORGET on every node. A
    node that owns slots stays and reports it; a second Ctrl-C ends it like a crash.
    """
    join, port, bus_port, profile = request.join, request.port, request.bus_port, request.profile
    node_timeout, duration = request.node_timeout, request.duration
    if not 0 < port < 65536 or not 0 <= bus_port < 65536 or (not bus_port and port + 10000 > 65535):
        raise InputError(f"--port {port}: ports are 1 to 65535, and the bus needs one, too (--bus-port)")
    if (node_timeout is not None and not 100 <= node_timeout <= 86_400_000) or (
        duration is not None and not duration > 0
    ):
        raise InputError("--node-timeout is 100 ms to a day, --duration more than 0 s")
    from cluster_core.gossip.profile import PROFILES
    from cluster_core.node.state import NodeSettings
    from slotscope.live.driver import place_at
    from slotscope.servers.cluster import parse_address
    from slotscope.servers.node_link import Access

    place = place_at(request.bind, request.folder)
    if profile is not None and profile not in PROFILES:
        raise InputError(f"no profile {profile!r}; there are {', '.join(PROFILES)}")
    settings = NodeSettings(port=port, cport=bus_port)
    given = Given(PROFILES[profile] if profile is not None else None, node_timeout)
    settings = replace(
        settings,
        profile=given.profile or settings.profile,
        node_timeout_ms=given.node_timeout_ms or settings.node_timeout_ms,
    )
    first = parse_address(join) if join else None
    access = Access(request.user, os.environ.get(request.password_env))
    asyncio.run(_live(settings, given, place, first, access, duration))


async def _live(
    settings: NodeSettings, given: Given, place: Place, first: Address | None, access: Access, duration_s: float | None
) -> None:
    from slotscope.live.driver import any_of, numeric_address, say, stop_event
    from slotscope.live.member import Member, Step

    member, stop = Member(settings, place, say), stop_event()
    await member.start()
    me = member.node.view.myself.id
    say(f"* node {me} listens on {place.bind}:{settings.port}, bus {settings.bus_port}; the bus has no authentication")
    try:
        step = Step(member, access, say, given.profile, given.node_timeout_ms)
        if first is not None:
            await step.ask(first)
            reply = member.order(
                "CLUSTER",
                "MEET",
                await asyncio.to_thread(numeric_address, first.host, f"--join {first.host}"),
                str(first.port),
            )
            if reply != "OK":
                raise InputError(f"--join {first}: {reply}")
        stepping = asyncio.create_task(step.run())
        await any_of(duration_s, stop)
        stepping.cancel()
        stop.clear()
        await _leave(member, stop, access)
    finally:
        await member.stop()
        say("* gone")


async def _leave(member: Member, stop: asyncio.Event, access: Access) -> None:
    """Send CLUSTER FORGET to every node, once this one owns no slots or *stop* is set again."""
    from slotscope.live.driver import any_of, ask_to_forget, say

    slots = member.owned_slots()
    if slots:
        say(f"# this node owns {slots} slots: move them away, then it leaves; a second Ctrl-C ends it at once")
        while member.owned_slots() and not stop.is_set():
            await any_of(0.5, stop)
    if not member.owned_slots():
        order = ("CLUSTER", "FORGET", member.node.view.myself.id)  # they gossip about us for a minute, unheard (R61)
        for line in await asyncio.to_thread(ask_to_forget, member.known_addresses(), "nodes", access, order):
            say(line)


if __name__ == "__main__":
    cli.main(command)
