"""``spark.read.format("cluster-bus")``: captures as rows."""

from __future__ import annotations

import gzip

import pytest

from cluster_core.errors import DecodeError
from cluster_core.wire.bus import decode_message, encode_message
from schemas.history import GOSSIP_FIELDS, MESSAGE_FIELDS
from slotscope.sources.bus.data_source import ClusterBusDataSource, ClusterBusReader
from tests.builders.bus_builder import bitmap, conversation, pcap, ping
from tests.builders.bus_comparison import captured
from tests.conftest import DATA

CAPTURE = DATA / "bus-valkey-9.1" / "bus.pcap.gz"


@pytest.fixture(scope="module")
def source(spark):
    spark.dataSource.register(ClusterBusDataSource)
    return lambda path, **options: spark.read.format("cluster-bus").options(**options).load(str(path))


def read(path, rows: str = "messages", *, permissive: bool = False) -> list[dict]:
    """Rows without Spark, as the reader yields them."""
    options = {"path": str(path), "rows": rows, "mode": "permissive" if permissive else "strict"}
    reader = ClusterBusDataSource(options).reader(ClusterBusReader.schemas[rows])
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_every_message_of_a_capture_is_a_row(source) -> None:
    plain = captured([gzip.decompress(CAPTURE.read_bytes())]).messages

    rows = source(CAPTURE).collect()

    assert source(CAPTURE).columns == [field.name for field in MESSAGE_FIELDS]
    assert [row["message_id"] for row in rows] == list(range(len(plain)))
    assert [(row["type_number"], row["total_bytes"], row["sender"]) for row in rows] == [
        (decode_message(message.raw).type, message.totlen, message.sender) for message in plain
    ]
    assert all(row["understood"] for row in rows)


def test_every_gossip_entry_is_a_row(source) -> None:
    counts = sum(row["count"] for row in source(CAPTURE).select("count").collect())

    assert source(CAPTURE, rows="gossip").columns == [field.name for field in GOSSIP_FIELDS]
    assert source(CAPTURE, rows="gossip").count() == counts


def test_a_bitmap_has_one_number_however_often_and_wherever_it_is_sent(tmp_path) -> None:
    path, other = tmp_path / "bus.pcap", tmp_path / "other.pcap"
    slots = [bitmap(1), bitmap(2), bitmap(1)]
    path.write_bytes(pcap(conversation([encode_message(ping(myslots=slot)) for slot in slots])))
    other.write_bytes(pcap(conversation([encode_message(ping(myslots=bitmap(2)))])))

    first, second, third = (row["bitmap_id"] for row in read(path))

    assert first == third != second
    assert [row["bitmap_id"] for row in read(other)] == [second]


def test_a_rotated_file_continues_at_the_end_of_the_last(tmp_path) -> None:
    sent = conversation([encode_message(ping())[:1000], encode_message(ping())[1000:]])
    (tmp_path / "b-first.pcap").write_bytes(pcap(sent[:4]))
    (tmp_path / "a-second.pcap").write_bytes(pcap(sent[4:]))

    (row,) = read(f"{tmp_path}/*.pcap")

    assert row["file"].endswith("a-second.pcap")
    assert row["understood"]


def test_messages_cut_by_the_snap_length_have_their_captured_fields(tmp_path) -> None:
    """The header is whole, the gossip section is not."""
    from dataclasses import replace

    sent = conversation([encode_message(ping())])
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap([*sent[:3], replace(sent[3], cut=50)]))

    (row,) = read(path)
    (bad, *_) = read(path, "bad")

    assert (row["understood"], row["total_bytes"] - row["captured_bytes"]) == (False, 50)
    assert row["current_epoch"] is not None
    assert "bytes" in bad["reason"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"not a capture at all", "not a capture file"),
        (pcap(conversation([b"GET / HTTP/1.1\r\n\r\n"])), "HTTP"),
        (pcap(conversation([b"*1\r\n$4\r\nPING\r\n"])), "RESP"),
        (pcap(conversation([b"\x16\x03\x01\x02\x00\x01"])), "TLS: cannot be read"),
        (pcap(conversation([encode_message(ping())]), link_type=1)[:-3], "file ends inside a packet"),
        (pcap([], link_type=1)[:20] + (999).to_bytes(4, "little") + pcap(conversation([b"x"]))[24:], "link type"),
        (b"{}\n", "not a capture file"),
    ],
)
def test_other_traffic_than_the_bus_is_an_error_with_its_place_or_a_row(tmp_path, data, reason) -> None:
    path = tmp_path / "odd"
    path.write_bytes(data)

    with pytest.raises(DecodeError, match=reason):
        read(path)
    rows = read(path, "bad", permissive=True)

    assert any(reason in row["reason"] for row in rows)
