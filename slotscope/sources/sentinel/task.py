"""Everything that is known of some sentinels in one task: read, folded, told, and out come the rows of the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from cluster_core.incidents.incident import FIGURES, Incident
from cluster_core.sentinel_history.announcements import read_announcement, read_switch
from cluster_core.sentinel_history.beliefs import Span
from cluster_core.sentinel_history.history import SentinelHistory, fold_history
from cluster_core.sentinel_history.incidents import find_sentinel_incidents
from cluster_core.sentinel_history.rows import EventRow, VoteRow
from cluster_core.sentinel_history.story import name_sentinels, step_text, summary_of
from schemas.bronze import BAD_RECORDS
from schemas.incidents import INCIDENT_STEPS, INCIDENTS
from schemas.sentinel import SENTINEL_EVENTS, SENTINEL_VIEWS, SENTINEL_VOTES
from schemas.table import Table
from slotscope.sources.bus.blobs import packed_table
from slotscope.sources.bus.evidence import table_arrow
from slotscope.sources.bus.tellings import instant
from slotscope.sources.resp.replication_task import REPLAYED
from slotscope.sources.resp.rows import BadRecords
from slotscope.sources.sentinel.evidence import SentinelEvidence, SentinelFiles, read_evidence

JOB: Final = "sentinel-replay"
VIEWS, EVENTS, VOTES, STORIES, STEPS, BAD, FACTS = range(7)
"""Kinds of the task's rows."""
SCHEMA: Final = REPLAYED
ROWS_PER_BLOB: Final = 20_000
EPOCH_MAX: Final = 10**20 - 1
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
    names = name_sentinels(history.addresses, history.observers)
    yield from _blobs(VIEWS, SENTINEL_VIEWS, [view_row(span) for span in history.spans])
    yield from _blobs(EVENTS, SENTINEL_EVENTS, [event_row(at, row) for at, row in enumerate(history.events)])
    yield from _blobs(VOTES, SENTINEL_VOTES, [vote_row(at, row) for at, row in enumerate(history.votes)])
    told = [incident_row(number, one, history, names) for number, one in enumerate(incidents, 1)]
    yield from _blobs(STORIES, INCIDENTS, told)
    steps = [row for number, one in enumerate(incidents, 1) for row in step_rows(number, one, names)]
    yield from _blobs(STEPS, INCIDENT_STEPS, steps)
    yield from _blobs(BAD, BAD_RECORDS, [{"job": JOB, **row} for row in bad.listed])
    yield _blob(FACTS, json.dumps(_facts(evidence, history, bad)).encode())


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


def _times(**given: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, ts_ns in given.items():
        found[name] = None if ts_ns is None else instant(ts_ns)
        found[f"{name}_ns"] = ts_ns
    return found


def _epoch(number: int | None) -> Decimal | None:
    return None if number is None else Decimal(max(0, min(number, EPOCH_MAX)))


def _small(number: int | None) -> int | None:
    return None if number is None else max(-(2**31), min(number, 2**31 - 1))


def view_row(span: Span) -> dict[str, Any]:
    """A row of silver/sentinel_views."""
    belief = span.belief
    return {
        "observer": span.observer, "kind": belief.kind, "master": belief.master, "name": belief.name, "ip": belief.ip,
        "port": _small(belief.port), "runid": belief.runid, "flags": belief.flags, "role_reported": belief.role_reported,
        "config_epoch": _epoch(belief.config_epoch), "failover_state": belief.failover_state,
        "master_host": belief.master_host, "master_port": _small(belief.master_port),
        "master_link": belief.master_link, "voted_leader": belief.leader,
        "voted_leader_epoch": _epoch(belief.leader_epoch), "quorum": _small(belief.quorum),
        **_times(valid_from=span.from_ns), **_times(valid_to=span.to_ns), "cause": span.cause, "source": span.source,
    }  # fmt: skip


def event_row(number: int, row: EventRow) -> dict[str, Any]:
    """A row of silver/sentinel_events."""
    said, switch = read_announcement(row.text), read_switch(row.text) if row.channel == "+switch-master" else None
    master = switch.master if switch is not None else said.master
    subject = said.name if said.role == "sentinel" else str(said.address) if said.role else ""
    return {
        "event_id": number, "observer": row.observer, **_times(ts=row.ts_ns), "channel": row.channel, "text": row.text,
        "master": master or None, "subject": (str(switch.after) if switch is not None else subject) or None,
        "source": row.source,
    }  # fmt: skip


def vote_row(number: int, row: VoteRow) -> dict[str, Any]:
    """A row of silver/sentinel_votes."""
    return {
        "vote_id": number, **_times(ts=row.ts_ns), "voter": row.voter, "candidate": row.candidate, "master": row.master,
        "epoch": _epoch(row.epoch), "voted_for": row.granted_to, "voted_epoch": _epoch(row.granted_epoch),
        "granted": row.is_granted, "says_down": row.says_down, "source": row.source,
    }  # fmt: skip


def incident_row(number: int, one: Incident, history: SentinelHistory, names: dict[str, str]) -> dict[str, Any]:
    """A row of gold/incidents."""
    return {
        "incident": number,
        "incident_id": f"{PREFIX}-{one.kind}-{one.subject[:60]}-{one.started_ns}",
        "kind": one.kind,
        "variant": one.variant,
        "subject": one.subject or None,
        "subject_address": history.addresses.get(one.subject, one.subject if ":" in one.subject else None),
        "winner": one.winner or None,
        "winner_address": one.winner or None,
        "nodes": list(one.nodes),
        "epoch": _epoch(one.epoch),
        "slots": None,
        "slot_count": None,
        "started_at": instant(one.started_ns),
        "started_ns": one.started_ns,
        "ended_at": None if one.ended_ns is None else instant(one.ended_ns),
        "ended_ns": one.ended_ns,
        "duration_ms": None if one.ended_ns is None else (one.ended_ns - one.started_ns) // 1_000_000,
        **{name: getattr(one, name) for name in FIGURES},
        "steps": len(one.steps),
        "summary": summary_of(one, names),
        "message_ids": [],
    }


def step_rows(number: int, one: Incident, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Rows of gold/incident_steps."""
    for place, step in enumerate(one.steps, 1):
        yield {
            "incident": number, "step": place, "at": instant(step.ts_ns), "at_ns": step.ts_ns,
            "until_ns": step.until_ns, "offset_ms": (step.ts_ns - one.started_ns) // 1_000_000, "kind": step.kind,
            "actor": step.actor, "subject": step.subject or None, "epoch": _epoch(step.epoch), "amount": step.amount,
            "detail": step.detail, "message_id": None, "text": step_text(step, names),
        }  # fmt: skip


def _blobs(kind: int, table: Table, rows: Sequence[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), ROWS_PER_BLOB):
        part = pa.Table.from_pylist(list(rows[start : start + ROWS_PER_BLOB]), schema=table_arrow(table))
        yield _blob(kind, packed_table(part))


def _blob(kind: int, blob: bytes) -> pa.RecordBatch:
    schema = pa.schema([("kind", pa.int32()), ("blob", pa.binary())])
    return pa.RecordBatch.from_pylist([{"kind": kind, "blob": blob}], schema=schema)
