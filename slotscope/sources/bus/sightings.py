"""A batch of messages with numbered bitmaps and texts, as sightings for the dispatcher; its unreadable parts as bad records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_rows import (
    INITIATOR,
    UNSEEN,
    CapturedGap,
    CapturedUnknown,
    Origin,
    PacketKind,
    Row,
    SkippedPackets,
    packet_kind,
)
from cluster_core.formats.capture.pcap import CaptureProblem
from cluster_core.gossip.profile_signs import EXT_DATA, VERSION_FLAGS, ProfileSigns, Sign
from cluster_core.gossip.view import NODES_MAX
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.columns import SENDER_END, TextTable, address_of
from cluster_core.kernels.bus.packet_order import OFFSET_BITS
from cluster_core.kernels.bus.packets import Rows
from cluster_core.kernels.bus.streams import READ, UNREAD
from cluster_core.replay.dispatch import BusSighting
from cluster_core.replay.evidence import Endpoint
from cluster_core.wire.bus import HEADER_BYTES, MessageType
from cluster_core.wire.bus_framing import MESSAGE_BYTES_MAX
from cluster_core.wire.tcp_stream import CUT_BY_SNAP_LENGTH, SYN
from schemas.caveats import Caveat, Code

BAD_ROWS_MAX: Final = 10_000
"""Bad records beyond this are counted, not listed."""
STREAMS_MAX: Final = 200_000
FOREIGN: Final = ("TLS: cannot be read", "HTTP", "RESP", "RDB")
"""Other protocols that a stream without a message is recognized as from its first bytes."""
FOREIGN_BYTES: Final = 1 << 16
"""Bytes without a message after which a stream counts as another protocol."""
OTHER_TRAFFIC: Final = ("not an IP packet", "not a TCP packet")
"""Packets that have no business on the bus, and are no damage."""

EXTENSION_TYPES: Final = 16

Place = Callable[[int], tuple[str, int]]
"""Maps an offset of a batch to a file and the offset in it."""


class MessageColumns(NamedTuple):
    """Columns of the messages of a batch.

    *full* tells those with a whole header, *senders* are numbers of the batch's nodes, *bitmaps* those of all batches, both -1 where the header does not say;
    *order* is that in which messages, events (numbered on behind them) and gaps (below 0, from the last one) count.
    """

    full: NDArray[np.bool_]
    senders: NDArray[np.int32]
    bitmaps: NDArray[np.int64]
    order: NDArray[np.int64]


def columns_of(batch: BusBatch, bitmap_ids: NDArray[np.int64]) -> MessageColumns:
    """Return the columns of a batch; *bitmap_ids* are the numbers of its bitmaps.

    A packet that ends a connection may complete a message, which then comes first.
    """
    at, events = batch.messages.view(np.ndarray), batch.events.view(np.ndarray)
    light, captured = at["light"], at["captured"]
    full = ~light & (captured >= HEADER_BYTES)
    senders = np.where(~light & (captured >= SENDER_END), at["sender"], -1).astype(np.int32)
    bitmaps = np.where(full, bitmap_ids[at["slots"]] if len(bitmap_ids) else -1, -1)
    gaps = 2 * np.array([packet for packet, _ in batch.gaps], dtype=np.int64)
    is_first = (events["tcp_flags"] == READ) | (events["tcp_flags"] & SYN != 0)
    turns = 2 * events["packet"] + np.where(is_first, -1, 1)
    order = np.argsort(np.concatenate((gaps, 2 * np.asarray(batch.released), turns)), kind="stable") - len(gaps)
    return MessageColumns(full, senders, bitmaps, order)


def sighting_at(
    batch: BusBatch, at: int, first_id: int, columns: MessageColumns, nodes: list[str], addresses: list[str]
) -> BusSighting | None:
    """Return the sighting at place *at* of the order; None for a direction that the capture does not show."""
    index = int(columns.order[at])
    if index < 0:
        return _gap_sighting(batch.gaps[index][1])
    if index < len(batch):
        return _message_sighting(batch, index, first_id, columns, nodes, addresses)
    return _event_sighting(batch, index - len(batch), addresses)


def _gap_sighting(gap: CapturedGap) -> BusSighting | None:
    origin = gap.origin
    if origin.direction == UNSEEN or gap.reason == CUT_BY_SNAP_LENGTH:
        return None
    opens = origin.direction == INITIATOR
    opener, acceptor = (origin.source, origin.target) if opens else (origin.target, origin.source)
    return BusSighting(origin.ts_ns, -1, origin.connection, opens, opener, acceptor, "gap", total_bytes=gap.count or 0)


def note_signs(batch: BusBatch, nodes: list[str], signs: dict[str, ProfileSigns]) -> None:
    """Add to *signs*, by node id, the signs of senders' versions in the complete messages of a batch."""
    at = batch.messages
    whole = ~np.asarray(at.light) & np.asarray(at.understood) & (np.asarray(at.captured) == np.asarray(at.totlen))
    types = np.zeros(len(at), dtype=np.int64)
    known = np.asarray(batch.extensions.type) < EXTENSION_TYPES
    np.bitwise_or.at(types, np.asarray(batch.extensions.message)[known], 1 << np.asarray(batch.extensions.type)[known])
    senders, kinds = np.asarray(at.sender).astype(np.int64), np.asarray(at.type).astype(np.int64)
    flags = np.asarray(at.node_flags).astype(np.int64) & VERSION_FLAGS
    has_extensions = (np.asarray(at.mflags).astype(np.int64) & EXT_DATA) != 0
    keys = ((senders << 16 | kinds) << 16 | flags | has_extensions) << EXTENSION_TYPES | types
    for key in pa.array(keys[whole & (senders >= 0)]).unique().to_pylist():
        node, mask, sign_bits = nodes[key >> 48], key & (1 << EXTENSION_TYPES) - 1, key >> EXTENSION_TYPES
        if node not in signs and len(signs) >= NODES_MAX:
            continue
        extensions = frozenset(number for number in range(EXTENSION_TYPES) if mask >> number & 1)
        sign = Sign(sign_bits >> 16 & 0xFFFF, sign_bits & VERSION_FLAGS, EXT_DATA * (sign_bits & 1), extensions)
        signs.setdefault(node, ProfileSigns()).note_sign(sign)


