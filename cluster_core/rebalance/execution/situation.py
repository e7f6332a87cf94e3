"""The situation of a plan: masters after failovers, remaining batches, and whether a run may start.

A promoted replica has its master's slots and another node id. `see` returns plan and journal with current ids. Journal
rows keep the plan's ids (`Run.note`), so a later run needs no record of failovers. Each failed check of a dry run is a
sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from cluster_core.rebalance.execution.cluster_now import ClusterSight, JobSight, MigrationPath, NodeSight
from cluster_core.rebalance.execution.effects import NODE_TIMEOUT_DEFAULT_MS, Journal, ReadState, Send, Steps
from cluster_core.rebalance.plan import Batch, Job
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet, slots_by

ANSWER_S_MIN: Final = 1.0
"""Minimum answer time of a node."""
MIGRATE_MS_MAX: Final = 60_000
_NODE_ID = re.compile(r"\b[0-9a-z]{40}\b")
HEADROOM = 0.95
"""Maximum share of maxmemory at a target while both copies exist."""
DIFFERENCES_MAX = 20
"""Maximum number of reported differences."""
JOB_S, JOB_BYTES_PER_S = 0.11, 90e6
"""Start and speed of a server-side job, measured on loopback."""
SLOT_S, SLOT_BYTES_PER_S = 0.003, 40e6
"""Time of a slot key by key and its speed, measured on loopback with 3 to 6 masters."""
START_S = 0.1
"""Journal rows and state reads per batch."""


class CurrentState(NamedTuple):
    """Plan, journal and cluster with current ids; *replaced*: each promoted replica by plan id."""

    stored: StoredPlan
    journal: Journal
    sight: ClusterSight
    replaced: Mapping[str, str]


def see(stored: StoredPlan, journal: Journal) -> Steps[CurrentState]:
    """Read the state of the plan's masters and of their promoted replicas."""
    sight: ClusterSight = yield ReadState(tuple(node.id for node in stored.nodes))
    replaced = successors(stored, sight, journal)
    if replaced:
        promoted: ClusterSight = yield ReadState(tuple(replaced.values()))
        nodes = {name: node for name, node in sight.nodes.items() if name not in replaced} | dict(promoted.nodes)
        lost = {name: reason for name, reason in sight.lost.items() if name not in replaced} | dict(promoted.lost)
        sight = ClusterSight(nodes, lost)
        stored, journal = renamed_plan(stored, replaced, sight), journal.renamed(replaced)
    return CurrentState(stored, journal, with_current_marks(sight, journal, replaced), replaced)


def at_present(stored: StoredPlan, sight: ClusterSight, journal: Journal) -> StoredPlan:
    """Return *stored* with promoted replicas, for a *sight* of all nodes."""
    away = {node.id: "no answer" for node in stored.nodes if node.id not in sight.nodes}
    return renamed_plan(stored, successors(stored, ClusterSight(sight.nodes, away), journal), sight)


def successors(stored: StoredPlan, sight: ClusterSight, journal: Journal) -> dict[str, str]:
    """Return each promoted replica by the plan id of its master.

    A master without slots that is unreachable or a replica was replaced by the node outside the plan that owns most of its
    slots; CLUSTER NODES does not name the replaced master.
    """
    planned = {node.id for node in stored.nodes}
    away = {name for name in planned if name in sight.lost or (name in sight.nodes and not sight.nodes[name].is_master)}
    owners = sight.owner_list() if away and sight.nodes else []
    away -= set(owners)
    settled: dict[str, Counter[str]] = {name: Counter() for name in sorted(away)}
    moving: dict[str, Counter[str]] = {name: Counter() for name in sorted(away)}
    for slot, owner in enumerate(owners if away else ()):
        is_pending = slot in journal.pending
        for end in journal.intents[slot] if is_pending else (journal.left.get(slot, stored.problem.owners[slot]),):
            if end in away:
                (moving if is_pending else settled)[end][owner] += 1
    successor_of: dict[str, str] = {}
    for name, holders in sorted(settled.items(), key=lambda item: not item[1]):
        for owner, count in (holders or moving[name]).most_common():
            has_most = not holders or 2 * count > holders.total()
            if owner and owner not in planned and owner not in successor_of.values() and has_most:
                successor_of[name] = owner
                break
    return successor_of


