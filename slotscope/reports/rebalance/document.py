"""The report on a rebalancing plan as a document: the change, the commands, then moves and alternatives."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from slotscope.reports.document import (
    Bar,
    Cell,
    Column,
    Commands,
    Document,
    Format,
    Place,
    Preformatted,
    Section,
    Sentence,
    Table,
    Tile,
    how_to_read,
)
from slotscope.reports.rebalance import report as say
from slotscope.reports.rebalance.report import RebalanceReport, is_relaxed, ratio
from slotscope.reports.records import Row
from slotscope.reports.terminal import plain_text
from slotscope.runtime import text

TRANSFERS_ON_PAGE = 300
TRANSFERS_ON_TERMINAL = 6
HEAVY_ON_TERMINAL = 4
RANGES_NAMED = 12
NAME_MAX = 32


def to_document(report: RebalanceReport) -> Document:
    """Return *report* as a document."""
    sections = [
        Section("next", "Next", [Commands(say.next_commands(report))], on=Place.PAGE),
        _balance(report),
        _masters(report),
        _moves(report),
        _heavy(report),
        _alternatives(report),
    ]
    document = Document(
        "plan",
        f"Plan {report.plan_id}",
        say.headline(report),
        sections,
        names=(report.plan_id,),
        about=(report.snapshot_id,) if report.snapshot_id else (),
        of_ms=report.created_at_ms,
        terminal_title=f"plan {report.plan_id}",
        subtitle=f" · snapshot {report.snapshot_id}" if report.snapshot_id else "",
        alarm=" · partial: some inputs could not be read in full" if report.is_partial else "",
        reason=say.reason(report),
        figures=_figures(report),
        tiles=_tiles(report),
        warnings=report.warnings,
        bad_records=report.bad_records,
        is_calm=not report.acts,
    )
    commands = Section("commands", "Next", [Commands(say.next_commands(report))], on=Place.TERMINAL)
    document = replace(document, sections=[*sections, commands])
    ticket = Preformatted(plain_text(document), "The plan as plain text")
    return replace(
        document,
        sections=[
            *document.sections,
            Section("ticket", "For a ticket", [ticket], short="Ticket", on=Place.PAGE, is_folded=True),
            _reading(report),
        ],
    )


def _figures(report: RebalanceReport) -> list[str]:
    sentences = [say.bound_text(report)] if report.acts or report.lower_bound_bytes else []
    if report.acts:
        least = f" (proven minimum {text.count(report.ranges_bound)})" if report.ranges_bound else ""
        sentences += [
            f"{text.count(report.ranges_before)} → {text.count(report.ranges_after)} slot ranges{least}",
            f"{text.plural(report.batches, 'batch', 'batches')}, about {text.duration(report.estimated_s)}",
        ]
    return sentences


def _tiles(report: RebalanceReport) -> list[Tile]:
    share = say.share_text(report.moved_bytes / report.total if report.total else None, digits=1)
    return [
        *_heaviest_tile(report),
        Tile(
            "total-moved", "Moves", report.moved_bytes, note=f"{share} of {say.resource_label(report.cost)}",
            text=say.amount(report.cost, report.moved_bytes),
        ),
        Tile("total-slots", "Slots that move", report.moved_slots, note=f"in {text.plural(report.batches, 'batch', 'batches')}"),
        Tile(
            "total-time", "Estimated time", report.estimated_s,
            text=text.duration(report.estimated_s) if report.acts else text.NOTHING,
        ),
        Tile(
            "total-bound", f"Proven minimum{', with headroom' if report.has_headroom else ''}", report.lower_bound_bytes, note="" if report.gap is None or not report.acts else f"the plan moves {say.share_text(report.gap) if report.gap else 'no'} more",
            text=say.amount(report.cost, report.lower_bound_bytes),
        ),
        Tile("total-ranges", "Slot ranges", report.ranges_after, note=f"{text.count(report.ranges_before)} before"),
    ]  # fmt: skip


def worst_reach(report: RebalanceReport) -> Row | None:
    """The resource to lead with: memory where it is balanced, else the one furthest over its limit."""
    memory = [reach for reach in report.reaches if reach.resource == "memory_bytes"]
    return next(iter(memory), None) or max(
        report.reaches, key=lambda reach: reach.before / reach.limit if reach.limit else 0.0, default=None
    )


def _heaviest_tile(report: RebalanceReport) -> list[Tile]:
    reach = worst_reach(report)
    if reach is None:
        return []
    before, after = (_heaviest(report, reach.resource, is_after=is_after) for is_after in (False, True))
    amounts = " → ".join(say.amount(reach.resource, side[0]) for side in (before, after))
    filled = " → ".join("unknown" if side[1] is None else say.share_text(side[1], digits=0) for side in (before, after))
    known = f"{filled} of capacity; " if before[1] is not None or after[1] is not None else ""
    name = f"Heaviest master, {say.SHORT_NAMES.get(reach.resource, say.resource_label(reach.resource))}"
    note = f"{known}{text.ratio(reach.before)} → {text.ratio(reach.after)} its fair share"
    return [Tile("total-heaviest", name, round(after[0]), note=note, text=amounts)]


def _heaviest(report: RebalanceReport, resource: str, *, is_after: bool) -> tuple[float, float | None]:
    """The load of the master that is heaviest over its fair share, and the fullest master's share of its capacity."""
    shares = [node.shares[resource] for node in report.nodes if resource in node.shares]
    loads = [(share.after if is_after else share.before, share) for share in shares]
    filled = [load / share.capacity for load, share in loads if share.capacity]
    ranked = [(load / share.fair, load) for load, share in loads if share.fair]
    return max(ranked, default=(0.0, 0.0))[1], max(filled, default=None)