def _message_sighting(
    batch: BusBatch, row: int, first_id: int, columns: MessageColumns, nodes: list[str], addresses: list[str]
) -> BusSighting | None:
    at = _fields(batch.messages, row)
    if at["direction"] == UNSEEN:
        return None
    opener, acceptor = _ends(at, addresses)
    sender, begin = int(columns.senders[row]), int(batch.packed_ends[row - 1]) if row else 0
    return BusSighting(
        at["ts_ns"],
        first_id + row,
        at["connection"],
        at["direction"] == INITIATOR,
        opener,
        acceptor,
        "message",
        nodes[sender] if sender >= 0 else "",
        at["cport"] if columns.full[row] else 0,
        at["type"],
        at["totlen"],
        int(columns.bitmaps[row]),
        batch.packed[begin : int(batch.packed_ends[row])].tobytes(),
        bool(batch.released[row] > at["packet"]),
    )


def _event_sighting(batch: BusBatch, row: int, addresses: list[str]) -> BusSighting | None:
    at = _fields(batch.events, row)
    flags = at["tcp_flags"]
    kind: PacketKind = "unread" if flags == UNREAD else "read" if flags == READ else packet_kind(flags)
    if at["direction"] == UNSEEN or kind == "syn":
        return None
    opens, ends = at["direction"] == INITIATOR, _ends(at, addresses)
    return BusSighting(at["ts_ns"], -1, at["connection"], opens, *ends, kind, since_ns=at["since_ns"])


def _fields(rows: Rows, row: int) -> dict[str, int]:
    return dict(zip(rows.dtype.names or (), rows.view(np.ndarray)[row].item(), strict=True))


def _ends(at: dict[str, int], addresses: list[str]) -> tuple[Endpoint, Endpoint]:
    """Who opened a connection, and who accepted it."""
    source = Endpoint(addresses[at["source"]], at["source_port"])
    target = Endpoint(addresses[at["target"]], at["target_port"])
    return (source, target) if at["direction"] == INITIATOR else (target, source)


