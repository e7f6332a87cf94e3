"""Warnings of a snapshot: pure functions from the facts of its units to caveats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cluster_core.load.unread import Attribution, FileUnread, UnreadInputs
from cluster_core.memory.model import ESTIMATES, MODEL, NEAREST, Exactness, MemoryBasis
from cluster_core.topology.node import Topology
from schemas.caveats import Caveat, Code
from schemas.interim import UnitFacts
from slotscope.reports.unread import UNREAD_NOTE, unread_lines
from slotscope.runtime import text
from slotscope.runtime.failure import printable
from slotscope.runtime.text import plural

LISTED_MAX = 5
"""Examples named in one warning; the rest is counted."""
_EXCESS_MIN = 0.02
_USED_BYTES_MIN = 32 << 20


class ForeignKeys(NamedTuple):
    """Keys that a dump holds although its node does not own their slots."""

    source: str
    owner_id: str | None
    keys: int


def find_bad(bad: Sequence[tuple[str, int, str]], count: int) -> list[Caveat]:
    """*bad* are (source, offset, reason) of the first bad records, *count* is how many there are in all."""
    if not count:
        return []
    examples = [f"{printable(source)}: offset {at}: {printable(reason)}" for source, at, reason in bad[:LISTED_MAX]]
    return [Caveat.error(Code.BAD_RECORDS, f"{plural(count, 'record')} could not be read: {_list(examples, count)}")]


def find_foreign(
    foreign: Iterable[ForeignKeys], attributions: Mapping[str, Attribution], topology: Topology
) -> list[Caveat]:
    """Keys in slots that the dump's node does not own, one warning a dump."""
    by_source: dict[str, list[ForeignKeys]] = defaultdict(list)
    for row in foreign:
        if attributions[row.source].node_id not in (None, row.owner_id) and row.keys:
            by_source[row.source].append(row)
    return [
        Caveat.error(
            Code.FOREIGN_KEYS,
            f"{printable(source)} is a dump of {_node(attributions[source].node_id, topology)} but holds "
            + ", ".join(f"{plural(row.keys, 'key')} in slots of {_node(row.owner_id, topology)}" for row in rows),
        )
        for source, rows in sorted(by_source.items())
    ]


def find_older(older: Mapping[str, str]) -> list[Caveat]:
    """Dumps that were not read, each with the dump that was read for it."""
    if not older:
        return []
    names = [f"{printable(path)} ({printable(newest)})" for path, newest in list(older.items())[:LISTED_MAX]]
    text = f"{plural(len(older), 'dump')} skipped, because a dump of the same data is as new or newer: {_list(names, len(older))}"
    return [Caveat.note(Code.OLDER_DUMPS, text)]


def find_twins(
    units: Sequence[UnitFacts], attributions: Mapping[str, Attribution], topology: Topology | None
) -> list[Caveat]:
    """Two dumps of one node in one snapshot: by attribution, else by replication id, else by checksum."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for source, unit in {unit.source: unit for unit in units if unit.holds_keys}.items():
        node_id = attributions[source].node_id
        replid, crc = unit.aux.get("repl-id", ""), unit.stored_crc or ""
        if node_id is not None:
            groups["node", node_id].append(source)
        elif replid.strip("0"):
            groups["repl-id", replid].append(source)
        elif crc.strip("0"):
            groups["checksum", crc].append(source)
    return [
        Caveat.error(
            Code.SAME_NODE_TWICE,
            f"{' and '.join(printable(source) for source in sorted(sources))} hold data of the same node "
            f"({_node(name, topology) if how == 'node' and topology else f'{how} {printable(name)}'}): its keys are counted {len(sources)} times; name only one",
        )
        for (how, name), sources in sorted(groups.items())
        if len(sources) > 1
    ]


def find_trailing(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Bytes after the end of a dump."""
    return [
        Caveat.warning(
            Code.TRAILING_BYTES,
            f"{printable(unit.source)}: {plural(unit.trailing_bytes, 'byte')} after the end of the dump were not read",
        )
        for unit in units
        if unit.trailing_bytes
    ]


