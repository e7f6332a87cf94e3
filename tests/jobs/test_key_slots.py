"""The key distribution from dump to tables, on recorded dumps with the servers' own figures."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from shutil import copytree

import pytest

from jobs import key_slots
from jobs.key_slots import Request
from schemas.bronze import BAD_RECORDS, KEYS
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_PREFIXES, KEY_TYPES, NODE_LOAD, TTL_BUCKETS
from schemas.interim import SLOT
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.reports.keyspace.report import load_report
from slotscope.runtime.failure import BAD_INPUT, PARTIAL
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.sources.inputs import find_inputs
from slotscope.sources.keys.tally import TallyOptions
from slotscope.sources.keys.text import key_text
from slotscope.sources.rdb import files as rdb_files
from slotscope.transforms.partial_sums import read_units, tally
from tests.benches.program import slotscope
from tests.builders import rdb_builder as build
from tests.conftest import DATA

VALKEY = DATA / "valkey-9.1"
NODES = VALKEY / "topology" / "nodes.txt"
ALL_TABLES = (SLOT_LOAD, SNAPSHOTS, SOURCES, NODE_LOAD, BIG_KEYS, HASH_TAGS, KEY_PREFIXES, TTL_BUCKETS, BAD_RECORDS)


def truth(*names: str) -> list[dict]:
    """The servers' answers for every key of the named dumps."""
    result = []
    for name in names:
        path = VALKEY / name
        with gzip.open(path.parent / f"keys-{path.stem}.jsonl.gz", "rt") as lines:
            result += [json.loads(line) for line in lines]
    return result


def before(root, table, **options):
    """The rows of snapshot ``before``."""
    return read_rows(str(root), table, snapshot_id="before", **options)


def run(spark, root, **options):
    return key_slots.run(spark, Request(root=str(root), top=5, **options))


BEFORE = [f"before/node-{port}.rdb" for port in (7001, 7002, 7003)]


def test_key_types_count_every_key_of_each_master(recorded_root):
    """All of them, not only the largest; memory and bytes add up to those of the masters."""
    rows = before(recorded_root, KEY_TYPES)

    expected = {
        (port[-1] * 40, type_): count
        for port, name in zip(("7001", "7002", "7003"), BEFORE, strict=True)
        for type_, count in Counter(key["type"] for key in truth(name)).items()
    }
    assert {(row["node_id"], row["type"]): row["keys"] for row in rows} == expected
    assert sum(row["expires"] for row in rows) == sum(key["pexpiretime"] >= 0 for key in truth(*BEFORE))
    loads = before(recorded_root, NODE_LOAD)
    for name in ("serialized_bytes", "memory_bytes"):
        assert sum(row[name] for row in rows) == sum(row[name] for row in loads) > 0


def test_slot_load_has_every_slot_and_the_counts_of_the_servers(recorded_root):
    loads = before(recorded_root, SLOT_LOAD)

    expected = Counter(key["slot"] for key in truth(*BEFORE))
    expiring = Counter(key["slot"] for key in truth(*BEFORE) if key["pexpiretime"] >= 0)
    assert sorted(row["slot"] for row in loads) == list(range(16384))
    assert {row["slot"]: row["keys"] for row in loads if row["keys"]} == dict(expected)
    assert {row["slot"]: row["expires"] for row in loads if row["expires"]} == dict(expiring)
    assert all(row["node_id"] == row["owner_id"] is not None for row in loads)


def test_every_key_is_stored_on_request(recorded_root):
    kept = {bytes(row["key"]): row for row in before(recorded_root, KEYS)}

    expected = truth(*BEFORE)
    assert len(kept) == len(expected)
    for key in expected:
        row = kept[base64.b64decode(key["key"])]
        assert (row["slot"], row["type"], row["encoding"], row["elements"]) == (
            key["slot"],
            key["type"],
            key["encoding"],
            key["count"],
        )
        assert row["expire_at_ms"] == (key["pexpiretime"] if key["pexpiretime"] >= 0 else None)


