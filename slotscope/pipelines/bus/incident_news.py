"""What a follower says of incidents: they open, grow and close; each closing becomes a page, and a command or a webhook hears of it.

``gold/incident_states`` keeps what was said last of each incident, so that a follower that is started again says nothing twice; one that is
killed between a command and that row runs the command again.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from schemas.incidents import INCIDENT_STATES, INCIDENTS
from schemas.table import Table
from slotscope.reports.delivery import Page, deliver, report_path
from slotscope.reports.history.html import render_history
from slotscope.reports.history.report import HistoryReport
from slotscope.reports.history.tables import load_history
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.runs import Run, begin_together, close_together
from slotscope.runtime.storage.snapshot_names import cluster_of
from slotscope.runtime.text import printable
from slotscope.sources.files import write_text

JOB = "follow"
OPEN, CLOSED, WITHDRAWN = "open", "closed", "withdrawn"
COMMAND_S: Final = 60
WEBHOOK_S: Final = 10
"""How long a command or a webhook may take."""
ATTEMPTS_MAX: Final = 5
"""How often a closing is told that nobody takes."""
_COLUMNS: Final = (
    "incident", "incident_id", "kind", "variant", "subject", "subject_address", "winner", "winner_address", "started_ns", "ended_ns",
    "summary",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hooks:
    """Who hears of a closing: a *command* as a shell would split it, without a shell; an http(s) address."""

    command: str = ""
    webhook: str = ""

    def check(self) -> None:
        """Raise InputError for what cannot work."""
        try:
            is_command = bool(shlex.split(self.command)) or not self.command
            is_web = not self.webhook or (
                urlsplit(self.webhook).scheme in ("http", "https") and bool(urlsplit(self.webhook).hostname)
            )
        except ValueError as error:
            raise InputError(f"--on-incident, --webhook: {error}") from error
        if not is_command or not is_web:
            raise InputError("--on-incident takes a command, --webhook an address that begins with http:// or https://")

    @property
    def _host(self) -> str:
        """Whose the webhook is: the rest of an address may hold a secret."""
        return urlsplit(self.webhook).hostname or ""

    def tell(self, told: dict[str, Any], failed: str = "") -> str:
        """Tell both, or who was not told as *failed*, which an earlier call returned, says; what went wrong in a few words, empty if nothing did."""
        document = json.dumps(told).encode()
        names = {part.partition(": ")[0] for part in failed.split("; ")}
        program, host = shlex.split(self.command)[:1], self._host
        due = names & {*program, host} or {*program, host}
        failures = (
            self._run(document, told) if due.issuperset(program) else "",
            self._post(document) if host in due else "",
        )
        return "; ".join(filter(None, failures))

    def _run(self, document: bytes, told: dict[str, Any]) -> str:
        if not self.command:
            return ""
        words = shlex.split(self.command)
        known = {
            f"SLOTSCOPE_{name.upper()}": str(told[name] or "") for name in ("cluster", "incident_id", "kind", "page")
        }
        try:
            ended = subprocess.run(
                words, input=document, env=os.environ | known, timeout=COMMAND_S, stdout=subprocess.DEVNULL, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{words[0]}: {_reason(error)}"
        return f"{words[0]}: exit code {ended.returncode}" if ended.returncode else ""

    def _post(self, document: bytes) -> str:
        if not self.webhook:
            return ""
        host = self._host
        request = urllib.request.Request(self.webhook, document, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=WEBHOOK_S):
                return ""
        except urllib.error.HTTPError as error:
            return f"{host}: HTTP {error.code}"
        except (OSError, ValueError) as error:
            return f"{host}: {_reason(error)}"


def _reason(error: Exception) -> str:
    """What went wrong, without what an address may hold."""
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    words = inner.strerror if isinstance(inner, OSError) else None
    return words or type(inner).__name__


def spread_news(root: str, clusters: Sequence[str], hooks: Hooks) -> list[str]:
    """Write pages and tell of what changed in *clusters* since the last time; a line for each change."""
    rows = _by_cluster(root, INCIDENTS, clusters, *_COLUMNS, order_by="incident")
    states = _by_cluster(root, INCIDENT_STATES, clusters)
    lines, known = [], {}
    for cluster in clusters:
        before = {state["incident_id"]: state for state in states.get(cluster, [])}
        news = _spread(root, cluster, rows.get(cluster, []), before, hooks)
        if news is not None:
            known[cluster] = before | {state["incident_id"]: state for state in news.states}
            lines += news.lines
    runs = [Run(root, JOB, cluster, cluster_of(root, cluster)) for cluster in known]
    if runs:
        begin_together(runs)
        for run in runs:
            latest = known[run.name].values()
            run.append(INCIDENT_STATES, (state | {"told": state["told_ns"] // 1000} for state in latest))
        close_together(runs)
    return [printable(line) for line in lines]


class _News(NamedTuple):
    """The incidents of a cluster that changed, as they are now, and what is said of them."""

    states: list[dict[str, Any]]
    lines: list[str]


def _spread(
    root: str, cluster: str, now: list[dict[str, Any]], before: Mapping[str, dict[str, Any]], hooks: Hooks
) -> _News | None:
    """Write the pages of one cluster and tell of its changes; None without any."""
    changed = [row for row in now if _is_news(row, before.get(row["incident_id"]))]
    ids = {row["incident_id"] for row in now}
    gone = [state for name, state in before.items() if name not in ids and state["state"] != WITHDRAWN]
    if not changed and not gone:
        return None
    report = load_history(root, cluster)
    deliver(report, root=root, html=None, stream=None)
    found = _News([], [])
    for row in changed:
        state, lines = _tell(root, cluster, row, before.get(row["incident_id"]), report, hooks)
        found.states.append(state)
        found.lines.extend(lines)
    found.states.extend(state | {"state": WITHDRAWN, "told_ns": time.time_ns()} for state in gone)
    found.lines.extend(f"{cluster}: withdrawn: {state['summary']}" for state in gone)
    return found


def _by_cluster(
    root: str, table: Table, clusters: Sequence[str], *columns: str, order_by: str = ""
) -> dict[str, list[dict[str, Any]]]:
    """The rows of *table* by cluster; none where nothing was written yet."""
    if not delta_files.exists(root, table):
        return {}
    names, where = ("snapshot_id", *columns) if columns else None, delta_files.any_of("snapshot_id", clusters)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in delta_files.read_rows(root, table, columns=names, where=where, order_by=order_by):
        found.setdefault(row["snapshot_id"], []).append(row)
    return found


def _state_of(row: dict[str, Any]) -> str:
    return OPEN if row["ended_ns"] is None else CLOSED


def _is_news(row: dict[str, Any], before: dict[str, Any] | None) -> bool:
    if before is None or before["state"] != _state_of(row) or before["summary"] != row["summary"]:
        return True
    return bool(before["failure"]) and before["attempts"] < ATTEMPTS_MAX


def _tell(
    root: str, cluster: str, row: dict[str, Any], before: dict[str, Any] | None, report: HistoryReport, hooks: Hooks
) -> tuple[dict[str, Any], list[str]]:
    """What is known of an incident now, and what is said of it."""
    state, page = _state_of(row), report_path(root, cluster, row["incident_id"], page=Page.INCIDENT)
    one = replace(report, incidents=[line for line in report.incidents if line.number == row["incident"]], findings=[])
    write_text(page, render_history(one))
    was_closed = before is not None and before["state"] == CLOSED
    failure, attempts = "", before["attempts"] if before is not None and was_closed else 0
    if state == CLOSED and (not was_closed or (before is not None and before["failure"])):
        told = {name: row[name] for name in _COLUMNS if name != "incident"} | {
            "cluster": cluster,
            "state": state,
            "page": page,
        }
        failed = (before["failure"] or "") if before is not None and was_closed else ""
        failure, attempts = hooks.tell(told, failed), attempts + 1
    is_known = before is not None and (before["state"], before["summary"]) == (state, row["summary"])
    lines = [] if is_known else [f"{cluster}: {state}: {row['summary']} ({page})"]
    if failure:
        lines.append(f"{cluster}: {row['incident_id']} could not be told: {failure}")
    return {
        "incident_id": row["incident_id"],
        "state": state,
        "summary": row["summary"],
        "page": page,
        "told_ns": time.time_ns(),
        "failure": failure or None,
        "attempts": attempts,
    }, lines
