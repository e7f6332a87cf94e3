"""What is known of one sentinel while its evidence is folded: its tables, what it showed, and the rows of that.

What a sentinel sends of its own, it sends from its timer, which runs 10 to 19 times a second.  Where nothing was sent
for longer than a period the timer ran unseen, unless the process was stopped: one that lives sends a PING a second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from cluster_core.kinds import Source
from cluster_core.sentinel.directory import find_master_at
from cluster_core.sentinel.down import silent_ms
from cluster_core.sentinel.events import Announced
from cluster_core.sentinel.failover import choice_key, why_not
from cluster_core.sentinel.instance import Address, Flag, Instance, InstanceLink
from cluster_core.sentinel.state import Periods, SentinelSettings, SentinelState
from cluster_core.sentinel.text import leading_number, matches
from cluster_core.sentinel_history.beliefs import Belief, BeliefLog, belief_of, family_of, shown_family
from cluster_core.sentinel_history.evidence import Asked, Evidence, Linked, Sent, Told
from cluster_core.sentinel_history.rows import ChoiceRow, EventRow, OpinionRow, SignRow, VoteRow

PERIOD_NS: Final = 104_000_000
"""The longest period, with what a busy machine adds."""
SAME_NS: Final = 4_000_000
STOPPED_NS: Final = 1_600_000_000
"""A process that shows nothing for so long does not run: it sends a PING a second."""

QUIET_NS: Final = 12_000_000_000
"""So long after a line of a log the timer may still change something: opinions are forgotten after five seconds."""


class Ticks:
    """The times of one sentinel's timer, from all its evidence."""

    def __init__(self, evidence: Iterable[Evidence]) -> None:
        self._seen: list[int] = []
        self._has_traffic = False
        for item in evidence:
            self._has_traffic = self._has_traffic or isinstance(item, Sent)
            if isinstance(item, Linked | Sent | Told | Asked) and (
                not self._seen or item.ts_ns - self._seen[-1] > SAME_NS
            ):
                self._seen.append(item.ts_ns)

    def between(self, after_ns: int, to_ns: int) -> Iterator[int]:
        """Times of the timer after *after_ns* up to *to_ns*, in order."""
        at = bisect_right(self._seen, after_ns)
        last = after_ns
        while last < to_ns:
            is_seen = at < len(self._seen)
            following = self._seen[at] if is_seen else to_ns
            yield from self._unseen(last, following, to_ns)
            if following > to_ns or not is_seen:
                return
            yield following
            last, at = following, at + 1

    def _unseen(self, last: int, following: int, to_ns: int) -> Iterator[int]:
        """Times between two that were seen, evenly; of a log, which says nothing while nothing happens, a few only."""
        gap = following - last
        if gap > STOPPED_NS:
            if self._has_traffic:
                return
            gap = min(gap, QUIET_NS)
        step = gap // (gap // PERIOD_NS + 1)
        for turn in range(1, gap // PERIOD_NS + 1):
            if last + turn * step > to_ns:
                return
            yield last + turn * step

    def is_stopped(self, ts_ns: int) -> int | None:
        """When a process that does not run at *ts_ns* goes on; None if it runs."""
        at = bisect_right(self._seen, ts_ns)
        if self._has_traffic and 0 < at < len(self._seen) and self._seen[at] - self._seen[at - 1] > STOPPED_NS:
            return self._seen[at]
        return None


MS_NS: Final = 1_000_000
KEEPS_OPINIONS: Final = (9, 1)
"""From this version on Valkey forgets what others said only while the master is down; Redis always."""
KNOWN_CHANNEL: Final = "+sdown"
"""Who hears of this event hears of all that matter."""


ANSWER_KEPT_MS: Final = 5000
"""What another sentinel said of the master is forgotten then (S8)."""


class _NoChance:
    """Stands where a sentinel draws a random delay; nothing here hangs on it."""

    def random(self) -> float:
        return 0.0


class FoldState:
    """One sentinel's tables, as the machine keeps them, and the rows that its evidence gives."""

    def __init__(
        self, observer: str, ticks: Ticks, *, down_after_ms: int | None = None, quorum: int | None = None
    ) -> None:
        self.observer = observer
        self.state = SentinelState(SentinelSettings(), cast(Any, _NoChance()), 0)
        self.state.my_id = observer
        self.knows_down_after = down_after_ms is not None
        if down_after_ms is not None:
            self.state.periods.default_down_after_ms = down_after_ms
        self.default_quorum = quorum
        self.log = BeliefLog(observer)
        self.events: list[EventRow] = []
        self.votes: list[VoteRow] = []
        self.opinions: list[OpinionRow] = []
        self.signs: list[SignRow] = []
        self.choices: list[ChoiceRow] = []
        self.was_untold = False
        """There was a time in which none of its events could be known."""
        self.silences_ms: list[int] = []
        """For how long each instance had not answered when it was down."""
        self.own_epoch = 0
        """The epoch that it began itself, as its hello messages show."""
        self.now_ns = 0
        self.is_running = False
        self.version: tuple[int, ...] = ()
        """Of Valkey; that of Redis, and one that is not known, is before all of them."""
        self.ticks = ticks
        self.links: dict[int, InstanceLink] = {}
        self._touched: set[str] = set()
        self.waiting: dict[Address, list[Linked]] = {}
        self._listeners: dict[int, tuple[str, ...]] = {}
        self._has_log = False
        self._has_version = False
        self._has_traffic = False
        self._places: dict[Address, str] = {}

    @property
    def keeps_opinions(self) -> bool:
        """Whether it forgets what others said only while the master is down for it."""
        return self.version >= KEEPS_OPINIONS

    @property
    def is_told(self) -> bool:
        """Whether its events are known now, from a subscriber or a log."""
        return self._has_log or any(
            matches(pattern.encode(), KNOWN_CHANNEL.encode()) for found in self._listeners.values() for pattern in found
        )

    def at_time(self, ts_ns: int) -> None:
        """It is *ts_ns*; time does not go back."""
        self.now_ns = max(self.now_ns, ts_ns)
        self.state.now_ms = self.now_ns // MS_NS

    def note(self, cause: str, source: Source, names: Iterable[str] | None = None) -> None:
        """Keep what it believes from now on of the masters *names* and their families, or of all."""
        for name in [*self.state.masters, *self.log.masters] if names is None else names:
            master = self.state.masters.get(name)
            beliefs: Iterable[Belief] = ()
            if master is not None:
                self._places[master.address] = name
                beliefs = map(belief_of, shown_family(master))
            self.log.note(self.now_ns, name, beliefs, cause, source)

    def touch(self, *masters: Instance | None) -> None:
        """Only these masters and their families may have changed."""
        self._touched.update(one.name for one in masters if one is not None)

    def take_announced(self) -> None:
        """What the machine's functions announced, where nothing else tells it."""
        out, self.state.out = self.state.out, []
        if not self.is_told:
            for effect in out:
                if isinstance(effect, Announced):
                    self.events.append(EventRow(self.now_ns, self.observer, effect.channel, effect.text, Source.RULE))

    # -- instances -------------------------------------------------------------------------------------------------

    def instances(self) -> Iterable[Instance]:
        """All records; replicas that do not want to be announced are in no answer."""
        for master in self.state.masters.values():
            yield from shown_family(master)

    def at(self, address: Address) -> list[Instance]:
        """The records of an address."""
        return [one for master in self.state.masters.values() for one in family_of(master) if one.address == address]

    # -- time ------------------------------------------------------------------------------------------------------

    def mark_down(self, instance: Instance, is_down: bool) -> None:
        """It shows that it holds *instance* for down, or not."""
        if is_down is not bool(instance.flags & Flag.S_DOWN):
            self.state.tell_of("#", "+sdown" if is_down else "-sdown", instance)
        if is_down and not instance.flags & Flag.S_DOWN:
            self.silences_ms.append(silent_ms(instance, self.state.now_ms))
            last_ms = instance.link.available_ms if self._has_traffic else None
            self.signs.append(SignRow(self.now_ns, self.observer, str(instance.address), last_ms and last_ms * MS_NS))
            instance.flags |= Flag.S_DOWN
            instance.s_down_since_ms = self.state.now_ms
            self.forget_opinions(instance)
        elif not is_down:
            instance.flags &= ~(Flag.S_DOWN | Flag.SCRIPT_KILL_SENT)

    def explain(self, master: Instance, chosen: Instance | None) -> None:
        """It chose a replica to promote, or found none."""
        if self.choices and self.choices[-1].chosen and chosen is not None and chosen.flags & Flag.PROMOTED:
            return  # told twice
        why, against = explain_choice(master, chosen, self.state.periods, self.state.now_ms)
        name = str(chosen.address) if chosen is not None else ""
        self.choices.append(ChoiceRow(self.now_ns, self.observer, master.name, name, why, against))

    def master_once_at(self, ip: str, port: str) -> Instance | None:
        """The master at an address, or that was there: an answer may come when it has moved."""
        name = self._places.get(Address(ip, leading_number(port)))
        return self.master_at(ip, port) or self.state.masters.get(name or "")

    def master_at(self, ip: str, port: str) -> Instance | None:
        """The master at an address, as texts name it."""
        return find_master_at(self.state, ip, leading_number(port))

    def forget_opinions(self, master: Instance) -> None:
        """What others said of *master* long ago counts no more (S8); Valkey 9.1 sees to that only while it is down."""
        if self.keeps_opinions and (not master.flags & Flag.S_DOWN or master.flags & Flag.FORCE_FAILOVER):
            return
        for sentinel in master.sentinels.values():
            if self.state.now_ms - sentinel.master_down_reply_ms > ANSWER_KEPT_MS:
                sentinel.flags &= ~Flag.MASTER_DOWN
                sentinel.leader = ""

    def quorum_of(self, master: Instance) -> int:
        """Its quorum, as far as it was told, else the majority of the sentinels that are known."""
        return master.quorum or (len(master.sentinels) + 1) // 2 + 1

    def mark_agreed(self, master: Instance, agreed: bool, agreeing: int) -> None:
        """Enough sentinels hold *master* for down, or no longer (S7)."""
        if agreed and not master.flags & Flag.O_DOWN:
            self.state.tell_of("#", "+odown", master, f"#quorum {agreeing}/{self.quorum_of(master)}")
            master.flags |= Flag.O_DOWN
            master.o_down_since_ms = self.state.now_ms
        elif not agreed and master.flags & Flag.O_DOWN:
            self.state.tell_of("#", "-odown", master)
            master.flags &= ~Flag.O_DOWN


def explain_choice(
    master: Instance, chosen: Instance | None, periods: Periods, now_ms: int
) -> tuple[str, tuple[str, ...]]:
    """What decided for *chosen* (None: no replica could be promoted) at *now_ms*, and what spoke against each other one."""
    against = []
    fit = []
    for replica in sorted(master.replicas.values(), key=choice_key):
        if replica is chosen:
            continue
        reason = why_not(replica, master, periods, now_ms)
        if reason or chosen is None:
            against.append(f"{replica.address}: {reason or 'it could have been promoted'}")
        else:
            fit.append(replica)
            against.append(f"{replica.address}: {_worse(replica, chosen)}")
    if chosen is None:
        return "no replica can be promoted", tuple(against)
    return _best(chosen, fit), tuple(against)


def _best(chosen: Instance, others: list[Instance]) -> str:
    if not others:
        return "it is the only one that can be promoted"
    if all(other.priority > chosen.priority for other in others):
        return f"it has the lowest priority number, {chosen.priority}"
    rivals = [other for other in others if other.priority == chosen.priority]
    if all(other.offset < chosen.offset for other in rivals):
        return f"it has the most data, offset {chosen.offset}"
    return f"its run id comes first among those with priority {chosen.priority} and offset {chosen.offset}"


def _worse(other: Instance, chosen: Instance) -> str:
    if other.priority != chosen.priority:
        return f"priority {other.priority}"
    if other.offset != chosen.offset:
        return f"offset {other.offset}"
    return "a later run id"
