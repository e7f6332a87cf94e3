"""Warnings about memory estimates: missing or implausible ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster_core.memory.model import ESTIMATES, MODEL, NEAREST, Exactness, MemoryBasis
from schemas.caveats import Caveat, Code
from schemas.interim import UnitFacts
from slotscope.runtime import text
from slotscope.runtime.failure import printable

_EXCESS_MIN = 0.02
_USED_BYTES_MIN = 32 << 20


def memory_basis(units: Sequence[UnitFacts]) -> MemoryBasis | None:
    """What the figures of memory rest on; None where there are none."""
    models = {unit.memory_model for unit in units if unit.memory_model is not None and unit.memory_estimate is not None}
    if not models:
        return None
    unmeasured = sum(
        unit.unmeasured_keys or 0 if unit.memory_estimate is not None else unit.keys
        for unit in units
        if unit.kind != "aof" or unit.holds_keys
    )
    estimates = {unit.memory_estimate for unit in units if unit.memory_estimate is not None}
    if unmeasured:
        exactness = Exactness.PARTIAL
    elif ESTIMATES[NEAREST] in estimates:
        exactness = Exactness.NEAREST
    else:
        exactness = Exactness.MODEL if estimates == {ESTIMATES[MODEL]} else Exactness.NAMED
    return MemoryBasis("; ".join(sorted(models)), exactness, unmeasured)


def find_nearest(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Dumps of servers that no model knows, whose keys are measured by the model of the nearest version."""
    nearest = {unit.source: unit for unit in units if unit.memory_estimate == ESTIMATES[NEAREST]}
    return [
        Caveat.note(
            Code.MEMORY_NEAREST,
            f"{printable(source)}: written by {_writer(unit.aux)}, whose layout in memory is not known: its keys are measured by the nearest "
            f"model, {unit.memory_model}; the error is not known (--server names another)",
        )
        for source, unit in sorted(nearest.items())
    ]


def _writer(aux: Mapping[str, str]) -> str:
    family = "valkey" if "valkey-ver" in aux else "redis"
    return f"{family} {printable(aux.get(f'{family}-ver', ''))}"


def find_unmeasured(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Keys whose layout in memory is not known: they are in no figure of memory."""
    counts: dict[str, int] = {}
    for unit in units:
        counts[unit.source] = counts.get(unit.source, 0) + (unit.unmeasured_keys or 0)
    return [
        Caveat.note(
            Code.MEMORY_UNKNOWN,
            f"{printable(source)}: {text.plural(count, 'key')} of a layout in memory that is not known: no figure of memory holds them",
        )
        for source, count in sorted(counts.items())
        if count
    ]


def find_contradictions(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Dumps whose keys would take more than the server used in all (aux field ``used-mem``): another allocator, perhaps."""
    totals: dict[str, tuple[int, int, str]] = {}
    for unit in units:
        said = unit.aux.get("used-mem", "")
        if unit.memory_total is not None and said.isascii() and said.isdigit() and len(said) < 19:
            before = totals.get(unit.source, (0, 0, ""))[0]
            totals[unit.source] = before + unit.memory_total, int(said), unit.memory_model or ""
    return [
        Caveat.note(
            Code.MEMORY_EXCEEDS,
            f"{printable(source)}: its keys are estimated at {text.size(total)} by the model {model}, but the server used "
            f"{text.size(used)} in all; say what it allocates with (--allocator)",
        )
        for source, (total, used, model) in sorted(totals.items())
        if used >= _USED_BYTES_MIN and total > used * (1 + _EXCESS_MIN)
    ]
