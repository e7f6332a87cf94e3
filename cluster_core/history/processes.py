"""Restarts, resynchronizations and data loss, from logs and packets.

Replicas of a master that restarts empty drop their data in a full resynchronization (P5, P6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from cluster_core.history.promotions import master_followed
from cluster_core.history.statements import LINE_NS, Lines, LoggedLine
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import EventRow

S: Final = 1_000_000_000
LINKED_NS: Final = 60 * S
"""Maximum time until a replica requests a resynchronization from a restarted master."""
SAME_NS: Final = 5 * S
"""Maximum distance of one start or end in two sources."""
ENDS: Final = (EventKind.STOPPING, EventKind.STOPPED, EventKind.CRASHED)


class Restart(NamedTuple):
    """A process of *node* ended between *end_min_ns* and *end_max_ns*; the next started by *start_ns*.

    It accepted connections by *ready_ns*, after *ready_min_ns* if known. *how*: stopped, crashed, empty if unknown;
    *loaded*: keys loaded at start, None if not logged.
    """

    node: str
    end_min_ns: int
    end_max_ns: int
    start_ns: int
    ready_ns: int | None
    how: str
    loaded: int | None
    source: Source
    ready_min_ns: int | None = None

    @property
    def earliest_ready_ns(self) -> int:
        """Return the earliest time it can have accepted connections."""
        return self.ready_min_ns if self.ready_min_ns is not None else self.ready_ns or self.start_ns

    def is_within(self, from_ns: int, to_ns: int | None) -> bool:
        """Return whether it can overlap *from_ns* to *to_ns* (None: open)."""
        return self.start_ns >= from_ns and (to_ns is None or self.end_min_ns <= to_ns)


class Resync(NamedTuple):
    """*node* synchronized with *master* from *from_ns* to *to_ns* (None: end not logged), *full* or from the backlog.

    *flushed*: it dropped its own data; *keys*: loaded keys, None if not logged. *failed* full copies since *first_ns*
    did not end; if not *done*, the last one is one of them.
    """

    node: str
    master: str
    from_ns: int
    to_ns: int | None
    full: bool
    flushed: bool
    keys: int | None
    first_ns: int
    failed: int = 0
    done: bool = True


class DataLoss(NamedTuple):
    """*master* came back empty after *restart*; the replicas *wiped* took over its empty data set."""

    master: str
    restart: Restart
    wiped: tuple[Resync, ...]


# -- restarts ---------------------------------------------------------------------------------------------------------


def restarts_of(lines: Lines, events: Iterable[EventRow], sampled: Iterable[Restart] = ()) -> list[Restart]:
    """Return restarts from logs, packets and *sampled* ones, merged, in time order."""
    sightings = [*_in_logs(lines), *_in_packets(events), *sampled]
    merged: list[Restart] = []
    for restart in sorted(sightings, key=lambda restart: (restart.node, restart.start_ns, restart.source)):
        last = merged[-1] if merged and merged[-1].node == restart.node else None
        if last is not None and last.source != restart.source and restart.end_min_ns <= last.start_ns + SAME_NS:
            merged[-1] = _both(last, restart)
        else:
            merged.append(restart)
    return sorted(merged, key=lambda restart: (restart.end_max_ns, restart.node))


TRUST: Final = (Source.LOG, Source.CAPTURE, Source.POLL, Source.METRICS)
"""Sources of a restart by descending precedence."""


def _both(restart: Restart, other: Restart) -> Restart:
    """Merge two sources of a restart: the preferred one with the narrower times."""
    first, rest = sorted((restart, other), key=lambda source_restart: TRUST.index(source_restart.source))
    low, high = max(restart.end_min_ns, other.end_min_ns), min(restart.end_max_ns, other.end_max_ns)
    if low > high or first.how:
        low, high = first.end_min_ns, first.end_max_ns
    ready_ns, ready_min_ns = first.ready_ns, first.ready_min_ns
    if ready_ns is None or (
        ready_min_ns is not None and rest.ready_ns is not None and ready_min_ns <= rest.ready_ns < ready_ns
    ):
        ready_ns, ready_min_ns = rest.ready_ns, rest.ready_min_ns
    return first._replace(
        end_min_ns=low,
        end_max_ns=high,
        ready_ns=ready_ns,
        ready_min_ns=ready_min_ns,
        loaded=rest.loaded if first.loaded is None else first.loaded,
    )


def _in_logs(lines: Lines) -> Iterator[Restart]:
    for node, mine in lines.of_node.items():
        for at, line in enumerate(mine):
            if line.kind != EventKind.STARTED or at == 0:
                continue  # the time before the first line is unknown
            before = mine[at - 1]
            ends = [logged for logged in _since_start(mine, at) if logged.kind in ENDS]
            how = "crashed" if any(logged.kind == EventKind.CRASHED for logged in ends) else "stopped" if ends else ""
            end_ns = ends[0].ts_ns + LINE_NS if ends else line.ts_ns
            after = _until_start(mine, at)
            ready = next((logged.ts_ns for logged in after if logged.kind == EventKind.READY), None)
            loaded = [
                int(logged.detail)
                for logged in after
                if logged.kind == EventKind.DATA_LOADED
                and logged.detail.isdigit()
                and (ready is None or logged.ts_ns <= ready)
            ]
            stopping = [logged.ts_ns for logged in ends if logged.kind == EventKind.STOPPING]  # it may save for long
            low_ns = before.ts_ns if not ends else (stopping or [ends[0].ts_ns])[0]
            yield Restart(node, low_ns, end_ns, line.ts_ns, ready, how, loaded[0] if loaded else None, Source.LOG)


def _since_start(mine: Sequence[LoggedLine], at: int) -> Iterator[LoggedLine]:
    """Yield the lines of the process before the start at *at*, last first."""
    for line in reversed(mine[:at]):
        yield line
        if line.kind == EventKind.STARTED:
            return


def _until_start(mine: Sequence[LoggedLine], at: int) -> list[LoggedLine]:
    """Return the lines of the process started at *at*."""
    lines_after = []
    for line in mine[at + 1 :]:
        if line.kind == EventKind.STARTED:
            break
        lines_after.append(line)
    return lines_after


def _in_packets(events: Iterable[EventRow]) -> Iterator[Restart]:
    """Yield restarts in packets: refused connections, then a header of the node."""
    ended_ns: dict[str, int] = {}
    for event in sorted(events, key=lambda event: event.ts_ns):
        if event.kind == EventKind.PROCESS_ENDED:
            ended_ns[event.observer] = event.ts_ns
        elif event.kind == EventKind.PROCESS_STARTED and event.observer in ended_ns:
            end_ns = ended_ns.pop(event.observer)
            yield Restart(event.observer, end_ns, end_ns, event.ts_ns, event.ts_ns, "", None, Source.CAPTURE)


# -- resynchronisation ------------------------------------------------------------------------------------------------


def resyncs_of(lines: Lines) -> list[Resync]:
    """Return the resynchronizations in replicas' logs, in time order."""
    resyncs = [resync for node, mine in lines.of_node.items() for resync in _resyncs(lines, node, mine)]
    return sorted(resyncs, key=lambda resync: (resync.from_ns, resync.node))


