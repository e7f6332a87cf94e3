"""Incidents as text: one sentence per incident and per step. Nodes are shown by id prefix or by *names*."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cluster_core.gossip.causes import Cause
from cluster_core.incidents.incident import Incident, Loss, SetUp, Step, milliseconds, short
from cluster_core.instants import write_instant
from cluster_core.kinds import EventKind, IncidentKind, Source

Names = Mapping[str, str]

NAMED_MAX: Final = 5
"""Maximum nodes named in one sentence."""
RANGES_MAX: Final = 40
"""Maximum characters of slot ranges in a sentence."""
SENTENCE: Final = ". "
"""Between the sentences of a summary; the last one has no full stop."""
WAITS: Final = "Currently unable to failover: "
"""Start of replicas' log lines on a delayed election."""
CAUSES: Final[dict[str, str]] = {
    Cause.SILENCE: "no reply for the node timeout",
    Cause.QUORUM: "a majority of masters reported it",
    Cause.OWN_GOSSIP: "by its gossip",
    Cause.POLL: "by its answer to a poll",
    Cause.LOG: "by its log",
}


def name_of(node: str, names: Names) -> str:
    """Return a node's name in the text."""
    return names.get(node) or short(node)


def name_all(nodes: list[str], address_of: Mapping[str, str]) -> dict[str, str]:
    """Return names of nodes: the address and the shortest distinct id prefix; the address alone without an id."""
    ids = [node for node in nodes if ":" not in node]
    length = 8
    while length < 40 and len({node[:length] for node in ids}) < len(set(ids)):
        length += 4
    named = {node: f"{address_of[node]} ({node[:length]})" if address_of.get(node) else node[:length] for node in ids}
    return named | {node: node for node in nodes if ":" in node}


