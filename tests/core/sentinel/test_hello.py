"""Hello messages: eight fields, as they are published, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.sentinel.events import HELLO_CHARS_MAX, Hello, format_hello, parse_hello

RECORDED = "127.0.0.1,24010,6192f14bb1e622d97c441b110cef547096275f81,1,mymaster,127.0.0.1,24002,1"


def test_a_recorded_message_is_read_and_written_again():
    """S3, of Redis 7.0.15."""
    hello = parse_hello(RECORDED)

    assert hello == Hello("127.0.0.1", 24010, RECORDED.split(",")[2], 1, "mymaster", "127.0.0.1", 24002, 1)
    assert format_hello(hello) == RECORDED


@pytest.mark.parametrize("text", ["", "a,b", RECORDED + ",9", RECORDED.rpartition(",")[0], "x" * (HELLO_CHARS_MAX + 1)])
def test_what_has_not_eight_fields_is_no_message(text):
    """S3: the server drops it."""
    assert parse_hello(text) is None


@given(st.text(alphabet=",0123456789abc-\x00\n", max_size=200))
def test_any_text_is_read_or_dropped(text):
    """Bytes of a peer raise nothing."""
    hello = parse_hello(text)

    assert (hello is None) == (text.count(",") != 7)
