"""What comes after SYNC, however the network cuts it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import ProtocolError
from cluster_core.wire.dump_receiver import DumpReceiver

MARK = b"0123456789abcdef0123456789abcdef01234567"
DUMP = b"REDIS0011" + bytes(range(256)) * 3 + MARK[:39] + b"\xff" + b"checksum"
"""Holds most of the mark; the end is as a dump's is."""
LATER = b"*1\r\n$4\r\nPING\r\n"
FRAMED = {
    "length": b"$%d\r\n" % len(DUMP) + DUMP,
    "mark": b"$EOF:" + MARK + b"\r\n" + DUMP + MARK,
}


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(bounds)]


@pytest.mark.parametrize("framing", sorted(FRAMED))
@given(cuts=st.lists(st.integers(0, 5000), max_size=12), newlines=st.integers(0, 3))
def test_the_dump_comes_out_whole_however_it_is_cut(framing, cuts, newlines):
    """Newlines before it, the mark after it and later bytes are no part of it."""
    receiver = DumpReceiver()
    output = b"".join(map(receiver.feed, pieces(b"\n" * newlines + FRAMED[framing] + LATER, cuts)))

    assert output == DUMP
    assert receiver.is_ended
    assert receiver.announced == (len(DUMP) if framing == "length" else None)


@pytest.mark.parametrize("framing", sorted(FRAMED))
def test_an_incomplete_dump_is_not_ended(framing):
    receiver = DumpReceiver()
    output = receiver.feed(FRAMED[framing][:-1])

    assert DUMP.startswith(output)
    assert receiver.is_begun
    assert not receiver.is_ended


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"\n-NOMASTERLINK Can't SYNC while not connected with my master\r\n", "NOMASTERLINK"),
        (b"+OK\r\n", "does not answer SYNC with a dump"),
        (b"$EOF:short\r\n", "does not answer SYNC with a dump"),
        (b"$99999999999999999999\r\n", "does not answer SYNC with a dump"),
        (b"x" * 2000, "does not answer SYNC with a dump"),
    ],
)
def test_another_reply_than_a_dump_is_reported(answer, says):
    """An error of the server is repeated; an answer without an end is not waited for."""
    with pytest.raises(ProtocolError, match=says):
        DumpReceiver().feed(answer)