def _balance(report: RebalanceReport) -> Section:
    columns = [
        Column("Resource", Format.TEXT, lambda reach: say.resource_label(reach.resource)),
        Column("Before", Format.RATIO, lambda reach: Cell(reach.before, note=_most(report, reach, is_after=False), style="alarm" if reach.before > reach.limit else "")),
        Column("After", Format.RATIO, lambda reach: Cell(reach.after, note=_most(report, reach, is_after=True), style="alarm" if reach.after > reach.limit * (1 + say.ROUNDING) else "strong")),
        Column("Limit", Format.RATIO, "limit"),
        Column("Lowest possible", Format.RATIO, "floor", on=Place.PAGE),
        Column("Tolerance", Format.TEXT, lambda reach: f"{say.share_text(reach.tolerance)}{' (raised)' if is_relaxed(reach) else ''}"),
    ]  # fmt: skip
    caption = "Load of the heaviest master over its fair share."
    if any(map(is_relaxed, report.reaches)):
        caption += " Raised: one slot is larger than the tolerance allows."
    table = Table("balance-table", caption, columns, report.reaches)
    return Section("balance", "Balance", [table], about="heaviest master over its fair share")


def _most(report: RebalanceReport, reach: Row, *, is_after: bool) -> str:
    """The load of the heaviest master in brackets."""
    amount, _ = _heaviest(report, reach.resource, is_after=is_after)
    return f"({say.amount(reach.resource, amount)})" if amount else ""


