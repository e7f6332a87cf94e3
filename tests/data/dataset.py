"""What the recorded servers hold: a small web shop, skewed as real ones are, and key names that nobody wishes
for.

Everything follows from the seed; no expiry is before 2030, so that a server which loads a dump later still
has every key.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

Command = tuple[Any, ...]

YEAR_2030_MS = 1_893_456_000_000
HOUR_MS = 3_600_000
WORDS = (
    "alpha",
    "beta",
    "gamma",
    "order",
    "invoice",
    "shipped",
    "pending",
    "email",
    "price",
    "city",
    "session",
    "token",
    "review",
    "blue",
    "green",
    "large",
    "express",
)

HOSTILE_KEYS = (
    b"",
    b"{}",
    b"a{}b{c}",
    b"{{x}}",
    b"<script>alert(1)</script>",
    b'"><img src=x onerror=alert(1)>',
    b"&lt;b&gt;&amp;",
    b"\x1b[2J\x1b[31mred\x1b[0m",
    b"\x1b]0;title\x07",
    b"line one\nline two\r\tend",
    b"\x00\x01\x02nul",
    b"\xff\xfe\x80not utf-8",
    "ключ:ü:🔥".encode(),
    "\u202egnp.exe".encode(),
    b"=cmd|'/c calc'!A0",
    b"quote'\"\\`$(id)",
    b"../../etc/passwd",
    b"%s%n{0}${x}",
    b"long:" + b"x" * 2000,
)


def shop(random: Random, *, users: int = 400, scale: float = 1.0, field_expiry: bool = False) -> Iterator[Command]:
    """Commands that fill the first snapshot (about 6,000 keys at *scale* 1)."""
    yield from _strings(random, users, scale)
    yield from _collections(random, users, scale)
    yield from _big_keys(random, scale)
    for index, key in enumerate(HOSTILE_KEYS):
        yield ("SET", key, b"v%d" % index)
    if field_expiry:
        yield ("HSET", "hashttl:1", "a", "1", "b", "2", "c", "3")
        yield ("HPEXPIREAT", "hashttl:1", YEAR_2030_MS, "FIELDS", 1, "a")


def growth(random: Random, *, users: int = 400) -> Iterator[Command]:
    """Commands between the first and the second snapshot: one tenant grows, a new prefix appears, sessions
    come and go.
    """
    for index in range(900, 1500):
        yield ("SET", f"{{tenant:acme}}:item:{index}", _json(random, 60))
    for index in range(300):
        yield ("SET", f"export:2030-01:{index:05d}", _json(random, 150), "PXAT", _expiry(random))
    for index in range(250):
        yield ("DEL", f"cache:page:/p/{WORDS[index % len(WORDS)]}/{index}")
    for _ in range(200):
        yield ("RPUSH", f"{{user:{_zipf(random, users)}}}:orders", *_numbers(random, 3))
    for start in range(0, 2000, 500):
        yield ("ZADD", "leaderboard:season:7", *_scored(start + 3000, 500))


def zoo(random: Random, db: int) -> Iterator[Command]:
    """Every type and encoding of a server once or a few times, named by what they are."""
    for value in (0, -1, 127, -32768, 2**31, 2**40, -(2**62), 10**18):
        yield ("SET", f"int:{value}", value)
    for size in (0, 1, 44, 45, 63, 64, 1000, 16383, 16384, 20000):
        yield ("SET", f"text:{size}", "ab" * (size // 2) + "c" * (size % 2))
        yield ("SET", f"noise:{size}", random.randbytes(size))
    yield ("APPEND", "appended", "123")
    for count in (1, 5, 128, 129, 600):
        yield ("RPUSH", f"list:{count}", *(f"item {index}" for index in range(count)))
        yield ("RPUSH", f"list-wide:{count}", *(_json(random, 200) for _ in range(count)))
        yield ("SADD", f"set-int:{count}", *(index * 1000003 for index in range(count)))
        yield ("SADD", f"set-text:{count}", *(f"member {index}" for index in range(count)))
        yield ("ZADD", f"zset:{count}", *_scored(0, count))
        yield ("HSET", f"hash:{count}", *_fields(random, count))
    yield ("SADD", "set-wide-ints", -(2**40), 5, 2**50)
    yield ("RPUSH", "list-one-big", random.randbytes(9000))
    yield ("HSET", "hash-one-big", "field", random.randbytes(300))
    yield ("ZADD", "zset-inf", "-inf", "low", "inf", "high", "0.1", "tenth", "1e300", "huge")
    yield from _stream(random, "stream:groups", 150)
    yield ("XGROUP", "CREATE", "stream:empty", "workers", "$", "MKSTREAM")
    yield ("SETBIT", "bits", 70000, 1)
    yield ("PFADD", "visitors", *(f"v{index}" for index in range(200)))
    yield ("GEOADD", "places", 13.4, 52.5, "Berlin", 2.35, 48.85, "Paris")
    for index in range(30):
        yield ("SET", f"expiring:{db}:{index}", index, "PXAT", _expiry(random))


def _strings(random: Random, users: int, scale: float) -> Iterator[Command]:
    for _ in range(int(1800 * scale)):
        yield ("SET", f"session:{random.getrandbits(64):016x}", random.randbytes(24), "PXAT", _expiry(random))
    for index in range(int(900 * scale)):
        yield ("SET", f"{{tenant:acme}}:item:{index}", _json(random, 60))
    for index in range(int(700 * scale)):
        page = f"cache:page:/p/{WORDS[index % len(WORDS)]}/{index}"
        yield ("SET", page, _json(random, random.randrange(80, 500)), "PXAT", _expiry(random))
    for index in range(int(1000 * scale)):
        yield (
            "SET",
            f"metrics:2030-01-{index % 28 + 1:02d}:{WORDS[index % 7]}:{index}",
            random.randrange(10 ** random.randrange(1, 12)),
        )
    for index in range(users):
        yield ("SET", f"{{user:{index}}}:name", f"{WORDS[index % len(WORDS)]} {index}")


def _collections(random: Random, users: int, scale: float) -> Iterator[Command]:
    for index in range(int(500 * scale)):
        user = f"{{user:{_zipf(random, users)}}}"
        yield ("HSET", f"{user}:cart:{index}", *_fields(random, random.randrange(1, 8)))
    for _ in range(int(700 * scale)):
        yield ("RPUSH", f"{{user:{_zipf(random, users)}}}:orders", *_numbers(random, 4))
    for index in range(int(150 * scale)):
        yield ("SADD", f"tags:item:{index}", *(random.choice(WORDS) for _ in range(5)))
        yield ("SADD", f"seen:{index}", *_numbers(random, random.randrange(1, 12)))
        yield ("ZADD", f"recent:{index}", *_scored(index, random.randrange(1, 20)))
    for shard in range(3):
        yield from _stream(random, f"events:orders:{shard}", 200)


def _big_keys(random: Random, scale: float) -> Iterator[Command]:
    for start in range(0, int(3000 * scale), 500):
        yield ("ZADD", "leaderboard:season:7", *_scored(start, 500))
        yield (
            "HSET",
            "catalog:index",
            *(part for index in range(start, start + 300) for part in (f"sku-{index:06d}", f"{index * 37 % 9973}")),
        )
        yield ("RPUSH", "queue:mail", *(f"to:{index}@shop.example" for index in range(start, start + 250)))
        yield ("SADD", "visitors:2030-01-01", *(f"visitor-{index}" for index in range(start, start + 200)))
    yield ("SET", "blob:report.pdf", random.randbytes(int(60_000 * scale)))
    yield ("SET", "template:home", "<div class='row'>item</div>\n" * int(3000 * scale))


def _stream(random: Random, key: str, entries: int) -> Iterator[Command]:
    for index in range(1, entries + 1):
        yield (
            "XADD",
            key,
            f"{YEAR_2030_MS + index * 10}-{index % 3}",
            "order",
            index,
            "state",
            random.choice(WORDS),
        )
    yield ("XGROUP", "CREATE", key, "billing", "0")
    yield ("XGROUP", "CREATE", key, "shipping", f"{YEAR_2030_MS + entries * 5}-0")
    yield ("XREADGROUP", "GROUP", "billing", "worker-1", "COUNT", 20, "STREAMS", key, ">")
    yield ("XREADGROUP", "GROUP", "billing", "worker-2", "COUNT", 5, "STREAMS", key, ">")
    yield ("XACK", key, "billing", f"{YEAR_2030_MS + 10}-1")
    yield ("XDEL", key, f"{YEAR_2030_MS + 20}-2")


def _expiry(random: Random) -> int:
    """Absolute expiry in ms: hours, days, months or decades after the start of 2030."""
    return YEAR_2030_MS + random.randrange(1, 24 * 10 ** random.randrange(1, 5)) * HOUR_MS + random.randrange(1000)


def _zipf(random: Random, count: int) -> int:
    """Integer below *count*, small ones far more often."""
    return int(count * random.random() ** 4)


def _json(random: Random, size: int) -> str:
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        parts.append(f'"{random.choice(WORDS)}":"{random.choice(WORDS)}-{random.randrange(100)}"')
    return "{" + ",".join(parts) + "}"


def _fields(random: Random, count: int) -> list[Any]:
    return [part for index in range(count) for part in (f"field-{index}", random.choice(WORDS))]


def _numbers(random: Random, count: int) -> list[int]:
    return [random.randrange(100_000) for _ in range(count)]


def _scored(start: int, count: int) -> list[Any]:
    return [part for index in range(start, start + count) for part in (index * 1.5, f"player-{index}")]
