"""Whose connection is it, and what is made of capture rows."""

from __future__ import annotations

from cluster_core.formats.capture.bus_capture import (
    ACCEPTOR,
    INITIATOR,
    UNSEEN,
    CapturedMessage,
    ConnectionEvent,
    Origin,
    Row,
)
from cluster_core.formats.capture.bus_capture import Endpoint as CaptureEndpoint
from cluster_core.replay.evidence import Endpoint, LinkSeen, MessageSeen
from cluster_core.wire.bus import MessageType, encode_message, sized
from tests.builders.gossip_builder import A, B, ping
from tests.reference.sightings import Sighting, read_sightings
from tests.wire_differential.attribution import Attribution, sort_out

HOME_A, HOME_B = Endpoint("127.0.0.1", 17001), Endpoint("127.0.0.1", 17002)
SOMEWHERE = Endpoint("127.0.0.1", 50000)
SYN, SYN_ACK, FIN = 2, 18, 17


def sighting(kind: str, *, from_opener: bool, connection: int = 0, ts_ns: int = 0, sender: str = A) -> Sighting:
    """Something on a connection from A (by an ephemeral port) to B."""
    message = ping(sender, kind=MessageType.PING if from_opener else MessageType.PONG) if kind == "message" else None
    return Sighting(ts_ns, 0, connection, from_opener, SOMEWHERE, HOME_B, kind, message)


def attributed(sightings: list[Sighting]) -> dict[Endpoint, list[object]]:
    """Learn and sort in one go."""
    attribution = Attribution()
    for seen in sightings:
        attribution.learn(seen)
    return {key: list(value) for key, value in sort_out(sightings, attribution).items()}


def test_both_ends_see_a_message_each_in_its_own_way() -> None:
    """R27: sent on an outbound link here, received on an inbound link there."""
    found = attributed([sighting("message", from_opener=True), sighting("message", from_opener=False, sender=B)])

    assert [(e.sent, e.outbound) for e in found[HOME_A] if isinstance(e, MessageSeen)] == [(True, True), (False, True)]
    assert [(e.sent, e.outbound) for e in found[HOME_B] if isinstance(e, MessageSeen)] == [
        (False, False),
        (True, False),
    ]


def test_a_reset_before_the_connection_was_up_is_a_refusal() -> None:
    """A dead node's machine answers SYN with RST: known by the address that refuses."""
    found = attributed(
        [
            sighting("message", from_opener=False, sender=B),
            sighting("syn", from_opener=True, connection=1),
            sighting("rst", from_opener=False, connection=1),
        ]
    )

    refused = [e for e in found[HOME_B] if isinstance(e, LinkSeen)]
    assert [(e.what, e.by_us, e.outbound) for e in refused] == [("refused", True, False)]


def test_a_process_keeps_its_stream_when_its_id_changes() -> None:
    """R82: RESET HARD."""
    attribution = Attribution()
    for sender in (B, "9" * 40):
        attribution.learn(sighting("message", from_opener=False, sender=sender))

    assert attribution.processes() == [HOME_B]
    assert attribution.ids_of(HOME_B) == [B, "9" * 40]


def origin(packet: int, direction: int) -> Origin:
    """Where a capture row comes from."""
    ends = CaptureEndpoint(*SOMEWHERE), CaptureEndpoint(*HOME_B)
    source, target = ends if direction != ACCEPTOR else ends[::-1]
    return Origin(packet, packet, 0, direction, 0, direction, source, target)


def test_a_message_counts_before_the_end_of_its_connection_in_the_same_packet() -> None:
    """FIN and data in one segment."""
    raw = encode_message(sized(ping(A)))
    rows: list[Row] = [
        ConnectionEvent(origin(0, INITIATOR), SYN),
        ConnectionEvent(origin(1, ACCEPTOR), SYN_ACK),
        ConnectionEvent(origin(2, INITIATOR), FIN),
        CapturedMessage(origin(2, INITIATOR), raw, len(raw), A, ""),
        CapturedMessage(origin(3, UNSEEN), raw, len(raw), A, ""),
    ]

    sightings = list(read_sightings(rows))

    assert [s.kind for s in sightings] == ["syn", "syn-ack", "message", "fin"]
    assert sightings[1].acceptor == HOME_B


def test_a_message_cut_by_the_snap_length_counts_as_far_as_it_goes() -> None:
    """A header without its gossip."""
    raw = encode_message(sized(ping(A)))
    cut = CapturedMessage(origin(0, INITIATOR), raw[:2256], len(raw) + 104, A, "")

    (seen,) = read_sightings([cut])

    assert seen.message is not None
    assert seen.message.rest is None