def seconds(milliseconds: int | None) -> str:
    """Format a duration.

    >>> seconds(5), seconds(3026), seconds(60_000), seconds(1_873_000), seconds(93_600_000), seconds(None)
    ('5 ms', '3.03 s', '60 s', '31 min 13 s', '26 h 0 min', 'an unknown time')
    """
    if milliseconds is None:
        return "an unknown time"
    if abs(milliseconds) < 1000:
        return f"{milliseconds} ms"
    whole = round(milliseconds / 1000)
    if abs(whole) < 120:
        return f"{milliseconds / 1000:.2f} s" if abs(milliseconds) < 60_000 else f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min {whole % 60} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def plural(count: int | None, word: str) -> str:
    """Format a number: ``1 slot``, ``2 slots``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def summary_of(incident: Incident, names: Names) -> str:
    """Summarize the incident: one sentence on the event, then its cause and its impact, if known."""
    text = _SUMMARIES[incident.kind](incident, names)
    return f"Uncertain, because bytes are missing from the capture: {text}" if incident.rests_on_gap else text


def set_up_text(set_up: SetUp) -> str:
    """Describe the set-up of a cluster in one sentence.

    >>> set_up_text(SetUp(0, 4_000_000_000, 6, 16384, 3))
    'The cluster was set up in 4.00 s: 6 new nodes, 16384 slots were assigned, 3 replicas were attached'
    """
    parts = [plural(set_up.nodes, "new node")]
    for count, word, verb in ((set_up.slots, "slot", "assigned"), (set_up.replicas, "replica", "attached")):
        parts += [f"{plural(count, word)} {'was' if count == 1 else 'were'} {verb}"] if count else []
    return f"The cluster was set up in {seconds(milliseconds(set_up.from_ns, set_up.to_ns))}: {', '.join(parts)}"


def _membership(incident: Incident, names: Names) -> str:
    nodes = name_of(incident.subject, names) if incident.subject else plural(len(incident.nodes), "node")
    if incident.variant == "joined":
        return f"{nodes} joined the cluster"
    if incident.variant == "forgotten":
        return f"{nodes} was forgotten by {plural(len(incident.nodes), 'node')}"
    if incident.variant == "replaced":
        return f"{name_of(incident.winner, names)} replaced {name_of(incident.subject, names)}"
    if incident.variant == "reset":
        if not incident.winner:
            return f"{nodes} was reset: it forgot all other nodes"
        return (
            f"{nodes} has a new id since a reset or a start without its nodes.conf: {name_of(incident.winner, names)}"
        )
    moves = [step for step in incident.steps if step.kind in (EventKind.REPLICA_MOVED, EventKind.REPLICA_ATTACHED)]
    if len(moves) == 1 and moves[0].actors == 1:
        step = moves[0]
        verb = "moved to" if step.kind == EventKind.REPLICA_MOVED else "became a replica of"
        return f"{name_of(step.actor, names)} {verb} {name_of(step.subject, names)}"
    return f"{nodes} became replicas of other masters"


def _assigned(incident: Incident, names: Names) -> str:
    slots = plural(incident.slot_count, "slot")
    nodes = name_of(incident.subject, names) if incident.subject else plural(len(incident.nodes), "node")
    if incident.variant == "given up":
        return f"{nodes} gave up {slots} that nobody else took"
    return f"{nodes} took {slots} that nobody owned"


def _collision(incident: Incident, names: Names) -> str:
    return f"Config epochs collided: {plural(len(incident.nodes), 'master')} took a new one, up to {incident.epoch}"


def _partition(incident: Incident, names: Names) -> str:
    nodes = _listed([name_of(node, names) for node in incident.nodes])
    if incident.variant == "cut off":
        return f"{nodes} ran, but most others did not reach {'it' if len(incident.nodes) == 1 else 'them'}"
    if incident.variant == "one link":
        return f"{nodes} did not reach each other; no quorum marked either of them FAIL"
    back_ns = max((step.until_ns or step.ts_ns for step in incident.steps if step.kind == EventKind.BACK), default=None)
    after = seconds(milliseconds(incident.started_ns, back_ns))
    text = f"{nodes} fell silent together and answered again after {after}"
    idle = {step.actor for step in incident.steps if step.kind == EventKind.PROCESS_IDLE}
    still = ". Cause: the processes hung; their machines accepted connections"
    return text + (still if idle >= set(incident.nodes) else "")


def _failure(incident: Incident, names: Names) -> str:
    nodes = subject = name_of(incident.subject, names)
    partners = dict.fromkeys(
        step.actor for step in incident.steps if step.kind == EventKind.LAST_SIGN and step.actor != incident.subject
    )
    if partners:
        nodes += f" and {_listed([name_of(node, names) for node in partners])}"
    were, them = ("were", "them") if partners else ("was", "it")
    if incident.variant == "not agreed":
        count = plural(len(incident.nodes), "node")
        text = f"{nodes} {were} unreachable: {count} marked {them} PFAIL, no quorum marked {them} FAIL"
    else:
        text = f"{nodes} {were} marked FAIL"
        if incident.silence_to_fail_ms is not None:
            owner = f"the last sign of life of {subject}" if partners else "its last sign of life"
            text += f" {seconds(incident.silence_to_fail_ms)} after {owner}"
    signs = [
        step.ts_ns
        for step in incident.steps
        if step.kind in (EventKind.LAST_SIGN, EventKind.BACK) and step.actor == incident.subject
    ]
    parts = [text]
    if len(signs) > 1:
        nodes = subject if partners else "It"
        parts.append(f"{nodes} answered again after {seconds(milliseconds(signs[0], signs[-1]))}")
    of_master = next((step for step in incident.steps if step.kind == EventKind.REPLICA_DOWN), None)
    if of_master is not None:
        parts.append(f"It is a replica of {name_of(of_master.subject, names)}: no slot was affected")
    owner = f"the process of {subject}" if partners else "its process"
    return SENTENCE.join([*parts, *_causes(incident, owner), *_consequences(incident, names)])


def _causes(incident: Incident, process: str) -> list[str]:
    """Return the state of the incident's *process* from connections."""
    kinds = [step.kind for step in incident.steps if step.actor == incident.subject]
    if EventKind.PROCESS_ENDED in kinds:
        return [f"Cause: {process} ended"]
    if EventKind.CUT_OFF in kinds:
        return [f"Cause: {process} ran, but the other nodes did not reach it"]
    return [f"Cause: {process} hung; its machine accepted connections"] if EventKind.PROCESS_IDLE in kinds else []


