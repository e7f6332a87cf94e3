"""Health of a live cluster from current CLUSTER NODES, CLUSTER INFO and INFO replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from cluster_core.incidents.checks import LAG_BYTES_MAX, PlacedNode, layout_findings
from cluster_core.incidents.incident import short
from cluster_core.kinds import FindingCode, Severity
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.node_flags import GONE, NodeFlags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Node, Topology

MEMORY_SHARE_MAX: Final = 0.9
CLIENTS_SHARE_MAX: Final = 0.9
SILENCE_S_MAX: Final = 15
"""Maximum seconds without data from a master, which pings every ten seconds (repl-ping-replica-period)."""
NAMED_MAX: Final = 3


class SymptomCode(StrEnum):
    """Code of a symptom."""

    NO_ANSWER = "no-answer"
    LOADING = "loading"
    CLUSTER_DOWN = "cluster-down"
    UNCOVERED_SLOTS = "uncovered-slots"
    FAIL = "fail"
    PFAIL = "pfail"
    EQUAL_EPOCHS = "equal-epochs"
    OWNERS_DIFFER = "owners-differ"
    MEMBERS_DIFFER = "members-differ"
    OPEN_SLOTS = "open-slots"
    NO_REPLICATION_LINK = "no-replication-link"
    REPLICATION_LAG = "replication-lag"
    MEMORY_FULL = "memory-full"
    NO_MEMORY_LIMIT = "no-memory-limit"
    SAVE_FAILED = "save-failed"
    CLIENTS_FULL = "clients-full"
    NO_REPLICA = "no-replica"
    LAYOUT = "layout"


class Symptom(NamedTuple):
    """A problem, risk or notable fact."""

    severity: Severity
    code: SymptomCode
    text: str


@dataclass(frozen=True, slots=True)
class Checkup:
    """Replies of one node; *lost* is the reason for missing ones. *topology* is None without cluster mode."""

    address: str
    topology: Topology | None = None
    cluster: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    lost: str = ""

    def number(self, name: str) -> int:
        """Return a number of INFO, 0 if missing."""
        value = self.info.get(name, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else 0

    @property
    def me(self) -> Node | None:
        """Return its own line of CLUSTER NODES."""
        return self.topology.by_id.get(self.topology.my_id or "") if self.topology is not None else None

    @property
    def is_loading(self) -> bool:
        """Return whether it is loading data."""
        return self.info.get("loading", "0") != "0"

    @property
    def is_replica(self) -> bool:
        """Return whether it is a replica."""
        return self.info.get("role") == "slave"


def find_symptoms(checkups: Sequence[Checkup]) -> list[Symptom]:
    """Return all symptoms, most severe first."""
    views = [checkup.topology for checkup in checkups if checkup.topology is not None]
    symptoms = [
        *_answers(checkups),
        *_states(checkups),
        *_failures(views),
        *_slots(views),
        *_members(checkups),
        *_epochs(views),
        *_replication(checkups),
        *_memory(checkups),
        *_persistence(checkups),
        *_layout(views),
    ]
    return sorted(symptoms, key=lambda symptom: list(Severity).index(symptom.severity))


def believed(views: Sequence[Topology]) -> Topology | None:
    """Return the view shared by most nodes, by slot owners; the first in a tie."""
    owners = [_owners(view) for view in views]
    shared = Counter(owners)
    return max(zip(views, owners, strict=True), key=lambda pair: shared[pair[1]], default=(None, ()))[0]


def _owners(view: Topology) -> tuple[tuple[str, SlotSet], ...]:
    return tuple(sorted(((node.id, node.slots) for node in view.nodes if node.slots), key=lambda owner: owner[0]))


def _named(names: Iterable[str]) -> str:
    """Return the first few names and the number of others."""
    every = list(names)
    more = len(every) - NAMED_MAX
    return ", ".join(every[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _answers(checkups: Sequence[Checkup]) -> Iterator[Symptom]:
    for checkup in checkups:
        if checkup.lost:
            yield Symptom(Severity.WARNING, SymptomCode.NO_ANSWER, f"{checkup.address} does not answer: {checkup.lost}")
        elif checkup.is_loading:
            text = f"{checkup.address} is loading its data and was not measured"
            yield Symptom(Severity.WARNING, SymptomCode.LOADING, text)


def _states(checkups: Sequence[Checkup]) -> Iterator[Symptom]:
    asked = [checkup for checkup in checkups if checkup.cluster]
    down = [checkup.address for checkup in asked if checkup.cluster.get("cluster_state") != "ok"]
    if down:
        text = f"cluster_state is not ok for {len(down)} of {len(asked)} nodes: {_named(down)}"
        yield Symptom(Severity.ERROR, SymptomCode.CLUSTER_DOWN, text)


def _failures(views: Sequence[Topology]) -> Iterator[Symptom]:
    for flag, severity, code in (
        (NodeFlags.FAIL, Severity.ERROR, SymptomCode.FAIL),
        (NodeFlags.PFAIL, Severity.WARNING, SymptomCode.PFAIL),
    ):
        by_node = Counter(node.id for view in views for node in view.nodes if flag in node.flags)
        for node_id, observers in sorted(by_node.items()):
            text = f"{_address(views, node_id)} is {code.upper()} for {observers} of {len(views)} nodes"
            yield Symptom(severity, code, text)


def _address(views: Sequence[Topology], node_id: str) -> str:
    node = next((view.by_id[node_id] for view in views if node_id in view.by_id), None)
    return node.address if node is not None and node.ip else short(node_id)


def _slots(views: Sequence[Topology]) -> Iterator[Symptom]:
    view = believed(views)
    if view is None:
        return
    uncovered = view.uncovered()
    if uncovered:
        text = f"{len(uncovered):,} of {SLOT_COUNT:,} slots have no owner: {str(uncovered)[:60]}"
        yield Symptom(Severity.ERROR, SymptomCode.UNCOVERED_SLOTS, text)
    opened = {
        (slot, node.address)
        for topology in views
        for node in topology.nodes
        for slot in {**node.migrating, **node.importing}
    }
    if opened:
        slots = sorted({slot for slot, _ in opened})
        text = f"slots open for migration: {_named(map(str, slots))}, on {_named(sorted({at for _, at in opened}))}"
        yield Symptom(Severity.NOTE, SymptomCode.OPEN_SLOTS, text)


def _members(checkups: Sequence[Checkup]) -> Iterator[Symptom]:
    asked = [(checkup.address, checkup.topology) for checkup in checkups if checkup.topology is not None]
    view = believed([topology for _, topology in asked])
    if view is None:
        return
    dissenting = [address for address, topology in asked if _owners(topology) != _owners(view)]
    if dissenting:
        text = f"{len(dissenting)} of {len(asked)} nodes report other slot owners than the rest: {_named(dissenting)}"
        yield Symptom(Severity.WARNING, SymptomCode.OWNERS_DIFFER, text)
    known = [
        frozenset(node.id for node in topology.nodes if not node.flags & NodeFlags.HANDSHAKE) for _, topology in asked
    ]
    usual, _ = Counter(known).most_common(1)[0]
    strange = [address for (address, _), members in zip(asked, known, strict=True) if members != usual]
    if strange:
        text = f"{len(strange)} of {len(asked)} nodes know other members than the rest: {_named(strange)}"
        yield Symptom(Severity.WARNING, SymptomCode.MEMBERS_DIFFER, text)


def _epochs(views: Sequence[Topology]) -> Iterator[Symptom]:
    view = believed(views)
    masters: dict[int, list[Node]] = {}
    for node in view.masters() if view is not None else ():
        if node.slots:
            masters.setdefault(node.config_epoch, []).append(node)
    for epoch, nodes in sorted(masters.items()):
        if len(nodes) > 1:
            text = f"masters share the config epoch {epoch}: {_named(node.address for node in nodes)}"
            yield Symptom(Severity.WARNING, SymptomCode.EQUAL_EPOCHS, text)


def _replication(checkups: Sequence[Checkup]) -> Iterator[Symptom]:
    offsets = {
        checkup.me.id: checkup.number("master_repl_offset")
        for checkup in checkups
        if checkup.me is not None and checkup.info and not checkup.is_replica
    }
    for checkup in checkups:
        if not checkup.is_replica:
            continue
        if checkup.info.get("master_link_status") != "up":
            host, port = checkup.info.get("master_host", ""), checkup.info.get("master_port", "")
            text = f"replica {checkup.address} has no link to its master {host}:{port}"
            yield Symptom(Severity.ERROR, SymptomCode.NO_REPLICATION_LINK, text)
            continue
        master_id = checkup.me.master_id if checkup.me is not None else None
        behind = offsets.get(master_id or "", 0) - checkup.number("slave_repl_offset")
        silent_s = checkup.number("master_last_io_seconds_ago")
        if behind > LAG_BYTES_MAX or silent_s > SILENCE_S_MAX:
            text = (
                f"replica {checkup.address} is {max(behind, 0):,} bytes behind its master, last heard {silent_s} s ago"
            )
            yield Symptom(Severity.WARNING, SymptomCode.REPLICATION_LAG, text)


def _memory(checkups: Sequence[Checkup]) -> Iterator[Symptom]:
    answered = [checkup for checkup in checkups if "used_memory" in checkup.info]
    for checkup in answered:
        used, limit = checkup.number("used_memory"), checkup.number("maxmemory")
        if limit and used >= MEMORY_SHARE_MAX * limit:
            policy = checkup.info.get("maxmemory_policy", "noeviction")
            effect = "refuses writes" if policy == "noeviction" else f"evicts keys ({policy})"
            text = f"{checkup.address} uses {used / limit:.0%} of its maxmemory; when full it {effect}"
            yield Symptom(Severity.ERROR if used >= limit else Severity.WARNING, SymptomCode.MEMORY_FULL, text)
        clients, clients_max = checkup.number("connected_clients"), checkup.number("maxclients")
        if clients_max and clients >= CLIENTS_SHARE_MAX * clients_max:
            text = f"{checkup.address} has {clients:,} of {clients_max:,} clients"
            yield Symptom(Severity.WARNING, SymptomCode.CLIENTS_FULL, text)
    unlimited = [checkup.address for checkup in answered if not checkup.number("maxmemory")]
    if unlimited:
        text = f"{len(unlimited)} of {len(answered)} nodes have no maxmemory: headroom unknown"
        yield Symptom(Severity.NOTE, SymptomCode.NO_MEMORY_LIMIT, text)


def _persistence(checkups: Sequence[Checkup]) -> Iterator[Symptom]:
    for checkup in checkups:
        failed = [
            message
            for name, message in (
                ("rdb_last_bgsave_status", "last BGSAVE"),
                ("aof_last_bgrewrite_status", "last rewrite of the AOF"),
                ("aof_last_write_status", "last write to the AOF"),
            )
            if checkup.info.get(name, "ok") != "ok"
            and (name.startswith("rdb") or checkup.info.get("aof_enabled") != "0")
        ]
        if failed:
            text = f"{checkup.address}: {' and '.join(failed)} failed; writes may be refused until one succeeds"
            yield Symptom(Severity.ERROR, SymptomCode.SAVE_FAILED, text)


def _layout(views: Sequence[Topology]) -> Iterator[Symptom]:
    """Yield the effect of losing a node or host."""
    view = believed(views)
    if view is None:
        return
    living = [node for node in view.nodes if not node.flags & GONE]
    voters = [node for node in living if node.is_master and node.slots]
    bare = [node for node in voters if not any(other.master_id == node.id for other in living)]
    if bare:
        text = f"{len(bare)} of {len(voters)} masters have no replica: {_named(node.address for node in bare)}"
        yield Symptom(Severity.WARNING, SymptomCode.NO_REPLICA, text)
    placed = [
        PlacedNode(node.id, node.ip, node.master_id or "", node.is_master and bool(node.slots)) for node in living
    ]
    alone = {node.id for node in bare}
    for finding in layout_findings(placed, 0):
        if not (finding.code is FindingCode.SHARD_ON_ONE_HOST and finding.node in alone):
            yield Symptom(finding.severity, SymptomCode.LAYOUT, finding.text)
