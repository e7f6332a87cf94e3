"""Outcome of a replay: its lines at the end, and their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cluster_core.kinds import Severity
from schemas import history
from schemas.caveats import Caveat, Code
from slotscope.pipelines.bus.inputs import Inputs
from slotscope.runtime.storage.delta_files import as_table
from slotscope.runtime.text import plural

if TYPE_CHECKING:
    from slotscope.pipelines.bus.options import HistoryOptions


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a replay."""

    messages: int
    observers: int
    bad_records: int
    node_timeout_ms: int
    warnings: list[Caveat]
    new_files: int
    known_files: int
    snapshot: str
    polls: int = 0
    log_events: int = 0
    scrapes: int = 0

    @property
    def summary(self) -> str:
        """The counts of the evidence, and the node timeout."""
        counts = (
            (self.messages, "message"), (self.polls, "poll"), (self.log_events, "log line"), (self.scrapes, "scrape"),
        )  # fmt: skip
        read = ", ".join(plural(count, noun) for count, noun in counts if count) or "0 messages"
        timeout = f"{self.node_timeout_ms} ms"
        if any(warning.code == Code.NODE_TIMEOUT for warning in self.warnings):
            timeout = f"{timeout}, assumed" if self.messages else "unknown, give --node-timeout-ms"
        return f"{read}, {plural(self.observers, 'process', 'processes')}, node timeout {timeout}"

    def lines(self) -> list[str]:
        """The summary with the number of files, and the number of bad records."""
        files = plural(self.new_files, "new file") + (f", {self.known_files} known" if self.known_files else "")
        lines = [f"{self.summary} ({files})"]
        if self.bad_records:
            lines.append(f"{plural(self.bad_records, 'bad record')}: see bronze/bad_records")
        return lines


def outcome_of(
    request: HistoryOptions,
    inputs: Inputs,
    facts: dict[str, Any],
    known_files: int,
    caveats: Iterable[Caveat],
    snapshot: str,
) -> Outcome:
    """Return the outcome of a replay from the *facts* of its first task and the *caveats* of others."""
    warnings = [*caveats, *(Caveat.of(*note) for note in facts["notes"])]
    if facts["left_out"]:
        text = f"{plural(len(facts['left_out']), 'file')} read only in part: see bronze/late_files"
        warnings.append(Caveat(Severity.WARNING, Code.LATE, text))
    if facts["node_timeout_from"] == "default" and inputs.captures:
        text = "node timeout: unknown from the traffic; the default of 15000 ms is assumed; give --node-timeout-ms"
        warnings.append(Caveat(Severity.WARNING, Code.NODE_TIMEOUT, text))
    if facts["node_timeout_from"] == "default" and not inputs.captures:
        text = "node timeout: unknown; give --node-timeout-ms. Without it, events up to 30 s apart are taken for one incident"
        warnings.append(Caveat(Severity.NOTE, Code.NODE_TIMEOUT, text))
    if facts["fitting"] and request.profile is None and inputs.captures:
        several = "; ".join(facts["fitting"])
        taken = ", ".join(facts["profiles"])
        text = (
            f"server version: ambiguous from the traffic ({several}); the rules of {taken} are used;"
            " give --profile, or --log with the start of a server"
        )
        warnings.append(Caveat(Severity.NOTE, Code.PROFILE, text))
    if inputs.captures and not facts["messages"]:
        warnings.append(Caveat(Severity.WARNING, Code.NO_MESSAGES, "the captures hold no cluster-bus message"))
    if facts["clock_steps"]:
        text = f"the clock of the captures was set back {facts['clock_steps']} times"
        warnings.append(Caveat(Severity.WARNING, Code.CLOCK, text))
    return Outcome(
        facts["messages"],
        len(facts["processes"]),
        facts["bad_records"],
        facts["node_timeout_ms"],
        warnings,
        len(inputs.sizes()) - known_files,
        known_files,
        snapshot,
        facts["polls"],
        facts["log_events"],
        facts["scrapes"],
    )


def replay_row(request: HistoryOptions, inputs: Inputs, facts: dict[str, Any], outcome: Outcome) -> pa.Table:
    """The row of silver/replays."""
    row: dict[str, Any] = {
        "first_ns": facts["first_ns"] or None,
        "last_ns": facts["last_ns"] or None,
        "messages": outcome.messages,
        "observers": outcome.observers,
        "node_timeout_ms": outcome.node_timeout_ms,
        "node_timeout_from": facts["node_timeout_from"],
        "profile": request.profile or ",".join(facts["profiles"]),
        "polls": facts["polls"],
        "log_events": facts["log_events"],
        "bad_records": outcome.bad_records,
        "repeated_bytes": facts["repeated_bytes"],
        "files": list(inputs.sizes().items()),
        "warnings": [warning._asdict() for warning in outcome.warnings],
    }
    for end in ("first", "last"):
        row[end] = None if row[f"{end}_ns"] is None else row[f"{end}_ns"] // 1000
    return as_table(history.REPLAYS, [row])


def late_rows(facts: dict[str, Any]) -> pa.Table:
    """Rows of bronze/late_files: files that were read in part."""
    rows = [
        {
            "source": path,
            "reason": reason,
            "left_out": left_out,
            "taken": taken,
            "settled_ns": watermark_ns or None,
            "settled": watermark_ns // 1000 or None,
        }
        for path, reason, left_out, taken, watermark_ns in facts["left_out"]
    ]
    return as_table(history.LATE_FILES, rows)
