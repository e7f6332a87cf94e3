"""Who owned which slots, by periods of views."""

from __future__ import annotations

import pyarrow as pa

from slotscope.transforms.ownership import VIEW_COLUMNS, find_owners

OWNERS = (
    "observer", "first_slot", "last_slot", "owner", "owners", "valid_from_ns", "valid_to_ns", "valid_from_min_ns",
    "valid_to_min_ns", "evidence",
)  # fmt: skip


def owners(*views: tuple) -> set[tuple]:
    """The owners by views: observer, node, slots, from, to, after which time, evidence."""
    rows = [dict(zip(VIEW_COLUMNS, view, strict=True)) for view in views]
    return {tuple(row[name] for name in OWNERS) for row in find_owners(pa.Table.from_pylist(rows)).to_pylist()}


def test_the_times_at_which_slots_change_hands_have_bounds_and_evidence() -> None:
    """Two polls show that slots 5 to 9 went from a to b: at 20 at the latest, after 15."""
    found = owners(
        ("x", "a", "0-9", 10, 20, None, "capture"),
        ("x", "a", "0-4", 20, None, 15, "poll"),
        ("x", "b", "5-9", 20, None, 15, "poll"),
    )

    by_observer = [
        (0, 4, "a", 1, 10, None, None, None, "capture"),
        (5, 9, "a", 1, 10, 20, None, 15, "capture"),
        (5, 9, "b", 1, 20, None, 15, None, "poll"),
    ]
    assert found == {(who, *row) for who in ("x", "") for row in by_observer}


def test_the_agreed_owner_is_the_one_that_an_observer_names_before_others_name_any() -> None:
    """If observers name two owners, none is agreed, and the row has their number."""
    found = owners(
        ("x", "a", "0-9", 10, None, 8, "poll"),
        ("y", "a", "0-4", 12, None, 3, "log"),
        ("y", "b", "5-9", 14, None, 3, "log"),
    )

    assert {row for row in found if not row[0]} == {
        ("", 0, 4, "a", 1, 10, None, 8, None, "poll"),
        ("", 5, 9, "a", 1, 10, 14, 8, 3, "poll"),
        ("", 5, 9, None, 2, 14, None, 3, None, "log"),
    }


def test_a_view_without_slots_has_no_owner() -> None:
    assert owners(("x", "a", "", 10, 20, None, "log"), ("x", "a", "", 30, None, None, "log")) == set()
