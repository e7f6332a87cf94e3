"""Real masters answer PSYNC as `decide_psync` does (P2, P3, P5)."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cluster_core.replication.psync import FORCED_ID, AnswerKind, Lineage, MasterView, Request, decide_psync
from tests.benches.servers import Server, redis_binary, running, valkey_binary, wait_for

pytestmark = pytest.mark.servers

BACKLOG_BYTES = 16384
UNKNOWN_ID = "9" * 40
KINDS = {"FULLRESYNC": AnswerKind.FULL, "CONTINUE": AnswerKind.PARTIAL, "DUALCHANNELSYNC": AnswerKind.DUAL_CHANNEL}


@pytest.fixture(scope="module", params=["redis-server", "valkey-server"])
def master(request) -> Iterator[Server]:
    """A real master with the smallest backlog, which exists because a replica has attached."""
    is_valkey = request.param == "valkey-server"
    binary = valkey_binary() if is_valkey else redis_binary()
    if binary is None:
        pytest.skip(f"{request.param} is not installed")
    dual_channel = {"dual_channel_replication_enabled": "yes"} if is_valkey else {}
    with running(binary, repl_backlog_size=BACKLOG_BYTES, repl_diskless_sync_delay=0, **dual_channel) as server:
        assert psync(server, FORCED_ID, -1)[0] == "FULLRESYNC"
        yield server


def psync(server: Server, replid: str, offset: int, *capabilities: str) -> list[str]:
    """Ask as a replica does and return the words of the answer."""
    wait_for(lambda: server.client().info("replication")["connected_slaves"] == 0, "the last replica to leave")
    capable = " ".join(f"capa {name}" for name in ("eof", "psync2", *capabilities))
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as link, link.makefile("rb") as lines:
        for command in ("PING", "REPLCONF listening-port 1", f"REPLCONF {capable}", f"PSYNC {replid} {offset}"):
            link.sendall(command.encode() + b"\r\n")
            answer = next(line for line in lines if line.strip())
    return answer.decode()[1:].split()


def view(server: Server, **more: bool) -> MasterView:
    """The state that INFO shows."""
    info = server.client().info("replication")
    lineage = Lineage(
        info["master_replid"], info["master_repl_offset"], info["master_replid2"], info["second_repl_offset"]
    )
    backlog = (info["repl_backlog_first_byte_offset"], info["repl_backlog_histlen"])
    return MasterView(lineage, backlog if info["repl_backlog_active"] else None, **more)


def agreed(server: Server, replid: str, offset: int) -> AnswerKind:
    """The answer of both, which must be the same."""
    expected = decide_psync(Request(replid, offset), view(server)).kind
    assert KINDS[psync(server, replid, offset)[0]] is expected
    return expected


@pytest.mark.parametrize("behind", [0, 1, 100, -1, -50])
def test_offsets_up_to_one_byte_behind_the_end_continue(master: Server, behind: int) -> None:
    """P3."""
    for number in range(10):
        master.call("SET", "k", number)
    known = view(master).lineage

    kind = agreed(master, known.replid, known.offset - behind + 1)

    assert kind is (AnswerKind.PARTIAL if behind >= 0 else AnswerKind.FULL)


def test_the_first_byte_of_the_backlog_continues_and_the_byte_before_does_not(master: Server) -> None:
    """P3."""
    for number in range(400):
        master.call("SET", "k", f"{number:0>100}")
    now = view(master)
    assert now.backlog is not None

    assert agreed(master, now.lineage.replid, now.backlog[0]) is AnswerKind.PARTIAL
    backlog = view(master).backlog
    assert backlog is not None
    assert agreed(master, now.lineage.replid, backlog[0] - 1) is AnswerKind.FULL


def test_an_unknown_id_gets_everything(master: Server) -> None:
    """P3: neither of the two ids."""
    assert agreed(master, UNKNOWN_ID, 5) is AnswerKind.FULL


def test_a_promoted_master_continues_its_old_id_up_to_the_promotion(master: Server) -> None:
    """P5."""
    old = view(master).lineage
    master.call("REPLICAOF", "127.0.0.1", "1")
    master.call("REPLICAOF", "NO", "ONE")
    assert view(master).lineage.replid2 == old.replid

    assert agreed(master, old.replid, old.offset + 1) is AnswerKind.PARTIAL
    assert agreed(master, old.replid, old.offset + 11) is AnswerKind.FULL


def test_a_replica_that_can_load_over_two_channels_is_offered_them(master: Server) -> None:
    """Valkey with dual-channel-replication-enabled; Redis sends everything on one."""
    is_valkey = "valkey_version" in master.client().info("server")
    request = Request(UNKNOWN_ID, 5, dual_channel=True)

    answer = psync(master, UNKNOWN_ID, 5, "dual-channel")

    assert KINDS[answer[0]] is decide_psync(request, view(master, dual_channel=is_valkey)).kind
