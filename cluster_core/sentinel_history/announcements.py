"""What an event of a sentinel says: the text behind ``+sdown``, ``+switch-master`` and the others, read (sentinelEvent).

Most texts are ``TYPE NAME IP PORT``, of replicas and sentinels with `` @ MASTER IP PORT`` behind, and then a rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from cluster_core.sentinel.instance import Address
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel_history.evidence import LOG, Told

TEXT_CHARS_MAX: Final = 2000
CHANNEL: Final = re.compile(r"[+-][a-z][a-z0-9-]{1,60}")
PAIRING_NS: Final = 10_000_000_000
"""An event in the log and the same on the wire are no further apart: a sentinel that saves its file takes its time."""
MILLISECOND_NS: Final = 1_000_000
_TITLED: Final = ("master", "primary", "slave", "replica", "sentinel")
_VOTED: Final = re.compile(r"(\S{1,200}) voted for ([0-9a-f]{40}) (\d{1,20})$")
_DELAYED: Final = re.compile(r"Next failover delay: I will not start a failover before (.{1,60})$")


class Announcement(NamedTuple):
    """A text, read: *role* master, slave or sentinel (empty where no instance is named), *rest* what follows."""

    role: str
    name: str
    address: Address
    master: str
    master_address: Address
    rest: str

    @property
    def words(self) -> list[str]:
        """The rest, cut at blanks."""
        return self.rest.split()


NOWHERE: Final = Address("", 0)


def read_announcement(text: str) -> Announcement:
    """Read the text of an event; a text in no known form is all rest.

    >>> read_announcement("slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379 new").master
    'mymaster'
    """
    words = text[:TEXT_CHARS_MAX].split(" ")
    if len(words) < 4 or words[0] not in _TITLED or not words[3].isdigit():
        return Announcement("", "", NOWHERE, "", NOWHERE, text)
    role = {"primary": "master", "replica": "slave"}.get(words[0], words[0])
    address = Address(words[2], leading_number(words[3]))
    if len(words) >= 8 and words[4] == "@" and words[7].isdigit():
        master_address = Address(words[6], leading_number(words[7]))
        return Announcement(role, words[1], address, words[5], master_address, " ".join(words[8:]))
    return Announcement(role, words[1], address, words[1], address, " ".join(words[4:]))


class Switch(NamedTuple):
    """``+switch-master``: a name, where it was, where it is."""

    master: str
    before: Address
    after: Address


def read_switch(text: str) -> Switch | None:
    """Read the text of ``+switch-master``; None if it is none."""
    words = text.split(" ")
    if len(words) != 5 or not (words[2].isdigit() and words[4].isdigit()):
        return None
    return Switch(words[0], Address(words[1], leading_number(words[2])), Address(words[3], leading_number(words[4])))


def told_by_log(ts_ns: int, text: str) -> Told | None:
    """The event that a line of a sentinel's log tells; None for other lines.

    Two lines that are no events are told as such: ``voted`` (a vote that came in) and ``failover-delayed``.
    """
    channel, _, rest = text.partition(" ")
    if CHANNEL.fullmatch(channel):
        return Told(ts_ns, channel, rest, LOG)
    voted = _VOTED.match(text)
    if voted is not None:
        return Told(ts_ns, "voted", f"{voted[1]} {voted[2]} {voted[3]}", LOG)
    delayed = _DELAYED.match(text)
    return Told(ts_ns, "failover-delayed", delayed[1], LOG) if delayed is not None else None


def merge_told(pushed: Iterable[Told], logged: Iterable[Told]) -> list[Told]:
    """One list of the events that a subscriber got and a log tells, in order of time, each once.

    Of an event that both tell the log has the time (the push may wait for a file to be written), within its
    millisecond; a push that the log lacks (its level was too high) stays.
    """
    lines = list(logged)
    waiting: dict[tuple[str, str], list[int]] = {}
    for number, told in enumerate(lines):
        waiting.setdefault((told.channel, told.text), []).append(number)
    merged = []
    for push in pushed:
        queue = waiting.get((push.channel, push.text), [])
        at = next((at for at, line in enumerate(queue) if abs(lines[line].ts_ns - push.ts_ns) <= PAIRING_NS), None)
        if at is None:
            merged.append(push)
            continue
        line = queue.pop(at)
        told = lines[line]
        lines[line] = told._replace(ts_ns=max(told.ts_ns, min(push.ts_ns, told.ts_ns + MILLISECOND_NS - 1)))
    latest = 0
    for told in lines:
        latest = max(latest, told.ts_ns)
        merged.append(told._replace(ts_ns=latest))
    return sorted(merged, key=lambda told: told.ts_ns)
