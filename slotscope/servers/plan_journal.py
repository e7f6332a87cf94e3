"""The journal of executions (silver/plan_steps), and its lock: one execution at a time on a root.

Rows are safe before the command that they announce is sent.  On a local root the right is a file lock, which the kernel releases when
a process dies, so that a killed run can be repeated at once.  On an object store it is a lease: every commit of the journal carries its
end as a Delta transaction, and two commits of one application that do not know of each other cannot both succeed.  So an execution that
lost its lease, because its machine slept for example, cannot announce anything any more, and stops.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from cluster_core.rebalance.execution.effects import Step, StepKind
from schemas.rebalance import PLAN_STEPS
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError, PlaceError
from slotscope.runtime.storage.delta_files import (
    append_rows,
    as_table,
    compact,
    exists,
    location,
    open_at,
    read_rows,
)

LOCK: Final = ".execute-plan.lock"
ROWS_WORTH_COMPACTING: Final = 20
LEASE: Final = "slotscope-execution"
"""Application of the Delta transactions that hold the lease; their number is its end in milliseconds since 1970."""
LEASE_S: Final = 60.0
"""How long a lease lasts after a commit.  A run after a crash waits that long; an execution that cannot commit for so long stops."""
RENEWAL_S: Final = 20.0
"""Time without a commit after which a row extends the lease."""
ATTEMPTS_MAX: Final = 5
"""Of a commit that the store refuses; others of the same table, for other plans, do not get in its way."""
PAUSE_S: Final = 0.5


@dataclass(slots=True)
class PlanJournal:
    """The rows of one plan; a run adds its own, one commit a write (some 20 ms).  With a *lease*, its commits extend that."""

    root: str
    plan_id: str
    run_id: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}")
    rows: int = 0
    lease: Lease | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> list[Step]:
        """Return the records of earlier runs, oldest first."""
        if not exists(self.root, PLAN_STEPS):
            return []
        rows = read_rows(self.root, PLAN_STEPS, plan_id=self.plan_id)
        rows.sort(key=lambda row: (row["ts"], row["run_id"], row["seq"]))
        known = ({name: row[name] for name in Step._fields if row[name] is not None} for row in rows)
        return [Step(**{**row, "step": StepKind(row["step"])}) for row in known]

    def write(self, steps: Sequence[Step]) -> None:
        """Commit *steps*; InputError where the lease went to another execution."""
        with self._turn:
            self._add(steps)

    def confirm(self) -> None:
        """Before a command is sent: return if this run may send it, else extend the lease; InputError where that fails."""
        if self.lease is not None and self.lease.is_old():
            with self._turn:
                self._add([Step(StepKind.HELD, detail=holder())])

    def _add(self, steps: Sequence[Step], *, is_last: bool = False) -> None:
        now = datetime.now(UTC)
        rows = [
            {"plan_id": self.plan_id, "run_id": self.run_id, "seq": self.rows + number, "ts": now}
            | {name: None if value == "" else value for name, value in step._asdict().items()}
            for number, step in enumerate(steps, 1)
        ]
        if self.lease is None:
            append_rows(self.root, PLAN_STEPS, rows)
        else:
            self.lease.commit(rows, 0.0 if is_last else LEASE_S)
        self.rows += len(rows)

    def release(self) -> None:
        """Let the next execution begin at once, if the lease is still this one's."""
        if self.lease is not None:
            with self._turn, suppress(InputError):
                self._add([Step(StepKind.HELD, detail="released")], is_last=True)

    def close(self) -> None:
        """Join the many small files of a long run."""
        if self.rows > ROWS_WORTH_COMPACTING:
            compact(self.root, PLAN_STEPS)


class Lease:
    """The right to execute plans of a root on an object store, until some time after the last commit."""

    def __init__(self, root: str) -> None:
        self._place = location(root, PLAN_STEPS)
        if not exists(root, PLAN_STEPS):
            append_rows(root, PLAN_STEPS, [])
        self._table = open_at(self._place)
        self._is_lost = False
        self._end_ms = self._table.transaction_version(LEASE) or 0
        left_s = self._end_ms / 1000 - time.time()
        if left_s > 0:
            raise InputError(
                f"{root}: another plan execution is running ({_last_holder(root)}), or was killed: its lease ends in {left_s:.0f} s; "
                "wait for it or stop it with Ctrl-C"
            )

    def is_old(self) -> bool:
        """Whether it is time to extend it."""
        return self._end_ms / 1000 - time.time() < max(LEASE_S - RENEWAL_S, 0.0)

    def commit(self, rows: Sequence[dict[str, object]], lease_s: float) -> None:
        """Add *rows* and let the lease last *lease_s* from now; InputError where another execution has it, `PlaceError` where the store refuses."""
        data, made = as_table(PLAN_STEPS, rows), []
        for attempt in range(ATTEMPTS_MAX):
            self._refuse_if_lost()
            made.append(int((time.time() + lease_s) * 1000))
            made[-1] += made[-1] in (self._end_ms, *made[:-1])
            mark = CommitProperties(app_transactions=[Transaction(LEASE, made[-1])])
            try:
                write_deltalake(self._table, data, mode="append", commit_properties=mark)
                held_ms = made[-1]
            except (DeltaError, OSError) as error:
                held_ms = self._held_ms()
                if attempt + 1 == ATTEMPTS_MAX and held_ms == self._end_ms:
                    raise PlaceError(f"{self._place}: cannot be written: {stores.reason(error)}") from error
            if held_ms in made:  # also where the store took the commit, and its answer was lost
                self._end_ms = held_ms
                return
            self._is_lost = held_ms != self._end_ms
            time.sleep(0.0 if self._is_lost else PAUSE_S * 2**attempt)
        self._refuse_if_lost()

    def _refuse_if_lost(self) -> None:
        if self._is_lost:
            raise InputError(f"{self._place}: another plan execution took over the lease of this root; this one stops")

    def _held_ms(self) -> int:
        """Return the end of the lease in the store, or the last known one if the store does not answer."""
        try:
            self._table = open_at(self._place)
        except (DeltaError, OSError):
            return self._end_ms
        return self._table.transaction_version(LEASE) or 0


def holder() -> str:
    """The holder of the lease, for messages."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _last_holder(root: str) -> str:
    rows = read_rows(root, PLAN_STEPS, columns=("detail",), order_by="ts DESC, seq DESC", limit=1, step=StepKind.HELD)
    return rows[0]["detail"] if rows else "unknown process"


@contextmanager
def executing(root: str, plan_id: str) -> Iterator[PlanJournal]:
    """Hold the right to execute plans of *root*, and yield the journal of one; InputError while another process holds it."""
    if is_local(root):
        with locked(root.removeprefix("file://")):
            yield PlanJournal(root, plan_id)
        return
    journal = PlanJournal(root, plan_id, lease=Lease(root))
    journal.write([Step(StepKind.HELD, detail=holder())])
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWAL_S / 4):
            with suppress(InputError):  # the next step of the execution meets the same, and ends it
                journal.confirm()

    keeper = threading.Thread(target=renew, name="lease", daemon=True)
    keeper.start()
    try:
        yield journal
    finally:
        ended.set()
        keeper.join()
        journal.release()


def is_local(root: str) -> bool:
    """Whether *root* is a folder of this machine."""
    return "://" not in root or root.startswith("file://")


@contextmanager
def locked(root: str) -> Iterator[None]:
    """Hold the lock of a local *root*; InputError while another process does."""
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
            raise InputError(
                f"{root}: another plan execution is running; wait for it or stop it with Ctrl-C"
            ) from error
        yield
    finally:
        os.close(file)
