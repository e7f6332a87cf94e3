"""Failovers and failures of sentinels told with their causes."""

from __future__ import annotations

import pytest

from cluster_core.incidents.incident import Incident
from cluster_core.incidents.story import name_all
from cluster_core.sentinel_history.evidence import Asked, Listened, Started, Told
from cluster_core.sentinel_history.incidents import find_sentinel_incidents, step_text, summary_of
from tests.benches.sentinel_recordings import ME, MS_NS, THIRD, fold, history_of, watched


def told(name: str) -> list[tuple[Incident, str, list[str]]]:
    """Every incident of a recording with its sentence and those of its steps."""
    history = history_of(name, logs=True)
    names = name_all(history.observers, history.addresses)
    found = find_sentinel_incidents(history)
    return [(one, summary_of(one, names), [step_text(step, names) for step in one.steps]) for one in found]


@pytest.mark.long
def test_a_failover_is_told_with_who_saw_agreed_voted_and_was_chosen() -> None:
    """A killed master: all three sentinels doubt it, one is elected by three votes, a replica is promoted for a reason."""
    one, summary, steps = told("redis-7.0")[0]

    kinds = [step.kind for step in one.steps]
    assert (one.kind, one.variant, one.epoch) == ("failover", "automatic", 1)
    assert summary.startswith(f"{one.winner} was promoted in place of {one.subject} by sentinel ")
    assert kinds[0] == "last-sign"
    doubters = {step.actor for step in one.steps if step.kind == "s-down" and step.subject == one.subject}
    assert len(doubters) == 3
    assert (one.votes, one.refusals) == (3, 0)
    order = [
        "last-sign",
        "s-down",
        "o-down",
        "election-started",
        "vote",
        "won",
        "chosen",
        "promotion-ordered",
        "promoted",
    ]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    chosen = next(text for text in steps if " chooses " in text)
    assert "its run id comes first" in chosen or "it has the most data" in chosen
    assert "; not " in chosen


def test_each_phase_has_its_time() -> None:
    """down-after is two seconds there: the doubt comes then at the earliest, the rest within the outage."""
    one = told("redis-7.0")[0][0]

    assert one.silence_to_pfail_ms is not None
    assert one.silence_to_fail_ms is not None
    assert one.outage_ms is not None
    assert 2000 <= one.silence_to_pfail_ms <= one.silence_to_fail_ms <= one.outage_ms
    assert one.fail_to_election_ms is not None
    assert one.election_ms is not None
    assert one.adoption_ms is not None
    assert one.ended_ns is not None
    assert one.ended_ns - one.started_ns >= one.outage_ms * 1_000_000


def test_the_return_of_the_old_master_belongs_to_its_failover() -> None:
    """It comes back as a master and is made a replica after eight seconds of stable disagreement (S15)."""
    _, _, steps = told("redis-7.0")[0]

    assert any(" makes " in text and text.endswith(" a replica again") for text in steps)


def test_an_ordered_failover_is_manual_and_has_no_outage() -> None:
    """S12: no election; who holds the new master for one, and when."""
    one, summary, _ = told("redis-7.0")[1]

    assert (one.variant, one.outage_ms, one.votes) == ("manual", None, None)
    assert "took over by order" in summary
    assert sum(step.kind == "switched" for step in one.steps) == 3


def test_a_failover_that_waits_for_the_quorum_says_when_it_was_there() -> None:
    """Quorum three of three, one sentinel away: nothing happens until it is back."""
    one = told("redis-7.0-no-quorum")[0][0]

    assert one.silence_to_pfail_ms is not None
    assert one.silence_to_fail_ms is not None
    assert one.silence_to_fail_ms - one.silence_to_pfail_ms > 4000
    assert next(step.detail for step in one.steps if step.kind == "o-down") == "3 of 3 needed"


@pytest.mark.long
def test_incidents_of_sentinels_have_the_shape_of_a_clusters() -> None:
    """One value, one table: kinds that the report knows, steps in order of time, names that stay."""
    for name in ("redis-7.0", "valkey-9.1", "redis-7.0-no-quorum"):
        incidents = told(name)
        assert incidents
        for one, _, texts in incidents:
            assert isinstance(one, Incident)
            assert [step.ts_ns for step in one.steps] == sorted(step.ts_ns for step in one.steps)
            assert all(text and "{" not in text for text in texts)


def test_a_failure_without_a_failover_says_what_stood_in_the_way() -> None:
    """One sentinel alone holds the master for down; the other agrees not."""
    items = [*watched(2000)]
    items += [Told(3000 * MS_NS, "+sdown", "master mymaster 10.0.0.1 6379")]
    items += [Told(9000 * MS_NS, "-sdown", "master mymaster 10.0.0.1 6379")]

    [one] = find_sentinel_incidents(fold([Listened(0, 99, ("*",), on=True), *items]))

    assert (one.kind, one.variant, one.subject) == ("failure", "not agreed", "10.0.0.1:6379")
    assert summary_of(one, {}).startswith(
        "10.0.0.1:6379 was held for down by 1 sentinel, and no failover came of it: too few sentinels agreed"
    )


def test_a_vote_that_another_one_has_is_told() -> None:
    """S9: who asks second gets the first vote; nobody is elected, the attempt is given up (S12)."""
    title = "master mymaster 10.0.0.1 6379"
    request = (b"SENTINEL", b"is-master-down-by-addr", b"10.0.0.1", b"6379", b"3", THIRD.encode())
    items = [
        *watched(2000),
        *(
            Told(at * MS_NS, channel, text)
            for at, channel, text in (
                (3000, "+sdown", title),
                (3010, "+odown", f"{title} #quorum 2/2"),
                (3010, "+new-epoch", "3"),
                (3010, "+try-failover", title),
                (3010, "+vote-for-leader", f"{ME} 3"),
                (9000, "-failover-abort-not-elected", title),
                (9500, "-sdown", title),
                (9500, "-odown", title),
            )
        ),
        Asked(3100 * MS_NS, request, "array", (b"1", ME.encode(), b"3")),
    ]

    [one] = find_sentinel_incidents(fold([Listened(0, 99, ("*",), on=True), *items]))

    texts = [step_text(step, {}) for step in one.steps]
    assert f"{ME[:8]} does not vote for {THIRD[:8]} in epoch 3: it has voted for {ME[:8]} in epoch 3" in texts
    assert texts[-1] == "nobody took over: no sentinel was elected"


def test_an_order_is_no_failure_of_the_master() -> None:
    """Valkey 9 holds it for down from the order to the next timer: that is a failover, and nothing else."""
    title = "master mymaster 10.0.0.1 6379"
    items = [
        Started(0, (9, 1)),
        *watched(2000),
        Told(3000 * MS_NS, "+new-epoch", "1"),
        Told(3000 * MS_NS, "+try-failover", title),
        Told(3020 * MS_NS, "-sdown", title),
        Told(3500 * MS_NS, "-failover-abort-no-good-slave", title),
    ]

    [one] = find_sentinel_incidents(fold([Listened(0, 99, ("*",), on=True), *items]))

    assert (one.kind, one.variant) == ("failover", "given up")
    assert summary_of(one, {}).endswith("was ordered and given up: no replica could be promoted")
