"""From a user's inputs (snapshots, files, a topology, a placement) to a problem for the planner."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cluster_core.kinds import Severity
from cluster_core.load.sampling import Part
from cluster_core.load.unread import WHOLE, FileUnread, UnreadInputs, together
from cluster_core.memory.model import Exactness, MemoryBasis
from cluster_core.rebalance.execution.situation import HEADROOM
from cluster_core.rebalance.goal.placement import NOTHING, NodeOption, Placement, masters_of, owners_of, read_placement
from cluster_core.rebalance.goal.problem import Problem
from cluster_core.rebalance.stored_plan import PlannedNode
from cluster_core.topology.node import Topology
from cluster_core.topology.replies import read_topology
from schemas.activity import SLOT_ACTIVITY
from schemas.bronze import BAD_RECORDS
from schemas.caveats import Caveat, Code
from slotscope.pipelines.rebalance.plan import BYTES
from slotscope.reports.unread import unread_lines
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import progress
from slotscope.runtime.storage.runs import KEY_JOBS, cluster_of, find_name, finished_names, running
from slotscope.runtime.text import plural
from slotscope.servers.slot_weights import MEMORY_FIELDS, MemoryLimits, memory_limits
from slotscope.sources.files import expand, open_raw
from slotscope.sources.inputs import load_topology
from slotscope.sources.node_polls import newest_infos, newest_topology
from slotscope.sources.slot_activity import Activity, read_activity
from slotscope.sources.slot_weights import OPS_ESTIMATED, Weights, read_weights

if TYPE_CHECKING:
    from slotscope.pipelines.rebalance.options import GoalOptions, PlanningOptions

JOB = "rebalance-plan"
NO_SNAPSHOT = "none"
"""Snapshot name of plans and activity without a snapshot of the key distribution."""
PLACEMENT_BYTES_MAX = 16 << 20
TOLERANCE = 0.02
KEYS_TOLERANCE = 0.2
"""Tolerance of keys where the size of data is balanced, too."""
SIZES = ("memory_bytes", "serialized_bytes")
"""Sizes of a master's data; the first known one is balanced by default."""
ACTIVITIES = ("ops", "cpu_usec")
"""Measures of operations; the first that is known is balanced unless the user says otherwise."""
SETSLOT_COST = 0.05
"""Slot ranges that one more moved slot weighs where slots move key by key: each takes commands to every master."""
ERROR_SHARE_MAX = 1 / 3
"""Part of a tolerance that the error of loads may reach: no plan is made for a smaller tolerance."""
RAISED_MAX = 0.2
"""The default tolerance is raised up to this: a looser plan is made only on request."""
REFIT = 1.1
"""Another sample may have an error that is larger by this factor."""
SHORT = {"bytes": "serialized_bytes", "memory": "memory_bytes", "cpu": "cpu_usec"}
"""Other words for resources."""
_SHARE = re.compile(r"(\d+(?:\.\d*)?(?:e-?\d+)?|\.\d+)(%?)")


@dataclass(frozen=True, slots=True)
class Inputs:
    """A cluster, from snapshots or live: its topology, *loads* by resource, the models behind *memory*, the inputs *unread*.

    *capacity* are limits of the servers by node id and resource; a placement overrides them.  *memory_error* is the share by which the
    memory of a master may be off where keys of live servers were measured; *parts* are these keys, *all_keys_s* the estimated seconds to
    measure all of them.
    """

    topology: Topology
    loads: Mapping[str, Sequence[float]]
    memory: Sequence[MemoryBasis] = ()
    snapshot_id: str = NO_SNAPSHOT
    activity: Activity | None = None
    combined: str = "last"
    unread: UnreadInputs = WHOLE
    warnings: Sequence[Caveat] = ()
    capacity: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    memory_error: float | None = None
    parts: Sequence[Part] = ()
    all_keys_s: float | None = None

    def write(self, root: str) -> None:
        """Write the activity of slots, and the records that could not be read."""
        if self.activity is None:
            return
        with running(root, JOB, self.snapshot_id, cluster=cluster_of(root, self.snapshot_id)) as run:
            rows = ({**figure._asdict(), "combined": self.combined} for figure in self.activity.figures)
            run.append(SLOT_ACTIVITY, rows)
            run.append(BAD_RECORDS, ({"job": JOB, **record._asdict()} for record in self.activity.bad))


