"""Dumps cut by slots into one file a master: after a plan, or after a topology.  Keys are copied byte for byte."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.slots.slot_set import SlotSet
from slotscope.plans.stored_plans import read_unchanged_plan
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import LATEST
from slotscope.sources.files import expand, is_uri, write_text
from slotscope.sources.folder_kinds import DUMPS
from slotscope.sources.inputs import load_topology
from slotscope.sources.rdb.files import RdbUnit
from slotscope.sources.rdb.parts import Part, Source, begin_parts, write_parts

if TYPE_CHECKING:
    from slotscope.pipelines.keys.options import SplitOptions

MANIFEST = "split.json"
"""Written last: a folder without it is not finished."""
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:-]{0,99}")


class Owners(NamedTuple):
    """Owners of the slots: *names* of the masters, known *addresses*, *part_of* one number a slot, -1: nobody."""

    names: Sequence[str]
    addresses: dict[str, str]
    part_of: NDArray[np.int64]
    plan_id: str | None


def split_dumps(request: SplitOptions) -> dict[str, Any]:
    """Write the parts and return the manifest; a folder that holds them already is written again, the same byte for byte.

    Raises InputError for what cannot be cut, DecodeError for damaged dumps.
    """
    owners = _owners(request)
    units = [RdbUnit(file.path, file.size) for file in expand(list(request.rdb), DUMPS)]
    parts = begin_parts(request.out, owners.names, [unit.path for unit in units])
    is_new = _prepare(request.out, [part.path for part in parts], [unit.path for unit in units])
    place = os.path.join(request.out, MANIFEST)
    try:
        sources = write_parts(parts, owners.part_of, units, place)
    finally:
        if is_new and not os.listdir(request.out):
            os.rmdir(request.out)
    manifest = _manifest(sources, parts, owners)
    write_text(place, json.dumps(manifest, indent=1) + "\n")
    return manifest


def _owners(request: SplitOptions) -> Owners:
    """The owners after a plan, or of a topology as they are."""
    if request.plan is not None and request.topology is not None:
        raise InputError("after a plan or after a topology: give --plan or --topology, not both")
    topology = load_topology(request.topology)
    plan_id = None
    if topology is not None:
        masters = [node for node in topology.masters() if node.slots]
        names, owners = [node.id for node in masters], topology.slot_map().owners()
        addresses = {node.id: node.address for node in masters}
    else:
        stored = read_unchanged_plan(request.root, request.plan or LATEST)
        names, owners = [master.id for master in stored.problem.masters], list(stored.plan.owners_after)
        addresses = {node.id: node.address for node in stored.nodes if node.address}
        plan_id = stored.plan_id
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise InputError(f"{wrong!r}: this master's id cannot be the name of a file")
    number = {name: index for index, name in enumerate(names)}
    part_of = np.array([number.get(owner, -1) if owner else -1 for owner in owners], np.int64)
    return Owners(names, addresses, part_of, plan_id)


def _prepare(folder: str, paths: Sequence[str], sources: Sequence[str]) -> bool:
    """Make the folder, and return whether it is new; refuse one that holds dumps of something else, or those that are read."""
    if is_uri(folder):
        raise InputError(f"{folder}: parts are written to a local folder")
    is_new = not os.path.exists(folder)
    os.makedirs(folder, exist_ok=True)
    meant = {os.path.abspath(path) for path in paths}
    held = {os.path.abspath(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".rdb")}
    if meant & set(sources):
        raise InputError(f"{folder}: a dump that is read lies there under the name of a part; choose another folder")
    if held - meant:
        raise InputError(f"{min(held - meant)}: no part of this split; choose another folder")
    return is_new


def _manifest(sources: Sequence[Source], parts: Sequence[Part], owners: Owners) -> dict[str, Any]:
    files = [
        {
            "file": os.path.basename(part.path), "owner": name, "address": owners.addresses.get(name),
            "slots": str(SlotSet(np.flatnonzero(owners.part_of == number).tolist())), "keys": part.keys,
            "expires": part.expires, "bytes": part.size,
        }
        for number, (name, part) in enumerate(zip(owners.names, parts, strict=True))
    ]  # fmt: skip
    dumps = [
        {"file": item.path, "keys": item.keys, "left_out": dict(sorted(item.left_out.items())), "hollow": item.hollow}
        for item in sources
    ]
    return {"plan": owners.plan_id, "sources": dumps, "files": files}
