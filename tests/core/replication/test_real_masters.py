"""A client that asks as a replica does is answered by real masters as was foreseen (P2 to P5, P8)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster_core.replication.forecast import first_kept
from cluster_core.replication.psync import AnswerKind, Lineage, MasterView, Request, decide_psync
from tests.benches.psync_client import PsyncClient
from tests.benches.servers import Server, redis_binary, running, valkey_binary, wait_for

pytestmark = pytest.mark.servers

BACKLOG_BYTES = 16384
UNKNOWN_ID = "9" * 40
WORDS = {"FULLRESYNC": AnswerKind.FULL, "CONTINUE": AnswerKind.PARTIAL, "DUALCHANNELSYNC": AnswerKind.DUAL_CHANNEL}


@pytest.fixture(scope="module", params=["redis-server", "valkey-server"])
def master(request) -> Iterator[Server]:
    """A real master with the least backlog."""
    is_valkey = request.param == "valkey-server"
    binary = valkey_binary() if is_valkey else redis_binary()
    if binary is None:
        pytest.skip(f"{request.param} is not installed")
    settings = {"repl_backlog_size": BACKLOG_BYTES, "repl_diskless_sync_delay": 0}
    with running(binary, **settings) as server:
        yield server


def info(server: Server) -> dict:
    return server.client().info("replication")


def seen(server: Server) -> MasterView:
    """What the master says of itself."""
    said = info(server)
    lineage = Lineage(
        said["master_replid"], said["master_repl_offset"], said["master_replid2"], said["second_repl_offset"]
    )
    backlog = (said["repl_backlog_first_byte_offset"], said["repl_backlog_histlen"])
    return MasterView(lineage, backlog if said["repl_backlog_active"] else None)


def ask(server: Server, lineage: Lineage | None) -> PsyncClient:
    """Connect with *lineage* until online; the answer must be the one that the decision gives."""
    replid, offset = (lineage.replid, lineage.offset + 1) if lineage else ("?", -1)
    foreseen = decide_psync(Request(replid, offset), seen(server))
    with PsyncClient(server.port, lineage) as link:
        link.run_until(lambda: link.is_online)

        assert WORDS[link.answers[0][0]] is foreseen.kind
        return link


def test_a_replica_without_a_history_gets_everything_and_follows(master: Server) -> None:
    """Forced full resync; then the stream, PING and SELECT included, is counted as the master counts it (P9)."""
    master.call("SET", "before", "x")
    with PsyncClient(master.port) as link:
        link.run_until(lambda: link.is_online)
        for number in range(20):
            master.call("SET", "k", number)
        end = info(master)["master_repl_offset"]

        link.run_until(lambda: link.lineage.offset >= end)
        link.run_until(lambda: info(master).get("slave0", {}).get("offset") == link.lineage.offset)

        assert link.answers[0][0] == "FULLRESYNC"
        assert link.dump_bytes > 100
        assert link.lineage.replid == info(master)["master_replid"]
        assert info(master)["slave0"]["state"] == "online"


@pytest.mark.parametrize("behind", [0, 1, 100, -1, -50])
def test_offsets_around_the_end_are_answered_as_foreseen(master: Server, behind: int) -> None:
    """P3: up to one byte behind the end."""
    ask(master, None)
    wait_for(lambda: info(master)["connected_slaves"] == 0, "the replica to be gone")
    for number in range(10):
        master.call("SET", "k", number)
    view = seen(master)

    link = ask(master, Lineage(view.lineage.replid, view.lineage.offset - behind))

    assert link.answers[0][0] == ("CONTINUE" if behind >= 0 else "FULLRESYNC")


def test_the_edge_of_the_backlog_is_where_it_was_foreseen(master: Server) -> None:
    """P3: the first byte that it has can be asked for, the one before cannot."""
    ask(master, None)
    for number in range(400):
        master.call("SET", "k", f"{number:0>100}")
    wait_for(lambda: info(master)["connected_slaves"] == 0, "the replica to be gone")
    view = seen(master)
    assert view.backlog is not None
    first = view.backlog[0]

    inside = ask(master, Lineage(view.lineage.replid, first - 1))
    wait_for(lambda: info(master)["connected_slaves"] == 0, "the replica to be gone")
    outside = ask(master, Lineage(view.lineage.replid, seen(master).backlog[0] - 2))

    assert inside.answers[0][0] == "CONTINUE"
    assert outside.answers[0][0] == "FULLRESYNC"
    kept = {first_kept(1, view.lineage.offset, BACKLOG_BYTES, block) for block in (16384, 20440)}
    assert first in kept


def test_an_unknown_id_gets_everything(master: Server) -> None:
    """The id is neither of the two."""

    assert ask(master, Lineage(UNKNOWN_ID, 5)).answers[0][0] == "FULLRESYNC"


def test_a_promoted_master_lets_its_old_masters_replicas_go_on(master: Server) -> None:
    """P5: the second id, up to its offset and not beyond."""
    ask(master, None)
    wait_for(lambda: info(master)["connected_slaves"] == 0, "the replica to be gone")
    old = seen(master).lineage
    master.call("REPLICAOF", "127.0.0.1", "1")
    master.call("REPLICAOF", "NO", "ONE")
    view = seen(master)
    assert view.lineage.replid2 == old.replid

    goes_on = ask(master, Lineage(old.replid, old.offset))
    wait_for(lambda: info(master)["connected_slaves"] == 0, "the replica to be gone")
    passed = ask(master, Lineage(old.replid, old.offset + 10))

    assert goes_on.answers[0] == ("CONTINUE", view.lineage.replid)
    assert passed.answers[0][0] == "FULLRESYNC"


def test_over_two_channels_the_stream_goes_on_behind_the_dump() -> None:
    """Dual channel of Valkey: +DUALCHANNELSYNC, $ENDOFF, PSYNC behind it."""
    binary = valkey_binary()
    if binary is None:
        pytest.skip("valkey-server is not installed")
    settings = {"dual_channel_replication_enabled": "yes", "repl_diskless_sync_delay": 0}
    with running(binary, **settings) as server:
        server.call("SET", "before", "x")
        with PsyncClient(server.port, dual_channel=True) as link:
            link.run_until(lambda: link.is_online)
            server.call("SET", "k", "v")
            end = info(server)["master_repl_offset"]
            link.run_until(lambda: link.lineage.offset >= end and link.dump_bytes > 0)

            assert [words[0] for words in link.answers] == ["DUALCHANNELSYNC", "CONTINUE"]
            assert link.dump_bytes > 100
            assert link.lineage.replid == info(server)["master_replid"]
