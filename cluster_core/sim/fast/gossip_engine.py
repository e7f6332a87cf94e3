"""Steady gossip, failures and ticks of a simulated cluster in one compiled loop: the twin of the plain machine, message by message.

`run_events` handles ticks, PINGs, PONGs and FAILs as long as nothing new follows from them.  What it is not sure about it
leaves, untouched, to its caller, who asks the plain machine: so a wrong "no" costs time and never truth
(docs/simulator.md, "The fast path").
"""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

import numpy as np

from cluster_core.gossip.failure_detection import REPORT_VALIDITY_FACTOR
from cluster_core.gossip.flags import (
    FAILURES,
    HANDSHAKE,
    LIGHT_HEADER_MODULE,
    MASTER,
    MEET,
    NOADDR,
    PFAIL,
)
from cluster_core.kernels.compiled import borrowing
from cluster_core.node.cron import RANDOM_PING_CRONS, RANDOM_PING_DRAWS
from cluster_core.sim.fast import gossip_fields as f
from cluster_core.sim.fast.gossip_chance import draw
from cluster_core.sim.fast.gossip_hearing import answer_heard, deliver, fetch_early
from cluster_core.sim.fast.gossip_messages import PING, build_message, carry
from cluster_core.sim.fast.gossip_parts import (
    Arrays,
    change_flags,
    drop_event,
    is_voter,
    live_reports,
    push_event,
    read_coverage,
    see_well,
    settle_state,
    would_agree,
    write_marks,
)
from cluster_core.sim.fast.gossip_replicas import replica_acts

LIFE_SHIFT = 32


@borrowing()
def run_events(g: Arrays, end_us: int, limit_us: int, limit_order: int) -> int:
    """Handle events up to *end_us* and before (*limit_us*, *limit_order*); returns what is wanted, LIMIT if nothing is.

    An event that has begun (PHASE is not IDLE) is gone on with first.
    """
    control, events = g.control, g.events
    while True:
        if control[f.PHASE] != f.IDLE:
            asked = answer_heard(g) if control[f.PHASE] == f.ANSWERED else tick(g)
            if asked:
                return asked
            if control[f.STEPS]:
                return f.STEPPED
            continue
        if control[f.EVENTS] == 0:
            return f.LIMIT
        at_us, order, what = events[0, 0], events[1, 0], events[2, 0]
        if at_us > end_us or at_us > limit_us or (at_us == limit_us and order > limit_order):
            return f.LIMIT
        if control[f.WAITS] + control[f.BINDS] > g.rows.shape[1]:
            return f.ASK_FLUSH
        if control[f.FREE] < 2 * g.rows.shape[1] + 8 or control[f.EVENTS] + 2 * g.rows.shape[1] > events.shape[1] - 8:
            return f.ASK_GROW
        control[f.NOW] = at_us
        drop_event(g)
        if events[2, 0] >= 0 and control[f.EVENTS] > 0:
            fetch_early(g, events[2, 0])
        asked = begin_tick(g, what) if what < 0 else deliver(g, what)
        if asked:
            return asked
        if control[f.STEPS] and control[f.PHASE] == f.IDLE:
            return f.STEPPED


# -- ticks -------------------------------------------------------------------------------------------------------


@borrowing(inline="always")
def begin_tick(g: Arrays, what: int) -> int:
    """A tick is due (World._tick, run_cron up to the reconnections)."""
    control, rows = g.control, g.rows
    number = -1 - what
    i, life = number & ((1 << LIFE_SHIFT) - 1), number >> LIFE_SHIFT
    if rows[f.LIFE, i] != life or rows[f.RUNS, i] == f.DEAD:
        return 0
    control[f.ROW] = i
    if rows[f.HOT, i] == 0 or rows[f.RUNS, i] != f.RUNNING:
        return f.ASK_TICK
    rows[f.ITERATION, i] += 1
    control[f.TOUCHED] = control[f.CHANGED] = control[f.AT] = 0
    if not rows[f.WELL, i]:
        see_well(g, i)
    control[f.DUE_COUNT] = control[f.LOST_COUNT] = rows[f.DOUBTS, i] = 0
    now_ms = (control[f.NOW] + rows[f.SHIFT_US, i]) // 1000
    if now_ms >= rows[f.NEXT_DUE, i]:
        take_due(g, i, now_ms)
    control[f.PHASE] = f.RECONNECTED
    if control[f.LOST_COUNT]:
        return f.ASK_OPEN
    return 0


