"""Failovers and failures of sentinels with their causes."""

from __future__ import annotations

from cluster_core.incidents.incident import Incident
from cluster_core.incidents.story import name_all
from cluster_core.sentinel_history.evidence import SentinelReplies, SentinelStarted
from cluster_core.sentinel_history.history import fold_history
from cluster_core.sentinel_history.incidents import find_sentinel_incidents, step_text, summary_of
from tests.benches.sentinel_recordings import ME, NAMES, OF_MASTER, OTHER, THIRD, fold, history_of, line, watched

S = 1_000_000_000
REPLICA = "10.0.0.2:6379 10.0.0.2 6379"


def incidents_of(name: str) -> list[tuple[Incident, str, list[str]]]:
    """Every incident of a recording with its sentence and those of its steps."""
    history = history_of(name)
    names = name_all(history.observers, history.addresses)
    incidents = find_sentinel_incidents(history)
    return [
        (incident, summary_of(incident, names), [step_text(step, names) for step in incident.steps])
        for incident in incidents
    ]


def test_a_failover_names_observers_voters_and_the_chosen_replica() -> None:
    """A killed master: all three sentinels doubt it, one is elected by three votes and promotes a replica."""
    incident, summary, steps = incidents_of("redis-7.0")[0]

    kinds = [step.kind for step in incident.steps]
    assert (incident.kind, incident.variant, incident.epoch) == ("failover", "automatic", 1)
    assert summary.startswith(f"{incident.winner} was promoted in place of {incident.subject} by sentinel ")
    assert (
        len({step.actor for step in incident.steps if step.kind == "s-down" and step.subject == incident.subject}) == 3
    )
    assert (incident.votes, incident.refusals) == (3, 0)
    order = ["s-down", "o-down", "election-started", "vote", "won", "chosen", "promotion-ordered", "promoted"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert any(text.endswith(f" chooses {incident.winner}") for text in steps)


def test_the_return_of_the_old_master_belongs_to_its_failover() -> None:
    """It comes back as a master and is made a replica after eight seconds of stable disagreement (S15)."""
    _, _, steps = incidents_of("redis-7.0")[0]

    assert any(" makes " in text and text.endswith(" a replica again") for text in steps)


def test_an_ordered_failover_is_manual_and_has_no_votes() -> None:
    """S12: no election; who holds the new master for one, and when."""
    incident, summary, _ = incidents_of("redis-7.0")[1]

    assert (incident.variant, incident.outage_ms, incident.votes) == ("manual", None, None)
    assert "took over from" in summary
    assert sum(step.kind == "switched" for step in incident.steps) == 3


def test_a_failover_that_waits_for_the_quorum_dates_it() -> None:
    """Quorum three of three, one sentinel away: nothing happens until it is back."""
    incident = incidents_of("redis-7.0-no-quorum")[0][0]

    first, agreed = (next(step for step in incident.steps if step.kind == kind) for kind in ("s-down", "o-down"))
    assert agreed.ts_ns - first.ts_ns > 4_000_000_000
    assert agreed.detail == "3 of 3 needed"


def test_steps_are_in_order_and_have_texts() -> None:
    for name in NAMES:
        assert incidents_of(name)
        for incident, _, texts in incidents_of(name):
            assert [step.ts_ns for step in incident.steps] == sorted(step.ts_ns for step in incident.steps)
            assert all(text and "{" not in text for text in texts)


def test_a_failure_without_a_failover_names_the_obstacle() -> None:
    """One sentinel alone holds the master for down; the other agrees not."""
    [incident] = find_sentinel_incidents(
        fold([*watched(), line(3000, "+sdown", OF_MASTER), line(9000, "-sdown", OF_MASTER)])
    )

    assert (incident.kind, incident.variant, incident.subject) == ("failure", "not agreed", "10.0.0.1:6379")
    assert summary_of(incident, {}).startswith(
        "10.0.0.1:6379 was marked down by 1 sentinel. No failover: fewer sentinels than the quorum marked it down"
    )


def test_replies_alone_show_no_obstacle_to_an_agreed_failure() -> None:
    """They show O_DOWN and no attempt."""
    reply = {"name": "mymaster", "ip": "10.0.0.1", "port": "6379"}
    replies = [
        SentinelReplies(at * S, at * S, ({**reply, "flags": flags},))
        for at, flags in ((1, "master"), (3, "s_down,o_down,master"), (9, "master"))
    ]

    [incident] = find_sentinel_incidents(fold(replies))

    assert incident.variant == "agreed"
    assert summary_of(incident, {}) == "10.0.0.1:6379 was marked down by 1 sentinel; back after 6.00 s"


def test_failovers_of_two_masters_at_once_have_their_own_epochs_and_votes() -> None:
    """A vote names its epoch only; a follower that heard of both attempts knows the later epoch."""
    other = "master other 10.0.0.5 6379"
    down = [line(3000 + at, kind, text) for at, text in enumerate((OF_MASTER, other)) for kind in ("+sdown", "+odown")]
    leader = [
        *watched(), line(0, "+monitor", f"{other} quorum 2"), *down,
        line(3010, "+new-epoch", "3"), line(3010, "+try-failover", OF_MASTER), line(3020, "+vote-for-leader", f"{ME} 3"),
        line(3030, "+new-epoch", "4"), line(3030, "+try-failover", other), line(3040, "+vote-for-leader", f"{ME} 4"),
        line(3100, "+elected-leader", OF_MASTER), line(3200, "+promoted-slave", f"slave {REPLICA} @ mymaster 10.0.0.1 6379"),
        line(3300, "+failover-end", OF_MASTER), line(3300, "+switch-master", "mymaster 10.0.0.1 6379 10.0.0.2 6379"),
    ]  # fmt: skip
    follower = [*watched(), *down, line(3050, "+new-epoch", "4"), line(3050, "+vote-for-leader", f"{ME} 3"), leader[-1]]

    incidents = find_sentinel_incidents(fold_history({ME: leader, OTHER: follower}))

    assert [(incident.epoch, incident.votes) for incident in incidents if incident.kind == "failover"] == [(3, 2)]


def test_a_vote_for_another_candidate_is_a_refusal() -> None:
    """S9: the second request gets the first vote; no leader is elected, the attempt is given up (S12)."""
    items = [
        *watched(),
        line(3000, "+sdown", OF_MASTER),
        line(3010, "+odown", f"{OF_MASTER} #quorum 2/2"),
        line(3010, "+new-epoch", "3"),
        line(3010, "+try-failover", OF_MASTER),
        line(3010, "+vote-for-leader", f"{ME} 3"),
        line(3100, "voted", f"{OTHER} {THIRD} 3"),
        line(9000, "-failover-abort-not-elected", OF_MASTER),
        line(9500, "-sdown", OF_MASTER),
        line(9500, "-odown", OF_MASTER),
    ]

    [incident] = find_sentinel_incidents(fold(items))

    texts = [step_text(step, {}) for step in incident.steps]
    assert f"{OTHER[:8]} does not vote for {ME[:8]} in epoch 3: it has voted for {THIRD[:8]} in epoch 3" in texts
    assert texts[-1] == "no failover: no sentinel was elected"


def test_an_order_is_no_failure_of_the_master() -> None:
    """Valkey 9 holds it for down from the order to the next timer: and an order that is given up changes nothing."""
    items = [
        SentinelStarted(0, (9, 1)),
        *watched(),
        line(3000, "+new-epoch", "1"),
        line(3000, "+try-failover", OF_MASTER),
        line(3020, "-sdown", OF_MASTER),
        line(3500, "-failover-abort-no-good-slave", OF_MASTER),
    ]

    assert find_sentinel_incidents(fold(items)) == []


def test_a_timer_that_stood_still_is_an_incident_of_its_sentinel() -> None:
    """S16: TILT."""
    items = [*watched(), line(3000, "+tilt", "#tilt mode entered"), line(33000, "-tilt", "#tilt mode exited")]

    [incident] = find_sentinel_incidents(fold(items))

    assert (incident.kind, incident.subject, incident.ended_ns) == ("tilt", ME, 33_000_000_000)
