"""What went from node to node, and when nothing did."""

from __future__ import annotations

from cluster_core.kernels.bus.link_meter import LinkMeter
from cluster_core.wire.bus import HEADER_BYTES, TYPE_NAMES, MessageType

SECOND_NS = 1_000_000_000


def test_messages_bytes_and_gossip_are_summed_by_pair_and_type() -> None:
    meter = LinkMeter(SECOND_NS)
    meter.note("a", "b", 1, MessageType.PING, HEADER_BYTES + 104, 0)
    meter.note("a", "b", 2, MessageType.FAIL, HEADER_BYTES + 40, 5)
    meter.note("b", "a", 1, MessageType.PONG, HEADER_BYTES, 6)

    there, back = meter.rows(10)

    assert (there.source, there.target, there.connections, there.messages) == ("a", "b", 2, 2)
    assert there.gossip_bytes == 104
    assert there.messages_by_type == {"fail": 1, "ping": 1}
    assert back.bytes_by_type == {"pong": HEADER_BYTES}


def test_a_silence_is_listed_when_it_is_longer_than_the_bound_also_at_the_end() -> None:
    meter = LinkMeter(SECOND_NS)
    for ts_ns in (0, SECOND_NS, 3 * SECOND_NS):
        meter.note("a", "b", 1, MessageType.PING, HEADER_BYTES, ts_ns)

    (row,) = meter.rows(9 * SECOND_NS)

    assert row.silences == [(SECOND_NS, 3 * SECOND_NS), (3 * SECOND_NS, 9 * SECOND_NS)]
    assert row.longest_silence_ns == 6 * SECOND_NS


def test_unknown_types_are_counted_together() -> None:
    """A hostile sender may use 65,536 types."""
    meter = LinkMeter(SECOND_NS)
    for kind in range(200):
        meter.note("a", "b", 1, kind, 16, kind)

    (row,) = meter.rows(200)

    assert row.messages_by_type == dict.fromkeys(TYPE_NAMES, 1) | {"other": 200 - len(TYPE_NAMES)}
