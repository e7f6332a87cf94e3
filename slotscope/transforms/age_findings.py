"""Warnings about the age of dumps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cluster_core.kinds import Severity
from schemas.caveats import Caveat, Code
from schemas.interim import UnitFacts
from slotscope.reports.keyspace.report import KeyspaceReport
from slotscope.runtime.failure import printable
from slotscope.runtime.text import moment

AGE_MS_MIN = 60_000
"""An age below this is none: the dumps of one cluster are begun some seconds apart."""


def find_age(units: Sequence[UnitFacts]) -> list[Caveat]:
    """When the oldest dump was begun, counted back from the newest time of the inputs: of a dump, or of a log's end.

    Nothing for dumps without a time, or where no later time is known.
    """
    begun = {unit.source: unit.ctime * 1000 for unit in units if unit.ctime is not None}
    ended = [unit.last_s * 1000 for unit in units if unit.last_s is not None]
    newest_ms = max([*begun.values(), *ended], default=0)
    return _told_age(begun, newest_ms, f"the newest time known, {moment(newest_ms)}")


def with_age(report: KeyspaceReport, now_ms: int) -> KeyspaceReport:
    """*report*, read at *now_ms*, with how old its dumps are then: tables hold times, and no ages."""
    begun = {
        source.path: int(told) * 1000 for source in report.sources if _is_number(told := source.facts.get("ctime", ""))
    }
    found = _told_age(begun, now_ms, "this report")
    if not found:
        return report
    others = [warning for warning in report.warnings if warning.code != Code.SNAPSHOT_AGE]
    ordered = sorted([*others, *found], key=lambda warning: list(Severity).index(warning.severity))
    return replace(report, warnings=ordered)


def age(passed_ms: int) -> str:
    """Return a time that has passed, in the one or two largest units.

    >>> age(90_000), age(2 * 86_400_000 + 3_700_000)
    ('1 min 30 s', '2 d 1 h')
    """
    left = max(passed_ms, 0) // 1000
    parts: list[str] = []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, left = divmod(left, seconds)
        if number or (unit == "s" and not parts):
            parts.append(f"{number:,} {unit}")
        if len(parts) == 2 or (parts and not number):
            break
    return " ".join(parts[:2])


def _told_age(begun: Mapping[str, int], newest_ms: int, after: str) -> list[Caveat]:
    if not begun or newest_ms - min(begun.values()) < AGE_MS_MIN:
        return []
    oldest = min(begun, key=lambda source: (begun[source], source))
    text = f"later writes are missing: {printable(oldest)} started {moment(begun[oldest])}, {age(newest_ms - begun[oldest])} before {after}"
    if len(begun) > 1:
        text += f"; {len(begun)} dumps started within {age(max(begun.values()) - min(begun.values()))}"
    return [Caveat.note(Code.SNAPSHOT_AGE, text)]


def _is_number(words: str) -> bool:
    return words.isascii() and words.isdigit() and len(words) <= 18
