"""From intervals of belief to who owned which slots, per observer and agreed, and to memberships.

One pass over the beliefs of all observers in order of time: an owner table per observer (two bytes a slot) and one of
what all observers agree on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.replay.rows import MembershipRow, OwnerRow
from cluster_core.slots.slot_set import SlotSet
from schemas.table import side_by_side

SLOT_COUNT: Final = 16384
OWNED, MEMBER = 0, 1
"""Kinds of rows of `DERIVED`."""
NOBODY: Final = -1
NO_ACCORD: Final = -2
ROWS_PER_BATCH: Final = 20_000
TEXTS_CACHED: Final = 1 << 10
"""All observers name the same slots of a node; 32 kB at most each."""

DERIVED = pa.schema([pa.field("row_kind", pa.int32(), nullable=False), *side_by_side((OwnerRow, MembershipRow))])


class Belief(NamedTuple):
    """What is needed of a row of silver/node_views."""

    observer: str
    node_id: str
    ip: str
    port: int
    hostname: str
    slots: str
    valid_from_ns: int
    valid_to_ns: int | None
    cause: str
    message_id: int | None


VIEW_COLUMNS: Final = Belief._fields


def derive_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of `DERIVED` from all beliefs (`VIEW_COLUMNS`), which come in one partition."""
    beliefs = [Belief(*row) for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
    rows = [*owner_rows(beliefs), *member_rows(beliefs)]
    for start in range(0, len(rows), ROWS_PER_BATCH):
        yield pa.RecordBatch.from_pylist(rows[start : start + ROWS_PER_BATCH], schema=DERIVED)


@dataclass(slots=True)
class Owners:
    """Who owns each slot in one view, since when; *count* is how many owners are named there."""

    owner: NDArray[np.int32]
    since_ns: NDArray[np.int64]
    count: NDArray[np.int32]

    @classmethod
    def empty(cls, owner: NDArray[np.int32], since_ns: int) -> Owners:
        """Nobody owns anything, as *owner* says."""
        return cls(owner, np.full(SLOT_COUNT, since_ns, np.int64), np.zeros(SLOT_COUNT, np.int32))


def owner_rows(beliefs: list[Belief]) -> list[dict[str, Any]]:
    """Rows of silver/slot_owners: ranges of slots with one owner for a while; slots that nobody owns have none."""
    changes = _changes(beliefs)
    if not changes:
        return []
    names: list[str] = sorted({belief.node_id for belief in beliefs})
    numbers = {name: number for number, name in enumerate(names)}
    books = _Books(names, len({observer for _, observer, *_ in changes}), changes[0][0])
    at = 0
    while at < len(changes):
        ts_ns = changes[at][0]
        touched: dict[str, list[tuple[int, NDArray[np.uint16], bool]]] = {}
        while at < len(changes) and changes[at][0] == ts_ns:
            _, observer, node_id, slots, gained = changes[at]
            touched.setdefault(observer, []).append((numbers[node_id], slots, gained))
            at += 1
        books.apply(ts_ns, touched)
    books.close()
    return books.rows


def _changes(beliefs: list[Belief]) -> list[tuple[int, str, str, NDArray[np.uint16], bool]]:
    """What nodes gained and lost in each view, in order of time; within an instant losses come first."""
    histories: dict[tuple[str, str], list[Belief]] = {}
    for belief in beliefs:
        histories.setdefault((belief.observer, belief.node_id), []).append(belief)
    changes: list[tuple[int, str, str, NDArray[np.uint16], bool]] = []
    for (observer, node_id), history in sorted(histories.items()):
        history.sort(key=lambda belief: belief.valid_from_ns)
        held, until = "", None
        for belief in history:
            if until is not None and held and until < belief.valid_from_ns:
                changes.append((until, observer, node_id, _slots_of(held), False))
                held = ""
            if belief.slots != held:
                before, after = _slots_of(held), _slots_of(belief.slots)
                lost, gained = _without(before, after), _without(after, before)
                if len(lost):
                    changes.append((belief.valid_from_ns, observer, node_id, lost, False))
                if len(gained):
                    changes.append((belief.valid_from_ns, observer, node_id, gained, True))
                held = belief.slots
            until = belief.valid_to_ns
        if until is not None and held:
            changes.append((until, observer, node_id, _slots_of(held), False))
    changes.sort(key=lambda change: (change[0], change[1], change[4], change[2]))
    return changes


@lru_cache(maxsize=TEXTS_CACHED)
def _slots_of(text: str) -> NDArray[np.uint16]:
    found = np.array(list(SlotSet.parse(text)) if text else [], dtype=np.uint16)
    found.setflags(write=False)  # it is the same to all who ask
    return found


def _without(slots: NDArray[np.uint16], others: NDArray[np.uint16]) -> NDArray[np.uint16]:
    return np.setdiff1d(slots, others, assume_unique=True) if len(slots) and len(others) else slots


def _union(parts: list[NDArray[Any]]) -> NDArray[np.int64]:
    """The slots of all *parts*, each of which is in order."""
    found: NDArray[np.int64] = (parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))).astype(np.int64)
    return found


