"""The grammar is one table: each of its rows is read, skimmed, decoded and written; other bytes are one fault."""

from __future__ import annotations

import pytest

from cluster_core.errors import DecodeError
from cluster_core.rdb.grammar import (
    B_KEY_META,
    B_RECORD,
    B_UNKNOWN,
    ENCODINGS,
    KEY_TYPES,
    L_UNREAD,
    NO_NUMBER,
    VALUE_TYPES,
    ValueType,
    grammar_of,
)
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import skim_all
from tests.builders.rdb_values import read_rows

LATER = "REDIS0015"
GOLDEN: dict[tuple[str, int], tuple[bytes, str, str, int]] = {
    **{("REDIS", kind): golden for _, kind, *golden in (*build.SAMPLES, *build.LATER_SAMPLES)},  # type: ignore[misc]
    ("REDIS", 11): (build.string(build.intset([1, 2, 3])), "set", "intset", 3),
    ("REDIS", 12): (build.string(build.ziplist([b"m", 1, b"n", 2])), "zset", "ziplist", 2),
    **{
        ("REDIS", row.redis): (build.stream(row.redis, 0, nodes=(), groups=2, consumers=2), "stream", "stream", 0)
        for row in VALUE_TYPES
        if row.generation
    },
    ("VALKEY", 22): (build.VALKEY_HASH_2, "hash", "hashtable", 2),
}
"""Value, type, encoding and elements of a value of each type."""
READ = [row for row in VALUE_TYPES if row.layout != L_UNREAD]


def home(row: ValueType) -> tuple[str, int, str]:
    """Dialect, number and magic of a file that holds the type."""
    return ("VALKEY", row.valkey, "VALKEY080") if row.redis == NO_NUMBER else ("REDIS", row.redis, LATER)


@pytest.mark.parametrize("row", READ, ids=lambda row: row.name)
def test_skim_and_plain_reader_agree_on_a_golden_value_of_every_type(row: ValueType):
    dialect, number, magic = home(row)
    value, kind, encoding, elements = GOLDEN[dialect, number]
    templates = build.LATER_TEMPLATES if magic == LATER else b""

    rows, _, error = skim_all(build.rdb(build.select(0), templates, build.key("k", number, value), magic=magic))

    assert error is None
    assert [(read_value[4], read_value[5], read_value[6]) for read_value in rows] == [(kind, encoding, elements)]
    assert kind == KEY_TYPES[row.key_type]
    assert encoding in (ENCODINGS[row.encoding], "int", "embstr", "raw", "listpack")


@pytest.mark.parametrize("row", READ, ids=lambda row: row.name)
def test_every_type_is_exported_unless_a_template_holds_its_names(row: ValueType):
    dialect, number, magic = home(row)
    value, kind, _, elements = GOLDEN[dialect, number]
    templates = build.LATER_TEMPLATES if magic == LATER else b""
    dump = build.rdb(build.select(0), templates, build.key("k", number, value), magic=magic)
    if "TEMPLATE" in row.name:
        with pytest.raises(DecodeError, match="its value does not match its header"):
            read_rows(dump)
        return

    ((_, record),) = read_rows(dump)[1]

    assert record.type == kind
    if isinstance(record.value, list):
        assert len(record.value) == elements


def test_a_number_may_mean_two_things():
    """Type 22 and opcode 243 came to both servers after they had parted."""
    redis, valkey = grammar_of("REDIS"), grammar_of("VALKEY")

    assert (redis.types[22].name, valkey.types[22].name) == ("HASH_METADATA_PRE_GA", "HASH_2")
    assert (redis.begins[243], valkey.begins[243]) == (B_KEY_META, B_RECORD)
    assert grammar_of("REDIS", 12).begins[243] == B_UNKNOWN