def renamed_plan(stored: StoredPlan, replaced: Mapping[str, str], sight: ClusterSight) -> StoredPlan:
    """Return *stored* with ids and addresses of promoted replicas."""
    addresses = {name: address for node in sight.nodes.values() for name, address in node.addresses.items()}

    def now(name: str) -> str:
        return replaced.get(name, name)

    nodes = tuple(
        replace(node, id=replaced[node.id], address=addresses.get(replaced[node.id], ""))
        if node.id in replaced
        else node
        for node in stored.nodes
    )
    problem = replace(
        stored.problem,
        owners=[now(owner) for owner in stored.problem.owners],
        masters=[replace(master, id=now(master.id)) for master in stored.problem.masters],
    )
    plan = replace(
        stored.plan,
        moves=tuple(move._replace(source=now(move.source), target=now(move.target)) for move in stored.plan.moves),
        owners_after=tuple(now(owner) for owner in stored.plan.owners_after),
    )
    batches = tuple(
        batch._replace(jobs=tuple(job._replace(source=now(job.source), target=now(job.target)) for job in batch.jobs))
        for batch in stored.batches
    )
    return replace(stored, nodes=nodes, problem=problem, plan=plan, batches=batches)


def with_current_marks(sight: ClusterSight, journal: Journal, replaced: Iterable[str]) -> ClusterSight:
    """Return *sight* with current ids in the journal's open slots that name a *replaced* master."""

    def is_outdated(node: NodeSight, other: str) -> bool:
        return other in replaced or not any(
            other in view.epochs for name, view in sight.nodes.items() if name != node.id
        )

    def current(node: NodeSight, marks: Mapping[int, str], end: int) -> dict[int, str]:
        owners = dict(marks)
        for slot, other in marks.items():
            intent = journal.intents.get(slot, ("", ""))
            if intent[1 - end] == node.id and intent[end] != other and is_outdated(node, other):
                owners[slot] = intent[end]
        return owners

    nodes = {
        name: replace(node, migrating=current(node, node.migrating, 1), importing=current(node, node.importing, 0))
        if node.migrating or node.importing
        else node
        for name, node in sight.nodes.items()
    }
    return ClusterSight(nodes, sight.lost)


def failover_notes(before: StoredPlan, now: CurrentState) -> list[str]:
    """Return one sentence for each replaced master of the plan *before*."""
    pairs = sorted(now.replaced.items())
    return [f"{now.stored.name(other)} was promoted in place of {before.name(name)}" for name, other in pairs]


def remaining(stored: StoredPlan, owners: Sequence[str], *, back: Journal | None = None) -> list[Batch]:
    """Return the remaining batches for *owners* (node id by slot), in order.

    *back* is the journal of a rollback: batches and moves are reversed, for slots that the targets still own.
    """
    batches: list[Batch] = []
    for batch in stored.batches if back is None else reversed(stored.batches):
        jobs = []
        for job in batch.jobs:
            source, target = (job.source, job.target) if back is None else (job.target, job.source)
            slots = tuple(s for s in job.slots if owners[s] == source and (back is None or back.holds(s, source)))
            if slots:
                loads = (float(sum(load[slot] for slot in slots)) for load in stored.problem.loads.values())
                jobs.append(Job(source, target, slots, tuple(loads)))
        if jobs:
            batches.append(Batch(batch.number, tuple(jobs)))
    return batches


def waves(jobs: Sequence[Job]) -> list[list[Job]]:
    """Split *jobs* into groups that may run together: no master both gives and takes.

    A taker's new config epoch would revive its claim on a slot that it just gave away, and the new owner would delete the
    keys.
    """
    groups: list[list[Job]] = []
    for job in jobs:
        for group in groups:
            if not any(job.source == other.target or job.target == other.source for other in group):
                group.append(job)
                break
        else:
            groups.append([job])
    return groups


