"""A member of a real cluster: the machine that replays captures and simulates, with sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable

if TYPE_CHECKING:
    from cluster_core.gossip.profile import Profile
    from cluster_core.node.settings import NodeSettings
    from slotscope.live.driver import Place
    from slotscope.live.member import Member
    from slotscope.servers.node_link import Access, Address


class Given(NamedTuple):
    """What the user wants, whatever the cluster does; None: as the cluster."""

    profile: Profile | None
    node_timeout_ms: int | None


def command(
    *,
    join: str | None = None,
    port: int = 7777,
    bus_port: int = 0,
    bind: str = "127.0.0.1",
    profile: str | None = None,
    node_timeout: int | None = None,
    folder: str | None = None,
    duration: float | None = None,
    user: str | None = None,
    password_env: str = "SLOTSCOPE_PASSWORD",
    debug: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> None:
    """Be a node of a real cluster: join it, answer pings, see nodes fail, vote, and serve a slot that is given to it.

    Follows the rules of the cluster's servers and their node timeout: it asks the nodes (INFO, CONFIG GET) and looks at what they
    send. What is given by hand stays, and a difference is said.

    Keeps data in memory only and never replicates. The cluster bus has no authentication: whoever reaches the bus port can
    change what nodes believe, so it binds to loopback unless told otherwise. Ctrl-C leaves the cluster: every node is told to
    forget this one. While it owns slots it stays and says so; a second Ctrl-C ends it all the same, as if it had died.

    Parameters
    ----------
    join
        HOST:PORT of a node of the cluster, by its client port. Default: wait to be met.
    port
        Port for clients.
    bus_port
        Port for the bus. Default: port + 10000.
    bind
        Address to listen on.
    profile
        Whose rules to follow: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1. Default: the cluster's;
        valkey-9.1 as long as nothing is known of it.
    node_timeout
        cluster-node-timeout in milliseconds. Default: the cluster's; 15000 as long as nothing is known of it.
    folder
        Where nodes.conf is kept, and read at the start. Default: it is not kept.
    duration
        Seconds after which to end. Default: until Ctrl-C.
    user
        ACL user for INFO, CONFIG GET and, at the end, CLUSTER FORGET. Default: the default user.
    password_env
        Environment variable that holds its password; not set: no password.
    debug
        Show the trace of an error.
    """
    if not 0 < port < 65536 or not 0 <= bus_port < 65536 or (not bus_port and port + 10000 > 65535):
        raise InputError(f"--port {port}: ports are 1 to 65535, and the bus needs one, too (--bus-port)")
    if (node_timeout is not None and not 100 <= node_timeout <= 86_400_000) or (
        duration is not None and not duration > 0
    ):
        raise InputError("--node-timeout is 100 ms to a day, --duration more than 0 s")
    place = Path(folder) if folder is not None else None
    if place is not None and not place.is_dir():
        raise InputError(f"{folder}: no such folder")
    from cluster_core.gossip.profile import PROFILES
    from cluster_core.node.settings import NodeSettings
    from slotscope.live.driver import Place
    from slotscope.servers.cluster import parse_address
    from slotscope.servers.node_link import Access

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
    access = Access(user, os.environ.get(password_env))
    asyncio.run(_live(settings, given, Place(bind, place), first, access, duration))


async def _live(
    settings: NodeSettings,
    given: Given,
    place: Place,
    first: Address | None,
    access: Access,
    duration_s: float | None,
) -> None:
    from slotscope.live.in_step import Step
    from slotscope.live.member import Member

    member = Member(settings, place, _tell)
    await member.start()
    me = member.node.view.myself.id
    _tell(
        f"* node {me} listens on {place.bind}:{settings.port}, bus {settings.bus_port}; the bus has no authentication"
    )
    try:
        step = Step(member, access, _tell, given.profile, given.node_timeout_ms)
        if first is not None:
            await step.ask(first)
            said = member.order("CLUSTER", "MEET", await _numeric(first.host), str(first.port))
            if said != "OK":
                raise InputError(f"--join {first}: {said}")
        stepping = asyncio.create_task(step.run())
        await _until_told(duration_s)
        stepping.cancel()
        await _leave(member, access)
    finally:
        await member.stop()
        _tell("* gone")


async def _leave(member: Member, access: Access) -> None:
    """Have every node forget this one; first wait until it owns no slots, or until we are told once more."""
    from slotscope.live.farewell import say_farewell

    slots = member.owned_slots()
    if slots:
        _tell(f"# this node owns {slots} slots: move them away, then it leaves; a second Ctrl-C ends it at once")
        while member.owned_slots() and not await _until_told(0.5):
            pass
    if not member.owned_slots():
        for line in await asyncio.to_thread(say_farewell, member.node.view.myself.id, member.known_addresses(), access):
            _tell(line)


async def _numeric(host: str) -> str:
    """CLUSTER MEET takes addresses, people write names."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError as error:
        raise InputError(f"--join {host}: {error.strerror or error}") from error
    return str(found[0][4][0])


async def _until_told(duration_s: float | None) -> bool:
    """Wait for SIGINT, SIGTERM or the end of the time; return whether it was a signal."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), duration_s)
    return ended.is_set()


def _tell(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(line)}\n")


def main(argv: Sequence[str] | None = None) -> None:
    """What ``python -m jobs.node`` calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
