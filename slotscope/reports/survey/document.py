"""A look at a live cluster as a document: verdict, symptoms, figures, notes, the next command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cluster_core.kinds import Severity
from cluster_core.load.sampling import Estimate
from slotscope.reports.document import Cell, Column, Commands, Document, Facts, Format, Section, Table
from slotscope.reports.records import Row
from slotscope.reports.survey.figures import Overview
from slotscope.runtime import text
from slotscope.runtime.program import program_name, shell_word

MASTERS_SHOWN = 12
ROWS_SHOWN = 6


def look_document(overview: Overview, address: str) -> Document:
    """Return *overview*, which began at *address*, as a document."""
    figures = [text.plural(overview.nodes, "node"), text.plural(overview.keys, "key")]
    if overview.memory_bytes is not None:
        figures.append(_estimate(overview.memory_bytes))
    is_whole = all(master.all_keys for master in overview.masters)
    untouched = (
        []
        if all(group.keys is not None and not group.keys.value for group in overview.untouched)
        else overview.untouched
    )
    graver = [symptom for symptom in overview.symptoms if symptom.severity != Severity.NOTE]
    minor = [symptom.text for symptom in overview.symptoms if symptom.severity == Severity.NOTE]
    command = (
        f"{program_name()} rebalance {shell_word(address)}",
        "plan which slots to move; nothing is changed without --apply",
    )
    sections = [
        _masters(overview),
        _slots(overview),
        _keys("Biggest keys", "" if is_whole else "of those measured: there may be bigger ones", overview.biggest_keys),
        _groups("Heaviest prefixes", Format.KEY, overview.prefixes),
        _groups("Heaviest hash tags", Format.TAG, overview.hash_tags),
        _keys("Most used keys", "by OBJECT FREQ, a logarithmic counter up to 255", overview.most_used_keys),
        _keys("Longest untouched keys", "by OBJECT IDLETIME", overview.idlest_keys),
        Section("untouched", "Untouched memory", [Facts([_untouched(row) for row in untouched], is_tiled=True)]),
        Section("notes", "Notes", [Facts([("-", note) for note in (*minor, *overview.notes)])]),
        *([Section("next", "Next", [Commands([command])])] if len(overview.masters) > 1 else []),
    ]
    return Document(
        "look", f"look at {address}", overview.verdict, sections, subtitle="".join(f" · {figure}" for figure in figures), warnings=graver
    )  # fmt: skip


def _masters(overview: Overview) -> Section:
    heaviest = sorted(
        overview.masters, key=lambda master: (-(master.memory_bytes or Estimate(master.keys, 0)).value, master.address)
    )
    columns = [
        Column("Address", Format.KEY, lambda master: master.address.encode("utf-8", "surrogateescape")),
        Column("Slots", Format.COUNT, lambda master: master.slots or None),
        Column("Keys", Format.COUNT, "keys"),
        Column("In keys", Format.SIZE, lambda master: _cell(master.memory_bytes, _estimate)),
        Column("Used", Format.SIZE, "used_memory"),
        Column(
            "Of max", Format.SHARE, lambda master: master.used_memory / master.maxmemory if master.maxmemory else None
        ),
        Column("Cmds/s", Format.COUNT, lambda master: _cell(master.commands_per_s, _rate)),
    ]
    about = f"the {MASTERS_SHOWN} heaviest of {len(heaviest)}" if len(heaviest) > MASTERS_SHOWN else ""
    table = Table("masters", "", columns, heaviest, on_terminal=MASTERS_SHOWN, is_sample=True)
    return Section("masters", "Masters", [table], about=about)


def _cell(value: Any, format_value: Callable[[Any], str]) -> Cell:
    return Cell(None) if value is None else Cell(value, format_value(value))


def _slots(overview: Overview) -> Section:
    columns = [
        Column("Slot", Format.SLOT, "slot"),
        Column("Master", Format.KEY, lambda slot: slot.master.encode("utf-8", "surrogateescape")),
        Column("Keys", Format.COUNT, "keys"),
        Column("In keys", Format.SIZE, lambda slot: _cell(slot.memory_bytes, _estimate)),
        Column("Of CPU time", Format.SHARE, lambda slot: slot.cpu_share),
    ]
    table = Table("slots", "", columns, overview.slots, on_terminal=ROWS_SHOWN, is_sample=True)
    return Section("slots", "Heavy slots", [table], about="three times the mean or more")


def _keys(heading: str, about: str, keys: Sequence[Row]) -> Section:
    columns = [
        Column("Key", Format.KEY, "key"),
        Column("Type", Format.TEXT, lambda key: key.type[:12] or text.NOTHING),
        Column("Memory", Format.SIZE, "memory_bytes"),
        Column("Elements", Format.COUNT, "elements"),
        Column("Freq", Format.COUNT, "frequency"),
        Column("Idle", Format.DURATION, "idle_s"),
        Column("Slot", Format.SLOT, "slot"),
    ]
    table = Table("keys", "", columns, keys, on_terminal=ROWS_SHOWN, is_sample=True)
    return Section(heading, heading, [table], about=about)


def _untouched(row: Row) -> tuple[str, str]:
    size = "unknown (too few keys sampled)" if row.memory_bytes is None else _estimate(row.memory_bytes)
    return f"untouched for {text.plural(row.days, 'day')}:", size


def _groups(heading: str, how: Format, groups: Sequence[Row]) -> Section:
    columns = [
        Column("Prefix" if how is Format.KEY else "Tag", how, "name"),
        Column("Keys", Format.COUNT, lambda group: Cell(group.keys, _estimate(group.keys, text.count))),
        Column("Memory", Format.SIZE, lambda group: Cell(group.memory_bytes, _estimate(group.memory_bytes))),
    ]
    table = Table("groups", "", columns, groups, on_terminal=ROWS_SHOWN, is_sample=True)
    return Section(heading, heading, [table], about="estimated" if any(group.keys.error for group in groups) else "")


def _estimate(estimate: Estimate, format_number: Callable[[int], str] = text.size) -> str:
    """``41.2 MB ±3 %``, with * where it is skewed; without ± where all was counted."""
    value = format_number(round(estimate.value))
    if not estimate.error or not estimate.value:
        return value
    digits = 1 if estimate.error < estimate.value / 10 else 0
    return f"{value} ±{100 * estimate.error / estimate.value:.{digits}f} %{'*' if estimate.skewed else ''}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
