"""A capture that several tasks read, each for some of its connections: together they tell what one task tells."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.packet import Packet
from cluster_core.kernels.bus import containers, follower
from cluster_core.kernels.bus.follower import Share
from cluster_core.kernels.bus.streams import GATHERED_BYTES_MAX
from cluster_core.wire.bus import Publish, encode_message
from slotscope.sources.bus.data_source import ClusterBusReader
from slotscope.sources.bus.files import SPLIT_BYTES_MIN, CaptureFile, is_splittable, survey
from slotscope.sources.bus.series import read_series
from slotscope.sources.files import InputFile
from tests.builders.bus_builder import conversation, light, message, pcap, pcapng, pieces_of, ping
from tests.builders.edited_captures import as_pcap, cut_to, packets_of, with_loss
from tests.conftest import DATA

SHARES = 3
RECORDED = DATA / "bus-valkey-9.1" / "bus.pcap.gz"
RECORDED_PACKETS = packets_of(RECORDED)[:6000]
STRETCH = 120


def files_of(*paths) -> list[CaptureFile]:
    return survey([InputFile(str(path), path.stat().st_size) for path in paths])


def told(files, rows: str, share: Share | None = None) -> list[dict]:
    """What one task tells of *files*."""
    batches = read_series(files, rows, permissive=True, share=share)
    return [
        dict(zip(columns, values, strict=True))
        for columns in batches
        for values in zip(*(column.to_pylist() for column in columns.values()), strict=True)
    ]


def together(files, rows: str) -> list[dict]:
    """What all tasks tell, in the order of one."""
    found = [row for at in range(SHARES) for row in told(files, rows, Share(at, SHARES))]
    return sorted(found, key=itemgetter("message_id", *(["entry"] if rows == "gossip" else [])))


def strangers() -> bytes:
    """A connection of another protocol between two of the bus, of which one begins in the middle of a message."""
    bus = conversation([encode_message(ping()), encode_message(light())], [encode_message(ping())])
    late = conversation([encode_message(ping())[100:], encode_message(ping())], handshake=False, client=("10.0.0.9", 9))
    other = conversation([b"GET / HTTP/1.1\r\n\r\n"], client=("10.0.0.8", 8))
    return pcap([*bus, *other, *late])


def huge() -> bytes:
    """A message of many segments that the plain code puts together, beside others."""
    long = encode_message(message(4, Publish(b"ch", bytes(GATHERED_BYTES_MAX))))
    return pcap(
        [
            *conversation(pieces_of(long + encode_message(ping()), [1448] * 400)),
            *conversation([encode_message(ping())] * 3, client=("10.0.0.9", 9)),
        ]
    )


def edited(edit) -> bytes:
    return as_pcap(edit(RECORDED_PACKETS))


def lossy(packets: list[Packet]) -> list[Packet]:
    return with_loss(packets, 0.02, seed=5)


@pytest.mark.parametrize(
    "capture",
    [
        pytest.param(edited(lambda packets: packets), id="whole"),
        pytest.param(edited(lossy), id="packets lost"),
        pytest.param(edited(lambda packets: cut_to(packets, 2300)), id="cut by the snap length"),
        pytest.param(strangers(), id="strangers"),
        pytest.param(huge(), id="huge"),
    ],
)
def test_the_shares_of_a_capture_are_its_rows_with_the_same_numbers(tmp_path, capture) -> None:
    half = len(capture) // 2
    path = tmp_path / "bus.pcap"
    path.write_bytes(capture)
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(capture[:half])

    for files in (files_of(path), files_of(damaged)):
        for rows in ("messages", "gossip"):
            whole = told(files, rows)
            assert together(files, rows) == whole
    assert len(told(files_of(path), "messages")) > 3


EDITS = st.lists(
    st.tuples(st.sampled_from(("lost", "twice", "later", "cut")), st.integers(0, STRETCH), st.integers(1, 40)),
    max_size=8,
)


def with_edits(packets: list[Packet], edits: list[tuple[str, int, int]]) -> list[Packet]:
    """Packets that are lost, sent again, late or cut, each by so many packets or words."""
    edited = list(packets)
    for edit, at, by in edits:
        packet = edited.pop(at % len(edited))
        if edit == "cut":
            edited.insert(at, replace(packet, data=packet.data[: 60 * by]))
        if edit == "twice":
            edited.insert(at, packet)
        if edit in ("twice", "later"):
            edited.insert(at + by, packet)
    return edited


@given(
    first=st.integers(0, len(RECORDED_PACKETS) - STRETCH),
    edits=EDITS,
    batch=st.integers(1, 200),
    chunk=st.integers(2000, 100_000),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shares_and_pieces_of_any_size_tell_the_same_of_packets_lost_repeated_late_or_cut(
    tmp_path, first: int, edits: list[tuple[str, int, int]], batch: int, chunk: int
) -> None:
    path = tmp_path / "bus.pcap"
    path.write_bytes(as_pcap(with_edits(RECORDED_PACKETS[first : first + STRETCH], edits)))
    files = files_of(path)
    bad = told(files, "bad")
    whole = {rows: told(files, rows) for rows in ("messages", "gossip")}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower, "MESSAGES_PER_BATCH", batch)
        patch.setattr(containers, "CHUNK_BYTES", chunk)

        assert {rows: together(files, rows) for rows in whole} == whole
        assert by_offset(told(files, "bad")) == by_offset(bad)


def by_offset(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=itemgetter("offset", "reason"))


def test_messages_that_go_on_in_the_next_file_of_a_series_are_in_one_share(tmp_path) -> None:
    packets = RECORDED_PACKETS[:4000]
    paths = [tmp_path / "1.pcap", tmp_path / "2.pcap"]
    for path, part in zip(paths, (packets[:1501], packets[1501:]), strict=True):
        path.write_bytes(as_pcap(part))

    files = files_of(*paths)

    assert together(files, "messages") == told(files, "messages")


def test_another_protocol_is_an_error_of_the_share_that_has_its_connection(tmp_path) -> None:
    path = tmp_path / "bus.pcap"
    path.write_bytes(strangers())

    def complaint(at: int) -> str:
        try:
            list(read_series(files_of(path), "messages", permissive=False, share=Share(at, SHARES)))
        except DecodeError as error:
            return error.reason
        return ""

    complaints = list(filter(None, map(complaint, range(SHARES))))

    assert len(complaints) == 1
    assert "HTTP" in complaints[0]


def test_a_large_capture_whose_packets_are_soon_found_is_read_by_several_tasks(tmp_path) -> None:
    plain, zstd, blocks = tmp_path / "bus.pcap", tmp_path / "bus.pcap.zst", tmp_path / "bus.pcapng"
    plain.write_bytes(huge())
    zstd.write_bytes(pa.Codec("zstd").compress(huge(), asbytes=True))
    blocks.write_bytes(pcapng(conversation([encode_message(ping())])))
    large = CaptureFile(str(plain), SPLIT_BYTES_MIN)

    assert is_splittable([large])
    assert is_splittable([large, CaptureFile(str(plain), 0, first_ns=10**12, last_ns=10**12 + 1)])
    assert not is_splittable([CaptureFile(str(plain), SPLIT_BYTES_MIN - 1)])
    assert is_splittable([CaptureFile(str(zstd), SPLIT_BYTES_MIN)])
    assert not is_splittable([CaptureFile(str(RECORDED), SPLIT_BYTES_MIN)])  # gzip
    assert not is_splittable([CaptureFile(str(blocks), SPLIT_BYTES_MIN)])
    assert not is_splittable([CaptureFile(str(tmp_path / "missing"), SPLIT_BYTES_MIN)])
    assert not is_splittable([CaptureFile(f"file://{plain}", SPLIT_BYTES_MIN)])
    assert not is_splittable([replace(large, last_ns=10**12), large])  # of one time: their packets are merged


def test_what_was_not_understood_is_told_by_one_task(tmp_path) -> None:
    path = tmp_path / "bus.pcap"
    with path.open("wb") as file:
        file.write(strangers())
        file.truncate(SPLIT_BYTES_MIN)  # zeros behind the last packet: packets of no length and of no link layer
    options = {"path": str(path), "mode": "permissive", "parallelism": "4"}

    assert len(ClusterBusReader({**options, "rows": "messages"}).partitions()) == 4
    assert len(ClusterBusReader({**options, "rows": "messages", "split": "false"}).partitions()) == 1
    assert len(ClusterBusReader({**options, "rows": "bad"}).partitions()) == 1
