"""Which replicas may continue and which need a full resynchronization (P3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.replication.psync import NO_OFFSET, Lineage, may_continue

A, B, C = "a" * 40, "b" * 40, "c" * 40


@pytest.mark.parametrize(
    ("replid", "offset", "backlog", "expected"),
    [
        (A, 400, (101, 400), True),
        (A, 101, (101, 400), True),
        (A, 501, (101, 400), True),
        (B, 300, (101, 400), True),
        (B, 301, (101, 400), False),
        (C, 400, (101, 400), False),
        ("", 400, (101, 400), False),
        (A, 100, (101, 400), False),
        (A, 502, (101, 400), False),
        (A, 400, None, False),
    ],
)
def test_a_known_history_within_the_backlog_continues(replid, offset, backlog, expected) -> None:
    """Id A at 500, id B up to 300, and bytes 101 to 500 in the backlog."""
    assert may_continue(Lineage(A, 500, B, 300), backlog, replid, offset) is expected


ids = st.sampled_from([A, B, C])


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
    refused_id = asked != A and (asked != replid2 or offset > second)
    lacking = backlog is None or offset < backlog[0] or offset > backlog[0] + backlog[1]

    assert may_continue(Lineage(A, end, replid2, second), backlog, asked, offset) == (not refused_id and not lacking)


A, B, C = "a" * 40, "b" * 40, "c" * 40


def test_a_promotion_keeps_the_old_id_up_to_the_next_byte() -> None:
    """P5."""
    lineage = Lineage(A, 100)

    lineage.promote(B)

    assert lineage == Lineage(B, 100, A, 101)
    assert lineage.knows(A, 101)
    assert not lineage.knows(A, 102)


def test_the_same_id_in_a_continue_changes_nothing_and_another_id_is_taken() -> None:
    """P4."""
    lineage = Lineage(A, 100)

    lineage.adopt(A)
    assert lineage == Lineage(A, 100)
    lineage.adopt(B)

    assert lineage == Lineage(B, 100, A, 101)


def test_a_full_resync_leaves_no_second_id() -> None:
    """P7."""
    lineage = Lineage(A, 100, B, 50)

    lineage.replace(C, 7)

    assert lineage == Lineage(C, 7, "", NO_OFFSET)


def test_an_unknown_id_has_no_history() -> None:
    """An unknown id equals no requested id."""
    assert not Lineage("", 100).knows("", 1)