def _masters(report: RebalanceReport) -> Section:
    reach = worst_reach(report)
    if reach is None:
        return Section("masters", "Masters", [])
    lead = reach.resource
    nodes = sorted(report.nodes, key=lambda node: (node.role != "drained", -ratio(node, lead), node.node_id))

    def load(node: Row, *, is_after: bool) -> Cell:
        share = node.shares.get(lead)
        value = None if share is None else share.after if is_after else share.before
        return Cell(value, say.amount(lead, value), style="strong" if is_after else "")

    def filled(node: Row) -> Cell:
        share = node.shares.get(lead)
        shares = [value / share.capacity for value in (share.before, share.after)] if share and share.capacity else []
        return Cell(shares[-1] if shares else None, " → ".join(map(text.share, shares)))

    columns = [
        Column("Master", Format.TEXT, lambda node: report.names[node.node_id]),
        Column("Address", Format.TEXT, lambda node: text.printable(node.address, NAME_MAX)),
        Column("Zone", Format.TEXT, "zone", on=Place.PAGE),
        Column("Role", Format.TEXT, lambda node: "" if node.role == "stays" else text.printable(node.role, 10)),
        Column("Before", Format.COUNT, lambda node: load(node, is_after=False), on=Place.TERMINAL),
        Column("After", Format.COUNT, lambda node: load(node, is_after=True), on=Place.TERMINAL),
        Column("Of capacity", Format.SHARE, filled),
        Column(
            "Slots", Format.COUNT, lambda node: Cell(node.slots_after, _change(node.slots_before, node.slots_after))
        ),
        Column(
            "Ranges",
            Format.COUNT,
            lambda node: Cell(node.ranges_after, _change(node.ranges_before, node.ranges_after)),
            on=Place.PAGE,
        ),
        *(
            Column(say.resource_label(name), Format.BAR, partial(_load_bar, report, name), on=Place.PAGE)
            for name in report.resources
        ),
    ]
    known = {
        "Zone": any(node.zone for node in nodes),
        "Role": any(node.role != "stays" for node in nodes),
        "Of capacity": any(node.shares[lead].capacity for node in nodes if lead in node.shares),
    }
    columns = [column for column in columns if known.get(column.heading, True)]
    caption = "Thin bar: before; thick bar: after; mark: limit. Heaviest master first."
    shown = f", the 8 heaviest of {text.count(len(nodes))}" if len(nodes) > 8 else ""
    table = Table("master-table", caption, columns, nodes, "gold/rebalance_load", is_sample=bool(shown))
    return Section("masters", "Masters", [table], about=f"{say.resource_label(lead)}{shown}")


def _load_bar(report: RebalanceReport, resource: str, node: Row) -> Cell:
    loads = [load for each in report.nodes if (load := each.shares.get(resource)) is not None]
    most = max((max(load.before, load.after, min(load.limit, 2 * load.fair)) for load in loads), default=0.0)
    share = node.shares.get(resource)
    if share is None or not most:
        return Cell(None)
    limit = share.limit / most if share.fair and share.limit <= most else None
    amounts = " → ".join(say.amount(resource, value) for value in dict.fromkeys((share.before, share.after)))
    return Cell(Bar(share.after / most, 0.0, limit, share.before / most, share.before > share.limit), note=amounts)


def _change(before: int, after: int) -> str:
    return text.count(after) if before == after else f"{text.count(before)} → {text.count(after)}"


def _moves(report: RebalanceReport) -> Section:
    ordered = sorted(
        report.transfers,
        key=lambda transfer: (-(transfer.bytes or 0), -len(transfer.slots), transfer.batch, transfer.slots),
    )
    columns = [
        Column("From", Format.TEXT, lambda transfer: _named(report, transfer.source)),
        Column("To", Format.TEXT, lambda transfer: _named(report, transfer.target)),
        Column("Slots", Format.COUNT, lambda transfer: len(transfer.slots)),
        Column("Bytes", Format.SIZE, "bytes"),
        Column("Keys", Format.COUNT, "keys"),
        Column("Batch", Format.COUNT, "batch"),
        Column("Slot ranges", Format.LONG, lambda transfer: say.ranges_text(transfer.ranges, RANGES_NAMED)),
    ]
    many = len(ordered) > TRANSFERS_ON_TERMINAL
    about = f"{f'the {TRANSFERS_ON_TERMINAL} largest of ' if many else ''}{text.plural(len(ordered), 'transfer')}"
    table = Table(
        "move-table", "Moves of one batch run together; batches run one after the other", columns, ordered, "gold/rebalance_moves",
        on_page=TRANSFERS_ON_PAGE, on_terminal=TRANSFERS_ON_TERMINAL, is_sample=True,
    )  # fmt: skip
    return Section("moves", "Moves", [table], about=about)


