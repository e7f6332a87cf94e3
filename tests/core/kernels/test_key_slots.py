"""The kernel is the batch twin of `key_slot`: same slots for every key in every Arrow layout (R112, R113)."""

from __future__ import annotations

import crcmod.predefined
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster_core.kernels.key_slots import key_slots, key_slots_of
from cluster_core.slots.key_slot import hash_tag, key_slot

XMODEM = crcmod.predefined.mkCrcFun("xmodem")
KEYS = st.one_of(
    st.binary(max_size=200),
    st.text(alphabet="{}ab\x00", max_size=20).map(str.encode),
    st.tuples(st.integers(0, 90), st.integers(0, 90), st.integers(0, 90)).map(
        lambda parts: b"x" * parts[0] + b"{" + b"y" * parts[1] + b"}" + b"z" * parts[2]
    ),
)
PADDING = b"}" * 80  # behind the last key: keys are then hashed by whole words, and what follows must not count


@given(st.lists(KEYS, max_size=20))
@example([b"", b"{}", b"{a}", b"a{", b"}", *(bytes([33 + length]) * length for length in range(66))])
@example([b"{" + b"x" * 62, b"}", b"{" + b"x" * 40 + b"}", b"{" + b"x" * 63 + b"}", b"{" * 64 + b"}"])
def test_the_batch_equals_the_plain_function_and_an_independent_crc(keys: list[bytes]) -> None:
    """R112, R113."""
    slots = key_slots(pa.array([*keys, PADDING], pa.binary()))[:-1]

    assert slots.dtype == np.uint16
    assert slots.tolist() == [key_slot(key) for key in keys]
    assert slots.tolist() == [XMODEM(hash_tag(key) or key) & 16383 for key in keys]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.string(),
        pa.large_binary(),
        pa.large_string(),
        pa.binary_view(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.binary()),
    ],
    ids=str,
)
def test_every_layout_of_a_column_gives_the_same_slots(kind: pa.DataType) -> None:
    """Also slices with offsets that do not begin at 0, and chunks."""
    keys = [f"user:{{{number % 7}}}:ä{number}" for number in range(50)] + ["", "short"]
    expected = [key_slot(word.encode()) for word in keys]
    column = pa.array(keys, pa.string()).cast(kind)

    assert key_slots(column).tolist() == expected
    assert key_slots(column[3:40]).tolist() == expected[3:40]
    assert key_slots(column[:1]).tolist() == expected[:1]
    assert key_slots(column[52:]).tolist() == []
    assert key_slots(pa.chunked_array([column[:5], column[5:5], column[5:]])).tolist() == expected


def test_fixed_size_and_empty_columns_are_columns_too() -> None:
    fixed = pa.array([b"aaaa", b"{b}c"], pa.binary(4))

    assert key_slots(fixed).tolist() == [key_slot(b"aaaa"), key_slot(b"{b}c")]
    assert key_slots(fixed[1:]).tolist() == [key_slot(b"{b}c")]
    assert key_slots(pa.array([], pa.string())).tolist() == []
    assert key_slots(pa.chunked_array([], pa.string())).tolist() == []


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["a", "b", None, None]),
        pa.array(["x", "a", "b", None])[1:].cast(pa.large_binary()),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 0, 1]), pa.array(["a", None])),
        pa.chunked_array([["a"], ["b", None]]),
    ],
)
def test_a_null_is_an_error_that_names_its_first_row(keys: pa.Array) -> None:
    with pytest.raises(ValueError, match=r"row (2|1) of the keys is null"):
        key_slots(keys)


@pytest.mark.parametrize("offsets", [[0, 5], [3, 1], [-1, 2], [0, 9, 3]])
def test_offsets_that_leave_the_data_are_refused(offsets: list[int]) -> None:
    """Every length from outside is checked before it is used."""
    with pytest.raises(ValueError, match="offsets"):
        key_slots_of(np.zeros(4, np.uint8), np.array(offsets, np.int64))


@pytest.mark.parametrize("server", ["valkey_cluster_node", "redis_cluster_node"])
def test_a_real_server_gives_the_same_slots(server: str, request: pytest.FixtureRequest) -> None:
    """CLUSTER KEYSLOT is the oracle for 5,000 keys of random bytes, one in two with braces."""
    random = np.random.default_rng(5)
    keys = [random.integers(0, 256, random.integers(0, 90), dtype=np.uint8).tobytes() for _ in range(5000)]
    keys = [key if number % 2 else key[:9] + b"{" + key[9:30] + b"}" for number, key in enumerate(keys)]
    node = request.getfixturevalue(server)

    slots = node.ask([("CLUSTER", "KEYSLOT", key) for key in keys])

    assert key_slots(pa.array(keys, pa.binary())).tolist() == slots
