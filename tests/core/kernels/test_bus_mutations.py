"""Damaged captures go through the kernels without a crash, a hang or much memory, and no byte of them is lost in silence."""

from __future__ import annotations

import random
import resource
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from cluster_core.formats.capture.bus_rows import CapturedUnknown, Row, SkippedPackets
from cluster_core.formats.capture.link_layers import OK
from cluster_core.formats.capture.pcap import CaptureProblem, CaptureReader, Packet
from cluster_core.kernels.bus.columns import TextTable, address_of, gossip_columns, message_columns
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.wire.bus import Message, encode_message
from tests.builders.bus_builder import (
    closing,
    conversation,
    every_kind,
    gossip_message,
    light,
    pcap,
    pcapng,
    pieces_of,
    ping,
)
from tests.builders.bus_comparison import decoded
from tests.builders.edited_captures import segment_of

CPU_SECONDS_MAX = 10.0
PEAK_BYTES_MAX = 500_000_000
EVERY = b"".join(map(encode_message, every_kind()))
EXTREMES = (0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def base_captures() -> list[bytes]:
    """Small captures in three containers: every kind of message both ways, and gossip of two more connections."""
    sent = conversation(pieces_of(EVERY, [1448] * 40), pieces_of(EVERY, [60_000]))
    sent.append(closing(sent[-1]))
    gossip = encode_message(gossip_message(0, entries=9))
    for number in range(2):
        sent += conversation(
            pieces_of(3 * gossip, [1448] * 9), client=("10.0.0.3", 41_000 + number), handshake=number > 0
        )
    return [pcap(sent), pcap(sent, order=">", nanoseconds=True, link_type=113), pcapng(sent)]


def mutate(chance: random.Random, file: bytes) -> bytes:
    """The file with one to a thousand changes: bytes, extreme numbers, pieces taken out, doubled or moved, a cut."""
    made = bytearray(file)
    for _ in range(10 ** chance.randrange(4)):
        at = chance.randrange(len(made))
        match chance.randrange(12):
            case 0:
                struct.pack_into(chance.choice("<>") + "I", made, min(at, len(made) - 4), chance.choice(EXTREMES))
            case 1:
                struct.pack_into(">H", made, min(at, len(made) - 2), chance.choice(EXTREMES) & 0xFFFF)
            case 2 if chance.randrange(8) == 0:
                del made[at : at + chance.choice((1, 4, 100, 3000))]
            case 3 if chance.randrange(8) == 0:
                made[at:at] = made[: chance.choice((1, 16, 500))]
            case 4 if chance.randrange(8) == 0:
                other = chance.randrange(len(made))
                made[at : at + 60] = made[other : other + 60]
            case 5 if chance.randrange(40) == 0:
                del made[at:]
            case _:
                made[at] = chance.randrange(256)
        if len(made) < 8:
            break
    return bytes(made)


def decode(file: bytes) -> tuple[int, int, int, list[Row]]:
    """Decode to all columns: (TCP payload bytes that are in messages or told of, bytes that messages lack, messages,
    other rows).
    """
    decoder = BusDecoder()
    nodes, texts, addresses = TextTable(), TextTable(), TextTable(address_of)
    captured, lacking, messages = 0, 0, 0
    rows: list[Row] = []
    for batch in [*decoded(decoder, [file]), decoder.finish()]:
        names = nodes.read(batch.nodes), texts.read(batch.texts)
        ids = np.arange(len(batch.bitmaps))
        columns = message_columns(
            batch, first_id=0, bitmap_ids=ids, file="f", nodes=names[0], texts=names[1],
            addresses=addresses.read(batch.addresses),
        )  # fmt: skip
        columns |= gossip_columns(batch, first_id=0, nodes=names[0], texts=names[1])
        for column in columns.values():
            column.validate(full=True)
        captured += int(batch.messages.captured.sum())
        lacking += int((batch.messages.totlen - batch.messages.captured).sum())
        captured += sum(row.count for row in batch.rows if isinstance(row, CapturedUnknown))
        messages += len(batch)
        rows += batch.rows
    return captured + decoder.repeated_bytes, lacking, messages, rows


def expected(file: bytes) -> tuple[int, int, int, int]:
    """What the plain container reader finds: bytes of TCP payload, those that packets lack, bytes of packets without
    TCP, bytes of no packet.
    """
    reader = CaptureReader()
    payload = cut = skipped = lost = 0
    for item in [*reader.feed(file), *reader.finish()]:
        if isinstance(item, Packet):
            view = segment_of(item)
            payload += int(view.length) if view.reason == OK else 0
            cut += int(view.missing) if view.reason == OK else 0
            skipped += len(item.data) if view.reason != OK else 0
        elif isinstance(item, CaptureProblem):
            lost += item.skipped_bytes or 0
    return payload, cut, skipped, lost


def check(file: bytes) -> int:
    """Decode within the bounds, account for every byte, return the number of messages."""
    with cpu_bound():
        captured, lacking, messages, rows = decode(file)
    payload, cut, skipped, lost = expected(file)
    assert captured <= payload + cut  # what came again may have been cut
    assert payload <= captured + lacking  # behind a hole in it, a message has bytes that only count as lacking
    assert sum(row.captured_bytes for row in rows if isinstance(row, SkippedPackets)) == skipped
    assert sum(row.skipped_bytes or 0 for row in rows if isinstance(row, CaptureProblem)) == lost
    return messages


@contextmanager
def cpu_bound() -> Iterator[None]:
    """Stop what takes more than `CPU_SECONDS_MAX`."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {CPU_SECONDS_MAX} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def peak_bytes() -> int:
    """Peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident_bytes() -> int:
    """Memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@contextmanager
def memory_bound() -> Iterator[None]:
    """Assert that the peak stays near its start; an earlier higher peak hides no growth."""
    start = resident_bytes()
    before = peak_bytes()
    yield
    after = peak_bytes()
    assert after == before or after - start < PEAK_BYTES_MAX


def run(first: int, last: int) -> tuple[int, int]:
    """Mutations *first* to *last* - 1: how many kept some messages, and how many lost some."""
    bases = base_captures()
    whole = [decode(base)[2] for base in bases]  # loads machine code, before anything is timed
    for seed in range(first, first + 20):  # and what damage alone needs
        decode(mutate(random.Random(seed), bases[seed % len(bases)]))
    some = fewer = 0
    with memory_bound():
        for seed in range(first, last):
            chance = random.Random(seed)
            which = chance.randrange(len(bases))
            messages = check(mutate(chance, bases[which]))
            some += messages > 0
            fewer += messages < whole[which]
    return some, fewer


@pytest.mark.long
def test_three_hundred_mutations_end_in_rows() -> None:
    """No exception, no hang, bounded memory, every byte reported; the mutations are neither harmless nor all fatal."""
    some, fewer = run(0, 300)

    assert some > 100
    assert fewer > 50


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_mutations_end_in_rows(part: int) -> None:
    some, fewer = run(1000 + 2500 * part, 3500 + 2500 * part)

    assert some > 800
    assert fewer > 400


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second"), [(light(), light(10)), pytest.param(ping(), light(), marks=pytest.mark.slow)]
)
def test_a_capture_cut_at_any_byte_is_reported_to_its_last_byte(first: Message, second: Message) -> None:
    """Of a tiny capture every beginning is read: messages never become fewer as it grows."""
    raw = encode_message(first)
    tiny = pcap(conversation([raw[:12], raw[12:18], raw[18:] + encode_message(second)]))

    checks = [check(tiny[:end]) for end in range(len(tiny) + 1)]

    assert checks == sorted(checks)
    assert checks[-1] == 2
    assert {0, 1} <= set(checks)