def _named(report: RebalanceReport, node_id: str) -> str:
    return text.printable(report.names.get(node_id, node_id), 20)


def _heavy(report: RebalanceReport) -> Section:
    columns = [
        Column("Slot", Format.SLOT, "slot"),
        Column("On", Format.TEXT, lambda row: _named(report, row.node_id), on=Place.PAGE),
        Column("Fair share", Format.RATIO, "ratio"),
        Column("Resource", Format.TEXT, lambda row: say.resource_label(row.resource)),
        Column("Because of", Format.KEY, _cause),
        Column("Pieces", Format.COUNT, "pieces"),
        Column("Remedy", Format.LONG, say.remedy),
    ]
    caption = "Each of these slots is larger than a master's limit. No placement and no additional master helps."
    table = Table(
        "heavy-table", caption, columns, report.heavy, "gold/rebalance_heavy", on_terminal=HEAVY_ON_TERMINAL, on_page=60
    )
    return Section(
        "heavy", "Slots that cannot be divided", [table], about="more masters would not help", short="Heavy slots"
    )


def _cause(line: Row) -> Cell:
    part = next(iter(line.parts), None)
    if part is None:
        return Cell(None, "unknown")
    name = part.key if part.hash_tag is None else b"{" + part.hash_tag + b"}"
    return Cell(name or b"", note=f" {say.share_text(part.share, digits=0)}" if part.share is not None else "")


def _alternatives(report: RebalanceReport) -> Section:
    choices = sum(bool(line.choice) for line in report.curve)
    columns = [
        Column(
            "Choice",
            Format.TEXT,
            lambda row: Cell(row.choice or "", style="strong" if row.choice == "recommended" else ""),
        ),
        Column(
            "Moves",
            Format.COUNT,
            lambda row: Cell(row.moved_bytes, say.amount(report.cost, row.moved_bytes)),
            "ascending",
        ),
        Column("Above minimum", Format.SHARE, lambda row: Cell(row.over_bound, say.share_text(row.over_bound))),
        Column("Ranges", Format.COUNT, "ranges"),
        Column("Slots", Format.COUNT, "moved_slots"),
    ]
    lines = sorted(report.curve, key=lambda line: (not line.choice, line.moved_bytes)) if choices > 1 else []
    reasons = say.why_many_ranges(report)
    caption = "Results of other byte budgets within the same limits"
    table = Table("curve-table", caption, columns, lines, "gold/rebalance_curve", on_terminal=choices, is_sample=True)
    heading, about = "Alternatives" if lines else "Slot ranges", "bytes against slot ranges, within the same limits"
    return Section("alternatives", heading, [table, *map(Sentence, reasons)], about=about)


def _reading(report: RebalanceReport) -> Section:
    tolerance = ", ".join(
        f"{say.resource_label(row.resource)} {say.share_text(row.tolerance)}" for row in report.reaches
    )
    budget = f" of {say.share_text(report.bytes_budget)}" if report.bytes_budget is not None else ""
    sentences = (
        "The fair share of a master is its part of all load by weight; with equal weights it is the mean.",
        f"The plan brings each master below its fair share plus the tolerance (asked for: {tolerance}), in every resource at once."
        f" Within the byte budget{budget} above the proven minimum it leaves as few slot ranges as the search found.",
        "A slot cannot be divided. If the heaviest slots alone exceed the tolerance, the limit is raised to the lowest load that is possible.",
        "The plan is valid for one set of slot owners and config epochs only (digest"
        f" {text.printable(report.state_hash[:16], 20)}). It is refused for any other.",
        "Tables: gold/rebalance_plans, rebalance_load, rebalance_moves, rebalance_curve, rebalance_heavy; after"
        " slotscope plan audit also gold/plan_audits.",
    )
    return how_to_read(*sentences)
