"""Unread shares of a snapshot's inputs, as values and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster_core.load.unread import FileUnread, Unread
from schemas.caveats import Caveat, Code
from schemas.interim import UnitFacts
from slotscope.reports.unread import HOLDS_WORDS, unread_lines


def find_unread(units: Sequence[UnitFacts]) -> Unread:
    """Return what could not be read of the inputs that *units* are pieces of."""
    pieces: dict[str, list[UnitFacts]] = {}
    for unit in units:
        pieces.setdefault(unit.source, []).append(unit)
    files = tuple(_file(mine) for _, mine in sorted(pieces.items()) if any(one.bad_records is not None for one in mine))
    return Unread(files, sum(map(_size, pieces.values())), sum(unit.keys for unit in units))


def find_partial(unread: Unread) -> list[Caveat]:
    """Say for each input, and for all, what share of it was not read."""
    if not unread:
        return []
    lines = unread_lines(unread)
    first = f"partial: {HOLDS_WORDS}: {lines[-1]}"
    return [Caveat.error(Code.PARTIAL, line) for line in (first, *lines[:-1])]


def share_by_node(unread: Unread, node_of: Mapping[str, str | None]) -> dict[str, float | None]:
    """Return the greatest share of a node's inputs that could not be read; None where one is not known; other nodes lack nothing."""
    shares: dict[str, float | None] = {}
    for file in unread.files:
        node = node_of.get(file.source)
        if node is not None:
            before, share = shares.get(node, 0.0), file.share
            shares[node] = None if before is None or share is None else max(before, share)
    return shares


def _size(pieces: Sequence[UnitFacts]) -> int:
    """Bytes of a file as stored; a log is the sum of its files, each told by one of its pieces."""
    sizes = [unit.file_bytes for unit in pieces]
    return sum(sizes) if pieces[0].kind == "aof" else max(sizes)


def _file(pieces: Sequence[UnitFacts]) -> FileUnread:
    first = pieces[0]
    keys = sum(unit.keys for unit in pieces)
    records = [unit.records for unit in pieces]
    if first.kind == "rdb":  # the first range of a dump announces the keys of all
        known = [count for count in records if count is not None]
        told = sum(known) if known else None
        hollow = sum(unit.hollow_keys or 0 for unit in pieces)
        missing = None if told is None else max(told - keys - hollow, 0)
    else:
        bad = [unit for unit in pieces if unit.bad_records is not None]
        told = _total(
            [unit.keys if unit.records is None and unit.bad_records is None else unit.records for unit in pieces]
        )
        missing = _total([unit.unread_records for unit in bad])
    return FileUnread(
        first.source,
        first.kind,
        _size(pieces) or None,
        _unread_bytes(pieces),
        told,
        missing,
        any(unit.ends_early for unit in pieces),
        sum(unit.bad_records or 0 for unit in pieces),
    )


def _unread_bytes(pieces: Sequence[UnitFacts]) -> int | None:
    """Bytes that were passed over; a log is read twice, for its load and for its keys, and the worse of both counts."""
    states = [unit for unit in pieces if unit.role == "state"]
    loads = [unit for unit in pieces if unit.role != "state"]
    sums = [_total([unit.unread_bytes for unit in mine if unit.bad_records is not None]) for mine in (states, loads)]
    return None if None in sums else max(total for total in sums if total is not None)


def _total(numbers: Sequence[int | None]) -> int | None:
    return None if None in numbers else sum(number for number in numbers if number is not None)