class BadRows:
    """Collects unreadable parts; in strict mode it raises DecodeError at certain damage.

    Gaps, the rest of a message at the start of a capture and packets cut by the snap length are how captures are:
    they are rows in both modes and never an error.
    """

    def __init__(self, *, strict: bool) -> None:
        self.count = 0
        self._strict = strict
        self._listed: list[tuple[str, int, str, int | None]] = []
        self._spoken: dict[int, None] = {}
        self._other: dict[str, int] = {}
        self._gaps = [0, 0]
        self._cut = 0

    def kept(self) -> tuple[Any, ...]:
        """Its state."""
        return self.count, self._listed, self._spoken, self._other, self._gaps, self._cut

    def restore(self, kept: tuple[Any, ...]) -> None:
        """Continue from a state."""
        self.count, self._listed, self._spoken, self._other, self._gaps, self._cut = kept

    def add(self, source: str, offset: int, reason: str, skipped_bytes: int | None, *, fatal: bool = True) -> None:
        """Note one bad record; raises DecodeError in strict mode if it is *fatal*."""
        if fatal and self._strict:
            raise DecodeError(reason, offset=offset, source=source)
        self.count += 1
        if len(self._listed) < BAD_ROWS_MAX:
            self._listed.append((source, offset, reason, skipped_bytes))

    def take(self, place: Place, batch: BusBatch, first_id: int, *, is_end: bool = False) -> None:
        """Record everything unreadable in a batch; *place* maps its offsets to files.

        Where *is_end*, the files of a landing end here, and the rest of a cut message is to come.
        """
        messages = batch.messages
        if len(messages):
            self._spoken.update(dict.fromkeys(_distinct(np.asarray(messages.stream))))
            while len(self._spoken) > STREAMS_MAX:
                del self._spoken[next(iter(self._spoken))]
            if not messages.understood.all():
                is_bad = ~np.asarray(messages.understood)
                if is_end:
                    is_bad &= np.asarray(messages.captured) >= np.asarray(messages.totlen)
                for row in np.flatnonzero(is_bad).tolist():
                    self._take_message(place, batch, row, first_id + row)
        for other in batch.rows:
            self._take_row(place, other)

    def _take_message(self, place: Place, batch: BusBatch, row: int, number: int) -> None:
        at = batch.messages[row]
        if at.captured < at.totlen:
            self._cut += 1
            reason = f"message {number}: {at.captured} of {at.totlen} bytes were captured"
            self.add(*place(int(at.offset)), reason, int(at.totlen - at.captured), fatal=False)
            return
        known = at.type < len(MessageType)
        problem = "of an unknown message type" if not known else "not understood"
        reason = f"message {number}, type {at.type}: {at.unknown_bytes} of {at.totlen} bytes {problem}"
        self.add(*place(int(at.offset)), reason, int(at.unknown_bytes), fatal=bool(known))

    def _take_row(self, place: Place, row: Row) -> None:
        if isinstance(row, CaptureProblem):
            self.add(*place(row.offset), row.reason, row.skipped_bytes)
        elif isinstance(row, SkippedPackets):
            if row.reason in OTHER_TRAFFIC:
                self._other[row.reason] = self._other.get(row.reason, 0) + row.packets
                return
            reason = f"{row.packets} packets: {row.reason}"
            self.add(*place(row.first_offset), reason, row.captured_bytes, fatal=row.reason == "link type is not known")
        elif isinstance(row, CapturedGap):
            if row.reason != CUT_BY_SNAP_LENGTH:  # counted with the messages
                self._gaps[0] += 1
                self._gaps[1] += row.count or 0
            size = "an unknown number of" if row.count is None else str(row.count)
            reason = (
                f"{size} bytes missing, sequence numbers {row.start} to {row.end}: {row.reason} ({_way(row.origin)})"
            )
            self.add(*place(row.origin.offset), reason, row.count, fatal=False)
        elif isinstance(row, CapturedUnknown):
            alone = row.origin.stream not in self._spoken
            foreign = alone and (row.looks_like in FOREIGN or row.count > FOREIGN_BYTES)
            reason = f"{row.count} bytes that are no bus message, {row.looks_like} ({_way(row.origin)})"
            self.add(*place(row.origin.offset), reason, row.count, fatal=foreign or row.count > MESSAGE_BYTES_MAX)

    def rows(self) -> list[dict[str, Any]]:
        """Rows of bronze/bad_records; the last one counts those that are not listed."""
        rows = [
            {"source": source, "offset": offset, "reason": reason, "skipped_bytes": skipped}
            for source, offset, reason, skipped in self._listed
        ]
        if self.count > len(rows):
            rows[-1]["reason"] = f"{self.count - len(rows) + 1} further bad records are not listed"
        return rows

    def notes(self) -> list[Caveat]:
        """Caveats for the reader about the captures."""
        caveats = [
            Caveat.note(Code.OTHER_TRAFFIC, f"{count} packets skipped: {reason}")
            for reason, count in sorted(self._other.items())
        ]
        if self._gaps[0]:
            text = f"{self._gaps[0]} gaps in the captures, {self._gaps[1]} bytes of the bus are missing"
            caveats.append(Caveat.warning(Code.GAPS, text))
        if self._cut:
            text = f"{self._cut} messages are cut in the captures; their captured part was read"
            caveats.append(Caveat.warning(Code.SNAP_LENGTH, text))
        return caveats


