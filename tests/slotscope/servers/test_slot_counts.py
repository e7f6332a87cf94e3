"""Keys of the slots of a master, counted slot by slot in batches of a size that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import pytest

from cluster_core.incidents.symptoms import Checkup
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.resp import RespError
from slotscope.runtime.errors import InputError
from slotscope.servers.node_link import Address
from slotscope.servers.survey import SlotCount, count_every_slot, count_slots
from slotscope.servers.visits import Visit

FIRST, LAST = 100, 5460
UNKNOWN = RespError("ERR unknown subcommand 'SLOT-STATS'")
BUSY = RespError("BUSY Redis is busy running a script")


def master(reply: Callable[[Sequence[Any]], Any], batches: Sequence[int] = (20,)) -> Visit:
    """A master that owns the slots *FIRST* to *LAST*."""
    link: Any = ScriptedLink(reply, cycle(batches))
    line = f"{'a' * 40} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected {FIRST}-{LAST}\n"
    return Visit(Address("10.0.0.1", 6379), Checkup("10.0.0.1:6379", read_nodes(line.encode())), link)


@dataclass
class ScriptedLink:
    """A link that answers every command with *reply*, and allows each size of *batches* in turn."""

    reply: Callable[[Sequence[Any]], Any]
    batches: Iterator[int]
    due_s: float = 0.0

    @property
    def together(self) -> int:
        return next(self.batches)

    def ask(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        return [self.reply(command) for command in commands]


@pytest.mark.parametrize("count", [count_every_slot, lambda visit: count_slots(visit, float("inf"))])
@pytest.mark.parametrize("batches", [[400, 20, 20], [20, 40, 80, 160, 320], [160, 20, 400, 1]])
def test_every_slot_is_counted_exactly_once_while_the_batch_size_changes(count, batches):
    """Busy servers get smaller batches; no slot may be skipped then, nor counted again when batches grow."""
    counted = []

    def reply(command):
        if "SLOT-STATS" in command:
            return UNKNOWN
        counted.append(command[2])
        return command[2] * 3

    actual = count(master(reply, batches))

    assert counted == list(range(FIRST, LAST + 1))
    assert actual == {slot: SlotCount(slot * 3) for slot in counted}


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ([BUSY, BUSY], "BUSY Redis is busy running a script"),
        ([BUSY, 7], "the first reply had no count; run this again"),
        ([b"many", b"many"], "the reply is not a number"),
    ],
)
def test_the_error_names_the_server_the_slot_and_the_reason(replies, reason):
    left = list(replies)

    def reply(command):
        if "SLOT-STATS" in command:
            return UNKNOWN
        return left.pop(0) if command[2] == 4000 else 7

    with pytest.raises(InputError) as raised:
        count_every_slot(master(reply))

    assert str(raised.value) == f"10.0.0.1:6379: cannot count the keys of slot 4000: {reason}"
