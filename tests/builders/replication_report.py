"""Makes a report on replication for tests: two replicas of one master, one of which was sent everything again."""

from __future__ import annotations

from slotscope.reports.replication.report import LinkPiece, OffsetMark, ReplicationReport, Resync

START_NS = 1_795_289_783_000_000_000
SECOND = 1_000_000_000
MASTER, A, B = "10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"


def replication_report(*, hostile: bool = False) -> ReplicationReport:
    """A follows from the start; B loses its link at 4 s, comes back at 6 s and is sent everything; *hostile* names it as markup."""
    lost = "<img src=x onerror=alert(1)>" if hostile else B
    resyncs = [
        _resync(1, 0, A, "partial", "went on, because its backlog still has what is missing"),
        _resync(2, 1, lost, "full", "was sent everything, because the master has no history of that name"),
        _resync(
            3,
            6,
            lost,
            "full",
            "was sent everything, because the backlog no longer reached back that far",
            foreseen=False,
        ),
    ]
    pieces = [
        _piece(1, A, "online", "up", 0, None, 9_000),
        _piece(2, lost, "send_bulk", "down", 1, 2, None),
        _piece(2, lost, "online", "up", 2, 4, 4_000),
        _piece(2, lost, "lost", "down", 4, 6, 4_000),
        _piece(3, lost, "online", "up", 6, None, 9_000),
    ]
    offsets = [
        OffsetMark(START_NS + at * SECOND, replica, MASTER, 14 * at) for at in range(10) for replica in (A, lost)
    ]
    return ReplicationReport("current", resyncs, pieces, offsets)


def _resync(number: int, at_s: int, replica: str, answered: str, why: str, *, foreseen: bool = True) -> Resync:
    full = answered == "full"
    sentence = f"{replica} asked {MASTER} to go on at byte 1 and {why}; 12 ms."
    return Resync(
        number, START_NS + at_s * SECOND, replica, MASTER, "PSYNC ? -1", answered, foreseen, sentence, 549 if full else 0, 549, 12.0, "done"
    )  # fmt: skip


def _piece(
    link: int, replica: str, state: str, status: str, from_s: int, to_s: int | None, offset: int | None
) -> LinkPiece:
    until = None if to_s is None else START_NS + to_s * SECOND
    return LinkPiece(link, replica, MASTER, state, status, START_NS + from_s * SECOND, until, offset, "seen")
