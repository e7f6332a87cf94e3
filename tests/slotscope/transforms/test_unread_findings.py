"""The unread share of the inputs: known, bounded, or marked unknown; never just "1 bad record"."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.interim import UnitFacts
from slotscope.reports.unread import unread_lines
from slotscope.transforms.snapshot_warnings import find_partial, find_unread, share_by_node

GOOD = UnitFacts(source="a.rdb", kind="rdb", keys=1000, file_bytes=50_000, records=1000)


def cut(**facts: Any) -> UnitFacts:
    """A dump that ends after 733 of its keys."""
    return UnitFacts(
        **{
            "source": "d/b.rdb",
            "kind": "rdb",
            "keys": 733,
            "file_bytes": 20_000,
            "bad_records": 1,
            "unread_bytes": 0,
            "ends_early": True,
            **facts,
        }
    )


def lines(*units: UnitFacts) -> list[str]:
    return unread_lines(find_unread(units))


def test_a_cut_dump_is_measured_by_its_announced_keys():
    """All present bytes were read: only the file's own count shows missing keys, without unreached databases."""
    assert lines(GOOD, cut(records=1607)) == [
        "d/b.rdb: at least 54 % of its keys (874 of 1,607) were not read, because it ends too early",
        "all inputs together: at least 34 % of their keys (874 of 2,607) were not read",
    ]


def test_damage_inside_a_dump_is_measured_by_its_bytes_and_by_its_keys():
    first = UnitFacts(source="b.rdb", kind="rdb", keys=500, file_bytes=20_000, records=1000)
    second = UnitFacts(source="b.rdb", kind="rdb", keys=100, file_bytes=20_000, bad_records=1, unread_bytes=9000)

    assert (
        lines(first, second)[0]
        == "b.rdb: at least 40 % of its keys (400 of 1,000) and 45 % of its bytes (9.00 kB of 20.0 kB) were not read"
    )
    assert find_unread([first, second]).files[0].share == pytest.approx(0.45)


def test_a_list_is_measured_by_its_rows():
    """Rows without a key, or without a number that was asked for."""
    rows = UnitFacts(
        source="keys.csv", kind="csv", keys=97, file_bytes=4000, bad_records=3, records=100, unread_records=3
    )

    assert lines(GOOD, rows)[0] == "keys.csv: 3.0 % of its records (3 of 100) were not read"
    assert find_unread([GOOD, rows]).whole.unread_records == 3


def test_a_log_is_measured_by_the_worse_of_its_two_readings():
    """Its load was read to an end that the replay of its keys did not reach."""
    state = UnitFacts(source="log", kind="aof", keys=12, file_bytes=0, role="state", bad_records=1, unread_bytes=700)
    first = UnitFacts(source="log", kind="aof", keys=0, file_bytes=600, role="base")
    second = UnitFacts(
        source="log", kind="aof", keys=0, file_bytes=400, role="increment", bad_records=1, unread_bytes=100
    )

    assert lines(state, first, second)[0] == "log: 70 % of its bytes (700 B of 1.00 kB) were not read"


def test_nothing_is_partial_after_a_full_read():
    assert not find_unread([GOOD])
    assert find_partial(find_unread([GOOD])) == []
    assert share_by_node(find_unread([GOOD]), {"a.rdb": "n1"}) == {}


def test_a_node_lacks_the_share_of_its_worst_input():
    """Other nodes lack nothing; unknown figures stay unknown."""
    unread = find_unread(
        [GOOD, cut(records=1607), UnitFacts(source="c.rdb", kind="rdb", keys=5, file_bytes=10, bad_records=1)]
    )

    assert share_by_node(unread, {"a.rdb": "n1", "d/b.rdb": "n2", "c.rdb": "n3"}) == {
        "n2": pytest.approx(874 / 1607),
        "n3": None,
    }


def test_the_first_warning_has_the_total_missing_share():
    partial = find_partial(find_unread([GOOD, cut(records=1607)]))

    assert [(warning.severity, warning.code) for warning in partial] == [("error", "partial")] * 2
    assert "34 % of their keys" in partial[0].text
    assert partial[1].text.startswith("d/b.rdb: at least 54 %")
