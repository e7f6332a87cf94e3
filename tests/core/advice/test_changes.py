"""Changes that save memory: ranked, and never two for the same bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_core.advice.changes import (
    AdviceSums,
    Kind,
    Point,
    PrefixSums,
    Step,
    TextSums,
    curve,
    rank_changes,
)

PREFIX = PrefixSums(
    name=b"session:", keys=10_000, now=1_000_000, memory=[1_000_000, 900_000, 800_000], bucket_saved=[0, 60_000, 80_000],
    bucket_keys=5_000, bucket_now=500_000, bucket_payload=100_000,
    lzf_saving=60_000, texts=TextSums(900, 180_000, 900, 180_000, 90_000),
)  # fmt: skip
SUMS = AdviceSums(
    now=2_000_000, keys=12_000, conditions=[("redis 7.0", "jemalloc"), ("redis 7.2", "jemalloc"), ("valkey 9.1", "jemalloc")],
    memory=[2_000_000, 1_900_000, 1_600_000],
    curves=[Point("hash-max-listpack-entries", 1024, 50, 200_000, 1000, is_knee=True)],
    setting_saved={"hash-max-listpack-entries": [0, 10_000, 120_000]},
    prefixes=[PREFIX], bucket_bytes=120,
)  # fmt: skip


def by_kind(sums):
    return {(one.kind, one.counted): one for one in rank_changes(sums)}


def test_counted_changes_come_first_by_what_they_save():
    changes = rank_changes(SUMS)
    counted = [one for one in changes if one.counted]

    assert changes[: len(counted)] == counted
    assert [one.saved_bytes for one in counted] == sorted((one.saved_bytes for one in counted), reverse=True)
    assert {one.kind for one in counted} == {Kind.SETTING, Kind.BUCKET, Kind.COMPRESS, Kind.UPGRADE}
    assert all(one.how and one.risk and one.undo for one in changes)


def test_an_upgrade_claims_nothing_of_keys_that_other_changes_lay_out_anew():
    upgrade = by_kind(SUMS)[Kind.UPGRADE, True]

    assert upgrade.subject == b"valkey 9.1, jemalloc"
    assert upgrade.saved_bytes == 400_000 - 120_000 - 80_000


def test_all_counted_changes_together_save_less_than_there_is():
    assert sum(one.saved_bytes for one in rank_changes(SUMS) if one.counted) < SUMS.now


@pytest.mark.parametrize(("prefix", "told"), [(b"{tenant:", False), (b"a}b{", False), (b"{eu}:", True), (b"x}:", True)])
def test_no_prefix_that_ends_inside_a_hash_tag_is_put_into_buckets(prefix, told):
    kinds = {change.kind for change in rank_changes(replace(SUMS, prefixes=[replace(PREFIX, name=prefix)]))}

    assert (Kind.BUCKET in kinds) is told


def test_compression_says_what_was_measured_and_how_near_it_is():
    sampled = TextSums(900_000, 180_000_000, 1000, 175_000_000, 87_500_000, 10**10, 10**10, 10**10)
    whole = by_kind(SUMS)[Kind.COMPRESS, True]
    (part,) = (
        one
        for one in rank_changes(replace(SUMS, prefixes=[replace(PREFIX, texts=sampled)]))
        if one.kind is Kind.COMPRESS
    )

    assert "zstd saves 50 % of 180,000 bytes (all were compressed); LZF, as the dump has it: 33 %" in whole.how
    assert "zstd saves 50 % of 180,000,000 bytes (± 0.9, 1,000 were compressed)" in part.how
    assert part.saved_bytes == 90_000_000
    live = replace(PREFIX, lzf_saving=0, texts=TextSums(9000, 180_000, 40, 180_000, 90_000))
    assert "bytes (40 were compressed)" in by_kind(replace(SUMS, prefixes=[live]))[Kind.COMPRESS, True].how


def test_a_server_that_does_not_load_these_dumps_is_not_advised():
    """Its figures are among the conditions all the same."""
    sums = replace(SUMS, conditions=[("redis 7.2", "libc"), ("redis 7.0", "libc"), ("redis 7.0", "libc")])

    assert not any(one.kind is Kind.UPGRADE for one in rank_changes(sums))


def test_a_curve_adds_up_and_its_knee_is_the_first_that_brings_most():
    points = curve("x", [Step(128, 1, 10, 100), Step(256, 5, 80, 250), Step(512, 1, 5, 400)])

    assert [(one.keys, one.saved_bytes, one.walked_max, one.is_knee) for one in points] == [
        (1, 10, 100, False), (6, 90, 250, True), (7, 95, 400, False),
    ]  # fmt: skip