def ends_of(batches: Sequence[Batch]) -> dict[str, None]:
    """Return the masters that take part, in order of appearance."""
    return dict.fromkeys(node for batch in batches for job in batch.jobs for node in (job.source, job.target))


def seconds_of(
    stored: StoredPlan, batches: Sequence[Batch], path: MigrationPath, bytes_per_s_max: float | None = None
) -> list[float]:
    """Return the estimated seconds of each batch, not faster than allowed."""
    start_s, slot_s, bytes_per_s = (
        (0.0, SLOT_S, SLOT_BYTES_PER_S) if path is MigrationPath.LEGACY else (JOB_S, 0.0, JOB_BYTES_PER_S)
    )
    at = list(stored.problem.loads).index(stored.problem.cost)
    durations = []
    for batch in batches:
        least = sum(job.loads[at] for job in batch.jobs) / bytes_per_s_max if bytes_per_s_max else 0.0
        longest = max(start_s + len(job.slots) * slot_s + job.loads[at] / bytes_per_s for job in batch.jobs)
        durations.append(max(START_S + longest, least))
    return durations


def commands_of(batch: Batch, path: MigrationPath) -> list[Send]:
    """Return the commands of *batch* in order; key by key, all masters get the last command of each slot.

    The target learns first that it owns the slot, so that the slot is never without owner (redis 7116).
    """
    if path is MigrationPath.REDIS_IMPORT:
        return [Send(job.target, ("CLUSTER", "MIGRATION", "IMPORT", *_bounds(job))) for job in batch.jobs]
    if path is MigrationPath.VALKEY_JOBS:  # one command per source, with one job per target
        arguments: dict[str, list[str]] = {}
        for job in batch.jobs:
            arguments.setdefault(job.source, ["CLUSTER", "MIGRATESLOTS"]).extend(
                ("SLOTSRANGE", *_bounds(job), "NODE", job.target)
            )
        return [Send(source, tuple(command)) for source, command in arguments.items()]
    commands = []
    for source, target, slots, _ in batch.jobs:
        for number in map(str, slots):
            commands += [
                Send(target, ("CLUSTER", "SETSLOT", number, "IMPORTING", source)),
                Send(source, ("CLUSTER", "SETSLOT", number, "MIGRATING", target)),
                Send(source, ("CLUSTER", "GETKEYSINSLOT", number, "100")),
                Send(source, ("MIGRATE", target, "KEYS")),
                Send(target, ("CLUSTER", "SETSLOT", number, "NODE", target)),
                Send(source, ("CLUSTER", "SETSLOT", number, "NODE", target)),
            ]
    return commands


