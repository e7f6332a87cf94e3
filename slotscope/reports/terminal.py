"""Draws a `Document` on a terminal, or as plain text: the answer, tables, few notes, the next command."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from functools import partial

from rich.console import Console
from rich.text import Text

from slotscope.reports.document import (
    Bar,
    Cell,
    Column,
    Commands,
    Document,
    Facts,
    Format,
    Graded,
    Place,
    Preformatted,
    Section,
    Sentence,
    Table,
    count_by_severity,
    gravest_first,
    written,
)
from slotscope.reports.ink import FIGURES, SEVERITY_STYLES, Ink
from slotscope.reports.ink import Cell as InkCell
from slotscope.runtime import text

SENTENCE_LENGTH_MAX = 400
LINE_CHARS_MAX = 1 << 20
FACTS_SHOWN = 20
NAME_MAX = 30
PLAIN_WIDTH = 100
CAVEATS_SHOWN = 6
CAVEAT_LENGTH_MAX = 300
_WIDE, _BAR_WIDTH, _NARROW_BAR_WIDTH = 100, 16, 8
_STYLES = {"strong": "bold", "quiet": "dim", "alarm": "red"}


def print_document(document: Document, console: Console, *, html_path: str | None = None) -> None:
    """Print *document* on *console*; *html_path* is where its page was written, if it was."""
    ink = Ink(console)
    ink.title(document.terminal_title or text.printable(document.title, 200), document.subtitle, document.alarm)
    ink.line(ink.safe(text.printable(document.verdict, 600), "bold"))
    if document.reason:
        ink.line(ink.safe(text.printable(document.reason, 600), "dim"))
    if document.figures:
        ink.flow(document.figures)
    _print_warnings(document, ink)
    for section in document.sections:
        _print_section(section, ink)
    ink.page(document.page_label, html_path)


def plain_text(document: Document) -> str:
    """Return the terminal text without colours, for a ticket or a mail."""
    stream = io.StringIO()
    console = Console(file=stream, width=PLAIN_WIDTH, color_system=None, force_terminal=False)
    print_document(document, console)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _print_warnings(document: Document, ink: Ink) -> None:
    left_out = f"{text.plural(document.bad_records, 'bad record')} left out" if document.bad_records else ""
    if document.warnings:
        ink.console.print()
        print_counts(ink, document.warnings, left_out and f"; {left_out}")
        caveats = [(caveat.severity, caveat.text) for caveat in gravest_first(document.warnings)]
        print_graded(ink, caveats, CAVEAT_LENGTH_MAX, CAVEATS_SHOWN)
    elif left_out:
        ink.line(ink.safe(f"▲ {left_out}", "yellow"))


def print_counts(ink: Ink, entries: Iterable[Graded], more: str = "") -> None:
    """Print the number of *entries*, at least one, by severity, and *more*."""
    counts = count_by_severity(entries)
    counts_text = ", ".join(text.plural(number, severity) for severity, number in counts.items())
    ink.line(ink.safe(f"▲ {counts_text}{more}", SEVERITY_STYLES[next(iter(counts))]))


def print_graded(ink: Ink, entries: Sequence[tuple[str, str]], length_max: int, shown: int) -> None:
    """Print the first *shown* of *entries* (severity, message), and the number of the rest."""
    ink.labelled(
        [
            (
                ink.safe(severity, SEVERITY_STYLES.get(severity, "yellow")),
                ink.safe(text.printable(message, length_max)),
            )
            for severity, message in entries[:shown]
        ]
    )
    ink.rest(len(entries), shown)


def _print_section(section: Section, ink: Ink) -> None:
    blocks = section.drawn_on(Place.TERMINAL)
    if not blocks or (section.is_folded and section.on is Place.EVERYWHERE):
        return
    ink.heading(section.title, section.about)
    for block in blocks:
        match block:
            case Table():
                _print_table(block, ink)
            case Sentence():
                ink.note(text.printable(block.text, SENTENCE_LENGTH_MAX))
            case Facts():
                _print_facts(block, ink)
            case Commands():
                for command, effect in block.rows:
                    ink.whole(ink.safe("  " + command, "bold"))
                    ink.note("  " + effect)
            case Preformatted():
                for line in block.text.splitlines():
                    ink.whole(Text(f"  {text.printable(line, LINE_CHARS_MAX)}"))
            case _:
                pass


def _print_facts(block: Facts, ink: Ink) -> None:
    rows = block.rows[:FACTS_SHOWN]
    if block.is_tiled:
        ink.flow([f"{name} {value}" for name, value in rows])
        return
    ink.labelled(
        [(ink.safe(text.printable(name, NAME_MAX), "dim"), ink.safe(text.printable(value))) for name, value in rows]
    )
    ink.rest(len(block.rows), len(rows))


def _print_table(table: Table, ink: Ink) -> None:
    rows = [*table.rows[: table.on_terminal], *([table.foot] if table.foot else [])]
    columns = [entry for entry in table.shown_columns(Place.PAGE, table.on_terminal) if entry[1].how is not Format.LONG]
    shown = table.cells(rows, columns)
    if shown:
        headings = [f"{FIGURES if column.how.is_number else ''}{column.heading}" for column, _ in shown[0]]
        ink.table(headings, [[_cell(cell, column, ink) for column, cell in row] for row in shown])
    if not table.is_sample:
        ink.rest(len(table.rows), min(len(table.rows), table.on_terminal))


def _cell(cell: Cell, column: Column, ink: Ink) -> InkCell:
    style = _STYLES.get(cell.style, "")
    if isinstance(cell.value, Bar):
        width = _NARROW_BAR_WIDTH if ink.console.width < _WIDE else _BAR_WIDTH
        return ink.bar(cell.value.end - cell.value.start, width)
    if column.how in (Format.KEY, Format.TAG) and isinstance(cell.value, bytes):
        return partial(_name, cell, column.how, style, ink)
    shown_text = cell.text or ("" if cell.value == "" else written(cell.value, column.how))
    return ink.safe(f"{'  ' * cell.depth}{shown_text}{f' {cell.note}' if cell.note else ''}", style)


def _name(cell: Cell, how: Format, style: str, ink: Ink, room: int) -> Text:
    """A name in at most *room* cells: only itself loses its middle, never the words around it."""
    before, after = "  " * cell.depth + (f"{cell.text} " if cell.text else ""), f"{cell.note}"
    left = max(room - len(before) - len(after), 8)
    name = ink.tag(cell.value, left) if how is Format.TAG else ink.key(cell.value, left, style)
    return ink.safe(before).append_text(name).append_text(ink.safe(after))
