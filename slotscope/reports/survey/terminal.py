"""A look at a live cluster on a terminal: verdict, what is wrong, figures, notes, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial as bind

from rich.console import Console
from rich.text import Text

from cluster_core.load.sampling import Estimate
from slotscope.reports.ink import Cell, Ink
from slotscope.reports.severities import print_counts, print_graded
from slotscope.reports.survey.depth import SavingFigures, SavingsFigures, UntouchedFigures
from slotscope.reports.survey.figures import GroupFigures, KeyFigures, MasterFigures, Overview, SlotFigures
from slotscope.runtime import text

SYMPTOMS_SHOWN = 8
SYMPTOM_LENGTH_MAX = 300
MASTERS_SHOWN = 12
ROWS_SHOWN = 6
CHANGES_SHOWN = 8
HOWS_SHOWN = 3


def print_survey(found: Overview, console: Console, address: str) -> None:
    """Print *found*, which began at *address*."""
    ink = Ink(console)
    quiet = f" · {text.plural(found.nodes, 'node')} · {text.plural(found.keys, 'key')}"
    if found.memory_bytes is not None:
        quiet += f" · {_estimate(found.memory_bytes)}"
    ink.title(f"look at {address}", quiet)
    ink.line(ink.words(found.verdict, "bold"))
    if found.symptoms:
        console.print()
        print_counts(ink, found.symptoms)
        print_graded(ink, [(one.severity, one.text) for one in found.symptoms], SYMPTOM_LENGTH_MAX, SYMPTOMS_SHOWN)
    _print_masters(found, ink)
    _print_slots(found, ink)
    all_keys = all(one.all_keys for one in found.masters)
    _print_keys(
        "Biggest keys", "" if all_keys else "of those measured: there may be bigger ones", found.biggest_keys, ink
    )
    _print_groups("Heaviest prefixes", "prefix", found.prefixes, ink)
    _print_groups("Heaviest hash tags", "tag", found.hash_tags, ink)
    _print_keys("Most used keys", "by OBJECT FREQ, a logarithmic counter up to 255", found.most_used_keys, ink)
    _print_keys("Longest untouched keys", "by OBJECT IDLETIME", found.idlest_keys, ink)
    if any(one.keys is None or one.keys.value for one in found.untouched):
        ink.flow([_untouched(one) for one in found.untouched])
    _print_savings(found.savings, ink)
    if found.commands_per_s:
        ink.heading("Commands a second", "all nodes")
        ink.flow([f"{name} {_rate(rate)}" for name, rate in found.commands_per_s.items()])
    ink.heading("Notes")
    for note in found.notes:
        ink.labelled([(ink.words("-", "dim"), ink.words(note, "dim"))])


def _print_masters(found: Overview, ink: Ink) -> None:
    if not found.masters:
        return
    heaviest = sorted(found.masters, key=lambda one: (-(one.memory_bytes or Estimate(one.keys, 0)).value, one.address))
    ink.heading("Masters", f"the {MASTERS_SHOWN} heaviest of {len(heaviest)}" if len(heaviest) > MASTERS_SHOWN else "")
    ink.table(
        ("address", ">slots", ">keys", ">in keys", ">used", ">of max", ">cmds/s"),
        [_master_row(one, ink) for one in heaviest[:MASTERS_SHOWN]],
    )


def _master_row(one: MasterFigures, ink: Ink) -> list[Cell]:
    return [
        bind(ink.key, one.address.encode("utf-8", "surrogateescape")),
        text.count(one.slots) if one.slots else text.NOTHING,
        text.count(one.keys),
        text.NOTHING if one.memory_bytes is None else _estimate(one.memory_bytes),
        text.size(one.used_memory),
        text.percent(one.used_memory, one.maxmemory),
        text.NOTHING if one.commands_per_s is None else _rate(one.commands_per_s),
    ]


def _print_slots(found: Overview, ink: Ink) -> None:
    if not found.slots:
        return
    ink.heading("Slots that stand out", "three times the mean or more")
    rows = [_slot_row(one, ink) for one in found.slots[:ROWS_SHOWN]]
    ink.table((">slot", "master", ">keys", ">in keys", ">of processor time"), rows)


def _slot_row(one: SlotFigures, ink: Ink) -> list[Cell]:
    return [
        str(one.slot),
        bind(ink.key, one.master.encode("utf-8", "surrogateescape")),
        text.count(one.keys),
        text.NOTHING if one.memory_bytes is None else _estimate(one.memory_bytes),
        text.NOTHING if one.cpu_share is None else text.percent(round(one.cpu_share * 1_000_000), 1_000_000),
    ]


def _print_keys(heading: str, about: str, keys: Sequence[KeyFigures], ink: Ink) -> None:
    if not keys:
        return
    ink.heading(heading, about)
    counted = any(one.frequency is not None for one in keys)
    aged = any(one.idle_s is not None for one in keys)
    rows: list[list[Cell]] = [
        [
            bind(ink.key, one.key),
            text.printable(one.type, 12) or text.NOTHING,
            text.size(one.memory_bytes),
            text.count(one.elements),
            *([text.count(one.frequency)] if counted else []),
            *([text.span(one.idle_s)] if aged else []),
            str(one.slot),
        ]
        for one in keys[:ROWS_SHOWN]
    ]
    use = (*([">freq"] if counted else []), *([">idle"] if aged else []))
    ink.table(("key", "type", ">in memory", ">elements", *use, ">slot"), rows)


def _untouched(one: UntouchedFigures) -> str:
    size = "too few drawn to say" if one.memory_bytes is None else _estimate(one.memory_bytes)
    return f"untouched for {text.plural(one.days, 'day')}: {size}"


def _print_savings(found: SavingsFigures | None, ink: Ink) -> None:
    if found is None:
        return
    ink.heading(
        "What would save memory",
        f"estimated from {text.plural(found.values, 'value')} of {_estimate(found.memory_bytes)}",
    )
    if not found.changes:
        ink.note("nothing that is larger than its error and a thousandth of all")
        return
    rows: list[list[Cell]] = [
        [
            bind(_change, one, ink),
            text.count(one.keys),
            _estimate(one.saved_bytes),
            text.percent(round(one.saved_bytes.value), round(found.memory_bytes.value)),
            "" if one.counted else "instead",
        ]
        for one in found.changes[:CHANGES_SHOWN]
    ]
    ink.table(("change", ">keys", ">saves", ">share", ""), rows)
    ink.rest(len(found.changes), CHANGES_SHOWN)
    for one in [one for one in found.changes if one.counted][:HOWS_SHOWN]:
        ink.labelled([(ink.words(f"{one.change} …", "dim"), ink.words(text.printable(f"{one.how}. Risk: {one.risk}")))])


def _change(one: SavingFigures, ink: Ink, room: int) -> Text:
    words = ink.words(f"{one.change} ")
    return words.append_text(ink.key(one.subject, max(room - len(one.change) - 1, 8))) if one.subject else words


def _print_groups(heading: str, name: str, groups: Sequence[GroupFigures], ink: Ink) -> None:
    if not groups:
        return
    ink.heading(heading, "estimated" if any(one.keys.error for one in groups) else "")
    rows: list[list[Cell]] = [
        [
            bind(ink.key if name == "prefix" else ink.tag, one.name),
            _estimate(one.keys, as_count=True),
            _estimate(one.memory_bytes),
        ]
        for one in groups[:ROWS_SHOWN]
    ]
    ink.table((name, ">keys", ">in memory"), rows)


def _estimate(one: Estimate, *, as_count: bool = False) -> str:
    """``41.2 MB ±3 %``, with * where it is skewed; without ± where all was counted."""
    value = text.count(round(one.value)) if as_count else text.size(round(one.value))
    if not one.error or not one.value:
        return value
    digits = 1 if one.error < one.value / 10 else 0
    return f"{value} ±{100 * one.error / one.value:.{digits}f} %{'*' if one.skewed else ''}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