def test_node_load_sums_the_slots_of_each_master(recorded_root):
    nodes = {row["address"]: row for row in before(recorded_root, NODE_LOAD)}

    by_dump = [len(truth(name)) for name in BEFORE]
    assert sorted(row["keys"] for row in nodes.values()) == sorted(by_dump)
    assert sum(row["slots"] for row in nodes.values()) == 16384
    assert sum(row["bytes_share"] for row in nodes.values()) == pytest.approx(1)
    assert max(row["keys_over_mean"] for row in nodes.values()) == pytest.approx(3 * max(by_dump) / sum(by_dump))


def test_hash_tags_are_exact_if_they_fit_into_memory(recorded_root):
    tags = {bytes(row["hash_tag"]): row for row in before(recorded_root, HASH_TAGS)}

    expected = Counter()
    for key in truth(*BEFORE):
        name = base64.b64decode(key["key"])
        opened = name.find(b"{")
        closed = name.find(b"}", opened + 1)
        if 0 <= opened < closed - 1:
            expected[name[opened + 1 : closed]] += 1
    assert {name: row["keys"] for name, row in tags.items()} == {name: expected[name] for name in tags}
    assert all(row["keys_error"] == row["bytes_error"] == 0 for row in tags.values())
    top = expected.most_common(1)[0][0]
    assert tags[top]["rank_keys"] == 1


def test_big_keys_are_ranked_by_memory_in_each_scope(recorded_root):
    big = before(recorded_root, BIG_KEYS, order_by="rank")
    sizes = {(row["source"], bytes(row["key"]), row["db"]): row["memory_bytes"] for row in before(recorded_root, KEYS)}

    cluster = [row["memory_bytes"] for row in big if row["scope"] == "cluster"]

    assert cluster == sorted(sizes.values(), reverse=True)[:5]
    assert {row["scope"] for row in big} == {"cluster", "node", "slot", "type"}
    assert len({row["scope_value"] for row in big if row["scope"] == "node"}) == 3
    assert all(row["scope_value"] == str(row["slot"]) for row in big if row["scope"] == "slot" and row["rank"] == 1)


def test_prefixes_roll_up_at_separators(recorded_root):
    prefixes = {bytes(row["prefix"]): row for row in before(recorded_root, KEY_PREFIXES)}

    names = [base64.b64decode(key["key"]) for key in truth(*BEFORE)]
    assert prefixes
    for prefix, row in prefixes.items():
        assert row["keys"] == sum(name.startswith(prefix) for name in names)
        assert row["depth"] == prefix.count(b":")


@pytest.mark.slow
def test_a_second_run_leaves_the_same_tables(tutorial, asked_root):
    """But for the keys, which only the second was to keep."""

    def contents(root, table):
        """All columns but the time of the run itself."""
        columns = [name for name in table.columns if name not in ("written_at", "run_id")]
        return sorted(map(repr, read_rows(str(root), table, columns=columns, snapshot_id="after")))

    changed = [table.name for table in ALL_TABLES if contents(tutorial.root, table) != contents(asked_root, table)]

    assert changed == []
    assert len(read_rows(str(asked_root), SLOT_LOAD, snapshot_id="after")) == 16384
    assert len(read_rows(str(asked_root), KEYS, snapshot_id="after")) > 6000


def test_the_report_has_the_figures_of_the_tables(recorded_root):
    report = load_report(str(recorded_root), "before")

    assert report.keys == len(truth(*BEFORE))
    assert [node.slots for node in report.nodes] == [
        row["slots"] for row in before(recorded_root, NODE_LOAD, order_by="address")
    ]
    assert report.warnings == []
    (note,) = load_report(str(recorded_root), "before", now_ms=1_795_350_000_000).warnings
    assert (note.severity, note.code) == ("note", "snapshot_age")
    assert "before/node-7001.rdb dates from 2026-11-21 12:18:51 UTC, " in note.text
    assert note.text.endswith(" before this report; 3 inputs within 1 s")
    assert {source.kind for source in report.sources} == {"rdb"}


