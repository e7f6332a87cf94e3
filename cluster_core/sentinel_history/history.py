"""All sentinels of a deployment: their evidence put together, each folded, and what came of it in one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cluster_core.sentinel.events import Hello, parse_hello
from cluster_core.sentinel.instance import Address
from cluster_core.sentinel_history.announcements import deduce_from_logs, merge_told
from cluster_core.sentinel_history.beliefs import Span
from cluster_core.sentinel_history.evidence import (
    LOG,
    WHOLE,
    Answered,
    Evidence,
    Heard,
    Linked,
    Sent,
    Stopped,
    Told,
)
from cluster_core.sentinel_history.fold.machine import SentinelFold
from cluster_core.sentinel_history.fold.state import Ticks
from cluster_core.sentinel_history.rows import ChoiceRow, EventRow, OpinionRow, SignRow, VoteRow

TICK_MS = 110
"""The longest time between two runs of the timer, and a little more."""
FIRST_HELLO_NS = 3_000_000_000
"""A sentinel sends its first hello message within this time; what it says holds from its beginning."""


@dataclass(slots=True)
class SentinelHistory:
    """What the sentinels of a deployment believed, announced and voted; *last_ns* is the end of the evidence."""

    spans: list[Span] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    votes: list[VoteRow] = field(default_factory=list)
    opinions: list[OpinionRow] = field(default_factory=list)
    signs: list[SignRow] = field(default_factory=list)
    choices: list[ChoiceRow] = field(default_factory=list)
    observers: list[str] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    """Where each sentinel listens, as the others or it itself say."""
    first_ns: int = 0
    last_ns: int = 0
    down_after_ms: int = 0
    """The setting, as given or estimated; 0 where nothing was ever held for down."""


def fold_history(
    captured: Mapping[str, Sequence[Evidence]],
    other: Mapping[str, Sequence[Evidence]],
    *,
    down_after_ms: int | None = None,
    quorum: int | None = None,
) -> SentinelHistory:
    """Fold the evidence of *captured* and *other* (logs, polls), both by sentinel and in order of time."""
    deduced = deduce_from_logs({runid: items for runid, items in other.items() if runid not in captured})
    joined = {
        observer: join_evidence(captured.get(observer, ()), [*other.get(observer, ()), *deduced.get(observer, ())])
        for observer in sorted({*captured, *other})
    }
    folds = [_folded(observer, evidence, down_after_ms, quorum) for observer, evidence in joined.items() if evidence]
    if down_after_ms is None and any(fold.was_untold for fold in folds):
        down_after_ms = estimate_down_after_ms([silence for fold in folds for silence in fold.silences_ms])
        if down_after_ms is not None:
            folds = [_folded(fold.observer, joined[fold.observer], down_after_ms, quorum) for fold in folds]
    history = _put_together(folds, joined)
    history.down_after_ms = (
        down_after_ms or estimate_down_after_ms([one for fold in folds for one in fold.silences_ms]) or 0
    )
    return history


def _put_together(folds: Sequence[SentinelFold], joined: Mapping[str, Sequence[Evidence]]) -> SentinelHistory:
    history = SentinelHistory()
    for fold in folds:
        evidence = joined[fold.observer]
        history.observers.append(fold.observer)
        last_ns = max(evidence[-1].ts_ns, fold.now_ns)
        history.spans += fold.finish(last_ns)
        history.events += fold.events
        history.votes += fold.votes
        history.opinions += fold.opinions
        history.signs += fold.signs
        history.choices += fold.choices
        history.first_ns = min(history.first_ns or evidence[0].ts_ns, evidence[0].ts_ns)
        history.last_ns = max(history.last_ns, last_ns)
    for span in history.spans:
        if span.belief.kind == "sentinel":
            history.addresses[span.belief.name] = f"{span.belief.ip}:{span.belief.port}"
    history.events.sort(key=lambda row: row.ts_ns)
    history.votes.sort(key=lambda row: row.ts_ns)
    history.spans.sort(key=lambda span: (span.from_ns, span.observer, span.belief.key))
    return history


def estimate_down_after_ms(silences_ms: Sequence[int]) -> int | None:
    """The roundest ``down-after-milliseconds`` that explains for how long instances were silent when they were down.

    A timer that runs ten times a second or more finds it out at most a period late; silences that do not fit are of
    others (a master that says it is a replica, a changed setting).

    >>> estimate_down_after_ms([2047, 2010, 2100])
    2000
    """
    found = sorted(silence for silence in silences_ms if silence > 0)
    if not found:
        return None
    middle = found[len(found) // 2]
    fitting = [silence for silence in found if abs(silence - middle) <= TICK_MS]
    low, high = max(fitting) - TICK_MS, min(fitting)
    for step in (1000, 500, 100, 50, 10, 1):
        rounded = (high - 1) // step * step
        if rounded >= max(low, 1):
            return rounded
    return max(high - 1, 1)


def join_evidence(captured: Sequence[Evidence], other: Sequence[Evidence]) -> list[Evidence]:
    """One list of evidence of one sentinel, in order of time: an event that its log and a subscriber tell stands once.

    What reaches a process that does not run is moved to the time when it goes on.
    """
    pushed = [item for item in captured if isinstance(item, Told)]
    logged = [item for item in other if isinstance(item, Told)]
    rest = [item for item in (*captured, *other) if not isinstance(item, Told)]
    merged = sorted([*rest, *merge_told(pushed, logged)], key=lambda item: item.ts_ns)
    ticks = Ticks(merged)
    kept = [_awake(item, ticks) for item in _without_false_ends(merged)]
    return sorted(kept, key=lambda item: item.ts_ns)


def _awake(item: Evidence, ticks: Ticks) -> Evidence:
    if isinstance(item, Answered | Heard):
        later = ticks.is_stopped(item.ts_ns)
        if later is not None:
            return item._replace(ts_ns=later)
    return item


def _without_false_ends(evidence: Sequence[Evidence]) -> Iterable[Evidence]:
    """A process that still uses a connection which it had before has not ended: only one of its clients was let go."""
    begun: dict[int, int] = {item.connection: item.ts_ns for item in evidence if isinstance(item, Linked)}
    oldest_ns: int | None = None
    kept: list[Evidence] = []
    for item in reversed(evidence):
        if isinstance(item, Sent):
            begun_ns = begun.get(item.connection, item.ts_ns)
            oldest_ns = begun_ns if oldest_ns is None else min(oldest_ns, begun_ns)
        if isinstance(item, Stopped) and oldest_ns is not None and oldest_ns <= item.ts_ns:
            continue
        kept.append(item)
    return reversed(kept)


def _folded(observer: str, evidence: Sequence[Evidence], down_after_ms: int | None, quorum: int | None) -> SentinelFold:
    fold = SentinelFold(observer, Ticks(evidence), down_after_ms=down_after_ms, quorum=quorum)
    hellos = list(_first_hellos(observer, evidence))
    if hellos:
        fold.begin(evidence[0].ts_ns, hellos)
        early = [item for item in evidence if item.ts_ns - evidence[0].ts_ns <= FIRST_HELLO_NS]
        targets = dict.fromkeys(one.target for one in early if isinstance(one, Linked) and one.purpose == WHOLE)
        told = (parse_hello(item.text) for item in early if isinstance(item, Heard))
        fold.begin_amid(targets, {Address(one.ip, one.port): one.runid for one in told if one is not None})
    for item in evidence:
        fold.handle(item)
    return fold


def _first_hellos(observer: str, evidence: Sequence[Evidence]) -> Iterable[Hello]:
    """The first hello message of each master that the sentinel sends soon after it is first seen.

    A master whose beginning it announces is not one that it had before.
    """
    announced = {
        item.text.split(" ")[1]
        for item in evidence
        if isinstance(item, Told) and item.channel == "+monitor" and item.source != LOG and " " in item.text
    }
    seen: set[str] = set()
    for item in evidence:
        if not isinstance(item, Sent) or item.words[0].upper() != b"PUBLISH" or len(item.words) != 3:
            continue
        hello = parse_hello(item.words[2].decode("utf-8", "replace"))
        if hello is None or hello.runid != observer or hello.master_name in seen:
            continue
        seen.add(hello.master_name)
        is_soon = item.ts_ns - evidence[0].ts_ns <= FIRST_HELLO_NS
        if is_soon and hello.master_name not in announced:
            yield hello