@dataclass(frozen=True, slots=True)
class PlannerInput:
    """The problem that goals pose for *inputs*, its masters, and warnings."""

    inputs: Inputs
    problem: Problem
    nodes: list[PlannedNode]
    warnings: list[Caveat]


def find_inputs(request: PlanningOptions) -> PlannerInput:
    """Read everything that *request* names; raises DecodeError, PlanError and InputError in one line each."""
    snapshots = _snapshots(request)
    weights = read_weights(request.root, snapshots, how=request.combine)
    topology = _topology(request, weights, snapshots)
    activity = _activity(request, topology)
    loads = dict(weights.loads)
    if activity is not None:
        loads |= {metric: activity.loads(metric) for metric in activity.metrics()}
    if "ops" in loads:
        loads.pop(OPS_ESTIMATED, None)
    if weights.unread and not request.allow_partial:
        raise InputError(_refusal(weights.unread))
    bad = Counter(record.source for record in activity.bad) if activity is not None else {}
    unread_activity = tuple(FileUnread(source, "", bad_records=count) for source, count in sorted(bad.items()))
    limits = _memory_limits(request, topology, loads, weights.memory)
    return state_problem(
        request,
        Inputs(
            topology, loads, weights.memory, snapshots[-1] if snapshots else NO_SNAPSHOT, activity, request.combine,
            together([weights.unread, UnreadInputs(unread_activity)]),
            [*foreign_load(weights), *memory_limit_caveats(limits)],
            {node: {"memory_bytes": size} for node, size in limits.capacity.items()},
        ),
    )  # fmt: skip


def _memory_limits(
    request: PlanningOptions, topology: Topology, loads: Mapping[str, Sequence[float]], memory: Sequence[MemoryBasis]
) -> MemoryLimits:
    """Return limits from maxmemory in the polls' INFO; none where the memory of some slots is unknown."""
    held, vague = loads.get("memory_bytes"), any(basis.exactness is Exactness.PARTIAL for basis in memory)
    if held is None or vague or not request.slot_stats:
        return MemoryLimits({}, {})
    infos = newest_infos([file.path for file in expand(list(request.slot_stats))], MEMORY_FIELDS)
    masters = {node.id: sum(held[slot] for slot in node.slots) for node in topology.masters()}
    return memory_limits({node: info for node, info in infos.items() if node in masters}, masters)


def state_problem(goal: GoalOptions, inputs: Inputs) -> PlannerInput:
    """Return the problem that *goal* poses for the cluster of *inputs*; raises DecodeError, PlanError and InputError in one line each."""
    placement = NOTHING if goal.placement is None else read_placement(_text(goal.placement), goal.placement)
    placement = replace(placement, options=_node_options(goal))
    loads = inputs.loads
    limits = (placement.usual.capacity, *(wish.capacity for wish in placement.nodes), *inputs.capacity.values())
    capped = sorted({name for capacity in limits for name in capacity})
    resources = _resources(goal, loads, inputs.memory, capped)
    cost = _cost(goal, resources)
    tolerance, soft = read_goals(goal, placement, resources, capped)
    error = (inputs.memory_error or 0.0) if "memory_bytes" in resources else 0.0
    raised = _fit_tolerance(goal, placement, tolerance, error, inputs.all_keys_s)
    memory_tolerance = tolerance["memory_bytes"] if "memory_bytes" in resources else 0.0
    masters, nodes = masters_of(inputs.topology, placement, resources, inputs.capacity)
    owners = owners_of(inputs.topology)
    problem = Problem(
        {name: loads[name] for name in resources}, owners, masters, cost=cost,
        tolerance=tolerance, pinned=placement.pinned,
        headroom=_headroom(goal.headroom, error, memory_tolerance),
        bytes_budget=None if goal.bytes_budget is None else _share(goal.bytes_budget, "--bytes-budget"),
        soft=soft,
        slot_cost=SETSLOT_COST if goal.path == "setslot" else 0,
        gain_min=max(goal.least_gain, error) if error else goal.least_gain, zone_share_max=placement.zone_share_max,
    )  # fmt: skip
    warnings = [
        *raised, *memory_basis(inputs.memory, resources), *estimated_load(resources), *inputs.warnings,
        *left_out(inputs.activity, inputs.topology, nodes), *unchecked_capacity(capped, resources, loads),
    ]  # fmt: skip
    return PlannerInput(inputs, problem, nodes, warnings)


