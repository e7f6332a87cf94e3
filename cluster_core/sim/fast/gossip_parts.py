"""What the compiled gossip loop is made of: its heap of events, failure reports, coverage, messages and the network.

Each function is the twin of one in `cluster_core.node`, `cluster_core.gossip` or `cluster_core.sim`, which its docstring names.
`Arrays` is what all of them work on; the planes are in `gossip_fields`.
"""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster_core.gossip.failure_detection import REPORT_VALIDITY_FACTOR
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MASTER, MEET, NOADDR
from cluster_core.kernels.compiled import borrowing
from cluster_core.sim.fast import gossip_fields as f
from cluster_core.slots.key_slot import SLOT_COUNT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


UNSETTLED = FAILURES | HANDSHAKE | MEET | NOADDR


class Arrays(NamedTuple):
    """Everything that the loop reads and writes."""

    pongs: NDArray[np.uint32]
    """[n, n]: when node i knows node h to have answered last, in FIRST_MS terms, with PINGED."""
    flags: NDArray[np.int32]
    """[n, n]: flags and address; `change_flags` writes them."""
    wide: NDArray[np.int64]
    """[n, n, WIDE_FIELDS]."""
    due: NDArray[np.int64]
    """[n, n]: when node i is to look at node h."""
    narrow: NDArray[np.int32]
    """[n, n, NARROW_FIELDS]."""
    tables: NDArray[np.int32]
    """[orders, n]: the node at each place of a table; nodes that list the others in the same order share one."""
    rows: NDArray[np.int64]
    """[ROW_PLANES, n]."""
    chance: NDArray[np.uint32]
    """[n + 1, 625]: the generators of the nodes, then that of the network."""
    draws: NDArray[np.uint32]
    """[n + 1, 312]: what they draw next, see `gossip_chance.ready`."""
    events: NDArray[np.int64]
    """[3, capacity]: a binary heap of time, order, and what: a message, or ``-1 - node - life * 2**32``, a tick."""
    messages: NDArray[np.int64]
    """[capacity, MESSAGE_COLUMNS]."""
    told: NDArray[np.uint32]
    """[capacity, TOLD_ROWS, most entries]."""
    marks: NDArray[np.int32]
    """[capacity, MARK_ROWS, most entries]."""
    paths: NDArray[np.float64]
    """[paths, 3]: delay and jitter in microseconds, loss."""
    slot_counts: NDArray[np.int64]
    """How many slots each known set of slots has."""
    reports: NDArray[np.int32]
    """[blocks, n]: when each reporter reported, in FIRST_MS terms; block 0 is none."""
    report_counts: NDArray[np.int32]
    """[blocks, 2]: how many reports, and a bound below the oldest."""
    control: NDArray[np.int64]
    scratch: NDArray[np.int32]
    """[SCRATCH_ROWS, max(n, messages)]."""


# -- events ------------------------------------------------------------------------------------------------------


@borrowing(inline="always")
def push_event(g: Arrays, at_us: int, what: int) -> None:
    """Plan an event behind what is planned for its time (World.call_at)."""
    control = g.control
    control[f.SEQUENCE] += 1
    place_event(g, at_us, control[f.SEQUENCE], what)


@borrowing(inline="always")
def place_event(g: Arrays, at_us: int, order: int, what: int) -> None:
    """Plan an event that has its place in the order already."""
    events, control = g.events, g.control
    k = control[f.EVENTS]
    control[f.EVENTS] = k + 1
    while k > 0:
        up = (k - 1) >> 1
        if events[0, up] < at_us or (events[0, up] == at_us and events[1, up] < order):
            break
        events[0, k], events[1, k], events[2, k] = events[0, up], events[1, up], events[2, up]
        k = up
    events[0, k], events[1, k], events[2, k] = at_us, order, what


@borrowing(inline="always")
def drop_event(g: Arrays) -> None:
    """Take the first event off the heap."""
    events, control = g.events, g.control
    count = control[f.EVENTS] - 1
    control[f.EVENTS] = count
    at_us, order, what = events[0, count], events[1, count], events[2, count]
    k = 0
    while True:
        down = 2 * k + 1
        if down >= count:
            break
        right = down + 1
        if right < count and (
            events[0, right] < events[0, down]
            or (events[0, right] == events[0, down] and events[1, right] < events[1, down])
        ):
            down = right
        if at_us < events[0, down] or (at_us == events[0, down] and order < events[1, down]):
            break
        events[0, k], events[1, k], events[2, k] = events[0, down], events[1, down], events[2, down]
        k = down
    events[0, k], events[1, k], events[2, k] = at_us, order, what


