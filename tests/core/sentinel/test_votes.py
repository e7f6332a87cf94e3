"""Votes: one per epoch, the candidate, and the needs of a leader (S9, S11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.sentinel.failover import find_leader, vote, votes_needed
from tests.benches.sentinel_bench import MY_ID, Bench

ONE, OTHER = "1" * 40, "2" * 40


def ask(bench: Bench, epoch: int, candidate: str) -> list:
    return bench.say("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "10.0.0.1", "6379", str(epoch), candidate)


def test_the_first_request_gets_the_vote_of_an_epoch():
    """sentinelVoteLeader: later ones hear for whom we have voted."""
    bench = Bench()

    assert ask(bench, 3, ONE) == [0, ONE.encode(), 3]
    assert ask(bench, 3, OTHER) == [0, ONE.encode(), 3]
    assert ask(bench, 2, OTHER) == [0, ONE.encode(), 3]
    assert ask(bench, 4, OTHER) == [0, OTHER.encode(), 4]
    assert [notice for notice in bench.notices if notice[0] != "+monitor"] == [
        ("+new-epoch", "3"),
        ("+vote-for-leader", f"{ONE} 3"),
        ("+new-epoch", "4"),
        ("+vote-for-leader", f"{OTHER} 4"),
    ]


def test_a_voter_for_another_waits_before_its_own_candidacy():
    """S9: failover_start_time."""
    bench = Bench()
    ask(bench, 1, ONE)

    assert bench.now_ms <= bench.master.failover_start_ms < bench.now_ms + 1000


def test_a_question_without_a_candidate_is_no_vote():
    """S8: ``*``."""
    bench = Bench()

    assert ask(bench, 9, "*") == [0, b"*", 0]
    assert bench.sentinel.state.current_epoch == 0


@pytest.mark.parametrize(("voters", "quorum", "needed"), [(1, 1, 1), (3, 1, 2), (4, 2, 3), (5, 4, 4), (17, 9, 9)])
def test_a_leader_needs_a_majority_and_the_quorum(voters, quorum, needed):
    """S11."""
    assert votes_needed(voters, quorum) == needed


def lead(bench: Bench, votes: list[tuple[str, int]]) -> str:
    for number, (leader, epoch) in enumerate(votes, 1):
        bench.meet(number)
        sentinel = bench.master.sentinels[f"{number:040x}"]
        sentinel.leader, sentinel.leader_epoch = leader, epoch
    bench.sentinel.state.current_epoch = 5
    return find_leader(bench.sentinel.state, bench.master, 5)


def test_the_own_vote_follows_the_majority():
    """sentinelGetLeader: we have not voted yet."""
    assert lead(Bench(), [(ONE, 5), (ONE, 5), (OTHER, 5)]) == ONE


def test_the_own_vote_is_for_itself_without_other_votes():
    """sentinelGetLeader."""
    bench = Bench()

    assert lead(bench, [("", 0), ("", 0)]) == ""
    assert bench.master.leader == MY_ID


def test_votes_of_other_epochs_do_not_count():
    """S11: leader_epoch = current_epoch."""
    assert lead(Bench(), [(ONE, 4), (ONE, 6)]) == ""


@given(st.lists(st.sampled_from([ONE, OTHER, MY_ID, ""]), max_size=8), st.integers(1, 9))
def test_a_leader_always_has_enough_votes(votes, quorum):
    """S11, S17: whatever the others say."""
    bench = Bench()
    bench.master.quorum = quorum
    leader = lead(bench, [(name, 5) for name in votes])

    enough = votes_needed(len(votes) + 1, quorum)
    assert not leader or votes.count(leader) + (bench.master.leader == leader) >= enough


def test_no_vote_is_cast_in_an_older_epoch():
    """sentinelVoteLeader: current_epoch <= req_epoch."""
    bench = Bench()
    bench.sentinel.state.current_epoch = 7

    assert vote(bench.sentinel.state, bench.master, 6, ONE) == ("", 0)
