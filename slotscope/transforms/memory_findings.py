"""What a report must say about sizes in memory: which of them are none, and which cannot be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster_core.memory.basis import Exactness, MemoryBasis
from cluster_core.memory.model import ESTIMATES, MODEL, NEAREST
from slotscope.reports import text
from slotscope.reports.keyspace.report import Warning
from slotscope.runtime.failure import printable
from slotscope.transforms.findings import UnitFacts, holds_keys

_EXCESS_MIN = 0.02
_USED_BYTES_MIN = 32 << 20


def memory_basis(units: Sequence[UnitFacts]) -> MemoryBasis | None:
    """What the figures of memory rest on; None where there are none."""
    models = {unit.facts["memory_model"] for unit in units if "memory_estimate" in unit.facts}
    if not models:
        return None
    unmeasured = sum(
        int(unit.facts["unmeasured_keys"]) if "memory_estimate" in unit.facts else unit.keys
        for unit in units
        if unit.kind != "aof" or holds_keys(unit)
    )
    estimates = {unit.facts["memory_estimate"] for unit in units if "memory_estimate" in unit.facts}
    if unmeasured:
        exactness = Exactness.PARTIAL
    elif ESTIMATES[NEAREST] in estimates:
        exactness = Exactness.NEAREST
    else:
        exactness = Exactness.MODEL if estimates == {ESTIMATES[MODEL]} else Exactness.NAMED
    return MemoryBasis("; ".join(sorted(models)), exactness, unmeasured)


def find_nearest(units: Sequence[UnitFacts]) -> list[Warning]:
    """Dumps of servers that no model knows, whose keys are measured by the model of the nearest version."""
    nearest = {unit.source: unit.facts for unit in units if unit.facts.get("memory_estimate") == ESTIMATES[NEAREST]}
    return [
        Warning(
            "note",
            "memory_nearest",
            f"{printable(source)}: written by {_writer(facts)}, whose layout in memory is not known: its keys are measured by the nearest "
            f"model, {facts['memory_model']}; the error is not known (--server names another)",
        )
        for source, facts in sorted(nearest.items())
    ]


def _writer(facts: Mapping[str, str]) -> str:
    family = "valkey" if "valkey-ver" in facts else "redis"
    return f"{family} {printable(facts.get(f'{family}-ver', ''))}"


def find_unmeasured(units: Sequence[UnitFacts]) -> list[Warning]:
    """Keys whose layout in memory is not known: they are in no figure of memory."""
    counts: dict[str, int] = {}
    for unit in units:
        counts[unit.source] = counts.get(unit.source, 0) + int(unit.facts.get("unmeasured_keys", "0"))
    return [
        Warning(
            "note",
            "memory_unknown",
            f"{printable(source)}: {text.plural(count, 'key')} of a layout in memory that is not known: no figure of memory holds them",
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
