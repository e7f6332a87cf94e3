"""Options of the commands that make plans and carry them out.

Annotations are values: `RebalanceOptions` inherits options of the others.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from slotscope.options import (
    NO_OPTIONS,
    AccessOptions,
    Cluster,
    Common,
    Flag,
    Html,
    MigrationPath,
    Paths,
    PlanOptions,
    Rate,
    TableOptions,
    options,
)
from slotscope.runtime.program import LATEST

GAIN_MIN = 0.005
"""A plan that would lower the heaviest master by less than this of a fair share is not proposed."""


@dataclass(frozen=True, kw_only=True)
class GoalOptions:
    """Goals of a plan and limits of its search."""

    resources: Paths = ()
    """Resources to balance: serialized_bytes, memory_bytes, keys, ops, cpu_usec, network_bytes_in, network_bytes_out, ops_estimated (from LFU counters). Default: memory or bytes, keys, ops, as measured, and those with a capacity"""
    cost: str | None = None
    """Resource to move the least of. Default: the balanced one of bytes and memory, else keys"""
    tolerance: Paths = ()
    """Limit above the fair share of a master: 0.02, 2%, or by resource keys=0.05. Default: 0.02; keys beside memory or bytes 0.2"""
    soft: Paths = ()
    """Resources with limits that give way first, in order of importance; none: no resource. Default: keys beside memory or bytes, without own limit"""
    placement: str | None = None
    """TOML file with goals, weights, capacities, zones, pinned slots, and nodes to drain, add or leave out"""
    weight: Annotated[Paths, Parameter(show_default=False)] = ()
    """Relative share of a node as NODE=WEIGHT, by id or HOST:PORT. Default: 1 or that of --placement"""
    drain: Annotated[Paths, Parameter(show_default=False)] = ()
    """Nodes to empty, by id or HOST:PORT"""
    gain_min: float | None = None
    """Least gain of a plan, as a share of a fair share. Default: 0.005, or the error of the loads if larger"""
    if_needed: Flag = False
    """Exit code 0 without a needed plan, 10 with one"""
    headroom: float = 0.25
    """Share of the tolerance that plans leave free, 0 to 1; at least the memory error, up to half"""
    bytes_budget: str | None = None
    """Bytes above the proven minimum that may move for fewer slot ranges, as 0.05 or 5%. Default: 5%"""
    path: MigrationPath = "auto"
    defragment: Flag = False
    """Fewest slot ranges at equal balance, regardless of moved bytes"""
    html: Html = None

    @property
    def least_gain(self) -> float:
        """The share of a fair share below which a master is left alone."""
        return GAIN_MIN if self.gain_min is None else self.gain_min


@options
class PlanningOptions(Common, GoalOptions):
    """Options of `plan make`."""

    snapshot: Paths = ()
    """Snapshots of key-slots, oldest first, or latest. Default: latest"""
    cluster: Cluster = None
    manifest: str | None = None
    """TOML file with a table [NAME.plan] of options per cluster, or a landing folder: a plan for each cluster (docs/fleet.md)"""
    topology: str | None = None
    """Output of CLUSTER NODES, SHARDS or SLOTS, or a nodes.conf. Default: that of the newest poll or snapshot"""
    slot_stats: Paths = ()
    """Polls of CLUSTER SLOT-STATS: JSON lines of collect --slot-stats, or single replies"""
    monitor: Paths = ()
    """Logs of MONITOR; their commands are counted by slot"""
    combine: Literal["last", "mean", "p95", "ewma"] = "last"
    """Combination of several windows or snapshots into one load"""
    window: float = 60.0
    """Window of MONITOR logs in seconds"""
    allow_partial: Flag = False
    """Plan from a snapshot with unread inputs; marked as partial, exit code 3"""

    @property
    def snapshots(self) -> tuple[str, ...]:
        """Snapshots with the weights."""
        return self.snapshot or (LATEST,)

    @property
    def can_do_without_snapshot(self) -> bool:
        """Whether polls say enough where there is no snapshot."""
        return not self.snapshot and bool(self.slot_stats)


@dataclass(frozen=True, kw_only=True)
class MoveOptions:
    """Whether and how slots move."""

    apply: Flag = False
    """Apply the changes. Default: dry run"""
    rollback: Flag = False
    """Move back all slots that the plan has moved"""
    path: MigrationPath = "auto"
    pause_after: int = 0
    """Number of the batch to pause after; 0: no pause"""
    bytes_per_s_max: float | None = None
    """Limit of moved bytes per second, by the figures of the plan. Default: none"""
    latency_ms_max: float | None = None
    """Limit of the p99 PING latency of masters in ms; moves slow down above it. Default: not measured"""
    patience: float = 60.0
    """Timeout of each wait in seconds (answers, absent nodes, propagation of owners); then the run pauses"""
    job_timeout: float = 3600.0
    """Timeout of one server-side migration in seconds; then it is cancelled"""
    commands: str | None = None
    """File for all commands of the dry run, - for standard output"""


@options
class ExecuteOptions(PlanOptions, MoveOptions):
    """Options of `plan execute`."""

    cluster: str
    """HOST:PORT of a node; only masters that the plan names get commands"""
    access: AccessOptions = NO_OPTIONS


@options
class RebalanceOptions(TableOptions, GoalOptions, MoveOptions):
    """Options of `rebalance`."""

    plan: str | None = None
    """Id of a stored plan, a unique prefix of it, or latest. Default: the unfinished one, else a new one; with --rollback the last applied"""
    new: Flag = False
    """New plan, even if an unfinished one exists"""
    seconds: float = 600.0
    """Time limit for measuring keys in seconds, for servers without memory per slot; a sample beyond it"""
    rate: Rate = None
    window: float = 0.0
    """Window for processor time per slot (CLUSTER SLOT-STATS) in seconds, balanced too; 0: not measured"""
    access: AccessOptions = NO_OPTIONS


@options
class AuditOptions(PlanOptions):
    """Options of `plan audit`."""

    cluster: str
    """HOST:PORT of a node of the live cluster"""
    seconds: float = 60.0
    """Time limit for measuring memory in seconds; a sample beyond it; 0: not measured"""
    rate: Rate = None
    window: float = 0.0
    """Window for processor time per slot (CLUSTER SLOT-STATS) in seconds; 0: not measured"""
    access: AccessOptions = NO_OPTIONS
