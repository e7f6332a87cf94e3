"""From an observer's sent and received messages to its view: intervals, corrections, inferred orders."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.gossip.flags import FAIL, MASTER, MYSELF, NOFAILOVER, PFAIL, REPLICA
from cluster_core.kinds import EventKind
from cluster_core.replay.evidence import Endpoint, Evidence, LinkSeen, LogSeen, MessageSeen, NodePoll, PolledNode
from cluster_core.replay.observer import ObserverReplay
from cluster_core.replay.rows import (
    DisagreementRow,
    EpochRow,
    EventRow,
    FailureReportRow,
    NodeViewRow,
    ReplayRow,
    VoteRow,
)
from cluster_core.slots.slot_set import slot_bits
from cluster_core.wire.bus import Message, MessageType
from tests.builders.gossip_builder import ME, PORTS, A, B, C, entry, fail, header, ping, update
from tests.examples import examples

S = 1_000_000_000
HOME = Endpoint("127.0.0.1", 17000)
T0 = 1_700_000_000 * S
PONG, MEET = MessageType.PONG, MessageType.MEET


class Tape:
    """Writes the evidence of one observer; connection 10·i is its link to the i-th peer, 10·i+1 that peer's to it."""

    def __init__(self) -> None:
        self.evidence: list[Evidence] = []
        self.ref = 0

    def add(self, at_s: float, peer: str, message: Message, *, sent: bool, outbound: bool) -> None:
        """One message at a time in seconds."""
        connection = 10 * (PORTS[peer] - 7000) + (not outbound)
        end = Endpoint("127.0.0.1", PORTS[peer] + 10000 if outbound else 50000 + connection)
        ts_ns = T0 + round(at_s * S)
        self.evidence.append(MessageSeen(ts_ns, self.ref, connection, outbound, sent, end, message))
        self.ref += 1

    def link(self, at_s: float, peer: str, what: str, *, outbound: bool = True, by_us: bool = True) -> None:
        """A connection opened, closed or refused."""
        connection = 10 * (PORTS[peer] - 7000) + (not outbound)
        end = Endpoint("127.0.0.1", PORTS[peer] + 10000 if outbound else 50000 + connection)
        self.evidence.append(LinkSeen(T0 + round(at_s * S), self.ref, connection, outbound, what, by_us, end))

    def talk(self, at_s: float, peer: str, *, mine: dict[str, object] | None = None, **theirs: object) -> None:
        """We ping *peer* and it answers; then it pings us and we answer."""
        own = mine or {}
        self.add(at_s, peer, ping(ME, **own), sent=True, outbound=True)  # type: ignore[arg-type]
        self.add(at_s + 0.001, peer, ping(peer, kind=PONG, **theirs), sent=False, outbound=True)  # type: ignore[arg-type]
        self.add(at_s + 0.002, peer, ping(peer, **theirs), sent=False, outbound=False)  # type: ignore[arg-type]
        self.add(at_s + 0.003, peer, ping(ME, kind=PONG, **own), sent=True, outbound=False)  # type: ignore[arg-type]

    def met(self, *peers: str) -> None:
        """Links to *peers* come up in the first second."""
        for peer in peers:
            self.link(0, peer, "opened")
            self.add(0.01, peer, ping(ME, kind=MEET), sent=True, outbound=True)
            self.add(0.02, peer, ping(peer, kind=PONG), sent=False, outbound=True)

    def replay(self, **options: object) -> list[ReplayRow]:
        replay = ObserverReplay(HOME, node_timeout_ms=2000, **options)  # type: ignore[arg-type]
        rows: list[ReplayRow] = []
        for item in sorted(self.evidence, key=lambda item: item.ts_ns):
            rows += replay.feed(item)
        return rows + replay.finish()


def views(rows: list[ReplayRow], node: str) -> list[NodeViewRow]:
    """The intervals of one node in order of time."""
    rows_of_node = [row for row in rows if isinstance(row, NodeViewRow) and row.node_id == node]
    return sorted(rows_of_node, key=lambda row: row.valid_from_ns)


