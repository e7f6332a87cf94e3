"""A replay of one observer from packed rows: what moves nothing but clocks never becomes a message.

Rows are fed to `ObserverReplay` one by one, as long as any of them may do more, and in runs of the kernel where none does
(`cluster_core.kernels.bus.quiet`).  Quiet rows need not wait for what follows, as they tell nothing: they are carried out at once where
all that waits is quiet, too.  So rows come out as they do of the plain replay, with the same evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final

from cluster_core.gossip.flags import HANDSHAKE, MASTER
from cluster_core.gossip.prefilter import PING, PONG
from cluster_core.gossip.view import slot_bits
from cluster_core.kernels.bus.quiet import NONE, SENT, SeenRows, Why
from cluster_core.kernels.bus.quiet_peers import Moved, Pace, QuietPeers
from cluster_core.replay.evidence import Evidence, MessageSeen
from cluster_core.replay.observer import TICK_NS, TICKS_BEHIND_MAX, ObserverReplay
from cluster_core.replay.pacing import HELD_MAX, STALL_NS
from cluster_core.replay.recorder import Recorder
from cluster_core.replay.rows import ReplayRow
from cluster_core.wire.bus import Gossip, Header, Message
from cluster_core.wire.bus_message import FORGOTTEN_NODE

RUN_MIN: Final = 32
"""Rows that a run must cover to be worth it; after a shorter one the machine goes on for longer and longer."""
PATIENCE_MAX: Final = 64
LEFT_MAX: Final = 10_000
"""Rows that wait for the observer to speak beyond so many are fed."""


class QuietRuns:
    """Feeds one `ObserverReplay`, of which it is a part that only saves time: it keeps nothing that is not found out again."""

    def __init__(self, replay: ObserverReplay) -> None:
        self._replay = replay
        self._peers = QuietPeers(Pace(TICK_NS, TICKS_BEHIND_MAX, STALL_NS, HELD_MAX))
        self._heard: set[str] = set()
        self._free = self._waits = self._patience = 0
        self.fed = 0
        """How many rows were fed, or carried out."""

    @property
    def first_open(self) -> int:
        """The first row that waits, or was not fed; below 0 where older evidence waits."""
        replay = self._replay
        return self.fed - len(replay._behind) - replay._pacer.waiting

    def feed(
        self, rows: SeenRows, evidence_of: Callable[[int], Evidence | None], fed: int, *, is_last: bool
    ) -> Iterator[tuple[int, list[ReplayRow]]]:
        """Feed *rows*, of which the first *fed* were fed before; yield what is settled, and by which row.

        Unless these are the last ones, those behind the last message that the observer sent may be left for the next call, which then gets
        all rows from `first_open` on once more.
        """
        self.fed, self._free = fed, 0
        count = len(rows.ts_ns)
        while self.fed < count:
            if self._waits <= 0 and self._run(rows, evidence_of) is Why.MORE:
                if not is_last and count - self.first_open < LEFT_MAX:
                    return
                self._waits = count
            if self.fed == count:
                return
            at, self.fed = self.fed, self.fed + 1
            self._waits -= 1
            seen = evidence_of(at)
            if seen is None:
                continue
            if isinstance(seen, MessageSeen) and isinstance(seen.message.header, Header):
                self._heard.add(seen.message.header.sender)
            told = self._replay.feed(seen)
            if told:
                yield at, told

    def _run(self, rows: SeenRows, evidence_of: Callable[[int], Evidence | None]) -> Why:
        """Carry out all quiet stretches from the first open row on, and say why no more."""
        first, recorder, peers = self.first_open, self._replay._recorder, self._peers
        if (
            first < self._free
            or recorder is None
            or not self._is_calm(recorder)
            or not rows.is_message[first : self.fed].all()
        ):
            return Why.OTHER
        replay, watch, view = self._replay, self._replay._watch, recorder.view
        peers.meet(view)
        peers.forget({peers.place_of(node) for node in self._heard} | {peers.own_place(kind) for kind in (PING, PONG)})
        self._heard.clear()
        moved = Moved(
            recorder.now_ns,
            replay._next_tick_ns,
            replay._sent_ns,
            watch._seen_ns,
            watch._master_seen_ns,
            watch._epoch,
            [],
        )
        peers.load(view, moved, rows)
        end, why, stop = peers.run(rows, first)
        while why is Why.UNKNOWN and self._learns(rows, stop, evidence_of(stop), recorder):
            end, why, stop = peers.run(rows, end)
        peers.store(view, moved)
        self._follow(recorder, moved, end - first)
        self.fed = max(self.fed, end)
        self._free = stop + 1 if why is not Why.MORE else 0
        self._patience = 0 if end - first >= RUN_MIN or why is Why.MORE else min(2 * self._patience + 1, PATIENCE_MAX)
        self._waits = self._patience
        return why

    def _is_calm(self, recorder: Recorder) -> bool:
        """Whether nothing is under way that the next message, or cron, of the observer would go on with."""
        replay, view, ledger, finder = self._replay, recorder.view, recorder.ledger, self._replay._finder
        return (
            not (replay._down or replay._is_mute or replay._behind or recorder.doubted_ns or recorder.own_changed_ns)
            and view.ok
            and not (view.state_stale or view.unclaimed or view.mf_end_ms or ledger.is_busy)
            and finder is not None
            and finder.is_idle
            and (replay._profile is not None or view.profile.name == replay._signs.profile.name)
            and not any(peer.flags & HANDSHAKE for peer in view.nodes.values())
        )

    def _follow(self, recorder: Recorder, moved: Moved, count: int) -> None:
        """Take over what a run over *count* rows came to."""
        replay, watch, finder = self._replay, self._replay._watch, self._replay._finder
        if not count:
            return
        replay._pacer.drop(count)
        recorder.now_ns, replay._next_tick_ns = moved.now_ns, moved.next_tick_ns
        replay._sent_ns, replay._closed_ns = moved.sent_ns, 0
        watch.note_quiet(moved.seen_ns, moved.master_seen_ns, moved.pings_ns)
        if finder is not None:
            finder.note_quiet(moved.sent_ns)

    def _learns(self, rows: SeenRows, row: int, seen: Evidence | None, recorder: Recorder) -> bool:
        """Whether what this message says, gossip and clocks aside, is what its speaker said before, and nothing followed."""
        if not isinstance(seen, MessageSeen):
            return False
        message, header, body, view = seen.message, seen.message.header, seen.message.body, recorder.view
        if not isinstance(header, Header) or not isinstance(body, Gossip) or message.rest is not None:
            return False
        if rows.flags[row] & SENT:
            is_known = header.sender == view.myself.id and self._repeats_own(header, body, message)
            return is_known and self._peers.learn(self._peers.own_place(header.type), rows, row)
        place = self._peers.link_place(row)
        if place == NONE or place != self._peers.place_of(header.sender) or not recorder.knows(seen):
            return False
        replay, sender = self._replay, view.nodes[header.sender]
        claims = replay._finder.claims_of(header.sender) if replay._finder is not None else None
        if header.flags & MASTER and (claims is None or claims.myslots != header.myslots):
            return False
        if header.sender == view.myself.replicaof and slot_bits(header.myslots) & ~sender.slots:
            return False
        return self._peers.learn(place, rows, row)

    def _repeats_own(self, header: Header, body: Gossip, message: Message) -> bool:
        """Whether the observer's books have such a header, and signs of such a message."""
        replay, finder, recorder = self._replay, self._replay._finder, self._replay._recorder
        if finder is None or recorder is None or any(extension.type == FORGOTTEN_NODE for extension in body.extensions):
            return False
        olds = (replay._watch._header, recorder.ledger._last, finder._own)
        same = all(old is not None and claims_of(old) == claims_of(header) for old in olds)
        return same and header.current_epoch == replay._watch._epoch and replay._signs.knows(message)


claims_of: Final = attrgetter(
    "sender", "current_epoch", "config_epoch", "replicaof", "flags", "mflags", "state", "myslots"
)
"""What of a header the books of its own observer go by."""
