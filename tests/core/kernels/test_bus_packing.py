"""Messages without their slot bitmaps, and back."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.packing import pack, unpack
from cluster_core.wire.bus import encode_message
from tests.builders.bus_builder import conversation, messages, pcap
from tests.builders.bus_builder import every_kind as kinds
from tests.builders.bus_comparison import decoded


@given(messages())
def test_a_packed_message_and_its_bitmap_are_the_message(raw) -> None:
    packed, slots = pack(raw)

    assert unpack(packed, slots) == raw
    assert len(slots) in (0, 2048)


def test_the_kernel_packs_as_the_plain_code_does() -> None:
    raw = [encode_message(message) for message in kinds()]
    decoder = BusDecoder(keep_packed=True)
    batches = [*decoded(decoder, [pcap(conversation(raw))]), decoder.finish()]

    found = []
    for batch in batches:
        ends = [0, *batch.packed_ends.tolist()]
        found += [batch.packed[start:end].tobytes() for start, end in pairwise(ends)]

    assert found == [pack(message)[0] for message in raw]