def _consequences(incident: Incident, names: Names) -> list[str]:
    """Return the effects of a failure without failover, and its obstacles."""
    clauses = _unserved(incident, names)
    gone = [step for step in incident.steps if step.kind == EventKind.VOTER_GONE]
    if gone:
        count, missing = sum(step.actors for step in gone), [name_of(step.actor, names) for step in gone]
        clauses.append(
            f"{plural(count, 'voting master')} failed ({_listed(missing)}): {gone[0].amount} left, {gone[0].detail}"
        )
    if any(step.kind == EventKind.NO_REPLICA for step in incident.steps):
        clauses.append("No failover: it had no replica")
    barred = [
        f"{name_of(step.actor, names)}: {step.detail}" for step in incident.steps if step.kind == EventKind.BARRED
    ]
    if barred:
        clauses.append(f"No failover by {'its only replica ' if len(barred) == 1 else ''}{', '.join(barred)}")
    return clauses


def _unserved(incident: Incident, names: Names) -> list[str]:
    """Return the unserved slots and the duration, equal ones once."""

    def unknown(node: str) -> str:
        return "Its slots" if incident.subject else f"The slots of {name_of(node, names)}"

    lacks = (
        f"{unknown(step.actor) if step.amount is None else _slots(step)} {'was' if step.amount == 1 else 'were'}"
        f" {_LACKS[step.kind]} {_length(step)}"
        for step in incident.steps
        if step.kind in _LACKS
    )
    return list(dict.fromkeys(lacks))


_LACKS: Final[dict[str, str]] = {
    EventKind.UNSERVED: "not served",
    EventKind.UNREACHED: "unreachable",
    EventKind.REFUSED: "refused (CLUSTERDOWN)",
    EventKind.CLUSTER_UNSERVED: "not served by any shard",
}
STILL: Final[dict[str, str]] = {EventKind.SLOT_OPEN: "until the evidence ends"}
RANGE_MS: Final = 150
"""Durations with a smaller uncertainty are shown as one figure."""


def _slots(step: Step) -> str:
    if step.amount is None:
        return "slots"
    ranges = f" ({step.detail})" if step.detail and len(step.detail) <= RANGES_MAX else ""
    return f"{plural(step.amount, 'slot')}{ranges}"


def _length(step: Step) -> str:
    """Return a step's duration, as a range if its ends are."""
    if step.until_ns is None:
        return STILL.get(step.kind, "and still not when the evidence ends")
    longest = (step.until_ns - (step.min_ns or step.ts_ns)) // 1_000_000
    shortest = max(0, (step.until_min_ns or step.until_ns) - step.ts_ns) // 1_000_000
    if longest - shortest <= RANGE_MS:
        return f"for {seconds(longest)}"
    return f"for {seconds(shortest)} to {seconds(longest)}" if shortest else f"for up to {seconds(longest)}"


def _listed(items: list[str]) -> str:
    """Return ``a, b and c``, shortened."""
    if len(items) > NAMED_MAX:
        return f"{', '.join(items[:NAMED_MAX])} and {len(items) - NAMED_MAX} more"
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def _failover(incident: Incident, names: Names) -> str:
    winner, old = (
        name_of(incident.winner, names),
        name_of(incident.subject, names) if incident.subject else "an unknown master",
    )
    head, tail = {
        "unknown": ("Failover", "cause unknown: the logs of both nodes would show it"),
        "automatic": ("Failover", ""),
        "manual": ("Manual failover", ""),
        "forced": ("Manual failover (FORCE)", "writes to the old master were not stopped"),
        "takeover": ("Takeover", "" if incident.rests_on_gap else "CLUSTER FAILOVER TAKEOVER, without votes"),
    }[incident.variant]
    text = f"{head}: {winner} replaced {old}, epoch {incident.epoch or 'unknown'}{f' ({tail})' if tail else ''}"
    causes = _causes(incident, "the process of the old master")
    return SENTENCE.join([text, *_when(incident), *causes, *_unserved(incident, names), loss_text(incident.loss)])


