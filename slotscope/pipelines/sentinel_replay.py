"""From logs and polls of sentinels to their tables, without Spark: a few thousand lines cover weeks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cluster_core.incidents.rows import IncidentRow, StepRow, incident_row, step_rows
from cluster_core.incidents.story import name_all
from cluster_core.kinds import Severity
from cluster_core.sentinel_history.history import SentinelHistory, fold_history
from cluster_core.sentinel_history.incidents import find_sentinel_incidents, step_text, summary_of
from cluster_core.sentinel_history.rows import SentinelEventRow, SentinelViewRow, SentinelVoteRow
from schemas.bronze import BAD_RECORDS
from schemas.caveats import Caveat, Code
from schemas.history import REPLAYS, SENTINEL_PROFILE
from schemas.incidents import INCIDENT_STEPS, INCIDENTS
from schemas.sentinel import SENTINEL_EVENTS, SENTINEL_VIEWS, SENTINEL_VOTES
from schemas.table import rows_table
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import progress
from slotscope.runtime.storage.runs import Run, running
from slotscope.runtime.text import plural
from slotscope.sources.bus.polls_and_logs import instant
from slotscope.sources.files import expand
from slotscope.sources.folder_kinds import POLLS
from slotscope.sources.sentinel import BadRecords, SentinelEvidence, SentinelFiles, read_evidence
from slotscope.sources.server_logs import find_logs, pairs_of, zone_of

JOB = "sentinel-replay"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Counts of a replay; *strangers* are files and nodes that belong to no known sentinel."""

    lines: int
    answers: int
    sentinels: int
    events: int
    bad_records: int
    down_after_ms: int
    first_ns: int
    last_ns: int
    strangers: tuple[str, ...] = ()
    snapshot: str = ""

    @property
    def line(self) -> str:
        """The replay in one line."""
        return (
            f"{plural(self.sentinels, 'sentinel')}, {plural(self.events, 'event')} from {plural(self.lines, 'log line')}"
            f" and {plural(self.answers, 'poll')}"
        )


def find_files(
    *, log: Sequence[str] = (), polls: Sequence[str] = (), log_zone: str = "UTC", log_node: Sequence[str] = ()
) -> SentinelFiles:
    """Find the files; raises InputError for invalid options, DecodeError for missing files."""
    if not (log or polls):
        raise InputError("nothing to read: name logs with --log, or polls with --polls")
    zone_of(log_zone)
    logs = tuple(file.path for file in find_logs(log, log_node)) if log or log_node else ()
    polled = tuple(file.path for file in expand(list(polls), POLLS)) if polls else ()
    return SentinelFiles(logs, polled, log_zone, pairs_of(log_node, (*logs, *polled)))


def replay_sentinels(
    files: SentinelFiles, *, root: str, snapshot: str | None, cluster: str | None = None, permissive: bool = False
) -> Outcome:
    """Replay into the tables of *snapshot*; raises DecodeError for bad input in strict mode.

    Incidents of a cluster that the snapshot has stay; those of sentinels are numbered behind them.
    """
    sizes = {file.path: file.size for file in expand([*files.logs, *files.polls])}
    with running(root, JOB, snapshot, cluster=cluster, inputs=sizes) as run:
        bad = BadRecords(strict=not permissive)
        with progress("replaying"):
            evidence = read_evidence(files, bad)
            history = fold_history(evidence.all())
        with progress("writing tables"):
            _write(run, history, bad)
            outcome = _outcome(run, evidence, history, bad)
            _write_replay(run, outcome)
        run.data_at = instant(history.last_ns) if history.last_ns else None
        run.partial = bool(bad.count)
    return outcome


def _write(run: Run, history: SentinelHistory, bad: BadRecords) -> None:
    number = max((row["incident"] for row in run.read(INCIDENTS, ("incident",))), default=0)
    stories, steps = _incident_rows(history, number)
    run.append(BAD_RECORDS, pa.Table.from_pylist([{"job": JOB, **row} for row in bad.listed], BAD_RECORDS.unlabelled))
    for table, kind, rows in (
        (SENTINEL_VIEWS, SentinelViewRow, history.views),
        (SENTINEL_EVENTS, SentinelEventRow, history.events),
        (SENTINEL_VOTES, SentinelVoteRow, history.votes),
        (INCIDENT_STEPS, StepRow, steps),
        (INCIDENTS, IncidentRow, stories),
    ):
        run.append(table, rows_table(rows, kind, table))


def _incident_rows(history: SentinelHistory, known: int) -> tuple[list[IncidentRow], list[StepRow]]:
    """Incidents and their steps, numbered behind the *known* incidents of the snapshot."""
    names = name_all(history.observers, history.addresses)
    stories: list[IncidentRow] = []
    steps: list[StepRow] = []
    for number, incident in enumerate(find_sentinel_incidents(history), known + 1):
        addresses = {
            incident.subject: history.addresses.get(
                incident.subject, incident.subject if ":" in incident.subject else None
            )
        }
        addresses[incident.winner] = incident.winner or None
        stories.append(incident_row(number, incident, summary_of(incident, names), addresses, prefix=SENTINEL_PROFILE))
        steps += step_rows(number, incident, lambda step: step_text(step, names), sees_gaps=False)
    return stories, steps


def _outcome(run: Run, evidence: SentinelEvidence, history: SentinelHistory, bad: BadRecords) -> Outcome:
    return Outcome(
        lines=evidence.lines,
        answers=evidence.answers,
        sentinels=len(history.observers),
        events=len(history.events),
        bad_records=bad.count,
        down_after_ms=history.down_after_ms,
        first_ns=history.first_ns,
        last_ns=history.last_ns,
        strangers=tuple(sorted(evidence.strangers)[:20]),
        snapshot=run.name,
    )


def _write_replay(run: Run, outcome: Outcome) -> None:
    """The row of silver/replays without which no report shows the snapshot; that of a cluster's replay stays."""
    if run.read(REPLAYS, ("cluster",)):
        return
    row = {
        **_times("first", outcome.first_ns), **_times("last", outcome.last_ns),
        "messages": 0, "observers": outcome.sentinels, "node_timeout_ms": outcome.down_after_ms,
        "node_timeout_from": "estimated" if outcome.down_after_ms else "default", "profile": SENTINEL_PROFILE,
        "polls": outcome.answers, "log_events": outcome.lines, "bad_records": outcome.bad_records, "repeated_bytes": 0,
        "files": list(run.inputs.items()), "warnings": [warning._asdict() for warning in _warnings(outcome)],
    }  # fmt: skip
    run.append(REPLAYS, [row])


def _warnings(outcome: Outcome) -> list[Caveat]:
    caveats = [
        Caveat(
            Severity.WARNING,
            Code.UNKNOWN_SENTINEL,
            f"{name} belongs to no known sentinel; name it with --log-node",
            name,
        )
        for name in outcome.strangers
    ]
    if outcome.bad_records:
        text = f"{outcome.bad_records} bad records: see bronze/bad_records"
        caveats.append(Caveat(Severity.WARNING, Code.BAD_EVIDENCE, text))
    return caveats


def _times(name: str, ts_ns: int) -> dict[str, Any]:
    return {name: instant(ts_ns) if ts_ns else None, f"{name}_ns": ts_ns or None}
