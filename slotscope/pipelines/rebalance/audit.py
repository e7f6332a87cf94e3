"""Audit a plan: from the stored plan, its journal and the live cluster to findings."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from cluster_core.rebalance.audit import (
    STANDARD_ERRORS,
    Finding,
    MasterLoads,
    audit_left_behind,
    audit_load,
    audit_owners,
)
from cluster_core.rebalance.execution.cluster_now import ClusterSight, sight_of
from cluster_core.rebalance.execution.effects import StepKind, read_journal
from cluster_core.rebalance.execution.situation import at_present
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.slot_set import SlotSet
from schemas.rebalance import PLAN_AUDITS, PLAN_STEPS
from slotscope.pipelines.rebalance.execution import tell
from slotscope.plans.stored_plans import read_unchanged_plan
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import all_equal, commit_rows, exists, read_rows
from slotscope.servers.cluster import parse_address
from slotscope.servers.node_link import Access, Address
from slotscope.servers.plan_journal import PlanJournal
from slotscope.servers.slot_weights import SlotWeights, weigh_slots
from slotscope.servers.visits import Visit, topology_of, visited

if TYPE_CHECKING:
    from slotscope.pipelines.rebalance.options import AuditOptions

MEMORY, DUMPED = "memory_bytes", "serialized_bytes"
NEWS_S, NEWS_PAUSE_S = 10.0, 0.5
"""How long after the last move gossip may take to tell replicas the owners, and the pause between two looks."""


def audit_plan(request: AuditOptions) -> tuple[StoredPlan, list[Finding]]:
    """Audit a plan and write the findings; raises InputError for a missing plan."""
    if not 0 <= request.window < math.inf or not 0 <= request.seconds < math.inf:
        raise InputError("--window and --seconds must be 0 or more")
    stored = read_unchanged_plan(request.root, request.plan)
    access = request.access.with_password(request.access.password())
    how = MeasuringLimits(request.seconds, request.rate, request.window)
    return stored, audit_cluster(request.root, stored, request.cluster, access, how)


class MeasuringLimits(NamedTuple):
    """Limits of measuring a live cluster: *seconds* and *rate* for memory, the *window* for processor time."""

    seconds: float
    rate: float | None = None
    window: float = 0.0


def audit_cluster(root: str, stored: StoredPlan, cluster: str, access: Access, how: MeasuringLimits) -> list[Finding]:
    """Audit *stored* on the cluster of the node *cluster*, and write the findings."""
    first = parse_address(cluster)
    steps = PlanJournal(root, stored.plan_id).read()
    if steps and steps[-1].step == StepKind.ROLLED_BACK:
        tell(f"plan {stored.plan_id} was rolled back: its slots are where they were before")
    journal = read_journal(steps)
    until_s = min(_moved_until_s(root, stored.plan_id), time.time()) + NEWS_S
    while True:
        with visited(first, access, None) as visits:
            sight = _sight(visits)
            present = at_present(stored, sight, journal)
            findings = audit_owners(present, sight)
            if all(finding.kept for finding in findings) or time.time() >= until_s:
                left = _left_behind(visits, {move.slot: move.source for move in present.plan.moves})
                findings.append(audit_left_behind(present, left))
                break
        time.sleep(NEWS_PAUSE_S)
    findings += [audit_load(present, load) for load in _measured(present, first, access, how)]
    audited_at, source = datetime.now(UTC), f"cluster {cluster}"
    head = {"plan_id": stored.plan_id, "source": source, "audited_at": audited_at}
    rows = [{**head, **finding._asdict()} for finding in findings]
    commit_rows(root, PLAN_AUDITS, rows, all_equal({"plan_id": stored.plan_id, "source": source}))
    return findings


def _moved_until_s(root: str, plan_id: str) -> float:
    """Return when the last slot moved, by the journal; 0 if none did."""
    if not exists(root, PLAN_STEPS):
        return 0.0
    rows = read_rows(root, PLAN_STEPS, columns=("ts",), plan_id=plan_id, step=StepKind.DONE.value)
    return max((float(row["ts"].timestamp()) for row in rows), default=0.0)


def _sight(visits: Sequence[Visit]) -> ClusterSight:
    topology_of(visits[0])  # refuses a server in no cluster
    views = {me.id: sight_of(topology_of(visit)) for visit in visits if (me := visit.me)}
    silent = {str(visit.address): visit.checkup.lost or "it does not name itself" for visit in visits if not visit.me}
    return ClusterSight(views, silent)


def _left_behind(visits: Sequence[Visit], moved: Mapping[int, str]) -> dict[tuple[str, int], int]:
    """Count the keys of *moved* slots (slot to former owner) that the former owners still hold as masters.

    A master that gave away its last slot becomes a replica, with the keys of its new master.
    """
    left = {}
    for me, visit in ((me, visit) for visit in visits if (me := visit.me)):
        slots = [slot for slot, owner in moved.items() if owner == me.id]
        replies = (
            visit.ask([("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots]) if me.is_master else [0] * len(slots)
        )
        left.update(
            {(me.id, slot): reply for slot, reply in zip(slots, replies, strict=True) if isinstance(reply, int)}
        )
    return left


def _measured(stored: StoredPlan, first: Address, access: Access, how: MeasuringLimits) -> list[MasterLoads]:
    """Measure the resources of the plan, in its order, as for a new plan; those that live servers do not report have no loads."""
    wanted = list(stored.problem.loads)
    window_s = how.window if "cpu_usec" in wanted else 0.0
    memory = how.seconds > 0 and not {MEMORY, DUMPED}.isdisjoint(wanted)
    try:
        weights = weigh_slots(first, access, seconds=how.seconds, rate=how.rate, window_s=window_s, memory=memory)
    except InputError as error:
        return [MasterLoads(name, {}, "not measured", reason=str(error)) for name in wanted]
    owners = {node.id: node.slots for node in weights.topology.masters() if node.slots}
    loads = {
        name: {node: float(sum(row[slot] for slot in slots)) for node, slots in owners.items()}
        for name, row in weights.loads.items()
    }
    keys = MasterLoads("keys", loads["keys"], "keys of every slot")
    measurements = {"keys": keys, MEMORY: MasterLoads(MEMORY, {}, "not measured", reason="--seconds is 0")}
    if memory:
        measurements[MEMORY] = _memory(weights, owners, loads[MEMORY])
    reason = "memory was measured; live servers do not report dump sizes"
    measurements[DUMPED] = replace(measurements[MEMORY], resource=DUMPED, reason=reason)
    reason = "--window measures it" if not window_s else "the servers do not report it"
    measurements["cpu_usec"] = MasterLoads("cpu_usec", {}, "not measured", reason=reason)
    if "cpu_usec" in loads:
        measurements["cpu_usec"] = MasterLoads("cpu_usec", loads["cpu_usec"], f"SLOT-STATS over {window_s:g} s")
    unknown = MasterLoads("", {}, "not measured", reason="it is not measured at live servers")
    return [measurements.get(name) or replace(unknown, resource=name) for name in wanted]


def _memory(weights: SlotWeights, owners: Mapping[str, SlotSet], loads: Mapping[str, float]) -> MasterLoads:
    """Return the memory of each master with its standard error."""
    errors = {}
    for node, slots in owners.items():
        off = next((estimate.error for estimate in weights.memory if next(iter(slots)) in estimate.bytes_by_slot), 0.0)
        if off:
            errors[node] = off * loads[node] / STANDARD_ERRORS
    measured, keys = (
        sum(estimate.measured for estimate in weights.memory),
        sum(estimate.keys for estimate in weights.memory),
    )
    basis = f"MEMORY USAGE of {measured:,} of {keys:,} keys" if weights.memory else "memory-bytes of SLOT-STATS"
    return MasterLoads(MEMORY, loads, basis, errors)
