"""A master dies: silence, agreement, an election, a winner; and all the reasons why there is none (R53, R54, R83 to R96)."""

from __future__ import annotations

import pytest

from cluster_core.formats.server_log import event_of
from cluster_core.gossip.flags import FAIL, MASTER, MY_PRIMARY_FAIL
from cluster_core.gossip.profile import PROFILES, REDIS_7_0, VALKEY_8_0, VALKEY_8_1, VALKEY_9_1, Profile
from cluster_core.node.events import ElectionStep, PromoteMyself, StartReplication
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


def test_the_doubt_of_valkey_9_1_outlives_the_promotion() -> None:
    """R135: a defect of that server, which this profile has on purpose."""
    cluster = formed(VALKEY_9_1)
    cluster.crash(0)
    cluster.run(4 * T)

    assert cluster.hosts[3].node.view.myself.flags & (MASTER | MY_PRIMARY_FAIL) == MASTER | MY_PRIMARY_FAIL


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
