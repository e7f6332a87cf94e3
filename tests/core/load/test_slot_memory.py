"""Memory of slots from keys that were drawn."""

from __future__ import annotations

import random

import pytest

from cluster_core.load.sampling import (
    DATASET_BYTES_MIN,
    Part,
    SampledKey,
    SlotMemory,
    SlotPart,
    estimate_slot_memory,
    fit_shares,
    parts_of_slots,
)
from cluster_core.slots.key_slot import key_slot

TAGS = [b"{%d}" % number for number in range(50)]


def keys_by_slot(keys):
    counts = {}
    for key in keys:
        counts[key_slot(key)] = counts.get(key_slot(key), 0) + 1
    return counts


def drawn(sizes, count, seed=1):
    chance = random.Random(seed)
    names = sorted(sizes)
    return [SampledKey(key, sizes[key]) for key in chance.choices(names, k=count)]


def test_keys_that_were_all_measured_are_summed():
    sizes = {TAGS[n % 5] + b"%d" % n: 100 + n for n in range(40)}
    part = Part("a", "a", 40, [SampledKey(key, size) for key, size in sizes.items()], whole=True)

    estimate = estimate_slot_memory([part], keys_by_slot(sizes))

    assert estimate.total == sum(sizes.values())
    assert estimate.error == 0
    assert estimate.bytes_by_slot[key_slot(TAGS[0])] == sum(
        size for key, size in sizes.items() if key.startswith(TAGS[0])
    )


@pytest.mark.long
def test_slots_with_similar_keys_share_a_mean():
    """Where slots do not differ a slot's few draws say nothing; where one holds ten times larger keys they do."""
    chance = random.Random(3)
    alike = {tag + b"%d" % n: chance.randrange(50, 150) for tag in TAGS for n in range(100)}
    apart = {key: size * 10 if key.startswith(TAGS[0]) else size for key, size in alike.items()}
    first, other = key_slot(TAGS[0]), key_slot(TAGS[1])

    for sizes in (alike, apart):
        estimate = estimate_slot_memory([Part("a", "a", 5000, drawn(sizes, 1000))], keys_by_slot(sizes))
        truth = {
            slot: sum(size for key, size in sizes.items() if key_slot(key) == slot) for slot in keys_by_slot(sizes)
        }
        assert abs(estimate.total / sum(sizes.values()) - 1) <= 1.5 * estimate.error
        assert abs(estimate.bytes_by_slot[first] / truth[first] - 1) < 0.15
        assert abs(estimate.bytes_by_slot[other] / truth[other] - 1) < 0.15


def test_one_huge_key_is_counted_once():
    """Drawn once among a tenth of all keys, it is not taken for ten."""
    sizes = {tag + b"%d" % n: 100 for tag in TAGS for n in range(20)}
    huge = TAGS[0] + b"0"
    draws = [*drawn(sizes, 99), SampledKey(huge, 1_000_000)]

    estimate = estimate_slot_memory([Part("a", "a", 1000, draws)], keys_by_slot(sizes))

    assert estimate.bytes_by_slot[key_slot(huge)] == 1_000_000 + 19 * 100
    assert estimate.bytes_by_slot[key_slot(TAGS[1])] == 2000


def test_without_a_sample_memory_is_unknown():
    assert estimate_slot_memory([], {5: 0}) == SlotMemory({5: 0}, 0.0, 0, 0)


def test_the_parts_of_a_slot_are_its_tags_and_keys_the_heaviest_first():
    """Keys of other slots are left out; a tag of one key is that key."""
    keys = [SampledKey(b"{a}:%d" % n, 100) for n in range(9)] + [SampledKey(b"{a}:big", 5000), SampledKey(b"{b}:1", 70)]
    slot = key_slot(b"{a}")

    parts = parts_of_slots([Part("m", "m", len(keys), keys, whole=True)], {slot})

    assert parts[slot][:3] == [
        SlotPart(b"a", None, 10, 5900),
        SlotPart(b"a", b"{a}:big", 1, 5000),
        SlotPart(b"a", b"{a}:0", 1, 100),
    ]
    assert list(parts) == [slot]


def test_masters_get_the_shares_reported_by_their_servers():
    """The sum of all stays; small or contradicting figures change nothing."""
    share, two = SlotMemory({1: 600, 2: 400}, 0.1, 5, 50), SlotMemory({3: 1000}, 0.1, 5, 50)
    big = DATASET_BYTES_MIN

    fitted = fit_shares([share, two], [big * 11, big * 9])

    assert fitted is not None
    assert [master.bytes_by_slot for master in fitted] == [{1: 660, 2: 440}, {3: 900}]
    assert fit_shares([share, two], [big - 1, big * 9]) is None
    assert fit_shares([share, two], [big, big * 9]) is None
