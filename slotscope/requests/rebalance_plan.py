"""What ``rebalance-plan`` is asked; annotations are values, as in `options`, since another request inherits some of it."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from slotscope.requests.options import Common, Flag, Paths, options
from slotscope.runtime.program import LATEST

GAIN_MIN = 0.005
"""A plan that would lower the heaviest master by less than this of a fair share is not proposed."""


@dataclass(frozen=True, kw_only=True)
class GoalOptions:
    """What a plan is to reach, and how it may go about it."""

    resources: Paths = ()
    """What is balanced, all at once: serialized_bytes, memory_bytes, keys, ops, cpu_usec, network_bytes_in, network_bytes_out;
    ops_estimated, from the LFU counters of dumps where nobody counted operations. Default: memory (else bytes), keys and operations, as far as they are known, and what has a capacity.
    """
    cost: str | None = None
    """Resource of which as little as possible moves. Default: bytes or memory, as is balanced, else keys."""
    tolerance: Paths = ()
    """How far above its fair share a master may be: 0.02, 2%, or by resource: keys=0.05. Default: 0.02; for keys beside memory or bytes 0.2."""
    soft: Paths = ()
    """Resources whose limit is given up where no plan keeps all limits, the most important first; none for no resource. Default: keys beside
    memory or bytes, unless keys have a capacity or a tolerance of their own."""
    placement: str | None = None
    """TOML or JSON file with goals, weights, capacities, zones, pinned slots, nodes that drain, join or are left out."""
    weight: Annotated[Paths, Parameter(show_default=False)] = ()
    """Share of a node relative to the others: NODE=WEIGHT, by id or HOST:PORT. Default: 1, or that of --placement."""
    drain: Annotated[Paths, Parameter(show_default=False)] = ()
    """Nodes that are to end empty, by id or HOST:PORT."""
    gain_min: float | None = None
    """Propose no plan that lowers the heaviest master by less than this share of a fair share. Default: 0.005, or the error of the loads, if that is more."""
    if_needed: Flag = False
    """Exit with 0 where no slot has to move, with 10 where there is a plan to carry out."""
    headroom: float = 0.25
    """Part of the tolerance that a plan leaves free below the limits, so that the first write does not break them; 0 to 1. Where memory is
    estimated, as much as that may be off, up to half."""
    bytes_budget: str | None = None
    """Bytes above the proven minimum that may move for fewer slot ranges, as a share of that minimum: 0.05 or 5%; 0 for the fewest bytes.
    Where no plan within it was found, it counts from the fewest bytes that were found. Default: 5%."""
    data_budget: str | None = None
    """The same as a share of all data, used where more than two slot ranges a master would remain. Default: 1%, with --bytes-budget 0."""
    path: Literal["auto", "setslot", "migrateslots", "migration-import"] = "auto"
    """Cost model of moves: native migration (each range costs) or setslot (each slot costs)."""
    defragment: Flag = False
    """Repair a shredded cluster: the fewest slot ranges at no worse balance, whatever moves."""
    seed: int | None = None
    """Which way the search takes; the same seed gives the same plan."""
    time_limit: float | None = None
    """Seconds after which the search ends with its best so far; another run may then find another plan. Default: none, steps end it."""
    compare_tolerances: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, show_default=False)] = None
    """Other tolerances to compare with; no value, or the word none: leave that out. Default: 0.01 0.02 0.05 0.1 0.2."""
    jobs: int = 1
    """Moves at a time from one source, and to one target."""
    zone_jobs: int = 0
    """Moves at a time into one zone. Default: no limit."""
    job_slots: int = 0
    """Slots of one move. Default: no limit."""
    bytes_per_s: float | None = None
    """Speed of one move, for the estimated time. Default: 90e6."""
    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/plan-ID.html."""

    @property
    def least_gain(self) -> float:
        """The share of a fair share below which a master is left alone."""
        return GAIN_MIN if self.gain_min is None else self.gain_min


@options
class Request(Common, GoalOptions):
    """What to plan with and for."""

    snapshot: Paths = ()
    """Snapshots of key-slots whose weights count, oldest first; a name, or latest. Default: latest, unless --counts is given, or --slot-stats where there is none."""
    cluster: str | None = None
    """Cluster whose latest snapshot is meant, where there are several."""
    topology: str | None = None
    """CLUSTER NODES, nodes.conf, CLUSTER SHARDS or CLUSTER SLOTS output. Default: that of the newest poll, else of the newest snapshot."""
    slot_stats: Paths = ()
    """Polls of CLUSTER SLOT-STATS: JSON lines that collect --slot-stats wrote, or single replies."""
    monitor: Paths = ()
    """Logs of MONITOR."""
    counts: Paths = ()
    """Lines SLOT COUNT, as COUNTKEYSINSLOT answered."""
    combine: Literal["last", "mean", "p95", "ewma"] = "last"
    """How several windows, or snapshots, become one load."""
    smoothing: float = 0.3
    """Weight of a new window for ewma."""
    window: float = 60.0
    """Seconds of one window of MONITOR."""
    allow_partial: Flag = False
    """Plan although some of the snapshot's inputs could not be read; the plan, and all that is done with it, says so. Ends with 3."""

    @property
    def needs_spark(self) -> bool:
        """Whether there are files to read that may be large."""
        return bool(self.slot_stats or self.monitor or self.counts)

    @property
    def snapshots(self) -> tuple[str, ...]:
        """The snapshots whose weights count; none where only counts are given."""
        return self.snapshot or (() if self.counts else (LATEST,))

    @property
    def can_do_without_snapshot(self) -> bool:
        """Whether polls say enough where there is no snapshot."""
        return not self.snapshot and bool(self.slot_stats)
