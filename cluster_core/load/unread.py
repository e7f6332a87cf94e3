"""Inputs of a snapshot: the node of a dump, by the slots of its keys, and unread parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cluster_core.topology.node import Topology


@dataclass(frozen=True, slots=True)
class FileUnread:
    """One incompletely read input; None means unknown.

    *unread_bytes* of *file_bytes*, and *unread_records* of *records* (keys, or rows of a list), are missing. A file that
    *is_cut* ends early, by an unknown amount.
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
        """Return the unread share, 0 to 1: the larger of the shares by bytes and records; None if both are unknown."""
        shares = [self.unread_records / self.records] if self.records and self.unread_records is not None else []
        if self.file_bytes and self.unread_bytes is not None and not (self.is_cut and not shares):
            shares.append(self.unread_bytes / self.file_bytes)
        return max(shares, default=None)


@dataclass(frozen=True, slots=True)
class UnreadInputs:
    """The incompletely read inputs, and totals of all inputs: stored bytes and records read."""

    files: tuple[FileUnread, ...] = ()
    file_bytes: int = 0
    records_read: int = 0

    def __bool__(self) -> bool:
        return bool(self.files)

    @property
    def whole(self) -> FileUnread:
        """Return the totals as a single input."""
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


WHOLE = UnreadInputs()
"""All inputs were read completely."""


def together(parts: Iterable[UnreadInputs]) -> UnreadInputs:
    """Combine the unread parts of several snapshots or inputs."""
    known = list(parts)
    return UnreadInputs(
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


MAJORITY = 0.5
"""The master must own the slots of more than this share of the keys."""


class Attribution(NamedTuple):
    """The master of a dump and the evidence: ``name`` or ``keys``; otherwise None and ``unknown``."""

    node_id: str | None
    evidence: str


def attribute(source: str, keys_by_owner: Mapping[str | None, int], topology: Topology | None) -> Attribution:
    """Return the master that wrote *source*: by a node id in the path, else the owner of most keys (None: unassigned)."""
    if topology is None:
        return Attribution(None, "unknown")
    for node in topology.nodes:
        if node.id in source:
            return Attribution(node.id if node.is_master else node.master_id, "name")
    total = sum(keys_by_owner.values())
    if total:
        owner, keys = max(keys_by_owner.items(), key=lambda item: (item[1], item[0] or ""))
        if owner is not None and keys > MAJORITY * total:
            return Attribution(owner, "keys")
    return Attribution(None, "unknown")