def at(rows: list[ReplayRow], node: str, at_s: float) -> NodeViewRow | None:
    """The row of a node that holds at a time."""
    ts_ns = T0 + round(at_s * S)
    holds = (
        r for r in views(rows, node) if r.valid_from_ns <= ts_ns and (r.valid_to_ns is None or ts_ns < r.valid_to_ns)
    )
    return next(holds, None)


def steady(tape: Tape, until_s: float, *peers: str, start_s: float = 0.5) -> None:
    """Everybody talks twice a second."""
    at_s = start_s
    while at_s < until_s:
        for peer in peers:
            tape.talk(at_s, peer)
        at_s += 0.5


def test_a_dead_node_is_marked_pfail_after_1_to_1_5_timeouts() -> None:
    """R34: its last pong, then half a timeout until a ping is due, then the timeout; our gossip tells soon after."""
    tape = Tape()
    tape.met(A, B)
    steady(tape, 3.1, A, B)
    tape.link(3.1, B, "closed", by_us=False)
    steady(tape, 5.1, A, start_s=3.5)
    tape.add(6.5, A, ping(ME, entry(B, MASTER | PFAIL)), sent=True, outbound=True)
    steady(tape, 8, A, start_s=7)

    doubted = next(row for row in views(tape.replay(), B) if "fail?" in row.flags)

    assert 3.0 + 3.0 <= (doubted.valid_from_ns - T0) / S <= 3.0 + 3.2


def silent_node(*, gossip_s: tuple[float, ...] = ()) -> Tape:
    """B dies at 3.1 s: by time alone it is PFAIL from 6.1 s on. Our gossip lists it at some times, or never."""
    tape = Tape()
    tape.met(A, B)
    steady(tape, 3.1, A, B)
    tape.link(3.1, B, "closed", by_us=False)
    steady(tape, 6.4, A, start_s=3.5)
    for half in range(13, 20):
        doubted = (entry(B, MASTER | PFAIL),) if half / 2 in gossip_s else ()
        tape.add(half / 2, A, ping(ME, *doubted), sent=True, outbound=True)
    return tape


def test_gossip_without_a_pfail_node_withdraws_pfail() -> None:
    """R40: every ping lists the nodes that are PFAIL; PFAIL by time alone leaves no row."""
    rows = silent_node().replay()

    assert [row.flags for row in views(rows, B) if row.valid_to_ns is not None and "fail?" in row.flags] == []
    assert any(isinstance(row, DisagreementRow) and row.machine == "fail?" for row in rows)


def test_pfail_begins_with_our_gossip_and_not_by_time_alone() -> None:
    """R53 counts from a ping that may be uncaptured; our messages in between prove that there was no PFAIL yet."""
    (row,) = [row for row in views(silent_node(gossip_s=(8.5, 9.0, 9.5)).replay(), B) if "fail?" in row.flags]

    assert 7.9 <= (row.valid_from_ns - T0) / S <= 8.5


