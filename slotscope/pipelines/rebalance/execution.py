"""Carry out a plan on a live cluster: perform the effects of the state machine on sockets, clock and journal."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rich.console import Console

from cluster_core.rebalance.execution.cluster_now import MigrationPath
from cluster_core.rebalance.execution.effects import (
    AppendToJournal,
    Ask,
    Clock,
    Latency,
    ReadState,
    Steps,
    Wait,
    read_journal,
)
from cluster_core.rebalance.execution.machine import (
    NOTHING_TO_TAKE_BACK,
    Execution,
    Outcome,
    Verdict,
    moved_so_far,
)
from cluster_core.rebalance.execution.situation import Settings, Situation, failover_notes, forecast_run, see
from cluster_core.rebalance.stored_plan import StoredPlan
from slotscope.plans.stored_plans import read_unchanged_plan
from slotscope.reports.rebalance.execution import command_text, dry_run_document, dry_run_json
from slotscope.reports.records import write_json
from slotscope.reports.terminal import print_document
from slotscope.reports.unread import partial_lines
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import BAD_INPUT, OK, PAUSED, printable
from slotscope.runtime.signals import caught_signals
from slotscope.servers.moves import LatencyProbe, LiveNodes, open_nodes
from slotscope.servers.node_link import Access
from slotscope.servers.plan_journal import PlanJournal, executing

if TYPE_CHECKING:
    from slotscope.pipelines.rebalance.options import ExecuteOptions, MoveOptions

Done = TypeVar("Done")

SECONDS_MAX = 1e9


class ExecutionOutcome(NamedTuple):
    """The exit code, and the dry run as JSON if there was one."""

    code: int
    dry_run: dict[str, Any] | None = None


def execute_plan(request: ExecuteOptions) -> int:
    """Print the dry run, and with --apply carry the plan out; return the exit code."""
    check_numbers(request)
    stored = read_unchanged_plan(request.root, request.plan)
    access = request.access.with_password(request.access.password())
    done = execute(request.root, stored, request.cluster, access, request, as_json=request.json)
    if done.dry_run is not None and request.json:
        write_json(done.dry_run, sys.stdout)
    return done.code


def execute(
    root: str, stored: StoredPlan, cluster: str, access: Access, how: MoveOptions, *, as_json: bool
) -> ExecutionOutcome:
    """Print the dry run for the cluster of the node *cluster*, and with --apply carry the plan out."""
    for line in partial_lines(stored.unread):
        tell(line)
    if how.bytes_per_s_max is not None and not stored.sizes:
        raise InputError(f"--bytes-per-s-max: plan {stored.plan_id} has no bytes by slot")
    nodes = open_nodes(access, [node.id for node in stored.nodes], cluster)
    settings = Settings(
        how.rollback,
        how.pause_after,
        patience_s=how.patience,
        job_timeout_s=how.job_timeout,
        bytes_per_s_max=how.bytes_per_s_max,
        latency_ms_max=how.latency_ms_max,
    )
    path = None if how.path == "auto" else MigrationPath(how.path.replace("-", " "))
    try:
        seen = _preview(root, stored, nodes, settings, path, how, as_json)
        return ExecutionOutcome(carry_out(root, stored, nodes, settings, path), seen.dry_run) if how.apply else seen
    finally:
        nodes.close()


def carry_out(
    root: str, stored: StoredPlan, nodes: LiveNodes, settings: Settings, path: MigrationPath | None = None
) -> int:
    """Carry *stored* out on *path*, by default the fastest one; return the exit code."""
    with executing(root, stored.plan_id) as journal:
        execution = Execution(stored, journal.read(), path, settings)
        woken = threading.Event()
        with _paused_by_signals(execution, woken):
            outcome = _follow(execution, nodes, journal, woken)
        journal.close()
    codes = {Verdict.PAUSED: PAUSED, Verdict.REFUSED: BAD_INPUT}
    for sentence in outcome.sentences:
        tell(sentence if outcome.verdict is not Verdict.REFUSED else f"refused: {sentence}")
    if outcome.verdict is Verdict.REFUSED:
        moved = moved_so_far(stored, read_journal(journal.read()))
        tell(
            f"nothing was changed by this run; {moved} of {len(stored.plan.moves)} slots of plan {stored.plan_id} are in place; "
            "run it again when that is fixed, or make a new plan"
        )
    return codes.get(outcome.verdict, OK)


def _follow(execution: Execution, nodes: LiveNodes, journal: PlanJournal, woken: threading.Event) -> Outcome:
    """Perform the effects of *execution* until it ends; *woken* ends a wait early."""
    if execution.settings.latency_ms_max is None:
        return _answer(execution.run(), nodes, journal, woken, None)
    probe = LatencyProbe(nodes.access, nodes.masters())
    try:
        return _answer(execution.run(), nodes, journal, woken, probe)
    finally:
        probe.close()


def _answer(
    steps: Steps[Done],
    nodes: LiveNodes,
    journal: PlanJournal,
    woken: threading.Event | None = None,
    probe: LatencyProbe | None = None,
) -> Done:
    """Perform the effects of *steps* on the servers, the clock and the journal; return their result."""
    show = ProgressPrinter()
    woken = woken or threading.Event()
    answer: Any = None
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration as end:
            result: Done = end.value
            return result
        answer = None
        if isinstance(effect, ReadState):
            answer = nodes.look(effect.nodes, effect.within_s)
        elif isinstance(effect, Ask):
            journal.confirm()
            answer = nodes.ask(effect)
        elif isinstance(effect, AppendToJournal):
            journal.write(effect.steps)
        elif isinstance(effect, Wait):
            woken.wait(effect.seconds)
            woken.clear()
        elif isinstance(effect, Clock):
            answer = time.monotonic()
        elif isinstance(effect, Latency):
            answer = probe.p99_ms() if probe is not None else None
        else:
            show(effect.line, effect.done, effect.left_s)


class ProgressPrinter:
    """Progress lines on the error stream, one every two seconds at most."""

    EVERY_S = 2.0

    def __init__(self) -> None:
        self._last_s = -math.inf

    def __call__(self, line: str, done: float, left_s: float | None) -> None:
        """Show *line* with the share that is *done* and the time left."""
        now_s = time.monotonic()
        if now_s - self._last_s < self.EVERY_S and done < 1:
            return
        self._last_s = now_s
        left = f", about {left_s:.{0 if left_s >= 10 else 1}f} s left" if left_s and done < 1 else ""
        tell(f"{line} ({done:.0%}{left})")


def _preview(
    root: str, stored: StoredPlan, nodes: LiveNodes, settings: Settings, path: MigrationPath | None, how: MoveOptions, as_json: bool
) -> ExecutionOutcome:  # fmt: skip
    """Print the dry run and write its commands; return its exit code."""
    if how.apply and not how.commands and not as_json:
        return ExecutionOutcome(OK)
    journal = PlanJournal(root, stored.plan_id)
    now = _answer(see(stored, read_journal(journal.read())), nodes, journal)
    for sentence in failover_notes(stored, now):
        tell(sentence)
    stored = now.stored
    prospect = forecast_run(stored, now.sight, now.journal, path, settings)
    if how.commands == "-":
        sys.stdout.write(command_text(stored, prospect))
    elif how.commands:
        Path(how.commands).write_text(command_text(stored, prospect), encoding="utf-8")
    known = dry_run_json(stored, prospect) if as_json else None
    code = OK if how.apply else _show(stored, prospect, settings, as_json)
    return ExecutionOutcome(code, known)


def _show(stored: StoredPlan, prospect: Situation, settings: Settings, as_json: bool) -> int:
    """Print the dry run; return its exit code."""
    if prospect.in_place:
        for sentence in (NOTHING_TO_TAKE_BACK if settings.rollback else "already in place", *prospect.notes):
            tell(sentence)
        return OK
    if not as_json:
        print_document(dry_run_document(stored, prospect), Console(file=sys.stdout))
    for sentence in prospect.notes:
        tell(sentence)
    for sentence in prospect.refusals:
        tell(f"would be refused: {sentence}")
    if not prospect.refusals:
        how = "--apply --rollback moves the slots back" if settings.rollback else "--apply carries it out"
        tell(f"dry run: nothing was changed; --plan {stored.plan_id} {how}")
    return BAD_INPUT if prospect.refusals else OK


def check_numbers(request: MoveOptions) -> None:
    """Raise InputError for numbers out of range."""
    if request.pause_after < 0:
        raise InputError(f"--pause-after {request.pause_after}: batches count from 1")
    for name in ("patience", "job_timeout"):
        value = getattr(request, name)
        if not 0 <= value < SECONDS_MAX:
            raise InputError(f"--{name.replace('_', '-')} {value}: give seconds")
    for name in ("bytes_per_s_max", "latency_ms_max"):
        limit = getattr(request, name)
        if limit is not None and not 0 < limit < math.inf:
            raise InputError(f"--{name.replace('_', '-')} {limit}: must be more than 0")


def tell(line: str) -> None:
    """Print *line* on the error stream."""
    sys.stderr.write(f"slotscope: {printable(line)}\n")
    sys.stderr.flush()


@contextmanager
def _paused_by_signals(execution: Execution, woken: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM: the first pauses, the second ends the process as a kill does."""

    def pause(restore: Callable[[], None]) -> None:
        execution.stop = True
        tell("pausing after the current step; a second signal ends the process at once")
        restore()
        woken.set()

    with caught_signals(pause):
        yield
