"""What a few packets say of servers: restarts, promotions, INFO, REPLICAOF, chains, refusals."""

from __future__ import annotations

import pytest

from cluster_core.formats.capture.bus_capture import ACCEPTOR, INITIATOR, ConnectionEvent, Endpoint, Origin
from cluster_core.formats.capture.resp_capture import CapturedResp, RespRow, RespSkimmer
from cluster_core.replication.psync import AnswerKind, Reason
from cluster_core.replication.reconstruction import Reconstruction, explain_reason, tell_resync
from cluster_core.sizes import read_bytes, write_bytes
from cluster_core.wire.resp import encode_value
from cluster_core.wire.tcp_stream import ACK, FIN, RST, SYN, Mark
from tests.builders.replication_records import replayed

A, B, C = "a" * 40, "b" * 40, "c" * 40
SET = encode_value([b"SET", b"k", b"v"])
MASTER, OTHER, REPLICA = 6001, 6002, 6003


class Talk:
    """Rows of connections between servers on one address, one millisecond apart."""

    def __init__(self) -> None:
        self.rows: list[RespRow] = []
        self._skimmers: dict[tuple[int, bool], RespSkimmer] = {}
        self._ends: dict[int, tuple[int, int]] = {}

    def open(self, server: int, *, refused: bool = False) -> int:
        """A connection to the port *server*."""
        number = len(self._ends)
        self._ends[number] = (50_000 + number, server)
        self._event(number, SYN, from_client=True)
        self._event(number, RST | ACK if refused else SYN | ACK, from_client=False)
        return number

    def say(self, number: int, data: bytes | list[bytes], *, from_client: bool = True) -> None:
        """One side says something."""
        raw = encode_value(data) if isinstance(data, list) else data
        skimmer = self._skimmers.setdefault((number, from_client), RespSkimmer())
        mark = Mark(len(self.rows) * 1_000_000, len(self.rows), 0)
        self.rows += [CapturedResp(self._origin(number, from_client), item) for item in skimmer.feed(raw, mark)]

    def answer(self, number: int, line: str, data: bytes = b"") -> None:
        """The server says a line, and *data* behind it."""
        self.say(number, line.encode() + b"\r\n" + data, from_client=False)

    def close(self, number: int, *, by_client: bool) -> None:
        """One side closes."""
        self._event(number, FIN | ACK, from_client=by_client)

    def ask(self, server: int, replica: int, *words: str) -> int:
        """A replica connects and asks."""
        number = self.open(server)
        self.say(number, [b"REPLCONF", b"listening-port", b"%d" % replica])
        self.answer(number, "+OK")
        self.say(number, [word.encode() for word in words])
        return number

    def replay(self, sizes: dict[str, int] | None = None) -> Reconstruction:
        """What came of it."""
        return replayed(self.rows, sizes)

    def _event(self, number: int, flags: int, *, from_client: bool) -> None:
        self.rows.append(ConnectionEvent(self._origin(number, from_client), flags))

    def _origin(self, number: int, from_client: bool) -> Origin:
        client, server = (Endpoint("127.0.0.1", port) for port in self._ends[number])
        ends = (client, server) if from_client else (server, client)
        at = len(self.rows)
        return Origin(at * 1_000_000, at, at, 0, number, INITIATOR if from_client else ACCEPTOR, *ends)


def full(talk: Talk, server: int, replica: int, replid: str, offset: int) -> int:
    """A replica takes everything."""
    number = talk.ask(server, replica, "PSYNC", "?", "-1")
    talk.answer(number, f"+FULLRESYNC {replid} {offset}", b"$4\r\nDUMP")
    return number


def test_a_replica_that_lost_its_file_is_forced_to_take_everything() -> None:
    """P2."""
    talk = Talk()
    full(talk, MASTER, REPLICA, A, 100)

    (resync,) = talk.replay().resyncs

    assert (resync.foreseen.reason, resync.is_foreseen, resync.outcome) == (Reason.FORCED, True, "done")


