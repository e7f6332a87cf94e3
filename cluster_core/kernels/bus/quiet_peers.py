"""The peers of one observer as arrays: what runs over quiet messages (`cluster_core.kernels.bus.quiet`) read and move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cluster_core.gossip.flags import FAILURES, HANDSHAKE, MEET, MYSELF
from cluster_core.gossip.view import View
from cluster_core.kernels.bus import quiet as q
from cluster_core.kernels.bus.packing import PACKED_HEADER_BYTES
from cluster_core.wire.bus import GOSSIP_BYTES, NODE_ID_BYTES

_AT_COUNT: Final = slice(14, 16)
_KINDS: Final = 2
"""The observer's own PINGs and PONGs, which stand behind its peers."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How an observer's time goes: a tick, how many are made up, how long it may take to answer, how much may wait for that."""

    tick_ns: int
    ticks_max: int
    stall_ns: int
    held_max: int


@dataclass(slots=True)
class Moved:
    """Where a run is: the observer's times, the epoch of its headers, and the PINGs that left on its own connections."""

    now_ns: int
    next_tick_ns: int
    sent_ns: int
    seen_ns: int
    master_seen_ns: int
    epoch: int
    pings_ns: list[int]


class QuietPeers:
    """What is known of one observer's peers, and what each of them says."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._version = -1
        self._ids: tuple[str, ...] = ()
        self._places: dict[str, int] = {}

    def place_of(self, node: str) -> int:
        """The place of a node, `NONE` where it has none."""
        return self._places.get(node, q.NONE)

    def own_place(self, kind: int) -> int:
        """The place of the observer's own messages of that kind."""
        return len(self._ids) + kind

    def forget(self, places: set[int]) -> None:
        """What these say is to be learnt again."""
        self._says[[place for place in places if place >= 0]] = False

    def meet(self, view: View) -> None:
        """Begin anew where the view has changed."""
        if self._version == view.version and len(self._ids) == len(view.nodes):
            return
        self._version = view.version
        ids = tuple(view.nodes)
        count = len(ids) + _KINDS
        if ids != self._ids:
            self._ids, self._places = ids, {node: place for place, node in enumerate(ids)}
            wired = [node if node.isascii() and len(node) == NODE_ID_BYTES else "\0" * NODE_ID_BYTES for node in ids]
            plain = "".join(wired).encode()
            self._table_ids = np.frombuffer(plain, dtype=np.uint8)
            self._table = np.full(1 << (2 * len(ids)).bit_length(), q.NONE, dtype=np.int32)
            q.enter_ids(self._table_ids, self._table)
            self._said = np.zeros(count * PACKED_HEADER_BYTES, dtype=np.uint8)
            self._said_bitmap, self._said_ip = np.zeros(count, np.int64), np.zeros(count, np.int64)
            self._rest, self._rest_bytes = np.zeros(count * q.REST_BYTES_MAX, np.uint8), np.zeros(count, np.int64)
        self._says = np.zeros(count, dtype=np.bool_)

    def learn(self, place: int, rows: q.SeenRows, row: int) -> bool:
        """Take what row *row* says, gossip and clocks aside, for what the speaker at *place* says."""
        raw = rows.data[rows.ends[row] : rows.ends[row + 1]]
        rest = raw[PACKED_HEADER_BYTES + GOSSIP_BYTES * int.from_bytes(raw[_AT_COUNT].tobytes(), "big") :]
        if len(rest) > q.REST_BYTES_MAX:
            return False
        at = place * PACKED_HEADER_BYTES
        self._said[at : at + PACKED_HEADER_BYTES] = raw[:PACKED_HEADER_BYTES]
        self._rest[place * q.REST_BYTES_MAX : place * q.REST_BYTES_MAX + len(rest)] = rest
        self._rest_bytes[place] = len(rest)
        self._said_bitmap[place] = rows.bitmap[row]
        self._said_ip[place] = rows.ip[row] if place < len(self._ids) else q.NONE
        self._says[place] = True
        return True

    def load(self, view: View, moved: Moved, rows: q.SeenRows) -> None:
        """Take over the view's clocks, to run over *rows*."""
        peers = list(view.nodes.values())
        flags = np.array([peer.flags for peer in peers], np.int64)
        unclean = MYSELF | (HANDSHAKE | MEET if view.profile.gossip_refreshes_clean_only else 0)
        links = sorted(view.links.items())
        numbers = np.array([number for number, _ in links], np.int64)
        at = np.searchsorted(numbers, rows.connection)
        at[at == len(numbers)] = 0
        self._links = np.where(numbers[at] == rows.connection, at, q.NONE) if links else np.full_like(at, q.NONE)
        self._known = q.Known(
            flags,
            np.array([not (peer.flags & FAILURES or peer.reports) for peer in peers], np.bool_),
            np.array([peer.outbound is not None for peer in peers], np.bool_),
            flags & unclean == 0,
            self._table_ids,
            self._table,
            np.array([self.place_of(link.node or "") for _, link in links], np.int64),
            np.array([link.inbound for _, link in links], np.bool_),
            np.array([view.current_epoch, moved.epoch], np.uint64),
            self._says,
            self._said,
            self._said_bitmap,
            self._said_ip,
            self._rest,
            self._rest_bytes,
        )
        times = np.array([(p.pong_received_ms, p.ping_sent_ms, p.data_received_ms) for p in peers], np.int64)
        control = np.zeros(q.CONTROLS, np.int64)
        control[[q.C_NOW, q.C_NEXT_TICK, q.C_SENT]] = moved.now_ns, moved.next_tick_ns, moved.sent_ns
        control[[q.C_SEEN, q.C_MASTER_SEEN]] = moved.seen_ns, moved.master_seen_ns
        control[[q.C_INTERVAL_MS, q.C_TIMEOUT_MS]] = view.node_timeout_ms // 2, view.node_timeout_ms
        control[q.C_MASTER] = self.place_of(view.myself.replicaof) if view.myself.replicaof else q.NONE
        control[q.C_DEADLINE_MS] = -q.NEVER_MS
        pace = self._pace
        control[[q.C_TICK_NS, q.C_TICKS_MAX, q.C_STALL_NS, q.C_HELD_MAX]] = (
            pace.tick_ns, pace.ticks_max, pace.stall_ns, pace.held_max
        )  # fmt: skip
        self._clocks = q.Clocks(
            times[:, 0].copy(),
            times[:, 1].copy(),
            times[:, 2].copy(),
            np.array([peer.repl_offset for peer in peers], np.uint64),
            control,
            np.zeros(len(rows.ts_ns), np.int64),
        )
        self._before = (times, self._clocks.offset.copy())

    def run(self, rows: q.SeenRows, start: int) -> tuple[int, q.Why, int]:
        """Move the clocks by quiet stretches from row *start* on: the first row that is left, why the run ended, and at which row."""
        end = q.follow_quiet(rows, self._links, self._known, self._clocks, start)
        control = self._clocks.control
        return int(end), q.Why(int(control[q.C_WHY])), int(control[q.C_STOP])

    def link_place(self, row: int) -> int:
        """The place of the node at the other end of that row's connection."""
        link = self._links[row]
        return int(self._known.link_place[link]) if link >= 0 else q.NONE

    def store(self, view: View, moved: Moved) -> None:
        """Give the view its clocks back."""
        clocks, (times, offsets) = self._clocks, self._before
        columns = np.stack((clocks.pong_ms, clocks.ping_ms, clocks.data_ms), axis=1)
        changed: NDArray[np.int64] = np.flatnonzero((columns != times).any(axis=1) | (clocks.offset != offsets))
        peers = list(view.nodes.values())
        values = columns[changed].tolist()
        for place, (pong_ms, ping_ms, data_ms), offset in zip(
            changed.tolist(), values, clocks.offset[changed].tolist(), strict=True
        ):
            peer = peers[place]
            if (pong_ms, ping_ms) != (peer.pong_received_ms, peer.ping_sent_ms):
                view.forget_said(peer)
            peer.pong_received_ms, peer.ping_sent_ms, peer.data_received_ms = pong_ms, ping_ms, data_ms
            peer.repl_offset = offset
        control = clocks.control
        moved.now_ns, moved.next_tick_ns = int(control[q.C_NOW]), int(control[q.C_NEXT_TICK])
        moved.sent_ns, moved.seen_ns = int(control[q.C_SENT]), int(control[q.C_SEEN])
        moved.master_seen_ns = int(control[q.C_MASTER_SEEN])
        moved.pings_ns = clocks.pings_ns[: control[q.C_PINGS]].tolist()
