"""The report on a rebalancing plan as rows, and in sentences: figures with units, the verdict and its reason, the next commands."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cluster_core.rebalance.plan import PlanVerdict
from slotscope.reports.keyspace.report import short_names
from slotscope.reports.records import Row
from slotscope.runtime import text
from slotscope.runtime.program import program_name, shell_word


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


_UNITS = ("", "k", "M", "G", "T", "P")


def is_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes."""
    return "bytes" in resource


def amount(resource: str, value: float | None) -> str:
    """Return *value* of *resource* with three digits: ``41.2 MB``, ``12.3 k``."""
    if value is None:
        return text.NOTHING
    if is_bytes(resource):
        return text.size(round(value))
    if value < 999.5:
        return text.count(round(value)) if value >= 10 or value == round(value) else f"{value:.1f}"
    unit = 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def resource_label(resource: str) -> str:
    """Return the name of a resource for readers: ``serialized bytes``."""
    return text.printable(resource.replace("_", " "), 40)


def share_text(value: float | None, *, digits: int = 2) -> str:
    """Return a share in per cent, never rounded to 0: ``0.58 %``, ``<0.01 %``."""
    if value is None:
        return text.NOTHING
    least = 10.0**-digits
    if 0 < 100 * value < least:
        return f"<{least:.{digits}f} %"
    return f"{100 * value:.{digits}f} %".replace(f".{'0' * digits} %", " %")


def factor(value: float | None) -> str:
    """A load over its fair share: ``1.020×``; three decimals because tolerances are per cents."""
    if value is None:
        return text.NOTHING
    return f"{value:.3f}×" if value < 100 else f"{value:,.0f}×"


def ranges_text(ranges: Sequence[tuple[int, int]], limit: int) -> str:
    """Slot ranges as CLUSTER NODES writes them, *limit* at most."""
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:limit]]
    return " ".join(parts) + (f" and {text.count(len(ranges) - limit)} more" if len(ranges) > limit else "")


def headline(report: RebalanceReport) -> str:
    """Return the verdict in a sentence, with its limits: unread inputs, soft goals given up."""
    return " ".join([_verdict(report), *caveats(report)])


def caveats(report: RebalanceReport) -> list[str]:
    """Return the limits of the verdict, a sentence each."""
    held = ", ".join(f"{resource_label(reach.resource)} ends at {factor(reach.after)}" for reach in _given_up(report))
    return [
        *(["Not balanced: " + held + "."] if held else []),
        *(["Partial: these figures exclude unread input."] if report.is_partial else []),
    ]


def _given_up(report: RebalanceReport) -> list[Row]:
    """The soft goals above their limits in a plan that keeps all hard ones."""
    if report.verdict not in (PlanVerdict.MOVE, PlanVerdict.BALANCED):
        return []
    return [reach for reach in report.reaches if reach.after > reach.limit * (1 + ROUNDING)]


ROUNDING = 1e-9
"""Relative excess over a limit that counts as rounding."""
SHARE_OF_CAUSE = 0.5
"""A hash tag or key with this share of a slot is its cause."""
SHORT_NAMES = {"memory_bytes": "memory"}


def cause(line: Row) -> str:
    """Return the cause of a heavy slot: ``{tenant:acme} (slot 1612)``, or the slot alone."""
    part = next((part for part in line.parts if (part.share or 0.0) >= SHARE_OF_CAUSE), None)
    if part is None:
        return f"slot {line.slot}"
    name = text.shown(part.key, 40) if part.key is not None else f"{{{text.shown(part.hash_tag or b'', 40)}}}"
    return f"{name} (slot {line.slot})"


def _bound_by(line: Row) -> str:
    resource = SHORT_NAMES.get(line.resource, resource_label(line.resource))
    return f"{cause(line)} alone is {line.ratio:.2f}× a fair share of {resource}"


def _is_estimate(report: RebalanceReport) -> bool:
    return bool(report.memory_error) and is_bytes(report.cost)


