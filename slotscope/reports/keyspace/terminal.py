"""The key-space report on a terminal: what a person reads in ten seconds, in 80 to 120 columns.

Warnings come first.  Nothing depends on colour, and a console that knows only ASCII gets only ASCII.
"""

from __future__ import annotations

import heapq
from functools import partial as bind

from rich.console import Console
from rich.text import Text

from slotscope.reports.ink import Cell, Ink
from slotscope.reports.keyspace.figures import (
    Cause,
    Weight,
    heavy_slots,
    max_over_mean,
    names_by_id,
    node_names,
    quantile,
    totals,
    weighed_by,
)
from slotscope.reports.keyspace.log_terminal import print_log_load
from slotscope.reports.keyspace.prefix_tree import PrefixNode, heaviest_nodes, prefix_tree
from slotscope.reports.keyspace.report import SLOT_COUNT, KeyGroup, KeyspaceReport, NodeLoad, SlotLoad
from slotscope.reports.keyspace.use_terminal import print_key_use
from slotscope.reports.severities import print_caveats, print_counts
from slotscope.runtime import text

NODES_SHOWN = 12
SLOTS_SHOWN = 6
GROUPS_SHOWN = 6
PREFIXES_SHOWN = 12
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
    print_key_use(report.use, ink)
    print_log_load(report, ink)
    if report.savings is not None:
        ink.note(f"{text.size(report.savings.saved_bytes)} could be saved: slotscope advise, and the page, say how")
    ink.page("All of it, with a map of the slots", html_path)


def _print_title(report: KeyspaceReport, ink: Ink) -> None:
    whole = totals(report)
    taken = "" if report.taken_at_ms is None else f" · taken {text.moment(report.taken_at_ms)}"
    ink.title(f"snapshot {report.snapshot_id}", taken, " · partial" if report.is_partial else "")
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
    left_out = f"{text.plural(report.bad_records, 'bad record')} left out" if report.bad_records else ""
    if report.warnings:
        ink.console.print()
        print_counts(ink, report.warnings, left_out and f"; {left_out}")
        print_caveats(ink, report.warnings)
    elif left_out:
        ink.line(ink.words(f"▲ {left_out}", "yellow"))


def _print_nodes(report: KeyspaceReport, ink: Ink) -> None:
    nodes = report.nodes
    if not nodes:
        return
    by = weighed_by(report)
    weights = [by.of(node) for node in nodes]
    named = list(zip(nodes, node_names(nodes), weights, strict=True))
    about = ""
    if len(named) > NODES_SHOWN:
        named = heapq.nlargest(NODES_SHOWN, named, key=lambda row: row[2])
        about = f"the {NODES_SHOWN} heaviest of {text.count(len(nodes))}"
    ink.heading("Masters", about)
    whole, peak = sum(weights), max(weights)
    bar_width = min(max(ink.console.width - 74, 6), _BAR_WIDTH_MAX)
    lacking = any(node.unread_share != 0 for node in nodes)
    rows: list[list[Cell]] = [
        [
            *_node_row(node, name, by, ink),
            text.percent(weight, whole),
            *([ink.words(text.unread(node.unread_share), "red")] if lacking else []),
            ink.bar(weight / peak if peak else 0, bar_width),
        ]
        for node, name, weight in named
    ]
    slots, keys, sizes = zip(*((node.slots, node.keys, _size(node, by)) for node in nodes), strict=True)
    skews = [ink.words(text.ratio(max_over_mean(values)), "bold") for values in (slots, keys, sizes)]
    rows.append([ink.words("max / mean", "dim"), "", *skews])
    unread = [">not read"] if lacking else []
    ink.table(("node", "address", ">slots", ">keys", _size_heading(by), ">share", *unread, f"of {by.words}"), rows)


def _size(load: NodeLoad | SlotLoad | KeyGroup, by: Weight) -> int | None:
    """The size that tables show: in memory where loads are weighed by it, else of the dump."""
    return load.memory_bytes if by is Weight.MEMORY else load.serialized_bytes


def _size_heading(by: Weight) -> str:
    return ">in memory" if by is Weight.MEMORY else ">bytes"


def _node_row(node: NodeLoad, name: str, by: Weight, ink: Ink) -> list[Cell]:
    address = "" if name == node.address else node.address
    return [
        ink.key(name.encode("utf-8", "surrogateescape"), 21),
        ink.key(address.encode("utf-8", "surrogateescape"), 21, "dim") if address else "",
        text.count(node.slots),
        text.count(node.keys),
        text.size(_size(node, by)),
    ]


