"""A look at a live cluster as a document: verdict, symptoms, figures, notes, the next command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cluster_core.load.sampling import Estimate
from slotscope.reports.document import Cell, Column, Commands, Document, Facts, Format, Section, Table
from slotscope.reports.records import Row
from slotscope.reports.survey.figures import Overview
from slotscope.runtime import text
from slotscope.runtime.program import program_name, shell_word

MASTERS_SHOWN = 12
ROWS_SHOWN = 6


def look_document(found: Overview, address: str) -> Document:
    """Return *found*, which began at *address*, as a document."""
    figures = [text.plural(found.nodes, "node"), text.plural(found.keys, "key")]
    if found.memory_bytes is not None:
        figures.append(_estimate(found.memory_bytes))
    is_whole = all(one.all_keys for one in found.masters)
    untouched = [] if all(one.keys is not None and not one.keys.value for one in found.untouched) else found.untouched
    command = (
        f"{program_name()} rebalance {shell_word(address)}",
        "plan which slots to move; nothing is changed without --apply",
    )
    sections = [
        _masters(found),
        _slots(found),
        _keys("Biggest keys", "" if is_whole else "of those measured: there may be bigger ones", found.biggest_keys),
        _groups("Heaviest prefixes", Format.KEY, found.prefixes),
        _groups("Heaviest hash tags", Format.TAG, found.hash_tags),
        _keys("Most used keys", "by OBJECT FREQ, a logarithmic counter up to 255", found.most_used_keys),
        _keys("Longest untouched keys", "by OBJECT IDLETIME", found.idlest_keys),
        Section("untouched", "Untouched memory", [Facts([_untouched(one) for one in untouched], is_tiled=True)]),
        Section("notes", "Notes", [Facts([("-", note) for note in found.notes])]),
        *([Section("next", "Next", [Commands([command])])] if len(found.masters) > 1 else []),
    ]
    return Document(
        "look", f"look at {address}", found.verdict, sections, subtitle="".join(f" · {one}" for one in figures), warnings=found.symptoms
    )  # fmt: skip


def _masters(found: Overview) -> Section:
    heaviest = sorted(found.masters, key=lambda one: (-(one.memory_bytes or Estimate(one.keys, 0)).value, one.address))
    columns = [
        Column("Address", Format.KEY, lambda one: one.address.encode("utf-8", "surrogateescape")),
        Column("Slots", Format.COUNT, lambda one: one.slots or None),
        Column("Keys", Format.COUNT, "keys"),
        Column("In keys", Format.SIZE, lambda one: _cell(one.memory_bytes, _estimate)),
        Column("Used", Format.SIZE, "used_memory"),
        Column("Of max", Format.SHARE, lambda one: one.used_memory / one.maxmemory if one.maxmemory else None),
        Column("Cmds/s", Format.COUNT, lambda one: _cell(one.commands_per_s, _rate)),
    ]
    about = f"the {MASTERS_SHOWN} heaviest of {len(heaviest)}" if len(heaviest) > MASTERS_SHOWN else ""
    table = Table("masters", "", columns, heaviest, on_terminal=MASTERS_SHOWN, is_sample=True)
    return Section("masters", "Masters", [table], about=about)


def _cell(value: Any, words: Callable[[Any], str]) -> Cell:
    return Cell(None) if value is None else Cell(value, words(value))


def _slots(found: Overview) -> Section:
    columns = [
        Column("Slot", Format.SLOT, "slot"),
        Column("Master", Format.KEY, lambda one: one.master.encode("utf-8", "surrogateescape")),
        Column("Keys", Format.COUNT, "keys"),
        Column("In keys", Format.SIZE, lambda one: _cell(one.memory_bytes, _estimate)),
        Column("Of CPU time", Format.SHARE, lambda one: one.cpu_share),
    ]
    table = Table("slots", "", columns, found.slots, on_terminal=ROWS_SHOWN, is_sample=True)
    return Section("slots", "Slots that stand out", [table], about="three times the mean or more")


def _keys(heading: str, about: str, keys: Sequence[Row]) -> Section:
    columns = [
        Column("Key", Format.KEY, "key"),
        Column("Type", Format.TEXT, lambda one: one.type[:12] or text.NOTHING),
        Column("Memory", Format.SIZE, "memory_bytes"),
        Column("Elements", Format.COUNT, "elements"),
        Column("Freq", Format.COUNT, "frequency"),
        Column("Idle", Format.DURATION, "idle_s"),
        Column("Slot", Format.SLOT, "slot"),
    ]
    table = Table("keys", "", columns, keys, on_terminal=ROWS_SHOWN, is_sample=True)
    return Section(heading, heading, [table], about=about)


def _untouched(one: Row) -> tuple[str, str]:
    size = "unknown (too few keys sampled)" if one.memory_bytes is None else _estimate(one.memory_bytes)
    return f"untouched for {text.plural(one.days, 'day')}:", size


def _groups(heading: str, how: Format, groups: Sequence[Row]) -> Section:
    columns = [
        Column("Prefix" if how is Format.KEY else "Tag", how, "name"),
        Column("Keys", Format.COUNT, lambda one: Cell(one.keys, _estimate(one.keys, text.count))),
        Column("Memory", Format.SIZE, lambda one: Cell(one.memory_bytes, _estimate(one.memory_bytes))),
    ]
    table = Table("groups", "", columns, groups, on_terminal=ROWS_SHOWN, is_sample=True)
    return Section(heading, heading, [table], about="estimated" if any(one.keys.error for one in groups) else "")


def _estimate(one: Estimate, words: Callable[[int], str] = text.size) -> str:
    """``41.2 MB ±3 %``, with * where it is skewed; without ± where all was counted."""
    value = words(round(one.value))
    if not one.error or not one.value:
        return value
    digits = 1 if one.error < one.value / 10 else 0
    return f"{value} ±{100 * one.error / one.value:.{digits}f} %{'*' if one.skewed else ''}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
