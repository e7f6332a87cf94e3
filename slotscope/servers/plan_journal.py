"""The journal of executions: rows of silver/plan_steps, on the disk before the command that they announce is sent."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cluster_core.rebalance.execution.journal import Step, StepKind
from cluster_core.rebalance.table_rows import PlanStepRow
from schemas.rebalance import PLAN_STEPS
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import append_rows, exists, read_rows
from slotscope.runtime.storage.delta_upkeep import compact

LOCK = ".execute-plan.lock"
ROWS_WORTH_COMPACTING = 20


@dataclass(slots=True)
class PlanJournal:
    """The rows of one plan; a run adds its own, one commit a write (some 20 ms)."""

    root: str
    plan_id: str
    run_id: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}")
    rows: int = 0

    def read(self) -> list[Step]:
        """Return what earlier runs wrote, oldest first."""
        if not exists(self.root, PLAN_STEPS):
            return []
        rows = read_rows(self.root, PLAN_STEPS, plan_id=self.plan_id)
        rows.sort(key=lambda row: (row["ts"], row["run_id"], row["seq"]))
        return [
            Step(
                StepKind(row["step"]), row["batch"], row["source"] or "", row["target"] or "", row["slots"] or "",
                row["detail"] or "", row["keys"], row["seconds"], row["path"] or "",
            )
            for row in rows
        ]  # fmt: skip

    def write(self, steps: Sequence[Step]) -> None:
        """Add *steps*; they are there for every reader when this returns."""
        now = datetime.now(UTC)
        rows = [
            PlanStepRow(
                self.plan_id, self.run_id, self.rows + number, now, step.batch, step.source or None, step.target or None,
                step.slots or None, step.step, step.detail or None, step.keys, step.seconds, step.path or None,
            )._asdict()
            for number, step in enumerate(steps, 1)
        ]  # fmt: skip
        append_rows(self.root, PLAN_STEPS, rows)
        self.rows += len(rows)

    def close(self) -> None:
        """Join the many small files of a long run."""
        if self.rows > ROWS_WORTH_COMPACTING:
            compact(self.root, PLAN_STEPS)


@contextmanager
def alone(root: str) -> Iterator[None]:
    """Hold the right to execute plans of *root*, so far as it lies on this machine; InputError while another process does."""
    if "://" in root:
        yield
        return
    os.makedirs(root, exist_ok=True)
    lock = os.path.join(root, LOCK)
    try:  # nothing is written into it, and a link that somebody put there is not followed
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InputError(f"{lock}: not a file to lock: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{root}: another execute-plan is at work; wait for it or stop it with Ctrl-C") from error
        yield
    finally:
        os.close(file)
