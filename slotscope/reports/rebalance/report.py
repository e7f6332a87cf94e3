"""The report on a rebalancing plan as values: filled from the tables (`tables`), written as sentences (`words`) and sections (`document`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster_core.rebalance.plan import slot_ranges
from cluster_core.rebalance.table_rows import CurveRow
from schemas.caveats import Caveat
from slotscope.reports.keyspace.figures import short_names


@dataclass(frozen=True, slots=True)
class WorstLoad:
    """One resource: the heaviest master over its fair share before and after, the *limit*, the proven *floor*.

    If it is not *balanced*, its limit is the one that it would have.
    """

    resource: str
    tolerance: float
    before: float
    after: float
    limit: float
    floor: float
    balanced: bool = True

    @property
    def relaxed(self) -> bool:
        """Whether the limit is above the tolerance, because slots cannot be divided."""
        return self.limit > (1 + self.tolerance) * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class NodeShare:
    """Load of one master in one resource; *fair* is 0 for a master that gets nothing, *capacity* None if unknown."""

    before: float
    after: float
    fair: float
    limit: float
    capacity: float | None = None


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One master, *shares* by resource; *role* is ``stays``, ``added``, ``drained`` or ``excluded``."""

    node_id: str
    address: str
    zone: str
    role: str
    slots_before: int
    slots_after: int
    ranges_before: int
    ranges_after: int
    shares: Mapping[str, NodeShare]

    def ratio(self, resource: str, *, after: bool) -> float:
        """Return its load over its fair share; 0 without a share."""
        share = self.shares.get(resource)
        if share is None or not share.fair:
            return 0.0
        return (share.after if after else share.before) / share.fair

    @property
    def worst(self) -> float:
        """Its heaviest resource over its fair share; infinite if it is to be drained."""
        if self.role == "drained" and self.slots_before:
            return float("inf")
        return max((self.ratio(resource, after=False) for resource in self.shares), default=0.0)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Slots from *source* to *target* in one batch; bytes and keys are None if unknown."""

    batch: int
    source: str
    target: str
    slots: tuple[int, ...]
    moved_bytes: int | None
    keys: int | None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The slots as (first, last) pairs."""
        return slot_ranges(self.slots)


@dataclass(frozen=True, slots=True)
class MovingPart:
    """A hash tag or a key that moves with its slot."""

    name: bytes
    is_tag: bool
    slot: int
    source: str
    target: str
    keys: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class HeavyPart:
    """A hash tag or a key of a heavy slot; *share* is its part of the slot, *pieces* the number it must be split into."""

    hash_tag: bytes | None
    key: bytes | None
    keys: int | None
    size_bytes: int | None
    share: float | None
    pieces: int | None = None


@dataclass(frozen=True, slots=True)
class HeavyLine:
    """A slot that alone is over a limit: *ratio* of a fair share; its keys need *pieces* slots to fit."""

    slot: int
    node_id: str
    resource: str
    ratio: float
    pieces: int
    parts: Sequence[HeavyPart] = ()


@dataclass(frozen=True, slots=True)
class EarlierPlan:
    """A plan of the same tables; *audited* is the measured heaviest master over its fair share by resource, *kept* None before an audit.

    *executed* is None if no slot moved.
    """

    plan_id: str
    created_at_ms: int
    verdict: str
    moved: int
    cost: str
    promised: Mapping[str, float]
    audited: Mapping[str, float] = field(default_factory=dict)
    kept: bool | None = None
    executed: str | None = None


@dataclass(frozen=True, slots=True)
class RebalanceReport:
    """One plan.  *moved* and *bound* count the resource *cost*."""

    plan_id: str
    snapshot_id: str
    created_at_ms: int
    verdict: str
    cost: str
    moved: int
    bound: int
    gap: float | None
    moved_slots: int
    ranges_before: int
    ranges_after: int
    batches: int
    estimated_s: float
    state_hash: str
    root: str = "DIR"
    asked: Sequence[str] = ()
    """The node and the access options of `rebalance`; empty for other plans."""
    gain_min: float = 0.0
    bad_records: int = 0
    warnings: Sequence[Caveat] = ()
    is_partial: bool = False
    reaches: Sequence[WorstLoad] = ()
    watched: Sequence[WorstLoad] = ()
    nodes: Sequence[PlanNode] = ()
    transfers: Sequence[Transfer] = ()
    ranges_bound: int | None = None
    bytes_budget: float | None = None
    curve: Sequence[CurveRow] = ()
    heavy: Sequence[HeavyLine] = ()
    capacity_due_s: Mapping[str, float] | None = None
    balance_due_s: Mapping[str, float] | None = None
    growth_s: float | None = None
    growth_since: str | None = None
    growth_of: Sequence[str] | None = None
    history: Sequence[EarlierPlan] = ()
    parts: Sequence[MovingPart] | None = None
    """The heaviest hash tags and keys that move; None where no snapshot lists keys."""
    by_hand_s: float | None = None
    """The estimated time key by key."""
    memory_error: float | None = None
    """Half of the 95 % interval of a master's memory, as a share; 0 if all keys were measured, None for modelled memory."""
    key_by_key: bool | None = None
    """Whether the servers move slots key by key; None if unknown."""

    @property
    def binding(self) -> HeavyLine | None:
        """The heaviest indivisible slot above the tolerance, in a resource with a raised limit."""
        raised = {reach.resource for reach in self.reaches if reach.relaxed}
        lines = [line for line in self.heavy if line.resource in raised]
        return max(lines, key=lambda line: line.ratio, default=None)

    @property
    def acts(self) -> bool:
        """Whether slots move."""
        return self.moved_slots > 0

    @property
    def resources(self) -> list[str]:
        """The balanced resources, in the order of the plan."""
        return [reach.resource for reach in self.reaches]

    @property
    def total(self) -> float:
        """The whole cost of all masters."""
        return sum(node.shares[self.cost].before for node in self.nodes if self.cost in node.shares)

    @property
    def names(self) -> dict[str, str]:
        """A short name of each node by its id."""
        return short_names(node.node_id for node in self.nodes)
