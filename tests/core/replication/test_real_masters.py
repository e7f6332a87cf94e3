"""Real masters answer PSYNC as `may_continue` does (P2, P3, P5)."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cluster_core.replication.psync import Lineage, may_continue
from tests.benches.servers import Server, installed, redis_binary, running, valkey_binary, wait_for

pytestmark = pytest.mark.servers

BACKLOG_BYTES = 16384
UNKNOWN_ID = "9" * 40


@pytest.fixture(scope="module", params=["redis-server", "valkey-server"])
def master(request) -> Iterator[Server]:
    """A real master with the smallest backlog, which exists because a replica has attached."""
    is_valkey = request.param == "valkey-server"
    binary = installed(valkey_binary() if is_valkey else redis_binary())
    with running(binary, repl_backlog_size=BACKLOG_BYTES) as server:
        assert psync(server, "?", -1)[0] == "FULLRESYNC"
        yield server


def psync(server: Server, replid: str, offset: int) -> list[str]:
    """Ask as a replica does and return the parts of the answer."""
    wait_for(lambda: server.client().info("replication")["connected_slaves"] == 0, "the last replica to leave")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as link, link.makefile("rb") as lines:
        for command in (
            "PING",
            "REPLCONF listening-port 1",
            "REPLCONF capa eof capa psync2",
            f"PSYNC {replid} {offset}",
        ):
            link.sendall(command.encode() + b"\r\n")
            answer = next(line for line in lines if line.strip())
    return answer.decode()[1:].split()


def known(server: Server) -> tuple[Lineage, tuple[int, int] | None]:
    """History and backlog, as INFO shows them."""
    info = server.client().info("replication")
    lineage = Lineage(
        info["master_replid"], info["master_repl_offset"], info["master_replid2"], info["second_repl_offset"]
    )
    backlog = (info["repl_backlog_first_byte_offset"], info["repl_backlog_histlen"])
    return lineage, backlog if info["repl_backlog_active"] else None


def agreed(server: Server, replid: str, offset: int) -> bool:
    """Whether the replica may continue, by the server and by us, which must be the same."""
    expected = may_continue(*known(server), replid, offset)
    assert psync(server, replid, offset)[0] == ("CONTINUE" if expected else "FULLRESYNC")
    return expected


@pytest.mark.parametrize("behind", [0, 1, 100, -1, -50])
def test_offsets_up_to_one_byte_behind_the_end_continue(master: Server, behind: int) -> None:
    """P3."""
    for number in range(10):
        master.call("SET", "k", number)
    lineage, _ = known(master)

    assert agreed(master, lineage.replid, lineage.offset - behind + 1) is (behind >= 0)


def test_the_first_byte_of_the_backlog_continues_and_the_byte_before_does_not(master: Server) -> None:
    """P3."""
    for number in range(400):
        master.call("SET", "k", f"{number:0>100}")
    for before in (0, 1):
        lineage, backlog = known(master)
        assert backlog is not None
        assert agreed(master, lineage.replid, backlog[0] - before) is (not before)


def test_an_unknown_id_gets_everything(master: Server) -> None:
    """P3: neither of the two ids."""
    assert not agreed(master, UNKNOWN_ID, 5)


def test_a_promoted_master_continues_its_old_id_up_to_the_promotion(master: Server) -> None:
    """P5."""
    old, _ = known(master)
    master.call("REPLICAOF", "127.0.0.1", "1")
    master.call("REPLICAOF", "NO", "ONE")
    assert known(master)[0].replid2 == old.replid

    assert agreed(master, old.replid, old.offset + 1)
    assert not agreed(master, old.replid, old.offset + 11)
