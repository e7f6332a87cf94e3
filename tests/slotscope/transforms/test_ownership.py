"""Who owned which slots, by intervals of belief: small frames in, small frames out."""

from __future__ import annotations

from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.transforms.ownership import DERIVED, derive_task
from tests.builders.partial_rows import assert_rows, frame

VIEWS = (
    "observer string, node_id string, slots string, valid_from_ns bigint, valid_to_ns bigint, valid_from_min_ns bigint,"
    " evidence string"
)
OWNERS = (
    "observer string, first_slot int, last_slot int, owner string, owners int, valid_from_ns bigint, valid_to_ns bigint,"
    " valid_from_min_ns bigint, valid_to_min_ns bigint, evidence string"
)


def derived(spark, *beliefs):
    """The owners by views: observer, node, slots, from, to, after which time, evidence."""
    rows = [(*view, *bound) for *view, bound in beliefs]
    return frame(spark, VIEWS, *rows).mapInArrow(derive_task, spark_schema(DERIVED)).cache()


def test_the_times_at_which_slots_change_hands_have_bounds_and_evidence(spark) -> None:
    """Two polls show that slots 5 to 9 went from a to b: at 20 at the latest, after 15."""
    found = derived(
        spark,
        ("x", "a", "0-9", 10, 20, (None, "capture")),
        ("x", "a", "0-4", 20, None, (15, "poll")),
        ("x", "b", "5-9", 20, None, (15, "poll")),
    )

    by_observer = [
        (0, 4, "a", 1, 10, None, None, None, "capture"),
        (5, 9, "a", 1, 10, 20, None, 15, "capture"),
        (5, 9, "b", 1, 20, None, 15, None, "poll"),
    ]
    assert_rows(found, OWNERS, *((who, *row) for who in ("x", "") for row in by_observer))


def test_the_agreed_owner_is_the_one_that_an_observer_names_before_others_name_any(spark) -> None:
    """If observers name two owners, none is agreed, and the row has their number."""
    found = derived(
        spark,
        ("x", "a", "0-9", 10, None, (8, "poll")),
        ("y", "a", "0-4", 12, None, (3, "log")),
        ("y", "b", "5-9", 14, None, (3, "log")),
    )

    assert_rows(
        found.where("observer = ''"),
        OWNERS,
        ("", 0, 4, "a", 1, 10, None, 8, None, "poll"),
        ("", 5, 9, "a", 1, 10, 14, 8, 3, "poll"),
        ("", 5, 9, None, 2, 14, None, 3, None, "log"),
    )


def test_a_view_without_slots_has_no_owner(spark) -> None:
    assert_rows(derived(spark, ("x", "a", "", 10, 20, (None, "log")), ("x", "a", "", 30, None, (None, "log"))), OWNERS)
