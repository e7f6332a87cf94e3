"""The key-space report on a terminal: what a person reads in ten seconds, in 80 to 120 columns.

Warnings come first.  Nothing depends on colour, and a console that knows only ASCII gets only ASCII.
"""

from __future__ import annotations

import heapq
from functools import partial as bind

from rich.console import Console
from rich.text import Text

from slotscope.reports.ink import SEVERITY_STYLES, Cell, Column, Ink
from slotscope.reports.keyspace.figures import (
    Cause,
    heavy_slots,
    max_over_mean,
    names_by_id,
    node_names,
    totals,
    weighs_bytes,
)
from slotscope.reports.keyspace.log_terminal import print_log_load
from slotscope.reports.keyspace.report import SLOT_COUNT, KeyspaceReport, NodeLoad
from slotscope.reports.severities import count_by_severity, gravest_first, print_graded
from slotscope.runtime import text

WARNINGS_SHOWN = 6
WARNING_LENGTH_MAX = 300
NODES_SHOWN = 12
SLOTS_SHOWN = 6
GROUPS_SHOWN = 6
_BAR_WIDTH_MAX = 30


def render_terminal(report: KeyspaceReport, console: Console, *, html_path: str | None = None) -> None:
    """Print *report* on *console*; *html_path* is where the full report was written, if it was."""
    ink = Ink(console)
    _print_title(report, ink)
    _print_warnings(report, ink)
    _print_nodes(report, ink)
    _print_heavy_slots(report, ink)
    _print_big_keys(report, ink)
    _print_prefixes(report, ink)
    _print_ttls(report, ink)
    print_log_load(report, ink)
    if html_path is not None:
        console.print()
        ink.line(ink.words("All of it, with a map of the slots: ").append_text(ink.words(html_path, "bold")))


def _print_title(report: KeyspaceReport, ink: Ink) -> None:
    whole = totals(report)
    title = ink.words("Slotscope", "bold").append_text(ink.words(f" · snapshot {report.snapshot_id}"))
    if report.taken_at_ms is not None:
        title.append_text(ink.words(f" · taken {text.moment(report.taken_at_ms)}", "dim"))
    if report.is_partial:
        title.append_text(ink.words(" · partial", "bold red"))
    ink.line(title)
    figures = [
        text.plural(whole.keys, "key"),
        f"{text.size(whole.serialized_bytes)} serialized" if whole.serialized_bytes is not None else "sizes unknown",
        *([_memory_words(report, whole.memory_bytes)] if whole.memory_bytes is not None else []),
        f"{text.percent(whole.expires, whole.keys)} of keys expire",
        f"{text.count(whole.used_slots)} of {text.count(SLOT_COUNT)} slots used",
    ]
    ink.line(ink.words(" · ".join(figures)))


def _memory_words(report: KeyspaceReport, size: int) -> str:
    caveat = report.memory.caveat if report.memory else "by a model that was not recorded"
    return f"{text.size(size)} in memory" + (f" ({caveat})" if caveat else "")


def _print_warnings(report: KeyspaceReport, ink: Ink) -> None:
    if report.bad_records and not report.warnings:
        ink.line(ink.words(f"▲ {text.plural(report.bad_records, 'bad record')} left out", "yellow"))
    if not report.warnings:
        return
    counts = count_by_severity(report.warnings)
    worst = next(iter(counts))
    heading = ", ".join(text.plural(number, severity) for severity, number in counts.items())
    if report.bad_records:
        heading += f"; {text.plural(report.bad_records, 'bad record')} left out"
    ink.console.print()
    ink.line(ink.words(f"▲ {heading}", SEVERITY_STYLES[worst]))
    ordered = gravest_first(report.warnings)
    print_graded(ink, [(one.severity, one.text) for one in ordered[:WARNINGS_SHOWN]], WARNING_LENGTH_MAX)
    if len(ordered) > WARNINGS_SHOWN:
        ink.note(f"and {text.count(len(ordered) - WARNINGS_SHOWN)} more")


def _print_nodes(report: KeyspaceReport, ink: Ink) -> None:
    nodes = report.nodes
    if not nodes:
        return
    by_bytes = any(node.serialized_bytes is not None for node in nodes)
    weights = [(node.serialized_bytes or 0) if by_bytes else node.keys for node in nodes]
    named = list(zip(nodes, node_names(nodes), weights, strict=True))
    about = ""
    if len(named) > NODES_SHOWN:
        named = heapq.nlargest(NODES_SHOWN, named, key=lambda row: row[2])
        about = f"the {NODES_SHOWN} heaviest of {text.count(len(nodes))}"
    ink.heading("Masters", about)
    whole, peak = sum(weights), max(weights)
    bar_width = min(max(ink.console.width - 74, 6), _BAR_WIDTH_MAX)
    lacking = any(node.unread_share != 0 for node in nodes)
    rows = [
        [
            *_node_row(node, name, ink),
            ink.words(text.percent(weight, whole)),
            *([ink.words(text.unread(node.unread_share), "red")] if lacking else []),
            ink.bar(weight / peak if peak else 0, bar_width),
        ]
        for node, name, weight in named
    ]
    rows.append(
        [
            ink.words("max / mean", "dim"),
            Text(""),
            *(
                ink.words(text.ratio(max_over_mean(values)), "bold")
                for values in (
                    [node.slots for node in nodes],
                    [node.keys for node in nodes],
                    [node.serialized_bytes for node in nodes],
                )
            ),
        ]
    )
    headings = ("slots", "keys", "bytes", "share", *(["not read"] if lacking else []))
    figures = [Column(heading, figures=True) for heading in headings]
    ink.table([Column("node"), Column("address"), *figures, Column("of bytes" if by_bytes else "of keys")], rows)


