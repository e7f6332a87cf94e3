"""Files that are written: read back they are the same rows, and real servers load them to the same data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import EncodeError, ProtocolError
from cluster_core.rdb.encoding import (
    PACKED,
    PLAIN,
    Packing,
    Target,
    length_bytes,
    listpack_bytes,
    target_of,
    ziplist_bytes,
)
from cluster_core.rdb.grammar import F_LISTPACK, F_ZIPLIST
from cluster_core.rdb.packed import packed_elements
from cluster_core.rdb.strings import length_at
from cluster_core.rdb.values import (
    NOT_READ,
    Field,
    ModuleValue,
    Pending,
    Record,
    StreamConsumer,
    StreamEntry,
    StreamGroup,
    StreamValue,
)
from cluster_core.rdb.writer import RdbWriter
from tests.benches.servers import redis_binary, running, valkey_binary
from tests.builders.debug_digest import KeyspaceDigest, rules_of, value_digest
from tests.builders.rdb_rows import skim_all
from tests.builders.rdb_writing import read_rows, settled, write_rows
from tests.conftest import DATA

TARGETS = [target_of("REDIS", version) for version in (9, 10, 11, 12)] + [target_of("VALKEY", 80)]
SMALL_NODES = Packing(elements=3, element_bytes=10, intset_elements=2, node_bytes=40)
BINARIES = {"redis": redis_binary, "valkey": valkey_binary}
FAR = 4_102_444_800_000  # 2100

words = st.one_of(
    st.binary(max_size=80), st.integers(-(1 << 70), 1 << 70).map(lambda n: b"%d" % n), st.sampled_from([b"-0", b"007"])
)
names = st.sets(words, min_size=1, max_size=12)
ids = st.tuples(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))
times = st.integers(0, FAR)


@st.composite
def streams(draw) -> StreamValue:
    """Streams as any version holds them: nothing deleted, consumers active when seen."""
    marks = sorted(draw(st.sets(ids, max_size=8)))
    entries = [StreamEntry(mark, tuple(word for name in draw(names) for word in (name, b"v"))) for mark in marks]
    groups = []
    for name in sorted(draw(st.sets(words, max_size=2))):
        pending = tuple(Pending(mark, draw(times), draw(st.integers(0, 300))) for mark in marks[:4])
        seen = draw(times)
        held = (StreamConsumer(b"a", seen, seen, tuple(marks[:2])), StreamConsumer(b"b", seen, seen, tuple(marks[2:4])))
        groups.append(StreamGroup(name, marks[-1] if marks else (0, 0), NOT_READ, pending, held))
    return StreamValue(entries, marks[-1] if marks else (5, 6), len(entries), (0, 0), groups)


values = st.one_of(
    st.tuples(st.just("string"), words),
    st.tuples(st.just("list"), st.lists(words, min_size=1, max_size=30)),
    st.tuples(st.just("set"), names.map(list)),
    st.tuples(
        st.just("set"),
        st.sets(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1).map(lambda s: [b"%d" % n for n in s]),
    ),
    st.tuples(
        st.just("zset"),
        st.dictionaries(words, st.floats(allow_nan=False), min_size=1, max_size=12).map(lambda d: list(d.items())),
    ),
    st.tuples(
        st.just("hash"),
        st.dictionaries(words, words, min_size=1).map(lambda d: [Field(name, value, -1) for name, value in d.items()]),
    ),
    st.tuples(st.just("stream"), streams()),
    st.tuples(st.just("module"), st.just(ModuleValue(length_bytes(77 << 40) + b"\2\5\0"))),
)
records = st.builds(
    lambda key, typed, expire, idle, freq: Record(key, *typed, expire, idle, freq),
    words,
    values,
    st.just(-1) | times,
    st.just(-1) | st.integers(0, 1 << 30),
    st.just(-1) | st.integers(0, 255),
)


@given(
    st.lists(st.tuples(st.integers(0, 300), records), max_size=6),
    st.sampled_from(TARGETS),
    st.sampled_from([PACKED, PLAIN, SMALL_NODES]),
)
def test_what_is_written_is_read_back(rows, target: Target, packing: Packing):
    """Every type, attribute, version and choice of encodings; both skims agree that the file is whole, CRC included."""
    data = write_rows(rows, target, packing, ctime=5)
    skim, again = read_rows(data)
    found, skimmer, error = skim_all(data)

    assert [(db, settled(record)) for db, record in again] == [(db, settled(record)) for db, record in rows]
    assert (skim.head.dialect, skim.head.version) == (target.dialect, target.version)
    assert error is None
    assert skimmer.crc_ok
    assert len(found) == len(rows)


@given(st.lists(words | st.integers(60, 70).map(bytes) | st.integers(4090, 4100).map(bytes), max_size=20))
def test_packed_values_give_their_entries_back(entries):
    """Listpacks and ziplists, integers of every width and strings around each limit."""
    assert packed_elements(listpack_bytes(entries), F_LISTPACK) == entries
    assert packed_elements(ziplist_bytes(entries), F_ZIPLIST) == entries


@pytest.mark.parametrize("value", [0, 63, 64, 16383, 16384, (1 << 32) - 1, 1 << 32, (1 << 64) - 1])
def test_lengths_take_the_shortest_form(value):
    """`rdbSaveLen`."""
    size = 1 if value < 64 else 2 if value < 16384 else 5 if value < 1 << 32 else 9

    assert len(length_bytes(value)) == size
    assert length_at(length_bytes(value), 0) == (value, size)


def test_fields_that_expire_keep_their_times_in_the_versions_that_have_them():
    """Relative to the earliest in Redis 7.4 (type 24), absolute in Valkey 9 (type 22)."""
    fields = [Field(b"a", b"1", FAR), Field(b"b", b"2", -1), Field(b"c", b"3", FAR + 5)]
    rows = [(0, Record(b"h", "hash", fields, -1))]
    for target in (target_of("REDIS", 12), target_of("VALKEY", 80)):
        assert read_rows(write_rows(rows, target))[1] == rows


def stream(**changes: object) -> StreamValue:
    """A stream of one entry that is pending."""
    consumer = StreamConsumer(b"c", 7, 7, ((1, 1),))
    group = StreamGroup(b"g", (1, 1), NOT_READ, (Pending((1, 1), 7, 1),), (consumer,))
    return StreamValue([StreamEntry((1, 1), (b"f", b"v"))], (1, 1), 1, (0, 0), [group])._replace(**changes)


GROUP = stream().groups[0]
REFUSED = {
    "fields that expire, in 11": (("REDIS", 11), "hash", [Field(b"f", b"v", FAR)], "version 11 does not hold expiries"),
    "deleted entries, in 9": (("REDIS", 9), "stream", stream(added=3), "version 9 does not hold the deleted entries"),
    "a largest deleted id, in 9": (("REDIS", 9), "stream", stream(deleted_id=(0, 1)), "version 9 does not hold the deleted"),
    "entries read, in 9": (("REDIS", 9), "stream", stream(groups=[GROUP._replace(read=1)]), "how many entries a group has read"),
    "active times, in 10": (
        ("REDIS", 10), "stream", stream(groups=[GROUP._replace(consumers=(GROUP.consumers[0]._replace(active_at_ms=-1),))]), "was active",
    ),
    "a module without bytes": (("REDIS", 12), "module", ModuleValue(b""), "only be written from its bytes"),
    "no module value": (("REDIS", 12), "module", None, "only be written from its bytes"),
    "an empty list": (("REDIS", 12), "list", [], "without elements"),
    "a member twice": (("REDIS", 12), "set", [b"a", b"a"], "twice"),
    "a score that is none": (("REDIS", 12), "zset", [(b"a", float("nan"))], "not a number"),
    "ids that do not rise": (("REDIS", 12), "stream", stream(entries=[*stream().entries] * 2), "out of order"),
    "an entry past the last id": (("REDIS", 12), "stream", stream(last_id=(0, 9)), "out of order"),
    "pending without consumer": (("REDIS", 12), "stream", stream(groups=[GROUP._replace(consumers=())]), "not those of its consumers"),
    "a type that is none": (("REDIS", 12), "vector", [b"a"], "no type 'vector'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_version_cannot_hold_is_an_error_that_says_so(case):
    """Nothing is left out in silence."""
    (dialect, version), kind, value, reason = REFUSED[case]
    with pytest.raises(EncodeError, match=reason):
        write_rows([(0, Record(b"k", kind, value, -1))], target_of(dialect, version))


def test_a_version_that_is_not_written_functions_in_9_and_slot_info_in_10_are_refused():
    with pytest.raises(EncodeError, match=r"VALKEY 81 is not written; there are REDIS 9, .* VALKEY 80"):
        target_of("VALKEY", 81)
    with pytest.raises(EncodeError, match="version 9 does not hold functions"):
        write_rows([], target_of("REDIS", 9), functions=[b"#!lua name=x\n"])
    writer = RdbWriter(target_of("REDIS", 10))
    writer.head()
    with pytest.raises(EncodeError, match="no slot info"):
        writer.slot_info(1, 1, 0)


def test_calls_out_of_order_are_errors():
    """Head, functions, databases with their keys, end."""
    writer = RdbWriter(TARGETS[1])
    with pytest.raises(ProtocolError):
        writer.end()
    writer.head()
    with pytest.raises(ProtocolError, match="needs a database"):
        writer.raw(b"")
    with pytest.raises(ProtocolError, match="once"):
        writer.head()
    writer.database(0)
    with pytest.raises(ProtocolError, match="before the first database"):
        writer.function(b"")
    writer.end()
    with pytest.raises(ProtocolError):
        writer.database(1)


@pytest.mark.parametrize(
    ("target", "magic"),
    list(zip(TARGETS, [b"REDIS0009", b"REDIS0010", b"REDIS0011", b"REDIS0012", b"VALKEY080"], strict=True)),
)
def test_what_a_file_says_about_itself_is_read_back(target: Target, magic: bytes):
    """Aux fields, functions, sizes of databases and slot info."""
    writer = RdbWriter(target)
    parts = [writer.head({"redis-bits": 64, "note": "a b"})]
    if target.has_listpacks:
        parts.append(writer.function(b"#!lua name=x\n"))
    parts.append(writer.database(3, keys=1, expires=0))
    if target.has_set_listpacks:
        parts.append(writer.slot_info(12182, 1, 0))
    parts += [writer.record(Record(b"foo", "string", b"1", -1)), writer.end()]
    skim, rows = read_rows(b"".join(parts))

    assert b"".join(parts)[:9] == magic
    assert writer.bytes == len(b"".join(parts))
    assert skim.aux == {"redis-bits": "64", "note": "a b"}
    assert skim.databases == {3: (1, 0)}
    assert skim.function_count == target.has_listpacks
    assert skim.declared_slot_keys[12182] == (1 if target.has_set_listpacks else -1)
    assert rows == [(3, Record(b"foo", "string", b"1", -1))]


def _loaded(server: str, data: bytes, rows: list[tuple[int, Record]]) -> tuple[bytes, list[object]]:
    """DEBUG DIGEST, and for each key its digest, expiry and, of a stream, all that XINFO tells."""
    binary = BINARIES[server]()
    if binary is None:
        pytest.skip(f"{server}-server is not installed")
    with running(binary, files={"dump.rdb": data}, enable_debug_command="yes") as started:
        told: list[object] = []
        for db in sorted({db for db, _ in rows}):
            mine = [record for found, record in rows if found == db]
            told += started.ask([["DEBUG", "DIGEST-VALUE", record.key] for record in mine], db)
            told += started.ask([["PEXPIRETIME", record.key] for record in mine], db)
            told += started.ask(
                [["XINFO", "STREAM", r.key, "FULL", "COUNT", 0] for r in mine if r.type == "stream"], db
            )
        return started.call("DEBUG", "DIGEST"), told


DUMPS = [("redis", "redis-7.0/dump"), ("redis", "redis-7.0/dump-lfu"), ("valkey", "valkey-9.1/before/node-7001")]


@pytest.mark.servers
@pytest.mark.parametrize(("server", "dump"), DUMPS)
@pytest.mark.parametrize("packing", [PACKED, PLAIN], ids=["packed", "plain"])
def test_a_real_dump_written_again_is_loaded_to_the_same_data(server, dump, packing):
    """DEBUG DIGEST and DIGEST-VALUE, expiries, and groups, consumers and pending entries of streams."""
    data = (DATA / f"{dump}.rdb").read_bytes()
    skim, rows = read_rows(data)
    written = write_rows(rows, target_of(skim.head.dialect, skim.head.version), packing)
    rules = rules_of(skim.head)
    whole = KeyspaceDigest(rules)
    for db, record in rows:
        whole.add(db, record)

    before, after = _loaded(server, data, rows), _loaded(server, written, rows)
    assert after == before
    assert after[0].decode() == whole.result().hex()


@pytest.mark.servers
@pytest.mark.parametrize(
    ("server", "version"), [("redis", 9), ("redis", 10), ("valkey", 9), ("valkey", 10), ("valkey", 11)]
)
def test_a_server_loads_every_version_that_it_can(server, version):
    """One value of each type and size, in the versions of older servers and in the server's own."""
    wide = [b"%d" % (1 << width) for width in range(0, 63, 5)] + [
        b"x" * size for size in (0, 63, 64, 200, 4096, 20_000)
    ]
    pairs = [Field(b"f%d" % number, word, -1) for number, word in enumerate(wide)]
    values = {
        "string": b"12", "list": wide, "set": wide, "zset": [(word, number / 3) for number, word in enumerate(wide)],
        "hash": pairs, "stream": stream(),
    }  # fmt: skip
    rows = [(0, Record(kind.encode(), kind, value, -1)) for kind, value in values.items()]
    rows += [
        (0, Record(b"small-" + kind.encode(), kind, value[:3], FAR))
        for kind, value in values.items()
        if kind in ("list", "set", "zset", "hash")
    ]
    rows += [(2, Record(b"integers", "set", [b"5", b"-70000", b"1"], -1))]
    rules = rules_of(read_rows(write_rows([], target_of("REDIS", 10 if server == "redis" else 11)))[0].head)

    _, told = _loaded(server, write_rows(rows, target_of("REDIS", version)), rows)
    assert [answer[0].decode() for answer in told if isinstance(answer, list) and len(answer) == 1] == [
        value_digest(record, rules).hex() for _, record in rows
    ]


@pytest.mark.servers
def test_valkey_keeps_the_times_of_fields_that_expire():
    """HPEXPIRETIME of every field, of a small and of a large hash."""
    fields = [Field(b"f%d" % number, b"v" * number, FAR + number if number % 3 else -1) for number in range(300)]
    rows = [(0, Record(b"small", "hash", fields[:5], -1)), (0, Record(b"large", "hash", fields, FAR))]
    if valkey_binary() is None:
        pytest.skip("valkey-server is not installed")
    with running(valkey_binary(), files={"dump.rdb": write_rows(rows, target_of("VALKEY", 80))}) as started:
        for record in (rows[0][1], rows[1][1]):
            names = [field.name for field in record.value]
            told = started.call("HPEXPIRETIME", record.key, "FIELDS", len(names), *names)
            assert told == [field.expire_at_ms for field in record.value]
            assert started.call("HLEN", record.key) == len(names)