def test_a_replica_whose_own_link_is_not_up_refuses_its_replicas() -> None:
    """-NOMASTERLINK."""
    talk = Talk()
    talk.ask(MASTER, OTHER, "PSYNC", "?", "-1")
    asked = talk.ask(OTHER, REPLICA, "PSYNC", A, "5")
    talk.answer(asked, "-NOMASTERLINK Can't SYNC while not connected with my master")

    talk.close(asked, by_client=True)

    replay = talk.replay()

    resync = replay.resyncs[1]
    assert resync.foreseen.reason is resync.explained.reason is Reason.NO_MASTER_LINK
    assert resync.outcome == "refused"
    assert (replay.spans[-1].state, replay.spans[-1].to_ns) == ("connect", None)  # it will ask again


def test_a_master_that_writes_on_after_another_was_promoted_loses_these_writes() -> None:
    """P6: the second id ends where the new master was promoted."""
    talk = Talk()
    link = full(talk, MASTER, OTHER, A, 0)
    talk.say(link, SET * 3, from_client=False)
    talk.close(link, by_client=True)  # promoted
    asked = talk.ask(OTHER, MASTER, "PSYNC", A, str(len(SET) * 5 + 1))
    talk.answer(asked, f"+FULLRESYNC {B} {len(SET) * 4}", b"$4\r\nDUMP")

    resync = talk.replay().resyncs[1]

    assert resync.foreseen.reason is resync.explained.reason is Reason.SECOND_ID_PASSED
    assert f"left that history at byte {len(SET) * 3 + 1:,}: {len(SET) * 2:,} bytes" in tell_resync(resync)


def test_a_replica_that_asks_for_what_it_had_acknowledged_was_started_again() -> None:
    """An older dump gave it its offset."""
    talk = Talk()
    link = full(talk, MASTER, REPLICA, A, 0)
    talk.say(link, SET * 3, from_client=False)
    talk.say(link, [b"REPLCONF", b"ACK", b"%d" % (3 * len(SET))])
    talk.close(link, by_client=True)
    asked = talk.ask(MASTER, REPLICA, "PSYNC", A, str(len(SET) + 1))
    talk.answer(asked, f"+CONTINUE {A}", SET * 2)

    replay = talk.replay()

    assert replay.resyncs[1].is_restart
    assert replay.resyncs[1].stream_bytes == 2 * len(SET)
    assert "started again from an older file" in tell_resync(replay.resyncs[1])


def test_a_server_that_refused_a_connection_comes_back_without_a_history() -> None:
    """Its process had ended: an id that it gave before is unknown to it."""
    talk = Talk()
    talk.close(full(talk, MASTER, REPLICA, A, 0), by_client=False)
    talk.open(MASTER, refused=True)
    asked = talk.ask(MASTER, REPLICA, "PSYNC", A, "1")
    talk.answer(asked, f"+FULLRESYNC {B} 0", b"$4\r\nDUMP")

    resync = talk.replay().resyncs[1]

    assert (resync.foreseen.reason, resync.is_foreseen) == (Reason.ID_MISMATCH, True)


def test_info_that_passes_by_tells_ids_and_the_size_of_the_backlog() -> None:
    """A sentinel asks for it each ten seconds."""
    info = (
        f"# Replication\r\nrole:master\r\nmaster_replid:{A}\r\nmaster_replid2:{B}\r\nmaster_repl_offset:900\r\n"
        "second_repl_offset:300\r\nrepl_backlog_active:1\r\nrepl_backlog_size:20000\r\n"
        "repl_backlog_first_byte_offset:100\r\n"
    )
    talk = Talk()
    asker = talk.open(MASTER)
    talk.say(asker, [b"INFO"])
    talk.say(asker, encode_value(info.encode()), from_client=False)
    for replid, offset in ((A, 500), (B, 200), (B, 301), (A, 99)):
        talk.ask(MASTER, REPLICA, "PSYNC", replid, str(offset))

    resyncs = talk.replay().resyncs

    assert [r.foreseen.reason for r in resyncs] == [
        Reason.SAME_ID, Reason.SECOND_ID, Reason.SECOND_ID_PASSED, Reason.BACKLOG_PASSED
    ]  # fmt: skip
    assert (resyncs[0].backlog_bytes, resyncs[0].size_known_by) == (20000, "INFO")