def _bounds(job: Job) -> list[str]:
    return [str(bound) for pair in job.ranges for bound in pair]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run.

    *pause_after*: batch number (0: none). *group*: slots of a job open at a time; *groups_a_row*: groups per journal row.
    *attempts*: starts of a failing job without progress. *bytes_per_s_max*, *latency_ms_max* (client p99): limits between
    pieces. *patience_s* limits each wait, *settle_s* the propagation of owners.
    """

    rollback: bool = False
    pause_after: int = 0
    group: int = 16
    groups_a_row: int = 8
    attempts: int = 3
    retry_pause_s: float = 2.0
    patience_s: float = 60.0
    settle_s: float = 30.0
    job_timeout_s: float = 3600.0
    bytes_per_s_max: float | None = None
    latency_ms_max: float | None = None


USUAL = Settings()


@dataclass(frozen=True, slots=True)
class Situation:
    """The plan, the cluster, the journal, the remaining batches and a forecast.

    The forecast has *seconds* per batch, *refusals*, *notes* and the MIGRATE timeout.
    """

    stored: StoredPlan
    sight: ClusterSight
    journal: Journal
    path: MigrationPath
    batches: Sequence[Batch] = ()
    rollback: bool = False
    seconds: tuple[float, ...] = ()
    refusals: tuple[str, ...] = ()
    in_place: bool = False
    notes: tuple[str, ...] = ()
    migrate_ms: int = NODE_TIMEOUT_DEFAULT_MS // 2

    def name(self, node: str) -> str:
        return self.stored.name(node)


def forecast_run(
    stored: StoredPlan, sight: ClusterSight, journal: Journal, path: MigrationPath | None, how: Settings = USUAL
) -> Situation:
    """Return the dry run for the cluster state *sight*."""
    owners, lost = sight.owner_list(), sight.lost
    batches = remaining(stored, owners, back=journal if how.rollback else None)
    if sight.nodes:  # other masters may be unreachable
        needed = journal.ends if how.rollback else {*owners, *ends_of(batches)}
        sight = ClusterSight(sight.nodes, {node: reason for node, reason in lost.items() if node in needed})
    nodes = list(ends_of(batches)) or [node.id for node in stored.nodes if node.id in sight.nodes]
    path = path or choose_path(sight, nodes)
    now = Situation(
        stored, sight, journal, path, batches, how.rollback, tuple(seconds_of(stored, batches, path, how.bytes_per_s_max)),
        migrate_ms=migrate_ms(sight, how.patience_s),
    )  # fmt: skip
    if not sight.nodes:
        return replace(now, refusals=tuple(refusals(now)))
    unneeded = [stored.name(node) for node in sorted(lost.keys() - sight.lost.keys())]
    notes = [f"{name} does not answer; no slot moves from or to it" for name in unneeded]
    notes += left_alone(stored, owners, journal) if how.rollback else []
    in_place = not sight.lost and _is_there(now, owners)
    return replace(now, notes=tuple(notes), in_place=in_place, refusals=() if in_place else tuple(refusals(now)))


def _is_there(now: Situation, owners: Sequence[str]) -> bool:
    """Return whether all slots have their planned owners; for a rollback, whether no slot is at its target."""
    unsettled, jobs = {*now.sight.open_slots(), *now.sight.disputed()}, now.sight.active_jobs()
    if not now.rollback:
        return list(owners) == list(now.stored.plan.owners_after) and not unsettled and not jobs
    ours = [job for job in jobs if is_ours(job, now.journal)]
    return not (now.batches or ours or unsettled & now.journal.intents.keys())


def migrate_ms(sight: ClusterSight, patience_s: float) -> int:
    """Return MIGRATE's timeout: half of the shortest cluster-node-timeout, and of the patience.

    A source blocks while MIGRATE waits for its target (`migrateCommand`); beyond a node timeout it would be replaced.
    """
    timeouts = [node.node_timeout_ms or NODE_TIMEOUT_DEFAULT_MS for node in sight.nodes.values()]
    shortest = min(timeouts, default=NODE_TIMEOUT_DEFAULT_MS)
    return max(1, int(min(shortest / 2, max(patience_s, ANSWER_S_MIN) * 500, MIGRATE_MS_MAX)))


def with_names(stored: StoredPlan, text: str, sight: ClusterSight) -> str:
    """Add addresses of the plan and of *sight* to node ids in *text*."""
    addresses = {name: address for node in sight.nodes.values() for name, address in node.addresses.items()}

    def called(match: re.Match[str]) -> str:
        name = stored.name(match[0])
        return f"{addresses[name]} ({name[:8]})" if name in addresses else name

    return _NODE_ID.sub(called, text)


def choose_path(sight: ClusterSight, nodes: Sequence[str]) -> MigrationPath:
    """Return the fastest path that all *nodes* know."""
    paths = {sight.nodes[node].path if node in sight.nodes else MigrationPath.LEGACY for node in nodes}
    return paths.pop() if len(paths) == 1 else MigrationPath.LEGACY


def refusals(now: Situation) -> list[str]:
    """Return the reasons to refuse the run, one sentence each, most important first."""
    return [sentence for _, sentences in examine(now) for sentence in sentences]


def examine(now: Situation) -> list[tuple[str, list[str]]]:
    """Return each check with its faults; if a node does not answer, only that check."""
    unseen = [
        f"{now.name(node)} does not answer: {reason}; start it, or let one of its replicas take over, then run this again"
        for node, reason in sorted(now.sight.lost.items())
    ]
    if unseen or not now.sight.nodes:
        return [("all masters answer", unseen or ["no node of the plan answers"])]
    return [
        ("the cluster is ok", _unhealthy(now)),
        *([] if now.rollback else [("slots belong to the masters of the plan", _stale(now))]),
        ("all masters agree on the owners", _disagreement(now)),
        ("no slot is open", _open(now)),
        ("no other migration runs", _foreign_jobs(now)),
        ("all sources and targets are masters", _roles(now)),
        ("the servers know the commands", _versions(now)),
        ("keys are in database 0 alone, or the servers move all", _databases(now)),
        ("targets have room for both copies", _room(now)),
    ]


def _unhealthy(now: Situation) -> list[str]:
    """Return nodes with cluster state FAIL, unless only slots left open by this plan cause it."""
    reasons = []
    ours = Counter(node for node, _, _ in now.sight.misinformed(now.journal.intents.keys()))
    for node in now.sight.nodes.values():
        failing = SLOT_COUNT - node.slots_ok
        if 0 < failing <= ours[node.id]:
            continue
        if not node.cluster_ok:
            reasons.append(f"{now.name(node.id)} says that the cluster is not ok (cluster_state)")
        elif failing and not now.rollback:
            reasons.append(f"{now.name(node.id)} says that {failing} slots are not ok")
        unreachable = [name for name in node.unreachable if name in now.sight.nodes]
        if unreachable:
            reasons.append(f"{now.name(node.id)} does not reach {', '.join(map(now.name, unreachable))}")
    return reasons


def _stale(now: Situation) -> list[str]:
    """Return differences from the plan's state, except those by its journal and by failovers (`see`)."""
    owners, epochs = now.sight.owner_list(), now.sight.epochs()
    moves = now.stored.ends
    for slot in now.journal.intents:
        if slot in moves and owners[slot] in (*moves[slot], ""):
            owners[slot] = moves[slot][0]
    for planned in now.stored.nodes:
        node = now.sight.nodes.get(planned.id)
        is_emptied = node is None or (planned.id in now.journal.ends and not node.own)
        if planned.id not in epochs and is_emptied:  # no remaining move needs it
            epochs[planned.id] = planned.config_epoch
    sentences = [with_names(now.stored, sentence, now.sight) for sentence in differences(now.stored, owners, epochs)]
    return [f"the plan is stale, make a new one: {sentence}" for sentence in sentences]


