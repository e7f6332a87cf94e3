"""A master dies: silence, agreement, an election, a winner; and all the reasons why there is none (R53, R54, R83 to R96)."""

from __future__ import annotations

import pytest

from cluster_core.formats.server_log import event_of
from cluster_core.gossip.flags import MASTER, MY_PRIMARY_FAIL
from cluster_core.gossip.profile import VALKEY_8_0, VALKEY_8_1, VALKEY_9_1, Profile
from cluster_core.wire.bus import MessageFlag, MessageType
from tests.benches.node_cluster import every_profile, formed

T = 2000
"""The node timeout of `formed`, in ms."""


@every_profile
def test_logged_lines_can_be_read_back(profile: Profile) -> None:
    """R160: log lines equal those of the servers."""
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
def test_valkey_8_1_logs_old_data_ten_times_less_often(profile: Profile, least: int, most: int) -> None:
    """R160, clusterLogCantFailover: in the first minute."""
    cluster = formed(profile, validity_factor=1, repl_ping_period_s=1)
    cluster.hosts[3].node.state.repl_up = False
    cluster.hosts[3].node.state.repl_down_ms = cluster.now_ms - 60_000
    cluster.detach(3)
    cluster.crash(0)
    cluster.run(T + 60_000)

    lines = cluster.hosts[3].logged("Currently unable to failover: Disconnected from")
    assert least <= len(lines) <= most


def test_a_lone_replica_of_valkey_9_1_asks_at_once_and_with_force() -> None:
    """R134, R135: all of its siblings agree, as it has none; its mark outlives the promotion, a defect of that server."""
    cluster = formed(VALKEY_9_1)
    cluster.crash(0)
    cluster.run(4 * T)
    requests = [m for _, sender, _, m in cluster.messages if m.type == MessageType.AUTH_REQUEST and sender == 3]

    assert cluster.hosts[3].logged("Start of election delayed for 0 milliseconds")
    assert requests
    assert all(m.header.mflags[0] & MessageFlag.FORCEACK for m in requests)
    assert all(m.header.flags & MY_PRIMARY_FAIL for m in requests)
    assert cluster.hosts[3].node.view.myself.flags & (MASTER | MY_PRIMARY_FAIL) == MASTER | MY_PRIMARY_FAIL
