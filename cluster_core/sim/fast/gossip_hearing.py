"""Messages that arrive, in the compiled gossip loop: what can be followed without the machine, and how (`gossip_engine`)."""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cluster_core.gossip.failure_detection import REPORT_VALIDITY_FACTOR
from cluster_core.gossip.flags import (
    EXTENSIONS_SUPPORTED,
    FAIL,
    FAILURES,
    HANDSHAKE,
    MEET,
    PFAIL,
)
from cluster_core.gossip.gossip_section import CLOCK_SLACK_MS
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.prefetch import prefetch
from cluster_core.sim.fast import gossip_fields as f
from cluster_core.sim.fast.gossip_headers import is_news, may_take_over, raises_epoch, take_over, verdict_is_news
from cluster_core.sim.fast.gossip_messages import FAIL_KIND, PING, PONG_KIND, build_message, carry, free_message
from cluster_core.sim.fast.gossip_parts import (
    Arrays,
    add_report,
    change_flags,
    drop_report,
    expire_reports,
    may_report,
    settle_state,
    would_agree,
    write_marks,
)

WORDS_A_LINE = 16
"""Words of 32 bits in a line of the cache."""

if TYPE_CHECKING:
    pass


@borrowing()
def fetch_early(g: Arrays, slot: int) -> None:
    """Ask for what a message that arrives next will touch: with many nodes little of it is near the processor."""
    m, told = g.messages[slot], g.told[slot]
    opener, acceptor = m[f.M_OPENER], m[f.M_ACCEPTOR]
    r, s = (opener, acceptor) if m[f.M_BACK] else (acceptor, opener)
    prefetch(g.narrow, (opener, acceptor, 0))
    prefetch(g.narrow, (r, s, 0))
    prefetch(g.wide, (r, s, 0))
    prefetch(g.wide, (opener, acceptor, 0))
    prefetch(g.flags, (r, s))
    for k in range(0, m[f.M_COUNT], WORDS_A_LINE):
        prefetch(told, (f.NODES, k))
        prefetch(told, (f.PONGS, k))
    for h in range(0, g.pongs.shape[1], WORDS_A_LINE):
        prefetch(g.pongs, (r, h))


@borrowing()
def deliver(g: Arrays, slot: int) -> int:
    """A message arrives (Network._deliver, Node._on_message)."""
    control, narrow, rows = g.control, g.narrow, g.rows
    m = g.messages[slot]
    o, a, back = m[f.M_OPENER], m[f.M_ACCEPTOR], m[f.M_BACK]
    control[f.SLOT] = slot
    if m[f.M_GENERATION] != narrow[o, a, f.GENERATION]:
        return f.ASK_DELIVER
    r, s = (o, a) if back else (a, o)
    narrow[o, a, f.IN_FLIGHT] -= 1
    is_open = narrow[o, a, f.OPEN_BACK] if back else narrow[o, a, f.OPEN_OUT]
    if not is_open or rows[f.RUNS, r] == f.DEAD:
        free_message(g, slot)
        return 0
    if not rows[f.HOT, r] or rows[f.RUNS, r] != f.RUNNING or not narrow[r, s, f.KNOWN]:
        return f.ASK_DELIVER
    if back:
        if narrow[r, s, f.OUTBOUND] != narrow[o, a, f.NEAR]:
            return f.ASK_DELIVER
    elif narrow[r, s, f.INBOUND] == f.NONE and not g.flags[r, s] & HANDSHAKE:
        narrow[r, s, f.INBOUND] = narrow[o, a, f.FAR]
        g.scratch[f.BIND_LIST, control[f.BINDS]] = r * rows.shape[1] + s
        control[f.BINDS] += 1
    elif narrow[r, s, f.INBOUND] != narrow[o, a, f.FAR]:
        return f.ASK_DELIVER
    now_ms = (control[f.NOW] + rows[f.SHIFT_US, r]) // 1000
    takes_over = may_take_over(g, r, s, m)
    clocks_only = m[f.M_WELL] == control[f.ADDRESSES] and rows[f.WELL, r] != 0 and rows[f.REPORTED, r] == 0
    if (m[f.M_KIND] == PING and back) or (not takes_over and is_news(g, r, s, m)):
        return f.ASK_DELIVER
    if m[f.M_KIND] == FAIL_KIND:
        if verdict_is_news(g, r, m[f.M_SUBJECT]):
            return f.ASK_DELIVER
    elif not clocks_only:
        if not m[f.M_MARKED]:
            write_marks(g, slot, s)
        if gossip_is_news(g, r, s, slot, now_ms, takes_over or may_report(g, r, s)):
            return f.ASK_DELIVER
    ends_doubt = m[f.M_KIND] == PONG_KIND and back and g.flags[r, s] & FAILURES
    if ends_doubt and (g.flags[r, s] & FAIL or control[f.KEEPS_CONFIGS]):
        return f.ASK_DELIVER
    return hear(g, r, s, slot, now_ms, takes_over, clocks_only)


