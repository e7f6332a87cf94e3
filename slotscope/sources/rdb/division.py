"""From dumps and owners to the parts that are to be written, and every reason not to."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cluster_core.rdb.grammar import OP_FUNCTION2, OP_HASH_TEMPLATE
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.strings import string_at
from cluster_core.rdb.writer import target_like
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Topology
from slotscope.runtime.errors import InputError
from slotscope.sources.rdb.parts import Part
from slotscope.sources.rdb.survey import Survey

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:-]{0,99}")
_LIBRARY = re.compile(rb"#![^\n]*\bname=([^\s]+)")


@dataclass(frozen=True, slots=True)
class Owners:
    """Who is to own each slot: *names* of the masters, *addresses* of those that are known, *part_of* one number a slot, -1: nobody."""

    names: tuple[str, ...]
    part_of: NDArray[np.int64]
    addresses: dict[str, str] = field(default_factory=dict)
    plan_id: str | None = None

    def slots(self, part: int) -> SlotSet:
        """Return the slots of one master."""
        return SlotSet(np.flatnonzero(self.part_of == part).tolist())


def owners_of_plan(stored: StoredPlan) -> Owners:
    """Return the owners after a plan was carried out."""
    addresses = {node.id: node.address for node in stored.nodes if node.address}
    names = [master.id for master in stored.problem.masters]
    return _numbered(names, list(stored.plan.owners_after), addresses, stored.plan_id)


def owners_of_topology(topology: Topology) -> Owners:
    """Return the owners of a topology as they are."""
    masters = [node for node in topology.masters() if node.slots]
    addresses = {node.id: node.address for node in masters}
    return _numbered([node.id for node in masters], topology.slot_map().owners(), addresses, None)


def _numbered(
    names: Sequence[str], owners: Sequence[str | None], addresses: dict[str, str], plan_id: str | None
) -> Owners:
    for name in names:
        if not _NAME.fullmatch(name):
            raise InputError(f"{name!r}: this master's id cannot be the name of a file")
    number = {name: index for index, name in enumerate(names)}
    part_of = np.array([number.get(owner, -1) if owner else -1 for owner in owners], np.int64)
    return Owners(tuple(names), part_of, addresses, plan_id)


def check_surveys(surveys: Sequence[Survey], owners: Owners) -> RdbHead:
    """Return the head of the parts.

    Raises InputError for dumps of two dialects or of one shard, for libraries of one name with different code, and for keys
    that nobody is to own.
    """
    heads = [survey.head for survey in surveys]
    if len({head.dialect for head in heads}) > 1:
        raise InputError("dumps of Redis and of Valkey 9 cannot be cut into one set of parts: no server reads both")
    by_replid: dict[str, str] = {}
    for survey in surveys:
        replid = survey.aux.get("repl-id", "")
        if replid.strip("0") and (other := by_replid.setdefault(replid, survey.path)) != survey.path:
            raise InputError(
                f"{other} and {survey.path} are dumps of one shard (replication id {replid}): name one of them"
            )
    total = sum((survey.slot_keys for survey in surveys), np.zeros(SLOT_COUNT, np.int64))
    unowned = np.flatnonzero((total > 0) & (owners.part_of < 0)).tolist()
    if unowned:
        count = int(total[unowned].sum())
        raise InputError(f"{count} keys lie in slots that nobody is to own: {str(SlotSet(unowned))[:80]}")
    before, _ = _common(surveys)
    if len(surveys) > 1 and any(record[0] == OP_HASH_TEMPLATE for record in before):
        raise InputError(
            "dumps with hash templates cannot be cut together: each numbers its own; split one after the other"
        )
    return max(heads, key=lambda head: head.version)


def _common(surveys: Sequence[Survey]) -> tuple[list[bytes], list[bytes]]:
    """Records that every part holds, each once: before and after the keys."""
    before = list(dict.fromkeys(record for survey in surveys for record in survey.before))
    after = list(dict.fromkeys(record for survey in surveys for record in survey.after))
    names: set[bytes] = set()
    for record in [*before, *after]:
        library = _LIBRARY.match(string_at(record, 1)[0]) if record[0] == OP_FUNCTION2 else None
        if library is not None and library[1] in names:
            name = library[1].decode("utf-8", "backslashreplace")
            raise InputError(f"the dumps hold different libraries of the name {name}: a server loads one")
        if library is not None:
            names.add(library[1])
    return before, [record for record in after if record not in before]


def plan_parts(
    folder: str, surveys: Sequence[Survey], owners: Owners, head: RdbHead
) -> tuple[list[Part], NDArray[np.int64]]:
    """Return the parts to be written to *folder*, and the number of the part of each slot."""
    before, after = _common(surveys)
    aux = _aux(surveys, head)
    parts = []
    for number, name in enumerate(owners.names):
        mine = owners.part_of == number
        counts = {}
        for db in sorted({db for survey in surveys for db in survey.keys}):
            held = [
                (survey.keys[db][mine].sum(), survey.expires[db][mine].sum()) for survey in surveys if db in survey.keys
            ]
            counts[db] = (int(sum(keys for keys, _ in held)), int(sum(expires for _, expires in held)))
        path = os.path.join(folder, f"{name}.rdb")
        parts.append(Part(path, target_like(head), aux, counts, before, after))
    return parts, owners.part_of


def _aux(surveys: Sequence[Survey], head: RdbHead) -> dict[str, str | int]:
    """The writer's version and word size, and the time of the oldest dump."""
    first = next(survey for survey in surveys if survey.head.version == head.version)
    aux: dict[str, str | int] = {name: first.aux[name] for name in ("valkey-ver", "redis-ver") if name in first.aux}
    for name in ("redis-bits", "ctime"):
        values = [int(s.aux[name]) for s in surveys if s.aux.get(name, "").isdecimal() and len(s.aux[name]) <= 12]
        if values:
            aux[name] = min(values)
    if head.version >= 10:
        aux["aof-base"] = 0
    return aux
