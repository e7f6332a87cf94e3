"""Evidence on one sentinel: log lines and poll replies.

Times are ns since the epoch. A line of a poll file is an object::

    {"t": 1795254894896657338, "t2": 1795254894912135198, "port": 24010, "kind": "sentinel",
     "masters": [["name", "mymaster", "ip", "127.0.0.1", …]], "sentinels": […]}

*t* is the time of the request, *t2* of the replies (or *time* for both), in the forms of `cluster_core.instants`. *node*
is the sentinel's id, ip:port or port; *port* its port. An instance is an object, or a list of alternating names and
values. *sentinels*, with ids and addresses, are optional. Other lines are skipped.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import read_object
from cluster_core.instants import time_ns


class LoggedEvent(NamedTuple):
    """An event in the sentinel's log."""

    ts_ns: int
    channel: str
    text: str


class SentinelStarted(NamedTuple):
    """A sentinel process started; *version* of Valkey by its log, (0, 0) for Redis, empty if unknown."""

    ts_ns: int
    version: tuple[int, ...] = ()


class SentinelReplies(NamedTuple):
    """Replies to SENTINEL MASTERS and SENTINELS as fields by name, requested at *asked_ns*."""

    ts_ns: int
    asked_ns: int
    masters: tuple[dict[str, str], ...]
    sentinels: tuple[dict[str, str], ...] = ()


Evidence = LoggedEvent | SentinelStarted | SentinelReplies

KIND: Final = "sentinel"
INSTANCES_MAX: Final = 10_000
TEXT_CHARS_MAX: Final = 1_000


class PollLine(NamedTuple):
    """One line; *node* is the replying sentinel as named in the line."""

    node: str
    polled: SentinelReplies


def read_poll_line(raw: bytes, *, line: int, source: str = "<polls>") -> PollLine | None:
    """Parse one line; None for other lines; raises DecodeError with offset *line* (from 1)."""

    def wrong(reason: str) -> DecodeError:
        return DecodeError(reason, offset=line, source=source)

    record = read_object(raw, line=line, source=source)
    if record.get("kind", KIND) != KIND or "masters" not in record:
        return None
    ts_ns = time_ns(record.get("t2", record.get("time", record.get("t"))))
    asked_ns = time_ns(record.get("t", record.get("asked", ts_ns)))
    if ts_ns is None or asked_ns is None:
        raise wrong("the time is missing or cannot be parsed")
    node = record.get("node", record.get("port"))
    if not isinstance(node, str | int) or isinstance(node, bool) or not str(node):
        raise wrong("the poll does not name the sentinel that answered")
    masters = _instances(record["masters"])
    if masters is None:
        raise wrong("masters is not a list of instances")
    polled = SentinelReplies(ts_ns, min(asked_ns, ts_ns), masters, _instances(record.get("sentinels")) or ())
    return PollLine(str(node)[:TEXT_CHARS_MAX], polled)


def _instances(answer: Any) -> tuple[dict[str, str], ...] | None:
    """Return records of instances; None for other input, such as an error reply."""
    if not isinstance(answer, list) or len(answer) > INSTANCES_MAX:
        return None
    instances = []
    for record in answer:
        if isinstance(record, dict):
            instances.append({str(name): _text(value) for name, value in record.items()})
        elif isinstance(record, list) and len(record) % 2 == 0:
            instances.append({_text(name): _text(value) for name, value in zip(record[::2], record[1::2], strict=True)})
        else:
            return None
    return tuple(instances)


def _text(value: Any) -> str:
    return str(value)[:TEXT_CHARS_MAX]
