"""Rows that the first task of a replay returns: blobs, of which each holds many rows of one kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.packet_order import OFFSET_BITS
from cluster_core.replay.link_meter import LinkMeter
from schemas.history import BUS_MESSAGES
from schemas.table import BYTES, INTEGER, LONG, TEXT
from slotscope.sources.bus.clues import Place
from slotscope.sources.bus.polls_and_logs import times
from slotscope.sources.keys.text import key_texts

(
    MESSAGE, EVIDENCE, BITMAPS, BAD, LINK_ROWS, POLLS, LOGS, GOSSIP, META, STATE, GAP_ROWS, UNRECORDED_ROWS, BEGIN,
    STORED, BELIEFS, NOTES, METRICS,
) = range(17)  # fmt: skip
"""Kinds of rows of `CAPTURED`; `BELIEFS` are those of machines (`slotscope.sources.bus.observers`), `NOTES` what was found in rows that the task has `STORED`."""
BULK = (MESSAGE, EVIDENCE, GOSSIP, BELIEFS)
"""Those that grow with the captures."""
CAPTURED = pa.schema(
    [
        pa.field("row_kind", INTEGER, nullable=False),
        pa.field("phase", INTEGER, nullable=False),
        pa.field("part", TEXT),
        pa.field("number", LONG),
        pa.field("blob", BYTES),
    ]
)
"""What the task returns: blobs of rows of every kind."""
_MESSAGES = BUS_MESSAGES.unlabelled


def link_rows(links: LinkMeter, end_ns: int) -> list[dict[str, Any]]:
    """Rows of silver/links, silence up to *end_ns* included."""
    return [
        {
            "source_id": row.source,
            "target_id": row.target,
            "connections": row.connections,
            "messages": row.messages,
            "bytes": row.bytes,
            "gossip_bytes": row.gossip_bytes,
            "messages_by_type": list(row.messages_by_type.items()),
            "bytes_by_type": list(row.bytes_by_type.items()),
            **times("first_seen", row.first_ns),
            **times("last_seen", row.last_ns),
            "longest_silence_ms": row.longest_silence_ns // 1_000_000,
            "silences": [{"from_ns": start, "to_ns": end} for start, end in row.silences],
        }
        for row in links.rows(end_ns)
    ]


def files_of(batch: BusBatch, place: Place) -> str | pa.Array:
    """The file of each message of a batch, or of all; offsets become those in the files."""
    offsets = batch.messages.view(np.ndarray)["offset"]
    numbers, which = np.unique(offsets >> OFFSET_BITS, return_inverse=True)
    files = [place(int(number) << OFFSET_BITS)[0] for number in numbers]
    offsets &= (1 << OFFSET_BITS) - 1
    return files[0] if len(files) == 1 else pa.array(files, pa.string()).take(pa.array(which.ravel()))


def message_table(columns: dict[str, pa.Array]) -> pa.Table:
    """Columns of messages as `BUS_MESSAGES` has them."""
    texts = key_texts(columns["channel"].cast(pa.binary()))
    return pa.table({**columns, "channel_text": texts}).select(_MESSAGES.names).cast(_MESSAGES)


def blob_row(kind: int, phase: int, blob: bytes, part: str = "", number: int = 0) -> pa.RecordBatch:
    """One row of `CAPTURED`."""
    return pa.RecordBatch.from_pylist(
        [{"row_kind": kind, "phase": phase, "part": part, "number": number, "blob": blob}], schema=CAPTURED
    )
