"""Both sides of replication, wired to each other: handshake, dumps, streams, interruptions, promotion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.replication import master as desk
from cluster_core.replication import replica as link
from cluster_core.replication.handshake import NEXT, ReplicaState, Verdict, introduce, judge_reply
from cluster_core.replication.lineage import Lineage
from cluster_core.replication.master import MasterDesk, Stage
from cluster_core.replication.profile import REDIS_7_0, VALKEY_9_1, profile_of
from cluster_core.replication.replica import ReplicaLink
from tests.benches.replication_pair import DUMP, draw_ids, link_settings, make_pair

PING = b"*1\r\n$4\r\nping\r\n"
SET = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"


@pytest.mark.parametrize("by_mark", [True, False])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_new_replica_gets_everything_and_then_the_stream(step: int, by_mark: bool) -> None:
    """P2, P3, P8, P9, in pieces of any size, from a file or without."""
    pair = make_pair(step=step, by_mark=by_mark)

    pair.connect()
    pair.write(SET)
    pair.tick(2000)

    assert pair.answers == [("FULLRESYNC", f"{1:040x}", "0")]
    assert pair.replica.state is ReplicaState.ONLINE
    assert pair.replica.lineage.offset == pair.master.lineage.offset
    assert pair.master.replicas[1].stage is Stage.ONLINE


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_over_two_channels_the_stream_comes_beside_the_dump(step: int) -> None:
    """Dual channel of Valkey: everything that is written while the dump is sent is kept for the main channel, whatever the backlog's size."""
    pair = make_pair(profile=VALKEY_9_1, backlog_bytes=60, dual_channel=True, step=step)
    pair.during_dump = [SET] * 3000

    pair.connect()
    pair.during_dump = []
    pair.write(SET)
    pair.tick(2000)

    assert [words[0] for words in pair.answers] == ["DUALCHANNELSYNC", "CONTINUE"]
    assert "rdb-channel" in pair.moves
    assert pair.replica.state is ReplicaState.ONLINE
    assert pair.replica.lineage.offset == pair.master.lineage.offset == len(pair.stream) + len(PING)
    assert pair.replica.lineage.replid == pair.master.lineage.replid
    assert pair.master.backlog is not None
    assert pair.master.backlog.length < 40_000, "what nobody waits for is dropped again"
    assert len(pair.master.acknowledged()) == 1


def test_a_main_channel_that_names_no_dump_is_refused() -> None:
    """REPLCONF set-rdb-client-id of a client that is none."""
    master = MasterDesk(Lineage("f" * 40), VALKEY_9_1, draw_ids(), dual_channel=True)

    (reply,) = master.handle(desk.CommandReceived(1, (b"REPLCONF", b"set-rdb-client-id", b"7")), 0)

    assert reply == desk.Send(1, b"-ERR Unrecognized RDB client id\r\n")


def test_after_a_short_interruption_a_replica_goes_on_and_after_a_long_one_it_does_not() -> None:
    """P3."""
    pair = make_pair(profile=REDIS_7_0, backlog_bytes=30_000)
    pair.connect()
    pair.write(SET)

    pair.cut()
    pair.write(SET)
    pair.connect()
    pair.cut()
    for _ in range(3000):
        pair.write(SET)
    pair.connect()

    assert [words[0] for words in pair.answers] == ["FULLRESYNC", "CONTINUE", "FULLRESYNC"]
    assert pair.replica.lineage.offset == pair.master.lineage.offset == len(pair.stream)


def test_a_replica_goes_on_under_the_new_id_of_a_promoted_master() -> None:
    """P4, P5."""
    pair = make_pair()
    pair.connect()
    pair.write(SET)
    pair.cut()

    pair.master.promote()
    pair.connect()

    assert pair.answers[-1] == ("CONTINUE", f"{2:040x}")
    assert pair.replica.lineage == Lineage(f"{2:040x}", len(SET), f"{1:040x}", len(SET) + 1)


@given(st.lists(st.sampled_from(["write", "cut", "promote", "expire", "tick"]), max_size=25), st.integers(1, 90))
def test_whatever_happens_a_connected_replica_has_the_masters_offset_and_id(steps: list[str], step: int) -> None:
    """The stream is neither lost nor counted twice."""
    pair = make_pair(backlog_bytes=60, step=step)
    pair.connect()
    for name in steps:
        match name:
            case "write":
                pair.write(SET)
            case "tick":
                pair.tick(1500)
            case _:
                pair.cut()
                if name == "promote":
                    pair.master.promote()
                elif name == "expire":
                    pair.master.drop_backlog()
                pair.write(SET)
                pair.connect()

    assert pair.replica.state is ReplicaState.ONLINE
    assert pair.replica.lineage.replid == pair.master.lineage.replid
    assert pair.replica.lineage.offset == pair.master.lineage.offset


def test_a_second_replica_that_comes_while_a_dump_is_asked_for_shares_it() -> None:
    """One dump serves all that wait for it (`syncCommand`)."""
    master = MasterDesk(Lineage("f" * 40), REDIS_7_0, draw_ids())
    asked = [
        effect
        for client in (1, 2)
        for effect in master.handle(desk.CommandReceived(client, (b"PSYNC", b"?", b"-1")), 0)
    ]

    sent = master.handle(desk.DumpStarted(), 0)

    assert [type(effect) for effect in asked if isinstance(effect, desk.StartDump)] == [desk.StartDump]
    assert [effect.client for effect in sent] == [1, 2]


