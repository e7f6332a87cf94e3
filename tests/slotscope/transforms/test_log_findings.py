"""What is said about append-only logs, and when nothing is."""

from __future__ import annotations

from typing import Any

from cluster_core.load.attribution import Attribution
from schemas.interim import UnitFacts
from slotscope.transforms import snapshot_warnings

A = "a" * 40


def unit(source: str = "/d", size: int = 1000, **facts: Any) -> UnitFacts:
    return UnitFacts(
        **{
            "source": source,
            "kind": "aof",
            "keys": 10,
            "file_bytes": size,
            "role": "increment",
            "file": f"{source}/x",
            **facts,
        }
    )


def test_a_healthy_log_is_nothing_to_warn_of():
    assert snapshot_warnings.find_cuts([unit()]) == []
    assert snapshot_warnings.find_uncertain([unit(role="state", not_modelled="")]) == []


def test_a_cut_log_names_its_file_and_where_a_server_stops():
    (warning,) = snapshot_warnings.find_cuts(
        [unit(cut="the log ends inside a command: 3 bytes are not loaded", loaded_end=42)]
    )

    assert (warning.severity, warning.code) == ("warning", "log_truncated")
    assert "/d/x" in warning.text
    assert "offset 42" in warning.text


def test_commands_that_are_not_modelled_are_named_with_the_keys_that_they_leave_uncertain():
    found = snapshot_warnings.find_uncertain(
        [unit(role="state", not_modelled="bf.add (2)", uncertain_keys=1, replayed_to="/d/x: offset 9")]
    )

    assert [(warning.severity, warning.code) for warning in found] == [
        ("warning", "uncertain_keys"),
        ("error", "log_damaged"),
    ]
    assert "bf.add (2); 1 key uncertain" in found[0].text
    assert "/d/x: offset 9" in found[1].text


def test_a_log_and_a_dump_of_one_node_count_its_keys_twice_unless_the_log_is_not_replayed():
    """``--rdb dump --aof log --no-replay`` is how keys come from one and writes from the other."""
    dump = UnitFacts(source="d.rdb", kind="rdb", keys=10, file_bytes=1000)
    owners = {"d.rdb": Attribution(A, "keys"), "/d": Attribution(A, "keys")}

    assert snapshot_warnings.find_twins([dump, unit()], owners, None) == []
    (warning,) = snapshot_warnings.find_twins([dump, unit(), unit(role="state")], owners, None)
    assert warning.code == "same_node_twice"
