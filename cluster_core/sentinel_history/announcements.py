"""Parse events in sentinel logs.

Most events are ``TYPE NAME IP PORT``, for replicas and sentinels followed by `` @ MASTER IP PORT``, then a rest.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cluster_core.sentinel.instance import Address, leading_number
from cluster_core.sentinel_history.evidence import LoggedEvent

TEXT_CHARS_MAX: Final = 2000
CHANNEL: Final = re.compile(r"[+-][a-z][a-z0-9-]{1,60}")
_TITLED: Final = ("master", "primary", "slave", "replica", "sentinel")
_VOTED: Final = re.compile(r"(\S{1,200}) voted for ([0-9a-f]{40}) (\d{1,20})$")
_DELAYED: Final = re.compile(r"Next failover delay: I will not start a failover before (.{1,60})$")


class Announcement(NamedTuple):
    """A parsed text: *role* is master, slave or sentinel (empty without an instance), *rest* the remaining text."""

    role: str
    name: str
    address: Address
    master: str
    master_address: Address
    rest: str


NOWHERE: Final = Address("", 0)


def read_announcement(text: str) -> Announcement:
    """Parse the text of an event; unknown text is returned as rest.

    >>> read_announcement("slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379 new").master
    'mymaster'
    """
    fields = text[:TEXT_CHARS_MAX].split(" ")
    if len(fields) < 4 or fields[0] not in _TITLED or not fields[3].isdigit():
        return Announcement("", "", NOWHERE, "", NOWHERE, text)
    role = {"primary": "master", "replica": "slave"}.get(fields[0], fields[0])
    address = Address(fields[2], leading_number(fields[3]))
    if len(fields) >= 8 and fields[4] == "@" and fields[7].isdigit():
        master_address = Address(fields[6], leading_number(fields[7]))
        return Announcement(role, fields[1], address, fields[5], master_address, " ".join(fields[8:]))
    return Announcement(role, fields[1], address, fields[1], address, " ".join(fields[4:]))


class Switch(NamedTuple):
    """``+switch-master``: name, old and new address."""

    master: str
    before: Address
    after: Address


def read_switch(text: str) -> Switch | None:
    """Parse ``+switch-master``; None for other text."""
    fields = text.split(" ")
    if len(fields) != 5 or not (fields[2].isdigit() and fields[4].isdigit()):
        return None
    return Switch(
        fields[0], Address(fields[1], leading_number(fields[2])), Address(fields[3], leading_number(fields[4]))
    )


def read_event(ts_ns: int, text: str) -> LoggedEvent | None:
    """Return the event of a sentinel's log line; None for other lines.

    Two other lines count as events: ``voted`` (a vote received) and ``failover-delayed``.
    """
    channel, _, rest = text.partition(" ")
    if CHANNEL.fullmatch(channel):
        return LoggedEvent(ts_ns, channel, rest)
    voted = _VOTED.match(text)
    if voted is not None:
        return LoggedEvent(ts_ns, "voted", f"{voted[1]} {voted[2]} {voted[3]}")
    delayed = _DELAYED.match(text)
    return LoggedEvent(ts_ns, "failover-delayed", delayed[1]) if delayed is not None else None