def test_what_is_written_while_the_dump_is_sent_comes_behind_it() -> None:
    """The dump is a picture of one moment (P9)."""
    master = MasterDesk(Lineage("f" * 40), REDIS_7_0, draw_ids())
    master.handle(desk.CommandReceived(1, (b"PSYNC", b"?", b"-1")), 0)
    master.handle(desk.DumpStarted(), 0)
    master.handle(desk.DumpReady(len(DUMP)), 0)

    while_sending = master.handle(desk.Written(SET), 0)

    assert while_sending == []
    assert master.handle(desk.DumpSent(1), 0) == [desk.Send(1, SET)]


def test_a_replica_that_acknowledges_nothing_is_dropped() -> None:
    """P10: repl-timeout."""
    pair = make_pair()
    pair.connect()

    effects = pair.master.handle(desk.Tick(), 61_000)

    assert effects[0] == desk.Drop(1, "no acknowledgement for the replication timeout")
    assert pair.master.replicas == {}


def test_a_replica_that_hears_nothing_gives_its_master_up() -> None:
    """P10, the other way."""
    pair = make_pair()
    pair.connect()

    assert isinstance(pair.replica.handle(link.Tick(), 61_000)[-1], link.Close)
    assert pair.replica.state is ReplicaState.CONNECT


def test_a_failover_request_makes_a_replica_a_master() -> None:
    """P12."""
    master = MasterDesk(Lineage("a" * 40, 0), REDIS_7_0, draw_ids(), is_replica=True)
    master.handle(desk.CommandReceived(9, (b"PSYNC", b"?", b"-1")), 0)
    old = master.lineage.replid

    effects = master.handle(desk.CommandReceived(1, (b"PSYNC", old.encode(), b"1", b"FAILOVER")), 0)

    assert not master.is_replica
    assert master.lineage.replid2 == old
    assert desk.Drop(9, "promoted") in effects
    assert effects[-1] == desk.Send(1, b"+CONTINUE\r\n")  # it did not say that it knows psync2


@pytest.mark.parametrize("state", [state for state in ReplicaState if state in NEXT])
@pytest.mark.parametrize("is_error", [True, False])
def test_every_state_has_a_verdict_and_the_path_ends_online(state: ReplicaState, is_error: bool) -> None:
    """No state is left without a way on, and nothing but an error stops a replica."""
    verdict = judge_reply(state, "ERR unknown" if is_error else "OK", is_error=is_error)

    assert (verdict is Verdict.GO_ON) == (not is_error)
    reached, steps = state, 0
    while reached is not ReplicaState.ONLINE:
        reached, steps = NEXT[reached], steps + 1
        assert steps < len(ReplicaState) + 3


def test_what_a_replica_says_of_itself_depends_on_its_version() -> None:
    """Valkey tells its version; dual channel is offered only where it is known and wanted."""
    settings = link_settings(user="u", password="p", announced_ip="10.0.0.1", dual_channel=True)

    redis = [words for _, words in introduce(settings, REDIS_7_0)]
    valkey = [words for _, words in introduce(settings, VALKEY_9_1)]

    assert redis[0] == ("AUTH", "u", "p")
    assert redis[1:] == [
        ("REPLCONF", "listening-port", "1"),
        ("REPLCONF", "ip-address", "10.0.0.1"),
        ("REPLCONF", "capa", "eof", "capa", "psync2"),
    ]
    assert valkey[3:] == [
        ("REPLCONF", "capa", "eof", "capa", "psync2", "capa", "dual-channel"),
        ("REPLCONF", "version", "9.1.0"),
    ]


def test_a_master_that_is_not_ready_is_asked_again_later() -> None:
    """-NOMASTERLINK and -LOADING: PSYNC_TRY_LATER."""
    pair = make_pair()
    pair.master.is_replica, pair.master.is_link_up = True, False
    pair.connect()
    assert pair.replica.state is ReplicaState.CONNECT

    pair.master.is_link_up = True
    pair.connect()

    assert pair.replica.state is ReplicaState.ONLINE


def test_versions_name_their_rules() -> None:
    """Unknown servers go by the rules of Redis 7.0."""
    names = {text: profile_of(text).name for text in ("6.2.14", "7.0.15", "valkey 8.1.0", "valkey 9.1.2", "?")}

    assert list(names.values()) == ["redis-6.2", "redis-7.0", "valkey-8.0", "valkey-9.1", "redis-7.0"]


def test_a_replica_that_is_refused_its_password_gives_up() -> None:
    """AUTH is critical, REPLCONF is not."""
    replica = ReplicaLink(link_settings(password="wrong"), REDIS_7_0)
    replica.handle(link.Tick(), 0)
    replica.handle(link.Connected(), 0)
    replica.handle(link.Received(b"-NOAUTH Authentication required.\r\n"), 0)

    effects = replica.handle(link.Received(b"-WRONGPASS invalid\r\n"), 0)

    assert isinstance(effects[-1], link.Close)