@borrowing(inline="always")
def pong_ms(g: Arrays, i: int, h: int) -> int:
    """When *i* last heard a PONG of *h*, 0 for never."""
    pong = g.pongs[i, h] & f.PONG_BITS
    return pong - f.FIRST_MS + g.control[f.BASE_MS] if pong else 0


@borrowing(inline="always")
def take_due(g: Arrays, i: int, now_ms: int) -> None:
    """List the nodes that are worth a look, those that we doubt and those without a link (take_due, _reconnect)."""
    control, narrow, rows = g.control, g.narrow, g.rows
    interval_ms = rows[f.PING_DUE, i]
    latest_ms = now_ms + min(interval_ms, rows[f.TIMEOUT, i] // 2)
    due = g.due
    count = lost = doubts = 0
    next_ms = np.int64(f.NO_TIME)
    for h in range(rows.shape[1]):
        if due[i, h] > now_ms:
            next_ms = min(next_ms, due[i, h])
            continue
        if h == i or not narrow[i, h, f.KNOWN]:
            continue
        flags, linked = g.flags[i, h], narrow[i, h, f.OUTBOUND] != f.NONE
        pong_due_ms = pong_ms(g, i, h) + interval_ms
        if (
            pong_due_ms >= now_ms
            and not g.pongs[i, h] & f.PINGED
            and linked
            and narrow[i, h, f.INBOUND] != f.NONE
            and not flags & (PFAIL | HANDSHAKE | NOADDR | MEET)
        ):
            due[i, h] = min(pong_due_ms, latest_ms) + 1
            next_ms = min(next_ms, due[i, h])
            continue
        g.scratch[f.DUE_LIST, count] = h
        count += 1
        if flags & NOADDR:
            continue
        if flags & PFAIL:
            doubts += 1
        if not linked:
            g.scratch[f.LOST_LIST, lost] = h
            lost += 1
    rows[f.DOUBTS, i], rows[f.NEXT_DUE, i] = doubts, next_ms
    control[f.DUE_COUNT], control[f.LOST_COUNT] = count, lost


@borrowing(inline="always")
def tick(g: Arrays) -> int:
    """Go on with a tick; 0 when it is over, else what is wanted first."""
    control, rows = g.control, g.rows
    i = control[f.ROW]
    now_ms = (control[f.NOW] + rows[f.SHIFT_US, i]) // 1000
    if control[f.PHASE] == f.RECONNECTED:
        control[f.PHASE] = f.LOOKING
        asked = ping_at_random(g, i, now_ms)
        if asked:
            return asked
    if control[f.PHASE] == f.LOOKING:
        asked = look_around(g, i, now_ms)
        if asked:
            return asked
        if not rows[f.OK, i]:
            rows[f.STALE, i] = 1
        control[f.PHASE] = f.LOOKED
        if control[f.CHANGED] == 2:
            return f.ASK_REACT
        if control[f.CHANGED]:
            rows[f.VERSION, i] += 1
    if control[f.PHASE] == f.LOOKED:
        control[f.PHASE] = f.SLEEPING
        if not g.flags[i, i] & MASTER and replica_acts(g, i):
            return f.ASK_REPLICA
    if control[f.PHASE] == f.SLEEPING:
        control[f.PHASE] = f.PLANNING
        if control[f.TOUCHED] or (rows[f.STALE, i] and settle_state(g, i, now_ms)):
            return f.ASK_SLEEP
    control[f.PHASE] = f.IDLE
    if rows[f.RUNS, i] == f.RUNNING:
        wait_us = control[f.TICK_US] + int(draw(g.chance[i], g.draws[i]) * control[f.TICK_JITTER_US])
        push_event(g, control[f.NOW] + wait_us, -1 - i - (rows[f.LIFE, i] << LIFE_SHIFT))
    return 0


@borrowing()
def note_fitness(g: Arrays, i: int) -> None:
    """See whether all nodes can be gossiped about (note_fitness)."""
    rows, narrow = g.rows, g.narrow
    for h in range(rows.shape[1]):
        if not narrow[i, h, f.KNOWN]:
            continue
        if g.flags[i, h] & (HANDSHAKE | NOADDR | PFAIL) or (
            narrow[i, h, f.OUTBOUND] == f.NONE and h != i and g.slot_counts[narrow[i, h, f.SLOTS]] == 0
        ):
            rows[f.FIT, i] = -1
            return
    rows[f.FIT, i] = rows[f.VERSION, i]


@borrowing()
def ping_at_random(g: Arrays, i: int, now_ms: int) -> int:
    """Every tenth cron: of five drawn nodes ping the one that was heard the longest ago (ping_at_random)."""
    rows, narrow = g.rows, g.narrow
    if rows[f.FIT, i] != rows[f.VERSION, i]:
        note_fitness(g, i)
    if rows[f.ITERATION, i] % RANDOM_PING_CRONS:
        return 0
    reported = 0
    for h in range(rows.shape[1] if rows[f.REPORTED, i] else 0):
        block = narrow[i, h, f.REPORTS]
        if block and narrow[i, h, f.KNOWN] and g.report_counts[block, 0]:
            reported = 1
            break
    rows[f.REPORTED, i] = reported
    oldest = f.NONE
    for _ in range(RANDOM_PING_DRAWS):
        h = g.tables[rows[f.TABLE, i], int(draw(g.chance[i], g.draws[i]) * rows[f.COUNT, i])]
        if narrow[i, h, f.OUTBOUND] == f.NONE or g.wide[i, h, f.PING_SENT] or h == i or g.flags[i, h] & HANDSHAKE:
            continue
        if oldest == f.NONE or g.pongs[i, h] < g.pongs[i, oldest]:
            oldest = h
    return send_ping(g, i, oldest, now_ms) if oldest != f.NONE else 0


@borrowing()
def send_ping(g: Arrays, i: int, h: int, now_ms: int) -> int:
    """Ping a node; ASK_SEND if the connection is none of ours (send_ping)."""
    g.wide[i, h, f.PING_SENT] = now_ms
    g.pongs[i, h] |= f.PINGED
    slot = build_message(g, i, PING, h, i, h, 0)
    if carry(g, slot):
        return 0
    control = g.control
    if not g.messages[slot, f.M_MARKED]:
        write_marks(g, slot, i)
    if g.narrow[i, h, f.WAITING] == g.narrow[i, h, f.OUTBOUND] and not control[f.STEPS]:
        g.scratch[f.WAIT_LIST, control[f.WAITS]] = slot
        control[f.WAITS] += 1
        return 0
    control[f.SLOT], control[f.PEER] = slot, h
    return f.ASK_SEND


@borrowing()
def look_around(g: Arrays, i: int, now_ms: int) -> int:
    """What is due about each node (_look_at, next_look_ms)."""
    control, wide, narrow, rows = g.control, g.wide, g.narrow, g.rows
    timeout_ms = rows[f.TIMEOUT, i]
    half_ms = timeout_ms // 2
    while control[f.AT] < control[f.DUE_COUNT]:
        h = g.scratch[f.DUE_LIST, control[f.AT]]
        control[f.PEER] = h
        ping_ms, linked = g.wide[i, h, f.PING_SENT], narrow[i, h, f.OUTBOUND] != f.NONE
        if (
            ping_ms
            and linked
            and now_ms - wide[i, h, f.MADE] > timeout_ms
            and now_ms - ping_ms > half_ms
            and now_ms - wide[i, h, f.DATA] > half_ms
        ):
            return f.ASK_CLOSE
        flags = g.flags[i, h]
        if rows[f.MEETS_AGAIN, i] and linked and narrow[i, h, f.INBOUND] == f.NONE and misses_us(g, i, h, now_ms):
            control[f.AT] += 1
            return f.ASK_LOOK
        asked = 0
        if linked and not ping_ms and now_ms - pong_ms(g, i, h) > rows[f.PING_DUE, i]:
            asked = send_ping(g, i, h, now_ms)
        elif ping_ms and not flags & FAILURES and min(now_ms - ping_ms, now_ms - wide[i, h, f.DATA]) > timeout_ms:
            if verdict_follows(g, i, h, now_ms):
                return f.ASK_DOUBT
            change_flags(g, i, h, flags | PFAIL)
            rows[f.STALE, i] = 1
            control[f.CHANGED] = max(control[f.CHANGED], 1)
        g.due[i, h] = next_look_ms(g, i, h, now_ms)
        rows[f.NEXT_DUE, i] = min(rows[f.NEXT_DUE, i], g.due[i, h])
        control[f.AT] += 1
        if asked:
            return asked
    return 0


@borrowing()
def misses_us(g: Arrays, i: int, h: int, now_ms: int) -> bool:
    """Whether a node that does not connect to us is to be met again (repair_membership)."""
    flags, wide = g.flags[i, h], g.wide
    if flags & (HANDSHAKE | NOADDR | MEET) or not flags & LIGHT_HEADER_MODULE:
        return False
    limit_ms = max(g.rows[f.TIMEOUT, i], 1000)
    silent_ms = now_ms - max(wide[i, h, f.INBOUND_LOST], wide[i, h, f.CTIME])
    return silent_ms > limit_ms and limit_ms < now_ms - wide[i, h, f.MEET_SENT]


@borrowing()
def verdict_follows(g: Arrays, i: int, h: int, now_ms: int) -> bool:
    """Whether our doubt makes a quorum, or drops old reports: the machine decides (doubt_if_silent)."""
    verdict = g.rows[f.VERDICT, i]
    if verdict == f.NOBODY:
        return False
    trusted = (g.flags[i, i] & MASTER) != 0 if verdict == f.LONE_MASTER else is_voter(g, i, i)
    if not trusted:
        return False
    if verdict != f.EVERY_VOTER:
        read_coverage(g, i)
        return g.rows[f.SIZE, i] == 1
    block = g.narrow[i, h, f.REPORTS]
    limit = now_ms - REPORT_VALIDITY_FACTOR * g.rows[f.TIMEOUT, i] - g.control[f.BASE_MS] + f.FIRST_MS
    if block and live_reports(g, block, limit) != g.report_counts[block, 0]:
        return True
    return would_agree(g, i, h, 0, now_ms)


@borrowing(inline="always")
def next_look_ms(g: Arrays, i: int, h: int, now_ms: int) -> int:
    """When a node is worth the next look (next_look_ms)."""
    wide, narrow, rows = g.wide, g.narrow, g.rows
    if narrow[i, h, f.OUTBOUND] == f.NONE or g.flags[i, h] & (PFAIL | HANDSHAKE | NOADDR):
        return 0
    if rows[f.MEETS_AGAIN, i] and narrow[i, h, f.INBOUND] == f.NONE:
        return 0
    half_ms, interval_ms = rows[f.TIMEOUT, i] // 2, rows[f.PING_DUE, i]
    latest_ms = now_ms + min(half_ms, interval_ms)
    if not g.wide[i, h, f.PING_SENT]:
        return min(pong_ms(g, i, h) + interval_ms, latest_ms) + 1
    return min(max(g.wide[i, h, f.PING_SENT], wide[i, h, f.DATA]) + half_ms, latest_ms) + 1


@borrowing()
def greet(g: Arrays, i: int, h: int, now_ms: int) -> bool:
    """Our connection to a node is up: ping it, but a ping that is pending stays so (link_opened); true if the state of the
    cluster changes, which is left to the machine.
    """
    pending_ms = g.wide[i, h, f.PING_SENT]
    send_ping(g, i, h, now_ms)
    if pending_ms:
        g.wide[i, h, f.PING_SENT] = pending_ms
    if g.due[i, h]:
        g.due[i, h] = g.rows[f.NEXT_DUE, i] = 0
    return g.rows[f.STALE, i] != 0 and settle_state(g, i, now_ms)