def test_config_set_tells_the_size_of_the_backlog_and_an_option_overrides_it() -> None:
    """By hand, over a captured port."""
    talk = Talk()
    talk.say(talk.open(MASTER), [b"CONFIG", b"SET", b"repl-backlog-size", b"64kb"])
    full(talk, MASTER, REPLICA, A, 0)

    told, given = talk.replay().resyncs[0], talk.replay({f"127.0.0.1:{MASTER}": 1 << 20}).resyncs[0]

    assert (told.backlog_bytes, told.size_known_by) == (65536, "CONFIG SET")
    assert (given.backlog_bytes, given.size_known_by) == (1 << 20, "option")


def test_orders_to_follow_and_to_stop_are_links() -> None:
    """REPLICAOF, as sentinels send it."""
    talk = Talk()
    operator = talk.open(REPLICA)
    talk.say(operator, [b"SLAVEOF", b"127.0.0.1", b"%d" % MASTER])
    full(talk, MASTER, REPLICA, A, 0)
    talk.say(operator, [b"REPLICAOF", b"NO", b"ONE"])

    spans = talk.replay().spans

    assert [(span.state, span.to_ns is not None) for span in spans] == [
        ("connect", True), ("handshake", True), ("wait_bgsave", True), ("send_bulk", True), ("online", True)
    ]  # fmt: skip
    assert {span.master for span in spans} == {f"127.0.0.1:{MASTER}"}


def test_two_masters_that_claim_one_replica_have_it_one_after_the_other() -> None:
    """A replica has one open link at most."""
    talk = Talk()
    full(talk, MASTER, REPLICA, A, 0)
    full(talk, OTHER, REPLICA, B, 0)

    assert [span.master for span in talk.replay().spans if span.to_ns is None] == [f"127.0.0.1:{OTHER}"]


def test_a_backlog_that_was_freed_begins_a_new_history() -> None:
    """P8: repl-backlog-ttl."""
    talk = Talk()
    talk.close(full(talk, MASTER, REPLICA, A, 500), by_client=True)
    asked = talk.ask(MASTER, OTHER, "PSYNC", C, "1")
    talk.answer(asked, f"+FULLRESYNC {B} 500", b"$4\r\nDUMP")
    late = talk.ask(MASTER, REPLICA, "PSYNC", A, "501")
    talk.answer(late, f"+FULLRESYNC {B} 500", b"$4\r\nDUMP")

    assert [r.foreseen.reason for r in talk.replay().resyncs[1:]] == [Reason.ID_MISMATCH, Reason.ID_MISMATCH]


def test_sync_is_answered_with_everything() -> None:
    """The old command has no line before the dump."""
    talk = Talk()
    number = talk.ask(MASTER, REPLICA, "SYNC")
    talk._skimmers[number, False].expect_dump()
    talk.say(number, b"$4\r\nDUMP", from_client=False)

    (resync,) = talk.replay().resyncs

    assert (resync.answered, resync.explained.reason, resync.dump_bytes) == (AnswerKind.FULL, Reason.SYNC_COMMAND, 4)


def test_of_a_master_that_was_never_seen_nothing_is_foreseen_but_what_needs_no_history() -> None:
    """A capture that begins later: the master may have the history, or not."""
    talk = Talk()
    asked = talk.ask(MASTER, REPLICA, "PSYNC", A, "700")
    talk.answer(asked, f"+CONTINUE {A}", SET)

    (resync,) = talk.replay().resyncs

    assert (resync.foreseen, resync.is_foreseen, resync.is_certain) == (None, None, False)
    assert resync.explained.reason is Reason.SAME_ID


def test_every_reason_has_its_words() -> None:
    """The story knows all."""
    assert all(explain_reason(reason) for reason in Reason)


@pytest.mark.parametrize(
    ("text", "count"),
    [("64kb", 65536), ("1mb", 1 << 20), ("1m", 10**6), ("10", 10), ("x", None), ("-1", None), ("1tb", None)],
)
def test_sizes_are_those_of_the_configuration(text: str, count: int | None) -> None:
    """`memtoull`."""
    assert read_bytes(text) == count
    assert (write_bytes(65536), write_bytes(1 << 20), write_bytes(1000)) == ("64 KiB", "1 MiB", "1,000 bytes")