def _print_heavy_slots(report: KeyspaceReport, ink: Ink) -> None:
    heaviest = heavy_slots(report, SLOTS_SHOWN)
    if not heaviest:
        return
    names = names_by_id(report)
    whole = totals(report)
    by = weighed_by(report)
    mean = f"{whole.keys / SLOT_COUNT:.1f} keys" if by is Weight.KEYS else text.size(by.of(whole) // SLOT_COUNT)
    ink.heading("Heaviest slots", f"the mean slot holds {mean}")
    rows: list[list[Cell]] = [
        [
            str(heavy.load.slot),
            names.get(heavy.owner.node_id, "-") if heavy.owner else "-",
            text.count(heavy.load.keys),
            text.size(_size(heavy.load, by)),
            _share(heavy.share),
            bind(_because, heavy.cause, ink),
        ]
        for heavy in heaviest
    ]
    ink.table((">slot", "owner", ">keys", _size_heading(by), ">share", "because of, share of the slot"), rows)


def _share(share: float) -> str:
    return text.percent(round(share * 1_000_000), 1_000_000)


def _because(cause: Cause | None, ink: Ink, room: int) -> Text:
    """Say what makes a slot heavy: ``{user1}: 12,345 keys, 80 %`` or ``key big:list: 14.2 MB, 97 %``."""
    if cause is None:
        return ink.words("no single key or tag", "dim")
    if cause.kind == "key":
        figures = f": {text.size(cause.weight)}, {_share(cause.share)}"
        name = ink.words("key ").append_text(ink.key(cause.name, room - len(figures) - 4))
    else:
        of = " of keys" if cause.by is Weight.KEYS else ""
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
            text.printable(key.type, 8),
            text.count(key.elements),
            text.size(key.serialized_bytes),
            *([text.size(key.memory_bytes)] if measured else []),
            str(key.slot),
        ]
        for key in report.big_keys[:GROUPS_SHOWN]
    ]
    ink.table(("key", "type", ">elements", ">bytes", *([">in memory"] if measured else []), ">slot"), rows)


def _print_prefixes(report: KeyspaceReport, ink: Ink) -> None:
    if not report.prefixes:
        return
    root = prefix_tree(report)
    if root is None:
        return
    ink.heading("Heaviest prefixes", "each below the one that it continues")
    by, shown = weighed_by(report), heaviest_nodes(root, PREFIXES_SHOWN)
    rows: list[list[Cell]] = [
        [
            bind(_branch, node, depth, ink),
            text.count(node.group.keys),
            text.size(_size(node.group, by)),
            text.percent(node.weight, root.weight),
            ink.bar(node.weight / root.weight, _BAR_WIDTH_MAX // 2),
        ]
        for node, depth in shown
    ]
    ink.table(("prefix", ">keys", _size_heading(by), ">share", f"of {by.words}"), rows)
    _print_sizes(report, by, ink)


def _branch(node: PrefixNode, depth: int, ink: Ink, room: int) -> Text:
    return ink.words("  " * depth).append_text(ink.key(node.group.name, max(room - 2 * depth, 8)))


def _print_sizes(report: KeyspaceReport, by: Weight, ink: Ink) -> None:
    """Up to where half of the keys are, nearly all of them, and half of all that they take."""
    sizes = report.sizes
    if not sizes:
        return
    half = text.size(2 * quantile(sizes, 0.5, lambda one: one.keys).at_least)
    most = text.size(2 * quantile(sizes, 0.99, lambda one: one.keys).at_least)
    large = text.size(quantile(sizes, 0.5, lambda one: one.total).at_least)
    what = "memory" if by is Weight.MEMORY else "bytes"
    ink.flow(
        [
            f"half of the keys are below {half}",
            f"99 % below {most}",
            f"half of the {what} is in keys of {large} or more",
        ]
    )


def _print_ttls(report: KeyspaceReport, ink: Ink) -> None:
    buckets = [bucket for bucket in report.ttl_buckets if bucket.keys]
    if not buckets:
        return
    whole = sum(bucket.keys for bucket in buckets)
    ink.heading("Time to live", "of keys")
    parts = [f"{text.printable(bucket.label, 40)} {text.percent(bucket.keys, whole)}" for bucket in buckets]
    ink.flow(parts)
