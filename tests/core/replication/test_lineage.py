"""Ids and offsets through promotions, resyncs and restarts (P4 to P8)."""

from __future__ import annotations

from cluster_core.replication.psync import NO_OFFSET, Lineage

A, B, C = "a" * 40, "b" * 40, "c" * 40


def test_a_promotion_keeps_the_old_id_up_to_the_next_byte() -> None:
    """P5."""
    lineage = Lineage(A, 100)

    lineage.promote(B)

    assert lineage == Lineage(B, 100, A, 101)
    assert lineage.knows(A, 101)
    assert not lineage.knows(A, 102)


def test_the_same_id_in_a_continue_changes_nothing_and_another_one_becomes_ours() -> None:
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


def test_an_unknown_id_is_nobodys() -> None:
    """An id that nobody has seen equals no id that is asked for."""
    assert not Lineage("", 100).knows("", 1)
