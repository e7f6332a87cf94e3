"""What a real node sent beside what our node would have sent: pairs, differences, counts."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster_core.gossip.flags import MASTER
from cluster_core.gossip.view import View, slot_bits
from cluster_core.wire.bus import Fail, Gossip, Header, Message, MessageFlag, MessageType, Publish, Update, type_name

PING: Final = int(MessageType.PING)
FIELDS: Final = ("current_epoch", "config_epoch", "flags", "slots", "replicaof", "state", "paused")
"""What is compared of every full header; EXT_DATA and FORCEACK are compared beside it."""
SLACK_NS: Final = 150_000_000
"""A header may tell what ours told, or will tell, so long before or after: a cron and a half (R28)."""
MATCH_NS: Final = 1_000_000_000
"""A message and its twin are at most so far apart."""
PASS_NS: Final = 5_000_000
"""What changes within one pass of a server's event loop is announced once (R110)."""
ANNOUNCED: Final = "announced"
FIRST_MAX: Final = 500
"""Bound of the differences that are kept."""

Facts = tuple[int, int, int, int, str, bool, bool]
Marks = tuple[bool, bool]
Key = tuple[int, int, str]
"""Type, connection, and what else must be equal."""


class Difference(NamedTuple):
    """A message or field in which the two do not agree; *ref* is -1 for a message that only ours would have sent."""

    ts_ns: int
    ref: int
    type: str
    field: str
    real: str
    ours: str


@dataclass(slots=True)
class Judged:
    """A message of the real node whose verdict is open: *missing* while ours has no twin, *wrong* fields of the header."""

    ts_ns: int
    ref: int
    message: Message
    key: Key
    missing: bool
    facts: Facts | None
    wrong: dict[str, tuple[str, str]] = field(default_factory=dict)
    told: str = ""


@dataclass(slots=True)
class WireScore:
    """Counts by type: *agreed*, *told* (by the order that explains it), *differed* (by field), and the first differences.

    ``merged`` among the told are announcements of ours that the real node made together with the next one.

    ``extra`` as a field counts messages that only ours would have sent.
    """

    agreed: Counter[str] = field(default_factory=Counter)
    told: Counter[tuple[str, str]] = field(default_factory=Counter)
    differed: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: int = 0
    first: list[Difference] = field(default_factory=list)

    @property
    def percent(self) -> float:
        """Agreed messages among those that nobody had to tell us of; messages that only ours sent count against it."""
        whole = sum(self.agreed.values()) + self.differences
        return 100.0 * sum(self.agreed.values()) / whole if whole else 100.0

    @property
    def strict_percent(self) -> float:
        """The same with everything that was told counted as a difference."""
        whole = sum(self.agreed.values()) + self.differences + sum(self.told.values())
        return 100.0 * sum(self.agreed.values()) / whole if whole else 100.0

    def add(self, other: WireScore) -> None:
        """Add another node's counts."""
        self.agreed += other.agreed
        self.told += other.told
        self.differed += other.differed
        self.differences += other.differences
        self.first = (self.first + other.first)[:FIRST_MAX]


def facts_of(view: View) -> Facts:
    """What a header of ours would say now."""
    myself = view.myself
    is_master = bool(myself.flags & MASTER)
    holder = myself if is_master else view.nodes.get(myself.replicaof, myself)
    replicaof = "" if is_master else myself.replicaof
    paused = bool(view.mf_end_ms) and is_master
    return (
        view.current_epoch,
        holder.config_epoch,
        myself.flags & 0xFFFF,
        holder.slots,
        replicaof,
        view.ok,
        paused,
    )


def facts_said(header: Header) -> Facts:
    """What a captured header says."""
    return (
        header.current_epoch,
        header.config_epoch,
        header.flags,
        slot_bits(header.myslots),
        header.replicaof,
        not header.state,
        bool(header.mflags[0] & MessageFlag.PAUSED),
    )