def _distinct(numbers: NDArray[np.int64]) -> list[int]:
    """The different ones of *numbers*, in order; without sorting when they are close together."""
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > STREAMS_MAX:
        return list(np.unique(numbers).tolist())
    is_there = np.zeros(high - low + 1, dtype=np.bool_)
    is_there[numbers - low] = True
    return list((np.flatnonzero(is_there) + low).tolist())


def _way(origin: Origin) -> str:
    source, target = origin.source, origin.target
    return f"{source.ip}:{source.port} to {target.ip}:{target.port}"


class BitmapNumbers:
    """Numbers of slot bitmaps in order of appearance, over all batches."""

    def __init__(self, known: dict[bytes, int] | None = None) -> None:
        self.numbers: dict[bytes, int] = {} if known is None else known
        self.contents: list[bytes] = list(self.numbers)

    def of(self, batch: BusBatch) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        """The numbers of the batch's bitmaps, and of the new ones the message (row) in which each appears."""
        ids = np.full(len(batch.bitmaps), -1, dtype=np.int64)
        used, distinct = used_bitmaps(batch)
        fresh = []
        for number in distinct:
            content = batch.bitmap(number)
            known = self.numbers.get(content)
            if known is None:
                fresh.append((int(np.argmax(used == number)), number, content))
            else:
                ids[number] = known
        new = []
        for place, number, content in sorted(fresh):
            known = self.numbers.setdefault(content, len(self.contents))
            if known == len(self.contents):
                self.contents.append(content)
                new.append((known, place // 2))
            ids[number] = known
        return ids, new


def used_bitmaps(batch: BusBatch) -> tuple[NDArray[np.int32], list[int]]:
    """The bitmaps of the header and of the body of each message in turn, and the distinct ones; `NONE` is not among these."""
    at = batch.messages.view(np.ndarray)
    used = np.stack((at["slots"], at["body_slots"]), axis=1).ravel()
    is_used = np.zeros(len(batch.bitmaps) + 1, dtype=np.bool_)  # the last one is that of `NONE`
    is_used[used] = True
    return used, np.flatnonzero(is_used[:-1]).tolist()


class BatchTexts:
    """The tables of batches as texts."""

    def __init__(self) -> None:
        self._tables = (TextTable(), TextTable(), TextTable(address_of))

    def of(self, batch: BusBatch) -> tuple[list[str], list[str], list[str]]:
        """Node ids, texts and addresses of a batch."""
        nodes, texts, addresses = self._tables
        return nodes.read(batch.nodes), texts.read(batch.texts), addresses.read(batch.addresses)


def files_of(batch: BusBatch, place: Place) -> str | pa.Array:
    """The file of each message of a batch, or of all; offsets become those in the files."""
    offsets = batch.messages.view(np.ndarray)["offset"]
    numbers, which = np.unique(offsets >> OFFSET_BITS, return_inverse=True)
    files = [place(int(number) << OFFSET_BITS)[0] for number in numbers]
    offsets &= (1 << OFFSET_BITS) - 1
    return files[0] if len(files) == 1 else pa.array(files, pa.string()).take(pa.array(which.ravel()))