def _refusal(unread: UnreadInputs) -> str:
    *files, whole = unread_lines(unread)
    return (
        f"the snapshot is partial: {'; '.join(files)}; {whole}. Slots would move to nodes with unread keys: read the inputs "
        "again, or plan with the keys that were read: --allow-partial"
    )


def _snapshots(request: PlanningOptions) -> tuple[str, ...]:
    """Return the snapshots with weights; none where there is none and polls are enough."""
    names = request.snapshots
    if request.can_do_without_snapshot and not finished_names(request.root, KEY_JOBS, request.cluster):
        return ()
    return tuple(find_name(request.root, name, KEY_JOBS, request.cluster) for name in names)


def _topology(request: PlanningOptions, weights: Weights, snapshots: Sequence[str]) -> Topology:
    given = load_topology(request.topology)
    if given is None and request.slot_stats:
        given = newest_topology([file.path for file in expand(list(request.slot_stats))])
    if given is not None:
        return given
    if weights.topology is None:
        raise InputError("no topology: name CLUSTER NODES output with --topology, here or for key-slots")
    return read_topology(weights.topology.encode(), source=f"topology of snapshot {snapshots[-1]}")


def _activity(request: PlanningOptions, topology: Topology) -> Activity | None:
    if not request.slot_stats and not request.monitor:
        return None
    if not 0.001 <= request.window <= 86400 * 366:
        raise InputError(f"--window {request.window}: seconds, from 0.001 to a year")
    replicas = [node for node in topology.nodes if not node.is_master]
    with progress("reading the activity of slots"):
        return read_activity(
            request.slot_stats, request.monitor, how=request.combine, window_s=request.window,
            left_out={name for node in replicas for name in (node.id, node.address)}, permissive=request.permissive,
        )  # fmt: skip


def named_resources(goal: GoalOptions) -> list[str]:
    """Return the resources that ``--resources`` names, in full."""
    names = [word for entry in goal.resources for word in entry.split(",") if word]
    return list(dict.fromkeys(SHORT.get(word, word) for word in names))


def _resources(
    goal: GoalOptions, loads: Mapping[str, Sequence[float]], memory: Sequence[MemoryBasis], capped: Sequence[str]
) -> list[str]:
    """Return the balanced resources: the user's, or memory (dump sizes where unknown), keys, operations, and those with a capacity."""
    if goal.resources:
        names = named_resources(goal)
        missing = [name for name in names if name not in loads]
        if missing:
            raise InputError(
                f"--resources {missing[0]}: not known of this cluster; known are {', '.join(sorted(loads))}"
            )
        return names
    vague = any(basis.exactness is Exactness.PARTIAL for basis in memory)
    sized = [name for name in SIZES if name in loads and not (vague and name == "memory_bytes")][:1]
    acting = [name for name in ACTIVITIES if any(loads.get(name, ()))][:1]
    counted = ["keys"] if "keys" in loads else []
    resources = list(dict.fromkeys([*sized, *counted, *acting, *(name for name in capped if name in loads)]))
    if not resources:
        raise InputError("no weights: name a snapshot, SLOT-STATS polls or MONITOR logs")
    return resources


def _cost(goal: GoalOptions, resources: Sequence[str]) -> str:
    if goal.cost is not None:
        return SHORT.get(goal.cost, goal.cost)
    return next((name for name in (*BYTES, "keys") if name in resources), resources[0])


