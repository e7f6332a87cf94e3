"""What recorded traffic and polls of sentinels hold.

Each line is an object::

    {"t": 1795254894896657338, "t2": 1795254894912135198, "port": 24010, "kind": "sentinel",
     "masters": [["name", "mymaster", "ip", "127.0.0.1", …]], "replicas": […], "sentinels": […]}

*t* is when it was asked, *t2* when the answers were there (one *time* will do): nanoseconds, microseconds, milliseconds or
seconds since the epoch, or ISO 8601.  *node* is the sentinel: its id, ip:port or port; *port* is its port.  Every
instance is a list of names and values in turn, as in the reply, or an object.  *replicas* and *sentinels* are those of
*master*, or of the only master; they may be missing.  Lines of another *kind*, and those without *masters*, are of
something else.

A sentinel names its connections (``CLIENT SETNAME sentinel-<first 8 digits of its id>-cmd``, or ``-pubsub``) and itself
in its hello messages, which also say where it listens.  Connections that were open before the capture began are known
by the hello messages on them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_capture import ACCEPTOR, INITIATOR, ConnectionEvent, Endpoint, Origin
from cluster_core.formats.capture.resp_capture import CapturedResp, RespRow
from cluster_core.formats.poll_lines import read_object
from cluster_core.instants import time_ns
from cluster_core.sentinel.events import HELLO_CHANNEL, Hello, parse_hello
from cluster_core.sentinel.instance import Address
from cluster_core.sentinel_history import evidence as seen
from cluster_core.sentinel_history.announcements import CHANNEL
from cluster_core.sentinel_history.evidence import COMMAND, WHOLE, Evidence, Polled
from cluster_core.wire.resp import Skimmed

KIND: Final = "sentinel"
INSTANCES_MAX: Final = 10_000
TEXT_CHARS_MAX: Final = 1_000


class PollLine(NamedTuple):
    """One line: *node* is the sentinel that answered, as the line names it."""

    node: str
    polled: Polled


def read_poll_line(raw: bytes, *, line: int, source: str = "<polls>") -> PollLine | None:
    """Read one line, None if it is of something else; raises DecodeError whose offset is *line* (from 1)."""

    def wrong(reason: str) -> DecodeError:
        return DecodeError(reason, offset=line, source=source)

    told = read_object(raw, line=line, source=source)
    if told.get("kind", KIND) != KIND or "masters" not in told:
        return None
    ts_ns = time_ns(told.get("t2", told.get("time", told.get("t"))))
    asked_ns = time_ns(told.get("t", told.get("asked", ts_ns)))
    if ts_ns is None or asked_ns is None:
        raise wrong("no time that is understood")
    node = told.get("node", told.get("port"))
    if not isinstance(node, str | int) or isinstance(node, bool) or not str(node):
        raise wrong("neither node nor port says who answered")
    masters = _instances(told["masters"])
    if masters is None:
        raise wrong("masters is no list of instances")
    replicas, sentinels = (_instances(told.get(name)) for name in ("replicas", "sentinels"))
    master = told.get(
        "master", masters[0].get("name", "") if len(masters) == 1 else _named(replicas, sentinels, masters)
    )
    polled = Polled(ts_ns, min(asked_ns, ts_ns), masters, str(master)[:TEXT_CHARS_MAX], replicas, sentinels)
    return PollLine(str(node)[:TEXT_CHARS_MAX], polled)


def _named(
    replicas: tuple[dict[str, str], ...] | None,
    sentinels: tuple[dict[str, str], ...] | None,
    masters: tuple[dict[str, str], ...],
) -> str:
    """Of several masters the one that has so many replicas and sentinels, and that the replicas follow, if that tells."""
    follows = {(one.get("master-host"), one.get("master-port")) for one in replicas or ()}

    def fit(one: dict[str, str]) -> tuple[bool, bool, bool]:
        return (
            sentinels is not None and one.get("num-other-sentinels") == str(len(sentinels)),
            replicas is not None and one.get("num-slaves") == str(len(replicas)),
            (one.get("ip"), one.get("port")) in follows,
        )

    return max(masters, key=fit, default={}).get("name", "")


def _instances(told: Any) -> tuple[dict[str, str], ...] | None:
    """Records of instances; None for what is no list of them, such as an error reply."""
    if not isinstance(told, list) or len(told) > INSTANCES_MAX:
        return None
    found = []
    for one in told:
        if isinstance(one, dict):
            found.append({str(name): _text(value) for name, value in one.items()})
        elif isinstance(one, list) and len(one) % 2 == 0:
            found.append({_text(name): _text(value) for name, value in zip(one[::2], one[1::2], strict=True)})
        else:
            return None
    return tuple(found)


def _text(value: Any) -> str:
    return str(value)[:TEXT_CHARS_MAX]


PENDING_MAX: Final = 4096
"""Requests of a connection that wait for an answer; the oldest beyond are forgotten."""
KEPT_MAX: Final = 5_000_000
"""Pieces of evidence of a capture: weeks of three sentinels."""
CONNECTIONS_MAX: Final = 1 << 16
_NAME: Final = re.compile(r"sentinel-([0-9a-f]{8})-(cmd|pubsub)")
_RUNID: Final = re.compile(r"[0-9a-f]{40}")
_HELLO: Final = HELLO_CHANNEL.encode()
_SUBSCRIBED: Final = (b"PSUBSCRIBE", b"SUBSCRIBE")
_ANSWERS: Final[dict[bytes, tuple[str, ...]]] = {
    b"PING": ("simple",),
    b"INFO": ("bulk", "verbatim"),
    b"PUBLISH": ("number", "simple"),
    b"SENTINEL": ("array", "map", "simple", "number", "bulk", "null"),
}
"""Kinds of the answers to commands of sentinels, beside errors; ``QUEUED`` is simple."""
_KEPT_COMMANDS: Final = frozenset(
    b"PING INFO PUBLISH SENTINEL SLAVEOF REPLICAOF SCRIPT MULTI EXEC FAILOVER CONFIG CLIENT".split()
)


@dataclass(slots=True)
class _Talk:
    """A connection: *owner* is the short id of the sentinel that opened it."""

    number: int
    opened_ns: int
    client: Endpoint
    server: Endpoint
    is_begun: bool
    owner: str = ""
    purpose: str = ""
    pending: deque[tuple[bytes, ...]] = field(default_factory=lambda: deque(maxlen=PENDING_MAX))
    is_listening: bool = False
    is_over: bool = False

    @property
    def target(self) -> Address:
        """Where it leads."""
        return Address(self.server.ip, self.server.port)


class SentinelTraffic:
    """Feed it the rows of a capture in order; then `evidence` has what concerns each sentinel, by its id."""

    def __init__(self, *, kept_max: int = KEPT_MAX) -> None:
        self.dropped = 0
        """Pieces of evidence that were too many to keep."""
        self.hellos: list[tuple[int, Hello]] = []
        """What every sentinel said of itself, when it changed."""
        self.last_ns = 0
        self._kept_max = kept_max
        self._count = 0
        self._talks: dict[int, _Talk] = {}
        self._opened: dict[str, list[Evidence]] = {}
        self._served: dict[Address, list[Evidence]] = {}
        self._said: dict[str, Hello] = {}

    # -- rows ------------------------------------------------------------------------------------------------------

    def handle(self, row: RespRow) -> None:
        """Take the next row of the capture."""
        if isinstance(row, ConnectionEvent):
            self._on_packet(row)
        elif isinstance(row, CapturedResp) and isinstance(row.item, Skimmed):
            talk = self._talk(row.origin)
            if row.origin.source == talk.client:
                self._on_request(talk, row.origin.ts_ns, row.item)
            else:
                self._on_answer(talk, row.origin.ts_ns, row.item)
        elif isinstance(row, CapturedResp):
            return
        elif hasattr(row, "origin") and row.origin.connection in self._talks:
            self._talks[row.origin.connection].pending.clear()  # bytes are missing: what was asked is not known
            return
        if isinstance(row, CapturedResp | ConnectionEvent):
            self.last_ns = max(self.last_ns, row.origin.ts_ns)

    def _talk(self, origin: Origin) -> _Talk:
        talk = self._talks.get(origin.connection)
        if talk is None:
            if len(self._talks) >= CONNECTIONS_MAX:
                self._talks = {number: talk for number, talk in self._talks.items() if not talk.is_over}
            is_client = origin.direction == INITIATOR or (
                origin.direction != ACCEPTOR and origin.source.port > origin.target.port
            )
            ends = (origin.source, origin.target) if is_client else (origin.target, origin.source)
            talk = self._talks[origin.connection] = _Talk(origin.connection, origin.ts_ns, *ends, is_begun=False)
        return talk

    def _on_packet(self, row: ConnectionEvent) -> None:
        talk, ts_ns = self._talk(row.origin), row.origin.ts_ns
        if row.kind == "syn":
            talk.opened_ns, talk.is_begun = ts_ns, True
        if row.kind not in ("fin", "rst") or talk.is_over:
            return
        talk.is_over = True
        is_client = row.origin.source == talk.client
        if talk.owner:
            self._keep_opened(talk.owner, seen.Unlinked(ts_ns, talk.number, is_client))
            if not is_client:
                self._keep_served(talk, seen.Stopped(ts_ns))
        elif talk.is_listening:
            self._keep_served(talk, seen.Listened(ts_ns, talk.number, (), on=False))
        talk.pending.clear()

    def _on_request(self, talk: _Talk, ts_ns: int, item: Skimmed) -> None:
        words = item.words
        if item.kind not in ("array", "inline") or not words:
            return
        name = words[0].upper()
        if not talk.owner and name in (b"CLIENT", b"PUBLISH"):
            self._recognise(talk, words)
        talk.pending.append(words if name in _KEPT_COMMANDS else (name, *words[1:4]))
        if talk.owner and name in _KEPT_COMMANDS:
            self._keep_opened(talk.owner, seen.Sent(ts_ns, talk.number, talk.target, words))
        if name == b"PUBLISH" and len(words) == 3 and words[1] == _HELLO:
            self._on_hello(talk, ts_ns, words[2])
        elif name in _SUBSCRIBED and not talk.owner and any(word != _HELLO for word in words[1:]):
            patterns = tuple(word.decode("utf-8", "replace") for word in words[1:])
            talk.is_listening = True
            self._keep_served(talk, seen.Listened(ts_ns, talk.number, patterns, on=True))

    def _recognise(self, talk: _Talk, words: tuple[bytes, ...]) -> None:
        """Find out whether a sentinel opened the connection, and tell of its beginning then."""
        if [word.upper() for word in words[:2]] == [b"CLIENT", b"SETNAME"] and len(words) == 3:
            named = _NAME.fullmatch(words[2].decode("latin-1"))
            talk.owner, talk.purpose = (named[1], named[2]) if named else ("", "")
        elif words[0].upper() == b"PUBLISH" and len(words) == 3 and words[1] == _HELLO:
            hello = _read_hello(words[2])
            talk.owner, talk.purpose = (hello.runid[:8], COMMAND if talk.is_begun else WHOLE) if hello else ("", "")
        if talk.owner:
            self._keep_opened(talk.owner, seen.Linked(talk.opened_ns, talk.number, talk.target, talk.purpose))

    def _on_hello(self, talk: _Talk, ts_ns: int, text: bytes) -> None:
        hello = _read_hello(text)
        if hello is None:
            return
        self._keep_served(talk, seen.Heard(ts_ns, text.decode("utf-8", "replace")))
        before = self._said.get(hello.runid)
        if talk.owner == hello.runid[:8] and (before is None or before[:3] != hello[:3]):
            self._said[hello.runid] = hello
            self.hellos.append((ts_ns, hello))

    def _on_answer(self, talk: _Talk, ts_ns: int, item: Skimmed) -> None:
        words = item.words
        if item.kind in ("array", "push") and words and words[0] in (b"message", b"pmessage"):
            self._on_push(talk, ts_ns, words)
            return
        request = _answered_request(talk, item)
        if request is None:
            return
        if request[0] in _SUBSCRIBED:
            for _ in request[2:]:  # one answer a channel
                talk.pending.appendleft((b"(more)",))
            return
        if talk.owner and request[0].upper() in _KEPT_COMMANDS:
            answered = seen.Answered(ts_ns, talk.number, talk.target, request, item.kind, words)
            self._keep_opened(talk.owner, answered)
        if request[0].upper() == b"SENTINEL":
            self._keep_served(talk, seen.Asked(ts_ns, request, item.kind, words))

    def _on_push(self, talk: _Talk, ts_ns: int, words: tuple[bytes, ...]) -> None:
        channel, text = (word.decode("utf-8", "replace") for word in words[-2:])
        if channel == HELLO_CHANNEL:
            if talk.owner:
                self._keep_opened(talk.owner, seen.Heard(ts_ns, text))
        elif CHANNEL.fullmatch(channel):
            if not talk.is_listening:  # its subscription was before the capture began
                talk.is_listening = True
                pattern = words[1].decode("utf-8", "replace")
                self._keep_served(talk, seen.Listened(talk.opened_ns, talk.number, (pattern,), on=True))
            self._keep_served(talk, seen.Told(ts_ns, channel, text))

    # -- what is kept ----------------------------------------------------------------------------------------------

    def _keep_opened(self, owner: str, item: Evidence) -> None:
        if self._may_keep():
            self._opened.setdefault(owner, []).append(item)

    def _keep_served(self, talk: _Talk, item: Evidence) -> None:
        if self._may_keep():
            self._served.setdefault(talk.target, []).append(item)

    def _may_keep(self) -> bool:
        self._count += 1
        self.dropped += self._count > self._kept_max
        return self._count <= self._kept_max

    # -- by sentinel -----------------------------------------------------------------------------------------------

    def evidence(self) -> dict[str, list[Evidence]]:
        """What concerns each sentinel, by its id, in order of time.

        A sentinel whose whole id was never seen goes by the eight digits in the names of its connections.
        """
        names = {hello.runid[:8]: hello.runid for _, hello in self.hellos}
        found: dict[str, list[Evidence]] = {}
        for short, items in self._opened.items():
            found.setdefault(names.get(short, short), []).extend(items)
        home = homes_of(self.hellos)
        for address, items in self._served.items():
            for item in items:
                runid = home(address, item.ts_ns)
                if runid:
                    found.setdefault(runid, []).append(item)
        return {runid: sorted(items, key=lambda item: item.ts_ns) for runid, items in sorted(found.items())}


def _answered_request(talk: _Talk, item: Skimmed) -> tuple[bytes, ...] | None:
    """Take out of what waits the request that *item* can be the answer to.

    Where the beginning of a connection was not captured, requests and answers may be out of step at first.
    """
    pending = talk.pending
    place = next((at for at, request in enumerate(pending) if _can_answer(request, item)), None)
    if place is None:
        return None
    for _ in range(place):
        pending.popleft()
    return pending.popleft()


def _can_answer(request: tuple[bytes, ...], item: Skimmed) -> bool:
    kinds = _ANSWERS.get(request[0].upper(), ())
    return not kinds or item.kind in (*kinds, "error")


def homes_of(hellos: list[tuple[int, Hello]]) -> Callable[[Address, int], str]:
    """Who listened where, and when: a function of address and time that returns an id, or nothing."""
    told: dict[Address, tuple[list[int], list[str]]] = {}
    for ts_ns, hello in hellos:
        times, runids = told.setdefault(Address(hello.ip, hello.port), ([], []))
        times.append(ts_ns)
        runids.append(hello.runid)

    def home(address: Address, ts_ns: int) -> str:
        times, runids = told.get(address, ([], []))
        return runids[max(bisect_right(times, ts_ns) - 1, 0)] if times else ""

    return home


def _read_hello(text: bytes) -> Hello | None:
    hello = parse_hello(text.decode("utf-8", "replace"))
    return hello if hello is not None and _RUNID.fullmatch(hello.runid) else None
