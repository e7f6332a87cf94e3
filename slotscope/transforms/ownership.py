"""Slot owners, per observer and agreed, from intervals of belief.

One pass over the beliefs of all observers in order of time: an owner table per observer (two bytes a slot) and one of
their agreement.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kinds import Source
from cluster_core.replay.rows import OwnerRow
from cluster_core.slots.slot_set import SlotSet
from schemas.table import side_by_side

SLOT_COUNT: Final = 16384
NOBODY: Final = -1
NO_ACCORD: Final = -2
NO_BOUND: Final = -1
EVIDENCE: Final = tuple(map(str, Source))
TEXTS_CACHED: Final = 1 << 10
"""All observers name the same slots of a node; 32 kB at most each."""

OWNERS = pa.schema(side_by_side((OwnerRow,)))


class Belief(NamedTuple):
    """Columns of silver/node_views that ownership needs."""

    observer: str
    node_id: str
    slots: str
    valid_from_ns: int
    valid_to_ns: int | None
    valid_from_min_ns: int | None
    evidence: str


class Change(NamedTuple):
    """At *ts_ns*, and after *min_ns* (`NO_BOUND`: unknown), *node_id* gained or lost slots in the view of *observer*."""

    ts_ns: int
    observer: str
    node_id: str
    slots: NDArray[np.uint16]
    gained: bool
    min_ns: int
    evidence: str


VIEW: Final = np.dtype(
    [("owner", np.int32), ("count", np.int32), ("since_ns", np.int64), ("min_ns", np.int64), ("evidence", np.int8)]
)
"""Who owns a slot in one view, how many owners are named there, since when, after which time, and by which of `EVIDENCE`."""
VIEW_COLUMNS: Final = Belief._fields


def find_owners(views: pa.Table) -> pa.Table:
    """Return the columns of silver/slot_owners by all views (`VIEW_COLUMNS`)."""
    beliefs = [Belief(*row) for row in zip(*(column.to_pylist() for column in views.columns), strict=True)]
    return pa.Table.from_pylist(owner_rows(beliefs), schema=OWNERS)


def owner_rows(beliefs: list[Belief]) -> list[dict[str, Any]]:
    """Rows of silver/slot_owners: ranges of slots with one owner for a while; unowned slots have none."""
    changes = _changes(beliefs)
    if not changes:
        return []
    names: list[str] = sorted({belief.node_id for belief in beliefs})
    numbers = {name: number for number, name in enumerate(names)}
    books = _OwnerTables(names, numbers, len({change.observer for change in changes}), changes[0].ts_ns)
    for ts_ns, group in groupby(changes, key=lambda change: change.ts_ns):
        touched: dict[str, list[Change]] = {}
        for change in group:
            touched.setdefault(change.observer, []).append(change)
        books.apply(ts_ns, touched)
    books.close()
    return books.rows


def _changes(beliefs: list[Belief]) -> list[Change]:
    """Return gains and losses of nodes in each view, in order of time; within an instant losses come first."""
    histories: dict[tuple[str, str], list[Belief]] = {}
    for belief in beliefs:
        histories.setdefault((belief.observer, belief.node_id), []).append(belief)
    changes: list[Change] = []
    for (observer, node_id), history in sorted(histories.items()):
        history.sort(key=lambda belief: belief.valid_from_ns)
        held, last = "", None
        for belief in history:
            if last is not None and last.valid_to_ns is not None and held and last.valid_to_ns < belief.valid_from_ns:
                changes.append(_end_of(last, held))
                held = ""
            if belief.slots != held:
                before, after = _slots_of(held), _slots_of(belief.slots)
                min_ns = NO_BOUND if belief.valid_from_min_ns is None else belief.valid_from_min_ns
                for slots, gained in ((_without(before, after), False), (_without(after, before), True)):
                    if len(slots):
                        changes.append(
                            Change(belief.valid_from_ns, observer, node_id, slots, gained, min_ns, belief.evidence)
                        )
                held = belief.slots
            last = belief
        if last is not None and last.valid_to_ns is not None and held:
            changes.append(_end_of(last, held))
    changes.sort(key=lambda change: (change.ts_ns, change.observer, change.gained, change.node_id))
    return changes


def _end_of(last: Belief, held: str) -> Change:
    """A node is no longer known after its *last* belief."""
    ts_ns = last.valid_to_ns or 0
    return Change(ts_ns, last.observer, last.node_id, _slots_of(held), False, NO_BOUND, last.evidence)


@lru_cache(maxsize=TEXTS_CACHED)
def _slots_of(text: str) -> NDArray[np.uint16]:
    numbers = np.array(list(SlotSet.parse(text)) if text else [], dtype=np.uint16)
    numbers.setflags(write=False)  # it is the same to all who ask
    return numbers


def _without(slots: NDArray[np.uint16], removed: NDArray[np.uint16]) -> NDArray[np.uint16]:
    return np.setdiff1d(slots, removed, assume_unique=True) if len(slots) and len(removed) else slots


def _union(parts: list[NDArray[Any]]) -> NDArray[np.int64]:
    """Return the slots of all *parts*, each in ascending order."""
    union: NDArray[np.int64] = (parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))).astype(np.int64)
    return union


class _OwnerTables:
    """Owner tables (`VIEW`) of all observers and of their accord, which is the last."""

    def __init__(self, names: list[str], numbers: Mapping[str, int], observers: int, start_ns: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._names, self._numbers = names, numbers
        self._latest = np.array([(NOBODY, 0, 0, NO_BOUND, 0)] * SLOT_COUNT, VIEW)
        """The bound and the evidence of the last change of each slot."""
        self._views = np.tile(self._latest, (observers + 1, 1))
        self._views["since_ns"] = start_ns
        self._observers: dict[str, int] = {}

    def apply(self, ts_ns: int, touched: dict[str, list[Change]]) -> None:
        """Apply all changes of one instant."""
        changed = [self._change(observer, changes, ts_ns) for observer, changes in touched.items()]
        self._agree(_union(changed), ts_ns)

    def _change(self, observer: str, changes: list[Change], ts_ns: int) -> NDArray[np.int64]:
        """Let one observer believe *changes*; the slots that have another owner then."""
        view = self._views[self._observers.setdefault(observer, len(self._observers))]
        slots, after = _union([change.slots for change in changes]), view["owner"].copy()
        for change in changes:
            these, node = change.slots, self._numbers[change.node_id]
            if change.gained:
                after[these] = node
            else:
                after[these[after[these] == node]] = NOBODY
            self._latest["min_ns"][these] = change.min_ns
            self._latest["evidence"][these] = EVIDENCE.index(change.evidence)
        changed: NDArray[np.int64] = slots[after[slots] != view["owner"][slots]]
        self._move(observer, view, changed, after[changed], (after[changed] != NOBODY).astype(np.int32), ts_ns)
        return changed

    def _agree(self, slots: NDArray[np.int64], ts_ns: int) -> None:
        """Update the accord of all observers that name an owner of *slots*."""
        if not len(slots):
            return
        named, accord = self._views["owner"][:-1, slots], self._views[-1]
        top = named.max(axis=0)
        count = (top != NOBODY).astype(np.int32)
        # the least of those that are named: without a sign nobody comes last
        least = named.view(np.uint32).min(axis=0).view(np.int32)
        disputed = np.flatnonzero(least != top)
        if len(disputed):
            several = np.sort(named[:, disputed], axis=0)
            first = several != NOBODY
            first[1:] &= several[1:] != several[:-1]
            count[disputed] = first.sum(axis=0)
        owner = np.where(count > 1, NO_ACCORD, top)
        different = (owner != accord["owner"][slots]) | (count != accord["count"][slots])
        self._move("", accord, slots[different], owner[different], count[different], ts_ns)

    def _move(
        self,
        observer: str,
        view: NDArray[Any],
        slots: NDArray[np.int64],
        owner: NDArray[np.int32],
        count: NDArray[np.int32],
        ts_ns: int,
    ) -> None:
        """Give *slots* another owner, and write down the one that they had."""
        self._write(observer, view, slots, ts_ns)
        after = self._latest[slots]
        after["owner"], after["count"], after["since_ns"] = owner, count, ts_ns
        view[slots] = after

    def close(self) -> None:
        """Yield the last intervals, without an end."""
        for observer, at in sorted(self._observers.items()):
            self._write(observer, self._views[at], np.arange(SLOT_COUNT), None)
        self._write("", self._views[-1], np.arange(SLOT_COUNT), None)

    def _write(self, observer: str, view: NDArray[Any], slots: NDArray[np.int64], to_ns: int | None) -> None:
        """Write the owners of *slots* until *to_ns*, a row a range of slots that are alike."""
        slots = slots[(view["owner"][slots] != NOBODY) & (to_ns is None or view["since_ns"][slots] < to_ns)]
        if not len(slots):
            return
        held, ends = view[slots], self._latest["min_ns"][slots]
        same = (np.diff(slots) == 1) & (held[1:] == held[:-1]) & (to_ns is None or ends[1:] == ends[:-1])
        starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
        for start, end in zip(starts.tolist(), [*(starts[1:] - 1).tolist(), len(slots) - 1], strict=True):
            number, count, since_ns, min_ns, evidence = held[start].item()
            self.rows.append(
                {
                    "observer": observer,
                    "first_slot": int(slots[start]),
                    "last_slot": int(slots[end]),
                    "owner": self._names[number] if number >= 0 else None,
                    "owners": count,
                    "valid_from_ns": since_ns,
                    "valid_to_ns": to_ns,
                    "valid_from_min_ns": _bound(min_ns),
                    "valid_to_min_ns": _bound(int(ends[start])) if to_ns is not None else None,
                    "evidence": EVIDENCE[evidence],
                }
            )


def _bound(min_ns: int) -> int | None:
    """A time that bounds a change; None for `NO_BOUND`."""
    return None if min_ns == NO_BOUND else min_ns
