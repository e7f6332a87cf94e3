"""Columns of a batch of cluster-bus messages, from a capture to Arrow."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import CapturedGap, Endpoint, Origin, Row
from cluster_core.formats.capture.link_layers import address_text
from cluster_core.kernels.bus.packets import ADDRESS_BYTES, IPV4_MARK, Rows

NONE = -1
"""Missing value in columns of numbers of nodes, texts and bitmaps."""


MESSAGE = np.dtype(
    [
        ("ts_ns", np.int64),
        ("packet", np.int64),
        ("offset", np.int64),
        ("stream", np.int64),
        ("connection", np.int64),
        ("direction", np.int8),
        ("source", np.int32),
        ("source_port", np.int32),
        ("target", np.int32),
        ("target_port", np.int32),
        ("captured", np.int64),
        ("totlen", np.int64),
        ("type", np.uint16),
        ("light", np.bool_),
        ("ver", np.uint16),
        ("sender", np.int32),
        ("receiver", np.int32),
        ("port", np.int32),
        ("count", np.int32),
        ("current_epoch", np.uint64),
        ("config_epoch", np.uint64),
        ("repl_offset", np.uint64),
        ("slots", np.int32),
        ("replicaof", np.int32),
        ("myip", np.int32),
        ("extensions", np.int32),
        ("pport", np.int32),
        ("cport", np.int32),
        ("node_flags", np.int32),
        ("state", np.uint8),
        ("mflags", np.int32),
        ("subject", np.int32),
        ("body_epoch", np.uint64),
        ("body_slots", np.int32),
        ("channel_end", np.int64),
        ("payload_bytes", np.int64),
        ("unknown_bytes", np.int64),
        ("understood", np.bool_),
    ],
    align=True,
)
"""One row per message; *source* and *target* are numbers of addresses.

*sender*, *receiver*, *replicaof*, *subject* are numbers of nodes, *myip* of a text, *slots* and *body_slots* of bitmaps.
*captured* below *totlen*: the message's end was not captured; missing header columns are 0 or `NONE`. *sender*: the id in
the header, or the last one of the direction (*light*, or cut before it). *subject*, *body_epoch*, *body_slots*: of FAIL
and UPDATE. *channel*, *payload_bytes*: of PUBLISH, PUBLISHSHARD and MODULE. *mflags* has the first byte of the wire
lowest. *unknown_bytes* were not decoded; *understood* is false also for missing announced parts. Epochs and offsets are
uint64.
"""


GOSSIP = np.dtype(
    [
        ("message", np.int64),
        ("node", np.int32),
        ("ping_sent_s", np.int64),
        ("pong_received_s", np.int64),
        ("ip", np.int32),
        ("port", np.int32),
        ("cport", np.int32),
        ("node_flags", np.int32),
        ("pport", np.int32),
    ],
    align=True,
)
"""One row per gossip entry (R9): *message* is the row of its message, *node* a number of a node, *ip* of a text."""


EXTENSION = np.dtype(
    [
        ("message", np.int64),
        ("type", np.int32),
        ("unused", np.int32),
        ("data_end", np.int64),
    ],
    align=True,
)
"""One row per ping extension (R15); its data in *extension_data* ends at *data_end* and starts at the previous row's end."""


EVENT = np.dtype(
    [
        ("ts_ns", np.int64),
        ("packet", np.int64),
        ("offset", np.int64),
        ("stream", np.int64),
        ("connection", np.int64),
        ("direction", np.int8),
        ("source", np.int32),
        ("source_port", np.int32),
        ("target", np.int32),
        ("target_port", np.int32),
        ("tcp_flags", np.uint8),
        ("since_ns", np.int64),
    ],
    align=True,
)
"""One row per packet with SYN, FIN or RST: time, direction, *tcp_flags*.

*tcp_flags* `streams.UNREAD`: bytes sent since *since_ns* have not arrived; `streams.READ`: they arrived.
"""


@dataclass(slots=True)
class BusBatch:
    """Messages of a part of a capture, with the tables of their numbers.

    *nodes* is uint8 (n, 40), *texts* uint8 (n, 46), *bitmaps* uint8 (n, 2048) and *addresses* uint8 (n, 16), each value once.
    They grow from batch to batch up to a bound, then numbering restarts, so a number belongs to its batch. *rows* holds
    unknown bytes, gaps, skipped packets and problems; *gaps* those of *rows* with their packets. *released*: the packet that
    completed each message and all before it on its direction; messages are in this order. *packed* has every message without
    its bitmap (`bus_packing.pack`), ending at *packed_ends*; both are empty unless the decoder keeps them.
    """

    messages: Rows
    gossip: Rows
    extensions: Rows
    events: Rows
    channel_data: NDArray[np.uint8]
    extension_data: NDArray[np.uint8]
    nodes: NDArray[np.uint8]
    texts: NDArray[np.uint8]
    bitmaps: NDArray[np.uint8]
    addresses: NDArray[np.uint8]
    rows: list[Row] = field(default_factory=list)
    released: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    packed: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    packed_ends: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    gaps: list[tuple[int, CapturedGap]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.messages)

    def node(self, number: int) -> str:
        """Return the id of a node as in `Header.sender`, empty for `NONE`."""
        return "" if number < 0 else text_of(self.nodes[number])

    def text(self, number: int) -> str:
        """Return an address text as in `Header.myip`, empty for `NONE`."""
        return "" if number < 0 else text_of(self.texts[number])

    def bitmap(self, number: int) -> bytes:
        """Return the 2048 bytes of a slot bitmap."""
        return bytes(self.bitmaps[number])

    def address(self, number: int) -> str:
        """Return the text of an IP address."""
        return address_text(packed_address(self.addresses[number]))

    def origin(self, row: int) -> Origin:
        """Return the origin of a message."""
        at = self.messages
        return Origin(
            int(at.ts_ns[row]),
            int(at.packet[row]),
            int(at.offset[row]),
            int(at.stream[row]),
            int(at.connection[row]),
            int(at.direction[row]),
            Endpoint(self.address(at.source[row]), int(at.source_port[row])),
            Endpoint(self.address(at.target[row]), int(at.target_port[row])),
        )


def text_of(row: NDArray[np.uint8]) -> str:
    """Return a fixed-size text without its trailing NULs."""
    return row.tobytes().rstrip(b"\0").decode("latin-1")


def packed_address(row: NDArray[np.uint8]) -> bytes:
    """Return the 4 or 16 bytes of an address that kernels keep in 16."""
    raw = row.tobytes()
    mark = bytes((IPV4_MARK,)) * (ADDRESS_BYTES - 4)
    return raw[len(mark) :] if raw.startswith(mark) else raw
