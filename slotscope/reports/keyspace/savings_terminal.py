"""What would save memory on a terminal: the changes as a waterfall, other ways, curves of settings."""

from __future__ import annotations

from functools import partial as bind

from rich.console import Console
from rich.text import Text

from slotscope.reports.ink import Cell, Ink
from slotscope.reports.keyspace.report import KeyspaceReport
from slotscope.reports.keyspace.savings import Saving, SavingsReport
from slotscope.runtime import text

ROWS_SHOWN = 12
HINTS_SHOWN = 4
"""Of each kind of what is not counted."""
HOW_LENGTH_MAX = 400
_BAR_WIDTH = 8


def print_savings(report: KeyspaceReport, console: Console, *, html_path: str | None = None) -> None:
    """Print the savings of *report*."""
    ink, found = Ink(console), report.savings
    ink.title(f"what would save memory in snapshot {report.snapshot_id}")
    if found is None:
        ink.note("nothing was measured")
        return
    whole = found.now_bytes
    share = text.percent(found.saved_bytes, whole)
    ink.line(
        ink.words(
            f"{text.size(whole)} in memory, estimated; {text.size(found.saved_bytes)} ({share}) could be saved", "bold"
        )
    )
    if found.conditions[0].unmeasured_keys:
        words = text.plural(found.conditions[0].unmeasured_keys, "key")
        ink.note(f"{words} (modules, fields that expire) count as now under all conditions")
    _print_waterfall(found, ink)
    _print_how(found, ink)
    _print_list("Other ways to save the same bytes", found.instead, ink)
    _print_hints(found.hints, ink)
    _print_conditions(found, ink)
    _print_curves(found, ink)
    ink.page("All of it", html_path)


def _name(change: Saving, ink: Ink, room: int) -> Text:
    words = ink.words(f"{change.name} ")
    return words.append_text(ink.key(change.subject, max(room - len(change.name) - 1, 8))) if change.subject else words


def _print_waterfall(found: SavingsReport, ink: Ink) -> None:
    if not found.counted:
        ink.note("no change saves a thousandth of it")
        return
    ink.heading("Changes", "each counts bytes that no other one does")
    left, rows = found.now_bytes, list[list[Cell]]()
    for one in found.counted[:ROWS_SHOWN]:
        left -= one.saved_bytes or 0
        rows.append(
            [
                bind(_name, one, ink), text.count(one.keys), text.size(one.saved_bytes), text.percent(one.saved_bytes, found.now_bytes),
                text.size(left), ink.bar(left / found.now_bytes if found.now_bytes else 0, _BAR_WIDTH),
            ]
        )  # fmt: skip
    ink.table(("change", ">keys", ">saves", ">share", ">left", "of memory"), rows)
    ink.rest(len(found.counted), ROWS_SHOWN)


def _print_how(found: SavingsReport, ink: Ink) -> None:
    seen: set[str] = set()
    for one in found.counted[:ROWS_SHOWN]:
        if one.kind == "setting" or one.kind not in seen:
            seen.add(one.kind)
            title = text.shown(one.subject, 40) if one.kind == "setting" else f"{one.name} …"
            for label, words in ((title, one.how), ("  risk", one.risk), ("  undo", one.undo)):
                ink.labelled([(ink.words(label, "dim"), ink.words(text.printable(words, HOW_LENGTH_MAX)))])


def _print_list(title: str, changes: list[Saving], ink: Ink) -> None:
    if not changes:
        return
    ink.heading(title)
    rows: list[list[Cell]] = [
        [bind(_name, one, ink), text.count(one.keys), text.size(one.saved_bytes)] for one in changes[:ROWS_SHOWN]
    ]
    ink.table(("change", ">keys", ">saves"), rows)
    ink.rest(len(changes), ROWS_SHOWN)


def _print_hints(hints: list[Saving], ink: Ink) -> None:
    """The first of each kind, then how the first of each is made: prefixes that could expire would else leave no room for what is to be split."""
    if not hints:
        return
    kinds = [[one for one in hints if one.kind == kind] for kind in dict.fromkeys(one.kind for one in hints)]
    _print_list(
        "Not counted: what could expire, what should be split", [one for of in kinds for one in of[:HINTS_SHOWN]], ink
    )
    ink.rest(len(hints), sum(len(of[:HINTS_SHOWN]) for of in kinds))
    for one, *_ in kinds:
        ink.note(f"{one.name} {text.shown(one.subject, 40)} — {text.printable(one.how, HOW_LENGTH_MAX)}")


def _print_conditions(found: SavingsReport, ink: Ink) -> None:
    ink.heading("The same keys on other servers", "loaded from a dump")
    rows: list[list[Cell]] = [
        [
            one.server,
            one.allocator,
            text.size(one.memory_bytes),
            text.ratio(one.memory_bytes / one.now_bytes if one.now_bytes else None),
        ]
        for one in found.conditions
    ]
    ink.table(("server", "allocator", ">in memory", ">of now"), rows)


def _print_curves(found: SavingsReport, ink: Ink) -> None:
    rows: list[list[Cell]] = [
        [
            point.setting, f"{point.value}{' *' if point.is_knee else ''}", text.count(point.keys), text.size(point.saved_bytes),
            text.count(point.walked_max),
        ]
        for point in found.curves
        if point.saved_bytes > 0
    ]  # fmt: skip
    if rows:
        ink.heading("Limits of packed values", "* is the one to take; walked: elements (of lists: bytes) at most")
        ink.table(("setting", "value", ">keys", ">saves", ">walked"), rows)
