"""A value that is not what its header says, or what no server holds, is found when every element is decoded; a sound one never."""

from __future__ import annotations

import struct

import pytest

from cluster_core.rdb.soundness import Flaw, value_flaws
from cluster_core.rdb.values import decode_record
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import sound_rows
from tests.conftest import DATA

PAIRS = build.pairs(3)
ZIPLIST = build.ziplist([b"a", 5, b"c", 7])
LISTPACK = build.listpack([b"a", 5, b"c", 7])
ONE, TWO = bytes(16), bytes(15) + b"\1"
TWO_SCORES = (
    build.length(2) + build.string("m") + struct.pack("<d", 1.0) + build.string("n") + struct.pack("<d", float("nan"))
)


def node(*entries: bytes | int, count: int | None = None, lp_count: int = 6) -> bytes:
    """A listpack of a stream: a master entry without fields, then entries with one field each."""
    body = [len(entries), 0, 0, 0]
    for sequence, value in enumerate(entries):
        body += [0, 0, sequence, 1, b"f", value, lp_count]
    return build.listpack(body, count=count)


def expiring(*times: int) -> bytes:
    """A hash whose fields expire at *times*, 0 for never."""
    triples = [word for number, time in enumerate(times) for word in (b"f%d" % number, b"v", time)]
    return bytes(8) + build.string(build.listpack(triples))


def stream(length: int, blob: bytes, group: bytes = b"") -> bytes:
    groups = build.length(1) + group if group else build.length(0)
    return build.length(1) + build.string(ONE) + build.string(blob) + build.length(length) + bytes(2) + groups


