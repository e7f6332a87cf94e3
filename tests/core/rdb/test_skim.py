"""The RDB skim: golden outcomes, resumable anywhere, never misled."""

from __future__ import annotations

import base64
import json
import lzma
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.kernels import window
from cluster_core.memory.layouts import LAYOUT_NAMES
from cluster_core.memory.model import MemorySettings
from cluster_core.memory.structures import ALLOCATORS
from cluster_core.rdb.head import SplitError
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.slots.key_slot import hash_tag, key_slot
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import facts_of, skim_all
from tests.conftest import DATA
from tests.examples import MUTATIONS, examples

GOLDEN = DATA / "golden" / "rdb-skim.jsonl.xz"
SMALL = [build.key(name, kind, value) for name, kind, value, *_ in build.SAMPLES if len(value) < 2000]
LATER = [
    *(build.key(name, kind, value) for name, kind, value, *_ in build.LATER_SAMPLES),
    *(build.key_meta(b"\5" + build.string("x" * 90), b"\2\1") + build.key("meta", 0, build.string("v")) for _ in range(2)),
    b"\xfc" + bytes(8) + build.key_meta(b"\3" + bytes(4)) + build.key("expires", 2, build.length(1) + build.string("m")),
    build.key_meta(b"\1") + build.key("meta-broken", 0, build.string("v")),
    *(build.LATER_TEMPLATES, b"\x6b\x05" + build.key("ram-lru", 0, build.string("v")), b"\x79\x40\x05"),
    b"\xf9\x05\x6b\x80\0\0\0\5" + build.key("freq-lru", 1, build.length(1) + build.string("m")),
    *(build.key("unreadable", kind, b"\5") for kind in (29, 31, 33, 34)),
]  # fmt: skip
FILE = build.rdb(
    build.aux("redis-ver", "7.4.0"),
    build.select(0),
    build.resize(44, 1),
    *(build.key(name, kind, value) for name, kind, value, *_ in build.SAMPLES),
    magic="REDIS0012",
)
SERVERS = [
    *("redis 6.2.14", "redis 7.0.15", "redis 7.2.5", "redis 7.4.0", "redis 9.9.9"),
    *("valkey 7.2.5", "valkey 8.0.1", "valkey 8.1.0", "valkey 9.0.1", "valkey 9.1.2"),
]
QUICK = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))


