"""Which zone a plan leaves so many masters in that the others alone elect nobody."""

from __future__ import annotations

from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.planner import plan
from slotscope.transforms.watched_findings import find_zone_majority


def zoned(zones: str) -> Problem:
    """One master a letter, its zone, each with ten slots of one byte."""
    nodes = [Master(f"n{k}", zone=zone.strip()) for k, zone in enumerate(zones)]
    return Problem({"serialized_bytes": [1] * 10 * len(nodes)}, [node.id for node in nodes for _ in range(10)], nodes)


def test_a_zone_that_holds_a_majority_of_masters_is_named_with_its_share_of_the_load() -> None:
    problem = zoned("aab")

    (note,) = find_zone_majority(problem, plan(problem))

    assert note.subject == "a"
    assert "zone a has 2 of the 3 masters" in note.text
    assert "66.67 % of serialized bytes" in note.text


def test_half_of_the_masters_are_no_majority_either() -> None:
    problem = zoned("aabb")

    assert [note.subject for note in find_zone_majority(problem, plan(problem))] == ["a", "b"]


def test_three_even_zones_one_zone_alone_and_zones_that_are_not_known_are_nothing_to_tell() -> None:
    for zones in ("abc", "aabbc", "aaa", "ab "):
        problem = zoned(zones)

        assert find_zone_majority(problem, plan(problem)) == []
