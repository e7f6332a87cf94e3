"""Owners of slots, the commands that change them, and the state of a cluster (R106 to R109)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from cluster_core.errors import ProtocolError
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_map import ClusterState, SlotMap, cluster_state
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node_flags import NodeFlags
from tests.servers import Server, redis_binary, running, valkey_binary

MASTER, PFAIL, FAIL = NodeFlags.MASTER, NodeFlags.PFAIL, NodeFlags.FAIL
THIRDS = {
    "a": SlotSet.from_ranges([(0, 5460)]),
    "b": SlotSet.from_ranges([(5461, 10922)]),
    "c": SlotSet.from_ranges([(10923, 16383)]),
}


def test_counts_and_coverage_follow_every_change() -> None:
    """numslots and coverage are what the owners say."""
    slots = SlotMap()
    slots.add_slots_range("a", [0, 9, 20, 20])
    slots.assign(5, "b")
    slots.del_slots([20])

    assert (slots.numslots("a"), slots.numslots("b"), slots.numslots("c")) == (9, 1, 0)
    assert str(slots.covered()) == "0-9"
    assert str(slots.slots_of("a")) == "0-4 6-9"
    assert (slots[5], slots[20]) == ("b", None)


def test_a_refused_command_changes_nothing() -> None:
    """A server checks all slots before it takes the first (`checkSlotAssignmentsOrReply`)."""
    slots = SlotMap({"a": SlotSet([5])})
    before = slots.owners()

    with pytest.raises(ProtocolError, match=r"^ERR Slot 5 is already busy$"):
        slots.add_slots("b", [3, 4, 5])
    with pytest.raises(ProtocolError, match=r"^ERR Slot 4 is already unassigned$"):
        slots.del_slots([5, 4])

    assert slots.owners() == before


def test_two_nodes_cannot_start_with_the_same_slot() -> None:
    """A map has one owner per slot."""
    with pytest.raises(ValueError, match="slot 7 belongs to a and to b"):
        SlotMap({"a": SlotSet([7]), "b": SlotSet([7])})


@pytest.fixture(scope="module", params=["valkey-server", "redis-server"])
def empty_node(request: pytest.FixtureRequest) -> Iterator[Server]:
    binary = valkey_binary() if request.param == "valkey-server" else redis_binary()
    if binary is None:
        pytest.skip(f"{request.param} is not installed")
    with running(binary, cluster=True) as server:
        yield server


@pytest.mark.servers
def test_replies_and_owners_are_those_of_a_real_server(empty_node: Server) -> None:
    """The server is the oracle: same reply to each of many command lines, same slots after each of them."""
    pick = random.Random(3)
    mine = SlotMap()
    ours, theirs = [], []
    for _ in range(400):
        command, arguments = _command_line(pick)
        theirs.append((command, arguments, empty_node.raw_reply("CLUSTER", command, *arguments)))
        ours.append((command, arguments, _reply(mine, command, arguments)))

    assert ours == theirs
    nodes = empty_node.raw_reply("CLUSTER", "NODES").decode()
    assert str(mine.slots_of("me")) == nodes.split("connected", 1)[1].strip()
    assert {reply.split(b" ")[-1] for _, _, reply in theirs} >= {b"busy\r\n", b"unassigned\r\n", b"times\r\n"}


def _command_line(pick: random.Random) -> tuple[str, list[str]]:
    """A command over few slots, so that they are busy, unassigned, named twice and out of order, or no slots at all."""
    command = pick.choice(["ADDSLOTS", "DELSLOTS", "ADDSLOTSRANGE", "DELSLOTSRANGE"])
    size = pick.randint(1, 4)
    if command.endswith("RANGE"):
        size = 2 * size + (pick.random() < 0.05)
    words = [str(pick.randrange(12)) for _ in range(size)]
    if pick.random() < 0.5:
        words.sort(key=int)
    if pick.random() < 0.15:
        odd = ["16384", "-1", "x", "", "+1", " 1", "01", "1.5", "-0", "00", "9" * 30, "9223372036854775808", "16383"]
        words[pick.randrange(len(words))] = pick.choice(odd)
    return command, words


def _reply(slots: SlotMap, command: str, arguments: list[str]) -> bytes:
    try:
        match command:
            case "ADDSLOTS":
                slots.add_slots("me", arguments)
            case "DELSLOTS":
                slots.del_slots(arguments)
            case "ADDSLOTSRANGE":
                slots.add_slots_range("me", arguments)
            case _:
                slots.del_slots_range(arguments)
    except ProtocolError as refusal:
        return f"-{refusal}\r\n".encode()
    return b"+OK\r\n"


def evaluate(
    flags: dict[str, NodeFlags],
    *,
    before: ClusterState | None = None,
    slots: SlotMap | None = None,
    now_ms: int = 100_000,
    master: bool = True,
    full: bool = True,
) -> ClusterState:
    return cluster_state(
        before or ClusterState(ok=True, first_at_ms=0),
        slots or SlotMap(THIRDS),
        flags,
        myself_is_master=master,
        require_full_coverage=full,
        node_timeout_ms=2000,
        now_ms=now_ms,
    )


def test_a_covered_cluster_with_all_masters_is_ok() -> None:
    """R107, R108."""
    state = evaluate(dict.fromkeys("abc", MASTER))

    assert (state.ok, state.size, state.reachable) == (True, 3, 3)


def test_an_uncovered_slot_is_fatal_only_when_full_coverage_is_required() -> None:
    """R107."""
    slots = SlotMap(THIRDS)
    slots.del_slots([77])
    flags = dict.fromkeys("abc", MASTER)

    assert not evaluate(flags, slots=slots).ok
    assert evaluate(flags, slots=slots, full=False).ok


def test_a_failed_owner_is_like_an_uncovered_slot_but_a_doubted_one_is_not() -> None:
    """R107, R108: FAIL counts for coverage, PFAIL only for the majority."""
    flags = dict.fromkeys("abc", MASTER)

    assert not evaluate(flags | {"b": MASTER | FAIL}).ok
    assert evaluate(flags | {"b": MASTER | FAIL}, full=False).ok
    assert evaluate(flags | {"b": MASTER | PFAIL}).ok


def test_a_minority_fails_and_masters_without_slots_do_not_vote() -> None:
    """R108: quorum is more than half of the masters with slots."""
    flags = {"a": MASTER, "b": MASTER | PFAIL, "c": MASTER | PFAIL, "d": MASTER, "e": MASTER}
    state = evaluate(flags, full=False)

    assert (state.ok, state.size, state.reachable, state.minority_at_ms) == (False, 3, 1, 100_000)


def test_a_master_waits_before_it_returns_from_a_minority_and_a_replica_does_not() -> None:
    """R109: clamp(node timeout, 500, 5000) ms since it was last in a minority."""
    flags = dict.fromkeys("abc", MASTER)
    lost = ClusterState(ok=False, first_at_ms=0, minority_at_ms=100_000)

    assert not evaluate(flags, before=lost, now_ms=101_999).ok
    assert evaluate(flags, before=lost, now_ms=102_000).ok
    assert evaluate(flags, before=lost, now_ms=100_001, master=False).ok


def test_a_master_stays_in_fail_for_two_seconds_after_its_first_evaluation() -> None:
    """R106; nothing is evaluated meanwhile, a replica is not held back."""
    flags = dict.fromkeys("abc", MASTER)
    first = evaluate(flags, before=ClusterState(), now_ms=50_000)

    assert (first.ok, first.first_at_ms, first.size) == (False, 50_000, 0)
    assert not evaluate(flags, before=first, now_ms=51_999).ok
    assert evaluate(flags, before=first, now_ms=52_000).ok
    assert evaluate(flags, before=ClusterState(), now_ms=50_000, master=False).ok


def test_a_cluster_without_slots_fails() -> None:
    """R108: no voting master is below the quorum of one."""
    assert not evaluate({"a": MASTER}, slots=SlotMap(), full=False).ok


def test_slots_out_of_range_have_no_owner() -> None:
    """There are 16384 slots."""
    with pytest.raises(IndexError):
        SlotMap()[SLOT_COUNT]
    with pytest.raises(IndexError):
        SlotMap()[-1]