def key_of(connection: int, message: Message, *, outbound: bool) -> Key:
    """What must be equal in twins: type, connection, and what the message is about; a PONG on a link of one's own is
    an announcement.
    """
    header, body = message.header, message.body
    about = ANNOUNCED if outbound and header.type == MessageType.PONG else ""
    if isinstance(body, Fail):
        about = body.node
    elif isinstance(body, Update):
        about = f"{body.node} {body.config_epoch} {slot_bits(body.myslots):x}"
    elif isinstance(body, Publish):
        about = f"{type(header).__name__} {body.channel!r} {body.message!r}"
    elif header.type == MessageType.AUTH_REQUEST and isinstance(header, Header):
        about = f"{header.current_epoch} {header.mflags[0] & MessageFlag.FORCEACK}"
    return header.type, connection, about


class Comparison:
    """Pairs messages and headers; `note_real`, `note_ours` and `note_facts` as things happen, in order of time."""

    def __init__(self) -> None:
        self.score = WireScore()
        self._facts: Facts | None = None
        self._header: Header | None = None
        self._past: deque[tuple[int, Facts]] = deque()
        self._open: deque[Judged] = deque()
        self._wrong: deque[Judged] = deque()
        self._missing: dict[Key, deque[Judged]] = {}
        self._ours: dict[Key, deque[tuple[int, Marks]]] = {}
        self._announced: dict[int, list[int]] = {}
        self._ours_order: deque[tuple[int, Key]] = deque()

    def note_facts(self, facts: Facts, now_ns: int) -> None:
        """Our header says *facts* from now on."""
        if facts == self._facts:
            return
        if self._facts is not None:
            self._past.append((now_ns, self._facts))
        self._facts = facts
        for judged in list(self._wrong):
            if judged.facts is not None and now_ns - judged.ts_ns <= SLACK_NS:
                for index, name in enumerate(FIELDS):
                    if judged.facts[index] == facts[index]:
                        judged.wrong.pop(name, None)

    def note_ours(self, connection: int, message: Message, now_ns: int, *, outbound: bool) -> None:
        """Our node sends a message; PINGs are for the header only."""
        header = message.header
        if isinstance(header, Header) and header is not self._header:
            self._header = header
            said = facts_said(header)
            if said != self._facts:
                self._past.append((now_ns, said))
        if header.type == PING:
            return
        key = key_of(connection, message, outbound=outbound)
        ours = self._ours.get(key)
        if key[2] == ANNOUNCED and ours and now_ns - ours[-1][0] < PASS_NS:
            return
        waiting = self._missing.get(key)
        if waiting:
            judged = waiting.popleft()
            judged.missing = False
            self._note_announced(key, now_ns)
            judged.wrong |= compare_marks(marks_of(judged.message), marks_of(message))
            return
        self._ours.setdefault(key, deque()).append((now_ns, marks_of(message)))
        self._ours_order.append((now_ns, key))

    def has_twin(self, key: Key) -> bool:
        """Whether our node has sent such a message that has no twin yet."""
        return bool(self._ours.get(key))

    def differing(self, header: Header, now_ns: int) -> dict[str, tuple[str, str]]:
        """The fields in which *header* says what ours neither says nor said a moment ago, with both values."""
        said = facts_said(header)
        wrong: dict[str, tuple[str, str]] = {}
        if self._facts is None or said == self._facts:
            return wrong
        while self._past and now_ns - self._past[0][0] > SLACK_NS:
            self._past.popleft()
        for index, name in enumerate(FIELDS):
            if said[index] != self._facts[index] and all(said[index] != past[index] for _, past in self._past):
                wrong[name] = _shown(name, said[index], self._facts[index])
        return wrong

    def note_real(self, key: Key, ref: int, message: Message, now_ns: int, *, marks: Marks, told: str = "") -> Judged:
        """The real node sent a message; *marks* are those that a PING of ours would have."""
        header = message.header
        whole = header if isinstance(header, Header) else None
        wrong = self.differing(whole, now_ns) if whole is not None else {}
        judged = Judged(now_ns, ref, message, key, False, facts_said(whole) if whole is not None else None, wrong, told)
        if header.type != PING:
            ours = self._ours.get(key)
            if ours:
                sent_ns, sent_marks = ours.popleft()
                wrong |= compare_marks(marks_of(message), sent_marks)
                self._note_announced(key, sent_ns)
            else:
                judged.missing = True
                self._missing.setdefault(key, deque()).append(judged)
        else:
            wrong |= compare_marks(marks_of(message), marks)
        self._open.append(judged)
        if wrong:
            self._wrong.append(judged)
        return judged

    def settle_headers(self, now_ns: int) -> list[Judged]:
        """Messages whose headers stay wrong: our node should believe them now."""
        found = []
        while self._wrong and now_ns - self._wrong[0].ts_ns > SLACK_NS:
            judged = self._wrong.popleft()
            if judged.wrong and judged.facts is not None:
                found.append(judged)
        return found

    def settle(self, now_ns: int) -> list[Judged]:
        """Judge what is older than `MATCH_NS`; those whose twin never came are returned."""
        lost = []
        while self._open and now_ns - self._open[0].ts_ns > MATCH_NS:
            judged = self._open.popleft()
            self._judge(judged)
            if judged.missing:
                self._missing[judged.key].remove(judged)
                lost.append(judged)
        while self._ours_order and now_ns - self._ours_order[0][0] > MATCH_NS:
            ts_ns, key = self._ours_order.popleft()
            waiting = self._ours[key]
            if waiting and waiting[0][0] <= ts_ns:
                waiting.popleft()
                if self._is_merged(key, ts_ns):
                    self.score.told[type_name(key[0]), "merged"] += 1
                    continue
                self._differ(Difference(ts_ns, -1, type_name(key[0]), "extra", "", f"on {key[1]} {key[2][:60]}"))
                self.score.differences += 1
        return lost

    def _note_announced(self, key: Key, sent_ns: int) -> None:
        if key[2] == ANNOUNCED:
            self._announced.setdefault(key[1], []).append(sent_ns)

    def _is_merged(self, key: Key, ts_ns: int) -> bool:
        """Whether the real node told at once what ours announced twice: a server announces once in a pass of its event
        loop, and how long a pass takes is in no message (R110).
        """
        times = self._announced.get(key[1], ()) if key[2] == ANNOUNCED else ()
        return any(abs(sent_ns - ts_ns) <= SLACK_NS for sent_ns in times)

    def forget(self, connection: int, since_ns: int) -> None:
        """A connection ended: what ours sent on it since then may have been lost."""
        for key, waiting in self._ours.items():
            if key[1] == connection:
                while waiting and waiting[-1][0] >= since_ns:
                    waiting.pop()

    def finish(self, now_ns: int) -> None:
        """The evidence ends: what ours sent within the last moment may have come behind it."""
        for key in list(self._ours):
            self.forget(key[1], now_ns - MATCH_NS)
        self.settle(now_ns + 2 * MATCH_NS)

    def _judge(self, judged: Judged) -> None:
        name = type_name(judged.message.header.type)
        if judged.told:
            self.score.told[name, judged.told] += 1
            return
        if judged.missing:
            judged.wrong["missing"] = (f"on {judged.key[1]} {judged.key[2][:60]}", "")
        for what, (real, ours) in judged.wrong.items():
            self._differ(Difference(judged.ts_ns, judged.ref, name, what, real, ours))
        if judged.wrong:
            self.score.differences += 1
        else:
            self.score.agreed[name] += 1

    def _differ(self, difference: Difference) -> None:
        self.score.differed[difference.type, difference.field] += 1
        if len(self.score.first) < FIRST_MAX:
            self.score.first.append(difference)


def _shown(name: str, real: object, ours: object) -> tuple[str, str]:
    if name == "slots" and isinstance(real, int) and isinstance(ours, int):
        return f"{(real & ~ours).bit_count()} more", f"{(ours & ~real).bit_count()} more"
    if name == "flags" and isinstance(real, int) and isinstance(ours, int):
        return f"{real:#x}", f"{ours:#x}"
    return str(real), str(ours)


def marks_of(message: Message) -> Marks:
    """The bit EXT_DATA, and whether something is said behind the gossip."""
    header, body = message.header, message.body
    if not isinstance(header, Header):
        return False, False
    return bool(header.mflags[0] & MessageFlag.EXT_DATA), isinstance(body, Gossip) and bool(body.extensions)


def compare_marks(real: Marks, ours: Marks) -> dict[str, tuple[str, str]]:
    """Where they differ (R6, R16)."""
    names = ("EXT_DATA", "extensions")
    return {name: (str(r), str(o)) for name, r, o in zip(names, real, ours, strict=True) if r != o}
