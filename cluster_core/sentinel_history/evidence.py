"""Evidence on one sentinel: log lines, conclusions from all logs, and poll replies.

Times are ns since the epoch. A line of a poll file is an object::

    {"t": 1795254894896657338, "t2": 1795254894912135198, "port": 24010, "kind": "sentinel",
     "masters": [["name", "mymaster", "ip", "127.0.0.1", …]], "replicas": […], "sentinels": […]}

*t* is the time of the request, *t2* of the replies (or *time* for both), as a number since the epoch in ns, µs, ms or s,
or ISO 8601. *node* is the sentinel's id, ip:port or port; *port* its port. An instance is a list of alternating names
and values, as in the reply, or an object. *replicas* and *sentinels* are optional and belong to *master*, or to the only
master. Lines of another *kind*, or without *masters*, are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import read_object
from cluster_core.instants import time_ns
from cluster_core.sentinel.instance import Address


class Told(NamedTuple):
    """An event in the sentinel's log."""

    ts_ns: int
    channel: str
    text: str


class Assumed(NamedTuple):
    """The link to *address* is connected or not, derived from logs."""

    ts_ns: int
    address: Address
    is_linked: bool


class Opined(NamedTuple):
    """Another sentinel's answer about *master*, derived from logs; *leader* is empty without a vote."""

    ts_ns: int
    sentinel: str
    master: str
    says_down: bool
    leader: str
    leader_epoch: int


class Started(NamedTuple):
    """A sentinel process started; *version* of Valkey by its log, (0, 0) for Redis, empty if unknown."""

    ts_ns: int
    version: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Polled:
    """Replies about *master* to SENTINEL MASTERS, REPLICAS and SENTINELS, requested at *asked_ns*.

    Records are fields by name; *replicas* and *sentinels* are None if not requested.
    """

    ts_ns: int
    asked_ns: int
    masters: tuple[dict[str, str], ...]
    master: str
    replicas: tuple[dict[str, str], ...] | None
    sentinels: tuple[dict[str, str], ...] | None


Evidence = Told | Assumed | Opined | Started | Polled

KIND: Final = "sentinel"
INSTANCES_MAX: Final = 10_000
TEXT_CHARS_MAX: Final = 1_000


class PollLine(NamedTuple):
    """One line; *node* is the replying sentinel as named in the line."""

    node: str
    polled: Polled


def read_poll_line(raw: bytes, *, line: int, source: str = "<polls>") -> PollLine | None:
    """Parse one line; None for other lines; raises DecodeError with offset *line* (from 1)."""

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
    """Return the master with these replicas and sentinels, if the records identify it."""
    follows = {(one.get("master-host"), one.get("master-port")) for one in replicas or ()}

    def fit(one: dict[str, str]) -> tuple[bool, bool, bool]:
        return (
            sentinels is not None and one.get("num-other-sentinels") == str(len(sentinels)),
            replicas is not None and one.get("num-slaves") == str(len(replicas)),
            (one.get("ip"), one.get("port")) in follows,
        )

    return max(masters, key=fit, default={}).get("name", "")


def _instances(told: Any) -> tuple[dict[str, str], ...] | None:
    """Return records of instances; None for other input, such as an error reply."""
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
