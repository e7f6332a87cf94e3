"""Carry a plan out on a live cluster: a dry run unless --apply is given; pauses, resumes and rolls back."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from slotscope.runtime import cli
from slotscope.runtime.access import NO_OPTIONS, AccessOptions
from slotscope.runtime.cli import Flag
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import BAD_INPUT, OK, PAUSED, printable
from slotscope.runtime.signals import caught_signals

if TYPE_CHECKING:
    from cluster_core.rebalance.execution.machine import Execution, Outcome
    from cluster_core.rebalance.record import StoredPlan
    from slotscope.servers.moves import LiveNodes
    from slotscope.servers.plan_journal import PlanJournal

PathName = Literal["auto", "setslot", "migrateslots", "migration-import"]
PASSWORD_BYTES_MAX = 4096


def command(
    *,
    root: str,
    cluster: str,
    plan: str = "latest",
    apply: Flag = False,
    rollback: Flag = False,
    revive: Flag = False,
    path: PathName = "auto",
    pause_after: int = 0,
    pause_between: float = 0.0,
    patience: float = 60.0,
    job_timeout: float = 3600.0,
    commands: str | None = None,
    json: str | None = None,
    password_file: str | None = None,
    access: AccessOptions = NO_OPTIONS,
    debug: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Carry a stored plan out on the live cluster that it was made for.

    Without --apply nothing is changed: checks, batches, exact commands and the estimated time are printed.  With it, every step is
    written into silver/plan_steps before it is done.  Ctrl-C pauses when what runs is done, a second one breaks it off; run again to go
    on.  Exit codes: 0 in place, 2 refused, 12 paused.

    Parameters
    ----------
    root
        Folder of the tables that rebalance-plan wrote.
    cluster
        HOST:PORT of one node of the cluster; the others are found from its answer.  Only masters that the plan names are spoken to.
    plan
        Id of the plan, the beginning of one, or latest.
    apply
        Do it.
    rollback
        Bring everything back that the plan has moved.
    revive
        Make masters that the plan emptied, and that became replicas, masters again: CLUSTER RESET SOFT, which drops their copy of the
        data, and CLUSTER MEET.
    path
        setslot (any version, key by key), migrateslots (Valkey 9), migration-import (Redis 8.4), or auto: the fastest that all know.
    pause_after
        Pause after this batch.
    pause_between
        Seconds to wait between batches, and key by key between groups of slots.
    patience
        Seconds that any wait may take before the run pauses: for an answer, a node that is away, or the news of an owner.
    job_timeout
        Seconds after which a migration of the servers is cancelled.
    commands
        File for the commands of all three dialects, with those that stop them.
    json
        File for the same as JSON.
    password_file
        File that holds the password, instead of the variable.
    debug
        Show the trace of an error.
    """
    from cluster_core.rebalance.execution.run_state import Settings
    from slotscope.plans.stored_moves import read_unchanged_plan
    from slotscope.reports.unread import partial_lines
    from slotscope.servers.moves import open_nodes

    _check_numbers(pause_after, pause_between, patience, job_timeout)
    stored = read_unchanged_plan(root, plan)
    for line in partial_lines(stored.unread):
        _tell(line)
    password = access.password() if password_file is None else _read_password(password_file)
    nodes = open_nodes(access.with_password(password), [node.id for node in stored.nodes], cluster)
    settings = Settings(rollback, revive, pause_after, pause_between, patience_s=patience, job_timeout_s=job_timeout)
    try:
        code = _preview(root, stored, nodes, settings, path, show=not apply, commands=commands, json=json)
        return run(root, stored, nodes, settings, path) if apply else code
    finally:
        nodes.close()


def run(root: str, stored: StoredPlan, nodes: LiveNodes, settings: Any, path: PathName = "auto") -> int:
    """Carry *stored* out; return the exit code."""
    from cluster_core.rebalance.execution.machine import Execution, Verdict
    from slotscope.servers.plan_journal import PlanJournal, alone

    with alone(root):
        journal = PlanJournal(root, stored.plan_id)
        execution = Execution(stored, journal.read(), _path(path), settings)
        woken = threading.Event()
        with _paused_by_signals(execution, woken):
            outcome = carry_out(execution, nodes, journal, woken)
        journal.close()
    codes = {Verdict.PAUSED: PAUSED, Verdict.REFUSED: BAD_INPUT}
    for sentence in outcome.sentences:
        _tell(sentence if outcome.verdict is not Verdict.REFUSED else f"refused: {sentence}")
    return codes.get(outcome.verdict, OK)


def carry_out(execution: Execution, nodes: LiveNodes, journal: PlanJournal, woken: threading.Event) -> Outcome:
    """Do what *execution* asks, until it ends; *woken* ends a wait early."""
    from cluster_core.rebalance.execution.effects import Ask, Clock, Look, Note, Wait

    show = ProgressPrinter()
    steps = execution.run()
    answer: Any = None
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        answer = None
        if isinstance(effect, Look):
            answer = nodes.look(effect.nodes, effect.within_s)
        elif isinstance(effect, Ask):
            answer = nodes.ask(effect)
        elif isinstance(effect, Note):
            journal.write(effect.steps)
        elif isinstance(effect, Wait):
            woken.wait(effect.seconds)
            woken.clear()
        elif isinstance(effect, Clock):
            answer = time.monotonic()
        else:
            show(effect.line, effect.done, effect.left_s)


