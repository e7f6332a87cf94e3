"""Who may go on and who must take everything (P2, P3, P12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.replication.psync import (
    Answer,
    AnswerKind,
    Lineage,
    MasterView,
    Reason,
    Request,
    decide_psync,
)

A, B, C = "a" * 40, "b" * 40, "c" * 40
FULL, PARTIAL, REFUSED = AnswerKind.FULL, AnswerKind.PARTIAL, AnswerKind.REFUSED


def view(**changes) -> MasterView:
    """A master with id A at 500, id B before 300, and bytes 101 to 500 in its backlog."""
    return MasterView(**{"lineage": Lineage(A, 500, B, 300), "backlog": (101, 400), **changes})


@pytest.mark.parametrize(
    ("request_", "changes", "kind", "reason"),
    [
        (Request(A, 400), {}, PARTIAL, Reason.SAME_ID),
        (Request(A, 101), {}, PARTIAL, Reason.SAME_ID),
        (Request(A, 501), {}, PARTIAL, Reason.SAME_ID),
        (Request(A.upper(), 400), {}, PARTIAL, Reason.SAME_ID),
        (Request(B, 300), {}, PARTIAL, Reason.SECOND_ID),
        (Request(A, 400, is_main_channel=True), {}, PARTIAL, Reason.MAIN_CHANNEL),
        (Request("?", -1), {}, FULL, Reason.FORCED),
        (Request(C, 400), {}, FULL, Reason.ID_MISMATCH),
        (Request(B, 301), {}, FULL, Reason.SECOND_ID_PASSED),
        (Request(A, 100), {}, FULL, Reason.BACKLOG_PASSED),
        (Request(A, 502), {}, FULL, Reason.AHEAD),
        (Request(A, 400), {"backlog": None}, FULL, Reason.NO_BACKLOG),
        (Request("", None, is_sync=True), {}, FULL, Reason.SYNC_COMMAND),
        (Request("", None, is_sync=True, is_dump_channel=True), {}, FULL, Reason.DUMP_CHANNEL),
        (Request(A, None), {}, REFUSED, Reason.BAD_OFFSET),
        (Request(A, 400), {"is_replica": True, "is_link_up": False}, REFUSED, Reason.NO_MASTER_LINK),
        (Request(A, 400), {"is_replica": True}, PARTIAL, Reason.SAME_ID),
        (Request(A, 400), {"is_failing_over": True}, REFUSED, Reason.FAILING_OVER),
        (Request(A, 400), {"is_loading": True}, REFUSED, Reason.LOADING),
        (Request(A, 400, failover=True), {}, REFUSED, Reason.NOT_A_REPLICA),
        (Request(C, 400, failover=True), {"is_replica": True}, REFUSED, Reason.OTHER_ID),
        (Request(C, 400, dual_channel=True), {}, FULL, Reason.ID_MISMATCH),
        (Request(C, 400, dual_channel=True), {"dual_channel": True}, AnswerKind.DUAL_CHANNEL, Reason.ID_MISMATCH),
        (Request(A, 400, dual_channel=True), {"dual_channel": True}, PARTIAL, Reason.SAME_ID),
    ],
)
def test_every_reason_has_its_case(request_, changes, kind, reason) -> None:
    """P3, row by row."""
    assert decide_psync(request_, view(**changes)) == Answer(kind, reason)


def test_a_replica_that_is_told_to_take_over_becomes_a_master_and_lets_the_asker_go_on() -> None:
    """P12: the asker's id is the second one then."""
    assert decide_psync(Request(A, 501, failover=True), view(is_replica=True)) == Answer(
        PARTIAL, Reason.FAILOVER, promotes=True
    )


def test_a_replica_that_takes_over_sends_everything_to_an_asker_that_is_ahead() -> None:
    """With FORCE the new master may lack writes of the old one (P6)."""
    assert decide_psync(Request(A, 600, failover=True), view(is_replica=True)) == Answer(
        FULL, Reason.SECOND_ID_PASSED, promotes=True
    )


ids = st.sampled_from([A, B, C, "?"])


@given(
    ids,
    st.integers(-1, 700),
    ids,
    st.integers(0, 600),
    st.integers(-1, 600),
    st.none() | st.tuples(st.integers(1, 600), st.integers(0, 600)),
)
def test_the_decision_is_that_of_the_servers_source(asked, offset, replid2, end, second, backlog) -> None:
    """`masterTryPartialResynchronization`, written down as it stands there."""
    master = MasterView(Lineage(A, end, replid2, second), backlog)

    answer = decide_psync(Request(asked, offset), master)

    refused_id = asked != A and (asked != replid2 or offset > second)
    lacking = backlog is None or offset < backlog[0] or offset > backlog[0] + backlog[1]
    assert (answer.kind is PARTIAL) == (not refused_id and not lacking)