def outcome(data: bytes, pieces: list[int] | None = None, **options: Any) -> tuple[Any, ...]:
    rows, skimmer, error = skim_all(data, pieces, **options)
    facts = facts_of(skimmer)
    if error is not None:
        del facts["trailing"]  # what follows was perhaps not fed yet
    return rows, facts, type(error), str(error)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files of a few records, some of them damaged, cut or with a tail."""
    records = draw(st.lists(st.sampled_from(SMALL) | st.sampled_from(LATER), min_size=0, max_size=8))
    server = draw(st.sampled_from(SERVERS)).split()
    lead = build.aux(f"{server[0]}-ver", server[1]) + build.select(draw(st.integers(0, 3))) + build.resize(9, 3)
    magic = draw(st.sampled_from(["REDIS0012", "REDIS0010", "REDIS0004", "VALKEY080", "REDIS0015", "REDIS0013"]))
    lead += build.LATER_TEMPLATES if magic == "REDIS0015" else b""
    data = bytearray(build.rdb(lead, *records, magic=magic, checksum=draw(st.booleans())))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4)):
        data[at % len(data)] = byte
    if draw(st.integers(0, 4)) == 0:
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data) + b"tail" * draw(st.sampled_from([0, 0, 0, 1, 7]))


MEMORY = st.none() | st.builds(
    MemorySettings,
    st.sampled_from(["auto", *ALLOCATORS]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", *LAYOUT_NAMES]),
)


@QUICK
@given(files(), st.lists(st.sampled_from([0, 1, 2, 3, 7, 50, 500]), min_size=1, max_size=5), st.integers(1, 9), MEMORY)
def test_pieces_and_batches_of_any_size_change_no_row_fact_or_error(
    data: bytes, pieces: list[int], batch_keys: int, memory: MemorySettings | None
):
    options = {"check_crc": sum(pieces) % 2 == 0, "memory": memory}

    assert outcome(data, pieces, batch_keys=batch_keys, **options) == outcome(data, **options)


def golden_cases() -> list[list[Any]]:
    return [json.loads(line) for line in lzma.decompress(GOLDEN.read_bytes()).splitlines()]


def test_golden_files_have_their_rows_facts_and_errors():
    """Built, damaged and cut files, with wild lengths at every place, under many memory models; two independent readers agreed on each."""
    wrong = []
    cases = golden_cases()
    for number, (data, check_crc, memory, expected) in enumerate(cases):
        settings_ = None if memory is None else MemorySettings(*memory)
        skimmed = story(base64.b64decode(data), check_crc=check_crc, memory=settings_)
        if skimmed != expected:
            wrong.append((number, skimmed, expected))

    assert len(cases) > 2000
    assert wrong[:1] == []


def story(data: bytes, **options: Any) -> str:
    """All that a skim says of *data*, as text."""
    rows, skimmer, error = skim_all(data, **options)
    facts = facts_of(skimmer)
    if error is not None:
        del facts["trailing"]
    plain = [tuple(row)[: None if options["memory"] else -2] for row in rows]
    return repr((plain, facts, type(error).__name__, str(error) if error else ""))


@settings(QUICK, max_examples=examples(60))
@given(st.lists(st.binary(max_size=80) | st.from_regex(rb"[a{}]{0,9}", fullmatch=True), max_size=30))
def test_slot_and_tag_follow_the_cluster_rules(names: list[bytes]):
    """R112, R113."""
    rows, _, _ = skim_all(build.rdb(*(build.key(name, 0, build.string("v")) for name in names)))

    assert [(row[1], row[2], row[3]) for row in rows] == [(n, key_slot(n), hash_tag(n)) for n in names]


def test_a_value_beyond_the_window_is_skipped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(window, "WINDOW_BYTES", 4096)
    big = build.key("big", 0, build.string(bytes(300_000)))
    fields = build.key("hash", 4, build.length(9000) + build.string("f" * 20) * 18_000)
    data = build.rdb(big, fields, build.key("after", 0, build.string("v")))

    rows, skimmer, error = skim_all(data)

    assert error is None
    assert skimmer.crc_ok
    assert [(row[1], row[6]) for row in rows] == [(b"big", 300_000), (b"hash", 9000), (b"after", 1)]


@pytest.mark.long
def test_without_the_crc_most_of_a_big_value_need_not_be_read():
    data = build.rdb(build.key("big", 0, build.string(bytes(3 << 20))), build.key("k", 0, build.integer(1)))
    skimmer = RdbSkimmer("x", check_crc=False)
    room = skimmer.room()
    room[:100] = data[:100]
    skimmer.filled(100)
    assert list(skimmer.batches()) == []

    ahead = skimmer.skippable()
    skimmer.skipped(ahead)
    rest = data[100 + ahead :]
    room = skimmer.room()
    room[: len(rest)] = rest
    skimmer.filled(len(rest))
    batches = list(skimmer.batches())

    assert ahead > (3 << 20) - 100
    assert [batch.elements.tolist() for batch in batches] == [[3 << 20, 1]]
    assert skimmer.done


@pytest.mark.long
def test_every_prefix_of_a_dump_is_an_error():
    tiny = [record for record in SMALL if len(record) < 150]
    data = build.rdb(build.aux("a", "b"), build.select(0), *tiny, magic="REDIS0012")

    cuts = range(len(data))
    errors = [skim_all(data[:cut])[2] for cut in cuts]

    assert all(isinstance(error, TruncatedError) for error in errors)
    assert [error.offset for error in errors if error] == list(cuts)
    assert skim_all(data)[2] is None


@pytest.mark.long
@pytest.mark.parametrize("count", MUTATIONS)
def test_mutations_never_pass_unnoticed(count):
    rng = random.Random(7)
    truth, changed = skim_all(FILE)[0], 0
    for _ in range(count):
        data = bytearray(FILE)
        for _ in range(rng.choice((1, 1, 1, 2, 8))):
            data[rng.randrange(len(data))] = rng.choice((rng.randrange(256), 0, 0x81, 0xC3, 0xFF))
        if data == FILE:
            continue
        changed += 1

        rows, skimmer, error = skim_all(bytes(data), batch_keys=64)

        # A file that now looks older than the CRC, or to end before eight zeros, says so by what follows its end.
        assert error is not None or rows == truth or (skimmer.crc_ok is None and skimmer.trailing_bytes)
    assert changed > count // 2


def test_valkey_in_cluster_mode_may_have_several_databases():
    """Valkey 9: slot info stands before a slot's keys in every database."""
    slot = key_slot(b"{t}1")
    data = build.rdb(
        *(
            build.select(db)
            + build.resize(count, 0)
            + build.slot_info_aux(slot, count)
            + b"".join(build.key(f"{{t}}{index}", 0, build.integer(db)) for index in range(count))
            for db, count in ((0, 3), (5, 2), (15, 4))
        ),
        magic="VALKEY080",
    )

    rows, skimmer, error = skim_all(data, [33], batch_keys=2)

    assert error is None
    assert [(row[0], row[1]) for row in rows] == [
        (db, b"{t}%d" % index) for db, count in ((0, 3), (5, 2), (15, 4)) for index in range(count)
    ]
    assert skimmer.databases == {0: (3, 0), 5: (2, 0), 15: (4, 0)}
    assert skimmer.head.db == 0
    assert isinstance(skim_all(data, end=rows[4][11])[2], SplitError)


