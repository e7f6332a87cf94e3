"""A deterministic key space as server commands: the load that the dump benchmarks read.

At scale 1.0 it holds 2,000,000 strings (25 % compressible profiles, 20 % random bytes, 15 % skewed ``{userN}`` carts,
15 % integers, 15 % cached pages up to 20 kB, 2 % keys of very hot ``{tenant:N}`` tags, 8 % short ones), 100,000
collections of every type, six very big keys and a function; 40 % of the strings and 20 % of the collections expire in
2030. The bytes depend on the seed alone: all chance comes from the raw output of a counter-based generator (Philox),
which numpy keeps stable.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

EXPIRY_FROM_MS = 1_893_456_000_000
"""2030-01-01, so that no key expires while a benchmark runs."""
EXPIRY_SPAN_MS = 60 * 86_400_000

_ITEMS_PER_COMMAND = 500
_WORDS = (
    b"account agent archive basket billing branch browser bundle campaign carrier category channel "
    b"checkout comment contract coupon courier currency customer delivery deposit discount district draft "
    b"email event factory feature gift holiday image ledger locale market member "
).split()


class Chance:
    """Deterministic draws: uniform and normal numbers made in blocks, text and bytes cut out of fixed pools."""

    def __init__(self, seed: int) -> None:
        self._raw = np.random.Philox(seed)
        self.uniform = chain.from_iterable(iter(self._uniforms, None)).__next__
        self.normal = chain.from_iterable(iter(self._normals, None)).__next__
        self.random_pool = self._raw.random_raw(1 << 18).tobytes()
        pieces = [
            b'"%s":"%s-%d",' % (_WORDS[a % len(_WORDS)], _WORDS[b % len(_WORDS)], c % 1000)
            for a, b, c in self._raw.random_raw(3 * 100_000).reshape(-1, 3).tolist()
        ]
        self.text_pool = b"".join(pieces)

    def _doubles(self, count: int) -> Any:
        return (self._raw.random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _uniforms(self) -> list[float]:
        return self._doubles(100_000).tolist()

    def _normals(self) -> list[float]:
        radius = np.sqrt(-2.0 * np.log(1.0 - self._doubles(50_000)))
        return (radius * np.cos(2.0 * np.pi * self._doubles(50_000))).tolist()

    def below(self, bound: int) -> int:
        """Return an integer from 0 to *bound* - 1."""
        return int(self.uniform() * bound)

    def skewed(self, bound: int) -> int:
        """Return an integer below *bound*, small ones far more often."""
        return int(bound * self.uniform() ** 4)

    def size(self, mu: float, sigma: float, most: int) -> int:
        """Return a log-normal length in bytes, at most *most*."""
        return min(most, int(2.718281828459045 ** (mu + sigma * self.normal())) + 1)

    def word(self) -> bytes:
        """Return a word."""
        return _WORDS[int(self.uniform() * len(_WORDS))]

    def text(self, size: int) -> bytes:
        """Return *size* bytes that look like JSON and compress like it."""
        start = int(self.uniform() * (len(self.text_pool) - size))
        return b"{%b}" % self.text_pool[start : start + size]

    def noise(self, size: int) -> bytes:
        """Return *size* bytes that do not compress."""
        start = int(self.uniform() * (len(self.random_pool) - size))
        return self.random_pool[start : start + size]

    def hexadecimal(self, digits: int) -> bytes:
        """Return *digits* (at most 26) hexadecimal digits."""
        return (b"%013x%013x" % (int(self.uniform() * 2**52), int(self.uniform() * 2**52)))[:digits]


def commands(scale: float, seed: int = 1) -> Iterator[bytes]:
    """Yield the commands of the whole key space, each one RESP array of bulk strings."""
    chance = Chance(seed)
    for index in range(int(2_000_000 * scale)):
        yield _string(chance, index)
    for index in range(int(100_000 * scale)):
        yield from _collection(chance, index)
    yield from _giants(chance, min(scale, 1.0))
    yield encode(b"FUNCTION", b"LOAD", b"REPLACE", _FUNCTION)


def encode(*arguments: bytes) -> bytes:
    """Return a command as RESP."""
    return b"*%d\r\n" % len(arguments) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in arguments])


_FUNCTION = b"#!lua name=bench\nredis.register_function('hello', function(keys, args) return 'hello' end)"


def _string(chance: Chance, index: int) -> bytes:
    key, value = _string_pair(chance, index)
    if chance.uniform() < 0.4:
        return encode(b"SET", key, value, b"PXAT", b"%d" % (EXPIRY_FROM_MS + chance.below(EXPIRY_SPAN_MS)))
    return encode(b"SET", key, value)


def _string_pair(chance: Chance, index: int) -> tuple[bytes, bytes]:
    kind = chance.uniform()
    if kind < 0.25:
        return b"user:%d:profile" % index, chance.text(chance.size(4.85, 0.7, 4000))
    if kind < 0.45:
        return b"sess:%b" % chance.hexadecimal(24), chance.noise(chance.size(4.2, 0.5, 2000))
    if kind < 0.60:
        return b"{user%d}:cart:%d" % (chance.skewed(300_000), index), chance.text(chance.size(4.05, 0.8, 3000))
    if kind < 0.75:
        key = b"cnt:%d:%b" % (20_300_101 + chance.below(30), chance.hexadecimal(8))
        return key, b"%d" % chance.below(10 ** (1 + chance.below(11)))
    if kind < 0.90:
        return b"cache:page:/p/%b/%d" % (chance.word(), index), chance.text(chance.size(5.25, 0.9, 20_000))
    if kind < 0.92:
        return b"{tenant:%d}:cfg:%d" % (chance.skewed(50), index), chance.word()
    return b"short:%d" % index, chance.word()


def _collection_size(chance: Chance) -> int:
    kind = chance.uniform()
    if kind < 0.70:
        return 1 + chance.below(30)
    if kind < 0.95:
        return 30 + chance.below(90)
    if kind < 0.995:
        return 130 + chance.below(900)
    return 1000 + chance.below(8000)


def _collection(chance: Chance, index: int) -> Iterator[bytes]:
    kind = chance.uniform()
    size = _collection_size(chance)
    tag = b"{user%d}:" % chance.skewed(300_000) if chance.uniform() < 0.3 else b""
    if kind < 0.35:
        key = b"%bhash:%d" % (tag, index)
        yield from _filled(b"HSET", key, _hash_items(chance, size), 2)
    elif kind < 0.55:
        key = b"%blist:%d" % (tag, index)
        yield from _filled(b"RPUSH", key, _list_items(chance, size), 1)
    elif kind < 0.75:
        key = b"%bset:%d" % (tag, index)
        yield from _filled(b"SADD", key, _set_items(chance, size), 1)
    elif kind < 0.90:
        key = b"%bzset:%d" % (tag, index)
        yield from _filled(b"ZADD", key, _zset_items(chance, size), 2)
    else:
        key = b"%bstream:%d" % (tag, index)
        yield from _stream(chance, key, min(size, 2000))
    if chance.uniform() < 0.2:
        yield encode(b"PEXPIREAT", key, b"%d" % (EXPIRY_FROM_MS + chance.below(EXPIRY_SPAN_MS)))


def _filled(command: bytes, key: bytes, items: Iterator[bytes], arguments_per_item: int) -> Iterator[bytes]:
    """Yield *command* over all *items*, a bounded number of them in each."""
    limit = _ITEMS_PER_COMMAND * arguments_per_item
    batch: list[bytes] = []
    for item in items:
        batch.append(item)
        if len(batch) == limit:
            yield encode(command, key, *batch)
            batch = []
    if batch:
        yield encode(command, key, *batch)


def _hash_items(chance: Chance, size: int) -> Iterator[bytes]:
    for field in range(size):
        yield b"f%d:%b" % (field, chance.word())
        yield chance.text(28) if chance.uniform() < 0.3 else b"%d" % chance.below(10**9)


def _list_items(chance: Chance, size: int) -> Iterator[bytes]:
    for _ in range(size):
        yield (b"%d" % chance.below(10**6) if chance.uniform() < 0.5 else chance.text(chance.size(3.4, 0.6, 400)))


def _set_items(chance: Chance, size: int) -> Iterator[bytes]:
    integers = chance.uniform() < 0.4
    for _ in range(size):
        yield b"%d" % chance.below(10**9) if integers else b"m:%b" % chance.hexadecimal(12)


def _zset_items(chance: Chance, size: int) -> Iterator[bytes]:
    for _ in range(size):
        yield b"%.3f" % (chance.uniform() * 1e6) if chance.uniform() < 0.7 else b"%d" % chance.below(10**6)
        yield b"member:%b" % chance.hexadecimal(10)


def _stream(chance: Chance, key: bytes, size: int) -> Iterator[bytes]:
    for entry in range(size):
        at = b"%d-0" % (EXPIRY_FROM_MS + entry * 10)
        number = b"%d" % chance.below(10**9)
        yield encode(b"XADD", key, at, b"event", chance.word(), b"id", number, b"body", chance.text(38))
    if chance.uniform() < 0.3:
        yield encode(b"XGROUP", b"CREATE", key, b"readers", b"0")
        count = b"%d" % min(size, 10)
        yield encode(b"XREADGROUP", b"GROUP", b"readers", b"one", b"COUNT", count, b"STREAMS", key, b">")


def _giants(chance: Chance, scale: float) -> Iterator[bytes]:
    big = {count: int(count * scale) for count in (200_000, 300_000)}
    fields = chain.from_iterable((b"field:%d" % i, chance.text(48)) for i in range(big[200_000]))
    yield from _filled(b"HSET", b"big:hash", fields, 2)
    players = chain.from_iterable(
        (b"%.2f" % (chance.uniform() * 1e7), b"player:%b" % chance.hexadecimal(12)) for _ in range(big[300_000])
    )
    yield from _filled(b"ZADD", b"{tenant:0}:big:zset", players, 2)
    members = (b"uid:%b" % chance.hexadecimal(16) for _ in range(big[200_000]))
    yield from _filled(b"SADD", b"{tenant:0}:big:set", members, 1)
    yield from _filled(b"RPUSH", b"big:list", (chance.text(38) for _ in range(big[300_000])), 1)
    yield encode(b"SET", b"big:string", (chance.random_pool * 10)[: int((20 << 20) * scale)])
    yield encode(b"SET", b"big:string:json", (chance.text_pool * 4)[: int((10 << 20) * scale)])
