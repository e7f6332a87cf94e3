"""Keys of every type, encoding and size that a memory model must know, as commands for a real server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Command = tuple[Any, ...]
FAR_MS = 4_102_444_800_000  # 2100


def commands(*, fields_expire: bool) -> Iterator[Command]:
    """Yield the commands; with *fields_expire* also those of Valkey 9 that let a hash's fields expire."""
    rng = random.Random(7)
    yield from _strings(rng)
    yield from _lists(rng)
    yield from _sets(rng)
    yield from _hashes(rng, fields_expire)
    yield from _sorted_sets(rng)
    yield from _streams(rng)


def _text(rng: random.Random, size: int) -> bytes:
    return b"".join(rng.choice((b"alpha", b"beta-", b"gamma", b"42,7;")) for _ in range(size // 5 + 1))[:size]


def _strings(rng: random.Random) -> Iterator[Command]:
    sizes = [*range(0, 140, 3), 43, 44, 45, 63, 64, 250, 255, 256, 1000, 5000, 40_000, 70_000]
    for index, size in enumerate(sizes):
        for key_size in (5, 31, 32, 129, 260):
            key = b"s:%d:" % index
            key += b"k" * max(0, key_size - len(key))
            value = rng.randbytes(size) if index % 2 and size < 2000 else _text(rng, size)
            yield ("SET", key, value, *(("PXAT", FAR_MS) if (index + key_size) % 3 == 0 else ()))
    for digits in range(1, 20):
        yield ("SET", b"int:%d" % digits, b"1" * digits)
        yield ("SET", b"int:negative:%d" % digits, b"-" + b"1" * digits, "PXAT", FAR_MS)
    yield ("SET", b"empty", b"")


def _count(rng: random.Random) -> int:
    return rng.choice((1, 2, 5, rng.randrange(1, 30), rng.randrange(30, 128), rng.randrange(128, 700)))


def _lists(rng: random.Random) -> Iterator[Command]:
    for index in range(44):
        key = b"list:%d" % index
        for _ in range(_count(rng)):
            yield ("RPUSH", key, _text(rng, rng.randrange(60)) if index % 3 else b"%d" % rng.randrange(10**9))
        if index % 4 == 0:
            yield ("PEXPIREAT", key, FAR_MS)
    for index in range(6):
        yield from (("RPUSH", b"list:long:%d" % index, _text(rng, 9) * 100) for _ in range(40 * (index + 1)))
    yield ("RPUSH", b"list:plain", _text(rng, 20_000), b"x", _text(rng, 9000), b"y")


def _sets(rng: random.Random) -> Iterator[Command]:
    for index in range(44):
        count = _count(rng)
        form = index % 4
        if form == 0:
            members = [b"%d" % rng.randrange(30_000) for _ in range(count)]
        elif form == 1:
            members = [b"%d" % rng.randrange(10**15) for _ in range(count)]
        else:
            members = [_text(rng, rng.randrange(1, 40)) + b"%d" % at for at in range(count)]
        if form == 3:
            members.insert(rng.randrange(count), _text(rng, 90))
        yield from _in_parts(("SADD", b"set:%d" % index), members, 1 if index % 3 else 100)


def _hashes(rng: random.Random, fields_expire: bool) -> Iterator[Command]:
    for index in range(44):
        key = b"hash:%d" % index
        pairs = []
        for at in range(_count(rng)):
            value = b"%d" % rng.randrange(10**6) if index % 3 == 0 else _text(rng, rng.randrange(50))
            pairs += [b"field:%d" % at + b"_" * rng.randrange(12), value]
        if index % 5 == 4:
            at = 2 * rng.randrange(len(pairs) // 2)
            pairs[at:at] = [b"long", _text(rng, 300)]
        yield from _in_parts(("HSET", key), pairs, 2 if index % 2 else 200)
        if fields_expire and index % 6 == 1:
            yield ("HPEXPIREAT", key, FAR_MS, "FIELDS", 2, pairs[0], pairs[-2])
        if index % 4 == 0:
            yield ("PEXPIREAT", key, FAR_MS)


def _sorted_sets(rng: random.Random) -> Iterator[Command]:
    for index in range(44):
        pairs: list[bytes] = []
        for at in range(_count(rng)):
            score = b"%.3f" % (rng.random() * 1e6) if index % 2 else b"%d" % rng.randrange(10**6)
            pairs += [score, b"member:%d" % at + b"m" * rng.randrange(20 if index % 3 else 60)]
        if index % 5 == 4:
            at = 2 * rng.randrange(len(pairs) // 2)
            pairs[at:at] = [b"1", _text(rng, 100)]
        yield from _in_parts(("ZADD", b"zset:%d" % index), pairs, 2 if index % 2 else 200)


def _streams(rng: random.Random) -> Iterator[Command]:
    for index in range(30):
        key = b"stream:%d" % index
        count = _count(rng)
        for at in range(count):
            ms = 1_893_456_000_000 + at * (1 if index % 2 else 7919)
            yield ("XADD", key, f"{ms}-{index % 3}", "event", _text(rng, 8), "body", _text(rng, rng.randrange(150)))
        for group in range(index % 4):
            yield ("XGROUP", "CREATE", key, f"group{group}", "0")
            for consumer in range(1 + index % 3):
                name = f"consumer-{consumer}" if index % 2 else f"{consumer}"
                yield ("XREADGROUP", "GROUP", f"group{group}", name, "COUNT", 1 + index * 3, "STREAMS", key, ">")
        if index % 7 == 3:
            yield ("XTRIM", key, "MAXLEN", "~", count // 2)
        if index % 7 == 5:
            yield ("XDEL", key, f"{1_893_456_000_000}-{index % 3}")


def _in_parts(head: Command, arguments: list[bytes], size: int) -> Iterator[Command]:
    for start in range(0, len(arguments), size):
        yield (*head, *arguments[start : start + size])