RANGE_NS: Final = 100_000_000
"""Promotion times with a smaller uncertainty are shown without bounds."""


def _when(incident: Incident) -> list[str]:
    """Return the bounds of the promotion if uncertain."""
    low_ns, high_ns = incident.promoted_min_ns, incident.promoted_max_ns
    if low_ns is None or high_ns is None or Source.CAPTURE in incident.sources:
        return []
    first, last = (write_instant(ts_ns)[11:23] for ts_ns in (low_ns, high_ns))
    parts = [f"Promoted between {first}Z and {last}Z"] if high_ns - low_ns >= RANGE_NS else []
    if incident.skew_ns >= RANGE_NS:
        sources = " and ".join(
            {Source.LOG: "logs", Source.POLL: "polls"}.get(source, source) for source in incident.sources
        )
        parts.append(f"Its times in {sources} are at least {seconds(incident.skew_ns // 1_000_000)} apart")
    return parts


def loss_text(loss: Loss) -> str:
    """Return the loss as far as known.

    >>> loss_text(Loss(0, 0)), loss_text(Loss())
    ('No write was lost', 'Lost writes: unknown')
    >>> loss_text(Loss(3000, 2300))
    'At least 3000 bytes of writes were lost; the old master could take more for 2.30 s after its last message'
    """
    if loss.seen_bytes is None:
        return "Lost writes: unknown"
    if loss.unheard_ms == 0:
        return f"{plural(loss.seen_bytes, 'byte')} of writes were lost" if loss.seen_bytes else "No write was lost"
    if not loss.seen_bytes:
        return "Lost writes: unknown; replication offsets matched at the last message of the old master"
    after = "an unknown time" if loss.unheard_ms is None else seconds(loss.unheard_ms)
    lost = f"At least {plural(loss.seen_bytes, 'byte')} of writes were lost"
    return f"{lost}; the old master could take more for {after} after its last message"


def _resharding(incident: Incident, names: Names) -> str:
    slots = plural(incident.slot_count, "slot")
    opened = [step for step in incident.steps if step.kind == EventKind.SLOT_OPEN]
    if incident.variant == "slot open":
        which = f"{slots} ({incident.slots})" if len(incident.slots) <= RANGES_MAX else slots
        path = f"from {name_of(incident.subject, names)} to {name_of(incident.winner, names)}"
        return f"{which} stayed open {_length(opened[0])} while moving {path}"
    if incident.subject:
        text = f"{slots} moved from {name_of(incident.subject, names)} to {name_of(incident.winner, names)}"
    else:
        text = f"{slots} moved between {plural(len(incident.nodes), 'master')}"
    failed = [name_of(step.actor, names) for step in incident.steps if step.kind == EventKind.LAST_SIGN]
    text += f" until {failed[0]} failed" if failed else ""
    gone = [name_of(step.actor, names) for step in incident.steps if step.kind == EventKind.EMPTIED]
    text += f". {', '.join(gone)} had no slots left and became a replica" if gone else ""
    if opened:
        which = "Slot" if len(opened) == 1 else "Slots"
        text += f". {which} {_listed([step.detail for step in opened])} stayed open {_length(opened[0])}"
    return text


