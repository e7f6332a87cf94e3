"""From what a user names (snapshots, files, a topology, a placement) to a problem for the planner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cluster_core.rebalance.ordering import TimeModel
from cluster_core.rebalance.placement import NOTHING, masters_of, owners_of, read_placement
from cluster_core.rebalance.problem import Problem
from cluster_core.rebalance.record import PlannedNode
from cluster_core.topology.node import Topology
from cluster_core.topology.reader import read_topology
from jobs.runtime.delta_files import replace_rows
from jobs.runtime.errors import InputError
from jobs.runtime.progress import progress
from jobs.sources.files import expand, open_raw
from jobs.sources.inputs import load_topology
from jobs.sources.slot_activity import ActivityOptions, plan_units
from jobs.sources.slot_weights import Weights, read_weights
from jobs.transforms.rebalance_plan import BYTES, TOLERANCES, Schedule
from schemas.activity import SLOT_ACTIVITY
from schemas.bronze import BAD_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.rebalance_plan import Request
    from jobs.transforms.slot_activity import Activity

NO_SNAPSHOT = "none"
"""What plans and activity are filed under that no snapshot of the key distribution belongs to."""
PLACEMENT_BYTES_MAX = 16 << 20
TOLERANCE = "0.02"
ACTIVITIES = ("ops", "cpu_usec")
"""Measures of operations; the first that is known is balanced unless the user says otherwise."""
SHORT = {"bytes": "serialized_bytes", "memory": "memory_bytes", "cpu": "cpu_usec"}
"""Other words for resources."""
_SHARE = re.compile(r"(\d+(?:\.\d*)?(?:e-?\d+)?|\.\d+)(%?)")


@dataclass(frozen=True, slots=True)
class Found:
    """A problem, who its masters are, and what was noticed on the way."""

    problem: Problem
    nodes: list[PlannedNode]
    schedule: Schedule
    tolerances: Sequence[float]
    snapshot_id: str
    activity: Activity | None
    combined: str
    bad_records: int
    warnings: list[str]
    permissive: bool

    def write(self, root: str) -> None:
        """Write what the files about slots said, and what in them could not be read."""
        if self.activity is None:
            return
        label = {"snapshot_id": self.snapshot_id}
        rows = [{**label, **figure._asdict(), "combined": self.combined} for figure in self.activity.figures]
        replace_rows(root, SLOT_ACTIVITY, rows, **label)
        bad = [{**label, "job": "rebalance-plan", **record._asdict()} for record in self.activity.bad]
        replace_rows(root, BAD_RECORDS, bad, **label, job="rebalance-plan")


def find_inputs(request: Request, spark: SparkSession | None) -> Found:
    """Read everything that *request* names; raises DecodeError, PlanError and InputError in one line each."""
    weights = read_weights(request.root, request.snapshots, how=request.combine, smoothing=request.smoothing)
    topology = _topology(request, weights)
    placement = NOTHING if request.placement is None else read_placement(_text(request.placement), request.placement)
    activity = _activity(request, spark, topology)
    loads = dict(weights.loads)
    if activity is not None:
        loads |= {metric: activity.loads(metric) for metric in activity.metrics()}
    resources = _resources(request, loads)
    cost = _cost(request, resources)
    masters, nodes = masters_of(topology, placement, resources)
    owners = owners_of(topology)
    problem = Problem(
        {name: loads[name] for name in resources}, owners, masters, cost=cost,
        tolerance=read_tolerance(request.tolerance, resources), pinned=placement.pinned, slot_cost=request.slot_cost,
        gain_min=request.gain_min, zone_share_max=placement.zone_share_max, iterations=request.iterations,
    )  # fmt: skip
    if request.range_cost is not None:
        problem = replace(problem, range_cost=request.range_cost)
    if request.seed is not None:
        problem = replace(problem, seed=request.seed)
    model = TimeModel() if request.bytes_per_s is None else TimeModel(bytes_per_s=_positive(request.bytes_per_s))
    bad = weights.bad_records + (len(activity.bad) if activity else 0)
    return Found(
        problem, nodes, Schedule(request.jobs, request.zone_jobs, request.job_slots, model),
        TOLERANCES if request.tolerances is None else request.tolerances,
        request.snapshots[-1] if request.snapshots else NO_SNAPSHOT, activity, request.combine, bad,
        [*weights.warnings, *_memory_caveats(weights, resources), *_silent(activity, masters_without(topology, nodes))], request.permissive,
    )  # fmt: skip


def _memory_caveats(weights: Weights, resources: Sequence[str]) -> list[str]:
    """What memory_bytes rests on, where it is balanced and not every key is measured by its own server's model."""
    if "memory_bytes" not in resources:
        return []
    return [f"memory_bytes: {caveat}" for caveat in dict.fromkeys(b.caveat for b in weights.memory) if caveat]


