"""A master dies: silence, agreement, an election, a winner; and all the reasons why there is none (R53, R54, R83 to R96)."""

from __future__ import annotations

import pytest

from cluster_core.formats.server_log import event_of
from cluster_core.gossip.flags import FAIL, MASTER, MY_PRIMARY_FAIL
from cluster_core.gossip.profile import PROFILES, REDIS_7_0, VALKEY_8_0, VALKEY_8_1, VALKEY_9_1, Profile
from cluster_core.node.events import ElectionStep, PromoteMyself, StartReplication, VoteCast
from cluster_core.wire.bus import MessageFlag, MessageType
from tests.benches.node_cluster import Cluster, failed

T = 2000
every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


def formed(profile: Profile, masters: int = 3, replicas: int = 3, **options: object) -> Cluster:
    """A cluster at rest that records its messages from now on."""
    cluster = Cluster(masters + replicas, profile=profile, node_timeout_ms=T, **options)
    cluster.form(masters, replicas)
    cluster.keep_messages = True
    return cluster


def steps(cluster: Cluster, index: int) -> list[str]:
    """The steps of a host's election."""
    return [step.step for step in cluster.hosts[index].said(ElectionStep)]


@every_profile
def test_a_dead_master_is_replaced_by_its_replica(profile: Profile) -> None:
    """R34, R54, R86, R93: detection takes one to one and a half timeouts for each node, then a report, then an election."""
    cluster = formed(profile)
    died_ms = cluster.now_ms
    cluster.crash(0)

    assert cluster.run_until(lambda: any(failed(h, cluster.hosts[0]) for h in cluster.hosts[1:]), 3 * T)
    failed_ms = cluster.now_ms
    assert T <= failed_ms - died_ms <= 2 * T
    assert cluster.run_until(lambda: bool(cluster.hosts[3].node.view.myself.flags & MASTER), 3000)
    assert cluster.now_ms - failed_ms <= (100 if profile is VALKEY_9_1 else 1200)
    assert cluster.run_until(cluster.agree, 1000)
    winner = cluster.hosts[3]
    assert winner.node.view.myself.slots.bit_count() == 5461
    assert winner.said(PromoteMyself) == [PromoteMyself()]
    assert "won" in steps(cluster, 3)


@every_profile
def test_the_old_master_comes_back_as_a_replica_of_the_new_one(profile: Profile) -> None:
    """R70, R73, R76, R78: it hears of its removal from those who know."""
    cluster = formed(profile)
    cluster.crash(0)
    cluster.run(4 * T)
    cluster.restart(0)

    assert cluster.run_until(lambda: cluster.hosts[0].node.view.myself.replicaof == cluster.hosts[3].id, 3 * T)
    assert cluster.run_until(lambda: cluster.agree() and not failed(cluster.hosts[1], cluster.hosts[0]), 3 * T)
    assert cluster.hosts[0].said(StartReplication)[-1].node == cluster.hosts[3].id


@every_profile
def test_what_is_logged_can_be_read_back(profile: Profile) -> None:
    """R160: the words are those of the servers."""
    cluster = formed(profile)
    cluster.crash(0)
    cluster.run(4 * T)
    kinds = {event.kind for host in cluster.hosts for line in host.logged("") if (event := event_of(line))}

    assert {
        "pfail",
        "fail-decided",
        "fail-learned",
        "election-scheduled",
        "election-started",
        "vote",
        "election-won",
        "config-epoch",
        "state-fail",
        "state-ok",
        "report-added",
    } <= kinds
    assert not [
        line
        for host in cluster.hosts
        for line in host.logged("")
        if event_of(line) is None and not line.startswith(("Handshake", "Node 0", "IP "))
    ]


def test_each_master_votes_once_in_an_epoch_and_the_winner_has_a_majority() -> None:
    """R90, R92, R93."""
    cluster = formed(VALKEY_8_1)
    cluster.crash(0)
    cluster.run(4 * T)
    votes = [(host.index, vote) for host in cluster.hosts for vote in host.said(VoteCast) if not vote.refusal]

    assert [index for index, _ in votes] == [1, 2]
    assert {vote.candidate for _, vote in votes} == {cluster.hosts[3].id}
    assert {index for index in range(3, 6) if "won" in steps(cluster, index)} == {3}


def test_the_replica_with_more_data_goes_first() -> None:
    """R87: the other one waits a second longer and then has a new master."""
    cluster = formed(REDIS_7_0, masters=3, replicas=6)
    cluster.write(0)
    cluster.run(3000)
    cluster.cut((0, 3))
    for _ in range(3):
        cluster.write(0)
    cluster.run(1200)
    cluster.heal()
    cluster.crash(0)
    cluster.run(4 * T)

    assert steps(cluster, 6).count("won") == 1
    assert "won" not in steps(cluster, 3)
    assert cluster.hosts[3].node.view.myself.replicaof == cluster.hosts[6].id


def test_data_that_is_too_old_makes_no_master() -> None:
    """R85: the replica says why, and its shard stays down."""
    cluster = formed(REDIS_7_0, validity_factor=1, repl_ping_period_s=1)
    cluster.hosts[3].node.state.repl_up = False
    cluster.hosts[3].node.state.repl_down_ms = cluster.now_ms - 60_000
    cluster.detach(3)
    cluster.crash(0)
    cluster.run(6 * T)

    assert cluster.hosts[3].logged("Currently unable to failover: Disconnected from master for longer than allowed.")
    assert "won" not in steps(cluster, 3)
    assert not cluster.agree()


