"""Keys that are copied in one piece, against what a loop over the keys finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.kernels.key_batch import key_runs
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import rows_of

records = st.lists(
    st.one_of(
        st.sampled_from([b"a", b"b", b"{a}1", b"c", b"{c}2"]).map(
            lambda key: (key, build.key(key, 0, build.string(key * 9)))
        ),
        st.integers(0, 2).map(lambda db: (None, build.select(db))),
        st.just((None, build.aux("note", "x"))),
    ),
    max_size=30,
)


def runs_by_hand(rows, part_of, by_slot: bool) -> list[tuple[int, int, int, int, int]]:
    """Runs as a loop over the keys makes them."""
    found: list[list[int]] = []
    last_slot = -1
    for row in rows:
        part, end = part_of[row.slot], row.offset + row.serialized_bytes
        joins = found and found[-1][1] == row.offset and found[-1][2:4] == [part, row.db]
        if joins and (not by_slot or last_slot == row.slot):
            found[-1][1] = end
        else:
            found.append([row.offset, end, part, row.db, row.slot])
        last_slot = row.slot
    return [tuple(run) for run in found]


@given(records, st.integers(1, 3), st.booleans(), st.integers(1, 400))
def test_runs_are_whole_keys_side_by_side_of_one_part_and_database(built, parts, by_slot, span_bytes):
    """With and without a break at every slot; spans are the same runs."""
    data = build.rdb(*(record for _, record in built))
    part_of = np.arange(SLOT_COUNT, dtype=np.int64) % parts
    skimmer = RdbSkimmer("f")
    skimmer.room()[: len(data)] = data
    skimmer.filled(len(data))
    (batch,) = list(skimmer.batches()) or [None]
    if batch is None:
        assert not any(key for key, _ in built)
        return
    rows = rows_of(batch)
    runs = key_runs(batch, part_of, by_slot=by_slot)
    listed = [tuple(int(column[number]) for column in runs) for number in range(len(runs.start))]
    spans = list(runs.spans(span_bytes))

    assert listed == runs_by_hand(rows, part_of, by_slot)
    assert [int(start) for span in spans for start in span.start] == [run[0] for run in listed]
    assert all(len(span.start) == 1 or span.end[-1] - span.start[0] <= span_bytes for span in spans)
    assert {key_slot(key) for key, _ in built if key} == {row.slot for row in rows}
