"""Conditions that go into the skim: the values of other keys are not looked at."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan

from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.value_columns import ValueColumns
from slotscope.sources.rdb.data_source import PushingRdbReader
from tests.conftest import DATA

FOLDER = DATA / "redis-7.0"
MANY, LRU, LFU = FOLDER / "dump.rdb", FOLDER / "dump-lru.rdb", FOLDER / "dump-lfu.rdb"
SOME_KEY = b"{user:0}:cart:41"


@pytest.mark.parametrize(
    ("dump", "conditions", "is_wanted"),
    [
        (MANY, [EqualTo(("key",), SOME_KEY)], lambda keys, row: keys.key(row) == SOME_KEY),
        (MANY, [In(("type",), ("hash", "stream"))], lambda keys, row: keys.type[row] in (4, 5)),
        (MANY, [LessThan(("slot",), 8000)], lambda keys, row: keys.slot[row] < 8000),
        (MANY, [GreaterThan(("serialized_bytes",), 500)], lambda keys, row: keys.serialized_bytes[row] > 500),
        (MANY, [IsNotNull(("expire_at_ms",))], lambda keys, row: keys.expire_at_ms[row] >= 0),
        (LRU, [GreaterThanOrEqual(("idle_s",), 50_000)], lambda keys, row: keys.idle_s[row] >= 50_000),
        (LFU, [GreaterThan(("freq",), 5)], lambda keys, row: keys.freq[row] > 5),
    ],
)
def test_values_of_keys_that_are_not_asked_for_are_not_decoded(monkeypatch, dump, conditions, is_wanted):
    """Spark is left nothing to do; as many keys come to the decoder as the query asks for, fewer than there are."""
    decoded: list[KeyBatch] = []
    pieces = ValueColumns.pieces

    def counting(self: ValueColumns, batch: KeyBatch):
        decoded.append(batch)
        return pieces(self, batch)

    monkeypatch.setattr(ValueColumns, "pieces", counting)
    rows = read(dump, conditions)
    asked = sum(map(len, decoded))
    decoded.clear()
    read(dump, [])

    everything = np.array([is_wanted(keys, row) for keys in decoded for row in range(len(keys))])
    assert 0 < rows == asked == everything.sum() < len(everything)


def read(dump, conditions: list[Filter]) -> int:
    """Rows that come where *conditions* were handed over."""
    reader = PushingRdbReader({"path": str(dump), "values": "true"})
    assert list(reader.pushFilters(conditions)) == []
    return sum(len(batch) for unit in reader.units() for batch in reader.batches(unit))
