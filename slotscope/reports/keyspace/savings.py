"""What would save memory: what the tables of `slotscope advise` say of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from schemas.advice import MEMORY_CONDITIONS, SAVING_CURVES, SAVINGS
from slotscope.reports.records import record
from slotscope.runtime.storage.delta_files import exists, read_rows

NAMES: Final = {
    "upgrade": "load into",
    "allocator": "allocate with",
    "restart": "load anew:",
    "setting": "raise",
    "bucket": "bucket small strings of",
    "names": "shorten names of",
    "compress": "compress values of",
    "share": "store equal values once",
    "expire": "let expire",
    "split_key": "split key",
    "split_tag": "split hash tag",
}
"""What a change does, by its kind."""


@dataclass(frozen=True, slots=True)
class Saving:
    """A row of ``gold/savings``."""

    rank: int
    kind: str
    subject: bytes
    saved_bytes: int | None
    keys: int
    how: str
    risk: str
    undo: str
    counted: bool

    @property
    def name(self) -> str:
        """What the change does, without its subject."""
        return NAMES.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class ConditionBytes:
    """All keys under a server version and allocator."""

    server: str
    allocator: str
    now_bytes: int
    memory_bytes: int
    unmeasured_keys: int = 0


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A row of ``gold/saving_curves``."""

    setting: str
    value: int
    keys: int
    saved_bytes: int
    walked_max: int
    is_knee: bool


@dataclass(frozen=True, slots=True)
class SavingsReport:
    """Changes in their order, all keys under each condition, the curves of settings."""

    changes: Sequence[Saving]
    conditions: Sequence[ConditionBytes]
    curves: Sequence[CurvePoint]

    @property
    def now_bytes(self) -> int:
        """Bytes in memory now."""
        return self.conditions[0].now_bytes

    @property
    def counted(self) -> list[Saving]:
        """Changes whose bytes add up."""
        return [one for one in self.changes if one.counted]

    @property
    def instead(self) -> list[Saving]:
        """Other ways to save the same bytes."""
        return [
            one
            for one in self.changes
            if not one.counted and one.kind in ("upgrade", "allocator", "restart", "compress", "share")
        ]

    @property
    def hints(self) -> list[Saving]:
        """What frees memory only if something is given up, and what should be split."""
        return [one for one in self.changes if one.kind in ("expire", "split_key", "split_tag")]

    @property
    def saved_bytes(self) -> int:
        """What all counted changes save together."""
        return sum(one.saved_bytes or 0 for one in self.counted)


def load_savings(root: str, snapshot_id: str) -> SavingsReport | None:
    """Read it; None where `slotscope advise` has not run for the snapshot."""
    if not exists(root, MEMORY_CONDITIONS):
        return None
    conditions = read_rows(
        root, MEMORY_CONDITIONS, order_by="memory_bytes, server", snapshot_id=snapshot_id, scope="cluster"
    )
    if not conditions:
        return None
    changes = read_rows(root, SAVINGS, order_by="rank", snapshot_id=snapshot_id)
    curves = read_rows(root, SAVING_CURVES, order_by="setting, walked_max, value", snapshot_id=snapshot_id)
    return SavingsReport(
        [record(Saving, row) for row in changes],
        [record(ConditionBytes, row) for row in conditions],
        [record(CurvePoint, row) for row in curves],
    )
