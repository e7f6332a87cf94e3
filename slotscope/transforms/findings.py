"""Warnings of a snapshot: pure functions from collected facts to caveats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cluster_core.load.attribution import Attribution
from cluster_core.topology.node import Topology
from schemas.caveats import Caveat, Code
from schemas.interim import UnitFacts
from slotscope.runtime.failure import printable
from slotscope.runtime.text import plural

LISTED_MAX = 5
"""Examples named in one warning; the rest is counted."""


class SlotInDump(NamedTuple):
    """Keys of a slot in one dump, and how many the dump declares."""

    source: str
    keys: int
    declared: int


class SuspiciousSlot(NamedTuple):
    """A slot and the cluster dumps that have it."""

    slot: int
    dumps: list[SlotInDump]


class Foreign(NamedTuple):
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
    foreign: Iterable[Foreign], attributions: Mapping[str, Attribution], topology: Topology
) -> list[Caveat]:
    """Keys in slots that the dump's node does not own, one warning a dump."""
    by_source: dict[str, list[Foreign]] = defaultdict(list)
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
            f"({_node(name, topology) if how == 'node' and topology else f'{how} {printable(name)}'}): its keys are counted {len(sources)} times",
        )
        for (how, name), sources in sorted(groups.items())
        if len(sources) > 1
    ]


def find_mismatches(slots: Sequence[SuspiciousSlot]) -> list[Caveat]:
    """Slots whose own count in the dump is not what it holds."""
    lies = [(slot.slot, dump) for slot in slots for dump in slot.dumps if dump.keys != dump.declared]
    if not lies:
        return []
    examples = [
        f"slot {slot} of {printable(dump.source)} declares {dump.declared}, holds {dump.keys}"
        for slot, dump in lies[:LISTED_MAX]
    ]
    slots_told = plural(len(lies), "slot")
    text = f"{slots_told} with another number of keys than the dump declares: {_list(examples, len(lies))}"
    return [Caveat.error(Code.SLOT_INFO, text)]


def find_shared(slots: Sequence[SuspiciousSlot]) -> list[Caveat]:
    """Slots with keys in more than one cluster dump: copies of one node, or a slot that was moving."""
    shared = [(slot.slot, [dump.source for dump in slot.dumps if dump.keys]) for slot in slots]
    shared = [(slot, sources) for slot, sources in shared if len(sources) > 1]
    if not shared:
        return []
    examples = [
        f"slot {slot} in {' and '.join(map(printable, sources[:LISTED_MAX]))}{' and others' * (len(sources) > LISTED_MAX)}"
        for slot, sources in shared[:LISTED_MAX]
    ]
    text = f"{plural(len(shared), 'slot')} with keys in more than one dump, counted more than once: {_list(examples, len(shared))}"
    return [Caveat.error(Code.SLOTS_TWICE, text)]


def find_file_facts(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Trailing bytes, missing checksums, names too long to group."""
    found = []
    for unit in units:
        name = printable(unit.source)
        if unit.trailing_bytes:
            text = f"{name}: {plural(unit.trailing_bytes, 'byte')} after the end of the dump were not read"
            found.append(Caveat.warning(Code.TRAILING_BYTES, text))
        if unit.stored_crc == "0" * 16:
            found.append(Caveat.note(Code.NO_CHECKSUM, f"{name} has no checksum: its writer had rdbchecksum off"))
        if unit.untracked_keys:
            text = f"{name}: {unit.untracked_keys} keys have tags or prefixes too long to group"
            found.append(Caveat.note(Code.LONG_NAMES, text))
    return found


def find_repeated(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Keys that are in one dump more than once, one warning a dump; and where not all keys were compared."""
    found = []
    for unit in units:
        if unit.twin_keys:
            text = (
                f"{printable(unit.source)} holds {plural(unit.twin_keys, 'key')} that it held before: no server loads it, and each record counts: "
                + _list(unit.twins, unit.twin_keys)
            )
            found.append(Caveat.error(Code.KEYS_TWICE, text))
        if unit.twins_sought is not None:
            text = f"{printable(unit.source)}: keys that are there twice were sought among its first {plural(unit.twins_sought, 'key')} only"
            found.append(Caveat.note(Code.TWINS_NOT_SOUGHT, text))
    return found


def find_hollow(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Collections without elements, one warning a dump: servers drop them, so they are in no figure."""
    counts: dict[str, int] = defaultdict(int)
    for unit in units:
        counts[unit.source] += unit.hollow_keys or 0
    examples = {unit.source: unit.hollow_key for unit in reversed(units) if unit.hollow_key is not None}
    return [
        Caveat.warning(
            Code.HOLLOW_KEYS,
            f"{printable(source)}: {plural(count, 'key')} without elements that a server drops when it loads the dump: in no figure here "
            f"({examples[source]}{' …' if count > 1 else ''})",
        )
        for source, count in sorted(counts.items())
        if count
    ]


def find_coverage(topology: Topology | None, keys_in_unowned: int) -> list[Caveat]:
    """Slots that nobody owns, and keys in them."""
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
    unknown = sorted(source for source, found in attributions.items() if found.node_id is None)
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