# -- flags -------------------------------------------------------------------------------------------------------


@borrowing()
def change_flags(g: Arrays, i: int, h: int, flags: int) -> None:
    """Write what node *i* holds of node *h*."""
    settle_marks(g, i)
    g.flags[i, h] = flags


@borrowing()
def settle_marks(g: Arrays, i: int) -> None:
    """The flags of node *i* are about to change: write those that its messages on their way took for granted."""
    if not g.rows[f.WELL, i]:
        return
    g.rows[f.WELL, i] = 0
    for k in range(g.control[f.EVENTS]):
        slot = g.events[2, k]
        if slot >= 0 and not g.messages[slot, f.M_MARKED]:
            sender = g.messages[slot, f.M_ACCEPTOR] if g.messages[slot, f.M_BACK] else g.messages[slot, f.M_OPENER]
            if sender == i:
                write_marks(g, slot, i)


@borrowing()
def write_marks(g: Arrays, slot: int, i: int) -> None:
    """Write the flags of those of whom message *slot* of node *i* speaks."""
    own, nodes, marks = g.flags[i], g.told[slot, f.NODES], g.marks[slot, f.MARKS]
    for k in range(g.messages[slot, f.M_COUNT]):
        marks[k] = own[nodes[k]]
    g.messages[slot, f.M_MARKED] = 1


@borrowing()
def see_well(g: Arrays, i: int) -> None:
    """See whether node *i* knows all others by their addresses and holds none for failing: then gossip among such is about clocks."""
    own, addresses, odd = g.flags[i], g.rows[f.MY_ADDRESS], 0
    mask = UNSETTLED | ~f.FLAG_BITS
    for h in range(i):
        odd |= (own[h] ^ (addresses[h] << f.ADDRESS_SHIFT)) & mask
    for h in range(i + 1, own.size):
        odd |= (own[h] ^ (addresses[h] << f.ADDRESS_SHIFT)) & mask
    g.rows[f.WELL, i] = odd == 0


# -- reports -----------------------------------------------------------------------------------------------------


@borrowing()
def live_reports(g: Arrays, block: int, limit: int) -> int:
    """How many reports are not older than *limit* (live_reports, without dropping the others)."""
    if block == 0:
        return 0
    count = g.report_counts[block, 0]
    if count == 0 or g.report_counts[block, 1] >= limit:
        return count
    own = g.reports[block]
    live, oldest = 0, 1 << 31
    for k in range(own.size):
        at = own[k]
        if at != 0:
            if at >= limit:
                live += 1
            if at < oldest:
                oldest = at
    if live == count:
        g.report_counts[block, 1] = min(oldest, (1 << 31) - 1)
    return live


@borrowing()
def expire_reports(g: Arrays, block: int, limit: int) -> bool:
    """Drop reports older than *limit*; whether there were any (live_reports)."""
    if block == 0:
        return False
    count = g.report_counts[block, 0]
    if live_reports(g, block, limit) == count:
        return False
    own = g.reports[block]
    live, oldest = 0, (1 << 31) - 1
    for k in range(own.size):
        at = own[k]
        if at != 0:
            if at < limit:
                own[k] = 0
            else:
                live += 1
                oldest = min(oldest, at)
    g.report_counts[block, 0], g.report_counts[block, 1] = live, oldest
    return True


@borrowing()
def reporter_place(g: Arrays, node: int) -> int:
    """The column of a reporter: given out in the order of first words, so that few pages are touched."""
    place = g.scratch[f.REPORTER_OF, node]
    if place == 0:
        g.control[f.REPORTERS] += 1
        place = g.scratch[f.REPORTER_OF, node] = g.control[f.REPORTERS]
    return place - 1


@borrowing()
def add_report(g: Arrays, i: int, subject: int, reporter: int, at: int) -> bool:
    """Note what *reporter* says of *subject*; whether it is news (take_report)."""
    g.rows[f.REPORTED, i] = 1
    block = g.narrow[i, subject, f.REPORTS]
    if block == 0:
        g.control[f.BLOCKS] += 1
        block = g.narrow[i, subject, f.REPORTS] = g.control[f.BLOCKS]
        g.report_counts[block, 0], g.report_counts[block, 1] = 0, at
    place = reporter_place(g, reporter)
    known = g.reports[block, place] != 0
    g.reports[block, place] = at
    if at < g.report_counts[block, 1]:
        g.report_counts[block, 1] = at
    if not known:
        g.report_counts[block, 0] += 1
    return not known


