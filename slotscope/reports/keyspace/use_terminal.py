"""Hot, cold and doomed on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial as bind

from slotscope.reports.ink import Cell, Ink
from slotscope.reports.keyspace.key_use import NOT_RECORDED, HeatChange, KeyUse, UseReport, rate, use_figures
from slotscope.runtime import text

ROWS_SHOWN = 5


def print_key_use(use: UseReport | None, ink: Ink) -> None:
    """Print what is used, what is not, and what expires; nothing where neither is known."""
    if use is None or (use.whole.expires is None and not use.is_recorded):
        return
    ink.heading("Hot, cold and doomed", "memory, or bytes where memory is not known")
    if not use.is_recorded:
        ink.note(NOT_RECORDED)
    ink.flow([f"{name} {figure}" for name, figure in use_figures(use.whole)])
    _print_prefixes("hottest", use.hot, ">accesses/s", rate, ink)
    _print_prefixes("coldest", use.cold, ">untouched 7 d", lambda one: text.size(one.untouched_7d_bytes), ink)
    _print_prefixes("first to expire", use.doomed, ">within 1 d", lambda one: text.size(one.expiring_1d_bytes), ink)
    _print_prefixes(
        "most keys expire, some never", use.left_behind, ">never", lambda one: text.count(one.never_expiring), ink
    )


def _print_prefixes(
    title: str, rows: Sequence[KeyUse], heading: str, figure: Callable[[KeyUse], str], ink: Ink
) -> None:
    if not rows:
        return
    cells: list[list[Cell]] = [
        [bind(ink.key, one.name), text.count(one.keys), text.size(one.weight_bytes), figure(one)]
        for one in rows[:ROWS_SHOWN]
    ]
    ink.table((title, ">keys", ">memory", heading), cells)


def print_heat_changes(changes: Sequence[HeatChange] | None, ink: Ink) -> None:
    """Print the prefixes that heat up, and those that cool down."""
    if not changes:
        return
    ink.heading("Heat", "accesses a second, estimated from LFU counters")
    ends = changes if len(changes) <= 2 * ROWS_SHOWN else [*changes[:ROWS_SHOWN], *changes[-ROWS_SHOWN:]]
    cells: list[list[Cell]] = [
        [
            bind(ink.key, one.name),
            one.shown_before,
            one.shown_after,
            one.words,
        ]
        for one in ends
    ]
    ink.table(("prefix", ">before", ">after", ""), cells)
    ink.rest(len(changes), len(ends))
