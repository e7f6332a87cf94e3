"""Messages of one observer that move clocks only, in bulk: the compiled twin of `gossip.prefilter` and of what a replay does with them.

A stretch goes from one message that the observer sent to the next.  It is carried out as a whole, or left to the plain machine where
anything but clocks may move: a "no" costs time and never truth.  `cluster_core.replay.quiet_runs` says what is quiet, and keeps the books.
"""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.gossip.flags import FAILURES, HANDSHAKE, MEET, MYSELF, NOADDR, ROLES
from cluster_core.gossip.gossip_section import CLOCK_SLACK_MS
from cluster_core.gossip.prefilter import MS_PER_S, PING, PONG, UNSETTLED
from cluster_core.kernels.bus.packing import PACKED_HEADER_BYTES
from cluster_core.kernels.compiled import njit
from cluster_core.kernels.raw_bytes import big16, big32, big64, is_equal, word64
from cluster_core.wire.bus import GOSSIP_BYTES, NODE_ID_BYTES, SLOT_BITMAP_BYTES

OUTBOUND, SENT = 1, 2
"""Bits of `SeenRows.flags`: on a connection that the observer opened; by the observer."""
REST_BYTES_MAX: Final = 512
"""Extensions that are longer are read each time."""
PROBES_MAX: Final = 64
TS_NS_MAX: Final = 1 << 62
"""A clock beyond this is no clock."""
NONE: Final = -1
NEVER_MS: Final = (1 << 62) // 1_000_000
_MS_NS: Final = 1_000_000
_AT_SIZE, _AT_VERSION, _AT_TYPE, _AT_COUNT, _AT_EPOCH, _AT_CONFIG, _AT_OFFSET, _AT_SENDER = 4, 8, 12, 14, 16, 24, 32, 40
_ENTRY_PONG, _ENTRY_FLAGS = NODE_ID_BYTES + 4, 98
_ID_WORDS = NODE_ID_BYTES // 8


class Why(IntEnum):
    """Why a run ended: no message that was sent is left; a row that may change more than clocks; a sender's words are not known, or others."""

    MORE = 0
    OTHER = 1
    UNKNOWN = 2


class SeenRows(NamedTuple):
    """Evidence of one observer, row by row: messages packed, one behind the other in *data*, and others that *is_message* denies."""

    is_message: NDArray[np.bool_]
    ts_ns: NDArray[np.int64]
    connection: NDArray[np.int64]
    flags: NDArray[np.uint8]
    ip: NDArray[np.int64]
    """A number for each address of a peer, the same in all rows that one `QuietPeers` sees."""
    bitmap: NDArray[np.int64]
    data: NDArray[np.uint8]
    ends: NDArray[np.int64]
    """One more than rows: where each row's bytes begin, and the end."""


class Clocks(NamedTuple):
    """What quiet messages move; times of peers in ms, [0] by place."""

    pong_ms: NDArray[np.int64]
    ping_ms: NDArray[np.int64]
    data_ms: NDArray[np.int64]
    offset: NDArray[np.uint64]
    control: NDArray[np.int64]
    """By `C_…`."""
    pings_ns: NDArray[np.int64]
    """When PINGs left on connections of the observer's own."""


class Known(NamedTuple):
    """What does not change while a run lasts: peers by place, connections in order of their numbers, what each sender says."""

    flags: NDArray[np.int64]
    is_well: NDArray[np.bool_]
    is_linked: NDArray[np.bool_]
    takes_rumours: NDArray[np.bool_]
    ids: NDArray[np.uint8]
    table: NDArray[np.int32]
    link_place: NDArray[np.int64]
    link_is_inbound: NDArray[np.bool_]
    epochs: NDArray[np.uint64]
    """The view's current epoch, and that of the observer's headers."""
    says: NDArray[np.bool_]
    """By place, and behind the peers for PINGs and PONGs of the observer: whether this is known of them."""
    said: NDArray[np.uint8]
    said_bitmap: NDArray[np.int64]
    said_ip: NDArray[np.int64]
    rest: NDArray[np.uint8]
    rest_bytes: NDArray[np.int64]


