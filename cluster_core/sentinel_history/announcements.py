"""Parse events in sentinel logs, and derive links and opinions from the logs of all sentinels.

Most events are ``TYPE NAME IP PORT``, for replicas and sentinels followed by `` @ MASTER IP PORT``, then a rest. Logs
show no connections or queries. An instance in SDOWN is assumed disconnected. A sentinel in SDOWN asks all others each
second, and they answer according to their own logs (S8).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster_core.sentinel.instance import Address
from cluster_core.sentinel.text import leading_number
from cluster_core.sentinel_history.evidence import Assumed, Evidence, Opined, Started, Told

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

    @property
    def words(self) -> list[str]:
        """Return the rest, split at blanks."""
        return self.rest.split()


NOWHERE: Final = Address("", 0)


def read_announcement(text: str) -> Announcement:
    """Parse the text of an event; unknown text is returned as rest.

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
    """``+switch-master``: name, old and new address."""

    master: str
    before: Address
    after: Address


def read_switch(text: str) -> Switch | None:
    """Parse ``+switch-master``; None for other text."""
    words = text.split(" ")
    if len(words) != 5 or not (words[2].isdigit() and words[4].isdigit()):
        return None
    return Switch(words[0], Address(words[1], leading_number(words[2])), Address(words[3], leading_number(words[4])))


def told_by_log(ts_ns: int, text: str) -> Told | None:
    """Return the event of a sentinel's log line; None for other lines.

    Two other lines count as events: ``voted`` (a vote received) and ``failover-delayed``.
    """
    channel, _, rest = text.partition(" ")
    if CHANNEL.fullmatch(channel):
        return Told(ts_ns, channel, rest)
    voted = _VOTED.match(text)
    if voted is not None:
        return Told(ts_ns, "voted", f"{voted[1]} {voted[2]} {voted[3]}")
    delayed = _DELAYED.match(text)
    return Told(ts_ns, "failover-delayed", delayed[1]) if delayed is not None else None


TICK_NS: Final = 76_000_000
"""Average timer period: a new instance is connected at the next run."""
RETRY_NS: Final = 550_000_000
"""Average wait until a failing link is retried (once per second)."""
ASK_NS: Final = 1_040_000_000
"""Ask period: one second, and the rest of a timer period."""
ASKS_MAX: Final = 600
"""Maximum assumed queries per failure."""
INFO_NS: Final = 2_000_000
"""Time from connection to the INFO reply."""


@dataclass(slots=True)
class _Doubt:
    """A period of SDOWN of the master at *address* (*to_ns* None: until the end)."""

    master: str
    address: Address
    from_ns: int
    to_ns: int | None = None
    tries_ns: list[int] = field(default_factory=list)
    agreed_ns: int | None = None
    """Start of ODOWN, if it lasted until the end: before it, too few agreed."""
    quorum: int = 0


def deduce_from_logs(logged: Mapping[str, Sequence[Evidence]]) -> dict[str, list[Evidence]]:
    """Return evidence on each sentinel, by sentinel, derived from all logs; unordered."""
    told = {runid: [item for item in items if isinstance(item, Told)] for runid, items in logged.items()}
    doubts = {runid: list(_doubts(items)) for runid, items in told.items()}
    votes = {runid: [item for item in items if item.channel == "+vote-for-leader"] for runid, items in told.items()}
    after_ms = estimate_from_switches(told)
    found: dict[str, list[Evidence]] = {}
    for runid, items in told.items():
        begun = [item.ts_ns for item in logged[runid] if isinstance(item, Started)]
        known = {words.name for item in items if (words := read_announcement(item.text)).role == "sentinel"}
        found[runid] = [*_links(items, begun, after_ms), *_opinions(runid, known & told.keys(), doubts, votes)]
    return found


