"""Text columns of names: the same escapes as in reports, one by one and a batch at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotscope.runtime.text import shown
from slotscope.sources.keys.text import TEXT_LENGTH_MAX, key_text, key_texts
from tests.builders.reports_builder import HOSTILE_KEYS


@given(
    st.lists(
        st.none()
        | st.binary(max_size=40)
        | st.text(max_size=40).map(lambda name: name.encode("utf-8", "surrogatepass"))
    )
)
def test_a_batch_of_names_reads_as_each_alone(names):
    assert key_texts(pa.array(names, pa.binary())).to_pylist() == [
        None if name is None else key_text(name) for name in names
    ]


@pytest.mark.parametrize("name", [*HOSTILE_KEYS, b"user:1", b"a b", b" a", b"a ", b"a\n", "ключ".encode()])
def test_a_name_reads_as_in_the_reports(name):
    """Whole wherever reports show it whole, and in one line."""
    assert key_texts(pa.array([b"plain", name], pa.binary())).to_pylist() == ["plain", shown(name, TEXT_LENGTH_MAX)]
    assert "\n" not in key_text(name)
    assert len(key_text(name)) <= TEXT_LENGTH_MAX


def test_names_around_the_longest_that_stays_whole():
    names = [b"k" * (TEXT_LENGTH_MAX + more) for more in (-1, 0, 1)]

    assert key_texts(pa.array(names, pa.binary())).to_pylist() == [key_text(name) for name in names]
    assert key_text(names[1]) == names[1].decode()
    assert "1,001 bytes" in key_text(names[2])
