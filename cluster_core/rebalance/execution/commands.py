"""What to type: the commands of a batch for each kind of server, as data."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from cluster_core.rebalance.ordering import Batch


class Path(Enum):
    """How slots move: key by key (any version), jobs of the source (Valkey 9), imports of the target (Redis 8.4)."""

    LEGACY = "setslot"
    VALKEY_JOBS = "migrateslots"
    REDIS_IMPORT = "migration import"


class Command(NamedTuple):
    """One command to *node*; *each_key* marks the step that repeats until the slot is empty."""

    node: str
    words: tuple[str, ...]
    each_key: bool = False


def commands_of(batch: Batch, path: Path, masters: Sequence[str] = ()) -> list[Command]:
    """Return the commands of *batch* in order; *masters*, all node ids, hear of each slot's new owner on the legacy path.

    The target hears first that a slot is its own (redis 7116): a source that forgets the slot first leaves it without owner.
    """
    if path is Path.VALKEY_JOBS:
        return _jobs(batch)
    if path is Path.REDIS_IMPORT:
        return [Command(job.target, ("CLUSTER", "MIGRATION", "IMPORT", *_bounds(job.ranges))) for job in batch.jobs]
    commands = []
    for job in batch.jobs:
        for slot in job.slots:
            commands += _by_hand(slot, job.source, job.target, masters)
    return commands


def abort_of(batch: Batch, path: Path) -> list[Command]:
    """Return the commands that stop *batch* where nothing has arrived yet; key by key, slots with moved keys roll forward."""
    if path is Path.VALKEY_JOBS:
        return [
            Command(node, ("CLUSTER", "CANCELSLOTMIGRATIONS")) for node in dict.fromkeys(j.source for j in batch.jobs)
        ]
    if path is Path.REDIS_IMPORT:
        nodes = dict.fromkeys(job.target for job in batch.jobs)
        return [Command(node, ("CLUSTER", "MIGRATION", "CANCEL", "ALL")) for node in nodes]
    return [
        Command(node, ("CLUSTER", "SETSLOT", str(slot), "STABLE"))
        for job in batch.jobs
        for slot in job.slots
        for node in (job.target, job.source)
    ]


def _jobs(batch: Batch) -> list[Command]:
    """One CLUSTER MIGRATESLOTS a source, with one job a target that carries all its ranges."""
    words: dict[str, list[str]] = {}
    for job in batch.jobs:
        said = words.setdefault(job.source, ["CLUSTER", "MIGRATESLOTS"])
        said += ["SLOTSRANGE", *_bounds(job.ranges), "NODE", job.target]
    return [Command(source, tuple(said)) for source, said in words.items()]


def _by_hand(slot: int, source: str, target: str, masters: Sequence[str]) -> list[Command]:
    number = str(slot)
    others = [node for node in masters if node not in (source, target)]
    return [
        Command(target, ("CLUSTER", "SETSLOT", number, "IMPORTING", source)),
        Command(source, ("CLUSTER", "SETSLOT", number, "MIGRATING", target)),
        Command(source, ("CLUSTER", "GETKEYSINSLOT", number, "100"), each_key=True),
        Command(source, ("MIGRATE", target, "KEYS"), each_key=True),
        *(Command(node, ("CLUSTER", "SETSLOT", number, "NODE", target)) for node in (target, source, *others)),
    ]


def _bounds(ranges: Sequence[tuple[int, int]]) -> list[str]:
    return [str(bound) for pair in ranges for bound in pair]