def test_ticks_come_when_the_pings_of_the_observer_show_its_cron() -> None:
    """R32: the uncaptured ping left with others, before a younger pong of the dead node arrived by gossip."""
    tape = Tape()
    tape.met(A, B)
    tape.link(0.4, B, "closed", by_us=False)
    for half in range(12):
        doubted = (entry(B, MASTER | PFAIL),) if half > 5 else ()
        tape.add(0.55 + half / 2, A, ping(ME, *doubted), sent=True, outbound=True)
        gossiped = entry(B, pong_received_s=T0 // S + min(half, 1))
        tape.add(0.57 + half / 2, A, ping(A, gossiped, kind=PONG), sent=False, outbound=True)

    (row,) = [row for row in views(tape.replay(), B) if "fail?" in row.flags]

    assert 3.05 <= (row.valid_from_ns - T0) / S <= 3.16


def test_a_log_line_dates_pfail() -> None:
    """What the machine held until then is taken back, and gossip of the same cron does not take the doubt back."""
    tape = silent_node(gossip_s=(7.0, 7.5, 8.0, 8.5, 9.0, 9.5))
    tape.evidence.append(LogSeen(T0 + round(6.45 * S), "pfail", B))
    tape.evidence.sort(key=lambda each: each.ts_ns)

    (row,) = [row for row in views(tape.replay(), B) if "fail?" in row.flags]

    assert row.valid_from_ns == T0 + round(6.45 * S)


def test_a_node_displaced_from_gossip_stays_pfail() -> None:
    """R40: gossip lists as many as the last cron counted; of two nodes that became PFAIL since, it may list the other."""
    tape = Tape()
    tape.met(A, B, C)
    steady(tape, 3.1, A, B, C)
    for second, listed in ((4.0, (B,)), (4.4, (C,)), (4.5, (B, C)), (5.0, (B, C)), (5.6, (C,)), (6.0, (C,))):
        tape.add(second, A, ping(ME, *(entry(node, MASTER | PFAIL) for node in listed)), sent=True, outbound=True)

    spells = [(row.valid_from_ns, row.valid_to_ns) for row in views(tape.replay(), B) if "fail?" in row.flags]

    assert spells == [(T0 + 4 * S, T0 + round(5.6 * S))]


def test_our_own_gossip_is_believed_over_the_machine() -> None:
    """R9: flags in gossip are the sender's view."""
    tape = Tape()
    tape.met(A, B)
    tape.talk(1, A)
    tape.add(2, A, ping(ME, entry(B, MASTER | FAIL)), sent=True, outbound=True)
    steady(tape, 5, A, start_s=2.5)

    rows = tape.replay()

    failed = at(rows, B, 2.2)
    assert failed is not None
    assert failed.flags == "master,fail"


def test_a_fail_that_we_broadcast_was_our_verdict() -> None:
    """R54: one event, however many copies leave."""
    tape = Tape()
    tape.met(A, B, C)
    tape.talk(1, A)
    for peer in (A, C):
        tape.add(2, peer, fail(ME, B), sent=True, outbound=True)

    rows = tape.replay()

    decided = [row for row in rows if isinstance(row, EventRow) and row.kind == "fail-decided"]
    assert [row.subject for row in decided] == [B]
    assert "fail" in views(rows, B)[-1].flags.split(",")


def test_a_link_that_the_observer_closes_for_good_was_to_a_forgotten_node() -> None:
    """R61, R29: servers connect again within a tick to every node they know."""
    tape = Tape()
    tape.met(A, B)
    steady(tape, 3.1, A, B)
    tape.link(3.2, B, "closed")
    steady(tape, 7, A, start_s=3.5)

    gone = views(tape.replay(), B)[-1]

    assert gone.valid_to_ns == T0 + round(3.2 * S)


def test_a_link_that_is_opened_again_was_not() -> None:
    """R35: links are recycled."""
    tape = Tape()
    tape.met(A, B)
    steady(tape, 3.1, A, B)
    tape.link(3.2, B, "closed")
    tape.evidence.append(LinkSeen(T0 + round(3.3 * S), 0, 99, True, "opened", False, Endpoint("127.0.0.1", 17002)))
    steady(tape, 5, A, start_s=3.5)

    assert views(tape.replay(), B)[-1].valid_to_ns is None


def test_messages_to_a_stopped_process_count_when_it_resumes() -> None:
    """A PING that stays unanswered while nothing is sent: the process stood still."""
    tape = Tape()
    tape.met(A)
    steady(tape, 2, A)
    tape.add(3, A, ping(A, slots="0-99"), sent=False, outbound=False)
    tape.add(9, A, ping(ME, kind=PONG), sent=True, outbound=False)
    steady(tape, 11, A, start_s=9.5)

    claimed = next(row for row in views(tape.replay(), A) if row.slots)

    assert claimed.valid_from_ns == T0 + 9 * S


def test_another_id_in_the_own_header_is_a_reset() -> None:
    """R82."""
    tape = Tape()
    tape.met(A)
    steady(tape, 2, A)
    tape.link(2.5, A, "closed")
    tape.add(4, A, ping("9" * 40, kind=PONG), sent=True, outbound=False)

    rows = tape.replay()

    assert views(rows, A)[-1].valid_to_ns is not None
    (own,) = views(rows, "9" * 40)
    assert (own.observer, own.valid_from_ns) == ("9" * 40, T0 + round(2.5 * S))


def test_another_id_in_an_answer_is_a_reset() -> None:
    """A process that started without its nodes.conf; a view of the old id would lose all nodes."""
    tape = Tape()
    tape.evidence.append(NodePoll(T0, (PolledNode(ME, MASTER | MYSELF, "", 0, 0), PolledNode(A, MASTER, "", 1, 0))))
    tape.evidence.append(NodePoll(T0 + S, (PolledNode("9" * 40, MASTER | MYSELF, "", 0, 0),)))

    rows = tape.replay()

    assert {(row.observer, row.valid_to_ns) for row in views(rows, A)} == {(ME, T0 + S)}
    assert [(row.observer, row.cause) for row in views(rows, "9" * 40)] == [("9" * 40, "R82")]


def test_a_refusing_process_that_resumes_was_restarted() -> None:
    """R129: FAIL is kept, PFAIL is not."""
    tape = Tape()
    tape.met(A, B)
    steady(tape, 2, A, B)
    tape.add(2.1, A, fail(A, B), sent=False, outbound=False)
    for peer in (A, B):
        tape.link(2.2, peer, "closed")
    tape.link(2.4, A, "refused", outbound=False)
    tape.link(20, A, "opened")
    tape.talk(20.1, A)

    rows = tape.replay()

    assert "fail" in views(rows, B)[-1].flags
    assert not [row for row in views(rows, A) if "fail?" in row.flags]


def test_slots_that_leave_singly_are_dated_between_two_headers() -> None:
    """R124: and go to the node that claims them later."""
    tape = Tape()
    tape.met(A)
    tape.talk(1, A, mine={"slots": "0-9"})
    tape.talk(2, A, mine={"slots": "4-9"})
    tape.talk(3, A, mine={"slots": "4-9"}, slots="0-3")

    rows = tape.replay()

    assert [row.slots for row in views(rows, ME)][-4:] == ["1-9", "2-9", "3-9", "4-9"]
    assert [row.slots for row in views(rows, A)][-4:] == ["0", "0-1", "0-2", "0-3"]
    times = [row.valid_from_ns for row in views(rows, ME)][-4:]
    assert T0 + 1 * S < times[0] < times[-1] <= T0 + 2 * S


def test_slots_of_a_bulk_go_to_the_node_that_claims_the_first_of_them_later() -> None:
    """R124: an operator tells the old owner of all slots before the new one; inferred rows are marked."""
    tape = Tape()
    tape.met(A)
    tape.talk(1, A, mine={"slots": "0-9"})
    for second in range(2, 42):
        tape.talk(second, A, mine={"slots": f"{second // 10 + 1}-9"})
    tape.talk(42, A, mine={"slots": "5-9"}, slots="0")
    for second in range(43, 60):
        tape.talk(second, A, mine={"slots": "5-9"}, slots="0")

    rows = tape.replay()

    given = [row for row in views(rows, A) if row.slots and row.valid_from_ns < T0 + 42 * S]
    assert [(row.slots, row.cause) for row in given] == [
        (slots, "inferred") for slots in ("0", "0-1", "0-2", "0-3", "0-4")
    ]
    assert [round((row.valid_from_ns - T0) / S) for row in given] == [2, 10, 20, 30, 40]


def test_a_whole_bulk_between_two_headers_is_laid_out_slot_by_slot() -> None:
    """R124: thousands of slots within a second are SETSLOT commands, too, if another node claims them."""
    tape = Tape()
    tape.met(A)
    tape.talk(1, A, mine={"slots": "0-4999"})
    tape.talk(2, A)
    tape.talk(3, A, slots="0-4999")

    halfway = at(tape.replay(), A, 1.5)

    assert halfway is not None
    assert 2400 < int(halfway.slots.removeprefix("0-")) < 2600


def test_deleted_slots_have_no_owner() -> None:
    """R107: the header that leaves in the pass of CLUSTER DELSLOTS still says ok, the next one does not."""
    tape = Tape()
    tape.met(A)
    tape.talk(1, A, mine={"slots": "0-9"}, slots="10-16383")
    tape.talk(2, A, mine={"slots": "4-9"}, slots="10-16383")
    tape.talk(2.5, A, mine={"slots": "4-9", "state": 1}, slots="10-16383")
    tape.talk(6, A, mine={"slots": "4-9"}, slots="0-3 10-16383")

    assert [row.slots for row in views(tape.replay(), A)][-2:] == ["10-16383", "0-3 10-16383"]


def test_slots_that_their_owner_had_deleted_are_taken_at_once() -> None:
    """CLUSTER ADDSLOTS is one command, some time since the last own header, whatever epoch comes with it."""
    tape = Tape()
    tape.met(A)
    tape.talk(1, A, mine={"slots": "100-16383"}, slots="0-99")
    tape.talk(2, A, mine={"slots": "100-16383"}, slots="0-89", state=1)
    tape.talk(3, A, mine={"slots": "90-16383", "config_epoch": 5, "current_epoch": 5}, slots="0-89", state=1)

    rows = tape.replay()

    assert list(dict.fromkeys(row.slots for row in views(rows, ME)))[-2:] == ["100-16383", "90-16383"]
    assert views(rows, A)[-1].slots == "0-89"
    assert round((views(rows, A)[-1].valid_from_ns - T0) / S, 1) == 2.5


@pytest.mark.parametrize("version", [None, "6.2.14"])
def test_unclaimed_slots_are_dropped_when_the_own_state_fails(version: str | None) -> None:
    """R71, R107: CLUSTER DELSLOTS on a node that is not the owner, which Redis 6.2 takes no note of."""
    tape = Tape()
    if version is not None:
        tape.evidence.append(LogSeen(T0, EventKind.STARTED, f"Redis {version}"))
    tape.met(A)
    tape.talk(1, A, slots="0-16383")
    tape.talk(2, A, slots="0-16382")
    tape.talk(3, A, slots="0-16382", mine={"state": 1})

    assert views(tape.replay(), A)[-1].slots == "0-16382"


def test_an_own_header_sent_after_a_newer_one_is_ignored() -> None:
    """A slow link sends a header that was built for all links before slots moved away."""
    tape = Tape()
    tape.met(A, B)
    tape.talk(1, A, mine={"slots": "0-9"})
    tape.talk(2, A, mine={"slots": "4-9"})
    tape.add(2.03, B, ping(ME, slots="0-9"), sent=True, outbound=True)
    tape.talk(3, A, mine={"slots": "4-9"}, slots="0-3")

    rows = tape.replay()

    assert [row.slots for row in views(rows, ME) if row.slots] == ["0-9", "1-9", "2-9", "3-9", "4-9"]
    assert [row.slots for row in views(rows, A) if row.slots] == ["0", "0-1", "0-2", "0-3"]


def test_an_update_omits_slots_that_the_owner_did_not_claim_after_they_moved() -> None:
    """R77: the owner's header was read between the last own header and the next one, after the slots had moved."""
    tape = Tape()
    tape.met(A, B)
    tape.talk(1, A, mine={"slots": "0-9"}, slots="100-199")
    tape.add(1.9, A, ping(A, slots="100-199"), sent=False, outbound=False)
    tape.talk(2, B, mine={"slots": "4-9"})
    tape.add(2.1, B, update(ME, A, 0, "100-199"), sent=True, outbound=False)
    tape.talk(3, B, mine={"slots": "4-9"})
    tape.talk(4, A, mine={"slots": "4-9"}, slots="0-3 100-199")

    rows = tape.replay()

    assert list(dict.fromkeys(row.slots for row in views(rows, A)))[-1] == "0-3 100-199"
    halfway = at(rows, A, 2.5)
    assert halfway is not None
    assert halfway.slots == "0-3 100-199"


def test_slots_dropped_while_the_own_state_fails_end_at_once() -> None:
    """R71, R107: CLUSTER DELSLOTS reached this node before the owner; the owner's message shows the slots."""
    tape = Tape()
    tape.met(A)
    tape.talk(1, A, slots="0-16383")
    tape.talk(2, A, slots="0-16383", mine={"state": 1})
    tape.add(2.5, A, ping(A, kind=PONG, slots="0-16382"), sent=False, outbound=True)
    tape.talk(3.5, A, slots="0-16382", mine={"state": 1})

    gone = views(tape.replay(), A)[-1]

    assert (gone.slots, round((gone.valid_from_ns - T0) / S, 1)) == ("0-16382", 2.5)


def test_votes_are_granted_by_their_message_and_refused_by_rule() -> None:
    """R90: a vote that is not seen is a refusal with the reason."""
    tape = Tape()
    tape.met(A, B, C)
    own: dict[str, object] = {"slots": "0-99"}
    tape.talk(1, A, mine=own, slots="100-16383")
    tape.talk(1.1, B, mine=own, replicaof=A, slots="100-16383")
    tape.add(1.2, B, fail(B, A), sent=False, outbound=False)
    for at_s, epoch in ((2, 5), (4, 6)):
        request = header(B, MessageType.AUTH_REQUEST, slots="100-16383", replicaof=A, current_epoch=epoch)
        tape.add(at_s, B, Message(request), sent=False, outbound=False)
        if epoch == 5:
            ack = header(ME, MessageType.AUTH_ACK, current_epoch=5, slots="0-99")
            tape.add(2.001, B, Message(ack), sent=True, outbound=True)
        tape.talk(at_s + 1, C, mine={**own, "current_epoch": epoch})

    votes = [row for row in tape.replay() if isinstance(row, VoteRow)]

    assert [(row.epoch, row.granted) for row in votes] == [(5, True), (6, False)]
    assert votes[1].reason == "voted for this master too recently"


def test_failure_reports_have_a_beginning_and_an_end() -> None:
    """R51, R52."""
    tape = Tape()
    tape.met(A, B)
    tape.talk(1, A, slots="0-99")
    tape.add(2, A, ping(A, entry(B, MASTER | PFAIL), slots="0-99"), sent=False, outbound=False)
    tape.add(2.001, A, ping(ME, kind=PONG), sent=True, outbound=False)
    tape.add(3, A, ping(A, entry(B), slots="0-99"), sent=False, outbound=False)
    tape.add(3.001, A, ping(ME, kind=PONG), sent=True, outbound=False)
    tape.talk(3.1, A, slots="0-99")

    (report,) = [row for row in tape.replay() if isinstance(row, FailureReportRow)]

    assert (report.reporter, report.subject, report.end) == (A, B, "withdrawn")
    assert (report.valid_from_ns, report.valid_to_ns) == (T0 + 2 * S, T0 + 3 * S)


def test_an_election_differs_from_a_takeover_and_a_bump() -> None:
    """R79, R93, R97."""
    tape = Tape()
    tape.met(A, B)
    replica: dict[str, object] = {"replicaof": A, "slots": "0-99", "current_epoch": 1}
    tape.talk(1, A, slots="0-99", mine=replica)
    request = header(ME, MessageType.AUTH_REQUEST, slots="0-99", replicaof=A, current_epoch=2)
    tape.add(2, B, Message(request), sent=True, outbound=True)
    tape.talk(3, B, mine={"slots": "0-99", "current_epoch": 2, "config_epoch": 2})
    tape.talk(4, B, mine={"slots": "0-99", "current_epoch": 3, "config_epoch": 3})

    rows = tape.replay()

    assert [(row.epoch, row.mechanism) for row in rows if isinstance(row, EpochRow)] == [(2, "election"), (3, "bump")]
    kinds = [row.kind for row in rows if isinstance(row, EventRow)]
    assert [kind for kind in kinds if kind.startswith("election")] == ["election-started", "election-won"]


def test_a_poll_makes_the_view_equal_to_the_answer() -> None:
    """R128."""
    tape = Tape()
    tape.met(A, B)
    steady(tape, 3, A, B)
    nodes = (
        PolledNode(ME, MASTER | MYSELF, "", 0, 0),
        PolledNode(A, MASTER | FAIL | NOFAILOVER, "", 7, slot_bits("0-99")),
        PolledNode(C, REPLICA, A, 7, 0),
    )
    tape.evidence.append(NodePoll(T0 + 4 * S, nodes))

    rows = tape.replay()

    view = at(rows, A, 4.1)
    assert view is not None
    assert (view.flags, view.config_epoch, view.slots) == ("master,fail,nofailover", 7, "0-99")
    replica = at(rows, C, 4.1)
    assert replica is not None
    assert (replica.master_id, replica.config_epoch) == (A, 7)


def test_a_capture_that_begins_late_learns_nodes_from_links_and_gossip() -> None:
    """No SYN, no MEET: the observer answers and gossips, so it knows."""
    tape = Tape()
    tape.talk(1, A)
    tape.add(2, A, ping(ME, entry(B)), sent=True, outbound=True)
    steady(tape, 4, A, start_s=2.5)

    rows = tape.replay()

    assert views(rows, A)[0].cause == "own link"
    assert views(rows, B)[0].cause == "own gossip"


def test_a_clock_that_jumps_neither_hangs_nor_turns_time_back() -> None:
    """Years ahead, then back."""
    tape = Tape()
    tape.met(A)
    tape.talk(1, A)
    tape.talk(10**8, A)
    replay = ObserverReplay(HOME, node_timeout_ms=2000)
    rows: list[ReplayRow] = []
    for item in [*tape.evidence, tape.evidence[0]._replace(ts_ns=T0)]:
        rows += replay.feed(item)
    rows += replay.finish()

    assert all(row.valid_to_ns is None or row.valid_to_ns > row.valid_from_ns for row in views(rows, A))


@given(
    st.lists(st.tuples(st.integers(0, 700), st.sampled_from([A, B]), st.sampled_from(["", "0-9", "5-20"])), max_size=20)
)
@settings(max_examples=examples(40), deadline=None)
def test_intervals_never_overlap_and_leave_no_gap(talks: list[tuple[int, str, str]]) -> None:
    """SCD type 2 for any input."""
    tape = Tape()
    tape.met(A, B)
    at_s = 1.0
    for wait_ms, peer, slots in talks:
        at_s += 0.01 + wait_ms / 1000
        tape.talk(at_s, peer, slots=slots)

    rows = tape.replay()

    for node in (ME, A, B):
        intervals = views(rows, node)
        assert intervals[-1].valid_to_ns is None
        assert [row.valid_to_ns for row in intervals[:-1]] == [row.valid_from_ns for row in intervals[1:]]
        assert all(row.valid_to_ns is None or row.valid_from_ns < row.valid_to_ns for row in intervals)


def test_connections_separate_an_ended_process_from_a_stopped_one() -> None:
    """A machine closes the connections of a process that ends and refuses new ones; of one that is stopped it accepts them."""
    ended, still = Tape(), Tape()
    for tape in (ended, still):
        tape.met(A, B)
        steady(tape, 3.1, A, B)
    ended.link(3.2, A, "closed")
    ended.link(3.3, B, "refused", outbound=False)
    for second in (3.5, 4.0, 4.5, 5.0):
        still.link(second, B, "opened", outbound=False, by_us=False)
    for tape in (ended, still):
        steady(tape, 7, A, start_s=6)

    processes = [
        [(row.kind, round((row.ts_ns - T0) / S, 1)) for row in tape.replay() if isinstance(row, EventRow)]
        for tape in (ended, still)
    ]

    assert processes == [[("process-ended", 3.2), ("process-started", 6.0)], [("process-idle", 5.0)]]


def test_a_process_that_answers_a_new_connection_at_once_did_not_hang() -> None:
    """When a partition ends, the first packets are new connections to a node that nobody heard for long."""
    tape = Tape()
    tape.met(A, B)
    steady(tape, 3.1, A, B)
    for number in range(3):
        tape.link(6 + number / 1000, B, "opened", outbound=False, by_us=False)
    steady(tape, 9, A, start_s=6.004)

    assert [row.kind for row in tape.replay() if isinstance(row, EventRow)] == []