class _Books:
    """Owner tables of all observers and of their accord."""

    def __init__(self, names: list[str], observers: int, start_ns: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._names = names
        self._views: dict[str, Owners] = {}
        self._owners = np.full((observers + 1, SLOT_COUNT), NOBODY, np.int32)
        """One observer's after the other's; those that none has said yet name nobody.  The accord comes last."""
        self._accord = Owners.empty(self._owners[-1], start_ns)

    def apply(self, ts_ns: int, touched: dict[str, list[tuple[int, NDArray[np.uint16], bool]]]) -> None:
        """Apply all changes of one instant."""
        changed = [
            self._change(observer, self._view(observer, ts_ns), changes, ts_ns) for observer, changes in touched.items()
        ]
        self._agree(_union(changed), ts_ns)

    def _view(self, observer: str, ts_ns: int) -> Owners:
        if observer not in self._views:
            self._views[observer] = Owners.empty(self._owners[len(self._views)], ts_ns)
        return self._views[observer]

    def _change(
        self, observer: str, view: Owners, changes: list[tuple[int, NDArray[np.uint16], bool]], ts_ns: int
    ) -> NDArray[np.int64]:
        """Let one observer believe *changes*; the slots that have another owner then."""
        slots = _union([slots for _, slots, _ in changes])
        before, owner = view.owner[slots], view.owner
        for node, these, gained in changes:
            if gained:
                owner[these] = node
            else:
                owner[these[owner[these] == node]] = NOBODY
        after = owner[slots]
        owner[slots] = before
        different = before != after
        changed: NDArray[np.int64] = slots[different]
        owner_now = after[different]
        self._move(observer, view, changed, owner_now, (owner_now != NOBODY).astype(np.int32), ts_ns)
        return changed

    def _agree(self, slots: NDArray[np.int64], ts_ns: int) -> None:
        """What all observers that name an owner say of *slots*."""
        if not len(slots):
            return
        begin, end = int(slots[0]), int(slots[-1]) + 1
        is_range = end - begin == len(slots)
        told = self._owners[:-1, begin:end] if is_range else self._owners[:-1].take(slots, axis=1)
        top = told.max(axis=0)
        count = (top != NOBODY).astype(np.int32)
        # the least of those that are named: without a sign nobody comes last
        least = told.view(np.uint32).min(axis=0).view(np.int32)
        disputed = np.flatnonzero(least != top)
        if len(disputed):
            several = np.sort(told[:, disputed], axis=0)
            first = several != NOBODY
            first[1:] &= several[1:] != several[:-1]
            count[disputed] = first.sum(axis=0)
        owner = np.where(count > 1, NO_ACCORD, top)
        different = (owner != self._accord.owner[slots]) | (count != self._accord.count[slots])
        self._move("", self._accord, slots[different], owner[different], count[different], ts_ns)

    def _move(
        self,
        observer: str,
        view: Owners,
        slots: NDArray[np.int64],
        owner: NDArray[np.int32],
        count: NDArray[np.int32],
        ts_ns: int,
    ) -> None:
        """Give *slots* another owner, and write down the one that they had."""
        self._write(observer, view, slots, ts_ns)
        view.owner[slots], view.count[slots], view.since_ns[slots] = owner, count, ts_ns

    def close(self) -> None:
        """What holds at the end has no end."""
        for observer, view in sorted(self._views.items()):
            self._write(observer, view, np.arange(SLOT_COUNT), None)
        self._write("", self._accord, np.arange(SLOT_COUNT), None)

    def _write(self, observer: str, view: Owners, slots: NDArray[np.int64], to_ns: int | None) -> None:
        slots = slots[(view.owner[slots] != NOBODY) & ((view.since_ns[slots] < to_ns) if to_ns is not None else True)]
        if not len(slots):
            return
        same = (
            (np.diff(slots) == 1)
            & (np.diff(view.owner[slots]) == 0)
            & (np.diff(view.since_ns[slots]) == 0)
            & (np.diff(view.count[slots]) == 0)
        )
        starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
        ends = np.concatenate((starts[1:] - 1, [len(slots) - 1]))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            slot = slots[start]
            number = int(view.owner[slot])
            self.rows.append(
                {
                    "row_kind": OWNED,
                    "observer": observer,
                    "first_slot": int(slot),
                    "last_slot": int(slots[end]),
                    "owner": self._names[number] if number >= 0 else None,
                    "owners": int(view.count[slot]),
                    "valid_from_ns": int(view.since_ns[slot]),
                    "valid_to_ns": to_ns,
                }
            )


def member_rows(beliefs: list[Belief]) -> list[dict[str, Any]]:
    """Rows of silver/memberships: beliefs about one node that follow each other without a gap."""
    rows: list[dict[str, Any]] = []
    last: Belief | None = None
    addresses: dict[tuple[str, int], None] = {}
    for belief in sorted(beliefs, key=lambda belief: (belief.observer, belief.node_id, belief.valid_from_ns)):
        address = (belief.ip, belief.port)
        follows = (
            last is not None
            and (last.observer, last.node_id) == (belief.observer, belief.node_id)
            and last.valid_to_ns == belief.valid_from_ns
        )
        if follows:
            addresses[address] = None
            rows[-1] |= {"ip": belief.ip or rows[-1]["ip"], "port": belief.port, "hostname": belief.hostname}
            rows[-1] |= {"valid_to_ns": belief.valid_to_ns, "addresses": len(addresses)}
        else:
            addresses = {address: None}
            rows.append(
                {"row_kind": MEMBER, "addresses": 1}
                | {name: value for name, value in belief._asdict().items() if name != "slots"}
            )
        last = belief
    return rows
