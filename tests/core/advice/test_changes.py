"""Changes that save memory: ranked, and never two for the same bytes."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.advice.changes import (
    AdviceSums,
    Kind,
    Point,
    Step,
    curve,
    rank_changes,
)

SUMS = AdviceSums(
    now=2_000_000, keys=12_000, conditions=[("redis 7.0", "jemalloc"), ("redis 7.2", "jemalloc"), ("valkey 9.1", "jemalloc")],
    memory=[2_000_000, 1_900_000, 1_600_000],
    curves=[Point("hash-max-listpack-entries", 1024, 50, 200_000, 1000, is_knee=True)],
    setting_saved={"hash-max-listpack-entries": [0, 10_000, 120_000]},
)  # fmt: skip


def by_kind(sums):
    return {(change.kind, change.counted): change for change in rank_changes(sums)}


def test_counted_changes_come_first_by_saved_bytes():
    changes = rank_changes(SUMS)
    counted = [change for change in changes if change.counted]

    assert changes[: len(counted)] == counted
    assert [change.saved_bytes for change in counted] == sorted(
        (change.saved_bytes for change in counted), reverse=True
    )
    assert {change.kind for change in counted} == {Kind.SETTING, Kind.UPGRADE}
    assert all(change.how and change.risk and change.undo for change in changes)


def test_an_upgrade_does_not_count_keys_of_other_changes():
    upgrade = by_kind(SUMS)[Kind.UPGRADE, True]

    assert upgrade.subject == b"valkey 9.1, jemalloc"
    assert upgrade.saved_bytes == 400_000 - 120_000


def test_counted_changes_save_less_than_the_total():
    assert sum(change.saved_bytes for change in rank_changes(SUMS) if change.counted) < SUMS.now


def test_a_server_that_does_not_load_these_dumps_is_not_advised():
    """Its figures are among the conditions all the same."""
    sums = replace(SUMS, conditions=[("redis 7.2", "libc"), ("redis 7.0", "libc"), ("redis 7.0", "libc")])

    assert not any(change.kind is Kind.UPGRADE for change in rank_changes(sums))


def test_a_curve_adds_up_and_its_knee_is_the_first_with_most_of_the_gain():
    points = curve("x", [Step(128, 1, 10, 100), Step(256, 5, 80, 250), Step(512, 1, 5, 400)])

    assert [(point.keys, point.saved_bytes, point.walked_max, point.is_knee) for point in points] == [
        (1, 10, 100, False), (6, 90, 250, True), (7, 95, 400, False),
    ]  # fmt: skip
