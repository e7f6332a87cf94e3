"""How much of its inputs a snapshot, or a plan, is made without: what could not be read, as far as that is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileUnread:
    """One input of which something could not be read; None stands for what is not known.

    *unread_bytes* of its *file_bytes* (as stored) were passed over.  Of the *records* (keys, or rows of a list) that it says it
    holds, *unread_records* could not be read.  A file that *is_cut* ends too early: its bytes do not tell what is missing.
    """

    source: str
    kind: str
    file_bytes: int | None = None
    unread_bytes: int | None = None
    records: int | None = None
    unread_records: int | None = None
    is_cut: bool = False
    bad_records: int = 1

    @property
    def share(self) -> float | None:
        """How much of it could not be read, 0 to 1: the most that its bytes or its own count say; None if neither is known."""
        shares = [self.unread_records / self.records] if self.records and self.unread_records is not None else []
        if self.file_bytes and self.unread_bytes is not None and not (self.is_cut and not shares):
            shares.append(self.unread_bytes / self.file_bytes)
        return max(shares, default=None)


@dataclass(frozen=True, slots=True)
class Unread:
    """The inputs of which something could not be read, and what all inputs together have: bytes as stored, records that were read."""

    files: tuple[FileUnread, ...] = ()
    file_bytes: int = 0
    records_read: int = 0

    def __bool__(self) -> bool:
        return bool(self.files)

    @property
    def whole(self) -> FileUnread:
        """All inputs as if they were one."""
        unread = _sum(file.unread_bytes for file in self.files)
        missing = _sum(file.unread_records for file in self.files)
        return FileUnread(
            "",
            self.files[0].kind if len({file.kind for file in self.files}) == 1 else "",
            self.file_bytes or None,
            unread,
            None if missing is None else self.records_read + missing,
            missing,
            any(file.is_cut for file in self.files),
            sum(file.bad_records for file in self.files),
        )


WHOLE = Unread()
"""Everything was read."""


def together(parts: Iterable[Unread]) -> Unread:
    """Return what several snapshots, or other inputs, lack together."""
    known = list(parts)
    return Unread(
        tuple(file for part in known for file in part.files),
        sum(part.file_bytes for part in known),
        sum(part.records_read for part in known),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
