"""Who owned which slots, by intervals of belief."""

from __future__ import annotations

from typing import Any

from slotscope.transforms.ownership import Belief, owner_rows


def belief(slots: str, from_ns: int, to_ns: int | None, min_ns: int | None, evidence: str, node: str = "a") -> Belief:
    return Belief("a", node, "127.0.0.1", 7000, "", slots, from_ns, to_ns, "", None, min_ns, evidence)


def bounds(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("first_slot", "owner", "valid_from_min_ns", "valid_from_ns", "valid_to_min_ns", "valid_to_ns", "evidence")
    return tuple(row[name] for name in names)


def test_the_times_at_which_slots_change_hands_have_bounds_and_evidence() -> None:
    """Two polls show that slots 5 to 9 went from a to b: at 20 at the latest, after 15."""
    beliefs = [
        belief("0-9", 10, 20, None, "capture"),
        belief("0-4", 20, None, 15, "poll"),
        belief("5-9", 20, None, 15, "poll", node="b"),
    ]

    found = [bounds(row) for row in owner_rows(beliefs) if row["observer"] == "a"]

    assert sorted(found) == [
        (0, "a", None, 10, None, None, "capture"),
        (5, "a", None, 10, 15, 20, "capture"),
        (5, "b", 15, 20, None, None, "poll"),
    ]


def test_the_agreed_owner_is_the_one_that_an_observer_names_before_others_name_any() -> None:
    beliefs = [
        belief("0-9", 10, None, 8, "poll"),
        belief("0-9", 12, None, 3, "log")._replace(observer="b"),
    ]

    agreed = [bounds(row) for row in owner_rows(beliefs) if not row["observer"]]

    assert agreed == [(0, "a", 8, 10, None, None, "poll")]