def _node_row(node: NodeLoad, name: str, ink: Ink) -> list[Text]:
    address = "" if name == node.address else node.address
    return [
        ink.key(name.encode("utf-8", "surrogateescape"), 21),
        ink.key(address.encode("utf-8", "surrogateescape"), 21, "dim") if address else Text(""),
        ink.words(text.count(node.slots)),
        ink.words(text.count(node.keys)),
        ink.words(text.size(node.serialized_bytes)),
    ]


def _print_heavy_slots(report: KeyspaceReport, ink: Ink) -> None:
    heaviest = heavy_slots(report, SLOTS_SHOWN)
    if not heaviest:
        return
    names = names_by_id(report)
    whole = totals(report)
    mean = (
        text.size((whole.serialized_bytes or 0) // SLOT_COUNT)
        if weighs_bytes(report)
        else f"{whole.keys / SLOT_COUNT:.1f} keys"
    )
    ink.heading("Heaviest slots", f"the mean slot holds {mean}")
    rows: list[list[Cell]] = [
        [
            ink.words(str(heavy.load.slot)),
            ink.words(names.get(heavy.owner.node_id, "-") if heavy.owner else "-"),
            ink.words(text.count(heavy.load.keys)),
            ink.words(text.size(heavy.load.serialized_bytes)),
            ink.words(_share(heavy.share)),
            bind(_because, heavy.cause, ink),
        ]
        for heavy in heaviest
    ]
    figures = [Column(heading, figures=True) for heading in ("keys", "bytes", "share")]
    ink.table(
        [Column("slot", figures=True), Column("owner"), *figures, Column("because of, share of the slot")],
        rows,
    )


def _share(share: float) -> str:
    return text.percent(round(share * 1_000_000), 1_000_000)


def _because(cause: Cause | None, ink: Ink, room: int) -> Text:
    """Say what makes a slot heavy: ``{user1}: 12,345 keys, 80 %`` or ``key big:list: 14.2 MB, 97 %``."""
    if cause is None:
        return ink.words("no single key or tag", "dim")
    if cause.kind == "key":
        figures = f": {text.size(cause.serialized_bytes)}, {_share(cause.share)}"
        name = ink.words("key ").append_text(ink.key(cause.name, room - len(figures) - 4))
    else:
        of = " of keys" if cause.by == "keys" else ""
        figures = f": {text.plural(cause.keys, 'key')}, {_share(cause.share)}{of}"
        name = ink.tag(cause.name, room - len(figures))
    return name.append_text(ink.words(figures))


def _print_big_keys(report: KeyspaceReport, ink: Ink) -> None:
    if not report.big_keys:
        return
    ink.heading("Biggest keys")
    measured = any(key.memory_bytes is not None for key in report.big_keys)
    rows: list[list[Cell]] = [
        [
            bind(ink.key, key.key),
            ink.words(text.printable(key.type, 8)),
            ink.words(text.count(key.elements)),
            ink.words(text.size(key.serialized_bytes)),
            *([ink.words(text.size(key.memory_bytes))] if measured else []),
            ink.words(str(key.slot)),
        ]
        for key in report.big_keys[:GROUPS_SHOWN]
    ]
    ink.table(
        [
            Column("key"),
            Column("type"),
            Column("elements", True),
            Column("bytes", True),
            *([Column("in memory", True)] if measured else []),
            Column("slot", True),
        ],
        rows,
    )


def _print_prefixes(report: KeyspaceReport, ink: Ink) -> None:
    if not report.prefixes:
        return
    ink.heading("Heaviest prefixes")
    whole = totals(report)
    rows: list[list[Cell]] = [
        [
            bind(ink.key, group.name),
            ink.words(text.count(group.keys)),
            ink.words(text.size(group.serialized_bytes)),
            ink.words(
                text.percent(group.keys, whole.keys)
                if group.serialized_bytes is None
                else text.percent(group.serialized_bytes, whole.serialized_bytes)
            ),
        ]
        for group in report.prefixes[:GROUPS_SHOWN]
    ]
    ink.table([Column("prefix"), *(Column(heading, True) for heading in ("keys", "bytes", "share"))], rows)


def _print_ttls(report: KeyspaceReport, ink: Ink) -> None:
    buckets = [bucket for bucket in report.ttl_buckets if bucket.keys]
    if not buckets:
        return
    whole = sum(bucket.keys for bucket in buckets)
    ink.heading("Time to live", "of keys")
    parts = [f"{text.printable(bucket.label, 40)} {text.percent(bucket.keys, whole)}" for bucket in buckets]
    ink.flow(parts)
