"""Messages that leave, in the compiled gossip loop: what they say of others, and the network that carries them."""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

import numpy as np

from cluster_core.gossip.flags import EXTENSIONS_SUPPORTED, HANDSHAKE, MASTER, NOADDR, PFAIL
from cluster_core.kernels.compiled import borrowing
from cluster_core.node.pings import GOSSIP_MIN, SPARE_DRAWS
from cluster_core.sim.fast import gossip_fields as f
from cluster_core.sim.fast.gossip_chance import WORDS, draw, place_of, ready, twist
from cluster_core.sim.fast.gossip_parts import Arrays, push_event, write_marks
from cluster_core.wire.bus import GOSSIP_BYTES, HEADER_BYTES

RETRY_US = 200_000
RETRY_US_MAX = 120_000_000
MS_PER_S = 1000
PING, PONG_KIND, FAIL_KIND = 0, 1, 3
UNFIT = HANDSHAKE | NOADDR


@borrowing(inline="always")
def take_message(g: Arrays) -> int:
    """A free message."""
    g.control[f.FREE] -= 1
    return g.scratch[f.FREE_LIST, g.control[f.FREE]]


@borrowing(inline="always")
def free_message(g: Arrays, slot: int) -> None:
    """Give a message back."""
    g.scratch[f.FREE_LIST, g.control[f.FREE]] = slot
    g.control[f.FREE] += 1


@borrowing(inline="always")
def write_gossip(g: Arrays, slot: int, i: int) -> None:
    """What *i* says about those whom it has chosen (entry_of); of a well node the flags are its own until they change."""
    m, known, nodes, pongs = g.messages[slot], g.pongs[i], g.told[slot, f.NODES], g.told[slot, f.PONGS]
    into_second = (g.control[f.BASE_MS] - f.FIRST_MS) % MS_PER_S
    for k in range(m[f.M_COUNT]):
        pong = np.uint32(known[nodes[k]] & f.PONG_BITS)
        pongs[k] = pong - np.uint32(pong + into_second) % np.uint32(MS_PER_S) if pong else 0
    m[f.M_WELL], m[f.M_MARKED] = g.rows[f.WELL, i] * g.control[f.ADDRESSES], 0
    if not g.rows[f.WELL, i]:
        write_marks(g, slot, i)
    if g.control[f.STEPS]:
        write_pings(g, slot, i)


@borrowing()
def write_pings(g: Arrays, slot: int, i: int) -> None:
    """When *i* pinged those of whom it speaks: only who listens to messages wants to know."""
    for k in range(g.messages[slot, f.M_COUNT]):
        ping_ms = g.wide[i, g.told[slot, f.NODES, k], f.PING_SENT]
        g.marks[slot, f.PINGS, k] = ping_ms - g.control[f.BASE_MS] if ping_ms else f.NEVER


