"""The report on a rebalancing plan as values: filled from the tables (`tables`), written as sentences (`words`) and sections (`document`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster_core.rebalance.plan import slot_ranges
from cluster_core.rebalance.table_rows import CurveRow, ToleranceRow
from schemas.caveats import Caveat
from slotscope.reports.keyspace.figures import short_names


@dataclass(frozen=True, slots=True)
class WorstLoad:
    """One resource: the heaviest master over its fair share before and after, the *limit*, the proven *floor*.

    One that is not *balanced* is known and only told; its limit is what it would be allowed.
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
        """Whether the limit is higher than the tolerance asks for, because slots cannot be divided."""
        return self.limit > (1 + self.tolerance) * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class NodeShare:
    """Load of one master in one resource; *fair* is 0 for a master that is to hold nothing, *capacity* None if not given."""

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
        """Its load over its fair share; 0 where it has none."""
        share = self.shares.get(resource)
        if share is None or not share.fair:
            return 0.0
        return (share.after if after else share.before) / share.fair

    @property
    def worst(self) -> float:
        """How far the plan is needed for it: its heaviest resource over its fair share, or what it has to give away."""
        if self.role == "drained" and self.slots_before:
            return float("inf")
        return max((self.ratio(resource, after=False) for resource in self.shares), default=0.0)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Slots that go from *source* to *target* in one batch; bytes and keys are None where no source knows them."""

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
    """A hash tag or a key that makes a slot heavy; *share* is of the slot, *pieces* into how many it must be split."""

    hash_tag: bytes | None
    key: bytes | None
    keys: int | None
    size_bytes: int | None
    share: float | None
    pieces: int | None = None


@dataclass(frozen=True, slots=True)
class HeavyLine:
    """A slot that alone is over a limit: *ratio* of a fair share; its keys must lie in *pieces* slots to fit."""

    slot: int
    node_id: str
    resource: str
    ratio: float
    pieces: int
    parts: Sequence[HeavyPart] = ()


@dataclass(frozen=True, slots=True)
class ProofLine:
    """A master or zone whose load has a price: by resource, in cost for one unit of load, and by how much it is over its limit."""

    name: str
    over: Mapping[str, float]
    prices: Mapping[str, float]
    is_zone: bool = False
    is_drained: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """The bound as a sum: all slots pay at least *paid*, all limits cost *limits*."""

    paid: float
    limits: float
    lines: Sequence[ProofLine] = ()


@dataclass(frozen=True, slots=True)
class EarlierPlan:
    """A plan of the same tables; *audited* is the measured max over fair share by resource, *kept* None before an audit.

    *executed* is None where nothing says that a step of it was ever taken.
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
    """The node that `rebalance` was given and how to connect, as words of its command line; nothing of other plans."""
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
    tolerances: Sequence[ToleranceRow] = ()
    heavy: Sequence[HeavyLine] = ()
    proof: Proof | None = None
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
    """Share by which the memory of a master may be off in 95 of 100 cases; 0 where all keys were measured, None of modelled memory."""
    key_by_key: bool | None = None
    """Whether servers of this cluster move slots key by key; None where nobody asked them."""

    @property
    def binding(self) -> HeavyLine | None:
        """The heaviest slot that cannot be divided and is above what the tolerance allows, in a resource whose limit was raised for it."""
        raised = {reach.resource for reach in self.reaches if reach.relaxed}
        lines = [line for line in self.heavy if line.resource in raised]
        return max(lines, key=lambda line: line.ratio, default=None)

    @property
    def acts(self) -> bool:
        """Whether anything is to be moved."""
        return self.moved_slots > 0

    @property
    def resources(self) -> list[str]:
        """Names of what is balanced, in the order of the plan."""
        return [reach.resource for reach in self.reaches]

    @property
    def total(self) -> float:
        """All of the cost that the masters hold."""
        return sum(node.shares[self.cost].before for node in self.nodes if self.cost in node.shares)

    @property
    def names(self) -> dict[str, str]:
        """A short name of each node by its id."""
        return short_names(node.node_id for node in self.nodes)
