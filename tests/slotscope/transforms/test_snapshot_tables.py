"""Partial sums that are here and those that Spark keeps in pieces: the same tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import PARTIAL, SLOT, UNIT
from slotscope.runtime.spark.spark_schema import spark_frame
from slotscope.sources.inputs import find_inputs, load_topology
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.sources.keys.tally import tally_units
from slotscope.transforms import snapshot_tables
from slotscope.transforms.partial_sums import ROWS_HERE_MAX, PartialSums, are_few
from slotscope.transforms.snapshot_tables import SnapshotTables

DATA = Path(__file__).parents[2] / "data/valkey-9.1"
KNOWN = frozenset({"serialized_bytes", "memory_bytes", "expires", "idle"})


@pytest.fixture(scope="module")
def rows():
    """The partial sums of three dumps, a task each, of which two overlap: they hold the same slots."""
    inputs = find_inputs([str(DATA / "before"), str(DATA / "after" / "node-7001.rdb")], [], None)
    topology = load_topology(str(DATA / "topology/nodes.txt"))
    ids = tuple(node.id for node in topology.masters())
    numbers = {owner: at for at, owner in enumerate((None, *ids))}
    owners = tuple(numbers[owner] for owner in topology.slot_map().owners())
    options = TallyOptions(top=7, groups_max=50, owners=owners, owner_ids=ids, topology=topology)
    units = inputs.units(4, split=False)
    batches = tally_units(iter([pa.record_batch([pa.array(range(len(units)))], ["id"])]), units, options)
    return pa.Table.from_batches(batches, PARTIAL)


def counted(table):
    return Counter(tuple(sorted(row.items())) for row in table.to_pylist())


def test_rows_that_spark_keeps_in_pieces_make_the_same_tables_as_rows_that_are_here(spark, rows):
    told = rows.filter(pc.equal(rows["kind"], UNIT))
    nodes = {source: "a" * 40 for source in set(rows["source"].to_pylist()) if "7001" in source}
    here, kept = PartialSums(rows, told), PartialSums(spark_frame(spark, rows).repartition(3), told, pieces=3)
    one, other = (SnapshotTables(sums, nodes, KNOWN, top=5, top_per_slot=1, groups=6) for sums in (here, kept))
    owners = [None] * SLOT_COUNT

    assert counted(one.slot_load(owners)) == counted(other.slot_load(owners))
    assert counted(one.big_keys()) == counted(other.big_keys())
    assert counted(one.hash_tags()) == counted(other.hash_tags())
    assert counted(one.prefixes()) == counted(other.prefixes())
    assert counted(one.key_use(one.prefixes())) == counted(other.key_use(one.prefixes()))
    assert counted(one.key_types()) == counted(other.key_types())
    assert counted(one.key_sizes()) == counted(other.key_sizes())
    assert counted(one.ttl_buckets()) == counted(other.ttl_buckets())
    assert set(snapshot_tables.keys_by_owner(here)) == set(snapshot_tables.keys_by_owner(kept))
    frames = [sums.frame(spark, nodes, SLOT).drop("facts").toArrow() for sums in (here, kept)]
    assert counted(frames[0].drop_columns(["amounts"])) == counted(frames[1].drop_columns(["amounts"]))
    assert len(frames[0]) > 1000


def test_small_files_and_few_units_are_few_and_large_files_of_many_units_are_not(tmp_path):
    def inputs(size):
        (tmp_path / "dump.rdb").write_bytes(b"REDIS0011")
        with (tmp_path / "dump.rdb").open("r+b") as file:
            file.truncate(size)
        return find_inputs([str(tmp_path / "dump.rdb")], [], None)

    options = TallyOptions()

    assert are_few(inputs(1000), options, units=100)
    assert are_few(inputs(50 * ROWS_HERE_MAX), options, units=2)
    assert not are_few(inputs(50 * ROWS_HERE_MAX), options, units=100)
