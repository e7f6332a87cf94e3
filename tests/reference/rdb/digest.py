"""What DEBUG DIGEST-VALUE and DEBUG DIGEST answer, computed from decoded values (`xorObjectDigest`, `computeDatasetDigest`).

Two dumps with equal digests hold the same data, in whatever order and encoding.  The other way round it holds but for one case: a score
of -0 in a skip list keeps its sign, in a listpack it is 0, and the two have two digests in the servers, too.  As in the servers, the
digest knows whether a key expires but not when, and of a stream its entries but not its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha1
from typing import NamedTuple, cast

from cluster_core.rdb.encoding import printf_score
from cluster_core.rdb.grammar import DIALECT_REDIS
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.values import Field, ModuleValue, Record, StreamValue
from tests.reference.rdb.score_text import fpconv_score

DIGEST_BYTES = 20
_TYPE_NUMBERS = {"string": 0, "list": 1, "set": 2, "zset": 3, "hash": 4, "module": 5, "stream": 6}
_EXPIRE = b"!!expire!!"
_FIELD_EXPIRE = b"!!hexpire!!"


class DigestRules(NamedTuple):
    """What differs between servers: how a score is written, and whether a field that expires is marked (Redis 7.4)."""

    score_text: Callable[[float], str]
    marks_fields: bool


REDIS_70 = DigestRules(printf_score, marks_fields=False)
"""Redis up to 7.0."""
REDIS_72 = DigestRules(fpconv_score, marks_fields=False)
"""Redis 7.2 and Valkey."""
REDIS_74 = DigestRules(fpconv_score, marks_fields=True)
"""Redis from 7.4 on."""


def rules_of(head: RdbHead) -> DigestRules:
    """Return the rules of the server that wrote a file."""
    if head.dialect == DIALECT_REDIS and not head.server.startswith("valkey"):
        if head.version >= 12:
            return REDIS_74
        if head.version < 11:
            return REDIS_70
    return REDIS_72


def value_digest(record: Record, rules: DigestRules) -> bytes | None:
    """Return what DEBUG DIGEST-VALUE answers for a key, 20 bytes; None for a module's value, whose module alone can tell, and an array's."""
    digest = _value_digest(record, rules, 0)
    return None if digest is None else digest.to_bytes(DIGEST_BYTES, "big")


class KeyspaceDigest:
    """What DEBUG DIGEST answers for all keys that are added; *unknown* counts those of modules, which are left out."""

    def __init__(self, rules: DigestRules) -> None:
        self.unknown = 0
        self._rules = rules
        self._databases: dict[int, int] = {}

    def add(self, db: int, record: Record) -> None:
        """Add one key of database *db*."""
        digest = _value_digest(record, self._rules, _mixed(0, record.key))
        if digest is None:
            self.unknown += 1
        else:
            digest = _hash(digest.to_bytes(DIGEST_BYTES, "big"))
        self._databases[db] = self._databases.get(db, 0) ^ (digest or 0)

    def result(self) -> bytes:
        """Return the digest of what was added, 20 bytes."""
        total = 0
        for db in sorted(self._databases):
            total = _mixed(total, db.to_bytes(4, "big")) ^ self._databases[db]
        return total.to_bytes(DIGEST_BYTES, "big")


def _value_digest(record: Record, rules: DigestRules, digest: int) -> int | None:
    value = record.value
    if record.type not in _TYPE_NUMBERS:  # an array: Redis 8.8 was not asked
        return None
    digest = _mixed(digest, _TYPE_NUMBERS[record.type].to_bytes(4, "big"))
    if isinstance(value, bytes):
        digest = _mixed(digest, value)
    elif isinstance(value, ModuleValue):
        return None
    elif isinstance(value, StreamValue):
        digest = _in_order(digest, _stream_words(value))
    elif record.type == "list":
        digest = _in_order(digest, value)  # type: ignore[arg-type]  # the type says what the value is
    else:
        for element in value:  # type: ignore[attr-defined]
            digest ^= _element(record.type, element, rules)
    return digest ^ _hash(_EXPIRE) if record.expire_at_ms >= 0 else digest


def _element(kind: str, element: object, rules: DigestRules) -> int:
    """The digest of one element of a set, a sorted set or a hash."""
    if isinstance(element, bytes):
        return _hash(element)
    if isinstance(element, Field):
        digest = _mixed(_mixed(0, element.name), element.value)
        if rules.marks_fields and element.expire_at_ms >= 0:
            digest ^= _hash(_FIELD_EXPIRE)
    else:
        member, score = cast("tuple[bytes, float]", element)
        digest = _mixed(_mixed(0, member), rules.score_text(score).encode())
    return _hash(digest.to_bytes(DIGEST_BYTES, "big"))


def _stream_words(stream: StreamValue) -> Iterable[bytes]:
    for entry in stream.entries:
        yield b"%d.%d" % entry.id
        yield from entry.words


def _in_order(digest: int, words: Iterable[bytes]) -> int:
    for word in words:
        digest = _mixed(digest, word)
    return digest


def _mixed(digest: int, data: bytes) -> int:
    """`mixDigest`: the order of what is mixed in matters."""
    return _hash((digest ^ _hash(data)).to_bytes(DIGEST_BYTES, "big"))


def _hash(data: bytes) -> int:
    return int.from_bytes(sha1(data, usedforsecurity=False).digest(), "big")
