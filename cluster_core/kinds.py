"""Kinds of events, steps, incidents and findings, and severities. The values appear in tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self


class EventKind(StrEnum):
    """Kind of an event or step."""

    NOTHING = ""
    """A log line without an event."""

    # Lines of server logs (`bronze/log_events`); some are also events and steps.
    PFAIL = "pfail"
    REPORT_ADDED = "report-added"
    REPORT_REMOVED = "report-removed"
    FAIL_DECIDED = "fail-decided"
    FAIL_LEARNED = "fail-learned"
    FAIL_CLEARED = "fail-cleared"
    STATE_OK = "state-ok"
    STATE_FAIL = "state-fail"
    ELECTION_SCHEDULED = "election-scheduled"
    ELECTION_STARTED = "election-started"
    ELECTION_RESET = "election-reset"
    ELECTION_STALLED = "election-stalled"
    VOTE = "vote"
    VOTE_REFUSED = "vote-refused"
    ELECTION_WON = "election-won"
    BECAME_MASTER = "became-master"
    MANUAL_FAILOVER_REQUESTED = "manual-failover-requested"
    MANUAL_FAILOVER_FORCED = "manual-failover-forced"
    MANUAL_FAILOVER_MFSTART = "manual-failover-mfstart"
    MANUAL_FAILOVER_PAUSED = "manual-failover-paused"
    MANUAL_FAILOVER_TIMED_OUT = "manual-failover-timed-out"
    TAKEOVER = "takeover"
    BECAME_REPLICA = "became-replica"
    EMPTIED = "emptied"
    REPLICA_SEEN = "replica-seen"
    MASTER_SEEN = "master-seen"
    FAILOVER_SEEN = "failover-seen"
    CONFIG_EPOCH = "config-epoch"
    UPDATE_SENT = "update-sent"
    SLOTS_MOVED = "slots-moved"
    SLOT_ASSIGNED = "slot-assigned"
    SLOT_MIGRATING = "slot-migrating"
    SLOT_IMPORTING = "slot-importing"
    SLOT_STABLE = "slot-stable"
    SLOT_CLOSED = "slot-closed"
    IDENTITY = "identity"
    RESET_ORDERED = "reset-ordered"
    OWN_ADDRESS = "own-address"
    ADDRESS_UPDATED = "address-updated"
    STARTED = "started"
    LISTENING = "listening"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    CRASHED = "crashed"
    MASTER_LINK_LOST = "master-link-lost"
    MASTER_LINK_UP = "master-link-up"
    MASTER_CONNECTING = "master-connecting"
    SYNC_ASKED = "sync-asked"
    RESYNC_ASKED = "resync-asked"
    FULL_RESYNC = "full-resync"
    DATA_FLUSHED = "data-flushed"
    DATA_LOADED = "data-loaded"

    # Events (`silver/events`) that never appear in logs.
    FAIL_MISMATCH = "fail-mismatch"
    PROMOTED = "promoted"
    PAUSED = "paused"
    PROCESS_ENDED = "process-ended"
    PROCESS_IDLE = "process-idle"
    PROCESS_STARTED = "process-started"

    # Steps of incidents on the bus (`gold/incident_steps`).
    LAST_SIGN = "last-sign"
    CUT_OFF = "cut-off"
    REPORT = "report"
    UNSERVED = "unserved"
    UNREACHED = "unreached"
    CLUSTER_UNSERVED = "cluster-unserved"
    VOTER_GONE = "voter-gone"
    NO_REPLICA = "no-replica"
    BARRED = "barred"
    REPLICA_DOWN = "replica-down"
    BACK = "back"
    TRUSTED = "trusted"
    FORGOTTEN = "forgotten"
    KNOWN_AGAIN = "known-again"
    MET = "met"
    NEW_ID = "new-id"
    REPLICA_ATTACHED = "replica-attached"
    REPLICA_MOVED = "replica-moved"
    FOLLOWS = "follows"
    SLOT_OPEN = "slot-open"
    MOVED = "moved"
    TAKEN = "taken"
    GIVEN_UP = "given-up"
    NO_VOTE = "no-vote"
    WON = "won"
    TOOK_OVER = "took-over"
    TOOK_PLACE = "took-place"
    ADOPTED = "adopted"
    DEMOTED = "demoted"
    EPOCH_RAISED = "epoch-raised"
    QUORUM_SIDE = "quorum-side"
    REFUSED = "refused"
    DOUBTED = "doubted"

    # Steps of Sentinel incidents.
    S_DOWN = "s-down"
    S_DOWN_CLEARED = "s-down-cleared"
    O_DOWN = "o-down"
    O_DOWN_CLEARED = "o-down-cleared"
    CHOSEN = "chosen"
    PROMOTION_ORDERED = "promotion-ordered"
    RECONFIGURING = "reconfiguring"
    RECONFIGURED = "reconfigured"
    FAILOVER_DONE = "failover-done"
    NOT_ELECTED = "not-elected"
    REPLICA_TIMED_OUT = "replica-timed-out"
    MASTER_TIMED_OUT = "master-timed-out"
    SWITCHED = "switched"
    DELAYED = "delayed"
    CONVERTED = "converted"
    ROLE_CHANGED = "role-changed"
    TILT = "tilt"
    TILT_ENDED = "tilt-ended"
    NO_FAILOVER = "no-failover"


class IncidentKind(StrEnum):
    """Kinds of incidents; incidents with the same start are listed in this order."""

    MEMBERSHIP = "membership"
    SLOTS_ASSIGNED = "slots-assigned"
    EPOCH_COLLISION = "epoch-collision"
    PARTITION = "partition"
    FAILURE = "failure"
    FAILOVER = "failover"
    RESHARDING = "resharding"
    FLAPPING = "flapping"
    OUTAGE = "outage"
    RESTART = "restart"
    RESYNC = "resync"
    DATA_LOSS = "data-loss"
    TILT = "tilt"


class Severity(StrEnum):
    """Severity of a finding or caveat, most severe first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Source(StrEnum):
    """Kind of evidence behind a row."""

    NONE = ""
    CAPTURE = "capture"
    LOG = "log"
    POLL = "poll"
    METRICS = "metrics"
    """Prometheus samples."""
    RULE = "rule"
    """Derived by a protocol rule from other evidence."""


NAMES_NO_SLOTS: Final = (Source.LOG, Source.METRICS)
"""Evidence of views that names no slots and not every epoch."""


class FindingCode(StrEnum):
    """Findings about a cluster, with the protocol rule behind them."""

    rule: str

    def __new__(cls, code: str, rule: str = "") -> Self:
        member = str.__new__(cls, code)
        member._value_, member.rule = code, rule
        return member

    SPLIT_CLAIM = "split-claim", "R166"
    QUORUM_IMPOSSIBLE = "quorum-impossible", "R93"
    ONE_HOST = "one-host", "R107"
    SHARD_ON_ONE_HOST = "shard-on-one-host", "R84"
    REPLICATION_LAG = "replication-lag", "P3"
