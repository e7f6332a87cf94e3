"""What the loss of a zone would take after a plan: slots with all their copies, too many masters, the majority that elects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster_core.kinds import Severity
from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.planner import make_plan
from cluster_core.topology.nodes_text import read_nodes
from schemas.caveats import Caveat, Code
from slotscope.transforms.plan_warnings import find_zones, replica_zones

ALL_ZONES = "abcd"


def zoned(zones: str, owners: str = "") -> Problem:
    """One master a letter, its zone, each with ten slots of one byte, or with those that *owners* (numbers) say."""
    nodes = [Master(f"n{k}", zone=zone.strip()) for k, zone in enumerate(zones)]
    held = [f"n{k}" for k in owners] or [node.id for node in nodes for _ in range(10)]
    return Problem({"serialized_bytes": [1] * len(held)}, held, nodes)


def found(
    problem: Problem,
    code: Code,
    replicas: Mapping[str, Sequence[str]] | None = None,
) -> list[Caveat]:
    """Caveats of one kind; without *replicas* every master has one in each zone."""
    everywhere = {master.id: ALL_ZONES for master in problem.masters}
    told = find_zones(
        problem, make_plan(problem), {"n0": "10.0.0.1:7000"}, everywhere if replicas is None else replicas
    )
    return [one for one in told if one.code == code]


def test_a_zone_that_holds_a_majority_of_masters_is_named_with_its_share_of_the_load() -> None:
    (note,) = found(zoned("aab"), Code.ZONE_MAJORITY)

    assert note.subject == "a"
    assert "zone a has 2 of the 3 masters" in note.text
    assert "66.67 % of serialized bytes" in note.text


def test_half_of_the_masters_are_no_majority_either() -> None:
    assert [note.subject for note in found(zoned("aabb"), Code.ZONE_MAJORITY)] == ["a", "b"]


def test_three_even_zones_one_zone_alone_and_zones_that_are_not_known_are_nothing_to_tell() -> None:
    for zones in ("abc", "aabbc", "aaa", "ab "):
        assert found(zoned(zones), Code.ZONE_MAJORITY) == []


def test_masters_whose_replicas_all_share_their_zone_are_named_with_what_would_be_lost() -> None:
    """The first has replicas beside it alone, the second none at all, the third one elsewhere; nothing moves."""
    first, second = found(zoned("abc"), Code.ZONE_COPIES, {"n0": ["a", "a"], "n2": ["c", "a"]})

    assert (first.severity, first.subject) == (Severity.NOTE, "a")
    assert first.text == (
        "without zone a 10 slots have no copy, 33.33 % of serialized bytes: 10.0.0.1:7000 has no replica in another zone"
    )
    assert (second.subject, "n1 has no replica in another zone" in second.text) == ("b", True)


def test_slots_that_move_to_such_a_master_are_a_warning_with_what_to_do() -> None:
    (told,) = found(zoned("abc", "1" * 20 + "2" * 10), Code.ZONE_COPIES, {"n0": ["a"], "n1": ["a"], "n2": ["a"]})

    assert told.severity == Severity.WARNING
    assert "; slots move to 10.0.0.1:7000: give it one first, or exclude = true in --placement" in told.text


def test_where_a_replica_s_zone_is_not_known_nothing_is_said_of_its_master() -> None:
    assert found(zoned("abc"), Code.ZONE_COPIES, {"n0": ["a", ""], "n1": ["c"], "n2": ["a"]}) == []


def test_zones_of_replicas_are_those_of_cluster_nodes_without_the_failed() -> None:
    text = (
        f"{'a' * 40} 10.0.0.1:7000@17000,,availability-zone=z1 myself,master - 0 0 1 connected 0-16383\n"
        f"{'b' * 40} 10.0.0.2:7000@17000,,availability-zone=z2 slave {'a' * 40} 0 0 1 connected\n"
        f"{'c' * 40} 10.0.0.3:7000@17000,,availability-zone=z3 slave,fail {'a' * 40} 0 0 1 connected\n"
        f"{'d' * 40} 10.0.0.4:7000@17000 slave {'a' * 40} 0 0 1 connected\n"
    )

    assert replica_zones(read_nodes(text.encode())) == {"a" * 40: ["z2", ""]}
