"""Columns equal their batch for every message, with null for missing values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.columns import TextTable, address_of, message_columns
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.wire.bus import HEADER_BYTES, Publish, encode_message, type_name
from tests.builders.bus_builder import conversation, every_kind, gossip_message, message, pcap, pieces_of, ping
from tests.builders.bus_comparison import decoded

EVERY = b"".join(map(encode_message, every_kind()))
ODD = encode_message(message(900, Publish(b"", b"")))
MIXED = [
    pcap(conversation(pieces_of(EVERY + ODD, [1448] * 40), [EVERY, ODD[:2300]], handshake=shaken))
    for shaken in (True, False)
]
PINGS = pcap(conversation([encode_message(ping()) * 20], [encode_message(gossip_message(1, "2" * 40)) * 20]))


def decode(file: bytes) -> list[BusBatch]:
    decoder = BusDecoder()
    return [*decoded(decoder, [file]), decoder.finish()]


def expected(batch: BusBatch, row: int, first_id: int, ids: list[int]) -> dict[str, object]:
    """What the columns of one message must say, read from its batch by hand."""
    at = batch.messages[row]
    origin = batch.origin(row)
    named, full = not at.light and at.captured >= 80, not at.light and at.captured >= HEADER_BYTES
    kind = int(at.type)
    start = int(batch.messages.channel_end[row - 1]) if row else 0
    has_body = at.body_slots >= 0
    columns_of: dict[str, object] = {
        "message_id": first_id + row, "ts_ns": origin.ts_ns, "from_opener": {0: True, 1: False, -1: None}[origin.direction],
        "source_ip": origin.source.ip, "target_ip": origin.target.ip, "type": type_name(kind), "type_number": kind,
        "light": bool(at.light), "port": None if at.light else int(at.port), "myip": batch.text(at.myip) or None,
        "bitmap_id": ids[at.slots] if at.slots >= 0 else None, "body_bitmap_id": ids[at.body_slots] if has_body else None,
        "body_epoch": Decimal(int(at.body_epoch)) if has_body else None, "understood": bool(at.understood), "file": "é",
        "channel": batch.channel_data[start : at.channel_end].tobytes() if kind in (4, 10) else None,
        "payload_bytes": int(at.payload_bytes) if kind in (4, 9, 10) else None,
    }  # fmt: skip
    columns_of |= {name: batch.node(at[name]) or None for name in ("sender", "receiver", "replicaof", "subject")}
    columns_of |= {
        name: Decimal(int(at[name])) if named else None for name in ("current_epoch", "config_epoch", "repl_offset")
    }
    columns_of |= {
        name: int(at[name]) if full else None for name in ("pport", "cport", "node_flags", "state", "mflags")
    }
    same = ("packet", "offset", "connection", "source_port", "target_port", "count", "extensions", "unknown_bytes")
    columns_of |= {name: int(at[name]) for name in same}
    columns_of["shard_id"] = shard_of(batch, row)
    return columns_of | {"captured_bytes": int(at.captured), "total_bytes": int(at.totlen), "version": int(at.ver)}


def shard_of(batch: BusBatch, row: int) -> str | None:
    """The first shard id (extension 3, 40 bytes) of a message."""
    start = 0
    for extension in batch.extensions:
        data = batch.extension_data[start : extension.data_end].tobytes()
        start = int(extension.data_end)
        if extension.message == row and extension.type == 3 and len(data) >= 40:
            return data[:40].rstrip(b"\0").decode("latin-1")
    return None


@pytest.mark.parametrize("file", [*MIXED, PINGS])
def test_columns_equal_the_batch(file: bytes) -> None:
    """Every column of every kind of message, with nulls in some, all or none of the rows."""
    nodes, texts, addresses = TextTable(), TextTable(), TextTable(address_of)
    seen = 0
    for batch in decode(file):
        ids = np.arange(len(batch.bitmaps)) + 70
        columns = message_columns(
            batch, first_id=seen, bitmap_ids=ids, file="é", nodes=nodes.read(batch.nodes),
            texts=texts.read(batch.texts), addresses=addresses.read(batch.addresses),
        )  # fmt: skip
        lists = {name: column.to_pylist() for name, column in columns.items() if name != "ts"}
        assert columns["ts"].cast("int64").to_pylist() == [ns // 1000 for ns in lists["ts_ns"]]
        for row in range(len(batch)):
            assert {name: values[row] for name, values in lists.items()} == expected(batch, row, seen, ids.tolist())
        seen += len(batch)
    assert seen >= 29


def test_a_restarted_table_is_read_again() -> None:
    """Batches of JSON lines have tables of their own: the same values in another order are other texts."""
    table = TextTable()
    first, second = (
        np.array([list(word.encode()) for word in names], np.uint8)
        for names in (["ab", "ac", "ad"], ["ab", "ad", "ac", "ae"])
    )

    assert [table.read(first)[:], table.read(second)[:]] == [["ab", "ac", "ad"], ["ab", "ad", "ac", "ae"]]
