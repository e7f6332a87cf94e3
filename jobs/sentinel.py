"""A sentinel beside real ones: the machine that simulates failovers, with sockets."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from slotscope.runtime import cli
from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from cluster_core.sentinel.settings import SentinelSettings
    from slotscope.live.driver import Place
    from slotscope.live.sentinel_member import SentinelMember

LEAVE_S_MAX: Final = 60.0
"""After so long it leaves although a failover is under way."""


def command(
    *,
    monitor: str | None = None,
    join: str | None = None,
    name: str = "mymaster",
    quorum: int | None = None,
    down_after: int | None = None,
    failover_timeout: int | None = None,
    parallel_syncs: int | None = None,
    port: int = 26380,
    bind: str = "127.0.0.1",
    profile: Literal["redis-7.0", "valkey-9.1"] = "valkey-9.1",
    folder: str | None = None,
    duration: float | None = None,
    forget: Annotated[bool, Parameter(negative=())] = False,
    user: str | None = None,
    password_env: str = "SLOTSCOPE_PASSWORD",
    debug: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> None:
    """Be a sentinel beside real ones: watch a master and its replicas, agree that it is down, vote, and fail over.

    It promotes replicas and sends servers to other masters, as any sentinel does. There is no authentication: whoever reaches
    its port can order a failover, so it binds to loopback unless told otherwise. Ctrl-C ends it when a failover that it leads
    is over; a second one at once. Other sentinels still count it then, for their majority, until they are reset.

    Parameters
    ----------
    monitor
        HOST:PORT of the master.
    join
        HOST:PORT of a sentinel that watches the master: where the master is, and options not given here, are asked of it.
    name
        What the sentinels call the master.
    quorum
        How many sentinels must hold the master for down. Default: 2.
    down_after
        down-after-milliseconds. Default: 30000.
    failover_timeout
        failover-timeout in milliseconds. Default: 180000.
    parallel_syncs
        How many replicas at a time are sent to a new master. Default: 1.
    port
        Port to listen on.
    bind
        Address to listen on.
    profile
        Whose commands and texts clients find.
    folder
        Where sentinel.conf is kept, and read at the start before any option here. Default: it is not kept.
    duration
        Seconds after which to end. Default: until Ctrl-C.
    forget
        At the end, have the other sentinels forget this one with SENTINEL RESET. They forget replicas and failovers with it, and
        find the replicas again within ten seconds.
    user
        ACL user of the master and its replicas. Default: the default user.
    password_env
        Environment variable that holds its password; not set: no password.
    debug
        Show the trace of an error.
    """
    from cluster_core.sentinel.settings import SentinelSettings
    from slotscope.live.foreground import place_at
    from slotscope.live.sentinel_member import SentinelMember

    if not 0 < port < 65536 or (duration is not None and not duration > 0):
        raise InputError(f"--port {port} is 1 to 65535, --duration more than 0 s")
    place = place_at(bind, folder)
    options = {"quorum": quorum, "down-after-milliseconds": down_after, "failover-timeout": failover_timeout}
    options |= {"parallel-syncs": parallel_syncs}
    login = (user, os.environ.get(password_env))
    config = "" if SentinelMember.saved_config(place.folder) else _first_config(monitor, join, name, options, login)
    asyncio.run(_live(SentinelSettings(port=port, dialect=profile), place, config, duration, forget=forget))


def _first_config(
    monitor: str | None,
    join: str | None,
    name: str,
    options: dict[str, int | None],
    login: tuple[str | None, str | None],
) -> str:
    """The sentinel.conf that the options mean; what they leave open is asked of a sentinel, if one is named."""
    from cluster_core.sentinel.config_file import quote_word
    from slotscope.live.foreground import numeric_address
    from slotscope.live.sentinel_neighbours import learn_master
    from slotscope.servers.cluster import parse_address
    from slotscope.servers.node_link import Access

    if (monitor is None) == (join is None):
        raise InputError("give --monitor HOST:PORT of the master, or --join HOST:PORT of a sentinel")
    chosen: dict[str, int] = {}
    if monitor is not None:
        master = parse_address(monitor)
    else:
        master, chosen = learn_master(parse_address(join or ""), Access(None, None), name)
    chosen |= {option: value for option, value in options.items() if value is not None}
    shown, (user, password) = quote_word(name), login
    lines = [f"monitor {shown} {numeric_address(master.host, master.host)} {master.port} {chosen.pop('quorum', 2)}"]
    lines += [f"{option} {shown} {value}" for option, value in chosen.items()]
    lines += [f"auth-user {shown} {quote_word(user)}"] if user and password else []
    lines += [f"auth-pass {shown} {quote_word(password)}"] if password else []
    return "".join(f"sentinel {line}\n" for line in lines)


async def _live(
    settings: SentinelSettings, place: Place, config: str, duration_s: float | None, *, forget: bool
) -> None:
    from slotscope.live.foreground import any_of, say, told_to_end
    from slotscope.live.sentinel_member import SentinelMember

    member, told = SentinelMember(settings, place, config, say), told_to_end()
    await member.start()
    say(f"* sentinel {member.sentinel.my_id} listens on {place.bind}:{settings.port}; there is no authentication")
    try:
        await any_of(duration_s, told, member.ended)
        if not member.ended.is_set():
            told.clear()
            await _leave(member, told, forget=forget)
    finally:
        await member.stop()
        say("* gone")


async def _leave(member: SentinelMember, told: asyncio.Event, *, forget: bool) -> None:
    """Finish what we lead, unless we are told once more; then say goodbye if that is wanted."""
    from slotscope.live.foreground import any_of, say
    from slotscope.live.sentinel_neighbours import ask_to_forget
    from slotscope.servers.node_link import Access, Address

    if member.leads():
        say("# this sentinel leads a failover: it ends when that is over; a second Ctrl-C ends it at once")
    until = time.monotonic() + LEAVE_S_MAX
    while member.leads() and not told.is_set() and time.monotonic() < until:
        await any_of(0.2, told)
    masters = member.sentinel.state.masters
    others = {Address(*each.address) for master in masters.values() for each in master.sentinels.values()}
    if others and forget:
        for line in await asyncio.to_thread(ask_to_forget, sorted(others), Access(None, None), list(masters)):
            say(line)
    elif others:
        say(f"# {len(others)} other sentinels still count this one: SENTINEL RESET there, or --forget here")


def main(argv: Sequence[str] | None = None) -> None:
    """What ``python -m jobs.sentinel`` calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
