"""The walk over an append-only log: golden logs, at every cut, over damage."""

from __future__ import annotations

import base64
import json
import lzma
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cluster_core.rdb.export import command_of
from cluster_core.slots.key_slot import key_slot
from tests.builders.aof_logs import log_of, walk_log
from tests.conftest import DATA
from tests.examples import MUTATIONS, examples

GOLDEN = DATA / "golden" / "aof-walk.jsonl.xz"
SMALL = (
    b"#TS:1700000000\r\n"
    + log_of(
        ("SELECT", 0),
        ("SET", "a", "1"),
        ("MSET", "{t}x", "22", "{t}y", "333"),
        ("MULTI",),
        ("DEL", "a", "b", "c"),
        ("EXEC",),
    )
    + b"#TS:1700000060\r\n"
    + log_of(
        ("SELECT", 3),
        ("ZUNIONSTORE", "d", 2, "{t}x", "k2", "WEIGHTS", 1, 2),
        ("SORT", "l", "STORE", "m"),
        ("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"),
        ("BF.ADD", "f", "v"),
        ("set", b"nul\0\r\n*1\r\n$4\r\nPING\r\n", b""),
        ("FUNCTION", "LOAD", "#!lua name=x\n"),
    )
)
NAMES = [
    "SET",
    "del",
    "MSET",
    "ZUNIONSTORE",
    "SORT",
    "EVAL",
    "GEORADIUS",
    "XREADGROUP",
    "MIGRATE",
    "LMPOP",
    "BITOP",
    "SELECT",
]
NAMES += ["MSETEX", "NO.SUCH", "MULTI", "EXEC", "", "PUBLISH", "SPUBLISH", "RENAME", "SDIFFSTORE", "x" * 70]
WORDS = st.sampled_from(
    [b"1", b"2", b"0", b"-1", b" 3", b"+2", b"02", b"store", b"STREAMS", b"keys", b"a", b"{t}b", b"x" * 300]
)
COMMANDS = st.lists(st.tuples(st.sampled_from(NAMES), st.lists(WORDS, max_size=9)), max_size=12)


def test_writes_of_a_small_log_are_counted_by_command_and_key():
    """Database, time, keys, slots and shares of the bytes; a share runs to the next key's word."""
    walk = walk_log(SMALL)

    rows = [(row.name, row.db, row.time_s, tuple(key.key for key in row.keys)) for row in walk.commands]
    assert rows == [
        (b"select", 0, 1700000000, ()),
        (b"set", 0, 1700000000, (b"a",)),
        (b"mset", 0, 1700000000, (b"{t}x", b"{t}y")),
        (b"multi", 0, 1700000000, ()),
        (b"del", 0, 1700000000, (b"a", b"b", b"c")),
        (b"exec", 0, 1700000000, ()),
        (b"select", 3, 1700000060, ()),
        (b"zunionstore", 3, 1700000060, (b"d", b"{t}x", b"k2")),
        (b"sort", 3, 1700000060, (b"l", b"m")),
        (b"xgroup", 3, 1700000060, (b"s",)),
        (b"bf.add", 3, 1700000060, ()),
        (b"set", 3, 1700000060, (b"nul\0\r\n*1\r\n$4\r\nPING\r\n",)),
        (b"function", 3, 1700000060, ()),
    ]
    assert all(sum(key.share for key in row.keys) == row.size for row in walk.commands if row.keys)
    assert all(key.slot == key_slot(key.key) for row in walk.commands for key in row.keys)
    assert walk.tail is not None
    assert not walk.tail.is_cut


def test_every_prefix_is_whole_or_cut_and_never_damaged():
    """A crash leaves a prefix (`aof-load-truncated`): complete commands are kept, and the end is reported."""
    commands = walk_log(SMALL).commands
    multi = next(row.offset for row in commands if row.name == b"multi")
    executed = next(row.offset + row.size for row in commands if row.name == b"exec")
    assert multi < executed <= len(SMALL)

    for size in range(len(SMALL)):
        walk = walk_log(SMALL[:size])

        assert walk.error is None
        assert walk.commands == [row for row in commands if row.offset + row.size <= size]
        assert walk.tail is not None
        starts_inside = multi + len(command_of("MULTI")) <= size < executed
        assert walk.tail.loaded_end == (multi if starts_inside else walk.tail.valid_end)
        assert walk.tail.is_cut == (starts_inside or walk.tail.valid_end != size)


@pytest.mark.long
def test_a_value_larger_than_the_window_is_skipped_but_its_end_is_checked():
    """`skippable` leaves the last bytes to be read."""
    value = b"v" * 3_000_000
    log = log_of(("SET", "big", value), ("SET", "b", "2"), ("DEL", *[f"k{number:06d}" for number in range(100_000)]))

    walk = walk_log(log, rows=16)
    broken = walk_log(log.replace(value + b"\r\n", value + b"\r!"))

    assert [row.size for row in walk.commands[:2]] == [
        len(command_of("SET", "big", value)),
        len(command_of("SET", "b", "2")),
    ]
    assert sum(row.size for row in walk.commands) == len(log)
    assert len(walk.commands[2].keys) == 100_000
    assert broken.error is not None
    assert broken.error.offset == log.index(value) + len(value)


@given(commands=COMMANDS, piece=st.sampled_from([1 << 20, 11]), rows=st.sampled_from([65_536, 3]))
@example(commands=[("ZUNIONSTORE", [b"d", b"2", b"a"])], piece=1 << 20, rows=3)
@settings(max_examples=examples(150))
def test_pieces_and_batches_of_any_size_change_nothing_of_any_commands(commands, piece, rows):
    log = log_of(*[(name, *arguments) for name, arguments in commands])

    assert walk_log(log, piece=piece, rows=rows).outcome() == walk_log(log).outcome()


def test_golden_logs_have_their_commands_keys_and_errors():
    """Commands of any kind, and damaged logs; two independent readers agreed on each."""
    cases = [json.loads(line) for line in lzma.decompress(GOLDEN.read_bytes()).splitlines()]
    wrong = []
    for number, (data, *expected) in enumerate(cases):
        commands, tail, error = walk_log(base64.b64decode(data)).outcome()
        facts = [repr([[tuple(row[:6]), [tuple(key) for key in row.keys]] for row in commands]), repr(tail), error]
        if facts != expected:
            wrong.append((number, facts, expected))

    assert len(cases) == 600
    assert wrong[:1] == []


@pytest.mark.long
@pytest.mark.parametrize("count", MUTATIONS)
def test_mutations_end_in_commands_a_cut_or_an_error(count):
    chance, ends = random.Random(20_261_121), set[bool]()
    for _ in range(count):
        data = bytearray(SMALL)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[place] = chance.randrange(256)
            else:
                del data[place : place + chance.randint(1, 9)]
        walk = walk_log(bytes(data))

        assert (walk.tail is None) == (walk.error is not None)
        ends.add(walk.tail is None)
    assert ends == {True, False}