def masters_without(topology: Topology, nodes: Sequence[PlannedNode]) -> list[str]:
    """Return the masters of *topology* that are left out because they are gone and hold nothing."""
    known = {node.id for node in nodes}
    return [node.id for node in topology.masters() if node.id not in known]


def _silent(activity: Activity | None, gone: Sequence[str]) -> list[str]:
    found = [f"master {node} holds no slots and is failed or unknown: left out" for node in gone]
    if activity is not None:
        restarted = {figure.slot for figure in activity.figures if figure.restarted}
        if restarted:
            found.append(f"{len(restarted)} slots moved or were reset between polls: those windows are left out")
    return found


def _topology(request: Request, weights: Weights) -> Topology:
    given = load_topology(request.topology)
    if given is not None:
        return given
    if weights.topology is None:
        raise InputError("no topology: name CLUSTER NODES output with --topology, here or for key-slots")
    return read_topology(weights.topology.encode(), source=f"topology of snapshot {request.snapshots[-1]}")


def _activity(request: Request, spark: SparkSession | None, topology: Topology) -> Activity | None:
    if not request.needs_spark:
        return None
    if spark is None:
        raise InputError("reading files about slots needs a Spark session")
    from jobs.transforms.slot_activity import read_activity

    if not 0.001 <= request.window_s <= 86400 * 366:
        raise InputError(f"--window {request.window_s}: seconds, from 0.001 to a year")
    units = plan_units(request.slot_stats, request.monitor, request.counts)
    replicas = [node for node in topology.nodes if not node.is_master]
    names = frozenset(name for node in replicas for name in (node.id, node.address))
    options = ActivityOptions(round(request.window_s * 1e9), request.permissive, names)
    with progress("reading what slots do"):
        return read_activity(spark, units, options, how=request.combine, smoothing=request.smoothing)


def _resources(request: Request, loads: dict[str, list[float]]) -> list[str]:
    if request.resources:
        words = [word for entry in request.resources for word in entry.split(",") if word]
        names = list(dict.fromkeys(SHORT.get(word, word) for word in words))
        missing = [name for name in names if name not in loads]
        if missing:
            raise InputError(
                f"--resources {missing[0]}: not known of this cluster; known are {', '.join(sorted(loads))}"
            )
        return names
    sized = [name for name in BYTES if name in loads][:1]
    acting = [name for name in ACTIVITIES if any(loads.get(name, ()))][:1]
    found = [*sized, *(["keys"] if "keys" in loads else []), *acting]
    if not found:
        raise InputError("no weights: name a snapshot, SLOT-STATS polls, MONITOR logs or counts")
    return found


def _cost(request: Request, resources: Sequence[str]) -> str:
    if request.cost is not None:
        return SHORT.get(request.cost, request.cost)
    return next((name for name in (*BYTES, "keys") if name in resources), resources[0])


def read_tolerance(words: Sequence[str], resources: Sequence[str]) -> dict[str, float]:
    """Return the tolerance of every resource from ``0.02``, ``2%`` and ``keys=0.05``; InputError for other words."""
    given = dict.fromkeys(resources, _share(TOLERANCE, "--tolerance"))
    for word in (part for entry in words for part in entry.split(",") if part):
        name, sign, value = word.rpartition("=")
        if not sign:
            given |= dict.fromkeys(resources, _share(value, "--tolerance"))
    for word in (part for entry in words for part in entry.split(",") if "=" in part):
        name, _, value = word.rpartition("=")
        name = SHORT.get(name, name)
        if name not in given:
            raise InputError(f"--tolerance {word}: {name} is not balanced; {', '.join(resources)} are")
        given[name] = _share(value, "--tolerance")
    return given


def read_shares(words: Sequence[str] | None) -> list[float] | None:
    """Return shares like ``0.05`` or ``5%``; None for None, an empty list for no words and for ``none``."""
    if words is None:
        return None
    parts = [part for entry in words for part in entry.split(",") if part]
    return [] if parts == ["none"] else sorted({_share(part, "--compare-tolerances") for part in parts})


def _share(word: str, option: str) -> float:
    match = _SHARE.fullmatch(word)
    if match is None:
        raise InputError(f"{option} {word}: write a share as 0.02 or 2%")
    value = float(match[1]) / (100 if match[2] else 1)
    if not 0 <= value <= 1000:
        raise InputError(f"{option} {word}: must be from 0 to 1000")
    return value


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise InputError(f"--bytes-per-s {value}: must be more than 0")
    return value


def _text(path: str) -> str:
    (file,) = expand([path])[:1]
    if file.size > PLACEMENT_BYTES_MAX:
        raise InputError(f"{path}: {file.size} bytes are too many for a placement")
    with open_raw(path) as raw:
        data = raw.read(PLACEMENT_BYTES_MAX)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: offset {error.start}: not UTF-8 text") from error
