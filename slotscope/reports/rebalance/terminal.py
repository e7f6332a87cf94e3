"""A rebalancing plan on a terminal: verdict, what it brings, what moves most, what stands in the way, what to type next."""

from __future__ import annotations

import heapq

from rich.console import Console
from rich.text import Text

from slotscope.reports.ink import Cell, Ink
from slotscope.reports.rebalance import words as say
from slotscope.reports.rebalance.report import HeavyPart, PlanNode, RebalanceReport
from slotscope.reports.severities import print_caveats
from slotscope.runtime import text

MASTERS_SHOWN = 8
MOVES_SHOWN = 6
RANGES_SHOWN = 4
WIDTH_WITHOUT_RANGES = 72
RANGE_WIDTH = 11
HEAVY_SHOWN = 4
NAME_LENGTH_MAX = 32
_BAR_WIDTH = 12


def render_rebalance_terminal(report: RebalanceReport, console: Console, *, html_path: str | None = None) -> None:
    """Print *report* on *console*; *html_path* is where the full report was written, if it was."""
    ink = Ink(console)
    _print_verdict(report, ink)
    _print_warnings(report, ink)
    _print_balance(report, ink)
    _print_masters(report, ink)
    _print_moves(report, ink)
    _print_alternatives(report, ink)
    _print_heavy(report, ink)
    _print_history(report, ink)
    ink.heading("Next")
    for command, what in say.next_commands(report):
        ink.whole(ink.words("  " + command, "bold"))
        ink.note("  " + what)
    ink.page("All of it, with the proof", html_path)


def _print_verdict(report: RebalanceReport, ink: Ink) -> None:
    ink.title(f"plan {report.plan_id}", f" · snapshot {report.snapshot_id}" if report.snapshot_id else "")
    ink.line(ink.words(say.headline(report), "bold"))
    ink.line(ink.words(say.reason(report), "dim"))
    figures = [say.bound_words(report)]
    if report.acts:
        figures = [
            *figures,
            f"the plan is {say.share_text(report.gap)} above"
            if report.gap is not None
            else "how far above the least is not known",
            f"{text.count(report.ranges_before)} → {text.count(report.ranges_after)} slot ranges{_least_ranges(report)}",
            f"{text.plural(report.batches, 'batch', 'batches')}, about {say.time_words(report)}",
        ]
    ink.flow(figures)
    ink.flow(say.outlook(report))


def _least_ranges(report: RebalanceReport) -> str:
    return f", at least {text.count(report.ranges_bound)}, proven" if report.ranges_bound else ""


def _print_warnings(report: RebalanceReport, ink: Ink) -> None:
    if report.is_partial:
        ink.line(ink.words("▲ made from inputs that could not be read in full", "bold red"))
    print_caveats(ink, report.warnings)


def _print_balance(report: RebalanceReport, ink: Ink) -> None:
    if not report.reaches:
        return
    ink.heading("Balance", "heaviest master over its fair share")
    rows: list[list[Cell]] = []
    for reach in [*report.reaches, *report.watched]:
        over = "red" if reach.before > reach.limit else ""
        ends = "bold" if reach.balanced else "yellow" if reach.after > min(reach.limit, reach.before) else ""
        why = ", raised" if reach.relaxed else ""
        words = f"tolerance {say.share_text(reach.tolerance)}{why}" if reach.balanced else "not balanced"
        limit = say.factor(reach.limit) if reach.balanced else text.NOTHING
        before, after = ink.words(say.factor(reach.before), over), ink.words(say.factor(reach.after), ends)
        rows.append([say.resource_words(reach.resource), before, "→", after, limit, ink.words(words, "dim")])
    ink.table(("Resource", ">Before", "", ">After", ">Limit", ""), rows)