def test_keys_without_elements_are_named_and_counted_apart(spark, tmp_path):
    """Redis 8.2 has no model of its own: the figures say by which one they are."""
    records = [
        build.key(b"plain", 0, build.string("v")),
        build.key("hollow", 2, b"\0"),
        build.key("x\x1b", 0, build.string("v")),
    ]
    data = build.rdb(build.aux("redis-ver", "8.2.1"), build.select(0), *records, magic="REDIS0012")
    (tmp_path / "d.rdb").write_bytes(data)
    report = run(spark, tmp_path / "out", rdb=[str(tmp_path / "d.rdb")], keep_keys=True)
    warnings = {warning.code: (warning.severity, warning.text) for warning in report.warnings}

    assert report.keys == 2
    assert sorted((bytes(row["key"]), row["key_text"]) for row in read_rows(str(tmp_path / "out"), KEYS)) == [
        (b"plain", "plain"), (b"x\x1b", "x\\x1b"),
    ]  # fmt: skip
    assert "1 key without elements not counted" in warnings["hollow_keys"][1]
    (snapshot,) = read_rows(str(tmp_path / "out"), SNAPSHOTS)
    assert (snapshot["memory_model"], snapshot["memory_exactness"], snapshot["unmeasured_keys"]) == (
        "redis 8.0, jemalloc-16", "nearest", 0,
    )  # fmt: skip
    assert "error not known" in report.memory.caveat


def test_of_a_master_and_its_replicas_the_newest_dump_is_read(spark, tmp_path):
    """They share the replication id; a server without replicas has none, or zeros."""

    def dump(name: str, replid: str, offset: int, keys: int) -> str:
        records = [build.key(b"%s:%d" % (name[:1].encode(), number), 0, build.string(b"v")) for number in range(keys)]
        head = [build.aux("repl-id", replid), build.aux("repl-offset", offset)]
        (tmp_path / name).write_bytes(build.rdb(*head, build.select(0), *records))
        return str(tmp_path / name)

    shared, zeros = "0123456789" * 4, "0" * 40
    older, newer = dump("a-replica", shared, 0, 3), dump("a-master", shared, 3_000_000_000, 4)
    alone = [dump("b", zeros, 0, 5), dump("c", zeros, 0, 6)]

    read = run(spark, tmp_path / "root", rdb=(older, newer, *alone), snapshot="s")

    assert [row["keys"] for row in read_rows(str(tmp_path / "root"), SNAPSHOTS)] == [4 + 5 + 6]
    assert sorted(row["source"] for row in read_rows(str(tmp_path / "root"), SOURCES)) == sorted([newer, *alone])
    (note,) = [warning for warning in read.warnings if warning.code == "older_dumps"]
    assert f"{older} ({newer})" in note.text


