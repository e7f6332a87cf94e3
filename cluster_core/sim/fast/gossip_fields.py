"""Where the compiled gossip loop keeps what: names of the planes of its arrays, of its phases and of what it asks for.

Nodes are numbered in the order of their ids.  A *cell* [i, h] is what node i knows of node h; a connection that i opened to h
has its state in cell [i, h], too.
"""

from __future__ import annotations

from typing import Final

FIRST_MS: Final = 1 << 30
"""Times of pongs and of reports are milliseconds since BASE_MS plus this, so that 0 is none: clocks may be 12 days off."""
PINGED: Final = 1 << 31
"""Beside the time of a pong: a ping is pending, PING_SENT says since when; no rumour is younger then."""
PONG_BITS: Final = PINGED - 1
NEVER: Final = -(1 << 31)
FLAG_BITS: Final = 0x3FFF
"""Of the flags of a cell; the high half is the address, negative for a node that is not known."""

# int64 cells: other clocks of a node's table, and of a connection; those that a message moves stand in the first line of the cache
(
    PING_SENT,
    DATA,
    EPOCH,
    OFFSET,
    ARRIVAL_OUT,
    ARRIVAL_BACK,
    MADE,
    INBOUND_LOST,
    CTIME,
    MEET_SENT,
    FAIL_TIME,
) = range(11)
WIDE_FIELDS: Final = 16

# int32 cells; NONE where there is nothing, and UNKNOWN where a node's master is no node of the table
(
    NEAR,
    FAR,
    PATH_OUT,
    PATH_BACK,
    OPEN_OUT,
    OPEN_BACK,
    GENERATION,
    IN_FLIGHT,
    OUTBOUND,
    INBOUND,
    KNOWN,
    MASTER_OF,
    SLOTS,
    SHARD,
    REPORTS,
    WAITING,
    NARROW_FIELDS,
) = range(17)
"""As many as fill a line of the processor's cache."""
NO_TIME: Final = 1 << 62
NONE: Final = -1
UNKNOWN: Final = -2

# int64 rows: one number for each node
(
    VERSION,
    FIT,
    ITERATION,
    DOUBTS,
    CURRENT_EPOCH,
    STALE,
    OK,
    MINORITY,
    FIRST_STATE,
    REPORTED,
    SIZE_SHOWN,
    COVERAGE_VERSION,
    UNCOVERED,
    SIZE,
    REACHABLE,
    SPARE_VERSION,
    SPARE,
    LIFE,
    HOT,
    RUNS,
    SHIFT_US,
    REPLICATING,
    CAUSE,
    MIGRATES,
    FULL_COVERAGE,
    NO_FAILOVER,
    TIMEOUT,
    PING_DUE,
    PERCENT,
    COUNT,
    MY_PLACE,
    MY_OFFSET,
    MY_ADDRESS,
    SENT_PING,
    SENT_PONG,
    SENT_BYTES,
    HEARD_PING,
    HEARD_PONG,
    HEARD_FAIL,
    HEARD_BYTES,
    EXTENSION_BYTES,
    RECEIVER_GOSSIPED,
    GOSSIP_DRAWS,
    ANYONE_WITHDRAWS,
    CLEAN_ONLY,
    REPORTER_NEEDS_SLOTS,
    REPORTS_END,
    OWN_DOUBT_NEEDS_SLOTS,
    VERDICT,
    REPLICAS_CLAIM,
    REPLICAS_RAISE,
    SHARD_IDS,
    READERS,
    COPIES,
    LEARNS_EXTENSIONS,
    SAYS_EXTENSIONS,
    MEETS_AGAIN,
    TABLE,
    ELECTS,
    SETTLED,
    SHARD_JOINS,
    CHAINS_FOLD_EARLY,
    WELL,
    NEXT_DUE,
    ROW_PLANES,
) = range(65)
RUNNING, ELSEWHERE, DEAD = 1, 2, 0
"""Values of RUNS: events are handled at once; they wait, or the clock drifts; there is no process."""
KNOWN_READERS, KNOWN_AND_ASKERS, EVERYBODY = range(3)
"""Values of READERS."""
WITH_DATA, IN_GOSSIP, ALWAYS = range(3)
"""Values of SAYS_EXTENSIONS."""
NOBODY, LONE_MASTER, LONE_VOTER, EVERY_VOTER = range(4)

# int64 columns of a message on its way
(
    M_OPENER,
    M_ACCEPTOR,
    M_BACK,
    M_KIND,
    M_GENERATION,
    M_EPOCH,
    M_CONFIG_EPOCH,
    M_OFFSET,
    M_FLAGS,
    M_MASTER,
    M_SLOTS,
    M_OK,
    M_SHARD,
    M_COUNT,
    M_BYTES,
    M_SUBJECT,
    M_WELL,
    M_MARKED,
    MESSAGE_COLUMNS,
) = range(19)
"""M_WELL: of a sender whose row is WELL, under which ADDRESSES; M_MARKED: its MARKS are written, else they are the sender's own still."""

# rows of the gossip of a message: nodes and their pongs in whole seconds; their flags, and their pings if somebody listens
NODES, PONGS, TOLD_ROWS = range(3)
MARKS, PINGS, MARK_ROWS = range(3)
ADDRESS_SHIFT: Final = 16
ADDRESSES_MAX: Final = 1 << 15

# int64: the state of the loop itself
(
    NOW,
    SEQUENCE,
    EVENTS,
    FREE,
    MESSAGES,
    BYTES,
    PHASE,
    ROW,
    AT,
    DUE_COUNT,
    LOST_COUNT,
    SLOT,
    TOUCHED,
    CHANGED,
    REPORTERS,
    BLOCKS,
    BASE_MS,
    TICK_US,
    TICK_JITTER_US,
    STEPS,
    SENT_COUNT,
    STAMP,
    PEER,
    KEEPS_CONFIGS,
    WAITS,
    BINDS,
    ADDRESSES,
    CONTROLS,
) = range(28)

# int32 scratch rows
SEEN, COUNTS, DUE_LIST, LOST_LIST, SENT_LIST, FREE_LIST, REPORTER_OF, WAIT_LIST, BIND_LIST, SCRATCH_ROWS = range(10)

# phases of the event in hand
IDLE, RECONNECTED, LOOKING, LOOKED, SLEEPING, PLANNING, ANSWERED = range(7)

# what the loop wants of its caller before it goes on
(
    LIMIT,
    ASK_TICK,
    ASK_DELIVER,
    ASK_GROW,
    ASK_OPEN,
    ASK_CLOSE,
    ASK_LOOK,
    ASK_DOUBT,
    ASK_SEND,
    ASK_REACT,
    ASK_REPLICA,
    ASK_SLEEP,
    ASK_FLUSH,
    STEPPED,
) = range(14)
