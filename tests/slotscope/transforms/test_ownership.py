"""Views of nodes to intervals of slot owners: small frames in, small frames out."""

from __future__ import annotations

import pyarrow as pa

from slotscope.transforms.ownership import OWNERS, VIEW_COLUMNS, find_owners
from tests.builders.partial_rows import assert_table

INTERVALS = (
    "observer string, first_slot int, last_slot int, owner string, owners int, valid_from_ns bigint, valid_to_ns bigint,"
    " valid_from_min_ns bigint, valid_to_min_ns bigint, evidence string"
)


def assert_owners(views, *rows) -> None:
    """Views are (observer, node, slots, from, to, earliest from, evidence)."""
    owners = find_owners(pa.Table.from_pylist([dict(zip(VIEW_COLUMNS, view, strict=True)) for view in views]))

    assert owners.schema == OWNERS
    assert_table(owners, INTERVALS, *rows)


def test_the_times_at_which_slots_change_hands_have_bounds_and_evidence() -> None:
    """Two polls show that slots 5 to 9 went from a to b: at 20 at the latest, after 15."""
    views = [
        ("x", "a", "0-9", 10, 20, None, "capture"),
        ("x", "a", "0-4", 20, None, 15, "poll"),
        ("x", "b", "5-9", 20, None, 15, "poll"),
    ]
    intervals = [
        (0, 4, "a", 1, 10, None, None, None, "capture"),
        (5, 9, "a", 1, 10, 20, None, 15, "capture"),
        (5, 9, "b", 1, 20, None, 15, None, "poll"),
    ]

    assert_owners(views, *((observer, *row) for observer in ("x", "") for row in intervals))


def test_observers_that_name_two_owners_give_no_owner() -> None:
    """The first owner that anybody names is agreed until another observer contradicts; then the row has their number."""
    views = [
        ("x", "a", "0-9", 10, None, 8, "poll"),
        ("y", "a", "0-4", 12, None, 3, "log"),
        ("y", "b", "5-9", 14, None, 3, "log"),
    ]

    assert_owners(
        views,
        ("x", 0, 9, "a", 1, 10, None, 8, None, "poll"),
        ("y", 0, 4, "a", 1, 12, None, 3, None, "log"),
        ("y", 5, 9, "b", 1, 14, None, 3, None, "log"),
        ("", 0, 4, "a", 1, 10, None, 8, None, "poll"),
        ("", 5, 9, "a", 1, 10, 14, 8, 3, "poll"),
        ("", 5, 9, None, 2, 14, None, 3, None, "log"),
    )  # fmt: skip


def test_views_without_slots_and_no_views_have_no_owners() -> None:
    assert_owners([("x", "a", "", 10, 20, None, "log"), ("x", "a", "", 30, None, None, "log")])
    assert find_owners(pa.table({name: pa.array([], pa.null()) for name in VIEW_COLUMNS})).schema == OWNERS


def test_a_node_that_is_forgotten_owns_its_slots_until_then() -> None:
    views = [("x", "a", "7", 10, 20, None, "log"), ("x", "a", "7", 30, None, 25, "log")]
    intervals = [(7, 7, "a", 1, 10, 20, None, None, "log"), (7, 7, "a", 1, 30, None, 25, None, "log")]

    assert_owners(views, *((observer, *row) for observer in ("x", "") for row in intervals))
