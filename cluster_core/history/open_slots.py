"""Open slots (CLUSTER SETSLOT MIGRATING, IMPORTING; R123) from polls and logs; the bus does not show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from cluster_core.history.statements import Lines
from cluster_core.kinds import EventKind

OPENED = (EventKind.SLOT_IMPORTING, EventKind.SLOT_MIGRATING)
CLOSED = (EventKind.SLOT_ASSIGNED, EventKind.SLOT_STABLE, EventKind.SLOT_CLOSED)


class OpenMark(NamedTuple):
    """A reply of *node* at *ts_ns* shows *slot* open from *source* to *target*; *node* is one of them."""

    node: str
    ts_ns: int
    slot: int
    source: str
    target: str


class OpenSlot(NamedTuple):
    """*slot* was open at *node* from *from_ns* to *to_ns* (None: until the end of the evidence)."""

    slot: int
    source: str
    target: str
    node: str
    from_ns: int
    to_ns: int | None


def open_slots(marks: Iterable[OpenMark], answered_ns: Mapping[str, Sequence[int]], lines: Lines) -> list[OpenSlot]:
    """Return all open periods of slots from polls and logs, in time order."""
    return sorted(
        [*_polled(marks, answered_ns), *_logged(lines)],
        key=lambda open_slot: (open_slot.from_ns, open_slot.slot, open_slot.node),
    )


def _polled(marks: Iterable[OpenMark], answered_ns: Mapping[str, Sequence[int]]) -> Iterable[OpenSlot]:
    """Yield periods of consecutive replies with a slot; the other node may change meanwhile."""

    def key(mark: OpenMark) -> tuple[str, int, bool]:
        return mark.node, mark.slot, mark.node == mark.target

    for (node, slot, _), group in groupby(sorted(marks, key=lambda mark: (*key(mark), mark.ts_ns)), key):
        shown = {mark.ts_ns: mark for mark in group}
        first: OpenMark | None = None
        for ts_ns in answered_ns.get(node, ()):
            if ts_ns in shown:
                first = first or shown[ts_ns]
            elif first is not None:
                yield OpenSlot(slot, first.source, first.target, node, first.ts_ns, ts_ns)
                first = None
        if first is not None:
            yield OpenSlot(slot, first.source, first.target, node, first.ts_ns, None)


def _logged(lines: Lines) -> Iterable[OpenSlot]:
    """Yield periods from masters' logs; replicas log the same."""
    opened: dict[tuple[str, str], OpenSlot] = {}
    for line in lines.of_kinds(0, 1 << 62, *OPENED, *CLOSED):
        key = line.observer, line.detail
        before = opened.get(key)
        if line.kind in CLOSED:
            if before is not None:
                yield opened.pop(key)._replace(to_ns=line.ts_ns)
        elif line.kind in OPENED and line.role == "M" and line.detail.isdigit():
            source, target = line.subject, line.observer
            if line.kind == EventKind.SLOT_MIGRATING:
                source, target = target, source
            from_ns = line.ts_ns if before is None else before.from_ns
            opened[key] = OpenSlot(int(line.detail), source, target, line.observer, from_ns, None)
    yield from opened.values()