def estimate_from_switches(told: Mapping[str, Sequence[Told]]) -> int:
    """Estimate ``down-after-milliseconds`` from the SDOWN of the old master after a switch.

    0 if no log shows one.
    """
    silences = []
    for items in told.values():
        switched: dict[Address, int] = {}
        for item in items:
            switch = read_switch(item.text) if item.channel == "+switch-master" else None
            if switch is not None:
                switched = {switch.before: item.ts_ns}
            elif item.channel in ("+sdown", "-role-change", "+role-change"):
                since_ns = switched.pop(read_announcement(item.text).address, None)
                if since_ns is not None and item.channel == "+sdown":
                    silences.append((item.ts_ns - since_ns) // 1_000_000)
    return min(silences, default=0)


def _doubts(items: Sequence[Told]) -> Iterable[_Doubt]:
    open_: dict[str, _Doubt] = {}
    for item in items:
        said, switch = read_announcement(item.text), None
        if item.channel == "+switch-master":
            switch = read_switch(item.text)
        name = switch.master if switch is not None else said.name if said.role == "master" else ""
        doubt = open_.get(name)
        if item.channel == "+sdown" and name and doubt is None:
            open_[name] = _Doubt(name, said.address, item.ts_ns)
        elif item.channel == "+try-failover" and doubt is not None:
            doubt.tries_ns.append(item.ts_ns)
        elif item.channel in ("+odown", "-odown") and doubt is not None:
            doubt.agreed_ns = item.ts_ns if item.channel == "+odown" else None
            doubt.quorum = max(doubt.quorum, leading_number(said.rest.rpartition("/")[2]))
        elif item.channel in ("-sdown", "+switch-master", "+reset-master", "-monitor") and doubt is not None:
            doubt.to_ns = item.ts_ns
            yield open_.pop(name)
    yield from open_.values()


# -- links -------------------------------------------------------------------------------------------------------------


def _links(items: Sequence[Told], begun: Sequence[int], after_ms: int) -> Iterable[Evidence]:
    """Yield connections: established soon after discovery, except to instances that are down."""
    down: set[Address] = set()
    everybody: set[Address] = set()
    starts = sorted(begun)
    for item in items:
        said = read_announcement(item.text)
        while starts and starts[0] <= item.ts_ns:
            start_ns = starts.pop(0)
            yield from (Assumed(start_ns + TICK_NS, one, True) for one in sorted(everybody - down))
        if item.channel == "+switch-master" and (switch := read_switch(item.text)) is not None:
            wait_ns = RETRY_NS if switch.before in down else TICK_NS
            yield Assumed(item.ts_ns + wait_ns, switch.after, True)
            continue
        if said.address == NOWHERE:
            continue
        everybody.add(said.address)
        if item.channel == "+sdown":
            down.add(said.address)
            yield Assumed(
                item.ts_ns - after_ms * 1_000_000 - TICK_NS // 2 if after_ms else item.ts_ns, said.address, False
            )
        elif item.channel in ("-sdown", "-role-change", "+role-change", "+reboot"):
            down.discard(said.address)
            yield Assumed(item.ts_ns - INFO_NS, said.address, True)
        elif item.channel == "+monitor" and said.address not in down:
            yield Assumed(item.ts_ns + INFO_NS, said.address, True)  # the timer runs right after the start
        elif item.channel in ("+slave", "+sentinel") and said.address not in down:
            yield Assumed(item.ts_ns + TICK_NS, said.address, True)


# -- opinions ----------------------------------------------------------------------------------------------------------


def _opinions(
    runid: str, others: set[str], doubts: Mapping[str, Sequence[_Doubt]], votes: Mapping[str, Sequence[Told]]
) -> Iterable[Evidence]:
    """Yield the answers of other sentinels according to their logs."""
    for doubt in doubts[runid]:
        for ask_ns in _asks(doubt):
            agreeing = {other for other in sorted(others) if _agrees(doubts[other], doubt, ask_ns)}
            is_agreed = doubt.agreed_ns is not None and ask_ns > doubt.agreed_ns
            if is_agreed and 1 + len(agreeing) < doubt.quorum:
                continue  # their log would show it
            for other in sorted(others):
                asks_vote = bool(doubt.tries_ns) and ask_ns >= doubt.tries_ns[0]
                leader, epoch = _vote(votes[other], ask_ns) if asks_vote else ("", 0)
                yield Opined(ask_ns, other, doubt.master, other in agreeing, leader, epoch)


def _agrees(theirs: Sequence[_Doubt], doubt: _Doubt, ask_ns: int) -> bool:
    return any(
        (one.master, one.address) == (doubt.master, doubt.address)
        and one.from_ns <= ask_ns
        and (one.to_ns is None or ask_ns < one.to_ns)
        for one in theirs
    )


def _asks(doubt: _Doubt) -> list[int]:
    """Return the query times: at once, every second, and at the start of an election."""
    asks: list[int] = []
    last_ns = doubt.from_ns
    tries = list(doubt.tries_ns)
    end_ns = doubt.to_ns if doubt.to_ns is not None else doubt.from_ns + ASKS_MAX * ASK_NS
    while last_ns < end_ns and len(asks) < ASKS_MAX:
        asks.append(last_ns)
        following = last_ns + ASK_NS
        if tries and tries[0] + INFO_NS <= following:
            following = max(tries.pop(0) + INFO_NS, last_ns + 1)
        last_ns = following
    return asks


def _vote(votes: Sequence[Told], ask_ns: int) -> tuple[str, int]:
    """Return the vote that a sentinel replies at *ask_ns*: its last one."""
    at = bisect_right([vote.ts_ns for vote in votes], ask_ns + INFO_NS)
    if not at:
        return "", 0
    leader, _, epoch = votes[at - 1].text.partition(" ")
    return leader, leading_number(epoch)
