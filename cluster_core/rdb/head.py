"""Head of an RDB file: dialect, version, server, auxiliary fields, databases."""

from __future__ import annotations

import re
from typing import NamedTuple

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.rdb.grammar import AUX_FIELDS_MAX, DIALECT_VALKEY, VERSIONS, Grammar, grammar_of

MAGIC_BYTES = 9
"""Bytes of magic and version: ``REDIS0011`` or ``VALKEY080``."""

_FOREIGN_MAGIC = (
    (b"*", "this is an AOF, not an RDB"),
    (b"$", "this is an AOF, not an RDB"),
    (b"#", "this is an AOF, not an RDB"),
    (b"\x1f\x8b", "this is compressed data (gzip), not an RDB"),
    (b"\x28\xb5\x2f\xfd", "this is compressed data (zstd), not an RDB"),
)


class RdbHead(NamedTuple):
    """Properties of the file from its first bytes.

    *server*: ``valkey 9.1.2`` or ``redis 7.0.15`` (aux ``valkey-ver``, ``redis-ver``; empty if absent); *db*: database at
    the start of a range; *bits*: word size of the writer (aux ``redis-bits``).
    """

    dialect: str
    version: int
    server: str = ""
    db: int = 0
    bits: int = 64

    @property
    def grammar(self) -> Grammar:
        """Return the grammar of the file."""
        return grammar_of(self.dialect, self.version)

    @property
    def small_lists_are_listpacks(self) -> bool:
        """Return whether a list with a single packed node is a listpack: Redis from 7.2, Valkey (`listTypeTryConversion`)."""
        if self.dialect == DIALECT_VALKEY or self.version >= 11:
            return True
        return self.server.startswith("valkey") or _number(self.server) >= (7, 2)

    @property
    def embstr_rule(self) -> int:
        """Return the writer's rule for embstr encoding, see `embstr_bytes_max`.

        0: never; 1: up to 39 bytes (Redis 3.0); 2: up to 44; 64 and 128: header, key, expiry and value together (Valkey 8.1 and
        9.1, `shouldEmbedStringObject`).
        """
        if self.dialect == DIALECT_VALKEY or self.server.startswith("valkey"):
            number = _number(self.server) or (9, 1)
            return 128 if number >= (9, 1) else 64 if number >= (8, 1) else 2
        if self.version <= 5:
            return 0
        return 1 if self.version == 6 else 2


def _number(server: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,9}", server)[:2])


def embstr_bytes_max(rule: int, key_bytes: int, expires: bool) -> int:
    """Return the longest string that the writer embeds, under *rule* of `RdbHead.embstr_rule`; -1 if none."""
    if rule < 64:
        return 44 if rule == 2 else 39 if rule == 1 else -1
    key_header = 1 if key_bytes < 32 else 3 if key_bytes < 256 else 5 if key_bytes < 65_536 else 9
    return min(255, rule - 8 - (key_header + key_bytes + 2) - (8 if expires else 0) - 4)


def read_magic(first: bytes, source: str) -> RdbHead:
    """Parse dialect and version from the first `MAGIC_BYTES`; TruncatedError for a shorter file, else DecodeError."""
    if not first:
        raise TruncatedError("the file is empty", offset=0, source=source)
    for magic, reason in _FOREIGN_MAGIC:
        if first.startswith(magic):
            raise DecodeError(reason, offset=0, source=source)
    for dialect, (low, high) in VERSIONS.items():
        name = dialect.encode()
        digits = first[len(name) :]
        if first.startswith(name) and digits.isdigit() and len(first) == MAGIC_BYTES:
            return RdbHead(dialect, _checked_version(int(digits), low, high, source))
        if len(first) < MAGIC_BYTES and (name.startswith(first) or (first.startswith(name) and digits.isdigit())):
            raise TruncatedError("the file ends within its first 9 bytes", offset=len(first), source=source)
    raise DecodeError(f"this is not an RDB: it begins with {repr(first)[1:]}", offset=0, source=source)


def _checked_version(version: int, low: int, high: int, source: str) -> int:
    if version > high:
        raise DecodeError(f"RDB version {version} is newer than this reader knows ({high})", offset=0, source=source)
    if version < low:
        raise DecodeError(f"RDB version {version} is older than any that exists ({low})", offset=0, source=source)
    return version


class SplitError(DecodeError):
    """A range of a file is not readable on its own: read the whole file."""


class DeclaredCounts(NamedTuple):
    """Numbers of keys, and of expiring keys, of a database by RESIZEDB."""

    keys: int
    expires: int


class FileFacts:
    """Head, auxiliary fields and database sizes of a file or range."""

    def __init__(self, head: RdbHead | None, *, source: str, start: int, end: int | None) -> None:
        self.head = head
        self.aux: dict[str, str] = {}
        self.databases: dict[int, DeclaredCounts] = {}
        self.db = head.db if head else 0
        self._source = source
        self._start = start
        self._end = end
        self._selected = start > 0

    def add_aux(self, name: bytes, value: bytes) -> bool:
        """Keep one auxiliary field, up to `AUX_FIELDS_MAX`; return whether it describes the writer."""
        label = _text(name)
        if label in self.aux or len(self.aux) < AUX_FIELDS_MAX:
            self.aux[label] = _text(value)
        if label == "redis-bits" and self.head is not None:
            self.head = self.head._replace(bits=32 if value == b"32" else 64)
            return True
        if label not in ("valkey-ver", "redis-ver") or self.head is None:
            return False
        if label == "redis-ver" and self.head.server.startswith("valkey"):
            return False
        self.head = self.head._replace(server=f"{label.removesuffix('-ver')} {self.aux.get(label, '')}")
        return True

    def select(self, db: int, offset: int) -> None:
        """Start database *db*; SplitError if a range must not cross databases."""
        if self._end is not None and db != self.db and self._selected:
            raise SplitError(
                f"database {db} begins in a range that is not the last", offset=offset, source=self._source
            )
        if not self._selected and self.head is not None:
            self.head = self.head._replace(db=db)
        self.db = db
        self._selected = True

    def resize(self, keys: int, expires: int) -> None:
        """Add the announced size of the current database."""
        before = self.databases.get(self.db, DeclaredCounts(0, 0))
        self.databases[self.db] = DeclaredCounts(before.keys + keys, before.expires + expires)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
