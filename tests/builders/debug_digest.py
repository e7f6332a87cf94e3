"""What DEBUG DIGEST-VALUE answers, computed from values (`xorObjectDigest`).

The digest knows whether a key expires but not when, and the entries of a stream but not its groups.  Scores are written as Redis up to 7.0
does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import sha1
from typing import Any

from tests.builders.rdb_values import Field, Record, unmarked

DIGEST_BYTES = 20
_TYPE_NUMBERS = {"string": 0, "list": 1, "set": 2, "zset": 3, "hash": 4, "stream": 6}
_EXPIRE = b"!!expire!!"


def value_digest(record: Record) -> bytes | None:
    """Return DEBUG DIGEST-VALUE of a key, 20 bytes; None for arrays and values of modules."""
    if record.type not in _TYPE_NUMBERS:
        return None
    digest, value = _mixed(0, _TYPE_NUMBERS[record.type].to_bytes(4, "big")), record.value
    if record.type == "string":
        digest = _mixed(digest, value)
    elif record.type == "stream":
        digest = _in_order(digest, _stream_bytes(value))
    elif record.type == "list":
        digest = _in_order(digest, value)
    else:
        for element in value:
            digest ^= _element(element)
    digest ^= _hash(_EXPIRE) if record.expire_at_ms >= 0 else 0
    return digest.to_bytes(DIGEST_BYTES, "big")


def _element(element: Any) -> int:
    """The digest of one element of a set, a sorted set or a hash."""
    if isinstance(element, bytes):
        return _hash(element)
    if isinstance(element, Field):
        digest = _mixed(_mixed(0, element.name), element.value)
    else:
        member, score = element
        digest = _mixed(_mixed(0, member), _score_text(score).encode())
    return _hash(digest.to_bytes(DIGEST_BYTES, "big"))


def _score_text(score: float) -> str:
    """Return *score* as Redis up to 7.0 writes it."""
    if math.isinf(score):
        return "inf" if score > 0 else "-inf"
    return "%.17g" % score  # noqa: UP031 - it is the C format


def _stream_bytes(stream: dict[str, Any]) -> Iterable[bytes]:
    for entry in stream["entries"]:
        yield entry["id"].replace("-", ".").encode()
        for pair in entry["fields"]:
            yield from map(unmarked, pair)


def _in_order(digest: int, parts: Iterable[bytes]) -> int:
    for word in parts:
        digest = _mixed(digest, word)
    return digest


def _mixed(digest: int, data: bytes) -> int:
    """`mixDigest`: the order of the inputs matters."""
    return _hash((digest ^ _hash(data)).to_bytes(DIGEST_BYTES, "big"))


def _hash(data: bytes) -> int:
    return int.from_bytes(sha1(data, usedforsecurity=False).digest(), "big")