@pytest.mark.long
@pytest.mark.parametrize(("profile", "least", "most"), [(VALKEY_8_0, 5, 7), (VALKEY_8_1, 1, 1)])
def test_valkey_8_1_says_ten_times_less_often_that_data_is_too_old(profile: Profile, least: int, most: int) -> None:
    """R160, clusterLogCantFailover: in the first minute."""
    cluster = formed(profile, validity_factor=1, repl_ping_period_s=1)
    cluster.hosts[3].node.state.repl_up = False
    cluster.hosts[3].node.state.repl_down_ms = cluster.now_ms - 60_000
    cluster.detach(3)
    cluster.crash(0)
    cluster.run(T + 60_000)

    told = cluster.hosts[3].logged("Currently unable to failover: Disconnected from")
    assert least <= len(told) <= most


def test_a_replica_that_must_not_stand_does_not() -> None:
    """R84: cluster-replica-no-failover."""
    cluster = formed(VALKEY_9_1, no_failover=True)
    cluster.crash(0)
    cluster.run(6 * T)

    assert steps(cluster, 3) == []


def test_without_a_majority_nobody_wins_and_the_next_try_takes_four_timeouts() -> None:
    """R83, R89, R96: two of three masters are gone; the request finds one voter, and expires."""
    cluster = formed(REDIS_7_0, masters=3, replicas=3)
    cluster.crash(1)
    cluster.crash(4)
    cluster.crash(2)
    cluster.crash(5)
    cluster.crash(0)
    cluster.run(14 * T)

    assert "won" not in steps(cluster, 3)
    assert not cluster.hosts[3].node.view.ok


def test_a_lone_replica_of_valkey_9_1_asks_at_once_and_with_force() -> None:
    """R134: all of its siblings agree, as it has none."""
    cluster = formed(VALKEY_9_1)
    cluster.crash(0)
    cluster.run(4 * T)
    requests = [m for _, sender, _, m in cluster.messages if m.type == MessageType.AUTH_REQUEST and sender == 3]

    assert cluster.hosts[3].logged("Start of election delayed for 0 milliseconds")
    assert requests
    assert all(m.header.mflags[0] & MessageFlag.FORCEACK for m in requests)
    assert all(m.header.flags & MY_PRIMARY_FAIL for m in requests)


def test_siblings_of_valkey_9_1_wait_for_one_another() -> None:
    """R134: the best replica starts when the other has said that it sees the failure, too."""
    cluster = formed(VALKEY_9_1, masters=3, replicas=6)
    died_ms = cluster.now_ms
    cluster.crash(0)
    assert cluster.run_until(lambda: any("won" in steps(cluster, i) for i in (3, 6)), 4 * T)
    winner = next(i for i in (3, 6) if "won" in steps(cluster, i))
    failed_ms = min(
        at for h in cluster.hosts for at, e in h.effects if at > died_ms and getattr(e, "what", "") == "fail"
    )
    won_ms = next(at for at, e in cluster.hosts[winner].effects if isinstance(e, ElectionStep) and e.step == "won")

    assert won_ms - failed_ms <= 200
    assert cluster.hosts[winner].logged("This is the best ranked replica")


def test_the_doubt_of_valkey_9_1_outlives_the_promotion() -> None:
    """R135: a defect of that server, which this profile has on purpose."""
    cluster = formed(VALKEY_9_1)
    cluster.crash(0)
    cluster.run(4 * T)

    assert cluster.hosts[3].node.view.myself.flags & (MASTER | MY_PRIMARY_FAIL) == MASTER | MY_PRIMARY_FAIL


def test_masters_take_turns_when_several_fail_at_once() -> None:
    """R89b: replicas of the greater shard wait for those of the smaller."""
    cluster = formed(VALKEY_8_1, masters=5, replicas=5)
    cluster.crash(0)
    cluster.crash(1)

    assert cluster.run_until(lambda: "won" in steps(cluster, 5) and "won" in steps(cluster, 6), 6 * T)
    ranks = {cluster.hosts[i].node.state.election.failed_rank for i in (5, 6)}
    assert ranks <= {0, 1}
    won = [int(s.epoch) for i in (5, 6) for s in cluster.hosts[i].said(ElectionStep) if s.step == "won"]
    assert len(set(won)) == 2


@every_profile
def test_a_master_in_the_minority_stops_serving(profile: Profile) -> None:
    """R108, R109, R111: after about one timeout, and it waits before it serves again."""
    cluster = formed(profile)
    cut_ms = cluster.now_ms
    cluster.cut(*((0, other) for other in range(1, 6)))

    assert cluster.run_until(lambda: not cluster.hosts[0].node.view.ok, 2 * T)
    assert cluster.now_ms - cut_ms >= T
    assert str(cluster.command(0, "SET", "a{06S}", "1").text) == "CLUSTERDOWN The cluster is down"
    cluster.run(2 * T)
    cluster.heal()
    assert cluster.run_until(cluster.agree, 6 * T)
    assert cluster.hosts[0].node.view.myself.replicaof == cluster.hosts[3].id


def test_a_failed_master_that_nobody_replaced_serves_again() -> None:
    """R55b: its FAIL is cleared two timeouts after it was set."""
    cluster = formed(REDIS_7_0, masters=3, replicas=0)
    cluster.pause(0)
    assert cluster.run_until(lambda: failed(cluster.hosts[1], cluster.hosts[0]), 4 * T)
    failed_ms = cluster.now_ms
    cluster.resume(0)

    assert cluster.run_until(lambda: not any(failed(h, cluster.hosts[0]) for h in cluster.hosts), 6 * T)
    assert cluster.now_ms - failed_ms >= 2 * T - 100
    assert not cluster.hosts[0].node.view.myself.flags & FAIL
