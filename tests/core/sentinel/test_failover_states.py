"""The table of failover states: complete, and in the order of the server."""

from __future__ import annotations

import pytest

from cluster_core.sentinel.instance import STATE_BY_WORD, TRANSITIONS, FailoverState, Trigger

WORDS = [
    "none",
    "wait_start",
    "select_slave",
    "send_slaveof_noone",
    "wait_promotion",
    "reconf_slaves",
    "update_config",
]
GIVES_UP = {
    FailoverState.WAIT_START: Trigger.TIMED_OUT,
    FailoverState.SELECT_SLAVE: Trigger.NO_REPLICA,
    FailoverState.SEND_SLAVEOF_NOONE: Trigger.TIMED_OUT,
    FailoverState.WAIT_PROMOTION: Trigger.TIMED_OUT,
}


def test_states_have_the_words_of_the_server():
    """sentinelFailoverStateStr."""
    assert [state.word for state in FailoverState] == WORDS
    assert [STATE_BY_WORD[word] for word in WORDS] == list(FailoverState)


def test_every_state_can_be_reached_and_left():
    """S14: no state is a trap."""
    reached = {transition.after for transition in TRANSITIONS.values()}
    left = {state for state, _ in TRANSITIONS}

    assert reached == left == set(FailoverState)


def test_steps_go_forward_or_give_up():
    """S14: from one state to the next, or back to the beginning."""
    for (state, _), transition in TRANSITIONS.items():
        assert transition.after in (FailoverState((state + 1) % 7), FailoverState.NONE)


@pytest.mark.parametrize("state", list(FailoverState))
def test_a_failover_is_given_up_only_before_the_promotion(state):
    """sentinelAbortFailover: afterwards it ends, if by timeout."""
    aborts = [t for (at, _), t in TRANSITIONS.items() if at is state and t.told and t.told[0].channel.startswith("-")]

    assert (state in GIVES_UP) == bool(aborts)
    if state in GIVES_UP:
        assert TRANSITIONS[state, GIVES_UP[state]] in aborts