(
    C_NOW, C_NEXT_TICK, C_SENT, C_SEEN, C_MASTER_SEEN, C_INTERVAL_MS, C_TIMEOUT_MS, C_MASTER, C_DEADLINE_MS, C_PINGS,
    C_STOP, C_WHY, C_TICK_NS, C_TICKS_MAX, C_STALL_NS, C_HELD_MAX, CONTROLS,
) = range(17)  # fmt: skip


@njit()
def enter_ids(ids: NDArray[np.uint8], table: NDArray[np.int32]) -> None:
    """Enter each id's place into *table* (a power of two, filled with `NONE`), but those that begin with a zero; one that finds no room near is not found later."""
    for place in range(ids.shape[0] // NODE_ID_BYTES):
        at = _hash(ids, NODE_ID_BYTES * place) & (table.shape[0] - 1)
        for _ in range(PROBES_MAX if ids[NODE_ID_BYTES * place] else 0):
            if table[at] < 0:
                table[at] = place
                break
            at = (at + 1) & (table.shape[0] - 1)


@njit(inline="always")
def _hash(data: NDArray[np.uint8], at: int) -> int:
    mixed = np.uint64(0)
    for word in range(_ID_WORDS):
        mixed = (mixed ^ word64(data, at + 8 * word)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(0x7FFFFFFF))


@njit(inline="always")
def _place_of(k: Known, data: NDArray[np.uint8], at: int) -> int:
    """The place of the node whose id stands there, `NONE` for a stranger."""
    slot = _hash(data, at) & (k.table.shape[0] - 1)
    for _ in range(PROBES_MAX):
        place = k.table[slot]
        if place < 0:
            return NONE
        if is_equal(k.ids, NODE_ID_BYTES * place, data, at, NODE_ID_BYTES):
            return place
        slot = (slot + 1) & (k.table.shape[0] - 1)
    return NONE


@njit()
def follow_quiet(rows: SeenRows, links: NDArray[np.int64], k: Known, c: Clocks, start: int) -> int:
    """Move the clocks by quiet stretches from row *start* on, and return the first row that is left.

    *links* is the link of each row, `NONE` for an unknown one.  C_WHY of the control says why it ended (`Why`), C_STOP at which row.
    """
    at, control = start, c.control
    while True:
        row, first_ping = at, NONE
        while row < rows.is_message.shape[0] and rows.is_message[row] and not rows.flags[row] & SENT:
            if first_ping < 0 and _kind(rows, row) == PING:
                first_ping = row
            row += 1
        control[C_STOP], control[C_WHY] = row, Why.MORE
        if row == rows.is_message.shape[0]:
            return at
        control[C_WHY] = Why.OTHER
        stalls = first_ping >= 0 and rows.ts_ns[row] - rows.ts_ns[first_ping] > control[C_STALL_NS]
        if not rows.is_message[row] or stalls or row - at > control[C_HELD_MAX] or not _is_calm(k, c, rows.ts_ns[row]):
            return at
        for one in range(at, row + 1):
            why = _doubt(rows, links, k, one)
            if why != Why.MORE:
                control[C_STOP], control[C_WHY] = one, why
                return at
        if c.pings_ns.shape[0] <= control[C_PINGS]:
            return at
        for one in range(at, row):
            _hear(rows, links, k, c, one)
        _say(rows, links, k, c, row)
        at = row + 1


@njit(inline="always")
def _kind(rows: SeenRows, row: int) -> int:
    at = rows.ends[row]
    return big16(rows.data, at + _AT_TYPE) if rows.ends[row + 1] - at >= _AT_EPOCH else NONE


@njit(inline="always")
def _is_calm(k: Known, c: Clocks, ts_ns: int) -> bool:
    """Whether no cron up to then pings on a link that nobody sees (R32), or doubts a silent node (R53)."""
    now_ms = max(ts_ns, c.control[C_NOW]) // _MS_NS
    if ts_ns > TS_NS_MAX or now_ms <= c.control[C_DEADLINE_MS]:
        return ts_ns <= TS_NS_MAX
    deadline_ms = NEVER_MS
    for place in range(k.flags.shape[0]):
        flags = k.flags[place]
        if flags & (MYSELF | NOADDR | HANDSHAKE):
            continue
        if c.ping_ms[place] == 0:
            if not k.is_linked[place]:
                deadline_ms = min(deadline_ms, c.pong_ms[place] + c.control[C_INTERVAL_MS])
        elif not flags & FAILURES:
            deadline_ms = min(deadline_ms, max(c.ping_ms[place], c.data_ms[place]) + c.control[C_TIMEOUT_MS])
    c.control[C_DEADLINE_MS] = deadline_ms
    return now_ms <= deadline_ms


@njit()
def _doubt(rows: SeenRows, links: NDArray[np.int64], k: Known, row: int) -> int:
    """`Why` a message may move more than clocks; MORE where it is quiet."""
    data, at = rows.data, rows.ends[row]
    size, link, is_sent = rows.ends[row + 1] - at, links[row], rows.flags[row] & SENT
    if size < PACKED_HEADER_BYTES or rows.bitmap[row] < 0 or big32(data, at + _AT_SIZE) != size + SLOT_BITMAP_BYTES:
        return Why.OTHER
    kind, entries_end = big16(data, at + _AT_TYPE), PACKED_HEADER_BYTES + GOSSIP_BYTES * big16(data, at + _AT_COUNT)
    if kind > PONG or entries_end > size:
        return Why.OTHER
    place = k.link_place[link] if link >= 0 else NONE
    speaker = place
    if is_sent:
        speaker = k.flags.shape[0] + kind
        if rows.flags[row] & OUTBOUND and (place < 0 or k.flags[place] & MEET):
            return Why.OTHER
    elif place < 0 or k.flags[place] & UNSETTLED or (kind == PING and not k.link_is_inbound[link]):
        return Why.OTHER
    epoch = big64(data, at + _AT_EPOCH)
    if (is_sent and epoch != k.epochs[1]) or (not is_sent and epoch > k.epochs[0]):
        return Why.OTHER
    if not k.says[speaker] or not _says_it_again(rows, k, row, speaker, entries_end):
        return Why.UNKNOWN
    for entry in range(at + PACKED_HEADER_BYTES, at + entries_end, GOSSIP_BYTES):
        told = _place_of(k, data, entry)
        flags = big16(data, entry + _ENTRY_FLAGS)
        if told < 0:
            return Why.OTHER
        if is_sent:
            if (k.flags[told] ^ flags) & (ROLES | FAILURES):
                return Why.OTHER
        elif flags & FAILURES or not k.is_well[told]:
            return Why.OTHER
    return Why.MORE


@njit(inline="always")
def _says_it_again(rows: SeenRows, k: Known, row: int, speaker: int, entries_end: int) -> bool:
    """Whether all but clocks and gossip is as it was when this speaker was last heard."""
    data, at = rows.data, rows.ends[row]
    said, rest_bytes = speaker * PACKED_HEADER_BYTES, rows.ends[row + 1] - at - entries_end
    return (
        rows.bitmap[row] == k.said_bitmap[speaker]
        and (k.said_ip[speaker] < 0 or rows.ip[row] == k.said_ip[speaker])
        and rest_bytes == k.rest_bytes[speaker]
        and is_equal(k.said, said, data, at, _AT_SIZE)
        and is_equal(k.said, said + _AT_VERSION, data, at + _AT_VERSION, _AT_TYPE - _AT_VERSION)
        and is_equal(k.said, said + _AT_CONFIG, data, at + _AT_CONFIG, _AT_OFFSET - _AT_CONFIG)
        and is_equal(k.said, said + _AT_SENDER, data, at + _AT_SENDER, PACKED_HEADER_BYTES - _AT_SENDER)
        and is_equal(k.rest, speaker * REST_BYTES_MAX, data, at + entries_end, rest_bytes)
    )


@njit(inline="always")
def _advance(c: Clocks, ts_ns: int) -> None:
    """`ObserverReplay._advance` where no tick finds anything to do."""
    control, tick_ns = c.control, c.control[C_TICK_NS]
    if ts_ns - control[C_NEXT_TICK] > control[C_TICKS_MAX] * tick_ns:
        control[C_NEXT_TICK] = ts_ns - control[C_TICKS_MAX] * tick_ns
    if control[C_NEXT_TICK] <= ts_ns:
        ticks = (ts_ns - control[C_NEXT_TICK]) // tick_ns + 1
        control[C_NEXT_TICK] += ticks * tick_ns
        control[C_NOW] = max(control[C_NOW], control[C_NEXT_TICK] - tick_ns)
    control[C_NOW] = max(control[C_NOW], ts_ns)


@njit()
def _hear(rows: SeenRows, links: NDArray[np.int64], k: Known, c: Clocks, row: int) -> None:
    """A quiet message reaches the observer: `Prefilter.settle`."""
    data, at, control = rows.data, rows.ends[row], c.control
    place = k.link_place[links[row]]
    _advance(c, rows.ts_ns[row])
    now_ms = control[C_NOW] // _MS_NS
    if place == control[C_MASTER]:
        control[C_MASTER_SEEN] = control[C_NOW]
    c.data_ms[place] = now_ms
    c.offset[place] = big64(data, at + _AT_OFFSET)
    if big16(data, at + _AT_TYPE) == PONG and not k.link_is_inbound[links[row]]:
        c.pong_ms[place], c.ping_ms[place] = now_ms, 0
        if not k.is_linked[place]:
            control[C_DEADLINE_MS] = min(control[C_DEADLINE_MS], now_ms + control[C_INTERVAL_MS])
    limit_s = (now_ms + CLOCK_SLACK_MS) // MS_PER_S
    first = at + PACKED_HEADER_BYTES
    for entry in range(first, first + GOSSIP_BYTES * big16(data, at + _AT_COUNT), GOSSIP_BYTES):
        pong_s = big32(data, entry + _ENTRY_PONG)
        if pong_s <= limit_s:
            told = _place_of(k, data, entry)
            if c.pong_ms[told] < pong_s * MS_PER_S and c.ping_ms[told] == 0 and k.takes_rumours[told]:
                c.pong_ms[told] = pong_s * MS_PER_S


@njit()
def _say(rows: SeenRows, links: NDArray[np.int64], k: Known, c: Clocks, row: int) -> None:
    """The observer sends a quiet message: a PING on a link of its own leaves in a cron (R28), and is pending."""
    control, ts_ns, link = c.control, rows.ts_ns[row], links[row]
    _advance(c, ts_ns)
    pings = rows.flags[row] & OUTBOUND and big16(rows.data, rows.ends[row] + _AT_TYPE) == PING
    if pings:
        is_late = control[C_NEXT_TICK] - ts_ns < control[C_TICK_NS] // 2
        control[C_NEXT_TICK] = ts_ns if is_late else ts_ns + control[C_TICK_NS]
        _advance(c, ts_ns)
        now_ms = control[C_NOW] // _MS_NS
        c.ping_ms[k.link_place[link]] = now_ms
        c.pings_ns[control[C_PINGS]] = control[C_NOW]
        control[C_PINGS] += 1
        control[C_DEADLINE_MS] = min(control[C_DEADLINE_MS], now_ms + control[C_TIMEOUT_MS])
    control[C_SENT], control[C_SEEN] = ts_ns, control[C_NOW]
