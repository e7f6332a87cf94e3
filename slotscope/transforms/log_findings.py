"""Warnings about append-only logs: truncation and uncertain keys."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.caveats import Caveat, Code
from schemas.interim import UnitFacts
from slotscope.runtime.failure import printable


def find_cuts(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Last files that a crash has cut: a server with ``aof-load-truncated yes`` loads them and cuts them."""
    return [
        Caveat.warning(
            Code.LOG_TRUNCATED,
            f"{printable(unit.file or '')}: {unit.cut}; a server with aof-load-truncated yes loads it up to offset "
            f"{unit.loaded_end}, with no it does not start",
        )
        for unit in units
        if unit.cut is not None
    ]


def find_uncertain(units: Sequence[UnitFacts]) -> list[Caveat]:
    """Commands that are not modelled, and keys that they leave uncertain."""
    found = []
    for unit in units:
        if unit.not_modelled:
            keys = unit.uncertain_keys or 0
            text = (
                f"{printable(unit.source)}: commands whose effect is not known: {printable(unit.not_modelled)}; "
                f"{keys:,} key{'' if keys == 1 else 's'} uncertain, not counted, listed in gold/uncertain_keys"
            )
            found.append(Caveat.warning(Code.UNCERTAIN_KEYS, text))
        if unit.replayed_to is not None:
            text = (
                f"{printable(unit.source)}: keys are those at {printable(unit.replayed_to)}, where the log is damaged"
            )
            found.append(Caveat.error(Code.LOG_DAMAGED, text))
    return found
