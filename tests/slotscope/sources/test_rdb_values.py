"""Values in ``spark.read.format("redis-rdb")``: JSON text as `slotscope export` writes it, only of the keys that a query asks for."""

from __future__ import annotations

import gzip
import json

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


def test_a_value_is_the_json_that_export_writes(read, tmp_path):
    packed = tmp_path / "packed.rdb.gz"
    packed.write_bytes(gzip.compress(ZOO.read_bytes()))
    rows = read(packed, values="true").where("type in ('string', 'list', 'zset', 'hash')").collect()
    groups = read(ZOO, values="true").selectExpr("get_json_object(value, '$.groups[0].name') as name")

    values = [json.loads(row.value) for row in rows]
    assert [len(value) for value, row in zip(values, rows, strict=True) if row.type != "string"] == [
        row.elements for row in rows if row.type != "string"
    ]
    assert {type(value) for value in values} == {str, list, dict}
    assert groups.where("name is not null").count() > 0


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
        ({"values": "yes"}, "option values is 'yes', not false or true"),
    ],
)
def test_wrong_options_are_refused_with_their_place(read, options, line):
    with pytest.raises(Exception, match="line") as caught:
        read(ZOO, **options).count()

    assert line in str(caught.value)
