"""Warnings about the age of dumps and the writes since then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cluster_core.kinds import Severity
from cluster_core.load.persistence import Persistence, age, describe_persistence
from schemas.caveats import Caveat, Code
from schemas.interim import UnitFacts
from slotscope.reports.keyspace.report import KeyspaceReport
from slotscope.runtime.failure import printable
from slotscope.runtime.text import moment

NODES_TOLD = 5
"""Nodes of which all is said; the others are summed up."""

SAVE_S_SLACK = 5
"""Seconds that a save may be told later than it took."""

AGE_MS_MIN = 60_000
"""An age below this is none: the dumps of one cluster are begun some seconds apart."""


def find_age(units: Sequence[UnitFacts], polls: Sequence[Persistence]) -> list[Caveat]:
    """When the oldest dump was begun, counted back from the newest time that the inputs tell: a poll, a dump, or a log's end.

    Nothing is said of dumps that do not tell their time, or where no later time is known.
    """
    begun = {unit.source: unit.ctime * 1000 for unit in units if unit.ctime is not None}
    ended = [unit.last_s * 1000 for unit in units if unit.last_s is not None]
    newest_ms = max([*(poll.at_ms for poll in polls), *begun.values(), *ended], default=0)
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


def _told_age(begun: Mapping[str, int], newest_ms: int, after: str) -> list[Caveat]:
    if not begun or newest_ms - min(begun.values()) < AGE_MS_MIN:
        return []
    oldest = min(begun, key=lambda source: (begun[source], source))
    text = f"later writes are missing: {printable(oldest)} started {moment(begun[oldest])}, {age(newest_ms - begun[oldest])} before {after}"
    if len(begun) > 1:
        text += f"; {len(begun)} dumps started within {age(max(begun.values()) - min(begun.values()))}"
    return [Caveat.note(Code.SNAPSHOT_AGE, text)]


def find_since(units: Sequence[UnitFacts], polls: Sequence[Persistence]) -> list[Caveat]:
    """What a node has written since its dump was begun: the dump's replication id is that of the poll, and offsets count bytes."""
    by_id = {poll.replid: poll for poll in polls if len(poll.replid) == 40}
    found = []
    for source, unit in sorted({unit.source: unit for unit in units}.items()):
        poll, begun = by_id.get(unit.aux.get("repl-id", "")), unit.aux.get("repl-offset", "")
        if poll is None or poll.offset is None or not _is_number(begun) or poll.offset < int(begun):
            continue
        text = f"{printable(source)}: {printable(poll.node)} has written {poll.offset - int(begun):,} bytes of commands since this dump was begun"
        if unit.ctime is not None and poll.last_save_ms > (unit.ctime + (poll.saving_s or 0) + SAVE_S_SLACK) * 1000:
            text += "; it has saved again since, so there is a newer dump"
        found.append(Caveat.note(Code.WRITTEN_SINCE, text))
    return found


def find_unsaved(polls: Sequence[Persistence]) -> list[Caveat]:
    """What a crash of each node would have lost when it was asked; those that would lose most first."""
    ordered = sorted(polls, key=lambda poll: (bool(poll.log), -poll.changes, poll.node))
    found = []
    for poll in ordered[:NODES_TOLD]:
        severity = Severity.WARNING if poll.failed else Severity.NOTE
        found.append(
            Caveat(severity, Code.UNSAVED_CHANGES, "; ".join(printable(text) for text in describe_persistence(poll)))
        )
    if len(ordered) > NODES_TOLD:
        rest = ordered[NODES_TOLD:]
        changes = sum(poll.changes for poll in rest if not poll.log)
        text = f"{len(rest)} more nodes: {changes:,} changes that only memory holds"
        found.append(Caveat.note(Code.UNSAVED_CHANGES, text))
    return found


def _is_number(words: str) -> bool:
    return words.isascii() and words.isdigit() and len(words) <= 18