@borrowing()
def drop_report(g: Arrays, i: int, subject: int, reporter: int) -> bool:
    """Take a report back; whether there was one."""
    block = g.narrow[i, subject, f.REPORTS]
    place = reporter_place(g, reporter)
    if block == 0 or g.reports[block, place] == 0:
        return False
    g.reports[block, place] = 0
    g.report_counts[block, 0] -= 1
    return True


# -- state of the cluster ----------------------------------------------------------------------------------------


@borrowing()
def read_coverage(g: Arrays, i: int) -> None:
    """Sum up the table of node *i* (coverage_of), once for each version of it."""
    rows, narrow = g.rows, g.narrow
    if rows[f.COVERAGE_VERSION, i] == rows[f.VERSION, i]:
        return
    covered, size, reachable = 0, 0, 0
    for h in range(rows.shape[1]):
        count = g.slot_counts[narrow[i, h, f.SLOTS]]
        if count == 0 or not narrow[i, h, f.KNOWN]:
            continue
        flags = g.flags[i, h]
        if not flags & FAIL:
            covered += count
        if flags & MASTER:
            size += 1
            if not flags & FAILURES:
                reachable += 1
    rows[f.UNCOVERED, i], rows[f.SIZE, i], rows[f.REACHABLE, i] = covered != SLOT_COUNT, size, reachable
    rows[f.COVERAGE_VERSION, i] = rows[f.VERSION, i]


@borrowing()
def settle_state(g: Arrays, i: int, now_ms: int) -> bool:
    """Evaluate the cluster state (update_state); true if it changes, which is left to the machine."""
    rows = g.rows
    first_ms, timeout_ms = rows[f.FIRST_STATE, i], rows[f.TIMEOUT, i]
    if first_ms < 0:
        return True
    was_ok = rows[f.OK, i] != 0
    waits = not was_ok and (g.flags[i, i] & MASTER) != 0
    if waits and now_ms - first_ms < 2000:
        rows[f.STALE, i] = 1
        return False
    read_coverage(g, i)
    size = rows[f.SIZE, i]
    is_minor = rows[f.REACHABLE, i] < size // 2 + 1
    is_ok = not is_minor and not (rows[f.FULL_COVERAGE, i] != 0 and rows[f.UNCOVERED, i] != 0)
    if is_ok != was_ok:
        rejoin_ms = min(max(timeout_ms, 500), 5000)
        if not (is_ok and waits and rows[f.MINORITY, i] != 0 and now_ms - rows[f.MINORITY, i] < rejoin_ms):
            return True
        rows[f.STALE, i] = 1
    else:
        rows[f.STALE, i] = 0
    rows[f.SIZE_SHOWN, i] = size
    if is_minor:
        rows[f.MINORITY, i] = now_ms
    return False


@borrowing(inline="always")
def is_voter(g: Arrays, i: int, h: int) -> bool:
    """Whether *h* is a master with slots as *i* sees it (Peer.votes)."""
    return (g.flags[i, h] & MASTER) != 0 and g.slot_counts[g.narrow[i, h, f.SLOTS]] > 0


@borrowing(inline="always")
def may_report(g: Arrays, i: int, h: int) -> bool:
    """Whose word about failures counts (may_report)."""
    if not g.flags[i, h] & MASTER:
        return False
    return g.rows[f.REPORTER_NEEDS_SLOTS, i] == 0 or g.slot_counts[g.narrow[i, h, f.SLOTS]] > 0


@borrowing()
def would_agree(g: Arrays, i: int, subject: int, more: int, now_ms: int) -> bool:
    """Whether a quorum holds *subject* for failed with *more* new reports (fail_if_agreed)."""
    limit = now_ms - REPORT_VALIDITY_FACTOR * g.rows[f.TIMEOUT, i] - g.control[f.BASE_MS] + f.FIRST_MS
    count = live_reports(g, g.narrow[i, subject, f.REPORTS], limit) + more
    if g.rows[f.OWN_DOUBT_NEEDS_SLOTS, i] != 0:
        count += is_voter(g, i, i)
    else:
        count += (g.flags[i, i] & MASTER) != 0
    read_coverage(g, i)
    return count >= g.rows[f.SIZE, i] // 2 + 1