def _resyncs(lines: Lines, node: str, mine: Iterable[LoggedLine]) -> Iterator[Resync]:
    """Yield a node's successes, each with the failed attempts before it, and attempts without success."""
    attempt: Resync | None = None
    for line in mine:
        if line.kind == EventKind.RESYNC_ASKED:
            master = master_followed(lines, node, line.ts_ns)
            asked = Resync(node, master, line.ts_ns, None, False, False, None, line.ts_ns, done=False)
            if attempt is not None and (failed := attempt.failed + attempt.full):
                if attempt.master == master:
                    asked = asked._replace(first_ns=attempt.first_ns, failed=failed)
                else:
                    yield _given_up(attempt, line.ts_ns)
            attempt = asked
        elif attempt is None:
            continue
        elif line.kind == EventKind.FULL_RESYNC:
            attempt = attempt._replace(full=True)
        elif line.kind == EventKind.DATA_FLUSHED:
            attempt = attempt._replace(flushed=True)
        elif line.kind == EventKind.DATA_LOADED and line.detail.isdigit():
            attempt = attempt._replace(keys=int(line.detail))
        elif line.kind == EventKind.MASTER_LINK_UP:
            yield attempt._replace(to_ns=line.ts_ns, done=True)
            attempt = None
        elif line.kind == EventKind.STARTED:
            if attempt.full or attempt.failed:
                yield _given_up(attempt, line.ts_ns)
            attempt = None
    if attempt is not None and (attempt.full or attempt.failed):
        yield _given_up(attempt, None)


def _given_up(attempt: Resync, ts_ns: int | None) -> Resync:
    return attempt._replace(to_ns=ts_ns, failed=attempt.failed + attempt.full)


# -- loss -------------------------------------------------------------------------------------------------------------


def copies_until_ns(restart: Restart, restarts: Iterable[Restart]) -> int:
    """Return the end of the time in which replicas copy the data of the restarted process: 60 s, or its next restart."""
    later = (other.start_ns for other in restarts if other.node == restart.node and other.start_ns > restart.start_ns)
    return min([(restart.ready_ns or restart.start_ns) + LINKED_NS, *later])


def data_losses(restarts: Sequence[Restart], resyncs: Sequence[Resync], lines: Lines) -> list[DataLoss]:
    """Return masters that restarted without data, with their replicas that loaded no key afterwards."""
    losses = []
    for restart in restarts:
        if restart.loaded:
            continue
        until_ns = copies_until_ns(restart, restarts)
        wiped = tuple(
            resync
            for resync in resyncs
            if resync.master == restart.node
            and resync.full
            and resync.flushed
            and resync.keys == 0
            and restart.start_ns <= resync.from_ns <= until_ns
            and _had_followed(lines, resync.node, restart)
        )
        if wiped:
            losses.append(DataLoss(restart.node, restart, wiped))
    return losses


def _had_followed(lines: Lines, replica: str, restart: Restart) -> bool:
    """Return whether a node was a replica of the restarted one at the end of its process."""
    linked = (EventKind.MASTER_LINK_UP, EventKind.MASTER_LINK_LOST)
    return master_followed(lines, replica, restart.end_max_ns) == restart.node and bool(
        lines.between(replica, 0, restart.start_ns + LINKED_NS, *linked)
    )
