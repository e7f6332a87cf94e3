"""Messages without their slot bitmaps, and back."""

from __future__ import annotations

from itertools import pairwise

from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.packing import unpack
from cluster_core.wire.bus import encode_message
from tests.builders.bus_builder import conversation, every_kind, pcap
from tests.builders.bus_comparison import decoded


def test_a_packed_message_and_its_bitmap_are_the_message() -> None:
    raw = [encode_message(message) for message in every_kind()]
    decoder = BusDecoder(keep_packed=True)
    messages = []
    for batch in [*decoded(decoder, [pcap(conversation(raw))]), decoder.finish()]:
        ends = pairwise([0, *batch.packed_ends.tolist()])
        for row, (start, end) in zip(batch.messages, ends, strict=True):
            bitmap = batch.bitmap(row.slots) if row.slots >= 0 else b""
            packed = batch.packed[start:end].tobytes()
            assert len(packed) + len(bitmap) == row.totlen
            messages.append(unpack(packed, bitmap))

    assert messages == raw
