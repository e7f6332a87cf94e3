"""``spark.read.format("redis-rdb")`` as a person in a notebook uses it."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from slotscope.runtime.failure import describe
from slotscope.sources.rdb.data_source import RdbDataSource
from tests.conftest import DATA

BEFORE = DATA / "valkey-9.1" / "before"


@pytest.fixture(scope="module")
def read(spark):
    spark.dataSource.register(RdbDataSource)
    return lambda path, **options: spark.read.format("redis-rdb").options(**options).load(str(path))


def test_every_key_is_a_row_with_the_servers_facts(read):
    with gzip.open(BEFORE / "keys-node-7003.jsonl.gz", "rt") as lines:
        truth = {base64.b64decode(key["key"]): key for key in map(json.loads, lines)}

    rows = {bytes(row["key"]): row for row in read(BEFORE / "node-7003.rdb").collect()}

    assert rows.keys() == truth.keys()
    for name, row in rows.items():
        key = truth[name]
        assert (row["slot"], row["type"], row["elements"]) == (key["slot"], key["type"], key["count"])
        assert row["source"].endswith("node-7003.rdb")


def test_a_cut_file_fails_the_query_or_gives_the_rows_before_the_cut(read, tmp_path):
    cut = tmp_path / "cut.rdb"
    cut.write_bytes((BEFORE / "node-7003.rdb").read_bytes()[:100_000])

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own class; what matters is what it says
        read(cut).count()
    kept = read(cut, mode="permissive").count()

    assert f"{cut}: offset 100000: " in describe(caught.value).line
    assert 0 < kept < read(BEFORE / "node-7003.rdb").count()


@pytest.mark.parametrize("options", [{"mode": "lenient"}, {"rows": "values"}, {"colour": "red"}])
def test_an_unknown_option_is_named(read, options):
    ((name, value),) = options.items()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own class; what matters is what it says
        read(BEFORE / "node-7003.rdb", **options).count()

    assert name in describe(caught.value).line
    assert value in describe(caught.value).line or name == "colour"
