"""Which keys are wanted: the patterns of KEYS, ranges with units, and where a condition cannot be read."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.errors import ConditionError, UnrecordedError
from cluster_core.kernels.keys.filter import SECONDS, IntegerRange, between, key_filter
from cluster_core.sizes import UNITS
from cluster_core.slots.key_slot import key_slot
from tests.builders.key_batches import key_batch
from tests.examples import examples

NAMES = [b"user:1", b"user:22", b"cart:{user:1}", b"a*b", b"a[b", b"", b"\xff\x00"]


def named(names):
    """Strings of these names."""
    return key_batch([(name, 10, -1) for name in names])


def chosen(**conditions) -> list[bytes]:
    batch = named(NAMES)
    return [batch.key(row) for row in key_filter(**conditions).rows(batch, None)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("user:*", NAMES[:2]),
        ("user:?", NAMES[:1]),
        ("*:[0-1]*", [b"user:1", b"cart:{user:1}"]),
        ("*[^0-9]", [b"cart:{user:1}", b"a*b", b"a[b", b"\xff\x00"]),
        (r"a\*b", [b"a*b"]),
        (r"a\[b", [b"a[b"]),
        ("a*b", [b"a*b", b"a[b"]),
        ("*", NAMES),
        ("", [b""]),
        ("**user**1**", [b"user:1", b"cart:{user:1}"]),
    ],
)
def test_patterns_are_those_of_keys(pattern, names):
    assert chosen(match=[pattern]) == names


@given(
    st.text("ab*?", max_size=8),
    st.lists(st.binary(max_size=6).map(lambda raw: bytes(97 + byte % 3 for byte in raw)), min_size=1),
)
@settings(max_examples=examples(300))
def test_patterns_agree_with_those_of_file_names(pattern, names):
    batch = named(names)
    keys = [batch.key(row) for row in key_filter(match=[pattern]).rows(batch, None)]

    assert keys == [name for name in names if fnmatch.fnmatchcase(name.decode(), pattern)]


def test_conditions_of_one_option_are_joined_by_or_those_of_several_by_and():
    assert chosen(match=["a*"], prefix=["cart"]) == [b"cart:{user:1}", b"a*b", b"a[b"]
    assert chosen(slot=str(key_slot(b"user:1"))) == [b"user:1", b"cart:{user:1}"]
    assert chosen(type=["hash"]) == []
    assert chosen(prefix=["user:*"]) == []


@pytest.mark.parametrize(
    ("text", "units", "expected"),
    [
        (">1kb", UNITS, IntegerRange(1025)),
        (">=1KB, <2kb", UNITS, IntegerRange(1024, 2047)),
        ("10-20", UNITS, IntegerRange(10, 20)),
        ("<=1h", SECONDS, IntegerRange(0, 3600)),
        ("5", UNITS, IntegerRange(5, 5)),
        ("5k", UNITS, IntegerRange(5000, 5000)),
        ("none", SECONDS, IntegerRange(is_absent=True)),
        ("any", SECONDS, IntegerRange()),
    ],
)
def test_ranges_have_units(text, units, expected):
    """Both ends are within; a sign moves an end by one."""
    assert between(text, units) == expected


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"match": ["a[b"]}, "--match 'a[b': line 1, column 2: no ] closes this ["),
        ({"match": ["ab\\"]}, "--match 'ab\\\\': line 1, column 3: nothing follows the \\"),
        ({"size": ">1kb;"}, "--size '>1kb;': line 1, column 5: ';' is not expected here"),
        ({"size": ">1xb"}, "--size '>1xb': line 1, column 3: unit 'xb' is not known: b, k, kb, m, mb, g, gb, t, tb"),
        ({"size": ">5,<3"}, "--size '>5,<3': line 1, column 4: no number is like that"),
        ({"ttl": "soon"}, "--ttl 'soon': line 1, column 1: a number is due here: >1kb, <=30d, 10-20"),
        ({"slot": "1,16384"}, "--slot '1,16384': line 1, column 3: '16384' is not a slot or range of slots (0 to 16383)"),
        ({"type": ["set,sets"]}, "--type 'set,sets': line 1, column 5: 'sets' is not a type; types are string, list, set, zset, hash, stream, module, array"),
        ({"match": ["äö[b"]}, "--match 'äö[b': line 1, column 3: no ] closes this ["),
        ({"freq": "10k"}, "--freq '10k': line 1, column 3: 'k' is not expected here"),
        ({"type": ["set, sets"]}, "--type 'set, sets': line 1, column 6: 'sets' is not a type; types are string, list, set, zset, hash, stream, module, array"),
        ({"db": ["0", "-1"]}, "--db '-1': line 1, column 1: '-1' is not a database number (0, 1, …)"),
    ],
)  # fmt: skip
def test_an_invalid_condition_is_named_with_its_place(conditions, message):
    with pytest.raises(ConditionError) as caught:
        key_filter(**conditions)

    assert str(caught.value) == message


@pytest.mark.parametrize("option", ["idle", "freq"])
def test_conditions_on_facts_missing_in_a_dump_are_refused(option):
    """By each dump for itself: that others hold it does not help."""
    with pytest.raises(UnrecordedError, match=f"--{option}: not recorded in a.rdb; set maxmemory-policy allkeys-l"):
        key_filter(**{option: ">=1"}).rows(named(NAMES), 0, "a.rdb")
