"""One server as its replication traffic shows it: identity, offset, backlog, and whom it follows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster_core.replication.lineage import UNKNOWN_ID, Lineage
from cluster_core.replication.profile import REDIS_7_0, ReplicationProfile, profile_of
from cluster_core.replication.rows import LinkSpan

_VERSION = re.compile(rb"(redis|valkey)-ver[\x00-\x3f]([0-9]+\.[0-9.]+)")
_NO_ID: Final = "0" * 40


@dataclass(slots=True)
class ObservedServer:
    """What is known of the server that listens at *name* (``ip:port``)."""

    name: str
    lineage: Lineage | None = None
    backlog_from: int | None = None
    """The first byte that its backlog ever had; None: no backlog is known of."""
    unseen_bytes: int = 0
    """Bytes of writes that clients sent while no replica was there to show them."""
    acked: int = 0
    """The highest offset that it has acknowledged as a replica."""
    was_following: bool = False
    """It got its id from a master, and has not been seen as one itself since."""
    backlog_bytes: int | None = None
    size_known_by: str = ""
    profile: ReplicationProfile = REDIS_7_0
    dual_channel: bool | None = None
    is_gone: bool = False
    was_restarted: bool = False
    span: LinkSpan | None = None
    """The open piece of its link to a master."""

    @property
    def end(self) -> int:
        """The last byte of its stream, as far as can be told."""
        return self.unseen_bytes + (self.lineage.offset if self.lineage else 0)

    def forget(self) -> None:
        """The process has ended: what comes back at this address knows nothing but its files."""
        self.lineage, self.backlog_from, self.unseen_bytes, self.acked = None, None, 0, 0
        self.was_following, self.was_restarted = False, True

    def note_own(self, replid: str, offset: int) -> bool:
        """It asks its master for the byte behind *offset* of *replid*, so it has that much (P2, P6).

        Returns whether it must have been started again since it was last seen.
        """
        known = self.lineage
        if known is None or (replid != known.replid and offset == 0):
            restarted = known is not None
            self.lineage, self.backlog_from = Lineage(replid, offset), None
        elif known.replid == replid:
            restarted = offset < self.acked
            known.offset = offset
            if restarted:
                self.backlog_from = None
        else:
            restarted = False
            self._become(replid)
            known.offset = offset
        self.unseen_bytes = 0
        self.acked = min(self.acked, offset) if restarted else self.acked
        return restarted

    def _become(self, replid: str) -> None:
        """It turns out to have another id than the known one."""
        self.was_following = False
        if self.lineage is None:
            self.lineage = Lineage(replid)
        elif self.lineage.replid == UNKNOWN_ID:
            self.lineage.replid = replid
        else:
            self.lineage.promote(replid)

    def note_full(self, replid: str, offset: int) -> None:
        """It answers a replica with +FULLRESYNC *replid* *offset*."""
        known = self.lineage
        if known is None:
            self.lineage = Lineage(replid, offset)
        elif known.replid != replid:
            if self.was_following or known.replid == UNKNOWN_ID:
                self._become(replid)
            else:
                known.renew(replid)  # its backlog begins anew (P8)
                self.backlog_from = None
            known.offset = offset
        else:
            known.offset = offset
        if self.backlog_from is None:
            self.backlog_from = offset + 1
        self.unseen_bytes = 0

    def note_continue(self, asked_id: str, asked: int, replid: str) -> None:
        """It answers PSYNC *asked_id* *asked* with +CONTINUE *replid*."""
        known = self.lineage
        if known is None:
            self.lineage = known = Lineage(replid, asked - 1)
            if replid != asked_id:
                known.replid2, known.second_offset = asked_id, asked
        elif known.replid != replid:
            self._become(replid)
        known.offset = max(known.offset, asked - 1)
        if self.backlog_from is None or asked < self.backlog_from:
            self.backlog_from = asked

    def note_sent(self, offset: int) -> None:
        """Its stream has come to *offset*."""
        if self.lineage is not None and offset >= self.lineage.offset:
            self.lineage.offset = offset
            self.unseen_bytes = 0

    def note_synced(self, replid: str, offset: int) -> None:
        """It has loaded the dump of a full resync (P7); its own backlog begins there."""
        self.lineage = Lineage(replid, offset)
        self.backlog_from, self.unseen_bytes, self.acked = offset + 1, 0, 0

    def note_continued(self, replid: str, asked: int) -> None:
        """Its master let it go on at *asked* under *replid* (P4)."""
        if self.lineage is None:
            self.lineage = Lineage(replid, asked - 1)
        self.lineage.adopt(replid)
        if self.backlog_from is None:
            self.backlog_from = asked

    def note_version(self, text: str) -> None:
        """It, or its dump, says which server it is."""
        self.profile = profile_of(text)

    def note_dump(self, head: bytes) -> None:
        """The first bytes of its dump name its version."""
        match = _VERSION.search(head)
        if match:
            self.note_version(f"{match[1].decode()} {match[2].decode()}".removeprefix("redis "))

    def note_info(self, info: dict[str, str]) -> None:
        """It was asked for INFO, and said this of itself."""
        number = _number_in(info)
        if size := number("repl_backlog_size"):
            self.backlog_bytes, self.size_known_by = size, "INFO"
        replid, offset = info.get("master_replid", ""), number("master_repl_offset")
        if len(replid) != 40 or offset is None:
            return
        replid2 = info.get("master_replid2", _NO_ID)
        second = number("second_repl_offset") or -1
        self.lineage = Lineage(replid, offset, UNKNOWN_ID if replid2 == _NO_ID else replid2, second)
        self.unseen_bytes = 0
        self.was_following = info.get("role") == "slave"
        first = number("repl_backlog_first_byte_offset")
        if number("repl_backlog_active") and first is not None:
            self.backlog_from = first
        elif number("repl_backlog_active") == 0:
            self.backlog_from = None
        version = info.get("valkey_version")
        if version or "redis_version" in info:
            self.note_version(f"valkey {version}" if version else info["redis_version"])


def _number_in(info: dict[str, str]) -> Callable[[str], int | None]:
    def number(name: str) -> int | None:
        text = info.get(name, "")
        return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None

    return number
