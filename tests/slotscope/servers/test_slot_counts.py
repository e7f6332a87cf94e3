"""Keys of the slots of a master, counted slot by slot in batches of a size that changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import pytest

from cluster_core.incidents.symptoms import Checkup
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.resp import RespError
from slotscope.runtime.errors import InputError
from slotscope.servers.slot_counts import SlotCount, count_every_slot, count_slots
from slotscope.servers.visits import Conversation, Visit
from tests.benches.simulated_keys import Clock, SimulatedKeys

FIRST, LAST = 100, 5460
UNKNOWN = RespError("ERR unknown subcommand 'SLOT-STATS'")
BUSY = RespError("BUSY Redis is busy running a script")


def master() -> Visit:
    """A master that owns the slots *FIRST* to *LAST*."""
    visit = SimulatedKeys({}, Clock()).visit()
    line = f"{'a' * 40} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected {FIRST}-{LAST}\n"
    visit.checkup = Checkup("10.0.0.1:6379", read_nodes(line.encode()))
    return visit


def converse(
    visit: Visit, conversation: Conversation[Any], reply: Callable[[Sequence[Any]], Any], batches: Sequence[int] = (20,)
) -> Any:
    """Answer every command with *reply*; the link allows each size of *batches* in turn."""
    sizes, replies = cycle(batches), None
    while True:
        visit.link.together = next(sizes)
        try:
            question = conversation.send(replies)
        except StopIteration as end:
            return end.value
        replies = [reply(command) for command in question.commands]


@pytest.mark.parametrize("count", [count_every_slot, lambda visit: count_slots(visit, float("inf"))])
@pytest.mark.parametrize("batches", [[400, 20, 20], [20, 40, 80, 160, 320], [160, 20, 400, 1]])
def test_every_slot_is_counted_exactly_once_while_the_batch_size_changes(count, batches):
    """Busy servers get smaller batches; no slot may be skipped then, nor counted again when batches grow."""
    visit, counted = master(), []

    def reply(command):
        if "SLOT-STATS" in command:
            return UNKNOWN
        counted.append(command[2])
        return command[2] * 3

    found = converse(visit, count(visit), reply, batches)

    assert counted == list(range(FIRST, LAST + 1))
    assert found == {slot: SlotCount(slot * 3) for slot in counted}


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ([BUSY, BUSY], "BUSY Redis is busy running a script"),
        ([BUSY, 7], "the first reply had no count; run this again"),
        ([b"many", b"many"], "the reply is no number"),
    ],
)
def test_the_error_names_the_server_the_slot_and_the_reason(replies, reason):
    visit, left = master(), list(replies)

    def reply(command):
        if "SLOT-STATS" in command:
            return UNKNOWN
        return left.pop(0) if command[2] == 4000 else 7

    with pytest.raises(InputError) as raised:
        converse(visit, count_every_slot(visit), reply)

    assert str(raised.value) == f"10.0.0.1:6379: cannot count the keys of slot 4000: {reason}"
