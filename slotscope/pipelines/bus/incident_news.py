"""News of incidents while a follower runs: they open, grow, close, or are withdrawn; each has a page.

A command and a webhook are notified of each new state.  ``gold/incident_states`` keeps the last state of each incident, so a restarted
follower repeats no notification, unless it was killed between a notification and that row.
"""

from __future__ import annotations

import json
import os
import posixpath
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from cluster_core.instants import write_instant
from schemas.history import REPLAYS
from schemas.incidents import INCIDENT_STATES, INCIDENTS
from schemas.table import Table
from slotscope.reports.delivery import Page, deliver, report_path
from slotscope.reports.history.html import render_history
from slotscope.reports.history.tables import load_history
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.runs import Run, begin_together, close_together
from slotscope.runtime.text import printable
from slotscope.sources.files import write_text

if TYPE_CHECKING:
    from slotscope.pipelines.bus.options import FollowOptions

Row = dict[str, Any]
JOB = "follow"
OPEN, CLOSED, WITHDRAWN = "open", "closed", "withdrawn"
COMMAND_S: Final = 60
WEBHOOK_S: Final = 10
"""How long a command or a webhook may take."""
SLOW_S: Final = 5
"""A receiver that fails after more than this gets nothing else in this batch."""
ATTEMPTS_MAX: Final = 12
"""Attempts to deliver a state."""
RETRY_NS: Final = 10_000_000_000
"""The wait before the second attempt; it doubles each time."""
_COLUMNS: Final = (
    "incident", "incident_id", "kind", "variant", "subject", "subject_address", "winner", "winner_address", "started_ns", "ended_ns",
    "summary",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hooks:
    """Where notifications go: a *command* as a shell would split it, without a shell; an http(s) address, with a body in *form*."""

    command: str = ""
    webhook: str = ""
    form: str = "json"
    reports_url: str = ""
    """Address of ROOT/reports for links to pages; empty: their paths."""
    slow: dict[str, str] = field(default_factory=dict)
    """Receivers that failed slowly in this batch, and the reasons."""
    waiting: set[str] = field(default_factory=set)
    """Clusters with states to deliver again."""

    @classmethod
    def of(cls, request: FollowOptions) -> Hooks:
        """Where *request* sends notifications."""
        return cls(request.on_incident, request.webhook, request.webhook_format, request.reports_url)

    def check(self) -> None:
        """Raise InputError for an invalid command or address."""
        try:
            is_command = bool(shlex.split(self.command)) or not self.command
            is_web = not self.webhook or (
                urlsplit(self.webhook).scheme in ("http", "https") and bool(urlsplit(self.webhook).hostname)
            )
        except ValueError as error:
            raise InputError(f"--on-incident, --webhook: {error}") from error
        if not is_command or not is_web:
            raise InputError("--on-incident takes a command, --webhook an address that begins with http:// or https://")

    def notify(self, report: Row, failed: str = "") -> str:
        """Notify both, or those that *failed*, the result of an earlier call, names; return the failures in a few words, empty without any."""
        if self.reports_url:
            report = report | {"page": f"{self.reports_url.rstrip('/')}/{posixpath.basename(report['page'])}"}
        receivers = {shlex.split(self.command)[0]: self._run} if self.command else {}
        if self.webhook:  # by its host: the rest of an address may hold a secret
            receivers[urlsplit(self.webhook).hostname or ""] = self._post
        names = {part.partition(": ")[0] for part in failed.split("; ")}
        due = names & receivers.keys() or receivers.keys()
        failures = {name: reason for name, reason in self.slow.items() if name in due}
        for name in due - failures.keys():
            started = time.monotonic()
            try:
                receivers[name](report)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                failures[name] = _reason(error)
                if time.monotonic() - started > SLOW_S:
                    self.slow[name] = failures[name]
        return "; ".join(f"{name}: {reason}" for name, reason in sorted(failures.items()))

    def _run(self, report: Row) -> None:
        known = {
            f"SLOTSCOPE_{name.upper()}": str(report[name] or "")
            for name in ("cluster", "incident_id", "kind", "state", "page")
        }
        subprocess.run(
            shlex.split(self.command),
            input=json.dumps(report).encode(),
            env=os.environ | known,
            timeout=COMMAND_S,
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def _post(self, report: Row) -> None:
        document = json.dumps(FORMS[self.form](report)).encode()
        request = urllib.request.Request(self.webhook, document, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=WEBHOOK_S):
            pass


def _alertmanager(report: Row) -> Row:
    """The body of Alertmanager's webhook, version 4."""
    labels = {"alertname": "SlotscopeIncident", **{name: report[name] for name in ("cluster", "incident_id", "kind")}}
    notes = {"summary": report["summary"], "page": report["page"]}
    status = "firing" if report["state"] == OPEN else "resolved"
    times = {"startsAt": report["started_ns"], "endsAt": report["ended_ns"]}
    alert = {
        "status": status, "labels": labels, "annotations": notes, "generatorURL": report["page"],
        **{name: write_instant(ns) if ns is not None else "0001-01-01T00:00:00Z" for name, ns in times.items()},
        "fingerprint": sha256(json.dumps(labels).encode()).hexdigest()[:16],
    }  # fmt: skip
    return {
        "version": "4", "groupKey": f"{report['cluster']}/{report['incident_id']}", "truncatedAlerts": 0, "status": status,
        "receiver": "slotscope", "groupLabels": labels, "commonLabels": labels, "commonAnnotations": notes,
        "externalURL": report["page"], "alerts": [alert],
    }  # fmt: skip


def _slack(report: Row) -> Row:
    """The body of an incoming webhook of Slack, Mattermost or Rocket.Chat."""
    return {"text": f"{report['cluster']}: {report['kind']} {report['state']}: {report['summary']}\n{report['page']}"}


FORMS: Final[dict[str, Callable[[Row], Row]]] = {
    "json": dict, "alertmanager": _alertmanager, "slack": _slack,
}  # fmt: skip
"""Bodies of webhooks."""


def _reason(error: Exception) -> str:
    """Return the reason of *error* without an address: it may hold a secret."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}"
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    reason = inner.strerror if isinstance(inner, OSError) else None
    return reason or type(inner).__name__


def spread_news(root: str, clusters: Sequence[str], hooks: Hooks) -> list[str]:
    """Write pages and notify of incidents that changed in *clusters* since the last call; return a line for each change.

    States that were not delivered are tried again, also those of other clusters.
    """
    clusters = sorted({*clusters, *hooks.waiting})
    if not clusters:
        return []
    hooks.slow.clear()
    rows = _by_cluster(root, INCIDENTS, clusters, *_COLUMNS, order_by="incident")
    states = _by_cluster(root, INCIDENT_STATES, clusters)
    replays = _by_cluster(root, REPLAYS, clusters, "first_ns")
    lines, known = list[str](), {}
    for cluster in clusters:
        before = {state["incident_id"]: state for state in states.get(cluster, [])}
        first_ns = next((row["first_ns"] or 0 for row in replays.get(cluster, [])), 0)
        changed = _spread(root, cluster, rows.get(cluster, []), before, first_ns, hooks, lines)
        if changed:
            known[cluster] = before | {state["incident_id"]: state for state in changed}
        latest = known.get(cluster, before).values()
        hooks.waiting.discard(cluster)
        if any(map(_is_waiting, latest)):
            hooks.waiting.add(cluster)
    named = {name: row["cluster"] for tables in (states, rows) for name, mine in tables.items() for row in mine}
    runs = [Run(root, JOB, cluster, named[cluster], continues=True) for cluster in known]
    if runs:
        begin_together(runs)
        for run in runs:
            latest = known[run.name].values()
            run.append(INCIDENT_STATES, (state | {"told": state["told_ns"] // 1000} for state in latest))
        close_together(runs)
    return [printable(line) for line in lines]


def _spread(
    root: str, cluster: str, now: list[Row], before: Mapping[str, Row], first_ns: int, hooks: Hooks, lines: list[str]
) -> list[Row]:
    """Write the pages of one cluster, which is known since *first_ns*; return its changed states, and add their *lines*."""
    ids = {row["incident_id"] for row in now}
    listed = [(row, _state_of(row)) for row in now]
    missing = [(_withdrawn(state), state["state"]) for name, state in before.items() if name not in ids]
    listed += [(row, WITHDRAWN) for row, state in missing if state != CLOSED or row["started_ns"] >= first_ns]
    due = [(row, state) for row, state in listed if _is_due(row, state, before.get(row["incident_id"]))]
    if not due:
        return []
    report = load_history(root, cluster)
    deliver(report, root=root, html=None, stream=None)
    states = []
    for row, state in due:
        page = report_path(root, cluster, row["incident_id"], page=Page.INCIDENT)
        if state != WITHDRAWN:
            shown = [line for line in report.incidents if line.number == row["incident"]]
            write_text(page, render_history(replace(report, incidents=shown, findings=[])))
        known = before.get(row["incident_id"])
        states.append(_reported(cluster, row | {"state": state, "page": page}, known, hooks, lines))
    return states


def _by_cluster(
    root: str, table: Table, clusters: Sequence[str], *columns: str, order_by: str = ""
) -> dict[str, list[Row]]:
    """The rows of *table* by cluster."""
    names = ("snapshot_id", "cluster", *columns) if columns else ()
    where = delta_files.any_of("snapshot_id", clusters)
    by_cluster: dict[str, list[Row]] = {}
    for row in delta_files.read_rows(root, table, columns=names, where=where, order_by=order_by):
        by_cluster.setdefault(row["snapshot_id"], []).append(row)
    return by_cluster


def _state_of(row: Row) -> str:
    return OPEN if row["ended_ns"] is None else CLOSED


def _withdrawn(state: Row) -> Row:
    """Return the row of an incident that later files disproved, from its state."""
    kind, _, started_ns = state["incident_id"].rsplit("-", 2)
    known = {"incident_id": state["incident_id"], "summary": state["summary"], "kind": kind}
    return dict.fromkeys(_COLUMNS) | known | {"started_ns": int(started_ns), "ended_ns": state["told_ns"]}


def _is_due(row: Row, state: str, before: Row | None) -> bool:
    if before is None or before["state"] != state or before["summary"] != row["summary"]:
        return True
    return _is_waiting(before) and time.time_ns() >= before["told_ns"] + (RETRY_NS << (before["attempts"] - 1))


def _is_waiting(state: Row) -> bool:
    """Whether a state was not delivered and is tried again."""
    return bool(state["failure"]) and state["attempts"] < ATTEMPTS_MAX


def _reported(cluster: str, row: Row, before: Row | None, hooks: Hooks, lines: list[str]) -> Row:
    """Notify of an incident in a new state, or again after a failure; return its state, and add its *lines*."""
    is_same = before is not None and before["state"] == row["state"]
    failure, attempts = (before["failure"] or "", before["attempts"]) if before and is_same else ("", 0)
    if failure or not is_same:
        document = {name: row[name] for name in (*_COLUMNS, "state", "page") if name != "incident"}
        failure, attempts = hooks.notify(document | {"cluster": cluster}, failure), attempts + 1
    if not (before and is_same and before["summary"] == row["summary"]):
        lines.append(f"{cluster}: {row['state']}: {row['summary']} ({row['page']})")
    if failure:
        lines.append(f"{cluster}: {row['incident_id']}: not delivered: {failure}")
    report = {name: row[name] for name in ("incident_id", "state", "summary", "page")}
    return report | {"told_ns": time.time_ns(), "failure": failure or None, "attempts": attempts}
