"""Node flags: bits on the bus, names in CLUSTER NODES."""

from __future__ import annotations

from enum import IntFlag

from cluster_core.errors import DecodeError


class NodeFlags(IntFlag):
    """Flags of a node on the bus (R20)."""

    MASTER = 0x1
    REPLICA = 0x2
    PFAIL = 0x4
    FAIL = 0x8
    MYSELF = 0x10
    HANDSHAKE = 0x20
    NOADDR = 0x40
    MEET = 0x80
    MIGRATE_TO = 0x100
    NOFAILOVER = 0x200
    EXTENSIONS_SUPPORTED = 0x400
    LIGHT_HEADER_PUBLISH = 0x800
    LIGHT_HEADER_MODULE = 0x1000
    MY_PRIMARY_FAIL = 0x2000


GONE = NodeFlags.FAIL | NodeFlags.HANDSHAKE | NodeFlags.NOADDR
"""Of a node that failed, or has no usable address."""

FLAG_NAMES: dict[str, NodeFlags] = {
    "myself": NodeFlags.MYSELF,
    "master": NodeFlags.MASTER,
    "slave": NodeFlags.REPLICA,
    "fail?": NodeFlags.PFAIL,
    "fail": NodeFlags.FAIL,
    "handshake": NodeFlags.HANDSHAKE,
    "noaddr": NodeFlags.NOADDR,
    "nofailover": NodeFlags.NOFAILOVER,
}
"""Names in the order of CLUSTER NODES (R128); other bits have none."""

NO_FLAGS = "noflags"


def read_flags(text: str, *, offset: int, source: str) -> tuple[NodeFlags, tuple[str, ...]]:
    """Parse comma-joined flag names; return flags and unknown names; DecodeError for an empty or repeated name."""
    flags = NodeFlags(0)
    unknown: list[str] = []
    if text == NO_FLAGS:
        return flags, ()
    for name in text.split(","):
        flag = FLAG_NAMES.get(name)
        if not name or name in unknown or (flag is not None and flag in flags):
            raise DecodeError(f"the flags {text[:80]!r} have an empty or repeated word", offset=offset, source=source)
        if flag is None:
            unknown.append(name)
        else:
            flags |= flag
    return flags, tuple(unknown)


def write_flags(flags: NodeFlags, unknown: tuple[str, ...] = ()) -> str:
    """Return the names of *flags*, then the *unknown* ones, comma-joined, or ``noflags`` (R128)."""
    names = [name for name, flag in FLAG_NAMES.items() if flag in flags]
    return ",".join([*names, *unknown]) or NO_FLAGS
