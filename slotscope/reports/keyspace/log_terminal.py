"""The logs of a snapshot on a terminal: what a rewrite saves and a crash loses, what is written, and when."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial as bind

from slotscope.reports.ink import Cell, Ink
from slotscope.reports.keyspace.log_load import LogLoad, Saving, Span, Written
from slotscope.reports.keyspace.report import KeyspaceReport
from slotscope.runtime import text

ROWS_SHOWN = 6
SPANS_SHOWN = 12
_BAR_WIDTH = 20


def print_log_load(report: KeyspaceReport, ink: Ink) -> None:
    """Print the section of the logs, if the snapshot has any."""
    log = report.log
    if log is None:
        return
    ink.heading("Append-only logs", "what is written, and what a rewrite would save")
    for code in ("appendfsync", "rewrite"):
        for warning in report.warnings:
            if warning.code == code:
                ink.note(text.printable(warning.text, 400))
    _print_savings(log, ink)
    _print_commands(log, ink)
    _print_written(log, ink)
    _print_spans(log.spans, ink)


def _print_savings(log: LogLoad, ink: Ink) -> None:
    rows: list[list[Cell]] = [
        [
            one.scope,
            bind(ink.key, one.name),
            *map(text.size, (one.log_bytes, one.live_bytes)),
            text.signed_size(-one.saved_bytes),
        ]
        for one in _most_saved(log)
    ]
    if rows:
        ink.table(("of", "name", ">in the log", ">alive", ">rewrite"), rows)


def _most_saved(log: LogLoad) -> list[Saving]:
    return [one for scope in ("log", "slot", "prefix") for one in log.savings.get(scope, [])[: ROWS_SHOWN // 2]]


def _print_commands(log: LogLoad, ink: Ink) -> None:
    whole = sum(one.commands for one in log.commands)
    if not whole:
        return
    ink.heading("Commands", "of the logs")
    ink.flow(
        [
            f"{text.printable(one.name, 40)} {text.count(one.commands)}, {text.percent(one.commands, whole)}"
            + ("" if one.known else " (unknown)")
            for one in log.commands[: 2 * ROWS_SHOWN]
        ]
    )


def _print_written(log: LogLoad, ink: Ink) -> None:
    for title, name, written in (("Keys written most", "key", log.keys), ("Slots written most", "", log.slots)):
        if written:
            ink.heading(title)
            _print_writes(name, written[:ROWS_SHOWN], ink)


def _print_writes(name: str, written: Sequence[Written], ink: Ink) -> None:
    rows: list[list[Cell]] = [
        [
            *([bind(ink.key, one.name)] if one.name is not None else []),
            str(one.slot),
            text.count(one.ops) + (f" +≤ {text.count(one.ops_error)}" if one.ops_error else ""),
            text.size(one.log_bytes),
        ]
        for one in written
    ]
    ink.table((*([name] if name else []), ">slot", ">writes", ">bytes"), rows)


def _print_spans(spans: Sequence[Span], ink: Ink) -> None:
    if not spans:
        return
    shown = spans[-SPANS_SHOWN:]
    about = f"the last {len(shown)} of {len(spans)} spans of {_length(spans[0].seconds)} with commands"
    ink.heading("Commands over time", about)
    peak = max(span.commands for span in spans)
    rows: list[list[Cell]] = [
        [
            text.moment(span.start_ms),
            text.count(span.commands),
            text.size(span.log_bytes),
            text.printable(span.busiest, 20),
            ink.bar(span.commands / peak, _BAR_WIDTH),
        ]
        for span in shown
    ]
    ink.table(("from", ">commands", ">bytes", "most", "of the busiest"), rows)


def _length(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