class ProgressPrinter:
    """Lines on the error stream: every new one, and how far it is not more often than a person reads."""

    EVERY_S = 2.0

    def __init__(self) -> None:
        self._last_s = -math.inf

    def __call__(self, line: str, done: float, left_s: float | None) -> None:
        """Show *line* with the share that is *done* and the time that is left."""
        now_s = time.monotonic()
        if now_s - self._last_s < self.EVERY_S and done < 1:
            return
        self._last_s = now_s
        left = f", about {left_s:.{0 if left_s >= 10 else 1}f} s left" if left_s and done < 1 else ""
        _tell(f"{line} ({done:.0%}{left})")


def _preview(
    root: str, stored: StoredPlan, nodes: LiveNodes, settings: Any, path: PathName, *, show: bool, commands: str | None,
    json: str | None,
) -> int:  # fmt: skip
    """Print and write what would be done; return the exit code of a dry run."""
    from cluster_core.rebalance.execution.commands import Path
    from cluster_core.rebalance.execution.journal import read_journal
    from cluster_core.rebalance.execution.machine import NOTHING_TO_TAKE_BACK, foresee
    from cluster_core.rebalance.execution.refusals import examine, name_of
    from cluster_core.rebalance.execution.waits import migrate_sentence
    from slotscope.reports.rebalance.execution_text import prospect_lines, write_commands, write_json
    from slotscope.servers.plan_journal import PlanJournal

    if not (show or commands or json):
        return OK
    journal = read_journal(PlanJournal(root, stored.plan_id).read())
    sight = nodes.look([node.id for node in stored.nodes])
    prospect = foresee(
        stored, sight, journal, _path(path), rollback=settings.rollback, revive=settings.revive, patience_s=settings.patience_s
    )  # fmt: skip
    if commands:
        with open(commands, "w", encoding="utf-8") as file:
            file.writelines(write_commands(stored, prospect))
    if json:
        with open(json, "w", encoding="utf-8") as file:
            file.write(write_json(stored, prospect) + "\n")
    if not show:
        return OK
    if prospect.in_place:
        for sentence in (NOTHING_TO_TAKE_BACK if settings.rollback else "already in place", *prospect.notes):
            _tell(sentence)
        return OK
    unseen = [("all masters answer", list(prospect.refusals))] if prospect.situation.sight.lost else []
    checks = unseen or examine(prospect.situation)
    sys.stdout.write("\n".join(prospect_lines(stored, prospect, checks)) + "\n")
    for sentence in prospect.notes:
        _tell(sentence)
    if prospect.path is Path.LEGACY and sight.nodes:
        _tell(migrate_sentence(stored, sight, prospect.migrate_ms))
    for node in prospect.revived:
        _tell(f"first, {name_of(stored, node)} would be made a master again: CLUSTER RESET SOFT, CLUSTER MEET")
    for sentence in prospect.refusals:
        _tell(f"would be refused: {sentence}")
    if not prospect.refusals:
        _tell("dry run: nothing was changed; --apply carries it out")
    return BAD_INPUT if prospect.refusals else OK


def _path(name: PathName) -> Any:
    from cluster_core.rebalance.execution.commands import Path

    return None if name == "auto" else Path(name.replace("-", " "))


def _check_numbers(pause_after: int, pause_between: float, patience: float, job_timeout: float) -> None:
    if pause_after < 0:
        raise InputError(f"--pause-after {pause_after}: batches count from 1")
    for name, value in (("pause-between", pause_between), ("patience", patience), ("job-timeout", job_timeout)):
        if not 0 <= value < 1e9:
            raise InputError(f"--{name} {value}: give seconds")


def _read_password(file: str) -> str | None:
    """The password in *file*, None where it holds none."""
    with open(file, "rb") as opened:
        held = opened.read(PASSWORD_BYTES_MAX + 1)
    if len(held) > PASSWORD_BYTES_MAX:
        raise InputError(f"{file}: more than {PASSWORD_BYTES_MAX} bytes are no password")
    try:
        return held.decode("utf-8").rstrip("\r\n") or None
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8") from error


def _tell(line: str) -> None:
    sys.stderr.write(f"slotscope: {printable(line)}\n")
    sys.stderr.flush()


@contextmanager
def _paused_by_signals(execution: Execution, woken: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM: the first pauses, the second breaks off, the third ends Python as usual."""
    said: Sequence[str] = ("pausing when what runs now is done; once more to break it off", "breaking off what runs")

    def pause(restore: Callable[[], None]) -> None:
        stop = execution.pause()
        _tell(said[min(stop, len(said)) - 1])
        if stop >= len(said):
            restore()
        woken.set()

    with caught_signals(pause):
        yield


def main(argv: Sequence[str] | None = None) -> None:
    """What ``python -m jobs.execute_plan`` calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
