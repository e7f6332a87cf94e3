"""Values in ``spark.read.format("redis-rdb")``: every type as Spark has it, and only of the keys that a query asks for."""

from __future__ import annotations

import gzip

import pytest

import slotscope
from tests.conftest import DATA

ZOO = DATA / "redis-7.0" / "dump.rdb"

pytestmark = pytest.mark.spark


@pytest.fixture
def read(spark):
    """A reader of dumps in a session as `slotscope.register` makes it."""
    slotscope.register(spark)
    return lambda path, **options: spark.read.format("redis-rdb").options(**options).load(str(path))


def test_values_are_columns_of_their_types(read):
    """Strings as bytes and text, lists and sets as arrays, hashes as maps, scores as numbers, streams with their groups."""
    frame = read(ZOO, values="true")
    row = frame.where("type = 'zset'").selectExpr("elements", "value.zset").first()
    hashes = frame.where("type = 'hash'").selectExpr("elements", "map_keys(value.hash) as fields").collect()
    groups = frame.where("type = 'stream'").selectExpr("sum(size(value.stream.groups)) as groups").first()
    texts = frame.where("value.text is not null").count()

    assert frame.schema["value"].dataType.fieldNames()[:4] == ["string", "text", "list", "set"]
    assert len(row.zset) == row.elements
    assert isinstance(row.zset[0].score, float)
    assert [len(one.fields) for one in hashes] == [one.elements for one in hashes]
    assert groups.groups > 0
    assert 0 < texts < frame.where("type = 'string'").count()


def test_columns_that_are_asked_for_are_made_alone(read, tmp_path):
    """Also of a compressed dump."""
    packed = tmp_path / "packed.rdb.gz"
    packed.write_bytes(gzip.compress(ZOO.read_bytes()))
    frame = read(packed, columns="key, value.list")

    assert frame.columns == ["key", "value"]
    assert frame.schema["value"].dataType.fieldNames() == ["list"]
    assert frame.where("value.list is not null").count() == read(ZOO).where("type = 'list'").count()


def test_a_key_is_found_by_its_name(read):
    """One key of many, with its value."""
    some = bytes(read(ZOO).where("type = 'list'").first().key)
    rows = read(ZOO, values="true").where(f"key = X'{some.hex()}'").collect()

    assert [(bytes(row.key), len(row.value.list) == row.elements) for row in rows] == [(some, True)]


def test_options_choose_keys_as_export_does(read):
    """Without any condition in the query."""
    assert read(ZOO, match="{user:?}:*", type="hash,string").count() == sum(
        bytes(row.key).startswith(b"{user:") and bytes(row.key)[7:9] == b"}:"
        for row in read(ZOO).where("type in ('hash', 'string')").collect()
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"match": "a[b"}, "--match 'a[b': line 1, column 2: no ] closes this ["),
        ({"columns": "key,values"}, "there is no column 'values'"),
        ({"values": "yes"}, "option values is 'yes', not true or false"),
    ],
)
def test_wrong_options_are_refused_with_their_place(read, options, line):
    """In one line within Spark's own."""
    with pytest.raises(Exception, match="line") as caught:
        read(ZOO, **options).count()

    assert line in str(caught.value)
