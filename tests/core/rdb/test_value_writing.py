"""Values written by the kernel: what the plain decoder says, whatever the encoding, and however small the buffer."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, EncodeError
from cluster_core.rdb import value_state as state
from cluster_core.rdb.export import NEWEST, ValueWriter, release_of
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.texts import put_double, put_json
from cluster_core.rdb.values import (
    Field,
    ModuleValue,
    Record,
    StreamValue,
    decode_record,
)
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import batches_of
from tests.conftest import DATA
from tests.examples import examples

ZOO = DATA / "redis-7.0" / "dump.rdb"
FIELD_EXPIRY_MS = 4_102_444_800_000
OTHERS = build.rdb(
    build.select(0),
    build.key(b"old zset", 3, build.length(3) + build.string(b"a") + b"\xfe" + build.string(b"b") + b"\x031.5" + build.string(b"c") + b"\xff"),
    build.key(b"zipmap", 9, build.string(build.zipmap([(b"f", b"v"), (b"g", b"w" * 300)]))),
    build.key(b"ziplist", 10, build.string(build.ziplist([b"x", 5, -1, 1 << 40, b"y" * 70, b"z" * 20000]))),
    build.key(b"compressed", 16, build.compressed(build.listpack([b"f", b"value" * 50, b"g", -5000]))),
    build.key(b"expiring", 22, build.length(2) + build.string(b"f") + build.string(b"v") + struct.pack("<q", FIELD_EXPIRY_MS)
              + build.string(b"g") + build.string(b"w") + struct.pack("<q", -1)),
    build.key(b"base64:x", 0, build.string(b"base64:aGk=")),
    build.key(b"\xff\xfe", 0, build.string(b"\xed\xa0\x80\x00\"\\\n\t\x7f caf\xc3\xa9")),
    magic="VALKEY080",
)  # fmt: skip
"""Encodings that the recorded dumps do not hold, and names and values that are no text."""


SELECT = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"


def written(dump: bytes, style: int, **options) -> bytes:
    """All keys of *dump* in *style*."""
    return written_by(dump, style, **options)[0]


def written_by(dump: bytes, style: int, **options) -> tuple[bytes, ValueWriter]:
    """All keys of *dump* in *style*, and who wrote them."""
    data, skimmer = np.frombuffer(bytearray(dump), np.uint8), RdbSkimmer("d.rdb")
    out, writer = [], None
    for batch in batches_of(skimmer, dump):
        writer = writer or ValueWriter(skimmer.head, style, source="d.rdb", **options)
        out += [bytes(one) for one in writer.pieces(data, batch, np.arange(len(batch)))]
    assert writer is not None
    return b"".join(out), writer


def decoded(dump: bytes) -> list[tuple[int, Record]]:
    """All keys of *dump* by the plain decoder."""
    skimmer, found = RdbSkimmer("d.rdb"), []
    for batch in batches_of(skimmer, dump):
        places = zip(batch.db.tolist(), batch.offset.tolist(), batch.serialized_bytes.tolist(), strict=True)
        found += [(db, decode_record(dump[at : at + size], skimmer.head.dialect)) for db, at, size in places]
    return found


def unmarked(text: str) -> bytes:
    """The string that a text stands for."""
    return base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()


def from_json(line: dict) -> object:
    """The value of a line as the plain decoder has it."""
    value, kind = line["value"], line["type"]
    if kind == "string":
        return unmarked(value)
    if kind in ("list", "set"):
        return [unmarked(one) for one in value]
    if kind == "zset":
        return [(unmarked(member), float(score)) for member, score in value.items()]
    if kind == "hash":
        return [
            Field(unmarked(name), unmarked(one), -1)
            if isinstance(one, str)
            else Field(unmarked(name), unmarked(one["value"]), one["expire_at_ms"])
            for name, one in value.items()
        ]
    if kind == "module":
        return ModuleValue(base64.b64decode(value["payload"]))
    return [(one["id"], tuple(unmarked(word) for pair in one["fields"] for word in pair)) for one in value["entries"]]


def comparable(value: object) -> object:
    """A decoded value without what `from_json` leaves out."""
    if isinstance(value, StreamValue):
        return [("{}-{}".format(*entry.id), entry.words) for entry in value.entries]
    return value


@pytest.mark.parametrize(
    "dump",
    [ZOO, *sorted((DATA / "valkey-9.1" / "before").glob("*.rdb")), OTHERS],
    ids=lambda one: getattr(one, "name", "built"),
)
@pytest.mark.parametrize("buffer_bytes", [1 << 20, 700])
def test_json_lines_hold_what_the_plain_decoder_reads(dump, buffer_bytes):
    """Every type and encoding of recorded dumps; a buffer that is always too small changes nothing."""
    raw = dump if isinstance(dump, bytes) else dump.read_bytes()
    lines = [json.loads(line, parse_int=lambda text: -0.0 if text == "-0" else int(text))
             for line in written(raw, state.JSON, buffer_bytes=buffer_bytes).splitlines()]  # fmt: skip
    rows = decoded(raw)

    assert [(line["db"], unmarked(line["key"]), line["type"], line.get("expire_at_ms", -1)) for line in lines] == [
        (db, row.key, row.type, row.expire_at_ms) for db, row in rows
    ]
    assert [repr(from_json(line)) for line in lines] == [repr(comparable(row.value)) for _, row in rows]


def test_what_a_release_cannot_hold_is_refused_or_left_out_by_name():
    """Redis 7.2 has no fields that expire; the keys beside that hash are written."""
    old = release_of("redis-7.2")
    with pytest.raises(EncodeError, match=r"redis-7.2 has no fields that expire"):
        written(OTHERS, state.RESP, release=old)
    commands = written(OTHERS, state.RESP, release=old, permissive=True)

    assert b"expiring" not in commands
    assert b"$10\r\ncompressed\r\n" in commands
    assert release_of("valkey-9.0").has_field_expiry
    assert NEWEST.has_field_expiry


@pytest.mark.parametrize("style", [state.JSON, state.RESP])
@pytest.mark.parametrize("packed", [
    build.listpack([b"a", b"b"], count=3), build.listpack([b"a", b"b", b"c"], count=2),
    build.listpack([b"a", b"b"])[:-4] + b"\xf0\xff\xff\xff", build.listpack([b"a", b"b"])[:-1] + b"\x00",
])  # fmt: skip
def test_a_value_that_is_not_what_its_header_says_is_an_error_with_its_place(style, packed):
    """Never a crash; with *permissive* the other keys are written."""
    good = build.key(b"good", 0, build.string(b"v"))
    dump = build.rdb(
        build.select(0), good, build.key(b"bad", 20, build.string(packed)), build.key(b"more", 0, build.string(b"v"))
    )
    with pytest.raises(DecodeError) as caught:
        written(dump, style)
    rest = written(dump, style, permissive=True)

    assert caught.value.offset == dump.index(good) + len(good)
    assert b"good" in rest
    assert b"more" in rest
    assert b"bad" not in rest


ELEMENTS = [b"%07d" % number + b"\xff" * 30 for number in range(40_000)]


@cache
def node_of_all() -> bytes:
    """A node of a list with all of them."""
    return build.length(2) + build.string(build.listpack(ELEMENTS))


@pytest.mark.long
@pytest.mark.parametrize("style", [state.JSON, state.RESP])
def test_a_damaged_key_that_is_larger_than_a_piece_is_left_out_whole(style):
    """Its sound elements come first, megabytes of them; what is written is what a dump without that key gives."""
    before, after = (
        build.key(b"before", 0, build.string(b"\xff")),
        build.key(b"after", 1, build.length(1) + build.string(b"v")),
    )
    too_few_counted = build.length(2) + build.string(build.listpack(ELEMENTS[:9], count=8))
    sound = build.key(b"large", 18, build.length(1) + node_of_all())
    damaged = build.key(b"bad", 18, build.length(2) + node_of_all() + too_few_counted)
    writers, texts = [], []
    for keys in ([before, damaged, sound, after], [before, sound, after]):
        out, writer = written_by(build.rdb(build.select(0), *keys), style, permissive=True, buffer_bytes=1 << 16)
        writers.append(writer)
        texts.append(out.replace(SELECT, b""))
    with pytest.raises(DecodeError):
        written(build.rdb(build.select(0), before, damaged, after), style, buffer_bytes=1 << 16)

    assert texts[0] == texts[1]
    assert texts[0].count(b"large") > 0
    assert [(writer.keys, sum(writer.left_out.values())) for writer in writers] == [(3, 1), (3, 0)]
    assert writers[0].not_text == writers[1].not_text


@pytest.mark.long
@given(
    st.floats(allow_nan=False)
    | st.integers(0, (1 << 64) - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
)
@settings(max_examples=examples(2000))
def test_doubles_have_the_fewest_digits_that_read_back(value):
    """As Python's own repr has them."""
    out = np.zeros(40, np.uint8)
    text = out[: put_double(out, 0, struct.unpack("<q", struct.pack("<d", value))[0])].tobytes().decode()
    if math.isnan(value):
        assert text == "nan"
        return
    digits = [one.lstrip("-").partition("e")[0].replace(".", "").strip("0") for one in (text, repr(value))]

    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    assert math.isinf(value) or digits[0] == digits[1]


