"""Folders of recordings of sentinels, which anybody may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.errors import DecodeError
from slotscope.sources.sentinel.recording import find_sentinel_recordings


@pytest.mark.parametrize("line", ["{", "[" * 100_000, "9" * 5_000], ids=["cut", "nested", "digits"])
def test_an_answer_that_cannot_be_read_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    """Cut, nested without end, a number of thousands of digits: one error, with the file."""
    (tmp_path / "resp.pcap").write_bytes(b"")
    (tmp_path / "truth.jsonl").write_text('{"kind": "other"}\n' + line + "\n")

    with pytest.raises(DecodeError, match="not a line of JSON") as caught:
        find_sentinel_recordings(str(tmp_path))

    assert caught.value.offset == 2
    assert caught.value.source == str(tmp_path / "truth.jsonl")
