"""A plan that is to be carried out, as a person reviews it: checks, batches, the exact commands of every dialect; as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cluster_core.rebalance.execution.commands import Command, Path, abort_of, commands_of
from cluster_core.rebalance.execution.machine import Prospect
from cluster_core.rebalance.execution.refusals import name_of
from cluster_core.rebalance.execution.remaining import waves
from cluster_core.rebalance.ordering import Batch
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.slot_set import SlotSet
from slotscope.reports.unread import partial_lines
from slotscope.runtime.text import printable

SHOWN_LINES_MAX = 40
"""Lines of commands on a terminal; --commands writes all."""
LINE_CHARS_MAX = 1 << 20
"""A command with every second slot is a tenth of this."""
OTHERS = "every other master"

Line = tuple[str, str]
"""Where, and what."""


def prospect_lines(stored: StoredPlan, prospect: Prospect, checks: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return the dry run: what was checked, the batches as a table, the commands, the time it takes."""
    lines = [f"plan {stored.plan_id} of snapshot {stored.snapshot_id}, by {prospect.path.value}", ""]
    for title, found in checks:
        lines.append(f"  {'no ' if found else 'ok '} {title}")
        lines += [f"       {sentence}" for sentence in found]
    lines += ["", *batch_table(stored, prospect), ""]
    script = [
        f"{where}{'>' if where != '#' else ''} {words}"
        for where, words in command_lines(stored, prospect.batches, prospect.path, prospect.migrate_ms)
    ]
    lines += script[:SHOWN_LINES_MAX]
    if len(script) > SHOWN_LINES_MAX:
        lines.append(f"… and {len(script) - SHOWN_LINES_MAX} more; --commands FILE writes all")
    lines += [
        "",
        "to stop what runs:",
        *_first(f"{w}> {c}" for w, c in abort_lines(stored, prospect.batches, prospect.path)),
    ]
    lines += ["", f"about {_duration(sum(prospect.seconds))} in all"]
    return [_safe(line) for line in lines]


def batch_table(stored: StoredPlan, prospect: Prospect) -> list[str]:
    """Return one line a job."""
    head = f"{'batch':>5}  {'from':<32}  {'to':<32}  {'slots':>6}  {'ranges':>6}  {'bytes':>15}  {'about':>8}"
    lines = [head]
    at = list(stored.problem.loads).index(stored.problem.cost)
    for batch, seconds in zip(prospect.batches, prospect.seconds, strict=True):
        for number, job in enumerate(batch.jobs):
            lines.append(
                f"{batch.number if not number else '':>5}  {name_of(stored, job.source):<32}  {name_of(stored, job.target):<32}  "
                f"{len(job.slots):>6}  {len(job.ranges):>6}  {job.loads[at]:>15,.0f}  {'' if number else _duration(seconds):>8}"
            )
    return lines


def command_lines(stored: StoredPlan, batches: Sequence[Batch], path: Path, migrate_ms: int) -> Iterator[Line]:
    """Yield address and command of every step of *batches*, in their order."""
    addresses = {node.id: node.address or node.id for node in stored.nodes}
    for batch in batches:
        yield "#", f"batch {batch.number}"
        for jobs in waves(batch.jobs, once=path is Path.REDIS_IMPORT):
            for command in commands_of(Batch(batch.number, tuple(jobs)), path):
                yield addresses[command.node], _words(command, addresses, migrate_ms)
                last = command.words[3:4] == ("NODE",) and command.words[4] != command.node
                if path is Path.LEGACY and last:
                    yield OTHERS, " ".join(command.words)


def abort_lines(stored: StoredPlan, batches: Sequence[Batch], path: Path) -> Iterator[Line]:
    """Yield address and command of what stops *batches*."""
    addresses = {node.id: node.address or node.id for node in stored.nodes}
    for batch in batches:
        for command in abort_of(batch, path):
            yield addresses[command.node], " ".join(command.words)


def _words(command: Command, addresses: dict[str, str], migrate_ms: int) -> str:
    if command.words[0] != "MIGRATE":
        return " ".join(command.words) + ("   # until it answers none" if command.each_key else "")
    host, _, port = addresses[command.words[1]].rpartition(":")
    return f'MIGRATE {host} {port} "" 0 {migrate_ms} KEYS …   # the keys just listed; AUTH or AUTH2 before KEYS where there is a password'


def write_commands(stored: StoredPlan, prospect: Prospect) -> Iterator[str]:
    """Yield the lines of a file with the commands of all three dialects."""
    yield f"# plan {stored.plan_id}: {len(stored.plan.moves)} slots, {len(prospect.batches)} batches left\n"
    yield from (f"# {_safe(line)}\n" for line in partial_lines(stored.unread))
    yield f"# address> command; the next batch begins when every job of the last has ended; {OTHERS}: all masters that are named below\n"
    for node in stored.nodes:
        yield _safe(f"# master {node.id} {node.address} {node.zone}".rstrip()) + "\n"
    for path, about in ABOUT.items():
        yield f"\n## {path.value}: {about}\n"
        for where, words in command_lines(stored, prospect.batches, path, prospect.migrate_ms):
            yield _safe(f"{where}{'>' if where != '#' else ''} {words}") + "\n"
        yield f"\n## {path.value}: to stop what runs{STOPS[path]}\n"
        for where, words in dict.fromkeys(abort_lines(stored, prospect.batches, path)):
            yield _safe(f"{where}> {words}") + "\n"


ABOUT = {
    Path.VALKEY_JOBS: "Valkey 9 and newer, one job a pair of source and target",
    Path.REDIS_IMPORT: "Redis 8.4 and newer, asked at the target; CLUSTER MIGRATION STATUS ALL shows its state",
    Path.LEGACY: "any version, key by key; the target learns first that a slot is its own",
}
STOPS = {
    Path.VALKEY_JOBS: "",
    Path.REDIS_IMPORT: " (at the target: cancelled at the source, the target tries again)",
    Path.LEGACY: " (only slots of which no key has moved; the others can only go on)",
}


def told(stored: StoredPlan, prospect: Prospect) -> dict[str, Any]:
    """Return what a run would do, as JSON has it."""
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
                "commands": {
                    path.value: _json_lines(command_lines(stored, [batch], path, prospect.migrate_ms)) for path in Path
                },
                "abort": {path.value: _json_lines(abort_lines(stored, [batch], path)) for path in Path},
            }
            for batch, seconds in zip(prospect.batches, prospect.seconds, strict=True)
        ],
    }


def _json_lines(lines: Iterator[Line]) -> list[dict[str, str]]:
    return [{"node": where, "command": words.partition("   # ")[0]} for where, words in lines if where != "#"]


def _first(lines: Iterator[str]) -> list[str]:
    shown = list(dict.fromkeys(lines))
    return shown[:8] + ([f"… and {len(shown) - 8} more"] if len(shown) > 8 else [])


def _safe(line: str) -> str:
    """*line* as one that a terminal shows and does not obey; commands are not cut."""
    return line if line.isascii() and line.isprintable() else printable(line, LINE_CHARS_MAX)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
