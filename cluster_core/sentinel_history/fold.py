"""What one sentinel believed, folded from what is known of it: the tables and rules of the machine, fed with evidence.

The machine's own functions (`cluster_core.sentinel`) take what came in: INFO, hello messages, answers.  What the sentinel
does at its timer and by chance is not guessed where it says so itself: in its events (to a subscriber, or in its log),
in the commands that it sends and in its answers.  Only where no event can be known, S_DOWN and O_DOWN are decided by the
rules, at the times of its timer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from cluster_core.sentinel.commands.patterns import matches
from cluster_core.sentinel.directory import add_master, add_replica, add_sentinel, find_master_at, remove_master
from cluster_core.sentinel.discovery import take_hello
from cluster_core.sentinel.down import silent_ms
from cluster_core.sentinel.events import Announced
from cluster_core.sentinel.hello import Hello, parse_hello
from cluster_core.sentinel.instance import (
    PROMOTED,
    S_DOWN,
    SCRIPT_KILL_SENT,
    SENTINEL,
    Address,
    Instance,
    InstanceLink,
)
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel.roles import take_info
from cluster_core.sentinel.settings import SentinelSettings
from cluster_core.sentinel.state import SentinelState
from cluster_core.sentinel_history import connections, own_words, restart, timer, told_events
from cluster_core.sentinel_history.beliefs import Belief, BeliefLog, Span, belief_of, family_of, shown_family
from cluster_core.sentinel_history.choices import explain_choice
from cluster_core.sentinel_history.evidence import (
    CAPTURE,
    LOG,
    POLL,
    Answered,
    Asked,
    Assumed,
    Evidence,
    Heard,
    Linked,
    Listened,
    Opined,
    Polled,
    Sent,
    Started,
    Stopped,
    Told,
    Unlinked,
)
from cluster_core.sentinel_history.rows import ChoiceRow, EventRow, OpinionRow, SignRow, VoteRow
from cluster_core.sentinel_history.ticks import Ticks

MS_NS: Final = 1_000_000
MASTERS_MAX: Final = 1000
"""A sentinel that is said to watch more of them is a fake: the oldest are given up."""
VALID_PONGS: Final = (b"PONG", b"LOADING", b"MASTERDOWN")
KEEPS_OPINIONS: Final = (9, 1)
"""From this version on Valkey forgets what others said only while the master is down; Redis always."""
_VERSION: Final = re.compile(rb"valkey_version:(\d{1,4})\.(\d{1,4})")
WITHOUT_BELIEFS: Final = ("+new-epoch", "+vote-for-leader", "+tilt", "-tilt", "failover-delayed")
"""Events that change nothing of what is shown of an instance."""
KNOWN_CHANNEL: Final = "+sdown"
"""Who hears of this event hears of all that matter."""


class _NoChance:
    """Stands where a sentinel draws a random delay; nothing here hangs on it."""

    def random(self) -> float:
        return 0.0


class SentinelFold:
    """Feed it the evidence of one sentinel in order of time; `finish` returns what it believed."""

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

    # -- the way through -------------------------------------------------------------------------------------------

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

    def begin(self, ts_ns: int, hellos: Iterable[Hello]) -> None:
        """The masters that its first hello messages name are those it begins with at *ts_ns*."""
        self.at_time(ts_ns)
        self.is_running = True
        for hello in hellos:
            if hello.master_name not in self.state.masters:
                master = self.add_master(hello.master_name, Address(hello.master_ip, hello.master_port))
                master.config_epoch = hello.master_config_epoch
            self.state.current_epoch = max(self.state.current_epoch, hello.current_epoch)
        self.note("hello", CAPTURE)

    def begin_amid(self, targets: Iterable[Address], sentinels: Mapping[Address, str]) -> None:
        """It ran before the evidence begins, with connections to *targets*: to *sentinels*, its master, and replicas."""
        for master in self.state.masters.values():
            for target in targets:
                if target in sentinels:
                    add_sentinel(self.state, master, *target, sentinels[target])
                elif not self.at(target):
                    add_replica(self.state, master, *target)
        self.note("connection", CAPTURE)

    def handle(self, item: Evidence) -> None:
        """Take the next piece of evidence."""
        if self.is_running:
            for tick_ns in self.ticks.between(self.now_ns, item.ts_ns):
                timer.run_timer(self, tick_ns)
        self.at_time(item.ts_ns)
        if not self.is_running and isinstance(item, Linked | Told | Polled | Sent):
            restart.begin_again(self)
        self._touched = set()
        cause, source = self._HANDLERS[type(item)](self, item)
        if cause:
            self.note(cause, source, self._touched or None)
        self.take_announced()

    def finish(self, ts_ns: int) -> list[Span]:
        """The evidence ends at *ts_ns*."""
        if self.is_running:
            for tick_ns in self.ticks.between(self.now_ns, ts_ns):
                timer.run_timer(self, tick_ns)
        return self.log.finish()

    def at_time(self, ts_ns: int) -> None:
        """It is *ts_ns*; time does not go back."""
        self.now_ns = max(self.now_ns, ts_ns)
        self.state.now_ms = self.now_ns // MS_NS

    def note(self, cause: str, source: str, names: Iterable[str] | None = None) -> None:
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
                    self.events.append(EventRow(self.now_ns, self.observer, effect.channel, effect.text, "rule"))

    # -- instances -------------------------------------------------------------------------------------------------

    def instances(self) -> Iterable[Instance]:
        """All records; replicas that do not want to be announced are in no answer."""
        for master in self.state.masters.values():
            yield from shown_family(master)

    def at(self, address: Address) -> list[Instance]:
        """The records of an address."""
        return [one for master in self.state.masters.values() for one in family_of(master) if one.address == address]

    def add_master(self, name: str, address: Address, quorum: int = 0) -> Instance:
        """Begin to monitor a master; connections that are there already are its own."""
        while len(self.state.masters) >= MASTERS_MAX:
            oldest = next(iter(self.state.masters.values()))
            remove_master(self.state, oldest)
            self.log.note(self.now_ns, oldest.name, (), "too many", CAPTURE)
        master = add_master(self.state, name, address, quorum or self.default_quorum or 0)
        connections.adopt_links(self)
        return master

    # -- evidence --------------------------------------------------------------------------------------------------

    def _on_sent(self, item: Sent) -> tuple[str, str]:
        name = item.words[0].upper()
        link = self.links.get(item.connection)
        if name == b"PING" and link is not None:
            link.last_ping_ms = self.state.now_ms
            link.pending_ping_ms = link.pending_ping_ms or self.state.now_ms
            return "", ""
        return own_words.take_sent(self, item)

    def _on_answered(self, item: Answered) -> tuple[str, str]:
        name = item.request[0].upper()
        link = self.links.get(item.connection)
        if link is None:
            return "", ""
        self._has_traffic = True
        if name == b"PING" and item.words and item.kind in ("simple", "error"):
            if item.words[0].startswith(VALID_PONGS):
                link.available_ms, link.pending_ping_ms = self.state.now_ms, 0
            link.last_pong_ms = self.state.now_ms
        elif name == b"INFO" and item.kind in ("bulk", "verbatim") and item.words:
            for instance in self.at(item.target):
                if instance.link is link and not instance.flags & SENTINEL:
                    self.touch(instance.master or instance)
                    take_info(self.state, instance, item.words[0].decode("utf-8", "replace"))
            self._note_version(item.words[0])
            connections.adopt_links(self)
            return "INFO", CAPTURE
        elif name == b"SENTINEL":
            return own_words.take_opinion(self, item, link)
        return "", ""

    def _note_version(self, info: bytes) -> None:
        """Sentinels are taken for the version of the servers that they watch, unless their log says theirs."""
        found = None if self._has_version else _VERSION.search(info[:4096])
        if found is not None:
            self.version = int(found[1]), int(found[2])
            self._has_version = True

    def _on_heard(self, item: Heard) -> tuple[str, str]:
        hello = parse_hello(item.text)
        if hello is None or hello.runid == self.observer:
            return "", ""
        master = self.state.masters.get(hello.master_name)
        known = master.sentinels.get(hello.runid) if master is not None else None
        if known is not None and known.address == Address(hello.ip, hello.port):
            self.touch(master)  # a new one may put others out, with every master
        take_hello(self.state, item.text)
        connections.adopt_links(self)
        return "hello", CAPTURE

    def _on_asked(self, item: Asked) -> tuple[str, str]:
        return own_words.take_asked(self, item)

    def _on_told(self, item: Told) -> tuple[str, str]:
        self._has_log = self._has_log or item.source == LOG
        self.events.append(EventRow(item.ts_ns, self.observer, item.channel, item.text, item.source))
        told_events.take_told(self, item)
        connections.adopt_links(self)
        return (f"event {item.channel}", item.source) if item.channel not in WITHOUT_BELIEFS else ("", "")

    def _on_listened(self, item: Listened) -> tuple[str, str]:
        if item.on:
            self._listeners[item.connection] = self._listeners.get(item.connection, ()) + item.patterns
        else:
            self._listeners.pop(item.connection, None)
        return "", ""

    def _on_assumed(self, item: Assumed) -> tuple[str, str]:
        for instance in self.at(item.address):
            self.touch(instance.master or instance)
            instance.link.disconnected = not item.is_linked
        return "conclusion", LOG

    def _on_opined(self, item: Opined) -> tuple[str, str]:
        master = self.state.masters.get(item.master)
        sentinel = master.sentinels.get(item.sentinel) if master is not None else None
        if sentinel is None:
            return "", ""
        self.touch(master)
        leader = item.leader if item.leader_epoch == sentinel.leader_epoch else ""  # of a new one the log has a line
        own_words.note_opinion(self, sentinel, item.says_down, leader, item.leader_epoch)
        return "conclusion", LOG

    def _on_stopped(self, item: Stopped) -> tuple[str, str]:
        self.is_running = False
        self._listeners.clear()
        for name in self.log.masters:
            self.log.note(self.now_ns, name, (), "stopped", CAPTURE)
        return "", ""

    def _on_started(self, item: Started) -> tuple[str, str]:
        self._has_log = True
        if item.version:
            self._has_version, self.version = True, item.version
        if self.state.masters:
            restart.begin_again(self)
        self.is_running = True
        return "started", LOG

    def _on_polled(self, item: Polled) -> tuple[str, str]:
        own_words.take_poll(self, item)
        connections.adopt_links(self)
        return "poll", POLL

    _HANDLERS: Final[dict[type, Callable[[Any, Any], tuple[str, str]]]] = {
        Linked: connections.take_linked,
        Unlinked: connections.take_unlinked,
        Sent: _on_sent,
        Answered: _on_answered,
        Heard: _on_heard,
        Asked: _on_asked,
        Told: _on_told,
        Listened: _on_listened,
        Assumed: _on_assumed,
        Opined: _on_opined,
        Stopped: _on_stopped,
        Started: _on_started,
        Polled: _on_polled,
    }

    # -- time ------------------------------------------------------------------------------------------------------

    def mark_down(self, instance: Instance, is_down: bool) -> None:
        """It shows that it holds *instance* for down, or not."""
        if is_down is not bool(instance.flags & S_DOWN):
            self.state.tell_of("#", "+sdown" if is_down else "-sdown", instance)
        if is_down and not instance.flags & S_DOWN:
            self.silences_ms.append(silent_ms(instance, self.state.now_ms))
            last_ms = instance.link.available_ms if self._has_traffic else None
            self.signs.append(SignRow(self.now_ns, self.observer, str(instance.address), last_ms and last_ms * MS_NS))
            instance.flags |= S_DOWN
            instance.s_down_since_ms = self.state.now_ms
            timer.forget_opinions(self, instance)
        elif not is_down:
            instance.flags &= ~(S_DOWN | SCRIPT_KILL_SENT)

    def explain(self, master: Instance, chosen: Instance | None) -> None:
        """It chose a replica to promote, or found none."""
        if self.choices and self.choices[-1].chosen and chosen is not None and chosen.flags & PROMOTED:
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