def differences(stored: StoredPlan, owners: Sequence[str], config_epochs: Mapping[str, int]) -> list[str]:
    """Return up to `DIFFERENCES_MAX` differences from the state that *stored* was made for, one sentence each.

    Failovers and moved slots raise config epochs; a lower epoch means that a server was reset or restored.
    """
    planned = {node.id: node.config_epoch for node in stored.nodes}
    pairs = enumerate(zip(stored.problem.owners, owners, strict=True))
    changed = slots_by((ends, slot) for slot, ends in pairs if ends[0] != ends[1])
    sentences = [
        f"slots {short_slots(slots)}: owner is {now or 'nobody'}, in the plan {before}"
        for (before, now), slots in changed.items()
    ]
    sentences += [
        f"{node} is in the plan but is not a master of the cluster" for node in planned.keys() - config_epochs.keys()
    ]
    sentences += [
        f"{node} is a master of the cluster but is not in the plan" for node in config_epochs.keys() - planned.keys()
    ]
    sentences += [
        f"config epoch of {node} fell to {config_epochs[node]}, from {planned[node]} in the plan"
        for node in planned.keys() & config_epochs.keys()
        if planned[node] > config_epochs[node]
    ]
    return sorted(sentences)[:DIFFERENCES_MAX]


def left_alone(stored: StoredPlan, owners: Sequence[str], journal: Journal) -> list[str]:
    """Return the slots that a rollback skips because others moved them, one sentence each."""
    elsewhere = {slot: owners[slot] for slot, (source, _) in stored.ends.items() if owners[slot] != source}
    slots_by_owner = slots_by((owner, slot) for slot, owner in elsewhere.items() if not journal.holds(slot, owner))
    return [
        f"slots {short_slots(slots)} stay with {stored.name(owner)}: this plan did not move them there"
        for owner, slots in slots_by_owner.items()
    ]


