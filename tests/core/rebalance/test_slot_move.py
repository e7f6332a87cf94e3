"""One slot by hand, key by key."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster_core.errors import ProtocolError
from cluster_core.rebalance.execution.effects import Answered, Migrate, Refused, Reply, Send
from cluster_core.rebalance.execution.journal import StepKind
from cluster_core.rebalance.execution.setslot import SlotMove

OK = Answered("OK")
TAKE = [("b", "SETSLOT 7 NODE b"), ("a", "SETSLOT 7 NODE b"), ("c", "SETSLOT 7 NODE b")]
BUSY = Refused("BUSYKEY Target key name already exists.")


def keys(*names: bytes) -> Answered:
    """The answer to GETKEYSINSLOT."""
    return Answered(list(names))


def sent(move: SlotMove, replies: Sequence[Reply], *, cancelled_after: int = 99, **how) -> list[tuple[str, str]]:
    """The commands of *move* while it gets *replies*, with their nodes; the user cancels it after some replies."""
    answered = 0
    steps = move.commands(lambda: answered > cancelled_after, **how)
    found = []
    try:
        command = next(steps)
        while True:
            words = (
                " ".join(map(str, command.words[1:])) if isinstance(command, Send) else f"MIGRATE {len(command.keys)}"
            )
            replaces = isinstance(command, Migrate) and command.replace
            node = command.node if isinstance(command, Send) else command.source
            found.append((node, words + (" REPLACE" if replaces else "")))
            answered += 1
            command = steps.send(replies[answered - 1])
    except (StopIteration, IndexError):
        return found


def test_a_slot_moves_key_by_key_and_the_target_learns_first():
    move = SlotMove(7, "a", "b", ("c",))

    assert sent(move, [OK, OK, keys(b"x", b"y"), OK, keys(), OK, OK, OK]) == [
        ("b", "SETSLOT 7 IMPORTING a"),
        ("a", "SETSLOT 7 MIGRATING b"),
        ("a", "GETKEYSINSLOT 7 100"),
        ("a", "MIGRATE 2"),
        ("a", "GETKEYSINSLOT 7 100"),
        *TAKE,
    ]
    assert (move.outcome, move.keys_sent) == (StepKind.DONE, 2)


def test_a_key_that_has_arrived_before_is_replaced_once():
    """BUSYKEY after a kill between MIGRATE and its answer."""
    assert sent(SlotMove(7, "a", "b"), [OK, OK, keys(b"x"), BUSY, OK])[3:5] == [
        ("a", "MIGRATE 1"),
        ("a", "MIGRATE 1 REPLACE"),
    ]
    with pytest.raises(ProtocolError, match="slot 7: keys do not move to b: BUSYKEY"):
        sent(SlotMove(7, "a", "b"), [OK, OK, keys(b"x"), BUSY, BUSY])


@pytest.mark.parametrize(
    ("replies", "words"),
    [([BUSY], "refused"), ([OK, OK, keys(b"x"), Refused("IOERR")], "keys do not move to b: IOERR")],
)
def test_an_error_of_a_server_ends_the_move_with_its_reason(replies, words):
    """IOERR: some keys may have arrived; another MIGRATE at once would hold up clients of the source again."""
    move = SlotMove(7, "a", "b")

    with pytest.raises(ProtocolError, match=words):
        sent(move, replies)
    assert move.outcome is StepKind.FAILED


def test_a_slot_that_its_target_owns_already_is_only_announced():
    """Killed between the target's NODE and the others'; a source that became a replica refuses it (redis 9223)."""
    replica = Refused("ERR Please use SETSLOT only with masters.")

    assert sent(SlotMove(7, "a", "b", ("c",)), [OK, replica, Refused("ERR no")], is_owned=True) == TAKE


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_cancelled_move_is_undone_while_no_key_has_moved(after):
    move = SlotMove(7, "a", "b")
    replies = [OK, OK, keys(b"x")][: after + 1]

    assert sent(move, [*replies, OK, OK], cancelled_after=after)[-2:] == [
        ("a", "SETSLOT 7 STABLE"),
        ("b", "SETSLOT 7 STABLE"),
    ]
    assert move.outcome is StepKind.CANCELLED


def test_a_move_whose_keys_have_left_can_only_go_on():
    """Also a resumed one: the keys at its target count as sent."""
    resumed, moving = SlotMove(7, "a", "b", keys_sent=3), SlotMove(7, "a", "b")
    sent(resumed, [OK, OK, keys(), OK, OK], cancelled_after=0)
    sent(moving, [OK, OK, keys(b"x"), OK, keys(), OK, OK], cancelled_after=3)

    assert [resumed.outcome, moving.outcome] == [StepKind.DONE, StepKind.DONE]
