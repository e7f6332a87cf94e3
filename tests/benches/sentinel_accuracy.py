"""Accuracy of a history of sentinels: its beliefs against their answers, its events against their channels."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster_core.sentinel.text import leading_number
from cluster_core.sentinel_history.beliefs import Belief, Span
from cluster_core.sentinel_history.evidence import Polled
from cluster_core.sentinel_history.rows import EventRow

CROSSING_NS: Final = 3_000_000
"""A packet that is on its way, and a process that has not been told yet, while a sample is taken."""
CORE_FIELDS: Final = ("ip", "port", "flags", "role_reported", "config_epoch", "leader_epoch")
"""Flags, addresses, epochs and roles."""
ALL_FIELDS: Final = (*CORE_FIELDS, "runid", "failover_state", "master_host", "master_port", "master_link", "leader")


class Wrong(NamedTuple):
    """A field that is not as the sentinel said; *said* and *believed* are empty where the instance is not there."""

    ts_ns: int
    observer: str
    key: tuple[str, str, str]
    field: str
    said: str
    believed: str


@dataclass(slots=True)
class Verdict:
    """How many samples there are and how many are right in every core field, and in all fields."""

    samples: int = 0
    right: int = 0
    right_in_all: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    by_field: Counter[str] = field(default_factory=Counter)

    @property
    def percent(self) -> float:
        """Of the samples, those whose core fields are all right."""
        return 100.0 * self.right / self.samples if self.samples else 0.0

    @property
    def percent_in_all(self) -> float:
        """Of the samples, those whose fields are all right."""
        return 100.0 * self.right_in_all / self.samples if self.samples else 0.0


def polled_beliefs(polled: Polled) -> dict[tuple[str, str, str], Belief]:
    """The beliefs that an answer shows; replicas and sentinels only of the master that was asked about."""
    found = [_belief("master", fields.get("name", ""), fields) for fields in polled.masters]
    found += [_belief("replica", polled.master, fields) for fields in polled.replicas or ()]
    found += [_belief("sentinel", polled.master, fields) for fields in polled.sentinels or ()]
    return {belief.key: belief for belief in found}


def _belief(kind: str, master: str, fields: Mapping[str, str]) -> Belief:
    def number(name: str) -> int | None:
        return leading_number(fields[name]) if name in fields else None

    return Belief(
        kind, master, fields.get("name", ""), fields.get("ip", ""), number("port") or 0, fields.get("runid", ""),
        fields.get("flags", ""), fields.get("role-reported", ""), number("config-epoch"),
        fields.get("failover-state", ""), fields.get("master-host", ""), number("master-port"),
        fields.get("master-link-status", ""), fields.get("voted-leader", ""), number("voted-leader-epoch"),
        number("quorum"),
    )  # fmt: skip


def compare_beliefs(spans: Iterable[Span], polls: Mapping[str, Sequence[Polled]]) -> Verdict:
    """Compare every answer in *polls*, by sentinel, with what was believed at a moment while it was asked.

    One moment must explain all instances of the answer; a sample is one answer of one sentinel, and none is left out.
    """
    by_observer: dict[str, list[Span]] = {}
    for span in spans:
        by_observer.setdefault(span.observer, []).append(span)
    verdict = Verdict()
    for observer, answers in sorted(polls.items()):
        timeline = _Timeline(by_observer.get(observer, []))
        for polled in answers:
            _judge(verdict, observer, polled, timeline)
    return verdict


class _Timeline:
    """The spans of one sentinel, asked by time."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._by_key: dict[tuple[str, str, str], tuple[list[int], list[Span]]] = {}
        for span in sorted(spans, key=lambda span: span.from_ns):
            times, kept = self._by_key.setdefault(span.belief.key, ([], []))
            times.append(span.from_ns)
            kept.append(span)
        self._changes = sorted({t for span in spans for t in (span.from_ns, span.to_ns) if t is not None})

    def moments(self, from_ns: int, to_ns: int) -> list[int]:
        """The moments from *from_ns* to *to_ns* at which something changed, and the first."""
        low, high = bisect_right(self._changes, from_ns), bisect_right(self._changes, to_ns)
        return [from_ns, *self._changes[low:high]]

    def at(self, ts_ns: int) -> dict[tuple[str, str, str], Belief]:
        """What was believed at a moment."""
        found = {}
        for key, (times, spans) in self._by_key.items():
            place = bisect_right(times, ts_ns) - 1
            if place >= 0 and (spans[place].to_ns is None or ts_ns < (spans[place].to_ns or 0)):
                found[key] = spans[place].belief
        return found


def _judge(verdict: Verdict, observer: str, polled: Polled, timeline: _Timeline) -> None:
    said = polled_beliefs(polled)
    best: list[Wrong] | None = None
    best_core, is_right_in_all = 0, False
    for moment in timeline.moments(polled.asked_ns - CROSSING_NS, polled.ts_ns + CROSSING_NS):
        held = {key: one for key, one in timeline.at(moment).items() if _is_asked(key, polled)}
        wrong = list(_differences(polled.ts_ns, observer, said, held))
        core = sum(one.field in CORE_FIELDS or one.field == "known" for one in wrong)
        if best is None or (core, len(wrong)) < (best_core, len(best)):
            best, best_core = wrong, core
        is_right_in_all = is_right_in_all or not wrong
    verdict.samples += 1
    verdict.right += best_core == 0
    verdict.right_in_all += is_right_in_all
    for one in best or ():
        verdict.by_field[one.field] += 1
        verdict.wrong.append(one)


def _is_asked(key: tuple[str, str, str], polled: Polled) -> bool:
    kind, master, _ = key
    if kind == "master":
        return True
    asked = polled.replicas if kind == "replica" else polled.sentinels
    return master == polled.master and asked is not None


def _differences(
    ts_ns: int,
    observer: str,
    said: Mapping[tuple[str, str, str], Belief],
    held: Mapping[tuple[str, str, str], Belief],
) -> Iterable[Wrong]:
    for key in sorted({*said, *held}):
        ours, theirs = held.get(key), said.get(key)
        if ours is None or theirs is None:
            yield Wrong(ts_ns, observer, key, "known", "yes" if theirs else "", "yes" if ours else "")
            continue
        for name in ALL_FIELDS:
            if getattr(ours, name) != getattr(theirs, name):
                yield Wrong(ts_ns, observer, key, name, str(getattr(theirs, name)), str(getattr(ours, name)))


class EventCount(NamedTuple):
    """How many events of the sentinels' own channel were found, and those that were not."""

    found: int
    missing: list[tuple[str, str, str]]
    unheard: int
    """Events of the history that the channel did not carry: of times without a subscriber."""


def compare_events(events: Sequence[EventRow], heard: Mapping[str, Sequence[tuple[str, str]]]) -> EventCount:
    """Look for every event that was *heard* (channel and text, by sentinel) in *events*, each once."""
    found, missing, unheard = 0, [], 0
    for observer, expected in sorted(heard.items()):
        ours = Counter((row.channel, row.text) for row in events if row.observer == observer)
        for channel, text in expected:
            if ours[channel, text] > 0:
                ours[channel, text] -= 1
                found += 1
            else:
                missing.append((observer, channel, text))
        unheard += sum(count for (channel, _), count in ours.items() if channel[:1] in "+-")
    return EventCount(found, missing, unheard)
