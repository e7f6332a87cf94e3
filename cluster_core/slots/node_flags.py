"""What a node is and what others think of it: the flag bits of the bus and their words in text."""

from __future__ import annotations

from enum import IntFlag

from cluster_core.errors import DecodeError


class NodeFlags(IntFlag):
    """The flag bits of a node as they travel on the bus (R20)."""

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
"""Of a node that has failed, or that nobody can reach by what is known of it."""

FLAG_WORDS: dict[str, NodeFlags] = {
    "myself": NodeFlags.MYSELF,
    "master": NodeFlags.MASTER,
    "slave": NodeFlags.REPLICA,
    "fail?": NodeFlags.PFAIL,
    "fail": NodeFlags.FAIL,
    "handshake": NodeFlags.HANDSHAKE,
    "noaddr": NodeFlags.NOADDR,
    "nofailover": NodeFlags.NOFAILOVER,
}
"""The words of CLUSTER NODES in the order in which servers print them (R128); other bits have no word."""

NO_FLAGS = "noflags"


def read_flags(text: str, *, offset: int, source: str) -> tuple[NodeFlags, tuple[str, ...]]:
    """Return the flags that the comma-joined words of *text* name, and the words that are not known here.

    Servers add flags over time, so an unknown word is kept, not refused.  Raises DecodeError for a word
    that is empty or repeated.
    """
    flags = NodeFlags(0)
    unknown: list[str] = []
    if text == NO_FLAGS:
        return flags, ()
    for word in text.split(","):
        flag = FLAG_WORDS.get(word)
        if not word or word in unknown or (flag is not None and flag in flags):
            raise DecodeError(f"the flags {text[:80]!r} have an empty or repeated word", offset=offset, source=source)
        if flag is None:
            unknown.append(word)
        else:
            flags |= flag
    return flags, tuple(unknown)


def write_flags(flags: NodeFlags, unknown: tuple[str, ...] = ()) -> str:
    """Return the words of *flags*, then the *unknown* ones, comma-joined, or ``noflags`` (R128)."""
    words = [word for word, flag in FLAG_WORDS.items() if flag in flags]
    return ",".join([*words, *unknown]) or NO_FLAGS
