"""What a sample of values tells of savings, and what it cannot."""

from __future__ import annotations

import random

import pytest

from cluster_core.advice.changes import OF_ALL_KEYS
from cluster_core.load.sampling import Draw, Part, Value
from slotscope.sources.keys.value_sample import Sampled, estimate_savings
from tests.builders import rdb_builder as build

ENDING = (9).to_bytes(2, "little") + bytes(8)
"""Version and checksum, as DUMP ends."""


def key(number: int, members: int) -> tuple[Draw, Value]:
    """A string that expires, or a set of so many words: later servers pack these."""
    name = b"k:%d" % number
    if not members:
        return Draw(name, 88), Value(name, b"\x00" + build.string(b"v" * 20) + ENDING, 2_000_000_000_000)
    words = b"".join(build.string(b"member:%d" % at) for at in range(members))
    return Draw(name, 80 * members), Value(name, b"\x02" + build.length(members) + words + ENDING)


def sampled(sets: int, *, whole: bool = False) -> Sampled:
    """1,000 of 100,000 keys, so many of which are sets."""
    chance = random.Random(7)
    keys = [key(number, chance.randrange(80, 120) if number < sets else 0) for number in range(1000)]
    chance.shuffle(keys)
    draws, values = zip(*keys, strict=True)
    part = Part("a:1", "a:1", 1000 if whole else 100_000, draws, whole, values)
    return Sampled(part, "redis 6.2.14", "libc", in_cluster=False)


@pytest.mark.parametrize(("sets", "is_known"), [(2, False), (12, False), (120, True)])
def test_what_an_upgrade_saves_is_not_known_where_few_of_the_keys_read_make_it_up(sets, is_known):
    """All keys hold more such sets, or fewer, than a sample of few of them says."""
    found = estimate_savings([sampled(sets)], b":")
    told = {one.change.subject for one in found.changes if one.change.kind in OF_ALL_KEYS}
    unknown = {one.subject for one in found.unknown}

    assert (b"redis 8.0, libc" in told, b"redis 8.0, libc" in unknown) == (is_known, not is_known)
    assert not told & unknown
