"""Invariants of single messages and of messages on one TCP connection (R135, R161, R167, R169), as a stream.

Headers on different connections may arrive in another order than they were built (R161).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.incidents.incident import Finding, short
from cluster_core.incidents.speech import Said
from cluster_core.incidents.story import plural
from cluster_core.kinds import FindingCode, Severity
from cluster_core.slots.node_flags import NodeFlags

CONNECTIONS_MAX: Final = 100_000
"""Maximum connections tracked per node; the oldest is dropped first."""
NEVER_SELF: Final = int(NodeFlags.PFAIL | NodeFlags.FAIL | NodeFlags.HANDSHAKE | NodeFlags.NOADDR)
MASTER: Final = int(NodeFlags.MASTER)
REPLICA: Final = int(NodeFlags.REPLICA)
MYSELF: Final = int(NodeFlags.MYSELF)
MY_PRIMARY_FAIL: Final = int(NodeFlags.MY_PRIMARY_FAIL)
"""Plain integers, because enum arithmetic would dominate the check of each header."""
ROLES: Final = MASTER | REPLICA


class Breach(NamedTuple):
    """Violations of one invariant by *node*: first and last time, messages and connections."""

    code: FindingCode
    node: str
    first_ns: int
    last_ns: int
    times: int
    connections: int
    first_ref: int
    last_ref: int


class Last(NamedTuple):
    """Fields of the last header on a connection."""

    current_epoch: int
    master_offset: int
    replicaof: str
    shard: str


class ConnectionChecks:
    """Checks the headers of one node in order; `finish` returns the violations."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._last: dict[int, Last] = {}
        self._breaches: dict[FindingCode, Breach] = {}
        self._seen: dict[tuple[FindingCode, int], None] = {}

    def feed(self, connection: int, said: Said) -> None:
        """Check one header."""
        for code in header_breaches(said):
            self._note(code, connection, said)
        last = self._last.get(connection)
        is_master = bool(said.flags & MASTER)
        offset = said.offset if is_master else -1
        if last is not None:
            if said.current_epoch < last.current_epoch:
                self._note(FindingCode.EPOCH_DECREASED, connection, said)
            if is_master and 0 <= offset < last.master_offset:
                self._note(FindingCode.OFFSET_DECREASED, connection, said)
        elif len(self._last) >= CONNECTIONS_MAX:
            del self._last[next(iter(self._last))]
        self._last[connection] = Last(said.current_epoch, offset, said.replicaof, said.shard)

    def finish(self) -> list[Breach]:
        """Return all violations, by code."""
        return [self._breaches[code] for code in sorted(self._breaches)]

    def _note(self, code: FindingCode, connection: int, said: Said) -> None:
        old = self._breaches.get(code)
        fresh = (code, connection) not in self._seen
        if len(self._seen) < CONNECTIONS_MAX:
            self._seen[code, connection] = None
        if old is None:
            self._breaches[code] = Breach(code, self.node, said.ts_ns, said.ts_ns, 1, 1, said.ref, said.ref)
        else:
            self._breaches[code] = old._replace(
                last_ns=max(old.last_ns, said.ts_ns),
                times=old.times + 1,
                connections=old.connections + fresh,
                last_ref=said.ref,
            )


def header_breaches(said: Said) -> list[FindingCode]:
    """Return the violations of a single header (R135, R161, R167).

    >>> [str(code) for code in header_breaches(Said(0, 0, 0x2011, "", 1, 1, 0, 0, 0))]
    ['my-primary-fail']
    """
    found = []
    flags = said.flags
    if flags & ROLES not in (MASTER, REPLICA):
        found.append(FindingCode.ROLE_FLAGS)
    elif bool(flags & REPLICA) != bool(said.replicaof):
        found.append(FindingCode.ROLE_WITHOUT_MASTER)
    if not flags & MYSELF or flags & NEVER_SELF:
        found.append(FindingCode.FLAGS_OF_SELF)
    if flags & MASTER and flags & MY_PRIMARY_FAIL:
        found.append(FindingCode.MY_PRIMARY_FAIL)
    if said.config_epoch > said.current_epoch:
        found.append(FindingCode.CONFIG_EPOCH_AHEAD)
    return found


ABOUT: Final[dict[FindingCode, str]] = {
    FindingCode.ROLE_FLAGS: "its headers say that it is neither, or both, of master and replica",
    FindingCode.ROLE_WITHOUT_MASTER: "its headers contradict themselves about the node that it replicates",
    FindingCode.FLAGS_OF_SELF: "its headers say PFAIL, FAIL, HANDSHAKE or NOADDR of itself, or not MYSELF",
    FindingCode.MY_PRIMARY_FAIL: "it is a master and still says that its master fails (MY_PRIMARY_FAIL):"
    " a known defect of Valkey 9.1",
    FindingCode.CONFIG_EPOCH_AHEAD: "its config epoch is greater than the current epoch in the same header",
    FindingCode.EPOCH_DECREASED: "its current epoch went back on one connection",
    FindingCode.OFFSET_DECREASED: "its replication offset went back on one connection while it was a master",
}
"""Text of each code."""
MILD: Final = (FindingCode.MY_PRIMARY_FAIL, FindingCode.OFFSET_DECREASED)
"""Codes of warnings; the others are errors."""


def finding_of(breach: Breach) -> Finding:
    """Return a violation as a finding."""
    many = f"{plural(breach.times, 'message')} on {plural(breach.connections, 'connection')}"
    return Finding(
        Severity.WARNING if breach.code in MILD else Severity.ERROR, breach.code, breach.node, "", breach.first_ns,
        breach.last_ns, breach.times, None, f"{short(breach.node)}: {ABOUT[breach.code]}, in {many}",
        tuple(dict.fromkeys((breach.first_ref, breach.last_ref))),
    )  # fmt: skip