def group(*pending: bytes, consumer: bytes) -> bytes:
    return (
        build.string("g") + bytes(2) + build.length(len(pending)) + b"".join(id_ + bytes(8) + b"\1" for id_ in pending)
        + build.length(1) + build.string("c") + bytes(8) + build.length(len(consumer) // 16) + consumer
    )  # fmt: skip


def flaws(kind: int, value: bytes, *, magic: str = "REDIS0012"):
    """Elements as the header counts them, and the flaws, of one key."""
    data = build.rdb(build.key("k", kind, value), magic=magic)
    (row,), _ = sound_rows(data)
    flaws = value_flaws(data[row.offset : row.offset + row.serialized_bytes], "REDIS", row.elements)
    return row.elements, [(flaw.flaw, flaw.real) for flaw in flaws]


LIES = {
    "ziplist that counts more": (10, build.string(build.ziplist([b"a", b"b"], count=3)), 3, [(Flaw.COUNT, 2)]),
    "ziplist of a hash that counts none": (13, build.string(build.ziplist(PAIRS, count=0)), 0, [(Flaw.COUNT, 3)]),
    "listpack that counts less": (16, build.string(build.listpack(PAIRS, count=2)), 1, [(Flaw.COUNT, 3)]),
    "zipmap that counts more": (9, build.string(build.zipmap([(b"f", b"v")], count=2)), 2, [(Flaw.COUNT, 1)]),
    "node of a list that counts less": (18, b"\1\2" + build.string(build.listpack([b"a", b"b"], count=1)), 1, [(Flaw.COUNT, 2)]),
    "stream that counts more": (15, stream(5, node(b"x", b"y")), 5, [(Flaw.COUNT, 2)]),
    "listpack of a stream that counts more": (15, stream(1, node(b"x", count=12)), 1, [(Flaw.COUNT, 1)]),
    "tail that is elsewhere": (10, build.string(ZIPLIST[:4] + b"\x0a" + ZIPLIST[5:]), 4, [(Flaw.LINKS, 4)]),
    "previous length that is another": (10, build.string(ZIPLIST[:13] + b"\x07" + ZIPLIST[14:]), 4, [(Flaw.LINKS, 4)]),
    "length behind an entry that is another": (20, build.string(LISTPACK[:8] + b"\x05" + LISTPACK[9:]), 4, [(Flaw.LINKS, 4)]),
    "member twice": (2, build.length(2) + build.string("m") * 2, 2, [(Flaw.TWICE, 2)]),
    "field twice": (16, build.string(build.listpack([b"f", b"1", b"f", b"2"])), 2, [(Flaw.TWICE, 2)]),
    "scored member twice": (17, build.string(build.listpack([b"m", 1, b"m", 2])), 2, [(Flaw.TWICE, 2)]),
    "score that is no number": (5, TWO_SCORES, 2, [(Flaw.SCORE, 2)]),
    "score in letters": (17, build.string(build.listpack([b"m", b"x"])), 1, [(Flaw.UNDECODABLE, -1)]),
    "integers that fall": (11, build.string(build.intset([5, 3])), 2, [(Flaw.ORDER, 2)]),
    "integer twice": (11, build.string(build.intset([3, 3])), 2, [(Flaw.ORDER, 2), (Flaw.TWICE, 2)]),
    "pending entry twice": (15, stream(1, node(b"x"), group(ONE, ONE, consumer=ONE)), 1, [(Flaw.TWICE, 1)]),
    "entry of a stream that leads back elsewhere": (15, stream(1, node(b"x", lp_count=72)), 1, [(Flaw.LINKS, 1)]),
    "listpack of a stream of other bytes": (15, stream(1, b"\x5f" + node(b"x")[1:]), 1, [(Flaw.UNDECODABLE, -1)]),
    "node of a list without bytes": (18, b"\1\1" + build.string(b""), 1, [(Flaw.COUNT, 1)]),
    "field that stays before one that expires": (25, expiring(0, 5), 2, [(Flaw.ORDER, 2)]),
    "field that expires before the one before it": (25, expiring(9, 5), 2, [(Flaw.ORDER, 2)]),
    "field that expires too late": (25, expiring(1 << 48), 1, [(Flaw.EXPIRY, 1)]),
    "entry that only a consumer waits for": (15, stream(1, node(b"x"), group(ONE, consumer=TWO)), 1, [(Flaw.PENDING, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("case", LIES)
def test_a_value_that_lies_is_found_with_both_counts(case: str):
    kind, value, elements, expected = LIES[case]

    assert flaws(kind, value) == (elements, expected)


SOUND = {
    "ziplist": (10, build.string(ZIPLIST)), "long entries": (10, build.string(build.ziplist([b"x" * 300, b"y" * 20_000, 1]))),
    "listpack": (20, build.string(LISTPACK)), "long strings": (16, build.string(build.listpack([b"x" * 200, b"y" * 20_000]))),
    "intset": (11, build.string(build.intset([-5, 3]))),
    "zipmap": (9, build.string(build.zipmap([(b"f", b"v" * 300)]))), "stream": (15, stream(2, node(b"x", b"y"), group(ONE, consumer=ONE))),
    "set": (2, build.length(2) + build.string("m") + build.integer(5)), "module": (7, build.module(*build.MODULE_PARTS)),
    "string": (0, build.compressed(b"a" * 300)), "fields that expire in order": (25, expiring(5, 5, 9, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("case", SOUND)
def test_a_sound_value_has_no_flaw(case: str):
    assert flaws(*SOUND[case])[1] == []


@pytest.mark.long
def test_a_sound_listpack_of_more_than_its_header_counts_has_no_flaw():
    assert flaws(20, build.string(build.listpack(range(70_000))))[1] == []


@pytest.mark.long
def test_no_value_that_a_server_saved_has_a_flaw():
    paths = sorted(DATA.glob("*/*.rdb")) + sorted(DATA.glob("*/before/*.rdb"))
    assert len(paths) == 6
    for path in paths:
        data = path.read_bytes()
        rows, skimmer = sound_rows(data)

        assert [
            row[1] for row in rows if value_flaws(data[row[11] : row[11] + row[7]], skimmer.head.dialect, row[6])
        ] == []


def test_bytes_that_end_early_are_a_flaw_and_no_error():
    data = build.key("k", 10, build.string(ZIPLIST))

    assert {flaw.flaw for cut in range(5, len(data)) for flaw in value_flaws(data[:cut], "REDIS", 4)} == {
        Flaw.UNDECODABLE
    }


HANDED_BACK = build.length(1) + ONE
PRODUCERS = (
    build.length(100)
    + build.length(70)
    + build.length(1)
    + build.string("p")
    + b"\1"
    + build.string("id")
    + b"\1\0"
    + b"\1\0"
)
LATER_GROUP = (
    build.string("g") + b"\0\0\1" + b"\1" + ONE + bytes(8) + b"\1" + b"\1" + build.string("c") + bytes(16) + b"\1" + ONE
)  # fmt: skip
LATER = {
    "stream with producers": (26, LATER_GROUP + PRODUCERS),
    "stream with entries handed back": (27, LATER_GROUP + HANDED_BACK + PRODUCERS),
}


@pytest.mark.parametrize("case", LATER)
def test_streams_of_redis_8_6_and_8_8_are_decoded(case: str):
    kind, tail = LATER[case]
    head = build.length(1) + build.string(ONE) + build.string(node(b"x", b"y"))
    sound, lying = (head + bytes([entries]) + bytes(7) + b"\1" + tail for entries in (2, 5))

    assert flaws(kind, sound, magic="REDIS0015") == (2, [])
    assert flaws(kind, lying, magic="REDIS0015") == (5, [(Flaw.COUNT, 2)])


def test_an_array_is_decoded_and_metadata_of_its_key_passed_over():
    meta = build.key_meta(b"\5" + build.string("x" * 90) + b"\1\5" + b"\3" + bytes(4) + b"\4" + bytes(8))
    record = decode_record(meta + build.key("a", 28, build.array(b"x" * 300, -5, 2.5, insert_at=9)), "REDIS")

    assert record == (b"a", "array", [b"x" * 300, b"-5", b"2.5"], -1, -1, -1)
    assert flaws(28, build.array(b"a", 5), magic="REDIS0015") == (2, [])


def test_a_hash_by_template_is_not_called_unsound_for_want_of_its_names():
    assert value_flaws(build.key("h", 32, b"\5" + build.string("v")), "REDIS", 1) == []
