"""Which part of a dump would each planned master load?

Cuts dumps by slots into one file a master: after a plan (``rebalance-plan``), or after a topology.  Keys are copied byte for byte.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slotscope.runtime import cli
from slotscope.runtime.cli import Common, Flag, Paths

if TYPE_CHECKING:
    from slotscope.sources.rdb.division import Owners
    from slotscope.sources.rdb.parts import Part
    from slotscope.sources.rdb.survey import Survey

JOB = "split-rdb"
MANIFEST = "split.json"
"""Written last: a folder without it is not finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to cut, after what, and where to; *plan* or *topology*, by default the latest plan."""

    root: str
    rdb: Sequence[str]
    out: str
    plan: str | None = None
    topology: str | None = None
    check_crc: bool = True
    permissive: bool = False


def run(request: Request) -> dict[str, Any]:
    """Write the parts and return the manifest; a folder that holds them already is written again, the same byte for byte.

    Raises InputError for what cannot be cut, DecodeError for damaged dumps unless the request is permissive.
    """
    from slotscope.sources.files import expand
    from slotscope.sources.rdb.division import check_surveys, plan_parts, refuse_twins
    from slotscope.sources.rdb.files import RdbUnit
    from slotscope.sources.rdb.parts import write_parts
    from slotscope.sources.rdb.survey import survey

    owners = _owners(request)
    units = [RdbUnit(file.path, file.size) for file in expand(list(request.rdb))]
    surveys = [survey(unit, check_crc=request.check_crc, permissive=request.permissive) for unit in units]
    head, unowned = check_surveys(surveys, owners, permissive=request.permissive)
    refuse_twins(surveys, units)
    parts, part_of = plan_parts(request.out, surveys, owners, head, unowned)
    _prepare(request.out, [part.path for part in parts], [unit.path for unit in units])
    write_parts(parts, part_of, surveys, units)
    manifest = _manifest(surveys, parts, owners)
    _write_manifest(request.out, manifest)
    return manifest


def _owners(request: Request) -> Owners:
    from slotscope.plans.stored_plans import LATEST
    from slotscope.runtime.errors import InputError
    from slotscope.sources.inputs import load_topology
    from slotscope.sources.rdb.division import owners_of_plan, owners_of_topology

    if request.plan is not None and request.topology is not None:
        raise InputError("after a plan or after a topology: give --plan or --topology, not both")
    topology = load_topology(request.topology)
    return owners_of_plan(request.root, request.plan or LATEST) if topology is None else owners_of_topology(topology)


def _prepare(folder: str, paths: Sequence[str], sources: Sequence[str]) -> None:
    """Make the folder; refuse one that holds dumps of something else, or those that are read."""
    from slotscope.runtime.errors import InputError
    from slotscope.sources.files import is_uri

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
        name = owners.names[number] if number < len(owners.names) else None
        keys, expires = (sum(counts[index] for counts in part.counts.values()) for index in (0, 1))
        files.append({
            "file": os.path.basename(part.path), "owner": name, "address": owners.addresses.get(name or ""),
            "slots": str(owners.slots(number if name else -1)), "keys": keys, "expires": expires, "bytes": part.size,
        })  # fmt: skip
    sources = [
        {
            "file": survey.path, "keys": int(survey.slot_keys.sum()), "left_out": dict(sorted(survey.left_out.items())),
            "hollow": survey.hollow,
            "bad": None if survey.bad is None else {"offset": survey.bad.offset, "reason": survey.bad.reason},
        }
        for survey in surveys
    ]  # fmt: skip
    return {"plan": owners.plan_id, "sources": sources, "files": files}


def _write_manifest(folder: str, manifest: dict[str, Any]) -> None:
    from slotscope.sources.files import write_text

    write_text(os.path.join(folder, MANIFEST), json.dumps(manifest, indent=1) + "\n")


def command(
    *,
    rdb: Paths,
    out: str,
    plan: str | None = None,
    topology: str | None = None,
    no_crc: Flag = False,
    common: Common,
) -> int | None:
    """Cut dumps by slots into the dumps that the planned masters would load.

    Writes OUT/NODE.rdb for each master, byte for byte what the dumps hold of its slots, with all function libraries; then
    OUT/split.json, which lists them.  A dump that is damaged is not cut at all; with --mode permissive what stands before the
    damage is, and bronze/bad_records names the place.

    Parameters
    ----------
    rdb
        RDB dumps, one of each shard: files, globs, folders or URIs; gzip and zstd are recognised.
    out
        Folder of the parts; it holds no other dumps.
    plan
        Id of the plan, the beginning of it, or latest. Default: the latest plan.
    topology
        CLUSTER NODES, nodes.conf, CLUSTER SHARDS or CLUSTER SLOTS output: cut after the owners as they are there, not after a plan.
    no_crc
        Do not check the CRC64 of the dumps.
    """
    from slotscope.reports.split_text import split_lines
    from slotscope.runtime.progress import progress

    request = Request(
        root=common.root, rdb=rdb, out=out, plan=plan, topology=topology, check_crc=not no_crc, permissive=common.mode == "permissive"
    )  # fmt: skip
    with progress("splitting"):
        manifest = run(request)
    bad = [source for source in manifest["sources"] if source["bad"] is not None]
    if request.permissive:
        _write_bad(request.root, bad)
    for line in split_lines(manifest, out):
        sys.stdout.write(f"{line}\n")
    return cli.PARTIAL if bad or any(file["owner"] is None for file in manifest["files"]) else None


def _write_bad(root: str, sources: Sequence[dict[str, Any]]) -> None:
    """Replace what bronze/bad_records holds of this job."""
    from schemas.bronze import BAD_RECORDS
    from slotscope.runtime.delta_files import exists, replace_rows

    rows = [
        {"snapshot_id": JOB, "job": JOB, "source": source["file"], "skipped_bytes": None, **source["bad"]}
        for source in sources
    ]
    if rows or exists(root, BAD_RECORDS):
        replace_rows(root, BAD_RECORDS, rows, snapshot_id=JOB, job=JOB)


def main(argv: Sequence[str] | None = None) -> None:
    """What ``python -m jobs.split_rdb`` calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