def _outage(incident: Incident, names: Names) -> str:
    whole = [step for step in incident.steps if step.kind == EventKind.CLUSTER_UNSERVED]
    if whole:
        head = f"The whole cluster was down {' and '.join(_length(step) for step in whole)}"
    else:
        head = f"{plural(len(incident.nodes), 'shard')} {'was' if len(incident.nodes) == 1 else 'were'} not served"
    parts = [
        f"{name_of(step.actor, names)}: {_slots(step)} {_LACKS[step.kind]} {_length(step)}"
        for step in incident.steps
        if step.kind in _LACKS and step.kind != EventKind.CLUSTER_UNSERVED
    ]
    return SENTENCE.join([head, *parts[:NAMED_MAX]])


def _restart(incident: Incident, names: Names) -> str:
    if len(incident.nodes) > 1:
        how = "one after another" if incident.variant == "rolling" else "some at the same time"
        text = f"{plural(len(incident.nodes), 'node')} were restarted, {how}"
    else:
        text = f"{name_of(incident.subject, names)} was restarted ({incident.variant})"
    return SENTENCE.join([text, *_unserved(incident, names)])


def _resync(incident: Incident, names: Names) -> str:
    node, master = (
        name_of(incident.subject, names),
        name_of(incident.winner, names) if incident.winner else "its master",
    )
    last = incident.steps[-1].kind
    failed = sum(step.amount or 0 for step in incident.steps if step.kind == EventKind.RESYNC_ASKED)
    if last == EventKind.RESYNC_ASKED:
        times = f" {failed} times; none ended" if failed > 1 else ", which did not end"
        return f"{node} started a full copy of the data of {master}{times}"
    after = f" after {plural(failed, 'failed attempt')}" if failed else ""
    if last == EventKind.FULL_RESYNC:
        return f"{node} took a full copy of the data of {master}{after}"
    return f"{node} caught up with {master} from its backlog{after} to take a full copy"


def _data_loss(incident: Incident, names: Names) -> str:
    master, slots = (
        name_of(incident.subject, names),
        f" ({plural(incident.slot_count, 'slot')})" if incident.slot_count else "",
    )
    text = f"All data of a shard was lost{slots}: master {master} came back empty"
    if not incident.nodes:
        return text
    wiped = _listed([name_of(node, names) for node in incident.nodes])
    replicas = "replica" if len(incident.nodes) == 1 else "replicas"
    return f"{text} and its {replicas} {wiped} copied the empty data set"


def _flapping(incident: Incident, names: Names) -> str:
    return f"{name_of(incident.subject, names)} was marked PFAIL {plural(len(incident.steps), 'time')} ({incident.variant})"


_SUMMARIES: Final[dict[str, Callable[[Incident, Names], str]]] = {
    IncidentKind.MEMBERSHIP: _membership,
    IncidentKind.SLOTS_ASSIGNED: _assigned,
    IncidentKind.EPOCH_COLLISION: _collision,
    IncidentKind.PARTITION: _partition,
    IncidentKind.FAILURE: _failure,
    IncidentKind.FAILOVER: _failover,
    IncidentKind.RESHARDING: _resharding,
    IncidentKind.FLAPPING: _flapping,
    IncidentKind.OUTAGE: _outage,
    IncidentKind.RESTART: _restart,
    IncidentKind.RESYNC: _resync,
    IncidentKind.DATA_LOSS: _data_loss,
}