def _verdict(report: RebalanceReport) -> str:
    share = share_text(report.moved_bytes / report.total if report.total else None, digits=1)
    about = "about " if _is_estimate(report) else ""
    moves = f"Move {text.plural(report.moved_slots, 'slot')}, {about}{amount(report.cost, report.moved_bytes)} ({share} of all)"
    raised = [
        f"{resource_label(reach.resource)} up to {factor(reach.limit)}" for reach in report.reaches if is_relaxed(reach)
    ]
    within = f"within its {'hard ' if _given_up(report) else ''}limits"
    within += f" ({', '.join(raised)}, since slots cannot be divided)" if raised else ""
    line = report.binding
    if line is not None and report.verdict == PlanVerdict.MOVE:
        reach = next(entry for entry in report.reaches if entry.resource == line.resource)
        best = "Best possible" if reach.after <= reach.limit else "Best found"
        return (
            f"No move can balance this cluster: {_bound_by(line)}. {best}: {reach.before:.2f}× → {reach.after:.2f}×, "
            f"moves {about}{amount(report.cost, report.moved_bytes)}."
        )
    if line is not None and report.verdict in (PlanVerdict.BALANCED, PlanVerdict.TOO_SMALL):
        return f"Balanced as far as possible: {_bound_by(line)}."
    if report.verdict == PlanVerdict.BALANCED:
        return f"Nothing to do: every master is {within}."
    if report.verdict == PlanVerdict.TOO_SMALL:
        return "Balanced as far as possible: no plan lowers the heaviest master by enough."
    if report.verdict == PlanVerdict.CLOSER and not report.acts:
        return "Nothing moves: not every master is within its limits, and nothing better was found."
    if report.verdict == PlanVerdict.IMPOSSIBLE and not report.acts:
        return "These limits cannot be met together, and nothing that moves would bring masters closer to them."
    if report.verdict == PlanVerdict.MOVE:
        return f"{moves}: every master ends {within}."
    if report.verdict == PlanVerdict.CLOSER:
        return f"{moves}: masters come closer to their limits, not all reach them."
    if report.verdict == PlanVerdict.IMPOSSIBLE:
        return f"These limits cannot be met together. {moves}: the best found under the least that has to give way."
    return f"{text.printable(report.verdict, 60)}."


def bound_text(report: RebalanceReport) -> str:
    """Return the proven minimum, and the distance of the plan from it."""
    least = amount(report.cost, report.lower_bound_bytes)
    is_met = report.verdict in (PlanVerdict.MOVE, PlanVerdict.BALANCED)
    reached = (" to leave the headroom" if report.has_headroom else "") if is_met else " to come as close"
    above = ""
    if report.acts and report.gap is not None:
        above = f"; this plan: {share_text(report.gap)} more" if report.gap else "; this plan: no more than that"
    if _is_estimate(report):
        error = share_text(report.memory_error, digits=1)
        return f"about {least} must move{reached} (loads are estimates, ±{error}){above}"
    of = " of the read data" if report.is_partial else ""
    return f"at least {least}{of} must move{reached} (proven){above}"


def reason(report: RebalanceReport) -> str:
    """Return the reason of the verdict, with its figures; a master above its capacity comes first."""
    return f"{_above_capacity(report)}{_balance_reason(report)}"


def _above_capacity(report: RebalanceReport) -> str:
    """Return a sentence on the master farthest above a capacity that the plan brings below it; empty without one."""
    overfull = [
        (share.before / share.capacity, node, resource, share)
        for node in report.nodes
        for resource, share in node.shares.items()
        if share.capacity and share.after <= share.capacity < share.before
    ]
    if not overfull:
        return ""
    _, node, resource, share = max(overfull, key=lambda entry: entry[0])
    unit = "" if is_bytes(resource) else f" {resource_label(resource)}"
    count = len({entry[1].node_id for entry in overfull}) - 1
    more = f"; so {'is' if count == 1 else 'are'} {text.plural(count, 'other master')}" if count else ""
    return (
        f"{text.printable(node.address or node.node_id, 80)} is above its capacity of {amount(resource, share.capacity or 0.0)}{unit}: "
        f"{amount(resource, share.before)} → {amount(resource, share.after)}{more}. "
    )