def read_goals(
    goal: GoalOptions, placement: Placement, resources: Sequence[str], capped: Sequence[str]
) -> tuple[dict[str, float], list[str]]:
    """Return the tolerance of every resource and the soft goals, the most important first: from the command line, else from the file.

    Keys beside a resource of size are soft at `KEYS_TOLERANCE`, unless they have a capacity or a tolerance of their own.
    """
    general, own = _tolerances(goal, placement)
    tolerance = dict.fromkeys(resources, TOLERANCE if general is None else general)
    for name, (word, _) in own.items():
        if name not in tolerance and word:
            raise InputError(f"--tolerance {word}: {name} is not balanced; {', '.join(resources)} are")
    strange = next((name for name in placement.goals if name not in resources), None)
    if strange is not None:
        raise placement.located.fault(("goals", strange), f"{strange} is not balanced; {', '.join(resources)} are")
    loose = "keys" in resources and "keys" not in {*own, *capped} and any(name in resources for name in SIZES)
    if loose:
        tolerance["keys"] = max(tolerance["keys"], KEYS_TOLERANCE)
    soft_by_name = {
        name: resource_goal.soft for name, resource_goal in placement.goals.items() if resource_goal.soft is not None
    }
    soft = [name for name in resources if soft_by_name.get(name, loose and name == "keys")]
    soft.sort(key=lambda name: placement.goals[name].priority if name in placement.goals else 0)
    if goal.soft:
        soft = [SHORT.get(word, word) for entry in goal.soft for word in entry.split(",") if word not in ("", "none")]
        unknown = next((name for name in soft if name not in resources), None)
        if unknown is not None:
            raise InputError(f"--soft {unknown}: not balanced; {', '.join(resources)} are")
    return tolerance | {name: value for name, (_, value) in own.items()}, list(dict.fromkeys(soft))


def _tolerances(goal: GoalOptions, placement: Placement) -> tuple[float | None, dict[str, tuple[str, float]]]:
    """The tolerance of all resources, and those of single ones with the word of the command line (empty for the file's)."""
    general = None
    own = {
        name: ("", resource_goal.tolerance)
        for name, resource_goal in placement.goals.items()
        if resource_goal.tolerance is not None
    }
    for word in (part for entry in goal.tolerance for part in entry.split(",") if part):
        name, _, value = word.rpartition("=")
        if name:
            own[SHORT.get(name, name)] = word, _share(value, "--tolerance")
        else:
            general = _share(word, "--tolerance")
    return general, own


def _memory_tolerance(goal: GoalOptions, placement: Placement) -> float | None:
    """The tolerance of memory that the user chose; None for the default."""
    general, own = _tolerances(goal, placement)
    return own["memory_bytes"][1] if "memory_bytes" in own else general


def _node_options(goal: GoalOptions) -> tuple[NodeOption, ...]:
    """Return the weights and drains of the command line."""
    weights = []
    for word in (part for entry in goal.weight for part in entry.split(",") if part):
        node, _, value = word.rpartition("=")
        try:
            weight = float(value)
        except ValueError as error:
            raise InputError(f"--weight {word}: write NODE=WEIGHT, as 10.0.0.1:6379=2") from error
        if not node:
            raise InputError(f"--weight {word}: write NODE=WEIGHT, as 10.0.0.1:6379=2")
        if not 0 < weight < float("inf"):
            raise InputError(f"--weight {node} {weight}: must be more than 0")
        weights.append(NodeOption("--weight", node, weight))
    drains = [NodeOption("--drain", part) for entry in goal.drain for part in entry.split(",") if part]
    return (*weights, *drains)


def _share(word: str, option: str) -> float:
    match = _SHARE.fullmatch(word)
    if match is None:
        raise InputError(f"{option} {word}: write a share as 0.02 or 2%")
    value = float(match[1]) / (100 if match[2] else 1)
    if not 0 <= value <= 1000:
        raise InputError(f"{option} {word}: must be from 0 to 1000")
    return value


def _headroom(value: float, memory_error: float, tolerance: float) -> float:
    """The part of the tolerance that is left free: *value*, or more where memory may be off by more (0 stays 0)."""
    if not 0 <= value <= 1:
        raise InputError(f"--headroom {value}: must be from 0 to 1")
    return max(value, memory_error / tolerance) if value and tolerance else value


def _fit_tolerance(
    goal: GoalOptions, placement: Placement, tolerance: dict[str, float], error: float, all_keys_s: float | None
) -> list[Caveat]:
    """Raise the default tolerance of memory in *tolerance*, up to `RAISED_MAX`, to one that its *error* allows to promise.

    Raises InputError for a tolerance that the user chose, and where the error is too large.
    """
    asked = tolerance.get("memory_bytes", 0.0)
    if error <= asked * ERROR_SHARE_MAX:
        return []
    fits = _round_up(error * REFIT / ERROR_SHARE_MAX)
    longer = "" if all_keys_s is None else f"--seconds {math.ceil(all_keys_s)} measures all keys"
    known = f"the memory of a master is known to ±{error:.1%}"
    if fits > RAISED_MAX or _memory_tolerance(goal, placement) is not None:
        raise InputError(
            f"cannot plan at a tolerance of {asked:.1%}: {known}. Plan at --tolerance memory_bytes={fits:g}"
            + (f", or measure more: {longer}" if longer else "")
        )
    tolerance["memory_bytes"] = fits
    message = f"tolerance of memory raised from {asked:.1%} to {fits:.1%}: {known}" + (f"; {longer}" if longer else "")
    return [Caveat.warning(Code.TOLERANCE_RAISED, message, "memory_bytes")]


