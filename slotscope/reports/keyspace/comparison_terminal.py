"""Growth between two snapshots on a terminal: the total, then the largest changes of each kind."""

from __future__ import annotations

from functools import partial as bind

from rich.console import Console
from rich.text import Text

from slotscope.reports.ink import Cell, Ink
from slotscope.reports.keyspace.comparison import (
    PARTIAL_COMPARISON,
    ComparisonReport,
    Growth,
    GrowthTable,
    Load,
    status_words,
)
from slotscope.reports.keyspace.use_terminal import print_heat_changes
from slotscope.runtime import text

ROWS_SHOWN = 8
PARTIAL_WORDS_MAX = 300
_STATUS_STYLES = {"new": "cyan", "vanished": "cyan", "grown": "", "shrunk": "", "same": "dim"}


def render_comparison_terminal(report: ComparisonReport, console: Console, *, html_path: str | None = None) -> None:
    """Print *report* on *console*: the total, then the largest changes of each kind."""
    ink = Ink(console)
    ink.title(f"growth from {report.from_snapshot} to {report.to_snapshot}")
    if report.partial_words:
        ink.line(ink.words(f"▲ {PARTIAL_COMPARISON}", "bold red"))
        for words in report.partial_words:
            ink.note(text.printable(words, PARTIAL_WORDS_MAX))
    total = report.total
    parts = [f"{text.signed_count(total.keys_delta)} keys ({text.ratio(total.keys_ratio)})"]
    if total.memory_delta is not None:
        parts.append(f"{text.signed_size(total.memory_delta)} in memory ({text.ratio(total.memory_ratio)})")
    if total.bytes_delta is not None:
        parts.append(f"{text.signed_size(total.bytes_delta)} serialized ({text.ratio(total.bytes_ratio)})")
    ink.line(ink.words(" · ".join(parts)))
    for table in report.tables:
        _print_table(table, ink)
    print_heat_changes(report.heat, ink)
    ink.page("All of it", html_path)


def _print_table(table: GrowthTable, ink: Ink) -> None:
    if not table.rows:
        return
    ink.heading(table.title, "the largest changes" if len(table.rows) > ROWS_SHOWN else "")
    in_memory = table.in_memory
    rows: list[list[Cell]] = []
    for row in table.rows[:ROWS_SHOWN]:
        delta, ratio = (row.memory_delta, row.memory_ratio) if in_memory else (row.bytes_delta, row.bytes_ratio)
        after = row.after or Load(0, None)
        size = after.memory_bytes if in_memory else after.serialized_bytes
        cells: list[Cell] = [
            bind(_row_name, table.kind, row, ink),
            text.count(row.after.keys) if row.after else text.NOTHING,
            text.signed_count(row.keys_delta),
            text.size(size),
            text.NOTHING if delta is None else text.signed_size(delta),
            text.ratio(row.keys_ratio if delta is None else ratio),
            ink.words(status_words(row, table), _STATUS_STYLES[row.status]),
        ]
        rows.append(cells)
    ink.table(("", ">keys", ">change", ">in memory" if in_memory else ">bytes", ">change", ">ratio", ""), rows)
    ink.rest(len(table.rows), ROWS_SHOWN)


def _row_name(kind: str, row: Growth, ink: Ink, room: int) -> Text:
    if kind == "hash_tags":
        return ink.tag(row.name, room)
    if kind == "masters":
        return (
            ink.key(row.name[:8], 8)
            .append_text(ink.words(" "))
            .append_text(ink.key(row.detail.encode("utf-8", "surrogateescape"), room - 9, "dim"))
            if row.detail
            else ink.key(row.name, room)
        )
    return ink.key(row.name, room)
