"""One slot by hand, key by key."""

from __future__ import annotations

import pytest

from cluster_core.errors import ProtocolError
from cluster_core.rebalance.execution.slot_move import (
    _HANDLERS,
    Accepted,
    Listed,
    Migrate,
    Owned,
    Refused,
    Send,
    SlotMove,
    Started,
    State,
    Stopped,
)


def said(effects) -> list[tuple[str, str]]:
    """What is sent, and to whom."""
    return [
        (e.node, " ".join(map(str, e.words[1:]))) if isinstance(e, Send) else (e.source, f"MIGRATE {len(e.keys)}")
        for e in effects
        if isinstance(e, Send | Migrate)
    ]


def test_a_slot_moves_key_by_key_and_the_target_learns_first():
    """IMPORTING at the target, MIGRATING at the source, keys until none is left, NODE at target, source, others."""
    move = SlotMove(7, "a", "b", ("c",))
    events = [
        Started(),
        Accepted(),
        Accepted(),
        Listed((b"x", b"y")),
        Accepted(),
        Listed(()),
        Accepted(),
        Accepted(),
        Accepted(),
    ]

    assert [line for event in events for line in said(move.handle(event))] == [
        ("b", "SETSLOT 7 IMPORTING a"),
        ("a", "SETSLOT 7 MIGRATING b"),
        ("a", "GETKEYSINSLOT 7 100"),
        ("a", "MIGRATE 2"),
        ("a", "GETKEYSINSLOT 7 100"),
        ("b", "SETSLOT 7 NODE b"),
        ("a", "SETSLOT 7 NODE b"),
        ("c", "SETSLOT 7 NODE b"),
    ]
    assert (move.state, move.keys_sent) == (State.DONE, 2)


def moved_to(state: State) -> SlotMove:
    return SlotMove(7, "a", "b", ("c",), state=state, pending=(b"x",) if state is State.SENDING else ())


def test_a_key_that_has_arrived_before_is_replaced_once():
    """BUSYKEY after a crash between MIGRATE and its answer."""
    move = moved_to(State.SENDING)

    assert move.handle(Refused("BUSYKEY Target key name already exists.")) == [Migrate("a", "b", (b"x",), replace=True)]
    with pytest.raises(ProtocolError, match="keys do not move to b"):
        move.handle(Refused("BUSYKEY Target key name already exists."))


def test_a_target_that_does_not_answer_its_source_is_for_the_caller_to_wait_for():
    """IOERR: some keys may have arrived; another MIGRATE at once would hold up the source's clients again."""
    move = moved_to(State.SENDING)

    with pytest.raises(ProtocolError, match="slot 7: keys do not move to b: IOERR"):
        move.handle(Refused("IOERR error or timeout reading to target instance"))
    assert not move.can_stop


def test_a_slot_that_its_target_owns_already_is_only_told():
    """Killed between the target's NODE and the others'."""
    move = SlotMove(7, "a", "b", ("c",))

    assert [line for event in (Owned(), Accepted(), Accepted(), Accepted()) for line in said(move.handle(event))] == [
        ("b", "SETSLOT 7 NODE b"),
        ("a", "SETSLOT 7 NODE b"),
        ("c", "SETSLOT 7 NODE b"),
    ]
    assert move.state is State.DONE


def test_a_resumed_move_whose_keys_have_left_cannot_be_undone():
    """The target's count of keys is given as those that were sent."""
    move = SlotMove(7, "a", "b", keys_sent=3)
    move.handle(Started())

    assert not move.can_stop
    with pytest.raises(ProtocolError, match="it can only go on"):
        move.handle(Stopped())
    fresh = SlotMove(7, "a", "b")
    fresh.handle(Started())
    assert fresh.can_stop


def test_a_source_that_became_a_replica_need_not_be_told():
    """redis 9223: its last slot is gone, it follows the target."""
    move = moved_to(State.GIVING)
    effects = move.handle(Refused("ERR Please use SETSLOT only with masters."))

    assert said(effects) == [("c", "SETSLOT 7 NODE b")]


def test_a_move_is_undone_while_no_key_has_moved_and_never_after():
    """SETSLOT STABLE on both; with keys at the target the slot can only go on."""
    move = moved_to(State.MIGRATING)
    lines = [line for event in (Stopped(), Accepted(), Accepted()) for line in said(move.handle(event))]

    assert lines == [("a", "SETSLOT 7 STABLE"), ("b", "SETSLOT 7 STABLE")]
    assert move.state is State.UNDONE
    with pytest.raises(ProtocolError, match="it can only go on"):
        moved_to(State.SENDING).handle(Stopped())


@pytest.mark.parametrize("state", [s for s in State if s not in (State.DONE, State.UNDONE)])
def test_every_step_can_begin_again(state):
    """After a kill at any step the same commands are repeated from the first."""
    assert said(moved_to(state).handle(Started())) == [("b", "SETSLOT 7 IMPORTING a")]


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", [Accepted(), Listed(()), Refused("ERR no"), Stopped()])
def test_every_pair_of_state_and_event_is_known_or_refused(state, event):
    """No event is swallowed."""
    move = moved_to(state)
    known = (state, type(event)) in _HANDLERS
    outcome = attempt(move, event)

    assert isinstance(outcome, ProtocolError) or (known and outcome)


def attempt(move: SlotMove, event):
    """The effects, or the error that says why not."""
    try:
        return move.handle(event)
    except ProtocolError as error:
        return error