@borrowing(inline="always")
def gossip_is_news(g: Arrays, r: int, s: int, slot: int, now_ms: int, trusted: bool) -> bool:
    """Whether gossip makes a verdict, names strangers or other addresses (hear_gossip)."""
    beliefs, nodes, marks = g.flags[r], g.told[slot, f.NODES], g.marks[slot, f.MARKS]
    for k in range(g.messages[slot, f.M_COUNT]):
        h, said = nodes[k], marks[k]
        known = beliefs[h]
        if known < 0:
            return True
        if not (known | said) & FAILURES or h == r:
            continue
        if not said & FAILURES:
            if said >> f.ADDRESS_SHIFT != known >> f.ADDRESS_SHIFT:
                return True
        elif trusted and h != s and known & PFAIL and not known & FAIL and doubt_decides(g, r, s, h, now_ms):
            return True
    return False


@borrowing()
def doubt_decides(g: Arrays, r: int, s: int, h: int, now_ms: int) -> bool:
    """Whether a quorum agrees once *s*, too, has reported *h* (take_report)."""
    block, place = g.narrow[r, h, f.REPORTS], g.scratch[f.REPORTER_OF, s]
    more = block == 0 or place == 0 or g.reports[block, place - 1] == 0
    return would_agree(g, r, h, 1 if more else 0, now_ms)


@borrowing(inline="always")
def hear(g: Arrays, r: int, s: int, slot: int, now_ms: int, takes_over: bool, clocks_only: bool) -> int:
    """Follow a message that has been found to be harmless, and answer it (Node._on_message)."""
    control, wide, rows = g.control, g.wide, g.rows
    m = g.messages[slot]
    o, a, back, kind = m[f.M_OPENER], m[f.M_ACCEPTOR], m[f.M_BACK], m[f.M_KIND]
    rows[f.HEARD_BYTES, r] += m[f.M_BYTES]
    wide[r, s, f.DATA] = now_ms
    copied = rows[f.COPIES, r]
    flags = (g.flags[r, s] & ~copied) | (m[f.M_FLAGS] & copied)
    if rows[f.LEARNS_EXTENSIONS, r] and (
        m[f.M_SHARD] != 0
        or rows[f.SAYS_EXTENSIONS, s] == f.ALWAYS
        or (rows[f.SAYS_EXTENSIONS, s] == f.IN_GOSSIP and kind <= PONG_KIND)
    ):
        flags |= EXTENSIONS_SUPPORTED
    if flags != g.flags[r, s]:
        change_flags(g, r, s, flags)
    rows[f.CURRENT_EPOCH, r] = max(rows[f.CURRENT_EPOCH, r], m[f.M_EPOCH])
    wide[r, s, f.OFFSET] = m[f.M_OFFSET]
    changed, pong = raises_epoch(g, r, s, m), f.NONE
    if changed:
        wide[r, s, f.EPOCH] = m[f.M_CONFIG_EPOCH]
    if kind == PING:
        rows[f.HEARD_PING, r] += 1
        pong = build_message(g, r, PONG_KIND, s, o, a, 1)
    elif kind == PONG_KIND:
        rows[f.HEARD_PONG, r] += 1
        if back:
            g.pongs[r, s], wide[r, s, f.PING_SENT] = now_ms - control[f.BASE_MS] + f.FIRST_MS, 0
            if flags & PFAIL:
                change_flags(g, r, s, flags & ~PFAIL)
                rows[f.STALE, r] = 1
                changed = True
    if kind == FAIL_KIND:
        rows[f.HEARD_FAIL, r] += 1
        changed = hear_verdict(g, r, m[f.M_SUBJECT], now_ms) or changed
    else:
        if takes_over:
            if pong != f.NONE:
                write_marks(g, pong, r)
            take_over(g, r, s, m)
            changed = True
        if clocks_only:
            hear_clocks(g, r, slot, now_ms)
        else:
            changed = hear_gossip(g, r, s, slot, now_ms) or changed
    if changed:
        rows[f.VERSION, r] += 1
    free_message(g, slot)
    control[f.ROW], control[f.PHASE] = r, f.ANSWERED
    if pong != f.NONE and not carry(g, pong):
        control[f.SLOT], control[f.PEER] = pong, s
        return f.ASK_SEND
    return answer_heard(g)


