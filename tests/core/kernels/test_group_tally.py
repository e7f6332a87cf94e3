"""The table of heavy groups: exact while it has room, within its error bound beyond."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.slots.key_slot import hash_tag
from tests.builders.key_batches import key_batch

NAMES = st.sampled_from([f"u{number}".encode() for number in range(60)])
KEYS = st.lists(
    st.tuples(
        st.one_of(
            NAMES,
            NAMES.map(lambda name: b"{" + name + b"}:x"),
            st.tuples(NAMES, NAMES, NAMES).map(b":".join),
            st.binary(max_size=12),
        ),
        st.integers(0, 1 << 40),
        st.integers(-1, 1 << 45),
        st.integers(-1, 1 << 40),
    ),
    max_size=300,
)


def rows_of(tally):
    """Counts and depth of each group by its name."""
    columns = ("keys", "bytes", "memory", "expires", "keys_error", "bytes_error", "memory_error", "depth")
    rows = (dict(zip(columns, row, strict=True)) for row in tally.counts().tolist())
    return dict(zip(tally.names().to_pylist(), rows, strict=True))


def measured(keys):
    return key_batch([key[:3] for key in keys], memory=[memory for *_, memory in keys])


@given(KEYS, st.integers(1, 4))
def test_a_table_with_room_counts_every_prefix(keys, depth):
    """Up to *depth* of them, each with the separator that ends it."""
    tally = GroupTally(4096)

    tally.add_prefixes(measured(keys), b":/", depth)

    expected: Counter[tuple[bytes, int]] = Counter()
    sizes: Counter[tuple[bytes, int]] = Counter()
    for key, size, *_ in keys:
        ends = [at for at, byte in enumerate(key) if byte in b":/"][:depth]
        for parts, end in enumerate(ends, 1):
            expected[key[: end + 1], parts] += 1
            sizes[key[: end + 1], parts] += size
    assert {(name, row["depth"]): (row["keys"], row["bytes"]) for name, row in rows_of(tally).items()} == {
        name: (expected[name], sizes[name]) for name in expected
    }


@given(KEYS, st.integers(16, 24))
def test_true_counts_lie_between_the_count_and_the_count_plus_its_error(keys, capacity):
    tally = GroupTally(capacity)
    true_keys: Counter[bytes] = Counter()
    true_bytes: Counter[bytes] = Counter()
    true_memory: Counter[bytes] = Counter()
    for key, size, _, memory in keys:
        tag = hash_tag(key)
        if tag is not None:
            true_keys[tag] += 1
            true_bytes[tag] += size
            true_memory[tag] += max(memory, 0)

    tally.add_tags(measured(keys))

    rows = rows_of(tally)
    assert set(rows) <= set(true_keys)
    for name, keys_of_name in true_keys.items():
        row = rows.get(name)
        if row is None:
            assert keys_of_name <= tally.missed_keys
            assert true_bytes[name] <= tally.missed_bytes
            assert true_memory[name] <= tally.missed_memory
        else:
            assert row["keys"] <= keys_of_name <= row["keys"] + row["keys_error"]
            assert row["bytes"] <= true_bytes[name] <= row["bytes"] + row["bytes_error"]
            assert row["memory"] <= true_memory[name] <= row["memory"] + row["memory_error"]


def test_many_long_names_make_the_arena_grow_and_none_is_lost():
    keys = [(b"{" + bytes(str(number), "ascii").rjust(900, b"x") + b"}", 1, -1) for number in range(5000)]
    tally = GroupTally(8192)

    tally.add_tags(key_batch(keys))

    assert tally.counts()[:, :3].tolist() == [[1, 1, 0]] * 5000


def test_a_group_heavy_in_one_load_outlasts_thousands_of_light_ones():
    heavy = [(b"{keys}", 1, -1, 0)] * 99 + [(b"{bytes}", 1 << 30, -1, 0), (b"{memory}", 1, -1, 1 << 30)]
    tally = GroupTally(16)

    tally.add_tags(measured(heavy + [(b"{%d}" % number, 9, -1, 9) for number in range(3000)]))

    assert {b"keys", b"bytes", b"memory"} <= set(rows_of(tally))
