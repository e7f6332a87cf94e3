"""Owners of slots, and the commands that change them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from cluster_core.errors import ProtocolError
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_map import SlotMap
from cluster_core.slots.slot_set import SlotSet
from tests.benches.servers import Server, redis_binary, running, valkey_binary


def test_coverage_follows_every_change() -> None:
    """Coverage is what the owners say."""
    slots = SlotMap()
    slots.add_slots_range("a", [0, 9, 20, 20])
    slots.assign(5, "b")
    slots.del_slots([20])

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


def test_slots_out_of_range_have_no_owner() -> None:
    """There are 16384 slots."""
    with pytest.raises(IndexError):
        SlotMap()[SLOT_COUNT]
    with pytest.raises(IndexError):
        SlotMap()[-1]