@borrowing(inline="always")
def choose_entries(g: Arrays, i: int, slot: int, receiver: int) -> int:
    """Draw nodes to gossip about into message *slot* and return how many (choose_entries).

    Places are unsigned: an index that may be negative costs a test each time.
    """
    rows, control, seen, nodes = g.rows, g.control, g.scratch[f.SEEN], g.told[slot, f.NODES]
    table, places, own, draws_made = rows[f.COUNT, i], g.tables[rows[f.TABLE, i]], g.chance[i], g.draws[i]
    at = np.int64(own[WORDS])
    is_even = at & 1 == 0
    wanted = max(0, min(max(table * rows[f.PERCENT, i] // 100, GOSSIP_MIN), table - 2))
    draws = rows[f.GOSSIP_DRAWS, i] * wanted
    control[f.STAMP] += 1
    stamp = control[f.STAMP]
    seen[i] = stamp
    if receiver >= 0 and rows[f.RECEIVER_GOSSIPED, i] == 0:
        seen[receiver] = stamp
    if rows[f.FIT, i] != rows[f.VERSION, i]:
        return choose_fit(g, i, slot, wanted, draws)
    drawn, found, count, k = min(wanted + SPARE_DRAWS, draws), 0, 0, 0
    while k < drawn or (found < wanted and k < draws):
        k += 1
        if is_even:
            if at >= WORDS:
                twist(own)
                ready(own, draws_made)
                at = np.int64(0)
            h = np.uint32(places[np.uint32(place_of(own, draws_made, at, table))])
            at += 2
        else:
            h = np.uint32(places[np.uint32(draw(own, draws_made) * table)])
        if seen[h] == stamp:
            continue
        seen[h] = stamp
        found += 1
        if count < wanted:
            nodes[np.uint32(count)] = h
            count += 1
    if is_even:
        own[WORDS] = at
    return count


@borrowing()
def choose_fit(g: Arrays, i: int, slot: int, wanted: int, draws: int) -> int:
    """The same where some nodes must be passed over (_choose_fit)."""
    rows, seen, tables, known = g.rows, g.scratch[f.SEEN], g.tables, g.flags[i]
    narrow, slot_counts, own, draws_made = g.narrow, g.slot_counts, g.chance[i], g.draws[i]
    table, order, stamp = rows[f.COUNT, i], rows[f.TABLE, i], g.control[f.STAMP]
    fresh, count = table - 2, 0
    for _ in range(draws):
        if fresh <= 0 or count >= wanted:
            break
        h = tables[order, int(draw(own, draws_made) * table)]
        flags = known[h]
        if seen[h] == stamp or flags & PFAIL:
            continue
        fresh -= 1
        if not flags & UNFIT and (narrow[i, h, f.OUTBOUND] != f.NONE or slot_counts[narrow[i, h, f.SLOTS]] > 0):
            seen[h] = stamp
            g.told[slot, f.NODES, count] = h
            count += 1
    return count


@borrowing()
def doubted_entries(g: Arrays, i: int, slot: int, count: int) -> int:
    """Add every node that *i* doubts, as many as its last cron counted (doubted_entries)."""
    rows, tables, known = g.rows, g.tables, g.flags[i]
    left, order = rows[f.DOUBTS, i], rows[f.TABLE, i]
    for place in range(rows[f.COUNT, i]):
        h = tables[order, place]
        flags = known[h]
        if flags & PFAIL and not flags & UNFIT:
            g.told[slot, f.NODES, count] = h
            count += 1
            left -= 1
            if left <= 0:
                break
    return count


@borrowing(inline="always")
def build_message(g: Arrays, i: int, kind: int, receiver: int, opener: int, acceptor: int, back: int) -> int:
    """A PING or PONG of node *i* to *receiver* over a connection, as it is now (build_ping, header_of)."""
    rows, narrow = g.rows, g.narrow
    slot = take_message(g)
    count = choose_entries(g, i, slot, receiver)
    if rows[f.DOUBTS, i] > 0:
        count = doubted_entries(g, i, slot, count)
    shard, size = 0, 0
    if rows[f.SHARD_IDS, i] != 0:
        reads = g.flags[i, receiver] & EXTENSIONS_SUPPORTED
        told = rows[f.READERS, i]
        if reads or told == f.EVERYBODY or (told == f.KNOWN_AND_ASKERS and kind == PONG_KIND):
            shard, size = narrow[i, i, f.SHARD], rows[f.EXTENSION_BYTES, i]
    flags = g.flags[i, i] & f.FLAG_BITS
    master = f.NONE if flags & MASTER else narrow[i, i, f.MASTER_OF]
    holder = i if master < 0 else master
    m = g.messages[slot]
    m[f.M_OPENER], m[f.M_ACCEPTOR], m[f.M_BACK], m[f.M_KIND] = opener, acceptor, back, kind
    m[f.M_GENERATION] = narrow[opener, acceptor, f.GENERATION]
    m[f.M_EPOCH], m[f.M_CONFIG_EPOCH], m[f.M_OFFSET] = (
        rows[f.CURRENT_EPOCH, i],
        g.wide[i, holder, f.EPOCH],
        rows[f.MY_OFFSET, i],
    )
    m[f.M_FLAGS], m[f.M_MASTER], m[f.M_SLOTS] = flags, master, narrow[i, holder, f.SLOTS]
    m[f.M_OK], m[f.M_SHARD], m[f.M_COUNT] = rows[f.OK, i], shard, count
    write_gossip(g, slot, i)
    m[f.M_BYTES] = HEADER_BYTES + count * GOSSIP_BYTES + size
    if kind == PING:
        rows[f.SENT_PING, i] += 1
    else:
        rows[f.SENT_PONG, i] += 1
    rows[f.SENT_BYTES, i] += m[f.M_BYTES]
    return slot


@borrowing(inline="always")
def carry(g: Arrays, slot: int) -> bool:
    """Put a message on its way (Network.send); false if its connection is none that the arrays know well.

    An end that was closed has closed the stream towards itself.
    """
    m, control, narrow = g.messages[slot], g.control, g.narrow
    o, a, back = m[f.M_OPENER], m[f.M_ACCEPTOR], m[f.M_BACK]
    path = narrow[o, a, f.PATH_BACK] if back else narrow[o, a, f.PATH_OUT]
    stands = narrow[o, a, f.OPEN_OUT] if back else narrow[o, a, f.OPEN_BACK]
    if path < 0 or not stands or (not back and narrow[o, a, f.NEAR] != narrow[o, a, f.OUTBOUND]):
        return False
    control[f.MESSAGES] += 1
    control[f.BYTES] += m[f.M_BYTES]
    network = g.chance.shape[0] - 1
    own, draws = g.chance[network], g.draws[network]
    at_us = control[f.NOW] + int(g.paths[path, 0]) + int(draw(own, draws) * g.paths[path, 1])
    loss, retry_us = g.paths[path, 2], RETRY_US
    while loss > 0.0 and draw(own, draws) < loss and retry_us < RETRY_US_MAX:
        at_us += retry_us
        retry_us *= 2
    field = f.ARRIVAL_BACK if back else f.ARRIVAL_OUT
    at_us = max(at_us, g.wide[o, a, field])
    g.wide[o, a, field] = at_us
    narrow[o, a, f.IN_FLIGHT] += 1
    push_event(g, at_us, slot)
    if control[f.STEPS]:
        g.scratch[f.SENT_LIST, control[f.SENT_COUNT]] = slot
        control[f.SENT_COUNT] += 1
    return True