_STEPS: Final[dict[str, str]] = {
    EventKind.LAST_SIGN: "last message of {actor}",
    EventKind.PFAIL: "{actor} marks {subject} PFAIL{cause}",
    EventKind.REPORT: "{actor} reports {subject} as failing, to {nodes}",
    EventKind.PROCESS_ENDED: "the process of {actor} ended{how}",
    EventKind.PROCESS_IDLE: "the process of {actor} hangs: it accepts connections and answers nothing",
    EventKind.CUT_OFF: "the process of {actor} runs, out of reach of the others: it answers a poll or logs that it misses nodes",
    EventKind.PROCESS_STARTED: "the process of {actor} was started again{loaded}",
    EventKind.RESYNC_ASKED: "{actor} starts a full copy of the data of {subject}; attempts that do not end: {amount}",
    EventKind.FULL_RESYNC: "{actor} took a full copy of the data of {subject}{dropped}{copied}",
    EventKind.MASTER_LINK_UP: "{actor} caught up with {subject} from its backlog",
    EventKind.REFUSED: "{slots} of {actor} are refused (CLUSTERDOWN) {when}{why}",
    EventKind.UNSERVED: "{slots} of {actor} are not served {when}{why}",
    EventKind.UNREACHED: "{slots} of {actor} are unreachable for the other nodes {when}{why}",
    EventKind.CLUSTER_UNSERVED: "no slot of the cluster is served {when}",
    EventKind.VOTER_GONE: "voting master {actor} has failed; {amount} left, {detail}",
    EventKind.NO_REPLICA: "no failover of {actor}: it has no replica",
    EventKind.BARRED: "{actor}, a replica of {subject}, does not take over: {detail}",
    EventKind.FAIL_DECIDED: "{actor} marks {subject} FAIL{reports}",
    EventKind.FAIL_LEARNED: "{actor} receives FAIL for {subject}",
    EventKind.REPLICA_DOWN: "{actor} is a replica of {subject}: no slot is affected",
    EventKind.BACK: "{actor} answers again",
    EventKind.TRUSTED: "{actor} clears PFAIL or FAIL of {subject}",
    EventKind.FORGOTTEN: "{actor} forgets {subject}",
    EventKind.KNOWN_AGAIN: "{actor} knows {subject} again",
    EventKind.MET: "{actor} joined the cluster through {subject}; {nodes} knew it by then",
    EventKind.NEW_ID: "{actor} is reset and has the new id {subject}",
    EventKind.REPLICA_ATTACHED: "{actor} becomes a replica of {subject}",
    EventKind.REPLICA_MOVED: "{actor} moves to {subject}",
    EventKind.FOLLOWS: "{actor} follows to {subject}",
    EventKind.EMPTIED: "{actor} has no slots left and becomes a replica of {subject}",
    EventKind.SLOT_OPEN: "slot {detail} stays open {when}: {actor} imports it from {subject} (end it with CLUSTER SETSLOT {detail} STABLE)",
    EventKind.MOVED: "{slots} move from {subject} to {actor}: {detail}",
    EventKind.TAKEN: "{actor} takes {slots} without owner: {detail}",
    EventKind.GIVEN_UP: "{actor} gives up {slots}: {detail}",
    EventKind.MANUAL_FAILOVER_REQUESTED: "{actor} asks {subject} for a manual failover",
    EventKind.MANUAL_FAILOVER_MFSTART: "{actor} receives the request for a manual failover from {subject}",
    EventKind.PAUSED: "{actor} stops its writes at offset {amount}",
    EventKind.MANUAL_FAILOVER_PAUSED: "{actor} receives the offset at which its master stopped writes: {amount}",
    EventKind.ELECTION_SCHEDULED: "{actor} schedules an election{why}",
    EventKind.ELECTION_STALLED: "{actor} waits with its election{why}",
    EventKind.ELECTION_RESET: "{actor} cancels its election{why}",
    EventKind.MANUAL_FAILOVER_TIMED_OUT: "{actor} cancels the manual failover{why}",
    EventKind.VOTE_REFUSED: "{actor} refuses its vote to {subject}{why}",
    EventKind.ELECTION_STARTED: "{actor} asks for votes in epoch {epoch}{forced}",
    EventKind.VOTE: "{actor} votes for {subject} in epoch {epoch}",
    EventKind.NO_VOTE: "{actor} does not vote for {subject} in epoch {epoch}{why}",
    EventKind.WON: "{actor} wins the election of epoch {epoch}{offset}",
    EventKind.TOOK_OVER: "{actor} promotes itself with epoch {epoch}{offset}",
    EventKind.TOOK_PLACE: "{actor} is the master with epoch {epoch}{offset}",
    EventKind.ADOPTED: "{actor} accepts {subject} as master",
    EventKind.DEMOTED: "{actor} becomes a replica of {subject}",
    EventKind.STATE_FAIL: "{nodes} reported cluster_state:fail, {actor} first",
    EventKind.STATE_OK: "{nodes} reported cluster_state:ok, {actor} first",
    EventKind.EPOCH_RAISED: "{actor} raises its config epoch from {detail} to {epoch}",
    EventKind.QUORUM_SIDE: "{actor} and those it reached included {amount} {detail}",
    EventKind.DOUBTED: "{actor} and others, {amount} in all, mark {subject} PFAIL ({detail})",
}


