"""The keys of a server as a log leaves them: values as far as later commands, lengths and sizes need them.

Values by type: string, bytes if short, else its length; list, a deque of its elements; set, a set; zset, a dict from member
to score; hash, `Hash`; stream, `Stream`; module, None.  A key that a command has touched which is not modelled is *uncertain*
until it is made anew: nothing is said of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

STRING, LIST, SET, ZSET, HASH, STREAM, MODULE = "string", "list", "set", "zset", "hash", "stream", "module"
UNCERTAIN = "uncertain"
NEVER: Final = -1
NOT_READ: Final = -1
"""What a group has read if the server does not know it (``SCG_INVALID_ENTRIES_READ``)."""
SEQUENCE_MAX: Final = (1 << 64) - 1
CONTENT_BYTES_MAX = 64
"""Longer strings and values of fields are kept as their length, unless values are asked for: nothing but a number's digits is needed later."""

Sized = bytes | int
"""The bytes of a short word, or the length of a long one (or of one whose bytes are not known)."""
StreamId = tuple[int, int]


class Refused(Exception):  # noqa: N818 - it never leaves the package
    """The command has no effect: a server would answer an error or nil."""


class Unsettled(Exception):  # noqa: N818 - it never leaves the package
    """The effect of the command is not modelled, or depends on a key that is uncertain."""


@dataclass(slots=True)
class Hash:
    """Fields with their values; *expiry* holds those fields that expire (epoch in ms)."""

    fields: dict[bytes, Sized] = field(default_factory=dict)
    expiry: dict[bytes, int] = field(default_factory=dict)


class Claimed(NamedTuple):
    """When a pending entry was delivered last, and how often."""

    at_ms: int
    deliveries: int


@dataclass(slots=True)
class Group:
    """A consumer group: last id delivered, entries read (`NOT_READ`: unknown), pending entries by consumer, and who holds each."""

    last_id: StreamId
    read: int = NOT_READ
    consumers: dict[bytes, dict[StreamId, Claimed]] = field(default_factory=dict)
    holders: dict[StreamId, bytes] = field(default_factory=dict)

    def release(self, name: StreamId) -> None:
        """Let an entry be pending no more."""
        holder = self.holders.pop(name, None)
        if holder is not None:
            del self.consumers[holder][name]


@dataclass(slots=True)
class Stream:
    """Entries in order, from id to its bytes in a log; what XSETID says; groups by name."""

    entries: dict[StreamId, int] = field(default_factory=dict)
    last_id: StreamId = (0, 0)
    added: int = 0
    deleted_id: StreamId = (0, 0)
    groups: dict[bytes, Group] = field(default_factory=dict)


@dataclass(slots=True)
class Entry:
    """One key: its type, its value, when it expires (epoch in ms, -1: never), and why it is uncertain, if it is."""

    kind: str
    value: Any
    expire_at_ms: int = NEVER
    why: str = ""


_EMPTY: dict[str, Any] = {LIST: deque, SET: set, ZSET: dict, HASH: Hash, STREAM: Stream}


def length_of(value: Sized) -> int:
    """Bytes of a word that is kept by `sized`."""
    return value if isinstance(value, int) else len(value)


def count_of(entry: Entry) -> int:
    """What STRLEN, LLEN, SCARD, ZCARD, HLEN or XLEN answers; -1 for a module's value and an uncertain key."""
    if entry.kind == STRING:
        return length_of(entry.value)
    if entry.kind == HASH:
        return len(entry.value.fields)
    if entry.kind == STREAM:
        return len(entry.value.entries)
    return -1 if entry.kind in (MODULE, UNCERTAIN) else len(entry.value)


class Store:
    """All databases; *db* is the selected one, *command* the name of the current command."""

    def __init__(self) -> None:
        self.databases: dict[int, dict[bytes, Entry]] = {}
        self.db = 0
        self.command = ""

    @property
    def keys(self) -> dict[bytes, Entry]:
        """The keys of the selected database."""
        return self.databases.setdefault(self.db, {})

    def keeps(self, length: int) -> bool:
        """Whether a word of *length* bytes is kept."""
        return length <= CONTENT_BYTES_MAX

    def sized(self, word: bytes) -> Sized:
        """Return *word* as it is kept: itself, or its length."""
        return word if self.keeps(len(word)) else len(word)

    def find(self, key: bytes) -> Entry | None:
        """The key, if it exists; raises Unsettled for an uncertain one."""
        entry = self.keys.get(key)
        if entry is not None and entry.kind == UNCERTAIN:
            raise Unsettled
        return entry

    def typed(self, key: bytes, kind: str) -> Any:
        """The value of a key of type *kind*, None if it does not exist; raises Refused for another type."""
        entry = self.find(key)
        if entry is None:
            return None
        if entry.kind != kind:
            raise Refused
        return entry.value

    def made(self, key: bytes, kind: str) -> Any:
        """The value of a key of type *kind*, made empty if it does not exist."""
        value = self.typed(key, kind)
        if value is None:
            value = _EMPTY[kind]()
            self.keys[key] = Entry(kind, value)
        return value

    def put(self, key: bytes, kind: str, value: Any, *, keep_expiry: bool = False) -> None:
        """Set a key to a value, whatever it was; an empty collection (but a stream) removes it."""
        expire = NEVER
        old = self.keys.get(key)
        if keep_expiry and old is not None:
            if old.kind == UNCERTAIN:
                raise Unsettled
            expire = old.expire_at_ms
        entry = Entry(kind, value, expire)
        if kind in (LIST, SET, ZSET, HASH) and not count_of(entry):
            self.keys.pop(key, None)
        else:
            self.keys[key] = entry

    def drop_if_empty(self, key: bytes) -> None:
        """Remove a collection without elements."""
        entry = self.keys.get(key)
        if entry is not None and entry.kind in (LIST, SET, ZSET, HASH) and not count_of(entry):
            del self.keys[key]

    def remove(self, key: bytes) -> None:
        """Remove a key if it exists, or may exist."""
        self.keys.pop(key, None)

    def doubt(self, key: bytes) -> None:
        """Say nothing more of a key, because of the current command, until it is made anew."""
        old = self.keys.get(key)
        if old is None or old.kind != UNCERTAIN:
            self.keys[key] = Entry(UNCERTAIN, None, NEVER, self.command)


def number(word: bytes) -> int:
    """A word as a server reads an integer (`string2ll`); raises Refused if it is none."""
    digits = word[1:] if word[:1] == b"-" else word
    if not digits.isdigit() or len(digits) > 19 or (digits[0] == 48 and len(word) > 1):
        raise Refused
    return int(word)


def real(word: bytes) -> float:
    """A word as a floating-point number; raises Refused if it is none."""
    try:
        value = float(word)
    except ValueError:
        raise Refused from None
    if value != value or b"_" in word:
        raise Refused
    return value


def lowered(words: Sequence[bytes]) -> list[bytes]:
    """Words in lower case."""
    return [word.lower() for word in words]


def stream_id(word: bytes, missing: int = 0) -> StreamId:
    """An id as ``ms-seq`` or ``ms``; raises Refused for anything else, Unsettled for one that the server shall choose."""
    if word in (b"-", b"+"):
        return (0, 0) if word == b"-" else (SEQUENCE_MAX, SEQUENCE_MAX)
    head, dash, tail = word.partition(b"-")
    if not head.isdigit() or (dash and not tail.isdigit()) or len(word) > 41:
        if word in (b"*", b"$", b">") or tail == b"*":
            raise Unsettled
        raise Refused
    return int(head), int(tail) if dash else missing
