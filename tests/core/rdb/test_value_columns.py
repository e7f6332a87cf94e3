"""Values as Arrow columns: what the plain decoder says of every type, and only the fields that are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from cluster_core.errors import DecodeError
from cluster_core.rdb import value_columns as columns
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.value_columns import VALUE_FIELDS, ValueColumns, value_type
from cluster_core.rdb.values import Field, decode_record
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import batches_of
from tests.conftest import DATA
from tests.core.rdb.test_value_writing import OTHERS

ZOO = (DATA / "redis-7.0" / "dump.rdb").read_bytes()


def values_of(dump: bytes, fields=VALUE_FIELDS, **options):
    """The values of all keys of *dump*, and the records."""
    data, skimmer, found, records = np.frombuffer(bytearray(dump), np.uint8), RdbSkimmer("d.rdb"), [], []
    for batch in batches_of(skimmer, dump):
        maker = ValueColumns(skimmer.head, source="d.rdb", **options)
        for _, values in maker.arrays(data, batch, fields):
            found += values.to_pylist()
        bounds = zip(batch.offset.tolist(), batch.serialized_bytes.tolist(), strict=True)
        records += [dump[at : at + size] for at, size in bounds]
    return found, [decode_record(record, skimmer.head.dialect) for record in records]


def expected(record) -> dict[str, object]:
    """What the fields of a record are; those of a stream by its entries alone."""
    value = record.value
    if record.type == "string":
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = None
        return {"string": value, "text": text}
    if record.type == "zset":
        return {"zset": [{"member": member, "score": score} for member, score in value]}
    if record.type == "hash":
        assert all(isinstance(field, Field) for field in value)
        return {
            "hash": [(field.name, field.value) for field in value],
            "field_expire_at_ms": [(field.name, field.expire_at_ms) for field in value if field.expire_at_ms >= 0],
        }
    if record.type == "stream":
        return {"stream": [("{}-{}".format(*entry.id), list(entry.words)) for entry in value.entries]}
    return {"module": value.data} if record.type == "module" else {record.type: value}


def told(row: dict[str, object]) -> dict[str, object]:
    """The fields of a row that are there."""
    found = {name: value for name, value in row.items() if value is not None}
    if "stream" in found:
        entries = found["stream"]["entries"]
        found["stream"] = [
            (entry["id"], [word for pair in entry["fields"] for word in (pair["field"], pair["value"])])
            for entry in entries
        ]
    return found


@pytest.mark.parametrize("piece_bytes", [1 << 25, 5000])
@pytest.mark.parametrize("dump", [ZOO, OTHERS], ids=["recorded", "built"])
def test_values_are_what_the_plain_decoder_reads(monkeypatch, dump, piece_bytes):
    """Every type and encoding; -0 of a list-packed score is a number like any other."""
    monkeypatch.setattr(columns, "BATCH_BYTES", piece_bytes)
    rows, records = values_of(dump)

    assert [repr(told(row)) for row in rows] == [
        repr({name: value for name, value in expected(record).items() if value is not None}) for record in records
    ]


def test_only_what_is_asked_for_is_made():
    """Keys of other types have nothing."""
    rows, records = values_of(ZOO, ("set", "text"))

    assert {tuple(row) for row in rows} == {("text", "set")}
    assert [row["set"] is not None for row in rows] == [record.type == "set" for record in records]
    assert [field.name for field in value_type(("set", "text"))] == ["text", "set"]


def test_a_value_that_cannot_be_read_is_an_error_or_null():
    """With its offset."""
    bad = build.listpack([b"a", b"b"], count=1)
    records = [build.key(b"a", 20, build.string(build.listpack([b"x"]))), build.key(b"b", 20, build.string(bad)),
               build.key(b"c", 20, build.string(build.listpack([b"y", 1])))]  # fmt: skip
    dump = build.rdb(build.select(0), *records)
    with pytest.raises(DecodeError) as caught:
        values_of(dump, ("set",))
    rows, _ = values_of(build.rdb(build.select(0), *records), ("set",), permissive=True)

    assert caught.value.offset == dump.index(records[1])
    assert [row["set"] for row in rows] == [[b"x"], None, [b"y", b"1"]]
