"""What is said about a snapshot, and when nothing is."""

from __future__ import annotations

from typing import Any

from cluster_core.load.attribution import Attribution
from cluster_core.topology.nodes_text import read_nodes
from schemas.interim import UnitFacts, joined
from slotscope.transforms import snapshot_warnings
from slotscope.transforms.snapshot_warnings import Foreign

A, B = "a" * 40, "b" * 40
NODES = read_nodes(
    f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-8191\n"
    f"{B} 10.0.0.2:6380@16380 master - 0 0 2 connected 8192-16000\n".encode()
)


def unit(source: str, **facts: Any) -> UnitFacts:
    return UnitFacts(source=source, kind="rdb", keys=10, file_bytes=1000, **facts)


def test_keys_of_the_dumps_own_node_are_nothing_to_say():
    assert snapshot_warnings.find_foreign([Foreign("a.rdb", A, 9)], {"a.rdb": Attribution(A, "keys")}, NODES) == []


def test_foreign_keys_are_counted_by_owner_in_one_warning_a_dump():
    rows = [Foreign("a.rdb", A, 9), Foreign("a.rdb", B, 3), Foreign("a.rdb", None, 1)]

    (warning,) = snapshot_warnings.find_foreign(rows, {"a.rdb": Attribution(A, "keys")}, NODES)

    assert (warning.severity, warning.code) == ("error", "foreign_keys")
    assert "3 keys in slots of 10.0.0.2:6380" in warning.text
    assert "1 key in slots of nobody" in warning.text


def test_two_dumps_of_one_node_are_found_by_node_then_by_replication_id_then_by_checksum():
    by_node = snapshot_warnings.find_twins(
        [unit("a.rdb"), unit("b.rdb")], {"a.rdb": Attribution(A, "name"), "b.rdb": Attribution(A, "keys")}, NODES
    )
    nobody = {name: Attribution(None, "unknown") for name in ("a.rdb", "b.rdb")}
    by_replid = snapshot_warnings.find_twins(
        [unit("a.rdb", aux={"repl-id": "f00"}), unit("b.rdb", aux={"repl-id": "f00"})], nobody, None
    )
    by_crc = snapshot_warnings.find_twins(
        [unit("a.rdb", stored_crc="12"), unit("b.rdb", stored_crc="12")], nobody, None
    )
    zeros = {"aux": {"repl-id": "0" * 40}, "stored_crc": "0" * 16}
    no_twins = snapshot_warnings.find_twins([unit("a.rdb", **zeros), unit("b.rdb", **zeros)], nobody, None)

    assert [len(found) for found in (by_node, by_replid, by_crc, no_twins)] == [1, 1, 1, 0]
    assert all("counted 2 times" in found[0].text for found in (by_node, by_replid, by_crc))


def test_ranges_of_one_file_are_one_dump():
    assert snapshot_warnings.find_twins([unit("a.rdb"), unit("a.rdb")], {"a.rdb": Attribution(A, "name")}, NODES) == []


def test_slots_without_owner_are_named_with_the_keys_in_them():
    (warning,) = snapshot_warnings.find_coverage(NODES, 4)

    assert "383 slots without owner: 16001-16383" in warning.text
    assert "4 keys" in warning.text
    assert snapshot_warnings.find_coverage(None, 4) == []


def test_of_many_bad_records_a_few_are_shown_and_all_are_counted():
    bad = [(f"{number}.rdb", 9, "odd\x1b[2J") for number in range(5)]

    (warning,) = snapshot_warnings.find_bad(bad, 1234)

    assert "1,234 records could not be read" in warning.text
    assert "and 1,229 more" in warning.text
    assert "\x1b" not in warning.text
    assert snapshot_warnings.find_bad([], 0) == []


def test_what_a_file_says_of_its_end_is_passed_on():
    warnings = snapshot_warnings.find_file_facts(
        [unit("a.rdb", trailing_bytes=12, stored_crc="0" * 16, untracked_keys=2)]
    )

    assert [warning.code for warning in warnings] == ["trailing_bytes", "no_checksum", "long_names"]
    assert snapshot_warnings.find_file_facts([unit("b.rdb", trailing_bytes=0, stored_crc="a" * 16)]) == []


def test_a_file_that_is_read_in_ranges_has_what_all_of_them_counted():
    first = unit("a.rdb", hollow_keys=2, records=7, ctime=5, hollow_key="h")
    second = unit("a.rdb", hollow_keys=3, ctime=5, stored_crc="12", records=0)

    whole = joined(first, second)

    assert (whole.keys, whole.file_bytes) == (20, 1000)
    assert whole.words() == {
        "hollow_keys": "5", "hollow_key": "h", "records": "7", "ctime": "5",
        "stored_crc": "12",
    }  # fmt: skip


def test_of_two_readings_of_a_log_the_later_counts_and_its_files_add_up():
    first = UnitFacts(source="/d", kind="aof", file_bytes=600, role="base", missed_log_keys=9, cut="torn")
    second = UnitFacts(source="/d", kind="aof", file_bytes=400, role="increment", missed_log_keys=0)

    whole = joined(first, second)

    assert whole.file_bytes == 1000
    assert whole.words() == {"role": "increment", "missed_log_keys": "0", "cut": "torn"}
