"""Headers of one node folded into spans of equal claims, with silences (R3).

A span ends with another claim, or a silence longer than a live node's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from cluster_core.incidents.thresholds import ORDER_NS, Thresholds
from cluster_core.slots.node_flags import NodeFlags

CLAIMED_FLAGS: Final = int(NodeFlags.MASTER | NodeFlags.REPLICA | NodeFlags.LIGHT_HEADER_MODULE | NodeFlags.NOFAILOVER)
"""Flags kept in a claim: role, version, eligibility for election."""


Claim = tuple[int, str, int, int, int]
"""Flags, replicated master, config epoch, slots, state."""


class SentHeader(NamedTuple):
    """A full header of one node; *slots* is any value that is equal for equal bitmaps."""

    ts_ns: int
    ref: int
    flags: int
    replicaof: str
    current_epoch: int
    config_epoch: int
    slots: int
    state: int
    offset: int


class ClaimSpan(NamedTuple):
    """From *from_ns* to *to_ns* the node sent *messages* headers with these claims; *silent_after* if it then fell
    silent.  Offsets are those of the first header and the greatest.
    """

    node: str
    from_ns: int
    to_ns: int
    first_ref: int
    last_ref: int
    messages: int
    flags: int
    replicaof: str
    current_epoch: int
    config_epoch: int
    slots: int
    state: int
    first_offset: int
    last_offset: int
    silent_after: bool = False

    @property
    def is_master(self) -> bool:
        """Return whether it claims the master role."""
        return bool(self.flags & NodeFlags.MASTER)

    @property
    def claim(self) -> Claim:
        """Return the claim; another one starts a new span."""
        return self.flags, self.replicaof, self.config_epoch, self.slots, self.state


class ClaimFolder:
    """Folds the headers of one node in order; `finish` comes last. Its state can be saved in between."""

    def __init__(self, node: str, thresholds: Thresholds) -> None:
        self.node = node
        self._silence_ns = thresholds.silence_ns
        self._open: ClaimSpan | None = None
        self._ended: list[ClaimSpan] = []

    def feed(self, header: SentHeader) -> None:
        """Add one header."""
        span = self._open
        if span is None:
            self._open = self._begin(header)
            return
        silent = header.ts_ns - span.to_ns > self._silence_ns
        stale = header.current_epoch < span.current_epoch  # built earlier and sent late
        flags = header.flags & CLAIMED_FLAGS
        same = (flags, header.replicaof, header.config_epoch, header.slots, header.state) == span.claim
        if not silent and (same or stale):
            self._open = ClaimSpan(
                span.node, span.from_ns, max(span.to_ns, header.ts_ns), span.first_ref, header.ref, span.messages + 1,
                span.flags, span.replicaof, max(span.current_epoch, header.current_epoch), span.config_epoch, span.slots,
                span.state, span.first_offset, span.last_offset if stale else max(span.last_offset, header.offset),
            )  # fmt: skip
            return
        self._open = self._begin(header)
        self._ended.append(span._replace(silent_after=silent))

    def feed_alike(self, last: SentHeader, count: int, offset_max: int) -> bool:
        """Add *count* headers without silence that repeat the open span apart from times and offsets; else return False and add none."""
        span, flags = self._open, last.flags & CLAIMED_FLAGS
        claim = (flags, last.replicaof, last.config_epoch, last.slots, last.state)
        if span is None or claim != span.claim or last.current_epoch != span.current_epoch:
            return False
        self._open = span._replace(
            to_ns=max(span.to_ns, last.ts_ns),
            last_ref=last.ref,
            messages=span.messages + count,
            last_offset=max(span.last_offset, offset_max),
        )
        return True

    def finish(self, last_ns: int) -> list[ClaimSpan]:
        """Return all spans; no header comes until *last_ns*."""
        span = self._open
        last = [] if span is None else [span._replace(silent_after=last_ns - span.to_ns > self._silence_ns)]
        return [*self._ended, *last]

    def _begin(self, header: SentHeader) -> ClaimSpan:
        return ClaimSpan(
            self.node, header.ts_ns, header.ts_ns, header.ref, header.ref, 1, header.flags & CLAIMED_FLAGS, header.replicaof,
            header.current_epoch, header.config_epoch, header.slots, header.state, header.offset, header.offset,
        )  # fmt: skip


def without_flips(spans: Iterable[ClaimSpan]) -> list[ClaimSpan]:
    """Undo the mixing of late and newer headers of one node (R161): each of its links delivers in order, but some late.

    The newer of two claims is repeated last, at most `ORDER_NS` after it was replaced.
    """
    todo = list(spans)
    ends = _last_repeats(todo)
    kept: list[ClaimSpan] = []
    newest = -1
    """The last repeat of the last kept claim."""
    for span, end in zip(todo, ends, strict=True):
        if kept and not kept[-1].silent_after and (newest > end or span.claim == kept[-1].claim):
            kept[-1] = _joined([kept[-1], span])
        else:
            kept.append(span)
            newest = end
    return kept


def _last_repeats(spans: list[ClaimSpan]) -> list[int]:
    """Return for each span the index of the last repeat of its claim, without a longer pause than `ORDER_NS`."""
    ends = list(range(len(spans)))
    following: dict[Claim, int] = {}
    for index in reversed(range(len(spans))):
        span = spans[index]
        repeat = following.get(span.claim, index)
        if not span.silent_after and repeat > index and spans[repeat].from_ns - spans[index + 1].from_ns <= ORDER_NS:
            ends[index] = ends[repeat]
        following[span.claim] = index
    return ends


def _joined(spans: list[ClaimSpan]) -> ClaimSpan:
    """Return one span with the first claim and the total length."""
    last = spans[-1]
    return spans[0]._replace(
        to_ns=max(span.to_ns for span in spans),
        last_ref=last.last_ref,
        messages=sum(span.messages for span in spans),
        current_epoch=max(span.current_epoch for span in spans),
        last_offset=max(span.last_offset for span in spans),
        silent_after=last.silent_after,
    )
