"""A live cluster balanced by one command: weights from its servers, a plan, a dry run or the moves themselves, an audit."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.rebalance.audit import Finding
from cluster_core.rebalance.execution.effects import read_journal
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.topology.nodes_text import read_nodes
from schemas.caveats import Caveat, Code
from schemas.rebalance import PLAN_STEPS
from slotscope.pipelines.rebalance.audit import MeasuringLimits, audit_cluster
from slotscope.pipelines.rebalance.execution import ExecutionOutcome, check_numbers, execute, tell
from slotscope.pipelines.rebalance.inputs import Inputs, memory_limit_caveats, named_resources, state_problem
from slotscope.pipelines.rebalance.rows import store_plan
from slotscope.plans.stored_plans import LIVE, read_unchanged_plan
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import OK
from slotscope.runtime.priority import low_priority
from slotscope.runtime.progress import progress
from slotscope.runtime.storage.delta_files import exists, read_rows
from slotscope.runtime.text import plural, share
from slotscope.servers.cluster import parse_address
from slotscope.servers.node_link import Access, Address, LinkError
from slotscope.servers.plan_journal import PlanJournal
from slotscope.servers.slot_weights import SlotWeights, weigh_slots

if TYPE_CHECKING:
    from slotscope.pipelines.rebalance.options import RebalanceOptions

SECONDS_MAX = 86_400.0
RATE_MAX = 100_000.0


class ChosenPlan(NamedTuple):
    """The plan to look at or to carry out; *is_new* if it was made now."""

    stored: StoredPlan
    is_new: bool


def choose_plan(cluster: str, request: RebalanceOptions) -> ChosenPlan:
    """Return the plan that *request* names, the unfinished one, or a new one; raises InputError and PlanError."""
    check_numbers(request)
    if not 0 < request.seconds <= SECONDS_MAX or (request.rate is not None and not 1 <= request.rate <= RATE_MAX):
        raise InputError(f"--seconds must be above 0 and up to {SECONDS_MAX:g}, --rate from 1 to {RATE_MAX:g}")
    if not 0 <= request.window <= SECONDS_MAX:
        raise InputError(f"--window must be from 0 to {SECONDS_MAX:g} seconds")
    root, first = request.root, parse_address(cluster)
    access = request.access.with_password(request.access.password())
    if request.plan is not None:
        return ChosenPlan(read_unchanged_plan(root, request.plan), is_new=False)
    if request.rollback:
        last = _last_moved(root, first, access, even_ended=True)
        return ChosenPlan(last or read_unchanged_plan(root, "latest"), is_new=False)
    unfinished = None if request.new else _last_moved(root, first, access)
    if unfinished is not None:
        tell(f"plan {unfinished.plan_id} is unfinished: resuming it; --new starts over")
        return ChosenPlan(unfinished, is_new=False)
    with low_priority():
        with progress("measuring the load of slots"):
            weights = weigh_slots(
                first,
                access,
                seconds=request.seconds,
                rate=request.rate,
                window_s=request.window,
                memory=not request.resources or "memory_bytes" in named_resources(request),
            )
        inputs = Inputs(
            weights.topology, weights.loads, snapshot_id=LIVE, memory_error=weights.memory_error,
            warnings=[*memory_caveats(weights), *memory_limit_caveats(weights.limits)],
            capacity={node: {"memory_bytes": size} for node, size in weights.limits.capacity.items()},
            parts=weights.parts, all_keys_s=weights.all_keys_s,
        )  # fmt: skip
        goal = request if weights.moves_by_jobs or request.path != "auto" else replace(request, path="setslot")
        asked_ms = time.time_ns() // 10**6
        made = store_plan(root, state_problem(goal, inputs), join_ranges=request.defragment).made
    if made.stored.created_at_ms < asked_ms:
        asked = datetime.fromtimestamp(made.stored.created_at_ms / 1000, UTC)
        tell(f"the same plan as of {asked:%Y-%m-%d %H:%M:%S} UTC: slots, loads and limits are as they were")
    return ChosenPlan(made.stored, is_new=True)


def carry_out_chosen(
    cluster: str, request: RebalanceOptions, stored: StoredPlan
) -> tuple[ExecutionOutcome, list[Finding]]:
    """Show the steps of *stored*, or apply and audit it, as *request* says; findings are those of the audit."""
    access = request.access.with_password(request.access.password())
    done = execute(request.root, stored, cluster, access, request, as_json=request.json)
    if not request.apply or request.rollback or done.code != OK:
        return done, []
    with progress("auditing"):
        return done, audit_cluster(
            request.root, stored, cluster, access, MeasuringLimits(request.seconds, request.rate)
        )


def _last_moved(root: str, first: Address, access: Access, *, even_ended: bool = False) -> StoredPlan | None:
    """Return the plan of this cluster that moved slots last, if it is unfinished or *even_ended*."""
    if not exists(root, PLAN_STEPS):
        return None
    last = read_rows(root, PLAN_STEPS, columns=("plan_id",), order_by="ts DESC, seq DESC", limit=1)
    if not last:
        return None
    journal = read_journal(PlanJournal(root, last[0]["plan_id"]).read())
    if not journal.intents or (journal.has_ended and not even_ended):
        return None
    stored = read_unchanged_plan(root, last[0]["plan_id"])
    return stored if {node.id for node in stored.nodes} & _nodes_listed_by(first, access) else None


def _nodes_listed_by(first: Address, access: Access) -> set[str]:
    """Ids of the nodes that *first* lists."""
    try:
        reply = access.ask(first, "CLUSTER", "NODES")
        return {node.id for node in read_nodes(reply if isinstance(reply, bytes) else b"", source=str(first)).nodes}
    except LinkError as error:
        raise InputError(f"{first}: {error}") from error
    except DecodeError as error:
        raise InputError(f"{first}: CLUSTER NODES: {error.reason}") from error


def memory_caveats(weights: SlotWeights) -> list[Caveat]:
    """Return caveats about the memory of slots where the servers do not count it by slot."""
    estimates, counted = weights.memory, weights.counted_masters
    mixed = []
    if estimates and counted:
        message = (
            f"memory comes from SLOT-STATS for {plural(counted, 'master')} and from MEMORY USAGE for {plural(len(estimates), 'master')}: "
            "the two count differently, so the skew is approximate"
        )
        mixed = [Caveat.warning(Code.MEMORY_MIXED, message, "memory_bytes")]
    if not any(estimate.error for estimate in estimates):  # keys may expire between count and measurement
        return mixed
    measured, keys = sum(estimate.measured for estimate in estimates), sum(estimate.keys for estimate in estimates)
    message = (
        f"memory was sampled ({measured:,} of {keys:,} keys); error per master up to ±{share(max(estimate.error for estimate in estimates))} (95 % interval)"
        + ("; shares of masters are corrected by used_memory_dataset" if weights.fitted else "")
    )
    return [*mixed, Caveat.note(Code.MEMORY_SAMPLED, message)]
