"""Plans of a fleet: the clusters that need a move, the worst first, as a page and as text for a mail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from slotscope.reports.document import Cell, Column, Commands, Document, Facts, Format, Place, Section, Table
from slotscope.reports.rebalance.report import amount, resource_label
from slotscope.runtime import text
from slotscope.runtime.failure import Failure
from slotscope.runtime.program import program_name, shell_word

KIND: Final = "fleet plans"
ROWS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class PlannedCluster:
    """The plan of one cluster: the load of the heaviest master over its fair share, in the *resource* that is furthest above its *limit*.

    *moved* counts the resource *cost*; *sentence* and *page* are set where an operator must act.
    """

    cluster: str
    plan_id: str | None = None
    snapshot_id: str | None = None
    verdict: str = "failed"
    resource: str = ""
    before: float | None = None
    after: float | None = None
    limit: float | None = None
    cost: str = ""
    moved: int | None = None
    moved_slots: int = 0
    estimated_s: float | None = None
    has_conflict: bool = False
    is_partial: bool = False
    sentence: str = ""
    page: str | None = None
    failure: Failure | None = None

    @property
    def needs_a_person(self) -> bool:
        """Whether slots should move, or limits contradict each other."""
        return bool(self.moved_slots) or self.has_conflict

    @property
    def excess(self) -> float:
        """The heaviest master over its limit."""
        return (self.before or 0.0) / (self.limit or 1.0)


@dataclass(frozen=True, slots=True)
class FleetPlansReport:
    """The plans of all clusters under *root*."""

    root: str
    now_ms: int
    clusters: Sequence[PlannedCluster]

    @property
    def due(self) -> list[PlannedCluster]:
        """The clusters that need a person, the worst first."""
        return sorted(
            (cluster for cluster in self.clusters if cluster.needs_a_person),
            key=lambda cluster: (-cluster.excess, cluster.cluster),
        )

    @property
    def failed(self) -> list[PlannedCluster]:
        """The clusters without a plan."""
        return sorted(
            (cluster for cluster in self.clusters if cluster.failure is not None), key=lambda cluster: cluster.cluster
        )

    @property
    def verdict(self) -> str:
        """Number of clusters that need a move, and problems of others."""
        moving = [cluster for cluster in self.due if cluster.moved_slots]
        counts = (
            (sum(cluster.has_conflict for cluster in self.due), "with contradicting limits"),
            (sum(cluster.is_partial for cluster in self.clusters), "with partial inputs"),
            (len(self.failed), "without a plan"),
        )
        problems = "".join(f", {text.count(number)} {label}" for number, label in counts if number)
        return (
            f"{text.count(len(moving))} of {text.plural(len(self.clusters), 'cluster')} need to move slots{problems}."
        )


def to_document(report: FleetPlansReport) -> Document:
    """Return *report* as a document."""
    plan = f"{program_name()} plan execute --root {shell_word(report.root)} --plan PLAN --cluster HOST:PORT"
    sections = [
        Section("due", "Clusters to rebalance", [_table(report)], about="worst first"),
        Section("reasons", "Reasons", [Facts([(cluster.cluster, cluster.sentence) for cluster in report.due])]),
        Section("failed", "Without a plan", [Facts([(cluster.cluster, cluster.failure.line) for cluster in report.failed if cluster.failure])]),
        Section("next", "Next", [Commands([(plan, "dry run of one plan; --apply moves the slots")] if report.due else [])]),
    ]  # fmt: skip
    return Document(
        KIND,
        "Plans of the fleet",
        report.verdict,
        sections,
        of_ms=report.now_ms,
        subtitle=f" · {text.moment(report.now_ms)}",
        is_calm=not report.due and not report.failed,
    )


def _table(report: FleetPlansReport) -> Table:
    def plan(cluster: PlannedCluster) -> Cell:
        return Cell(cluster.plan_id, link=quote((cluster.page or "").rpartition("/")[2]))

    columns = [
        Column("Cluster", Format.KEY, lambda cluster: cluster.cluster.encode("utf-8", "surrogateescape")),
        Column("Before", Format.RATIO, "before"),
        Column("After", Format.RATIO, "after"),
        Column("Limit", Format.RATIO, "limit"),
        Column("Resource", Format.TEXT, lambda cluster: resource_label(cluster.resource), on=Place.PAGE),
        Column("Moves", Format.SIZE, lambda cluster: Cell(cluster.moved, amount(cluster.cost, cluster.moved))),
        Column("Slots", Format.COUNT, "moved_slots"),
        Column("Time", Format.DURATION, "estimated_s"),
        Column("Plan", Format.TEXT, plan),
    ]
    caption = "Heaviest master over its fair share, before and after the plan"
    return Table(
        "plan-table", caption, columns, report.due, "gold/rebalance_plans", on_page=ROWS_MAX, on_terminal=ROWS_MAX
    )
