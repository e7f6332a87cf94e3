"""Dumps and lists that share a task: fewer rows, the same sums; no Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.load.unread import attribute
from cluster_core.topology.replies import read_topology
from schemas.interim import BAD, OWNER, PREFIX, SLOT, TAG, UNIT
from slotscope.sources.files import FILE_BYTES, TASK_BYTES, TASKS_PER_CORE_MAX, InputFile
from slotscope.sources.keys.lists import KeyListTask, KeyListUnit
from slotscope.sources.keys.partial_rows import BAD_ROWS_MAX, TallyOptions
from slotscope.sources.keys.tally import tally_units
from slotscope.sources.rdb.files import plan_tasks
from tests.conftest import DATA

FOLDER = DATA / "valkey-9.1"
TOPOLOGY = read_topology((FOLDER / "topology" / "nodes.txt").read_bytes(), source="nodes.txt")
LOADS = ("keys", "serialized_bytes", "expires")


def rows_of(tasks, options):
    numbers = iter([pa.RecordBatch.from_pydict({"id": list(range(len(tasks)))})])
    return [row for batch in tally_units(numbers, tasks, options) for row in batch.to_pylist()]


def sums(rows, options, kind, *by):
    """What tables add up: loads by the columns *by*, and by node, which those of groups do not have."""
    node_of = {row["source"]: attribute(row["source"], {}, options.topology).node_id for row in rows}
    for source, owners in owners_of(rows).items():
        node_of[source] = attribute(source, owners, options.topology).node_id
    result = Counter()
    for row in rows:
        if row["kind"] == kind:
            node = None if kind in (TAG, PREFIX) else node_of[row["source"]] or row["owner_id"]
            group = (node, *(row[name] for name in by))
            for name in LOADS:
                result[*group, name] += row[name] or 0
            for at, amount in enumerate(row["amounts"] or ()):
                result[*group, at] += amount
    return +result


def owners_of(rows):
    result = {}
    for row in rows:
        if row["kind"] == OWNER:
            result.setdefault(row["source"], Counter())[row["owner_id"]] += row["keys"]
    return result


def test_lists_of_one_task_have_the_sums_that_each_has_alone_and_know_no_more(tmp_path):
    """One knows sizes, one operations, two only names: facts missing in all stay unknown, as do owners of free slots."""
    texts = {
        "a.csv": "key,serialized_bytes\n" + "".join(f"a{i},{i}\n" for i in range(50)),
        "b.csv": "key,ops\n" + "".join(f"b{i},{i}\n" for i in range(50)),
        "c.txt": "".join(f"{{c}}{i}\n" for i in range(50)),
        "d.txt": "".join(f"d:{i}\n" for i in range(50)),
    }
    units = []
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        units.append(KeyListUnit(str(tmp_path / name), "csv" if name.endswith("csv") else "text", len(text)))
    options = TallyOptions(topology=replace(TOPOLOGY, nodes=TOPOLOGY.nodes[1:]), top=20)

    alone = rows_of([KeyListTask((unit,)) for unit in units], options)
    shared = rows_of([KeyListTask(tuple(units))], options)

    known = []
    for rows in (alone, shared):
        slots = [row for row in rows if row["kind"] == SLOT]
        loads = ("keys", "serialized_bytes", "ops", "memory_bytes")
        known.append({name: sum_of_known(slots, name) for name in loads})
    assert known[0] == known[1]
    assert len(known[0]["keys"]) > 100 > len(known[0]["serialized_bytes"])
    assert [sum(known[0][name].values()) for name in loads[:3]] == [200, 1225, 1225]
    assert known[0]["memory_bytes"] == {}
    for kind in (TAG, PREFIX):
        assert sums(shared, options, kind, "name") == sums(alone, options, kind, "name")
    assert owners_of(shared) == owners_of(alone)
    assert None in set().union(*owners_of(alone).values())
    for rows in (alone, shared):
        units = [(row["keys"], row["facts"]) for row in rows if row["kind"] == UNIT]
        facts = [(keys, known["knows_serialized_bytes"], known["knows_ops"]) for keys, known in units]
        assert facts == [(50, True, False), (50, False, True), (50, False, False), (50, False, False)]


def test_bad_records_that_are_not_listed_are_counted_in_the_last_one(tmp_path):
    (tmp_path / "keys.csv").write_text("key,size\n" + "a,-1\n" * (BAD_ROWS_MAX + 5))
    task = KeyListTask((KeyListUnit(str(tmp_path / "keys.csv"), "csv", 0),))
    bad = [row["text"] for row in rows_of([task], TallyOptions(permissive=True)) if row["kind"] == BAD]

    assert (len(bad), bad[-1]) == (BAD_ROWS_MAX, "6 further bad records are not listed")


def sum_of_known(rows, name):
    result = {}
    for row in rows:
        if row[name] is not None:
            result[row["slot"]] = result.get(row["slot"], 0) + row[name]
    return result


@given(st.lists(st.integers(0, 4 * TASK_BYTES), min_size=1, max_size=60), st.integers(1, 9))
@settings(max_examples=60)
def test_every_file_is_in_one_task_and_tasks_are_few_and_alike(sizes, cores):
    files = [InputFile(f"{number:03d}.rdb", size) for number, size in enumerate(sizes)]

    tasks = plan_tasks(files, parallelism=cores, split=False)

    paths = [[unit.path for unit in task.units] for task in tasks]
    assert sorted(path for task in paths for path in task) == [file.path for file in files]
    assert all(task and task == sorted(task) for task in paths)
    assert len(tasks) <= cores * TASKS_PER_CORE_MAX
    loads = [sum(unit.size + FILE_BYTES for unit in task.units) for task in tasks]
    assert max(loads) <= sum(loads) / len(loads) + max(sizes) + FILE_BYTES
    assert len(tasks) >= min(cores, len(files))