def find_hollow(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Collections without elements, one warning a dump: servers drop them, so they are in no figure."""
    examples = {unit.source: unit.hollow_key for unit in reversed(units) if unit.hollow_key is not None}
    return [
        Caveat.warning(
            Code.HOLLOW_KEYS,
            f"{printable(source)}: {plural(count, 'key')} without elements not counted, as a server drops them when it loads the dump "
            f"({examples[source]}{' …' if count > 1 else ''})",
        )
        for source, count in _counts(units, "hollow_keys")
    ]


def _counts(units: Sequence[UnitFacts], fact: str) -> list[tuple[str, int]]:
    """Sources and their sums of a fact, without zeros."""
    sums = Counter[str]()
    for unit in units:
        sums[unit.source] += getattr(unit, fact) or 0
    return [(source, count) for source, count in sorted(sums.items()) if count]


def find_coverage(topology: Topology | None, keys_in_unowned: int) -> list[Caveat]:
    """Return caveats about unowned slots and keys in them."""
    if topology is None:
        return []
    uncovered = topology.uncovered()
    if not len(uncovered):
        return []
    text = f"{plural(len(uncovered), 'slot')} without owner: {str(uncovered)[:200]}"
    if keys_in_unowned:
        text += f"; the inputs hold {plural(keys_in_unowned, 'key')} in them"
    return [Caveat.error(Code.UNCOVERED_SLOTS, text)]


def find_unattributed(attributions: Mapping[str, Attribution], topology: Topology | None) -> list[Caveat]:
    """Dumps that could not be given to a node of the topology."""
    if topology is None:
        return []
    unknown = sorted(source for source, attribution in attributions.items() if attribution.node_id is None)
    if not unknown:
        return []
    names = _list([printable(source) for source in unknown[:LISTED_MAX]], len(unknown))
    text = f"no node of the topology owns most keys of {names}; their keys count for the slots' owners"
    return [Caveat.warning(Code.UNKNOWN_NODE, text)]


def _node(node_id: str | None, topology: Topology | None) -> str:
    if node_id is None:
        return "nobody"
    node = topology.by_id.get(node_id) if topology else None
    return printable(f"{node.address} ({node_id[:8]})" if node else node_id[:12])


def _list(examples: list[str], count: int) -> str:
    more = count - len(examples)
    return "; ".join(examples) + (f"; and {more:,} more" if more > 0 else "")


def memory_basis(units: Sequence[UnitFacts]) -> MemoryBasis | None:
    """Return the basis of memory figures; None where there are none."""
    models = {unit.memory_model for unit in units if unit.memory_model is not None and unit.memory_estimate is not None}
    if not models:
        return None
    unmeasured = sum(
        unit.unmeasured_keys or 0 if unit.memory_estimate is not None else unit.keys
        for unit in units
        if unit.kind != "aof" or unit.holds_keys
    )
    estimates = {unit.memory_estimate for unit in units if unit.memory_estimate is not None}
    if unmeasured:
        exactness = Exactness.PARTIAL
    elif ESTIMATES[NEAREST] in estimates:
        exactness = Exactness.NEAREST
    else:
        exactness = Exactness.MODEL if estimates == {ESTIMATES[MODEL]} else Exactness.NAMED
    return MemoryBasis("; ".join(sorted(models)), exactness, unmeasured)


def find_contradictions(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Dumps with more estimated memory than the server used (aux field ``used-mem``), as with another allocator."""
    totals: dict[str, tuple[int, int, str]] = {}
    for unit in units:
        used = unit.aux.get("used-mem", "")
        if unit.memory_total is not None and used.isascii() and used.isdigit() and len(used) < 19:
            before = totals.get(unit.source, (0, 0, ""))[0]
            totals[unit.source] = before + unit.memory_total, int(used), unit.memory_model or ""
    return [
        Caveat.note(
            Code.MEMORY_EXCEEDS,
            f"{printable(source)}: its keys are estimated at {text.size(total)} by the model {model}, but the server used "
            f"{text.size(used)} in all; name its allocator with --allocator",
        )
        for source, (total, used, model) in sorted(totals.items())
        if used >= _USED_BYTES_MIN and total > used * (1 + _EXCESS_MIN)
    ]


def find_cuts(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Last files that a crash has cut: a server with ``aof-load-truncated yes`` loads them and cuts them."""
    return [
        Caveat.warning(
            Code.LOG_TRUNCATED,
            f"{printable(unit.file or '')}: {unit.cut}; a server with aof-load-truncated yes loads it up to offset "
            f"{unit.loaded_end}, with no it does not start",
        )
        for unit in units
        if unit.cut is not None
    ]


def find_uncertain(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Commands that are not modelled, and keys that they leave uncertain."""
    caveats = []
    for unit in units:
        if unit.not_modelled:
            keys = unit.uncertain_keys or 0
            text = (
                f"{printable(unit.source)}: commands with unknown effect: {printable(unit.not_modelled)}; "
                f"{keys:,} key{'' if keys == 1 else 's'} uncertain, not counted, listed in gold/uncertain_keys"
            )
            caveats.append(Caveat.warning(Code.UNCERTAIN_KEYS, text))
        if unit.replayed_to is not None:
            text = f"{printable(unit.source)}: keys as of {printable(unit.replayed_to)}; the log is damaged there"
            caveats.append(Caveat.error(Code.LOG_DAMAGED, text))
    return caveats


def find_unread(units: Sequence[UnitFacts]) -> UnreadInputs:
    """Return the unread parts of the inputs that *units* belong to."""
    pieces: dict[str, list[UnitFacts]] = {}
    for unit in units:
        pieces.setdefault(unit.source, []).append(unit)
    files = tuple(
        _file(mine) for _, mine in sorted(pieces.items()) if any(piece.bad_records is not None for piece in mine)
    )
    return UnreadInputs(files, sum(map(_size, pieces.values())), sum(unit.keys for unit in units))


def find_partial(unread: UnreadInputs) -> list[Caveat]:
    """Return a caveat on the unread share of all inputs, then one per input."""
    if not unread:
        return []
    lines = unread_lines(unread)
    first = f"partial: {UNREAD_NOTE}: {lines[-1]}"
    return [Caveat.error(Code.PARTIAL, line) for line in (first, *lines[:-1])]


def share_by_node(unread: UnreadInputs, node_of: Mapping[str, str | None]) -> dict[str, float | None]:
    """Return the greatest share of a node's inputs that could not be read; None where one is not known; other nodes lack nothing."""
    shares: dict[str, float | None] = {}
    for file in unread.files:
        node = node_of.get(file.source)
        if node is not None:
            before, share = shares.get(node, 0.0), file.share
            shares[node] = None if before is None or share is None else max(before, share)
    return shares


def _size(pieces: Sequence[UnitFacts]) -> int:
    """Return the stored bytes of a file; of a log, the sum over its files, each with one piece."""
    sizes = [unit.file_bytes for unit in pieces]
    return sum(sizes) if pieces[0].kind == "aof" else max(sizes)


def _file(pieces: Sequence[UnitFacts]) -> FileUnread:
    first = pieces[0]
    keys = sum(unit.keys for unit in pieces)
    records = [unit.records for unit in pieces]
    if first.kind == "rdb":  # the first range of a dump announces the keys of all
        known = [count for count in records if count is not None]
        declared = sum(known) if known else None
        hollow = sum(unit.hollow_keys or 0 for unit in pieces)
        missing = None if declared is None else max(declared - keys - hollow, 0)
    else:
        bad = [unit for unit in pieces if unit.bad_records is not None]
        declared = _total(
            [unit.keys if unit.records is None and unit.bad_records is None else unit.records for unit in pieces]
        )
        missing = _total([unit.unread_records for unit in bad])
    return FileUnread(
        first.source,
        first.kind,
        _size(pieces) or None,
        _unread_bytes(pieces),
        declared,
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
