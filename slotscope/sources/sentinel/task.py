"""Everything that is known of some sentinels in one task: read, folded, told, and out come the rows of the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from cluster_core.incidents.rows import IncidentRow, StepRow, incident_row, step_rows
from cluster_core.incidents.story import name_all
from cluster_core.sentinel_history.announcements import read_announcement, read_switch
from cluster_core.sentinel_history.beliefs import Span
from cluster_core.sentinel_history.history import SentinelHistory, fold_history
from cluster_core.sentinel_history.incidents import find_sentinel_incidents, step_text, summary_of
from cluster_core.sentinel_history.rows import EventRow, SentinelEventRow, SentinelViewRow, SentinelVoteRow, VoteRow
from schemas.bronze import BAD_RECORDS
from schemas.incidents import INCIDENT_STEPS, INCIDENTS
from schemas.sentinel import SENTINEL_EVENTS, SENTINEL_VIEWS, SENTINEL_VOTES
from schemas.table import rows_table
from slotscope.sources.resp.replication_task import REPLAYED, table_blobs, told_blob
from slotscope.sources.resp.rows import BadRecords
from slotscope.sources.sentinel.evidence import SentinelEvidence, SentinelFiles, read_evidence

JOB: Final = "sentinel-replay"
VIEWS, EVENTS, VOTES, STORIES, STEPS, BAD, FACTS = range(7)
"""Kinds of the task's rows."""
SCHEMA: Final = REPLAYED
PREFIX: Final = "sentinel"
"""How names of incidents begin that come from here."""


@dataclass(frozen=True, slots=True)
class SentinelOptions:
    """What the task needs; *down_after_ms* and *quorum* hold where no event or poll tells others."""

    files: SentinelFiles
    down_after_ms: int | None = None
    quorum: int | None = None
    permissive: bool = False


def sentinel_task(batches: Iterator[pa.RecordBatch], options: SentinelOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all tables as blobs; raises DecodeError in strict mode."""
    for _ in batches:
        pass
    bad = BadRecords(strict=not options.permissive)
    evidence = read_evidence(options.files, bad)
    history = replay_evidence(evidence, options, with_polls=True)
    incidents = find_sentinel_incidents(history)
    names = name_all(history.observers, history.addresses)
    yield from table_blobs(
        VIEWS, rows_table([view_row(span) for span in history.spans], SentinelViewRow, SENTINEL_VIEWS)
    )
    events = [event_row(at, row) for at, row in enumerate(history.events)]
    yield from table_blobs(EVENTS, rows_table(events, SentinelEventRow, SENTINEL_EVENTS))
    votes = [vote_row(at, row) for at, row in enumerate(history.votes)]
    yield from table_blobs(VOTES, rows_table(votes, SentinelVoteRow, SENTINEL_VOTES))
    told: list[IncidentRow] = []
    steps: list[StepRow] = []
    for number, one in enumerate(incidents, 1):
        addresses = {one.subject: history.addresses.get(one.subject, one.subject if ":" in one.subject else None)}
        addresses[one.winner] = one.winner or None
        told.append(incident_row(number, one, summary_of(one, names), addresses, prefix=PREFIX))
        steps += step_rows(number, one, lambda step: step_text(step, names), names, sees_gaps=False)
    yield from table_blobs(STORIES, rows_table(told, IncidentRow, INCIDENTS))
    yield from table_blobs(STEPS, rows_table(steps, StepRow, INCIDENT_STEPS))
    listed = [{"job": JOB, **row} for row in bad.listed]
    yield from table_blobs(BAD, pa.Table.from_pylist(listed, schema=BAD_RECORDS.unlabelled))
    yield told_blob(FACTS, json.dumps(_facts(evidence, history, bad)).encode())


def replay_evidence(
    evidence: SentinelEvidence,
    options: SentinelOptions,
    *,
    with_captures: bool = True,
    with_logs: bool = True,
    with_polls: bool = False,
) -> SentinelHistory:
    """Fold what was read, or a part of it."""
    other: dict[str, list[Any]] = {}
    for found, is_used in ((evidence.logged, with_logs), (evidence.polled, with_polls)):
        for runid, items in found.items() if is_used else ():
            other.setdefault(runid, []).extend(items)
    return fold_history(
        evidence.captured if with_captures else {}, other, down_after_ms=options.down_after_ms, quorum=options.quorum
    )


def _facts(evidence: SentinelEvidence, history: SentinelHistory, bad: BadRecords) -> dict[str, Any]:
    return {
        "values": evidence.values,
        "lines": evidence.lines,
        "answers": evidence.answers,
        "sentinels": len(history.observers),
        "strangers": sorted(evidence.strangers)[:20],
        "bad_records": bad.count,
        "first_ns": history.first_ns,
        "last_ns": history.last_ns,
        "events": len(history.events),
        "down_after_ms": history.down_after_ms,
    }


# -- rows --------------------------------------------------------------------------------------------------------------


def view_row(span: Span) -> SentinelViewRow:
    """A row of silver/sentinel_views."""
    return SentinelViewRow(span.observer, *span.belief, span.from_ns, span.to_ns, span.cause, span.source)


def event_row(number: int, row: EventRow) -> SentinelEventRow:
    """A row of silver/sentinel_events."""
    said, switch = read_announcement(row.text), read_switch(row.text) if row.channel == "+switch-master" else None
    master = switch.master if switch is not None else said.master
    subject = said.name if said.role == "sentinel" else str(said.address) if said.role else ""
    subject = str(switch.after) if switch is not None else subject
    return SentinelEventRow(
        number, row.observer, row.ts_ns, row.channel, row.text, master or None, subject or None, row.source
    )


def vote_row(number: int, row: VoteRow) -> SentinelVoteRow:
    """A row of silver/sentinel_votes."""
    return SentinelVoteRow(
        number, row.ts_ns, row.voter, row.candidate, row.master, row.epoch, row.granted_to, row.granted_epoch,
        row.is_granted, row.says_down, row.source,
    )  # fmt: skip
