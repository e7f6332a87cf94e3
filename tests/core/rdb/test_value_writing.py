"""Values written by the kernel, whatever the encoding, and however small the buffer; `test_digest` compares them with servers."""

from __future__ import annotations

import json
import math
import random
import struct
import sys
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, EncodeError
from cluster_core.rdb import value_state as state
from cluster_core.rdb.export import NEWEST, ValueWriter, command_of, release_of
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.texts import put_double, put_json
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import batches_of
from tests.builders.rdb_values import Field, records_of, unmarked, written_by
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
    return written_by(dump, style, **options)[0]


EXPECTED = {
    b"old zset": [(b"a", math.inf), (b"b", 1.5), (b"c", -math.inf)],
    b"zipmap": [Field(b"f", b"v", -1), Field(b"g", b"w" * 300, -1)],
    b"ziplist": [b"x", b"5", b"-1", b"%d" % (1 << 40), b"y" * 70, b"z" * 20000],
    b"compressed": [Field(b"f", b"value" * 50, -1), Field(b"g", b"-5000", -1)],
    b"expiring": [Field(b"f", b"v", FIELD_EXPIRY_MS), Field(b"g", b"w", -1)],
    b"base64:x": b"base64:aGk=",
    b"\xff\xfe": b'\xed\xa0\x80\x00"\\\n\t\x7f caf\xc3\xa9',
}


def test_json_lines_have_rare_encodings_and_binary_values():
    assert {record.key: record.value for _, record in records_of(written(OTHERS, state.JSON))} == EXPECTED


@pytest.mark.parametrize(
    "dump",
    [ZOO, *sorted((DATA / "valkey-9.1" / "before").glob("*.rdb")), OTHERS],
    ids=lambda case: getattr(case, "name", "built"),
)
@pytest.mark.parametrize("style", [state.JSON, state.RESP])
def test_a_buffer_that_is_always_too_small_changes_nothing(dump, style):
    raw = dump if isinstance(dump, bytes) else dump.read_bytes()

    assert written(raw, style, buffer_bytes=700) == written(raw, style)


def test_metadata_of_modules_is_skipped_and_an_array_is_no_command():
    """Redis 8.6 and 8.8: the key behind the metadata is written; JSON has arrays, no command makes one."""
    meta = build.key_meta(b"\5" + build.string("x" * 90), b"\2\1") + build.key("meta", 0, build.string("v"))
    array = next(build.key(name, kind, value) for name, kind, value, *_ in build.LATER_SAMPLES if kind == 28)
    dump = build.rdb(build.LATER_TEMPLATES, build.select(0), meta, array, magic="REDIS0015")
    meta_record, array_record = (record for _, record in records_of(written(dump, state.JSON)))
    commands, writer = written_by(dump, state.RESP, permissive=True)

    assert (meta_record.key, meta_record.value) == (b"meta", b"v")
    assert array_record.type == "array"
    assert commands == SELECT + command_of("SET", "meta", "v")
    assert writer.left_out == {"array: no command is known here that makes an array": 1}


def test_unsupported_values_of_a_release_are_refused_or_left_out_by_name():
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
def test_a_value_that_contradicts_its_header_is_an_error_with_its_place(style, packed):
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
def test_a_damaged_key_larger_than_a_piece_is_left_out_whole(style):
    """Its sound elements come first, megabytes of them; the output equals that of a dump without the key."""
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
def test_doubles_have_few_digits_and_read_back(value):
    """As many as Python's own repr, one more for some powers of two; 15 or more for subnormal numbers."""
    out = np.zeros(40, np.uint8)
    text = out[: put_double(out, 0, struct.unpack("<q", struct.pack("<d", value))[0])].tobytes().decode()
    if math.isnan(value):
        assert text == "nan"
        return
    digits = [digits.lstrip("-").partition("e")[0].replace(".", "").strip("0") for digits in (text, repr(value))]

    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    assert math.isinf(value) or abs(value) < sys.float_info.min or len(digits[0]) <= len(digits[1]) + 1


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
                out += b"".join(bytes(piece) for piece in writer.pieces(data, batch, np.arange(len(batch))))
        keys = [json.loads(line) for line in out.splitlines()]
        left_out += sum(writer.left_out.values()) if writer else 0
        lines += len(keys)
        assert len(keys) == (writer.keys if writer else 0)

    assert lines > 1000
    assert left_out > 0