def test_auxiliary_fields_are_kept():
    data = build.rdb(
        build.aux("valkey-ver", "9.1.2"),
        build.aux("ctime", 1_795_256_359),
        build.aux("odd\xff", b"\xff"),
        build.aux("huge", bytes(70_000)),
        b"\xf5" + build.string("#!lua name=mylib"),
        b"\xf7" + build.length(99) + b"\2\2" + b"".join(build.MODULE_PARTS) + b"\0",
        b"\xf3" + build.string("job") + build.length(2) + bytes([1, 2, 3, 4]),
        build.select(0) + build.resize(3, 1) + build.slot_info_aux(63, 4, 1),
        build.key("hash", 22, build.VALKEY_HASH_2),
        magic="VALKEY080",
    )

    rows, skimmer, error = skim_all(data)

    assert error is None
    assert skimmer.head.server == "valkey 9.1.2"
    assert skimmer.aux == {"valkey-ver": "9.1.2", "ctime": "1795256359", "oddÿ": "\\xff"}
    assert skimmer.function_count == 1
    assert skimmer.databases == {0: (3, 1)}
    assert rows[0][4:7] == ("hash", "hashtable", 2)


@pytest.mark.parametrize("pieces", [[0], [1], [7]])
def test_additions_of_redis_8_6_to_8_10_are_read(pieces: list[int]):
    """Streams with producers, arrays, hashes by template; metadata of modules belongs to the key behind it."""
    meta = build.key_meta(b"\5" + build.string("x" * 90), b"\2\1")
    records = [build.key(name, kind, value) for name, kind, value, *_ in build.LATER_SAMPLES]
    with_meta = b"\xfc" + (5).to_bytes(8, "little") + meta + build.key("meta", 0, build.string("v"))
    data = build.rdb(build.LATER_TEMPLATES, build.select(1), *records, with_meta, magic="REDIS0015")
    rows, skimmer, error = skim_all(data, pieces)

    assert error is None
    assert [(row[1].decode(), *row[4:7]) for row in rows[:-1]] == [
        (name, kind, encoding, elements) for name, _, _, kind, encoding, elements in build.LATER_SAMPLES
    ]
    assert (rows[-1][1], rows[-1][7], rows[-1][8]) == (b"meta", len(with_meta), 5)
    assert data[rows[-1][11] :].startswith(with_meta)
    assert skimmer.head.version == 15


@pytest.mark.parametrize(
    ("magic", "kind", "reason"),
    [
        ("REDIS0012", 26, "value type 26 is unknown: a stream with idempotent producers, Redis 8.6"),
        ("REDIS0015", 33, "value type 33 is not read: a rate limiter"),
        ("REDIS0015", 29, "value type 29 is not read: a hash by template as DUMP writes it, Redis 8.10"),
        ("REDIS0015", 34, "value type 34 is unknown"),
        ("VALKEY080", 26, "value type 26 is unknown"),
        ("REDIS0015", 32, "hash template 5 was not defined before"),
    ],
)
def test_an_unsupported_type_is_named_with_its_server(magic: str, kind: int, reason: str):
    first, other = build.key("a", 0, build.string("v")), build.key("b", kind, b"\5")
    rows, _, error = skim_all(build.rdb(first, other, magic=magic))

    assert [row[1] for row in rows] == [b"a"]
    assert isinstance(error, DecodeError)
    assert error.reason.startswith(reason)
    assert error.offset == 9 + len(first) + (3 if kind == 32 else 0)