def step_text(step: Step, names: Names) -> str:
    """Describe one step; unknown kinds are shown as is."""
    if step.rests_on_gap:
        kind = EventKind.TOOK_PLACE if step.kind == EventKind.TOOK_OVER else step.kind
        text = step_text(step._replace(rests_on_gap=False, kind=kind), names)
        return f"{text} (uncertain: bytes are missing from the capture then)"
    more_nodes = f" and {plural(step.actors - 1, 'more node')}" if step.actors > 1 else ""
    if more_nodes and step.kind not in _LACKS:
        return f"{step_text(step._replace(actors=1), names)}; the same for {more_nodes.removeprefix(' and ')}"
    pattern = _STEPS.get(step.kind)
    if pattern is None:
        return f"{name_of(step.actor, names)} {step.kind} {step.subject and name_of(step.subject, names)}".rstrip()
    cause = CAUSES.get(step.detail)
    amount = "an unknown number of" if step.amount is None else str(step.amount)
    return pattern.format(
        actor=name_of(step.actor, names) + more_nodes,
        subject=name_of(step.subject, names) if step.subject else "nobody",
        epoch="unknown" if step.epoch is None else step.epoch,
        amount=amount,
        nodes=plural(step.amount, "node"),
        reports="" if step.amount is None else f", with {plural(step.amount, 'failure report')}",
        offset="" if step.amount is None else f", at offset {step.amount}",
        slots="slots" if step.amount is None else plural(step.amount, "slot"),
        detail=_shortened(step.detail.removeprefix(WAITS)),
        why=_why(step),
        when=_from_to(step),
        cause=f": {cause}" if cause else "",
        forced=", with FORCEACK" if step.detail == "FORCEACK" else "",
        how=f" ({step.detail})" if step.detail else "",
        loaded="" if step.amount is None else f" and loaded {plural(step.amount, 'key')}",
        dropped=" after dropping its own" if step.detail == "flushed" else "",
        copied="" if step.amount is None else f": {plural(step.amount, 'key')}",
    )


def _shortened(detail: str) -> str:
    return detail if len(detail) <= 200 else detail[:199] + "…"


def _why(step: Step) -> str:
    return f": {_shortened(step.detail.removeprefix(WAITS))}" if step.detail else ""


def _from_to(step: Step) -> str:
    """Return start and end of a step, each as a range if uncertain."""
    until = "until the evidence ends" if step.until_ns is None else f"to {_moment(step.until_min_ns, step.until_ns)}"
    return f"from {_moment(step.min_ns, step.ts_ns)} {until}"


def _moment(min_ns: int | None, max_ns: int) -> str:
    """Return a time of day, or its range.

    >>> _moment(None, 1_700_000_000_000_000_000), _moment(1_700_000_000_000_000_000, 1_700_000_001_500_000_000)
    ('22:13:20.000Z', '22:13:20.000Z..21.500Z')
    """
    first, last = (write_instant(ts_ns)[11:23] for ts_ns in (max_ns if min_ns is None else min_ns, max_ns))
    if max_ns - (max_ns if min_ns is None else min_ns) < RANGE_NS:
        return f"{last}Z"
    return f"{first}Z..{last[6:] if first[:6] == last[:6] else last}Z"