def _round_up(share: float) -> float:
    """*share* with two digits."""
    digits = 1 - math.floor(math.log10(share))
    unit = 10.0**-digits
    return round(math.ceil(share / unit) * unit, max(digits, 0))


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


def foreign_load(weights: Weights) -> list[Caveat]:
    """Keys on nodes that do not own their slots."""
    keys = weights.foreign_keys
    message = f"{keys} keys on nodes that do not own their slots are not counted"
    return [Caveat(Severity.WARNING, Code.FOREIGN_LOAD, message)] if keys else []


def estimated_load(resources: Sequence[str]) -> list[Caveat]:
    """Operations that are estimated, not counted."""
    message = (
        f"{OPS_ESTIMATED}: accesses in 1,000 s, estimated from the LFU counters of the dumps (a lower limit with lfu-decay-time above 1); "
        "MONITOR logs have exact counts"
    )
    return [Caveat(Severity.WARNING, Code.OPS_ESTIMATED, message)] if OPS_ESTIMATED in resources else []


def memory_basis(memory: Sequence[MemoryBasis], resources: Sequence[str]) -> list[Caveat]:
    """Models behind memory_bytes, where it is balanced and some keys were not measured with the model of their server."""
    if "memory_bytes" not in resources:
        return []
    caveats = dict.fromkeys(basis.caveat for basis in memory)
    return [Caveat(Severity.WARNING, Code.MEMORY_MODEL, f"memory_bytes: {caveat}") for caveat in caveats if caveat]


def unchecked_capacity(
    capped: Sequence[str], resources: Sequence[str], loads: Mapping[str, Sequence[float]]
) -> list[Caveat]:
    """Capacities of resources that are not balanced: no plan keeps them."""
    return [
        Caveat(
            Severity.WARNING,
            Code.CAPACITY_NOT_KEPT,
            f"the capacity of {name} is ignored: {'it is not balanced' if name in loads else 'its load is unknown'}",
        )
        for name in capped
        if name not in resources
    ]


def left_out(activity: Activity | None, topology: Topology, nodes: Sequence[PlannedNode]) -> list[Caveat]:
    """Return caveats about failed masters without slots, and windows of slots that moved between polls."""
    known = {node.id for node in nodes}
    caveats = [
        Caveat(
            Severity.WARNING, Code.GONE, f"master {node.address} ({node.id[:8]}) has failed and has no slots: left out"
        )
        for node in topology.masters()
        if node.id not in known
    ]
    restarted = {figure.slot for figure in activity.figures if figure.restarted} if activity is not None else set()
    if restarted:
        message = f"{plural(len(restarted), 'slot')} moved, or lost counters, between polls; their windows are left out"
        caveats.append(Caveat(Severity.WARNING, Code.WINDOWS_LEFT_OUT, message))
    return caveats


def memory_limit_caveats(limits: MemoryLimits) -> list[Caveat]:
    """Capacities that come from maxmemory, and masters without one because they evict keys."""
    caveats = []
    if limits.capacity:
        message = (
            f"capacity of memory: {HEADROOM:.0%} of the maxmemory of {plural(len(limits.capacity), 'master')}, less the overhead of the "
            "server; --placement overrides it"
        )
        caveats.append(Caveat.note(Code.CAPACITY_OF_SERVERS, message, "memory_bytes"))
    for policy, count in sorted(Counter(limits.evicting.values()).items()):
        message = (
            f"{plural(count, 'master')} at maxmemory evict{'s' if count == 1 else ''} keys ({policy}): no capacity is kept there, and "
            "slots that arrive evict other keys"
        )
        caveats.append(Caveat.warning(Code.EVICTION, message, "memory_bytes"))
    return caveats