def test_every_table_and_report_of_a_partial_snapshot_has_the_missing_share(spark, recorded_root, tmp_path, capsys):
    """A node's dump cut to half: the keys that it announces tell what share is gone; growth against it is in doubt."""
    half, root = tmp_path / "node-7002.rdb", copytree(recorded_root, tmp_path / "root")
    half.write_bytes((VALKEY / BEFORE[1]).read_bytes()[: (VALKEY / BEFORE[1]).stat().st_size // 2])
    dumps = [str(VALKEY / BEFORE[0]), str(half), str(VALKEY / BEFORE[2])]
    read = run(spark, root, rdb=dumps, topology=str(NODES), mode="permissive", snapshot="half", keep_keys=True)

    missing, whole = len(truth(*BEFORE)) - read.keys, len(truth(BEFORE[1]))
    share = (
        f"node-7002.rdb: at least {100 * missing / whole:.0f} % of its keys ({missing:,} of {whole:,}) were not read"
    )
    assert any(share in warning.text for warning in read.warnings if warning.code == "partial")
    for table in (SLOT_LOAD, NODE_LOAD, BIG_KEYS, HASH_TAGS, KEY_PREFIXES, TTL_BUCKETS, SNAPSHOTS):
        marks = {(row["snapshot_id"], row["partial"]) for row in read_rows(str(root), table)}
        assert marks == {("half", True), ("before", False), ("after", False)}
    shares = {
        row["address"].rpartition(":")[2]: row["unread_share"]
        for row in read_rows(str(root), NODE_LOAD, snapshot_id="half")
    }
    assert shares == {"7001": 0, "7002": pytest.approx(missing / whole), "7003": 0}
    source = [row for row in read_rows(str(root), SOURCES, snapshot_id="half") if row["partial"]]
    assert [(row["source"], row["records"], row["unread_records"]) for row in source] == [(str(half), whole, missing)]
    names = read_rows(str(root), KEYS, snapshot_id="half")
    assert names
    assert all(row["key_text"] == key_text(bytes(row["key"])) for row in names)
    assert all((row["hash_tag"] is None) == (row["hash_tag_text"] is None) for row in names)

    assert slotscope("compare", "half", "before", "--root", root, "--html", tmp_path / "growth.html") == PARTIAL
    assert "snapshot half: partial" in " ".join(capsys.readouterr().out.split())
    assert share in (tmp_path / "growth.html").read_text("utf-8")
    for refused in ("strict", "permissive"):
        assert slotscope("rebalance-plan", "--root", root, "--snapshot", "half", "--mode", refused) == BAD_INPUT
        errors = capsys.readouterr().err
        assert share in errors
        assert "--allow-partial" in errors
    assert not (root / "gold" / "rebalance_plans").exists()


def keys_by_slot(partial):
    """Keys by slot over all units, of partial sums."""
    result = Counter()
    for row in partial.to_pylist():
        if row["kind"] == SLOT:
            result[row["slot"]] += row["keys"]
    return result


def test_key_lists_of_every_format_give_the_slots_of_their_keys(spark):
    """They are slots of the dump from which the lists were made; a scan may name a key twice."""
    paths = [str(path) for path in (DATA / "key-lists").iterdir()]
    units = [unit for path in paths for unit in find_inputs([], [path], None).units(2, split=True)]
    counted: dict[str, Counter[int]] = {}
    for row in tally(spark, TallyOptions(details=False), units).toArrow().to_pylist():
        if row["kind"] == SLOT:
            counted.setdefault(row["source"].rpartition("/")[2], Counter())[row["slot"]] += row["keys"]

    assert sorted(counted) == ["keys.csv", "keys.jsonl", "keys.parquet", "scan-quoted.txt", "scan.txt"]
    in_dump = {key["slot"] for key in truth(BEFORE[0])}
    assert [name for name, slots in counted.items() if slots.total() <= 100 or not set(slots) <= in_dump] == []


def test_only_the_wrongly_split_dump_is_read_again(spark, tmp_path, monkeypatch):
    """A cut is proved by the range before it; the ranges of another dump, which were read well, stay as they are."""
    plain, key = tmp_path / "plain.rdb", build.key(b"user:1", 0, build.string(b"v" * 20))
    plain.write_bytes(build.rdb(build.select(0), *(key.replace(b"1", b"%d" % digit) for digit in range(10))))
    plan = rdb_files.plan_tasks
    monkeypatch.setattr(
        rdb_files, "plan_tasks", lambda files, parallelism, split: plan(files, parallelism=4, split=split)
    )
    monkeypatch.setattr(rdb_files, "PART_BYTES_MIN", 100)
    find, size = rdb_files.find_splits, plain.stat().st_size
    monkeypatch.setattr(
        rdb_files, "find_splits", lambda read, total, count: [100] if total == size else find(read, total, count)
    )
    node = str(VALKEY / BEFORE[0])
    inputs = find_inputs([str(plain), node], [], None)

    partial, units = read_units(spark, inputs, TallyOptions(details=False))
    slots = keys_by_slot(partial.rows)

    assert Counter(unit.source for unit in units) == {str(plain): 1, node: 2}
    assert sum(slots.values()) == 10 + len(truth(BEFORE[0]))
