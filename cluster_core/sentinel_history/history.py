"""History of all sentinels of a deployment, from their combined evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster_core.sentinel.text import leading_number
from cluster_core.sentinel_history.announcements import deduce_from_logs, estimate_from_switches
from cluster_core.sentinel_history.beliefs import Span
from cluster_core.sentinel_history.evidence import Evidence, Polled, Told
from cluster_core.sentinel_history.fold import SentinelFold
from cluster_core.sentinel_history.rows import EventRow, OpinionRow, VoteRow


@dataclass(slots=True)
class SentinelHistory:
    """Views, announcements and votes of all sentinels; *last_ns* is the end of the evidence."""

    spans: list[Span] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    votes: list[VoteRow] = field(default_factory=list)
    opinions: list[OpinionRow] = field(default_factory=list)
    observers: list[str] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    """Address of each sentinel, from other sentinels or itself."""
    first_ns: int = 0
    last_ns: int = 0
    down_after_ms: int = 0
    """``down-after-milliseconds`` from polls and settings, else estimated; 0 if unknown."""


def fold_history(evidence: Mapping[str, Sequence[Evidence]]) -> SentinelHistory:
    """Build the history from each sentinel's *evidence*: logs, polls or both."""
    deduced = deduce_from_logs(evidence)
    history = SentinelHistory(down_after_ms=_down_after_ms(evidence))
    for observer in sorted(evidence):
        items = sorted([*evidence[observer], *deduced.get(observer, ())], key=lambda item: item.ts_ns)
        if items:
            _add(history, observer, items)
    history.events.sort(key=lambda row: row.ts_ns)
    history.votes.sort(key=lambda row: row.ts_ns)
    history.spans.sort(key=lambda span: (span.from_ns, span.observer, span.belief.key))
    for span in history.spans:
        if span.belief.kind == "sentinel":
            history.addresses[span.belief.name] = f"{span.belief.ip}:{span.belief.port}"
    return history


def _add(history: SentinelHistory, observer: str, items: Sequence[Evidence]) -> None:
    fold = SentinelFold(observer)
    for item in items:
        fold.handle(item)
    last_ns = items[-1].ts_ns
    history.observers.append(observer)
    history.spans += fold.finish(last_ns)
    history.events += fold.events
    history.votes += fold.votes
    history.opinions += fold.opinions
    history.first_ns = min(history.first_ns or items[0].ts_ns, items[0].ts_ns)
    history.last_ns = max(history.last_ns, last_ns)


def _down_after_ms(evidence: Mapping[str, Sequence[Evidence]]) -> int:
    polled = (
        leading_number(fields.get("down-after-milliseconds", ""))
        for items in evidence.values()
        for item in items
        if isinstance(item, Polled)
        for fields in item.masters
    )
    known = max(polled, default=0)
    told = {runid: [item for item in items if isinstance(item, Told)] for runid, items in evidence.items()}
    return known or estimate_from_switches(told)
