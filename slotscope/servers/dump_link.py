"""Read the dump that a live server sends to a replica, at a bounded rate, without storing it.

Commands sent: INFO, REPLCONF, SYNC, and AUTH.  They write nothing to the server.  It forks once and forgets this replica when the
connection closes, at the end of the dump.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from cluster_core.errors import ClusterCoreError, DecodeError, MissingInputError, TruncatedError
from cluster_core.wire.dump_receiver import DumpReceiver
from cluster_core.wire.resp import read_info
from slotscope.runtime.errors import InputError
from slotscope.runtime.stores import LIVE, is_live
from slotscope.servers.cluster import parse_address
from slotscope.servers.node_link import Access, LinkError, NodeLink

CAPABILITIES: Final = (("REPLCONF", "capa", "eof"), ("REPLCONF", "rdb-only", "1"))
"""Capabilities: a dump may end with a mark, and no commands follow it; a server without one answers with an error and continues.

Valkey 9 also gets its own version: to a replica without a version it sends the format of Redis 7.2.
"""
BYTES_PER_SECOND_MIN: Final = 1000
"""Timeout of a server for a slow replica."""
SILENCE_S_MAX: Final = 60.0
"""A server that makes a dump sends a newline each second (``repl-timeout`` of replicas)."""
_CHUNK_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Options for dumps of live servers; *from_master* allows dumps of masters."""

    access: Access = field(default_factory=Access)
    bytes_per_second: float = 50e6
    from_master: bool = False


def check_lives(paths: Iterable[str], options: DumpOptions) -> None:
    """Check the servers among *paths* before the first dump.  Raises InputError as `check_live`."""
    if not options.bytes_per_second >= BYTES_PER_SECOND_MIN:
        raise InputError(f"--bytes-per-second {options.bytes_per_second:g}: {BYTES_PER_SECOND_MIN:,} or more")
    for path in filter(is_live, paths):
        check_live(path, options)


def check_live(path: str, options: DumpOptions) -> None:
    """Raise InputError for an unreachable server, a master, or a replica without its master."""
    try:
        link = _connect(path, options)
        try:
            _check_role(path, link, options)
        finally:
            link.close()
    except (LinkError, DecodeError) as error:
        raise InputError(f"{path}: {options.access.safe(error)}") from error


def _connect(path: str, options: DumpOptions) -> NodeLink:
    return options.access.connect(parse_address(path.removeprefix(LIVE).rstrip("/")))


def _check_role(path: str, link: NodeLink, options: DumpOptions) -> None:
    info = _info(link, "replication")
    if info.get("role") == "master" and not options.from_master:
        texts = [text for name, text in info.items() if name.startswith("slave") and name[5:].isdigit()]
        replicas = [dict(part.partition("=")[::2] for part in text.split(",") if "=" in part) for text in texts]
        known = [f"{replica['ip']}:{replica['port']}" for replica in replicas if "port" in replica]
        named = f"name its replica {known[0]}" if known else "it has no replica"
        raise InputError(
            f"{path}: this is a master; a dump makes it fork and copy every page that clients write meanwhile:"
            f" {named}, or allow it with --from-master"
        )
    if info.get("role") != "master" and info.get("master_link_status") != "up":
        raise InputError(f"{path}: this replica has lost its master and its data is stale; name another replica")


def _info(link: NodeLink, section: str) -> dict[str, str]:
    (reply,) = link.ask([("INFO", section)])
    if not isinstance(reply, bytes):
        raise LinkError(f"it does not answer INFO: {getattr(reply, 'text', reply)}")
    return read_info(reply)


class LiveDump:
    """The dump of the server *path* as a stream of bytes; the first read requests it.

    Raises DecodeError where the server refuses or the connection breaks, TruncatedError where it ends before the dump does.
    """

    def __init__(self, path: str, options: DumpOptions) -> None:
        self._path = path
        self._options = options
        self._receiver = DumpReceiver()
        self._link: NodeLink | None = None
        self._waiting = memoryview(b"")
        self._begun_s = 0.0
        self.received = 0

    def readinto(self, buffer: memoryview) -> int:
        """Read into *buffer*; 0 at the end of the dump."""
        try:
            while not self._waiting and not self._receiver.is_ended:
                self._receive()
        except (LinkError, OSError, ClusterCoreError) as error:
            self.close()
            if isinstance(error, DecodeError):
                raise
            where = "the dump broke off" if self._receiver.is_begun else "no dump"
            kind = TruncatedError if self._receiver.is_begun else MissingInputError
            raise kind(
                f"{where}: {self._options.access.safe(error)}", offset=self.received, source=self._path
            ) from error
        count = min(len(buffer), len(self._waiting))
        buffer[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        self.received += count
        return count

    def skip(self, count: int) -> int:
        """Skip bytes by reading them."""
        left = count
        room = memoryview(bytearray(min(count, _CHUNK_BYTES)))
        while left and (read := self.readinto(room[: min(left, len(room))])):
            left -= read
        return count - left

    def close(self) -> None:
        """Close the connection; the server then stops its dump."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _receive(self) -> None:
        if self._link is None:
            self._link = _connect(self._path, self._options)
            _check_role(self._path, self._link, self._options)
            version = _info(self._link, "server").get("valkey_version")
            self._link.ask([*CAPABILITIES, *([("REPLCONF", "version", version)] if version else [])])
            self._link.send([("SYNC",)])
            self._begun_s = time.monotonic()
        data = self._link.read_raw(_CHUNK_BYTES, SILENCE_S_MAX)
        if not self._receiver.is_begun:
            self._begun_s = time.monotonic()
        self._waiting = memoryview(self._receiver.feed(data))
        if self._receiver.is_ended:
            self.close()
        due_s = self._begun_s + (self.received + len(self._waiting)) / self._options.bytes_per_second
        time.sleep(max(0.0, due_s - time.monotonic()))
