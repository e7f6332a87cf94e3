"""Memory of keys measured at a server: all of them, or as much as the time allows, with ranges that hold the truth."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cluster_core.load.sampling import (
    Part,
    SampledKey,
    biggest,
    estimate_all,
    estimate_groups,
    estimate_slot_memory,
    key_memory_limits,
    sums_by_slot,
)
from cluster_core.slots.key_slot import key_slot
from slotscope.servers import measuring
from slotscope.servers.measuring import jobs_of, measure_parts
from tests.benches.simulated_keys import COMMAND_S, Clock, SimulatedKeys

KEYS = 4_000
Sizes = dict[bytes, tuple[str, int]]


def few_giants(chance: random.Random) -> Sizes:
    """Small strings, and up to a dozen strings or sorted sets that are much larger."""
    keys = {b"user:%d" % n: ("string", chance.randrange(60, 4000)) for n in range(KEYS)}
    giants = chance.randrange(1, 13)
    kind = chance.choice(("string", "zset"))
    return keys | {b"board:%d" % n: (kind, chance.randrange(200_000, 3_000_000)) for n in range(giants)}


def hot_tags(chance: random.Random) -> Sizes:
    """A fifth of the keys under one tag, all of one size."""
    size = chance.randrange(100, 8000)
    keys = {b"{tenant:%d}:%d" % (n % 200 + 1, n): ("hash", chance.randrange(60, 4000)) for n in range(KEYS * 4 // 5)}
    return keys | {b"{tenant:0}:%d" % n: ("string", size) for n in range(KEYS // 5)}


def all_small(chance: random.Random) -> Sizes:
    """Strings that differ little."""
    return {b"k:%d" % n: ("string", chance.randrange(56, 700)) for n in range(KEYS)}


def heavy_tails(chance: random.Random) -> Sizes:
    """Sizes with a mean made by few."""
    spread = chance.choice((1.5, 2.0, 2.5))
    return {b"c:%d" % n: ("string", 56 + int(chance.lognormvariate(6, spread))) for n in range(KEYS)}


SHAPES: tuple[Callable[[random.Random], Sizes], ...] = (few_giants, hot_tags, all_small, heavy_tails)


def measured(server: SimulatedKeys, seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    monkeypatch.setattr(measuring, "time", server.clock)
    visit = server.visit()
    (job,) = jobs_of([(visit, visit)])
    parts, why = measure_parts(job, seconds)
    assert not why
    return parts


def seconds_for_all(keys: Sizes) -> float:
    return COMMAND_S * len(keys) * 1.3


@pytest.mark.parametrize("shape", SHAPES)
def test_all_keys_are_measured_if_time_allows(shape, monkeypatch):
    keys = shape(random.Random(5))
    server = SimulatedKeys(keys, Clock())

    (part,) = measured(server, seconds_for_all(keys), monkeypatch)
    by_slot: dict[int, int] = {}
    for key, (_, size) in keys.items():
        by_slot[key_slot(key)] = by_slot.get(key_slot(key), 0) + size
    actual = estimate_slot_memory([part], dict.fromkeys(by_slot, 1))

    assert part.whole
    assert estimate_all([part]).memory_bytes == (server.memory_bytes, 0.0, False)
    assert (actual.bytes_by_slot, actual.error) == (by_slot, 0.0)
    assert server.sent["RANDOMKEY"] == 0


def test_sums_and_the_largest_keys_are_exact_beyond_the_kept_keys(monkeypatch):
    """Totals and slots have no error; groups of keys have one, and it holds the truth."""
    keys = few_giants(random.Random(8))
    monkeypatch.setattr(measuring, "KEPT_MAX", 2_000)
    monkeypatch.setattr(measuring, "LARGEST_KEPT", 50)
    server = SimulatedKeys(keys, Clock())

    (part,) = measured(server, seconds_for_all(keys), monkeypatch)
    (users,) = estimate_groups([part], lambda draw: [b"user"] if draw.key.startswith(b"user") else []).values()
    truth = sum(size for key, (_, size) in keys.items() if key.startswith(b"user"))

    assert not part.whole
    assert len(part.draws) == 2_000
    assert {draw.key for draw in part.large} > {key for key in keys if key.startswith(b"board")}
    assert estimate_all([part]).memory_bytes == (server.memory_bytes, 0.0, False)
    assert abs(users.memory_bytes.value - truth) <= 2 * users.memory_bytes.error
    assert abs(users.keys.value - KEYS) <= 2 * users.keys.error + 1


@pytest.mark.long
def test_ranges_of_a_sample_hold_the_truth_in_93_of_100_data_sets(monkeypatch):
    """200 data sets of four shapes, a third of the time that all keys take; no range ends above what INFO leaves for keys."""
    hits = {shape.__name__: 0 for shape in SHAPES}
    errors = []
    for seed in range(200):
        shape = SHAPES[seed % len(SHAPES)]
        server = SimulatedKeys(shape(random.Random(seed)), Clock(), seed)
        (part,) = measured(server, seconds_for_all(dict(server.keys)) / 3, monkeypatch)
        actual = estimate_all([part]).memory_bytes
        assert not part.is_measured
        assert part.limits is not None
        assert actual.value + actual.error <= part.limits[1] + 1
        hits[shape.__name__] += abs(actual.value - server.memory_bytes) <= actual.error
        errors.append(actual.error / actual.value)

    assert sum(hits.values()) >= 0.93 * 200, hits
    assert min(hits.values()) >= 0.9 * 200 / len(SHAPES), hits
    assert sorted(errors)[100] < 0.35


def test_large_collections_are_listed_although_not_all_keys_are_measured(monkeypatch):
    """SCAN TYPE returns them: each counts by itself, and its slot has its memory."""
    keys = all_small(random.Random(2)) | {b"board:%d" % n: ("zset", 2_300_000) for n in range(6)}
    server = SimulatedKeys(keys, Clock())

    (part,) = measured(server, seconds_for_all(keys) / 3, monkeypatch)
    counts: dict[int, int] = {}
    for key in keys:
        counts[key_slot(key)] = counts.get(key_slot(key), 0) + 1
    slots = estimate_slot_memory([part], counts).bytes_by_slot

    assert not part.is_measured
    assert {draw.key for draw in part.large} == {b"board:%d" % n for n in range(6)}
    assert all(2_300_000 <= slots[key_slot(b"board:%d" % n)] < 2_310_000 for n in range(6))


def test_limits_of_info_leave_out_memory_beside_keys():
    """Buffers of clients and replicas, and memory used at the start."""
    info = {"used_memory": "100000000", "used_memory_startup": "2000000", "mem_clients_normal": "1000000", "db0": "keys=9,expires=100000"}  # fmt: skip

    least, most = key_memory_limits(info, 200_000)

    assert most == 97_000_000
    assert 0.75 * most < least < 0.9 * most
    assert key_memory_limits({"used_memory": "5"}, 3) is None


def test_a_sample_uses_all_the_time_and_counts_more_keys_than_are_kept(monkeypatch):
    """Totals and slots come from every draw, whether it was kept or not; the largest of all draws are known."""
    keys = heavy_tails(random.Random(4))
    (whole,) = measured(SimulatedKeys(keys, Clock()), seconds_for_all(keys) / 3, monkeypatch)
    monkeypatch.setattr(measuring, "KEPT_MAX", 100)
    monkeypatch.setattr(measuring, "LARGEST_KEPT", 20)

    (part,) = measured(SimulatedKeys(keys, Clock()), seconds_for_all(keys) / 3, monkeypatch)
    counts = {
        slot: sums[0] for slot, sums in sums_by_slot(SampledKey(key, size) for key, (_, size) in keys.items()).items()
    }

    assert len(part.draws) == 100
    assert part.drawn == len(whole.draws) > 300
    assert estimate_all([part]).memory_bytes == pytest.approx(estimate_all([whole]).memory_bytes)
    assert estimate_slot_memory([part], counts) == estimate_slot_memory([whole], counts)
    assert biggest([part], 20) == [(part, draw) for _, draw in biggest([whole], 20)]


@pytest.mark.parametrize(("seconds", "command_s"), [(2, 1), (1, 0.5)])
def test_twice_the_time_or_the_pace_draws_twice_as_many_keys(seconds, command_s, monkeypatch):
    """No other limit: of keys that are kept there are few."""
    keys = all_small(random.Random(6))
    monkeypatch.setattr(measuring, "KEPT_MAX", 50)

    def drawn(times: float, pace: float) -> int:
        server = SimulatedKeys(keys, Clock(), command_s=pace * COMMAND_S)
        server.together = 40
        (part,) = measured(server, times * seconds_for_all(keys) / 8, monkeypatch)
        assert not part.is_measured
        return part.drawn

    assert drawn(seconds, command_s) == pytest.approx(2 * drawn(1, 1), rel=0.2)