@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=examples(1000))
def test_any_bytes_come_back_from_their_json_string(data):
    """Text as itself, all else as Base64 with its mark."""
    out, counts = np.zeros(400, np.uint8), np.zeros(state.STATE_LENGTH, np.int64)
    end = put_json(counts, out, 0, np.frombuffer(bytearray(data), np.uint8), 0, len(data))
    text = json.loads(out[:end].tobytes())

    assert unmarked(text) == data
    assert bool(counts[state.NOT_TEXT]) == text.startswith("base64:")


@pytest.mark.long
def test_of_a_damaged_dump_only_whole_lines_are_written():
    """Damage that a skim passes over lies inside values: such keys are left out, wherever a piece ends."""
    rng, left_out, lines = random.Random(5), 0, 0
    for _ in range(80):
        dump = bytearray(ZOO.read_bytes())
        for _ in range(rng.randrange(1, 6)):
            dump[rng.randrange(100, len(dump))] = rng.randrange(256)
        data, skimmer = np.frombuffer(dump, np.uint8), RdbSkimmer("d.rdb", check_crc=False)
        out, writer = b"", None
        with suppress(DecodeError):
            for batch in batches_of(skimmer, bytes(dump)):
                writer = writer or ValueWriter(
                    skimmer.head, state.JSON, source="d.rdb", permissive=True, buffer_bytes=1 << rng.randrange(12, 20)
                )
                out += b"".join(bytes(one) for one in writer.pieces(data, batch, np.arange(len(batch))))
        keys = [json.loads(line) for line in out.splitlines()]
        left_out += sum(writer.left_out.values()) if writer else 0
        lines += len(keys)
        assert len(keys) == (writer.keys if writer else 0)

    assert lines > 1000
    assert left_out > 0
