"""The dry run of a plan (checks, batches, the exact commands) and its audit (promised and measured figures), as documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cluster_core.rebalance.audit import LOAD, Finding
from cluster_core.rebalance.execution.cluster_now import MigrationPath
from cluster_core.rebalance.execution.situation import Situation, commands_of, examine
from cluster_core.rebalance.plan import Batch
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.slot_set import SlotSet
from slotscope.reports.document import (
    Cell,
    Column,
    Document,
    Facts,
    Format,
    Place,
    Preformatted,
    Section,
    Sentence,
    Table,
)
from slotscope.reports.rebalance.report import amount, factor, resource_label
from slotscope.reports.unread import partial_lines
from slotscope.runtime import text

COMMANDS_SHOWN_MAX = 8
LINE_CHARS_MAX = 1 << 20
"""Commands are never cut; one with every second slot is a tenth of this."""
ALL_OTHERS = "every other master"

Line = tuple[str, str]
"""Address and command."""


def dry_run_document(stored: StoredPlan, prospect: Situation) -> Document:
    """Return the dry run: checks, batches and commands."""
    addresses = {node.id: node.address or node.id for node in stored.nodes}
    at, total_s = list(stored.problem.loads).index(stored.problem.cost), sum(prospect.seconds)
    checks: list[list[Cell | str]] = [
        [Cell("failed" if problems else "ok", style="alarm" if problems else ""), title]
        for title, problems in examine(prospect)
    ]
    jobs: list[list[Any]] = [
        [
            batch.number,
            addresses[job.source],
            addresses[job.target],
            len(job.slots),
            len(job.ranges),
            Cell(job.loads[at], amount(stored.problem.cost, job.loads[at])),
            None if number else seconds,
        ]
        for batch, seconds in zip(prospect.batches, prospect.seconds, strict=True)
        for number, job in enumerate(batch.jobs)
    ]
    columns = [
        Column("Batch", Format.COUNT),
        Column("From"),
        Column("To"),
        Column("Slots", Format.COUNT),
        Column("Ranges", Format.COUNT),
        Column(resource_label(stored.problem.cost), Format.COUNT),
        Column("About", Format.DURATION),
    ]
    commands = _typed(command_lines(stored, prospect))
    moves = f"{text.plural(sum(len(job.slots) for batch in prospect.batches for job in batch.jobs), 'slot')} in {text.plural(len(prospect.batches), 'batch', 'batches')}"
    verdict = (
        f"This run would be refused: {prospect.refusals[0]}"
        if prospect.refusals
        else f"Move {moves}, about {text.duration(total_s)}."
    )
    sections = [
        Section("partial", "Partial input", [Sentence(line) for line in partial_lines(stored.unread)]),
        Section(
            "checks", "Checks", [Table("checks", "", [Column(""), Column("Check")], checks, on_terminal=len(checks))]
        ),
        Section("batches", "Batches", [Table("batches", "", columns, jobs, on_terminal=len(jobs))]),
    ]
    if prospect.path is MigrationPath.LEGACY and commands:
        count = text.plural(len(commands), "command")
        sections.append(Section("commands", "Commands", [Sentence(f"{count}, slot by slot: --commands - prints them")]))
    else:
        sections.append(Section("commands", "Commands", _lines(commands)))
    return Document("execution", f"plan {stored.plan_id}", verdict, sections, subtitle=f" · by {prospect.path.value}")


def _lines(lines: Sequence[str]) -> list[Preformatted | Sentence]:
    if not lines:
        return []
    block = Preformatted("\n".join(lines[:COMMANDS_SHOWN_MAX]), "Commands", Place.TERMINAL)
    more = len(lines) - COMMANDS_SHOWN_MAX
    return [block, Sentence(f"and {text.count(more)} more; --commands - prints all")] if more > 0 else [block]


def command_lines(stored: StoredPlan, prospect: Situation, batches: Sequence[Batch] | None = None) -> Iterator[Line]:
    """Yield the commands of *batches* (all that are left) in order; a batch begins with a comment."""
    addresses = {node.id: node.address or node.id for node in stored.nodes}
    for batch in prospect.batches if batches is None else batches:
        yield "#", f"batch {batch.number}"
        for command in commands_of(batch, prospect.path):
            arguments = command.arguments
            command_line = " ".join(map(str, arguments))
            if arguments[1] == "GETKEYSINSLOT":
                command_line += "   # until it answers none"
            if arguments[0] == "MIGRATE":
                host, _, port = addresses[str(arguments[1])].rpartition(":")
                command_line = f'MIGRATE {host} {port} "" 0 {prospect.migrate_ms} KEYS …   # the keys just listed; with a password, AUTH or AUTH2 before KEYS'
            yield addresses[command.node], command_line
            if arguments[3:4] == ("NODE",) and arguments[4] != command.node and prospect.path is MigrationPath.LEGACY:
                yield ALL_OTHERS, command_line


def _typed(lines: Iterable[Line]) -> list[str]:
    """Return *lines* as a person types them, safe for a terminal."""
    return [_safe(f"# {command_line}" if where == "#" else f"{where}> {command_line}") for where, command_line in lines]


def command_text(stored: StoredPlan, prospect: Situation) -> str:
    """Return all commands as a person types them."""
    head = [
        f"# plan {stored.plan_id}, by {prospect.path.value}",
        *(f"# {line}" for line in partial_lines(stored.unread)),
        f"# address> command; a batch begins when every job of the last one has ended; {ALL_OTHERS}: all masters below",
        *(f"# master {node.id} {node.address}" for node in stored.nodes),
    ]
    return "".join(f"{line}\n" for line in [*map(_safe, head), *_typed(command_lines(stored, prospect))])


def dry_run_json(stored: StoredPlan, prospect: Situation) -> dict[str, Any]:
    """Return the dry run as JSON."""
    return {
        "plan_id": stored.plan_id,
        "snapshot_id": stored.snapshot_id,
        "state_hash": stored.state_hash,
        "partial": partial_lines(stored.unread),
        "path": prospect.path.value,
        "refusals": list(prospect.refusals),
        "estimated_s": round(sum(prospect.seconds), 3),
        "masters": [{"id": node.id, "address": node.address, "zone": node.zone} for node in stored.nodes],
        "batches": [
            {
                "batch": batch.number,
                "estimated_s": round(seconds, 3),
                "jobs": [
                    {
                        "source": job.source,
                        "target": job.target,
                        "slots": str(SlotSet(job.slots)),
                        **dict(zip(stored.problem.loads, job.loads, strict=True)),
                    }
                    for job in batch.jobs
                ],
                "commands": _json_lines(command_lines(stored, prospect, [batch])),
            }
            for batch, seconds in zip(prospect.batches, prospect.seconds, strict=True)
        ],
    }


def _json_lines(lines: Iterator[Line]) -> list[dict[str, str]]:
    return [
        {"node": where, "command": command_line.partition("   # ")[0]} for where, command_line in lines if where != "#"
    ]


def _safe(line: str) -> str:
    """Return *line* without control characters."""
    return line if line.isascii() and line.isprintable() else text.printable(line, LINE_CHARS_MAX)


_LIMIT_STATES = {True: "kept", False: "BROKEN", None: "not compared"}
_STYLES = {True: "strong", False: "alarm", None: "quiet"}


def audit_document(stored: StoredPlan, findings: Sequence[Finding]) -> Document:
    """Return *findings* as a table, then how each was measured; broken promises come first."""
    columns = [
        Column("Promise", Format.TEXT, _name),
        Column("Promised", Format.COUNT, lambda finding: Cell(finding.promised, _figure(finding, finding.promised))),
        Column("Measured", Format.COUNT, lambda finding: Cell(finding.measured, _measured(finding), style="strong")),
        Column(
            "",
            Format.TEXT,
            lambda finding: Cell(
                "unknown" if finding.is_unknown else _LIMIT_STATES[finding.kept], style=_STYLES[finding.kept]
            ),
        ),
    ]
    ordered = sorted(findings, key=lambda finding: finding.kept is not False)
    sections = [
        Section("partial", "Partial input", [Sentence(line) for line in partial_lines(stored.unread)]),
        Section("findings", "Promises", [Table("findings", "", columns, findings, on_terminal=len(findings))]),
        Section("reasons", "How it was measured", [Facts([(_name(finding), finding.detail) for finding in ordered])]),
    ]
    return Document("audit", f"audit of plan {stored.plan_id}", _verdict(findings), sections)


def _verdict(findings: Sequence[Finding]) -> str:
    broken = sum(finding.kept is False for finding in findings)
    if broken:
        return f"{text.plural(broken, 'promise')} of the plan {'is' if broken == 1 else 'are'} broken."
    unknown = [
        f"{_name(finding)} {_measured(finding)} (allowed: {factor(finding.allowed)})"
        for finding in findings
        if finding.is_unknown
    ]
    if unknown:
        return f"Unknown whether the plan kept its promise: {', '.join(unknown)}."
    skipped = [_name(finding) for finding in findings if finding.kept is None]
    if skipped:
        return f"The plan kept its promises as far as they were compared; not compared: {', '.join(skipped)}."
    return "The plan kept its promises."


def _name(finding: Finding) -> str:
    return resource_label(finding.resource) if finding.aspect == LOAD else finding.aspect


def _measured(finding: Finding) -> str:
    """The measured figure with its error: ``1.040× ±0.030``."""
    return _figure(finding, finding.measured) + (f" ±{finding.error:.3f}" if finding.error else "")


def _figure(finding: Finding, value: float | None) -> str:
    if value is None:
        return text.NOTHING
    return factor(value) if finding.aspect == LOAD else text.count(round(value))
