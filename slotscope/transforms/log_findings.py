"""What a person must know of append-only logs: how they end, what a rewrite would save, what a crash would lose."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.aof.loss import LogRate, describe_loss
from slotscope.reports.keyspace.report import Warning
from slotscope.runtime.failure import printable
from slotscope.transforms.findings import UnitFacts

_LISTED_MAX = 5


def find_cuts(units: Sequence[UnitFacts]) -> list[Warning]:
    """Last files that a crash has cut: a server with ``aof-load-truncated yes`` loads them and cuts them."""
    return [
        Warning(
            "warning",
            "log_truncated",
            f"{printable(unit.facts['file'])}: {unit.facts['cut']}; a server with aof-load-truncated yes loads it up to offset "
            f"{unit.facts['loaded_end']}, with no it does not start",
        )
        for unit in units
        if "cut" in unit.facts
    ]


def find_uncertain(units: Sequence[UnitFacts]) -> list[Warning]:
    """Commands that are not modelled, and keys that they leave uncertain."""
    found = []
    for unit in units:
        if unit.facts.get("not_modelled"):
            keys = int(unit.facts.get("uncertain_keys", "0"))
            text = (
                f"{printable(unit.source)}: commands whose effect is not known: {printable(unit.facts['not_modelled'])}; "
                f"{keys:,} key{'' if keys == 1 else 's'} uncertain, not counted, listed in gold/uncertain_keys"
            )
            found.append(Warning("warning", "uncertain_keys", text))
        if "replayed_to" in unit.facts:
            text = f"{printable(unit.source)}: keys are those at {printable(unit.facts['replayed_to'])}, where the log is damaged"
            found.append(Warning("error", "log_damaged", text))
    return found


def find_savings(units: Sequence[UnitFacts], live_bytes: int | None) -> list[Warning]:
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
    return [Warning("note", "rewrite", text)]


def find_loss(units: Sequence[UnitFacts], appendfsync: str | None) -> list[Warning]:
    """What a crash of the machine would lose, by ``appendfsync``; rates where the logs have timestamps."""
    logs = [unit for unit in units if unit.kind == "aof" and "role" in unit.facts and unit.facts["role"] != "state"]
    if not logs:
        return []
    timed = [unit for unit in logs if "first_s" in unit.facts]
    rate = None
    if timed:
        first = min(int(unit.facts["first_s"]) for unit in timed)
        last = max(int(unit.facts["last_s"]) for unit in timed)
        written = [unit for unit in timed if unit.facts["role"] != "base"]
        rate = LogRate(
            sum(unit.file_bytes for unit in written) / max(last - first, 1),
            max(int(unit.facts["second_bytes_max"]) for unit in timed),
        )
    return [Warning("note", "appendfsync", describe_loss(appendfsync, rate))]
