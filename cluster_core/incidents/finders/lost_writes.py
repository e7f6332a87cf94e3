"""Writes lost in a failover, as a range: from the old master's observed offsets and the unobserved time.

Offsets count bytes of the replication stream. The old master's bytes beyond the winner's offset are lost; a header
shows the offset at its time only (R3).
"""

from __future__ import annotations

from typing import Final

from cluster_core.incidents.history import History
from cluster_core.incidents.incident import NOTHING_KNOWN, Loss
from cluster_core.incidents.speech import Speech
from cluster_core.incidents.thresholds import MANUAL_FAILOVER_NS
from cluster_core.kinds import EventKind

RESYNC_NS: Final = 60_000_000_000
"""Maximum time until a deposed live master requests a resynchronization."""


PING_BYTES: Final = 14
"""Bytes of a PING in the replication stream (P5)."""
PING_NS: Final = 10_000_000_000
"""Interval of these PINGs (repl-ping-replica-period)."""


def without_pings(behind: int, after_ns: int) -> int:
    """Return *behind*, or 0 if these bytes may be PINGs of the old master until *after_ns* after the win.

    >>> without_pings(14, 0), without_pings(300, 0)
    (0, 300)
    """
    pings, rest = divmod(behind, PING_BYTES)
    return 0 if not rest and pings <= 1 + max(after_ns, 0) // PING_NS else behind


def loss_of(history: History, old: str, won_ns: int, epoch: int, offset: int) -> Loss:
    """Return the loss when *old* was replaced at *won_ns* with *epoch* at *offset*."""
    spans = _as_master(history, old, won_ns, epoch)
    if not spans:
        return NOTHING_KNOWN
    last_ns = max((span.to_ns for span in spans if span.from_ns <= won_ns), default=won_ns)
    since_ns = _process_ns(history, old, EventKind.PROCESS_STARTED, 0, last_ns)[-1:]
    ended_ns = _process_ns(history, old, EventKind.PROCESS_ENDED, min(last_ns, won_ns), history.last_ns)[:1]
    spans = [span for span in spans if span.from_ns >= sum(since_ns)]
    again_ns = _process_ns(history, old, EventKind.PROCESS_STARTED, last_ns, history.last_ns)[:1]
    spans = [span for span in spans if not ended_ns or span.from_ns <= ended_ns[0]]
    spans = [span for span in spans if not again_ns or span.from_ns < again_ns[0]]  # the next process starts at zero
    if not spans:
        return NOTHING_KNOWN
    follows = (span.from_ns for span in history.speech[old] if span.from_ns > won_ns and span.replicaof)
    until_ns = ended_ns[0] if ended_ns else next(follows, None)
    heard_ns, best = spans[-1].to_ns, max(span.last_offset for span in spans)
    for seen in history.offsets.get(old, []):
        if seen.is_last:
            if not ended_ns and 0 <= seen.ts_ns - won_ns <= RESYNC_NS and seen.offset >= best:
                return Loss(without_pings(max(0, seen.offset - offset), seen.ts_ns - won_ns), 0)
        elif spans[0].from_ns <= seen.ts_ns <= (until_ns or history.last_ns) and seen.offset >= best:
            heard_ns, best = max(heard_ns, seen.ts_ns), seen.offset
    if _was_paused(history, old, won_ns) and offset >= best:
        return Loss(0, 0)
    unheard_ns = None if until_ns is None else max(0, until_ns - heard_ns)
    behind = without_pings(max(0, best - offset), heard_ns - won_ns)
    return Loss(behind, None if unheard_ns is None else -(-unheard_ns // 1_000_000))


def _as_master(history: History, old: str, won_ns: int, epoch: int) -> list[Speech]:
    """Return when the old master claimed the master role, also after the win until it learned of it."""
    speeches: list[Speech] = []
    for span in history.speech.get(old, []):
        if not span.is_master:
            if span.from_ns > won_ns:
                break
            speeches = []
        elif span.config_epoch < epoch:
            speeches.append(span)
    return speeches


def _process_ns(history: History, node: str, kind: EventKind, from_ns: int, to_ns: int) -> list[int]:
    """Return when a node's process ended or started within a period."""
    events = history.events_of(kind)
    return [event.ts_ns for event in events if event.observer == node and from_ns <= event.ts_ns <= to_ns]


def _was_paused(history: History, old: str, won_ns: int) -> bool:
    """Return whether the old master paused writes for its successor (R98, R99)."""
    return any(
        event.observer == old and 0 <= won_ns - event.ts_ns <= MANUAL_FAILOVER_NS
        for event in history.events_of("paused")
    )