def _disagreement(now: Situation) -> list[str]:
    """Return slots with disputed owners, except those that the plan just moved."""
    disputed = SlotSet(slot for slot in now.sight.disputed() if slot not in now.journal.intents and not now.rollback)
    return [f"the masters do not agree on the owner of slots {short_slots(disputed)}"] if disputed else []


def _open(now: Situation) -> list[str]:
    reasons = []
    moves = now.stored.ends
    for slot, (source, target) in sorted(now.sight.open_slots().items()):
        intent = now.journal.intents.get(slot)
        if intent is None and now.rollback:
            continue
        if intent == (source, target) and (intent == moves.get(slot) or intent[::-1] == moves.get(slot)):
            continue
        reasons.append(
            f"slot {slot} is open from {now.name(source)} to {now.name(target)}, and this plan did not open it: "
            "finish or close it first (SETSLOT NODE or STABLE)"
        )
    return reasons


def _foreign_jobs(now: Situation) -> list[str]:
    ends = ends_of(now.batches)
    return [
        f"{now.name(job.source)} is moving slots {short_slots(job.slots)} to {now.name(job.target)}, which this plan did not begin: "
        "wait for it or cancel it"
        for job in now.sight.active_jobs()
        if not is_ours(job, now.journal) and not (now.rollback and {job.source, job.target}.isdisjoint(ends))
    ]


def is_ours(job: JobSight, journal: Journal) -> bool:
    """Return whether an earlier run of the plan started this migration."""
    return all(journal.intents.get(slot) == (job.source, job.target) for slot in job.slots)


def _roles(now: Situation) -> list[str]:
    return [
        f"{now.name(node)} is a replica now: a master that gives away its last slot becomes one. Make it a master again: CLUSTER RESET SOFT "
        "there, then CLUSTER MEET from another node"
        for node in ends_of(now.batches)
        if not now.sight.nodes[node].is_master
    ]


def _versions(now: Situation) -> list[str]:
    return [
        f"{now.name(node)} runs {now.sight.nodes[node].server}, which does not know CLUSTER {now.path.value.upper()}: use --path setslot"
        for node in ends_of(now.batches)
        if now.path not in (MigrationPath.LEGACY, now.sight.nodes[node].path)
    ]


def _databases(now: Situation) -> list[str]:
    """Refuse MIGRATE, which moves database 0 only, if there are more databases (Valkey 9)."""
    return [
        f"{now.name(node)} holds keys in database {max(now.sight.nodes[node].databases)}, which SETSLOT and MIGRATE leave behind: "
        "use --path migrateslots"
        for node in ends_of(now.batches)
        if now.path is MigrationPath.LEGACY and max(now.sight.nodes[node].databases, default=0) > 0
    ]


def _room(now: Situation) -> list[str]:
    """Return targets without memory for both copies of a batch."""
    held = {name: float(node.used_memory) for name, node in now.sight.nodes.items()}
    loads = now.stored.problem.loads
    size = next((loads[name] for name in ("memory_bytes", "serialized_bytes") if name in loads), [0.0] * SLOT_COUNT)
    reasons: dict[str, str] = {}
    for batch in now.batches:
        coming: dict[str, float] = {}
        for job in batch.jobs:
            coming[job.target] = coming.get(job.target, 0.0) + sum(float(size[slot]) for slot in job.slots)
        for target, more in coming.items():
            limit = now.sight.nodes[target].memory_max
            if limit and held[target] + more > limit * HEADROOM:
                reasons.setdefault(
                    target,
                    f"{now.name(target)} would need {held[target] + more:,.0f} bytes in batch {batch.number} and may use "
                    f"{HEADROOM:.0%} of its maxmemory of {limit:,}",
                )
            held[target] += more
        for job in batch.jobs:
            held[job.source] -= sum(float(size[slot]) for slot in job.slots)
    return list(reasons.values())


def short_slots(slots: SlotSet) -> str:
    """Return *slots* as in CLUSTER NODES, cut after some ranges."""
    text = str(slots)
    return text if len(text) <= 60 else text[:60].rsplit(" ", 1)[0] + " …"