def _balance_reason(report: RebalanceReport) -> str:
    if not report.reaches:
        return "No load was given."
    worst = max(report.reaches, key=lambda reach: reach.before / reach.limit if reach.limit else 0.0)
    name = resource_label(worst.resource).capitalize()
    now = f"{name} of the heaviest master: {text.ratio(worst.before)} its fair share (limit {text.ratio(worst.limit)})"
    if report.verdict == PlanVerdict.BALANCED:
        return f"{now}. No resource is closer to its limit."
    if report.verdict == PlanVerdict.TOO_SMALL:
        least = f"{share_text(report.gain_min)} of a fair share" if report.gain_min else "a twentieth of the excess"
        return f"{now}. The best plan lowers it by less than {least} (--gain-min)."
    if not report.acts:
        return f"{now}."
    drained = [node for node in report.nodes if node.role == "drained" and node.slots_before]
    if drained and all(reach.before <= reach.limit for reach in report.reaches):
        held = sum(node.shares[report.cost].before for node in drained if report.cost in node.shares)
        near = max(report.reaches, key=lambda reach: reach.after / reach.limit if reach.limit else 0.0)
        return (
            f"Drain {text.plural(len(drained), 'master')} ({amount(report.cost, held)}). Afterwards the heaviest master holds "
            f"{text.ratio(near.after)} its fair share of {resource_label(near.resource)} (limit {text.ratio(near.limit)})."
        )
    return (
        f"{name} of the heaviest master: {text.ratio(worst.before)} → {text.ratio(worst.after)} its fair share "
        f"(limit {text.ratio(worst.limit)})."
    )


RANGES_A_MASTER_MAX = 10
"""A plan with more slot ranges a master states the reason."""


def why_many_ranges(report: RebalanceReport) -> list[str]:
    """Return the reason of more than `RANGES_A_MASTER_MAX` slot ranges per master, and options with fewer; empty below that."""
    owners = sum(1 for node in report.nodes if node.slots_after)
    if not report.acts or report.ranges_after <= RANGES_A_MASTER_MAX * owners:
        return []
    limits = " and ".join(resource_label(reach.resource) for reach in report.reaches)
    why = (
        f"{text.count(report.ranges_after)} slot ranges are more than {RANGES_A_MASTER_MAX} a master: within this budget no windows of neighbouring slots were found that keep every "
        f"limit ({limits}), so single slots fill the rest."
    )
    ways = [
        f"--bytes-budget {math.ceil(100 * line.over_bound - ROUNDING)}% gives {text.count(line.ranges)}"
        for line in report.curve
        if line.ranges < report.ranges_after and line.over_bound is not None
    ]
    return [why, f"Fewer: {'; '.join(ways)}." if ways else "A larger --tolerance may give fewer."]


def next_commands(report: RebalanceReport) -> list[tuple[str, str]]:
    """Return the next commands, each with its effect."""
    program = program_name()
    place = f"--root {shell_word(report.root)} --plan {shell_word(report.plan_id)}"
    check = (f"{program} plan check {place}", "check minimum, limits and sums from the tables alone")
    if not report.acts:
        return [check]
    back = "roll back: return every slot to its former master" + (
        "; if an emptied master has become a replica, first make it a master again (CLUSTER RESET SOFT, CLUSTER MEET)"
        if any(node.slots_before and not node.slots_after for node in report.nodes)
        else ""
    )
    if report.asked:
        live = f"{program} rebalance {' '.join(map(shell_word, report.asked))} {place} --apply"
        does = "move the slots and audit the result; can be resumed or rolled back"
        return [check, (live, does), (f"{live} --rollback", back)]
    execute = f"{program} plan execute {place} --cluster HOST:PORT"
    return [
        check,
        (execute, "dry run: show the batches and checks"),
        (f"{execute} --apply", "move the slots; journalled, can be resumed or rolled back"),
        (f"{program} plan audit {place} --cluster HOST:PORT", "afterwards: compare the promise with the cluster"),
        (f"{execute} --apply --rollback", back),
    ]


def remedy(line: Row) -> str:
    """Return the way to divide a heavy slot, by its parts."""
    tag = next((part for part in line.parts if part.hash_tag is not None), None)
    key = next((part for part in line.parts if part.key is not None and part.hash_tag is None), None)
    if tag is not None and (key is None or (tag.share or 0) >= (key.share or 0)):
        name, pieces = text.shown(tag.hash_tag or b"", 40), tag.part_pieces or line.pieces
        return (
            f"Split the tag {{{name}}} into {pieces} or more, such as {{{name}:0}} to {{{name}:{pieces - 1}}}:"
            " its keys then lie in as many slots."
        )
    if key is not None:
        return (
            "One key: no hash tag divides it. Split its value over several keys, let replicas or a client cache serve its reads,"
            " or leave it a master of its own."
        )
    return f"Spread its keys over {text.plural(line.pieces, 'slot')}. Unknown which keys: plan from dumps, or measure memory."