def _print_masters(report: RebalanceReport, ink: Ink) -> None:
    if not report.nodes or not report.reaches:
        return
    resource = max(report.reaches, key=lambda reach: reach.before / reach.limit if reach.limit else 0.0).resource
    nodes, about = list(report.nodes), f"by {say.resource_words(resource)} before"
    if len(nodes) > MASTERS_SHOWN:
        about += f", the {MASTERS_SHOWN} heaviest of {text.count(len(nodes))}"
    heaviest = heapq.nsmallest(MASTERS_SHOWN, nodes, key=lambda node: (-_before(node, resource), node.node_id))
    peak = max((_before(node, resource) for node in heaviest), default=0.0)
    ink.heading("Masters", about)
    rows: list[list[Cell]] = []
    for node in heaviest:
        share = node.shares.get(resource)
        rows.append(
            [
                text.printable(report.names[node.node_id], 20),
                text.printable(node.address, NAME_LENGTH_MAX),
                ink.words("" if node.role == "stays" else text.printable(node.role, 10), "yellow"),
                say.amount(resource, share.before if share else None),
                "→",
                ink.words(say.amount(resource, share.after if share else None), "bold"),
                ink.words(f"{text.count(node.slots_before)} → {text.count(node.slots_after)}", "dim"),
                ink.bar(_before(node, resource) / peak if peak else 0.0, _BAR_WIDTH),
            ]
        )
    ink.table(("Master", "Address", "", ">Before", "", ">After", ">Slots", "Before"), rows)


def _before(node: PlanNode, resource: str) -> float:
    share = node.shares.get(resource)
    return share.before if share is not None else 0.0


def _print_moves(report: RebalanceReport, ink: Ink) -> None:
    if not report.transfers:
        return
    largest = heapq.nsmallest(
        MOVES_SHOWN, report.transfers, key=lambda one: (-(one.moved_bytes or 0), -len(one.slots), one.batch, one.slots)
    )
    about = text.plural(len(report.transfers), "transfer")
    if len(report.transfers) > MOVES_SHOWN:
        about = f"the {MOVES_SHOWN} largest of {about}"
    ink.heading("Moves", about)
    names = report.names
    room = max(min((ink.console.width - WIDTH_WITHOUT_RANGES) // RANGE_WIDTH, RANGES_SHOWN), 0)
    rows: list[list[Cell]] = [
        [
            _name(names, one.source),
            "→",
            _name(names, one.target),
            text.count(len(one.slots)),
            text.size(one.moved_bytes),
            str(one.batch),
            ink.words(say.ranges_text(one.ranges, room) if room else text.plural(len(one.ranges), "range"), "dim"),
        ]
        for one in largest
    ]
    ink.table(("From", "", "To", ">Slots", ">Bytes", ">Batch", "Ranges"), rows)


def _print_alternatives(report: RebalanceReport, ink: Ink) -> None:
    choices = [line for line in report.curve if line.choice]
    notes = [*say.budget_notes(report), *say.why_many_ranges(report)]
    if len(choices) < 2 and not notes:
        return
    ink.heading("Alternatives", "bytes against slot ranges, within the same limits")
    rows: list[list[Cell]] = [
        [
            ink.words(str(line.choice), "bold" if line.choice == "recommended" else ""),
            say.amount(report.cost, line.moved),
            say.share_text(line.over_bound),
            text.count(line.ranges),
            text.count(line.moved_slots),
        ]
        for line in choices
    ]
    if len(choices) > 1:
        ink.table(("", ">Moves", ">Above least", ">Ranges", ">Slots"), rows)
    for words in notes:
        ink.note(words)


def _name(names: dict[str, str], node_id: str) -> str:
    return text.printable(names.get(node_id, node_id), 20)


def _print_heavy(report: RebalanceReport, ink: Ink) -> None:
    if not report.heavy:
        return
    ink.heading("Slots that cannot be divided", "more masters would not help")
    rows = []
    for line in report.heavy[:HEAVY_SHOWN]:
        words = ink.words(f"{say.factor(line.ratio)} a fair share of {say.resource_words(line.resource)}; ")
        for part in line.parts[:1]:
            words.append_text(_part(part, ink))
            words.append_text(ink.words(f" is {say.share_text(part.share, digits=1)} of it; "))
        words.append_text(ink.words(f"split into {text.plural(line.pieces, 'piece')}", "bold"))
        rows.append((ink.words(f"slot {line.slot}"), words))
    ink.labelled(rows)
    ink.rest(len(report.heavy), HEAVY_SHOWN)


def _part(part: HeavyPart, ink: Ink) -> Text:
    if part.hash_tag is not None:
        return ink.tag(part.hash_tag, NAME_LENGTH_MAX)
    return ink.key(part.key or b"", NAME_LENGTH_MAX)


def _print_history(report: RebalanceReport, ink: Ink) -> None:
    audited = [one for one in report.history if one.kept is not None]
    if not audited:
        return
    kept = sum(bool(one.kept) for one in audited)
    ink.heading("Earlier plans")
    whose = "it" if len(audited) == 1 else "they"
    ink.note(f"{text.count(kept)} of {text.plural(len(audited), 'audited plan')} kept what {whose} promised")
