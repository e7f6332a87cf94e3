"""Run a test sentinel beside real ones: the state machine of the core, with sockets."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final, Literal

from slotscope.options import Flag, LiveOptions, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from cluster_core.sentinel.state import SentinelSettings, Watched
    from slotscope.live.sentinel_member import SentinelMember


@options
class Request(LiveOptions):
    """Options of `slotscope lab sentinel`."""

    monitor: str | None = None
    """HOST:PORT of the master"""
    join: str | None = None
    """HOST:PORT of a sentinel of the master; supplies the master and options not given here"""
    name: str = "mymaster"
    """Name of the master"""
    quorum: int | None = None
    """Quorum. Default: 2"""
    down_after: int | None = None
    """down-after-milliseconds. Default: 30000"""
    failover_timeout: int | None = None
    """failover-timeout in ms. Default: 180000"""
    parallel_syncs: int | None = None
    """Replicas that sync with a new master at a time. Default: 1"""
    port: int = 26380
    """Port to listen on"""
    profile: Literal["redis-7.0", "valkey-9.1"] = "valkey-9.1"
    """Version for commands and texts"""
    forget: Flag = False
    """SENTINEL RESET of the other sentinels at the end; they lose replicas and failovers for up to 10 s"""
    user: str | None = None
    """ACL user of the master and its replicas. Default: the default user"""


LEAVE_S_MAX: Final = 60.0
"""After so long it leaves although a failover is under way."""


def command(request: Request = Request()) -> None:
    """Run a test sentinel beside real ones: watch a master and its replicas, vote, and fail over.

    It promotes replicas and reconfigures servers like any sentinel. There is no authentication: anyone who reaches its port can
    order a failover, so the default address is loopback. Ctrl-C ends it after a failover that it leads; a second one ends it at
    once. Other sentinels count it for their majority until SENTINEL RESET.
    """
    from cluster_core.sentinel.state import SentinelSettings

    port, duration = request.port, request.duration
    if not 0 < port < 65536 or (duration is not None and not duration > 0):
        raise InputError(f"--port {port} is 1 to 65535, --duration more than 0 s")
    settings = SentinelSettings(port=port, dialect=request.profile)
    asyncio.run(_live(settings, request.bind, _watched(request), duration, forget=request.forget))


def _watched(request: Request) -> Watched:
    """The master of the options; a sentinel, if named, supplies missing values."""
    from cluster_core.sentinel.state import Watched
    from slotscope.live.driver import learn_master, numeric_address
    from slotscope.servers.cluster import parse_address
    from slotscope.servers.node_link import Access

    monitor, join, name = request.monitor, request.join, request.name
    if (monitor is None) == (join is None):
        raise InputError("give --monitor HOST:PORT of the master, or --join HOST:PORT of a sentinel")
    given = {
        "quorum": request.quorum,
        "down_after_ms": request.down_after,
        "failover_timeout_ms": request.failover_timeout,
        "parallel_syncs": request.parallel_syncs,
    }
    chosen: dict[str, int] = {}
    if monitor is not None:
        master = parse_address(monitor)
    else:
        master, chosen = learn_master(parse_address(join or ""), Access(None, None), name)
    chosen |= {option: value for option, value in given.items() if value is not None}
    password = os.environ.get(request.password_env) or ""
    user = request.user or "" if password else ""
    ip = numeric_address(master.host, master.host)
    return Watched(name, ip, master.port, auth_user=user, auth_pass=password, **chosen)


async def _live(
    settings: SentinelSettings, bind: str, watched: Watched, duration_s: float | None, *, forget: bool
) -> None:
    from slotscope.live.driver import any_of, say, stop_event
    from slotscope.live.sentinel_member import SentinelMember

    member, stop = SentinelMember(settings, bind, watched, say), stop_event()
    await member.start()
    say(f"* sentinel {member.sentinel.my_id} listens on {bind}:{settings.port}; there is no authentication")
    try:
        await any_of(duration_s, stop)
        stop.clear()
        await _leave(member, stop, forget=forget)
    finally:
        await member.stop()
        say("* gone")


async def _leave(member: SentinelMember, stop: asyncio.Event, *, forget: bool) -> None:
    """Finish a led failover unless *stop* is set again; then leave if *forget* is set."""
    from slotscope.live.driver import any_of, ask_to_forget, say
    from slotscope.servers.node_link import Access, Address

    if member.leads():
        say("# this sentinel leads a failover: it ends when that is over; a second Ctrl-C ends it at once")
    until = time.monotonic() + LEAVE_S_MAX
    while member.leads() and not stop.is_set() and time.monotonic() < until:
        await any_of(0.2, stop)
    masters = member.sentinel.state.masters
    others = {Address(*each.address) for master in masters.values() for each in master.sentinels.values()}
    if others and forget:
        orders = [("SENTINEL", "RESET", name) for name in masters]
        for line in await asyncio.to_thread(ask_to_forget, sorted(others), "sentinels", Access(None, None), *orders):
            say(line)
    elif others:
        say(f"# {len(others)} other sentinels still count this one: SENTINEL RESET there, or --forget here")


if __name__ == "__main__":
    cli.main(command)
