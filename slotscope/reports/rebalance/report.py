"""The report on a rebalancing plan as rows: filled from the tables (`tables`), written as sentences (`words`) and sections (`document`)."""

from __future__ import annotations

from slotscope.reports.keyspace.report import short_names
from slotscope.reports.records import Row


class RebalanceReport(Row):
    """A row of gold/rebalance_plans with the rows of its other tables.

    *reaches* are the resources: the heaviest master over its fair share *before* and *after*, the *limit*, the
    proven *floor*.  *nodes* have *shares* by resource (gold/rebalance_load).  *transfers* are the moves of one batch, source and target.
    *asked* has the node and the access options of `rebalance`.
    """

    @property
    def binding(self) -> Row | None:
        """The heaviest indivisible slot above the tolerance, in a resource with a raised limit."""
        raised = {reach.resource for reach in self.reaches if is_relaxed(reach)}
        lines = [line for line in self.heavy if line.resource in raised]
        return max(lines, key=lambda line: line.ratio, default=None)

    @property
    def acts(self) -> bool:
        """Whether slots move."""
        return bool(self.moved_slots)

    @property
    def resources(self) -> list[str]:
        """The balanced resources, in the order of the plan."""
        return [reach.resource for reach in self.reaches]

    @property
    def total(self) -> float:
        """The whole cost of all masters."""
        return sum(float(node.shares[self.cost].before) for node in self.nodes if self.cost in node.shares)

    @property
    def names(self) -> dict[str, str]:
        """A short name of each node by its id."""
        return short_names(node.node_id for node in self.nodes)


def is_relaxed(reach: Row) -> bool:
    """Return whether a limit is above the tolerance, because slots cannot be divided."""
    return bool(reach.limit > (1 + reach.tolerance) * (1 + 1e-9))


def ratio(node: Row, resource: str) -> float:
    """Return the load of *node* over its fair share before the plan; 0 without a share."""
    share = node.shares.get(resource)
    return float(share.before / share.fair) if share is not None and share.fair else 0.0
