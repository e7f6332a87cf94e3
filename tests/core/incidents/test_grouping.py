"""Steps of many nodes are merged."""

from __future__ import annotations

from cluster_core.incidents.grouping import MANY, grouped
from cluster_core.incidents.incident import Step
from cluster_core.incidents.story import step_text
from cluster_core.kinds import EventKind

MS = 1_000_000
NODES = [f"{number:040x}" for number in range(1, 58)]
FAILED = "f" * 40


def step(
    at_ms: int, kind: EventKind, actor: str, *, subject: str = FAILED, detail: str = "", amount: int | None = None
) -> Step:
    return Step(at_ms * MS, kind, actor, subject, 7, amount, detail, at_ms)


def test_steps_of_a_failover_of_57_nodes_are_merged_to_a_dozen() -> None:
    """57 masters doubt, decide, vote or refuse for reasons of their own, adopt: a line each, between two times."""
    steps = [step(0, EventKind.LAST_SIGN, FAILED)]
    for place, node in enumerate(NODES):
        steps += [
            step(15_500 + 80 * place, EventKind.PFAIL, node, detail="R53" if place % 2 else "R161"),
            step(20_000 + place, EventKind.FAIL_LEARNED, node),
            step(20_900 + place, EventKind.VOTE if place else EventKind.VOTE_REFUSED, node, detail=""),
            step(21_000 + place, EventKind.NO_VOTE, node, detail=f"epoch {place}"),
            step(22_000 + place, EventKind.ADOPTED, node),
        ]
    steps.sort(key=lambda entry: entry.ts_ns)

    merged = grouped(steps)

    assert len(merged) <= 12
    doubt = next(entry for entry in merged if entry.kind == EventKind.PFAIL)
    assert (doubt.actors, doubt.ts_ns // MS, (doubt.until_ns or 0) // MS) == (57, 15_500, 15_500 + 80 * 56)
    refusal = next(entry for entry in merged if entry.kind == EventKind.NO_VOTE)
    assert step_text(refusal, {}).startswith("00000000 does not vote for ffffffff in epoch 7")
    assert step_text(refusal, {}).endswith("; the same for 56 more nodes")


def test_few_nodes_are_listed_one_by_one() -> None:
    steps = [step(place, EventKind.PFAIL, node) for place, node in enumerate(NODES[: MANY - 1])]

    assert grouped(steps) == steps


def test_repeated_lines_of_a_log_are_one_step() -> None:
    """Waits of one replica are joined first, then those of many."""
    waits = [
        step(place, EventKind.ELECTION_STALLED, node, detail="no votes") for place in range(3) for node in NODES[:2]
    ]
    many = [step(place, EventKind.ELECTION_STALLED, node, detail="no votes") for place in range(3) for node in NODES]

    assert [(entry.actor, entry.actors, entry.ts_ns, entry.until_ns) for entry in grouped(waits)] == [
        (NODES[0], 1, 0, 2 * MS),
        (NODES[1], 1, 0, 2 * MS),
    ]
    (group,) = grouped(many)
    assert (group.actors, group.until_ns) == (57, 2 * MS)


def test_slots_of_many_masters_add_up_in_each_of_two_outages() -> None:
    later = [step(200, EventKind.UNSERVED, node, subject="", amount=100) for node in NODES]
    earlier = [entry._replace(ts_ns=place * MS, until_ns=99 * MS) for place, entry in enumerate(later)]
    groups = grouped([*earlier, *later])

    assert [(group.actors, group.amount) for group in groups] == [(57, 5700)] * 2
    (group, unknown) = groups[1], grouped(entry._replace(amount=None) for entry in later)[0]
    assert step_text(unknown, {}).startswith("slots of 00000000 and 56 more nodes are not served")
    assert step_text(group, {}).startswith("5700 slots of 00000000 and 56 more nodes are not served")
