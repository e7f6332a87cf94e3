"""Dumps cut by slots into one file a master: after a plan, or after a topology.  Keys are copied byte for byte."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slotscope.plans.stored_plans import read_unchanged_plan
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import LATEST
from slotscope.sources.files import expand, is_uri, write_text
from slotscope.sources.folder_kinds import DUMPS
from slotscope.sources.inputs import load_topology
from slotscope.sources.rdb.division import (
    Owners,
    check_surveys,
    owners_of_plan,
    owners_of_topology,
    plan_parts,
)
from slotscope.sources.rdb.files import RdbUnit
from slotscope.sources.rdb.parts import Part, write_parts
from slotscope.sources.rdb.survey import Survey, survey

if TYPE_CHECKING:
    from slotscope.pipelines.keys.options import SplitOptions

MANIFEST = "split.json"
"""Written last: a folder without it is not finished."""


def split_dumps(request: SplitOptions) -> dict[str, Any]:
    """Write the parts and return the manifest; a folder that holds them already is written again, the same byte for byte.

    Raises InputError for what cannot be cut, DecodeError for damaged dumps.
    """
    owners = _owners(request)
    units = [RdbUnit(file.path, file.size) for file in expand(list(request.rdb), DUMPS)]
    surveys = [survey(unit, check_crc=not request.no_crc) for unit in units]
    head = check_surveys(surveys, owners)
    parts, part_of = plan_parts(request.out, surveys, owners, head)
    _prepare(request.out, [part.path for part in parts], [unit.path for unit in units])
    write_parts(parts, part_of, surveys, units)
    manifest = _manifest(surveys, parts, owners)
    write_text(os.path.join(request.out, MANIFEST), json.dumps(manifest, indent=1) + "\n")
    return manifest


def _owners(request: SplitOptions) -> Owners:
    if request.plan is not None and request.topology is not None:
        raise InputError("after a plan or after a topology: give --plan or --topology, not both")
    topology = load_topology(request.topology)
    if topology is not None:
        return owners_of_topology(topology)
    return owners_of_plan(read_unchanged_plan(request.root, request.plan or LATEST))


def _prepare(folder: str, paths: Sequence[str], sources: Sequence[str]) -> None:
    """Make the folder; refuse one that holds dumps of something else, or those that are read."""
    if is_uri(folder):
        raise InputError(f"{folder}: parts are written to a local folder")
    os.makedirs(folder, exist_ok=True)
    meant = {os.path.abspath(path) for path in paths}
    held = {os.path.abspath(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".rdb")}
    if meant & set(sources):
        raise InputError(f"{folder}: a dump that is read lies there under the name of a part; choose another folder")
    if held - meant:
        raise InputError(f"{min(held - meant)}: no part of this split; choose another folder")
    manifest = os.path.join(folder, MANIFEST)
    if os.path.exists(manifest):
        os.unlink(manifest)


def _manifest(surveys: Sequence[Survey], parts: Sequence[Part], owners: Owners) -> dict[str, Any]:
    files = []
    for number, part in enumerate(parts):
        name = owners.names[number]
        keys, expires = (sum(counts[index] for counts in part.counts.values()) for index in (0, 1))
        files.append({
            "file": os.path.basename(part.path), "owner": name, "address": owners.addresses.get(name),
            "slots": str(owners.slots(number)), "keys": keys, "expires": expires, "bytes": part.size,
        })  # fmt: skip
    sources = [
        {
            "file": survey.path, "keys": int(survey.slot_keys.sum()), "left_out": dict(sorted(survey.left_out.items())),
            "hollow": survey.hollow,
        }
        for survey in surveys
    ]  # fmt: skip
    return {"plan": owners.plan_id, "sources": sources, "files": files}
