"""What DEBUG DIGEST-VALUE and DEBUG DIGEST answer, computed from decoded values (`xorObjectDigest`, `computeDatasetDigest`).

Two dumps with equal digests hold the same data, in whatever order and encoding.  The other way round it holds but for one case: a score
of -0 in a skip list keeps its sign, in a listpack it is 0, and the two have two digests in the servers, too.  As in the servers, the
digest knows whether a key expires but not when, and of a stream its entries but not its groups.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha1
from typing import NamedTuple, cast

from cluster_core.rdb.grammar import DIALECT_REDIS
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.values import Field, ModuleValue, Record, StreamValue

_MASK = (1 << 64) - 1
_HIDDEN = 1 << 52
_FIRST_POWER, _STEP = -348, 8
_EXPONENT_MIN, _EXPONENT_MAX = -60, -32
_DIGITS_MAX = 18


def printf_score(score: float) -> str:
    """Return *score* as Redis up to 7.0 writes it."""
    if math.isinf(score):
        return "inf" if score > 0 else "-inf"
    return "%.17g" % score  # noqa: UP031 - it is the C format


def fpconv_score(score: float) -> str:
    """Return *score* as `fpconv_dtoa` prints it: Redis from 7.2 on and Valkey; before, see `printf_score`.

    fpconv is Grisu2 (Loitsch 2010): nearly always the shortest digits that read back as the same number, but not always.

    >>> fpconv_score(0.1), fpconv_score(1.2345678901234568e17), fpconv_score(1e-7)
    ('0.1', '123456789012345680', '1e-7')
    """
    sign = "-" if math.copysign(1.0, score) < 0 else ""
    if score == 0:
        return sign + "0"
    if not math.isfinite(score):
        return sign + ("nan" if math.isnan(score) else "inf")
    digits, power = _grisu2(abs(score))
    return sign + _placed(digits, power, bool(sign))


def _placed(digits: str, power: int, negative: bool) -> str:
    """*digits* times ten to the *power*, with a point or an exponent (`emit_digits`)."""
    exponent = power + len(digits) - 1
    if power >= 0 and abs(exponent) < len(digits) + 7:
        return digits + "0" * power
    if power < 0 and (power > -7 or abs(exponent) < 4):
        whole = len(digits) + power
        return f"0.{'0' * -whole}{digits}" if whole <= 0 else f"{digits[:whole]}.{digits[whole:]}"
    digits = digits[: _DIGITS_MAX - negative]
    point = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent)}"


@cache
def _power(index: int) -> tuple[int, int, int]:
    """The *index*-th cached power of ten: (64 bits, binary exponent, decimal exponent)."""
    decimal = _FIRST_POWER + _STEP * index
    above, below = (10**decimal, 1) if decimal >= 0 else (1, 10**-decimal)
    exponent = above.bit_length() - below.bit_length() - 64
    while True:
        scaled, unit = (above << -exponent, below) if exponent < 0 else (above, below << exponent)
        bits = (2 * scaled + unit) // (2 * unit)
        if bits >> 64:
            exponent += 1
        elif not bits >> 63:
            exponent -= 1
        else:
            return bits, exponent, decimal


def _near_power(exponent: int) -> tuple[int, int, int]:
    index = int((int(-(exponent + 87) * 0.30102999566398114) - _FIRST_POWER) / _STEP)
    while True:
        power = _power(index)
        sum_exponent = exponent + power[1] + 64
        if sum_exponent < _EXPONENT_MIN:
            index += 1
        elif sum_exponent > _EXPONENT_MAX:
            index -= 1
        else:
            return power


def _grisu2(value: float) -> tuple[str, int]:
    """Return (digits, power of ten) of a positive number."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    fraction, biased = bits & (_HIDDEN - 1), bits >> 52
    fraction, exponent = (fraction + _HIDDEN, biased - 1075) if biased else (fraction, -1074)
    upper, upper_exponent = _shifted((fraction << 1) + 1, exponent - 1)
    step = 2 if fraction == _HIDDEN else 1
    lower = ((fraction << step) - 1) << (exponent - step - upper_exponent)
    middle, _ = _shifted(fraction, exponent)
    power, power_exponent, decimal = _near_power(upper_exponent)
    middle, upper, lower = (
        (part * power + (1 << 63)) >> 64 for part in (middle, upper & _MASK, lower & _MASK)
    )  # each to 64 bits, rounded
    digits, kappa = _digits(middle, upper - 1, lower + 1, upper_exponent + power_exponent + 64)
    return digits, kappa - decimal


def _shifted(fraction: int, exponent: int) -> tuple[int, int]:
    shift = 64 - fraction.bit_length()
    return fraction << shift, exponent - shift


def _digits(middle: int, upper: int, lower: int, exponent: int) -> tuple[str, int]:
    """Generate digits of *upper* until what is left lies within the bounds, then turn the last one towards *middle*."""
    gap, delta, bits = upper - middle, upper - lower, -exponent
    one = 1 << bits
    whole, part = upper >> bits, upper & (one - 1)
    found: list[int] = []
    for kappa in range(9, -1, -1):
        digit, whole = divmod(whole, 10**kappa)
        if digit or found:
            found.append(digit)
        rest = (whole << bits) + part
        if rest <= delta:
            return _rounded(found, delta, rest, 10**kappa << bits, gap), kappa
    kappa, unit = 0, 1
    while True:
        part, delta, unit, kappa = part * 10, delta * 10, unit * 10, kappa - 1
        digit, part = part >> bits, part & (one - 1)
        if digit or found:
            found.append(digit)
        if part < delta:
            return _rounded(found, delta, part, one, gap * unit & _MASK), kappa


def _rounded(digits: list[int], delta: int, rest: int, unit: int, gap: int) -> str:
    last = digits[-1]
    while rest < gap and delta - rest >= unit and (rest + unit < gap or gap - rest > rest + unit - gap):
        last -= 1
        rest += unit
    return "".join(map(str, digits[:-1])) + str(last)


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
