"""Audit a plan: from the stored plan, its journal and the live cluster or a new snapshot to findings."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.rebalance.audit import (
    STANDARD_ERRORS,
    Finding,
    Measured,
    NodeView,
    audit_left_behind,
    audit_load,
    audit_owners,
)
from cluster_core.rebalance.execution.cluster_now import ClusterSight, sight_of
from cluster_core.rebalance.execution.journal import Journal, StepKind, read_journal
from cluster_core.rebalance.execution.succession import at_present
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.rebalance.table_rows import PlanAuditRow
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.nodes_text import read_nodes
from schemas.rebalance import PLAN_AUDITS, PLAN_STEPS
from schemas.silver import SLOT_LOAD, SNAPSHOTS
from slotscope.plans.stored_plans import read_unchanged_plan
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import all_equal, commit_rows, exists, read_rows
from slotscope.runtime.storage.snapshot_names import KEY_JOBS, find_name
from slotscope.servers.cluster import parse_address
from slotscope.servers.node_link import Access, Address
from slotscope.servers.plan_journal import PlanJournal
from slotscope.servers.slot_weights import SlotWeights, weigh_slots
from slotscope.servers.visits import Visit, topology_of, visited
from slotscope.sources.slot_weights import is_partial

if TYPE_CHECKING:
    from slotscope.pipelines.rebalance.options import AuditOptions

MEMORY, DUMPED = "memory_bytes", "serialized_bytes"
COLUMNS = ("keys", "serialized_bytes", "memory_bytes", "ops")
"""Resources that silver/slot_load may hold."""
NEWS_S, NEWS_PAUSE_S = 10.0, 0.5
"""How long after the last move gossip may take to tell replicas the owners, and the pause between two looks."""


def audit_plan(request: AuditOptions) -> tuple[StoredPlan, list[Finding]]:
    """Audit a plan and write the findings; raises InputError for a missing plan or snapshot."""
    if (request.cluster is None) == (request.snapshot is None):
        raise InputError("give either --cluster HOST:PORT or --snapshot NAME")
    if not 0 <= request.window < math.inf or not 0 <= request.seconds < math.inf:
        raise InputError("--window and --seconds must be 0 or more")
    stored = read_unchanged_plan(request.root, request.plan)
    if request.cluster is None:
        name = find_name(request.root, str(request.snapshot), KEY_JOBS)
        findings = _audit_snapshot(stored, _moved_until_ms(request.root, stored.plan_id), request.root, name)
        return stored, _written(request.root, stored, f"snapshot {name}", findings)
    access = request.access.with_password(request.access.password())
    how = Measuring(request.seconds, request.rate, request.window)
    return stored, audit_cluster(request.root, stored, request.cluster, access, how)


class Measuring(NamedTuple):
    """Limits of measuring a live cluster: *seconds* and *rate* for memory, the *window* for processor time."""

    seconds: float
    rate: float | None = None
    window: float = 0.0


def audit_cluster(root: str, stored: StoredPlan, cluster: str, access: Access, how: Measuring) -> list[Finding]:
    """Audit *stored* on the cluster of the node *cluster*, and write the findings; as `audit_plan`."""
    moved_ms = _moved_until_ms(root, stored.plan_id)
    journal = read_journal(PlanJournal(root, stored.plan_id).read())
    until_s = min((moved_ms or 0) / 1000, time.time()) + NEWS_S
    while time.time() < until_s and not _is_known(stored, journal, cluster, access):
        time.sleep(NEWS_PAUSE_S)
    return _written(root, stored, f"cluster {cluster}", _audit_cluster(stored, journal, cluster, access, how))


def _written(root: str, stored: StoredPlan, source: str, findings: list[Finding]) -> list[Finding]:
    """Return *findings* after writing them."""
    audited_at = datetime.now(UTC)
    rows = [PlanAuditRow(stored.plan_id, source, audited_at, *astuple(one))._asdict() for one in findings]
    commit_rows(root, PLAN_AUDITS, rows, all_equal({"plan_id": stored.plan_id, "source": source}))
    return findings


def _moved_until_ms(root: str, plan_id: str) -> int | None:
    """Return when the last slot moved, by the journal; None if none did."""
    rows = (
        read_rows(root, PLAN_STEPS, columns=("ts",), plan_id=plan_id, step=StepKind.DONE.value)
        if exists(root, PLAN_STEPS)
        else []
    )
    return max((round(row["ts"].timestamp() * 1000) for row in rows), default=None)


def _is_known(stored: StoredPlan, journal: Journal, cluster: str, access: Access) -> bool:
    """Return whether every node knows the planned owners."""
    with visited(parse_address(cluster), access, None) as visits:
        return all(one.kept for one in audit_owners(at_present(stored, _sight(visits), journal), _views(visits)))


def _views(visits: Sequence[Visit]) -> list[NodeView]:
    return [
        NodeView(str(visit.address), lost=visit.checkup.lost or "it does not name itself")
        if visit.checkup.topology is None or visit.me is None
        else NodeView.of(str(visit.address), visit.checkup.topology)
        for visit in visits
    ]


def _sight(visits: Sequence[Visit]) -> ClusterSight:
    topology_of(visits[0])  # refuses a server in no cluster
    return ClusterSight({me.id: sight_of(topology_of(visit)) for visit in visits if (me := visit.me)})


def _audit_cluster(stored: StoredPlan, journal: Journal, cluster: str, access: Access, how: Measuring) -> list[Finding]:
    with visited(parse_address(cluster), access, None) as visits:
        stored = at_present(stored, _sight(visits), journal)
        left = _left_behind(visits, {move.slot: move.source for move in stored.plan.moves})
        findings = [*audit_owners(stored, _views(visits)), audit_left_behind(stored, left)]
    return findings + [audit_load(stored, one) for one in _measured(stored, parse_address(cluster), access, how)]


def _left_behind(visits: Sequence[Visit], moved: Mapping[int, str]) -> dict[tuple[str, int], int]:
    """Count the keys of *moved* slots (slot to former owner) that the former owners still hold."""
    left = {}
    for source, visit in {me.id: visit for visit in visits if (me := visit.me)}.items():
        slots = [slot for slot, owner in moved.items() if owner == source]
        replies = visit.ask([("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots])
        left.update(
            {(source, slot): reply for slot, reply in zip(slots, replies, strict=True) if isinstance(reply, int)}
        )
    return left


def _measured(stored: StoredPlan, first: Address, access: Access, how: Measuring) -> list[Measured]:
    """Measure the resources of the plan, in its order, as for a new plan; those that live servers do not report have no loads."""
    wanted = list(stored.problem.loads)
    window_s = how.window if "cpu_usec" in wanted else 0.0
    memory = how.seconds > 0 and not {MEMORY, DUMPED}.isdisjoint(wanted)
    try:
        weights = weigh_slots(first, access, seconds=how.seconds, rate=how.rate, window_s=window_s, memory=memory)
    except InputError as error:
        return [Measured(name, {}, "not measured", doubt=str(error)) for name in wanted]
    owners = {node.id: node.slots for node in weights.topology.masters() if node.slots}
    loads = {
        name: {node: float(sum(row[slot] for slot in slots)) for node, slots in owners.items()}
        for name, row in weights.loads.items()
    }
    keys = Measured("keys", loads["keys"], "keys of every slot")
    found = {"keys": keys, MEMORY: Measured(MEMORY, {}, "not measured", doubt="--seconds is 0")}
    if memory:
        found[MEMORY] = _memory(weights, owners, loads[MEMORY])
    doubt = "live servers do not report it; audit a snapshot of new dumps with --snapshot"
    found[DUMPED] = replace(found[MEMORY], resource=DUMPED, doubt=f"memory was measured; {doubt}")
    doubt = "--window measures it" if not window_s else "the servers do not report it"
    found["cpu_usec"] = Measured("cpu_usec", {}, "not measured", doubt=doubt)
    if "cpu_usec" in loads:
        found["cpu_usec"] = Measured("cpu_usec", loads["cpu_usec"], f"SLOT-STATS over {window_s:g} s")
    unknown = Measured("", {}, "not measured", doubt="it is not measured at live servers")
    return [found.get(name) or replace(unknown, resource=name) for name in wanted]


def _memory(weights: SlotWeights, owners: Mapping[str, SlotSet], loads: Mapping[str, float]) -> Measured:
    """Return the memory of each master with its standard error."""
    errors = {}
    for node, slots in owners.items():
        off = next((one.error for one in weights.memory if next(iter(slots)) in one.bytes_by_slot), 0.0)
        if off:
            errors[node] = off * loads[node] / STANDARD_ERRORS
    measured, keys = sum(one.measured for one in weights.memory), sum(one.keys for one in weights.memory)
    basis = f"MEMORY USAGE of {measured:,} of {keys:,} keys" if weights.memory else "memory-bytes of SLOT-STATS"
    return Measured(MEMORY, loads, basis, errors)


def _audit_snapshot(stored: StoredPlan, moved_ms: int | None, root: str, name: str) -> list[Finding]:
    evidence = read_snapshot(root, name)
    moved = {move.slot: move.source for move in stored.plan.moves}
    left = audit_left_behind(stored, evidence.left_behind(moved))
    if evidence.is_partial and left.kept:
        left = replace(left, kept=None, detail=f"{left.detail}; not proven, because the snapshot is partial")
    loads = [audit_load(stored, evidence.measure(one, moved, moved_ms)) for one in stored.problem.loads]
    return [*audit_owners(stored, [evidence.view]), left, *loads]


@dataclass(frozen=True, slots=True)
class SnapshotEvidence:
    """Rows of one snapshot: *taken_ms* is the newest time of its dumps, None if not known."""

    name: str
    taken_ms: int | None
    view: NodeView
    loads: Sequence[Mapping[str, Any]]
    is_partial: bool = False

    def left_behind(self, moved: Mapping[int, str]) -> dict[tuple[str, int], int]:
        """Keys of *moved* slots (slot to former owner) on the former owners."""
        left = {(source, slot): 0 for slot, source in moved.items()}
        for row in self.loads:
            if (row["node_id"], row["slot"]) in left:
                left[row["node_id"], row["slot"]] += row["keys"]
        return left

    def measure(self, resource: str, moved: Mapping[int, str], moved_ms: int | None) -> Measured:
        """Load of each master in *resource*; flagged where counters may be from before the moves."""
        if resource in COLUMNS and any(row[resource] is not None for row in self.loads):
            loads: dict[str, float] = {}
            for row in self.loads:
                node = row["node_id"] or row["owner_id"] or ""
                loads[node] = loads.get(node, 0.0) + (row[resource] or 0)
            doubt = self._doubt(moved_ms)
            if resource == "ops" and moved and not doubt:
                doubt = "the operations may have been counted before the slots moved"
            return Measured(resource, loads, f"silver/slot_load of {self.name}", doubt=doubt)
        return Measured(resource, {}, f"snapshot {self.name}", doubt=f"snapshot {self.name} does not hold it")

    def _doubt(self, moved_ms: int | None) -> str:
        if self.is_partial:
            return f"snapshot {self.name} is partial: some of its inputs could not be read"
        if moved_ms is not None and self.taken_ms is not None and self.taken_ms < moved_ms:
            return f"snapshot {self.name} was taken before the last slot moved"
        return ""


def read_snapshot(root: str, name: str) -> SnapshotEvidence:
    """Return the rows of snapshot *name*; InputError if it is not there or has no owners."""
    found = read_rows(root, SNAPSHOTS, snapshot_id=name) if exists(root, SNAPSHOTS) else []
    if not found:
        raise InputError(f"{root}: no finished snapshot {name}; slotscope key-slots makes one")
    taken = found[0]["taken_at"]
    loads = read_rows(root, SLOT_LOAD, snapshot_id=name)
    return SnapshotEvidence(
        name,
        None if taken is None else round(taken.timestamp() * 1000),
        _view(name, found[0]["topology"], loads),
        loads,
        is_partial(found[0]),
    )


def _view(name: str, topology: str | None, loads: Sequence[Mapping[str, Any]]) -> NodeView:
    where = f"snapshot {name}"
    if topology:
        try:
            return NodeView.of(where, read_nodes(topology.encode("utf-8", "surrogateescape"), source=where))
        except DecodeError as error:
            raise InputError(str(error)) from error
    owners = [""] * SLOT_COUNT
    for row in loads:
        owners[row["slot"]] = row["owner_id"] or ""
    if not any(owners):
        raise InputError(f"{where} was made without --topology: who owns its slots is not known")
    return NodeView(where, owners)
