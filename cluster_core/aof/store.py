"""Keys during the replay of a log, with values only as far as later commands, lengths and sizes need them.

string: bytes if short, else its length; list: deque; set: set; zset: dict of scores by member; hash: `Hash`; stream:
`Stream`; module: None. A key changed by an unmodelled command is *uncertain* until it is created anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

STRING, LIST, SET, ZSET, HASH, STREAM, MODULE = "string", "list", "set", "zset", "hash", "stream", "module"
UNCERTAIN = "uncertain"
NEVER: Final = -1
SEQUENCE_MAX: Final = (1 << 64) - 1
CONTENT_BYTES_MAX = 64
"""Maximum length of strings and field values stored in full, unless values are requested."""

Sized = bytes | int
"""Bytes of a short word, or length of a long or unknown one."""
StreamId = tuple[int, int]


class Refused(Exception):  # noqa: N818 - it never leaves the package
    """The command has no effect: a server would reply with an error or nil."""


class UnknownEffect(Exception):  # noqa: N818 - it never leaves the package
    """The command is not modelled, or depends on an uncertain key."""


@dataclass(slots=True)
class Hash:
    """Fields and values; *expiry* by field with expiry (epoch ms)."""

    fields: dict[bytes, Sized] = field(default_factory=dict)
    expiry: dict[bytes, int] = field(default_factory=dict)


@dataclass(slots=True)
class Stream:
    """Entries in order (id to logged bytes), and the fields of XSETID."""

    entries: dict[StreamId, int] = field(default_factory=dict)
    last_id: StreamId = (0, 0)
    added: int = 0
    deleted_id: StreamId = (0, 0)


@dataclass(slots=True)
class Entry:
    """One key: type, value, expiry (epoch ms, -1: none), and the reason for its uncertainty, if any."""

    kind: str
    value: Any
    expire_at_ms: int = NEVER
    why: str = ""


_EMPTY: dict[str, Any] = {LIST: deque, SET: set, ZSET: dict, HASH: Hash, STREAM: Stream}


def length_of(value: Sized) -> int:
    """Return the bytes of a word stored by `sized`."""
    return value if isinstance(value, int) else len(value)


def count_of(entry: Entry) -> int:
    """Return STRLEN, LLEN, SCARD, ZCARD, HLEN or XLEN; -1 for module values and uncertain keys."""
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
        """Return the keys of the selected database."""
        return self.databases.setdefault(self.db, {})

    def keeps(self, length: int) -> bool:
        """Return whether a word of *length* bytes is stored in full."""
        return length <= CONTENT_BYTES_MAX

    def sized(self, word: bytes) -> Sized:
        """Return *word* as stored: itself, or its length."""
        return word if self.keeps(len(word)) else len(word)

    def find(self, key: bytes) -> Entry | None:
        """Return the key if it exists; raises UnknownEffect if uncertain."""
        entry = self.keys.get(key)
        if entry is not None and entry.kind == UNCERTAIN:
            raise UnknownEffect
        return entry

    def typed(self, key: bytes, kind: str) -> Any:
        """Return the value of a key of type *kind*, None if missing; raises Refused for another type."""
        entry = self.find(key)
        if entry is None:
            return None
        if entry.kind != kind:
            raise Refused
        return entry.value

    def made(self, key: bytes, kind: str) -> Any:
        """Return the value of a key of type *kind*, created empty if missing."""
        value = self.typed(key, kind)
        if value is None:
            value = _EMPTY[kind]()
            self.keys[key] = Entry(kind, value)
        return value

    def put(self, key: bytes, kind: str, value: Any, *, keep_expiry: bool = False) -> None:
        """Set a key; an empty collection (except a stream) removes it."""
        expire = NEVER
        old = self.keys.get(key)
        if keep_expiry and old is not None:
            if old.kind == UNCERTAIN:
                raise UnknownEffect
            expire = old.expire_at_ms
        entry = Entry(kind, value, expire)
        if kind in (LIST, SET, ZSET, HASH) and not count_of(entry):
            self.keys.pop(key, None)
        else:
            self.keys[key] = entry

    def drop_if_empty(self, key: bytes) -> None:
        """Remove an empty collection."""
        entry = self.keys.get(key)
        if entry is not None and entry.kind in (LIST, SET, ZSET, HASH) and not count_of(entry):
            del self.keys[key]

    def remove(self, key: bytes) -> None:
        """Remove a key, uncertain ones included."""
        self.keys.pop(key, None)

    def mark_uncertain(self, key: bytes) -> None:
        """Mark a key as uncertain because of the current command."""
        old = self.keys.get(key)
        if old is None or old.kind != UNCERTAIN:
            self.keys[key] = Entry(UNCERTAIN, None, NEVER, self.command)


def number(word: bytes) -> int:
    """Parse an integer like the server (`string2ll`); raises Refused if invalid."""
    digits = word[1:] if word[:1] == b"-" else word
    if not digits.isdigit() or len(digits) > 19 or (digits[0] == 48 and len(word) > 1):
        raise Refused
    return int(word)


def real(word: bytes) -> float:
    """Parse a floating-point number; raises Refused if invalid."""
    try:
        value = float(word)
    except ValueError:
        raise Refused from None
    if value != value or b"_" in word:
        raise Refused
    return value


def lowered(args: Sequence[bytes]) -> list[bytes]:
    """Return words in lower case."""
    return [word.lower() for word in args]


def stream_id(word: bytes) -> StreamId:
    """Parse an id ``ms-seq`` or ``ms``; raises Refused if invalid, UnknownEffect for an id chosen by the server."""
    if word in (b"-", b"+"):
        return (0, 0) if word == b"-" else (SEQUENCE_MAX, SEQUENCE_MAX)
    head, dash, tail = word.partition(b"-")
    if not head.isdigit() or (dash and not tail.isdigit()) or len(word) > 41:
        if word in (b"*", b"$", b">") or tail == b"*":
            raise UnknownEffect
        raise Refused
    return int(head), int(tail) if dash else 0
