"""What a report must say about sizes in memory: which of them are none, and which cannot be right."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.reports import text
from jobs.reports.keyspace import Warning
from jobs.runtime.failure import printable
from jobs.transforms.findings import UnitFacts

_EXCESS_MIN = 0.02
_USED_BYTES_MIN = 32 << 20


def find_unmeasured(units: Sequence[UnitFacts]) -> list[Warning]:
    """Keys whose layout in memory is not known: their serialized bytes stand for it."""
    counts: dict[str, int] = {}
    for unit in units:
        counts[unit.source] = counts.get(unit.source, 0) + int(unit.facts.get("unmeasured_keys", "0"))
    return [
        Warning(
            "note",
            "memory_unknown",
            f"{printable(source)}: {text.plural(count, 'key')} of a layout that is not known: their size in memory is that in the dump",
        )
        for source, count in sorted(counts.items())
        if count
    ]


def find_contradictions(units: Sequence[UnitFacts]) -> list[Warning]:
    """Dumps whose keys would take more than the server used in all (aux field ``used-mem``): another allocator, perhaps."""
    totals: dict[str, tuple[int, int, str]] = {}
    for unit in units:
        said = unit.facts.get("used-mem", "")
        if "memory_total" in unit.facts and said.isascii() and said.isdigit() and len(said) < 19:
            before = totals.get(unit.source, (0, 0, ""))[0]
            totals[unit.source] = before + int(unit.facts["memory_total"]), int(said), unit.facts["memory_model"]
    return [
        Warning(
            "note",
            "memory_exceeds",
            f"{printable(source)}: its keys are estimated at {text.size(total)} by the model {model}, but the server used "
            f"{text.size(used)} in all; say what it allocates with (--allocator)",
        )
        for source, (total, used, model) in sorted(totals.items())
        if used >= _USED_BYTES_MIN and total > used * (1 + _EXCESS_MIN)
    ]
