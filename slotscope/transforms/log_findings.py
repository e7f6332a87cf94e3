"""Warnings about append-only logs: truncation, savings of a rewrite, loss in a crash."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.load.persistence import LogRate, describe_loss
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


def find_savings(units: Sequence[UnitFacts], live_bytes: int | None) -> list[Caveat]:
    """What rewriting all logs would save; *live_bytes* of all living keys, None without replay."""
    log_bytes = sum(unit.file_bytes for unit in units if unit.kind == "aof")
    if not log_bytes or live_bytes is None:
        return []
    saved = log_bytes - live_bytes
    text = (
        f"the logs have {log_bytes:,} bytes, what lives needs {live_bytes:,} as commands: a rewrite (BGREWRITEAOF) would save "
        f"{max(saved, 0):,} bytes ({max(saved, 0) / log_bytes:.0%}), or more with aof-use-rdb-preamble yes; "
        "gold/log_savings says where"
    )
    return [Caveat.note(Code.REWRITE, text)]


def find_loss(units: Sequence[UnitFacts], appendfsync: str | None) -> list[Caveat]:
    """What a crash of the machine would lose, by ``appendfsync``; rates where the logs have timestamps."""
    logs = [unit for unit in units if unit.kind == "aof" and unit.role not in (None, "state")]
    if not logs:
        return []
    timed = [unit for unit in logs if unit.first_s is not None]
    rate = None
    if timed:
        first = min(unit.first_s or 0 for unit in timed)
        last = max(unit.last_s or 0 for unit in timed)
        written = [unit for unit in timed if unit.role != "base"]
        rate = LogRate(
            sum(unit.file_bytes for unit in written) / max(last - first, 1),
            max(unit.second_bytes_max or 0 for unit in timed),
        )
    return [Caveat.note(Code.APPENDFSYNC, describe_loss(appendfsync, rate))]