@borrowing(inline="always")
def answer_heard(g: Arrays) -> int:
    """The end of a message: the state of the cluster (Node._before_sleep)."""
    control, r = g.control, g.control[f.ROW]
    control[f.PHASE] = f.IDLE
    if g.rows[f.STALE, r] and settle_state(g, r, (control[f.NOW] + g.rows[f.SHIFT_US, r]) // 1000):
        return f.ASK_SLEEP
    return 0


@borrowing()
def hear_verdict(g: Arrays, r: int, subject: int, now_ms: int) -> bool:
    """Somebody has decided that *subject* is FAIL (mark_failed)."""
    flags = g.flags[r, subject]
    if subject == r or flags & FAIL:
        return False
    change_flags(g, r, subject, flags & ~PFAIL | FAIL)
    g.wide[r, subject, f.FAIL_TIME] = now_ms
    g.rows[f.STALE, r] = 1
    if g.due[r, subject]:
        g.due[r, subject] = g.rows[f.NEXT_DUE, r] = 0
    return True


@borrowing(inline="always")
def hear_gossip(g: Arrays, r: int, s: int, slot: int, now_ms: int) -> bool:
    """Follow gossip without news, entry by entry; whether reports came or went (hear_gossip)."""
    rows, flags, pongs = g.rows, g.flags[r], g.pongs[r]
    nodes, told, marks = g.told[slot, f.NODES], g.told[slot, f.PONGS], g.marks[slot, f.MARKS]
    trusted = may_report(g, r, s)
    withdraws = trusted or rows[f.ANYONE_WITHDRAWS, r] != 0
    unclean = HANDSHAKE | MEET | FAILURES if rows[f.CLEAN_ONLY, r] else 0
    latest = now_ms + CLOCK_SLACK_MS - g.control[f.BASE_MS] + f.FIRST_MS
    changed = False
    for k in range(g.messages[slot, f.M_COUNT]):
        h = nodes[k]
        if h == r:
            continue
        if marks[k] & FAILURES:
            changed = hear_doubt(g, r, s, h, now_ms, trusted) or changed
            continue
        reported = rows[f.REPORTED, r] != 0 and has_reports(g, r, h)
        if reported and withdraws:
            changed = hear_well(g, r, s, h, now_ms) or changed
        if told[k] <= pongs[h] or flags[h] & unclean or told[k] > latest:
            continue
        if reported:
            changed = drop_old(g, r, h, now_ms) or changed
        if not reported or not has_reports(g, r, h):
            pongs[h] = told[k]
    return changed


@borrowing(inline="always")
def hear_clocks(g: Arrays, r: int, slot: int, now_ms: int) -> None:
    """Follow gossip of a well node as a well one: only times of pongs are news (hear_gossip)."""
    pongs, nodes, told = g.pongs[r], g.told[slot, f.NODES], g.told[slot, f.PONGS]
    latest = np.uint32(now_ms + CLOCK_SLACK_MS - g.control[f.BASE_MS] + f.FIRST_MS)
    mine = pongs[r]
    for k in range(g.messages[slot, f.M_COUNT]):
        known = pongs[nodes[k]]
        pongs[nodes[k]] = told[k] if known < told[k] <= latest else known
    pongs[r] = mine


@borrowing(inline="always")
def has_reports(g: Arrays, r: int, h: int) -> bool:
    """Whether somebody has reported *h*."""
    block = g.narrow[r, h, f.REPORTS]
    return block != 0 and g.report_counts[block, 0] > 0


@borrowing()
def hear_doubt(g: Arrays, r: int, s: int, h: int, now_ms: int, trusted: bool) -> bool:
    """*s* holds *h* for failing (take_report, fail_if_agreed)."""
    flags = g.flags[r, h]
    if not trusted or h == s or (g.rows[f.REPORTS_END, r] and flags & FAIL):
        return False
    changed = add_report(g, r, h, s, now_ms - g.control[f.BASE_MS] + f.FIRST_MS)
    if flags & PFAIL and not flags & FAIL:
        changed = drop_old(g, r, h, now_ms) or changed
    return changed


@borrowing()
def hear_well(g: Arrays, r: int, s: int, h: int, now_ms: int) -> bool:
    """*s* holds *h* for well (withdraw_report)."""
    if not drop_report(g, r, h, s):
        return False
    drop_old(g, r, h, now_ms)
    return True


@borrowing()
def drop_old(g: Arrays, r: int, h: int, now_ms: int) -> bool:
    """Reports expire; whether there were such (live_reports)."""
    limit = now_ms - g.control[f.BASE_MS] + f.FIRST_MS - REPORT_VALIDITY_FACTOR * g.rows[f.TIMEOUT, r]
    return expire_reports(g, g.narrow[r, h, f.REPORTS], limit)
