"""A small cluster's history written by hand: rows of a replay and headers, by default of a master that dies.

Masters A, B, C hold 0-99, 100-199, 200-299; R replicates A; the node timeout is 2 s.  Times are seconds after `T0`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cluster_core.gossip.causes import Cause, Mechanism, Refusal, ReportEnd
from cluster_core.incidents.header_claims import ClaimFolder, ClaimSpan, SentHeader
from cluster_core.incidents.history import History, OffsetSeen
from cluster_core.incidents.thresholds import Thresholds
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, NodeViewRow, ReplayRow, VoteRow
from cluster_core.slots.slot_set import slot_bits

S = 1_000_000_000
T0 = 1_700_000_000 * S
TIMEOUT_MS = 2000
A, B, C, R = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
NODES = (A, B, C, R)
MASTER, REPLICA, MYSELF = 0x1, 0x2, 0x10
SLOTS = {A: "0-99", B: "100-199", C: "200-299"}
EPOCHS = {A: 1, B: 2, C: 3}


def ns(at_s: float) -> int:
    """A time of the story."""
    return T0 + round(at_s * S)


@dataclass
class Tale:
    """Collects rows and headers; `history` is what the core asks."""

    end_s: float = 30.0
    host_of: Callable[[str], str] = lambda node: "10.0.0.1"
    rows: list[ReplayRow] = field(default_factory=list)
    headers: list[tuple[str, int, SentHeader]] = field(default_factory=list)
    bitmaps: dict[str, int] = field(default_factory=lambda: {"": 0})
    offsets: list[OffsetSeen] = field(default_factory=list)
    ref: int = 0

    def view(
        self,
        observer: str,
        node: str,
        from_s: float,
        to_s: float | None = None,
        *,
        flags: str = "master",
        master: str = "",
        epoch: int | None = None,
        slots: str | None = None,
        cause: str = "R70",
        ref: int = -1,
    ) -> None:
        """*observer* believed this of *node* for a while."""
        all_flags = f"myself,{flags}" if observer == node else flags
        is_replica = "slave" in flags
        held = (SLOTS.get(node, "") if not is_replica else "") if slots is None else slots
        number = EPOCHS.get(master or node, 0) if epoch is None else epoch
        port = 7000 + NODES.index(node) if node in NODES else 7999
        self.rows.append(
            NodeViewRow(
                observer, node, self.host_of(node), port, port + 10000, "", all_flags, master, number, held, True,
                ns(from_s), None if to_s is None else ns(to_s), Cause(cause), ref,
            )
        )  # fmt: skip

    def event(self, observer: str, at_s: float, kind: str, subject: str = "", epoch: int = 0, detail: str = "") -> None:
        """Something that *observer* did or learned."""
        self.rows.append(EventRow(observer, ns(at_s), kind, subject, epoch, detail, self.ref))

    def vote(self, voter: str, candidate: str, at_s: float, epoch: int, reason: str = "") -> None:
        answered = None if reason else ns(at_s)
        self.rows.append(VoteRow(voter, candidate, epoch, ns(at_s), answered, not reason, Refusal(reason), self.ref))
        if not reason:
            self.event(voter, at_s, "vote", candidate, epoch)

    def epoch(self, node: str, at_s: float, epoch: int, mechanism: str) -> None:
        self.rows.append(EpochRow(node, epoch, ns(at_s), Mechanism(mechanism), self.ref))

    def report(self, observer: str, reporter: str, subject: str, from_s: float, to_s: float | None) -> None:
        end_ns = None if to_s is None else ns(to_s)
        self.rows.append(FailureReportRow(observer, reporter, subject, ns(from_s), end_ns, ReportEnd.NONE, self.ref))

    def says(
        self,
        node: str,
        at_s: float,
        *,
        replicaof: str = "",
        slots: str | None = None,
        epoch: int | None = None,
        current: int = 3,
        offset: int | None = None,
        state: int = 0,
        flags: int = 0,
        connection: int | None = None,
    ) -> None:
        """One header of *node*."""
        role = REPLICA if replicaof else MASTER
        claimed = SLOTS.get(replicaof or node, "") if slots is None else slots
        self.bitmaps.setdefault(claimed, len(self.bitmaps))
        number = EPOCHS.get(replicaof or node, 0) if epoch is None else epoch
        header = SentHeader(
            ns(at_s), self.ref, role | MYSELF | flags, replicaof, current, number, self.bitmaps[claimed], state,
            round(at_s * 10) if offset is None else offset,
        )  # fmt: skip
        way = NODES.index(node) if connection is None and node in NODES else connection or 0
        self.headers.append((node, way, header))
        self.ref += 1

    def chatter(self, node: str, from_s: float, to_s: float, **claims: object) -> None:
        """Headers of *node* twice a second."""
        for half in range(round(from_s * 2), round(to_s * 2)):
            self.says(node, half / 2, **claims)  # type: ignore[arg-type]

    def everybody_knows(self, from_s: float = 0.0, nodes: tuple[str, ...] = NODES) -> None:
        """Beliefs of all about all, from *from_s* on."""
        for observer in nodes:
            for node in nodes:
                self.view(observer, node, from_s, **({"flags": "slave", "master": A} if node == R else {}))  # type: ignore[arg-type]

    def header_claims(self) -> list[ClaimSpan]:
        """The headers folded, node after node."""
        spans: list[ClaimSpan] = []
        for node in dict.fromkeys(node for node, _, _ in self.headers):
            folder = ClaimFolder(node, Thresholds(TIMEOUT_MS * 1_000_000))
            for header in sorted(
                (header for sender, _, header in self.headers if sender == node), key=lambda header: header.ts_ns
            ):
                folder.feed(header)
            spans += folder.finish(ns(self.end_s))
        return spans

    def history(self, **options: Any) -> History:
        """What the core asks; *options* go to `History` as they are."""
        slots_of = {number: slot_bits(text) for text, number in self.bitmaps.items()}
        return History(
            self.rows,
            self.header_claims(),
            slots_of,
            node_timeout_ms=TIMEOUT_MS,
            first_ns=T0,
            last_ns=ns(self.end_s),
            offsets=self.offsets,
            **options,
        )


def quiet_tale(end_s: float = 30.0) -> Tale:
    """Nothing happens."""
    tale = Tale(end_s)
    tale.everybody_knows()
    for node in NODES:
        tale.chatter(node, 0, end_s, **({"replicaof": A} if node == R else {}))
    return tale


def failover_tale() -> Tale:
    """A falls silent at 9.5 s (offset 120) and comes back at 20 s; R (offset 100) wins epoch 4 at 13.7 s.

    PFAIL at 12 s (B), 12.1 s (C), 12.2 s (R); B decides FAIL at 12.5 s; C and R hear of it.
    """
    tale = Tale()
    for observer in (B, C, R):
        doubt_s = {B: 12.0, C: 12.1, R: 12.2}[observer]
        tale.view(observer, A, 0, doubt_s)
        tale.view(observer, A, doubt_s, 12.5, flags="master,fail?", cause="R53")
        tale.view(observer, A, 12.5, 13.7, flags="master,fail", cause="R54" if observer == B else "R55")
        tale.view(observer, A, 13.7, 20.1, flags="master,fail", slots="")
        tale.view(observer, A, 20.1, flags="slave", master=R, epoch=4, slots="", cause="R55b")
        for node in (B, C):
            tale.view(observer, node, 0)
        tale.view(observer, R, 0, 13.7, flags="slave", master=A)
        tale.view(observer, R, 13.7, epoch=4, slots="0-99")
    tale.view(A, A, 0, 20.05)
    tale.view(A, A, 20.05, flags="slave", master=R, epoch=4, slots="", cause="R73")
    for node in (B, C):
        tale.view(A, node, 0)
    tale.view(A, R, 0, 20.05, flags="slave", master=A)
    tale.view(A, R, 20.05, epoch=4, slots="0-99")
    tale.chatter(A, 0, 9.5)
    tale.says(A, 9.5, offset=120)
    for node in (B, C):
        tale.chatter(node, 0, 13.5)
        tale.chatter(node, 13.5, 30, current=4)
    tale.chatter(R, 0, 13, replicaof=A, offset=100)
    tale.report(B, C, A, 12.3, 20)
    tale.event(B, 12.5, "fail-decided", A, 3)
    tale.event(C, 12.5, "fail-learned", A)
    tale.event(R, 12.5, "fail-learned", A)
    tale.event(B, 12.6, "state-fail", B)
    tale.says(R, 13.5, replicaof=A, offset=100, current=4)
    tale.event(R, 13.5, "election-started", A, 4)
    tale.vote(B, R, 13.6, 4)
    tale.vote(C, R, 13.6, 4)
    tale.epoch(R, 13.7, 4, "election")
    tale.event(R, 13.7, "election-won", R, 4, "100")
    tale.says(R, 13.7, slots="0-99", epoch=4, current=4, offset=100)
    tale.chatter(R, 14, 30, slots="0-99", epoch=4, current=4)
    tale.event(B, 13.8, "state-ok", B)
    tale.says(A, 20, offset=120)
    tale.chatter(A, 20.5, 30, replicaof=R, slots="0-99", epoch=4, current=4)
    return tale


def broken_tale() -> Tale:
    """The failover with lines of logs, an epoch of B that goes back, and the old master's offset by INFO and client port."""
    tale = failover_tale()
    tale.offsets = [
        OffsetSeen(A, ns(9.55), 121),
        OffsetSeen(A, ns(9.6), 125),
        OffsetSeen(A, ns(20.6), 139, is_last=True),
    ]
    tale.ref = -1
    tale.event(R, 12.6, "election-scheduled", "", 0, "Start of election delayed for 900 milliseconds")
    tale.ref = len(tale.headers)
    tale.says(B, 29.9, current=9, connection=90)
    tale.says(B, 29.92, current=4, connection=90)
    return tale
