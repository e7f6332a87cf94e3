"""What appendfsync means for a crash (`flushAppendOnlyFile`)."""

from __future__ import annotations

from cluster_core.load.persistence import LogRate, describe_loss


def test_all_policies_are_told_when_none_is_named():
    text = describe_loss(None, None)

    assert "always: nothing that was answered" in text
    assert "everysec: 1 s of writes (at worst 2 s)" in text
    assert "no: about 30 s of writes" in text


def test_rates_turn_a_window_into_bytes():
    text = describe_loss("everysec", LogRate(1000.0, 5000))

    assert text.endswith("1,000 bytes at the log's mean rate, 10,000 at its peak")
    assert "always" not in text
