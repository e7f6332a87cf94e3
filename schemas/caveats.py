"""Warnings in tables: severity, code, text and subject."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple, cast

import pyarrow as pa

from cluster_core.kinds import Severity
from schemas.table import fields_of, optional, required, several


class Code(StrEnum):
    """Codes of warnings, each with its meaning and, where there is one, the action."""

    # of the key space
    BAD_RECORDS = "bad_records"
    """Records could not be read; `bronze/bad_records` lists them."""
    PARTIAL = "partial"
    """A share of an input was not read; its figures are too low."""
    FOREIGN_KEYS = "foreign_keys"
    """A dump holds keys of slots that its node does not own; check the topology file."""
    OLDER_DUMPS = "older_dumps"
    """Of dumps with one replication id, the newest was read: a master and its replicas hold the same data."""
    SAME_NODE_TWICE = "same_node_twice"
    """Two inputs hold the data of one node and share no replication id; name one of them."""
    TRAILING_BYTES = "trailing_bytes"
    """A dump has bytes after its end."""
    HOLLOW_KEYS = "hollow_keys"
    """Keys without elements, which a server drops on load; they are not counted."""
    UNCOVERED_SLOTS = "uncovered_slots"
    """The topology leaves slots without an owner."""
    UNKNOWN_NODE = "unknown_node"
    """No node owns most keys of a dump; its keys count for the owners of their slots."""
    SNAPSHOT_AGE = "snapshot_age"
    """Age of the dumps; later writes are not included."""
    MEMORY_EXCEEDS = "memory_exceeds"
    """Estimated memory exceeds the server's used memory."""
    LOG_TRUNCATED = "log_truncated"
    """A crash cut the last append-only file."""
    UNCERTAIN_KEYS = "uncertain_keys"
    """Commands with unknown effect; `gold/uncertain_keys` lists the keys."""
    LOG_DAMAGED = "log_damaged"
    """An append-only log is damaged; keys are those before the damage."""
    # of plans
    FOREIGN_LOAD = "foreign-keys"
    """Keys on nodes that do not own their slots; they are not counted."""
    MEMORY_MODEL = "memory-model"
    """Memory of some keys comes from the model of another server."""
    OPS_ESTIMATED = "ops-estimated"
    """Operations are estimated from LFU counters, not counted."""
    MEMORY_SAMPLED = "memory-sampled"
    """Memory was sampled; the error per master is stated."""
    MEMORY_MIXED = "memory-mixed"
    """Masters were measured by SLOT-STATS and by MEMORY USAGE, which count differently."""
    TOLERANCE_RAISED = "tolerance-raised"
    """The tolerance was raised to the error of the loads; measure more to lower it."""
    CAPACITY_NOT_KEPT = "capacity-not-kept"
    """A capacity is ignored because its resource is not balanced."""
    CAPACITY_OF_SERVERS = "capacity-of-servers"
    """Capacities were taken from maxmemory."""
    EVICTION = "eviction"
    """Masters at maxmemory evict keys; slots that arrive evict others."""
    GONE = "gone"
    """A failed master without slots was left out."""
    WINDOWS_LEFT_OUT = "windows-left-out"
    """Counters of slots that moved between polls were left out."""
    LIMITS_AT_ODDS = "limits-at-odds"
    """Limits of the plan contradict each other; change one."""
    LIMITS_NOT_REACHED = "limits-not-reached"
    """No plan that keeps all limits was found; whether one exists is unknown."""
    GOAL_GIVEN_UP = "goal-given-up"
    """A soft goal may stay above its limit."""
    NO_ROOM = "no-room"
    """Slots stay because no master has room for two copies; plan again after this plan."""
    ABOVE_CAPACITY = "above-capacity"
    """A master is above its capacity."""
    # of replays
    STATE = "state"
    """The state of the last run is unreadable; all evidence was read again."""
    TWO_CLUSTERS = "two-clusters"
    """Nodes of several clusters under one name; record each under its own name."""
    NODE_TIMEOUT = "node-timeout"
    """The node timeout is unknown or assumed; give --node-timeout-ms."""
    SET_UP = "set-up"
    """The evidence shows the set-up of the cluster, which is not an incident."""
    PROFILE = "profile"
    """The server version is unknown or ambiguous; logs of a start name it."""
    NO_MESSAGES = "no-messages"
    """The captures hold no cluster-bus message."""
    CLOCK = "clock"
    """The clock of a capture was set back."""
    CLOCKS = "clocks"
    """Clocks of capture points differ, or their difference is unknown."""
    LOG_CLOCK = "log-clock"
    """Times of a node's log differ from its packets; check clock and time zone."""
    GAPS = "gaps"
    """Evidence is missing for a time."""
    SNAP_LENGTH = "snap-length"
    """Captured messages were cut; raise the snap length."""
    OTHER_TRAFFIC = "other-traffic"
    """Packets that are not of the bus were skipped."""
    FOREIGN_LINES = "foreign-lines"
    """Log lines of other programs were skipped."""
    UNKNOWN_SENTINEL = "unknown-sentinel"
    """A Sentinel in the evidence is unknown."""
    BAD_EVIDENCE = "bad-records"
    """Records of the evidence could not be read; see `bronze/bad_records`."""
    LATE = "late"
    """Files arrived too late; `bronze/late_files` lists them."""


class Caveat(NamedTuple):
    """A warning; *subject* is a file, node or load, None for all."""

    severity: Annotated[Severity, "error, warning or note"]
    code: Annotated[Code, "warning code"]
    text: Annotated[str, "text"]
    subject: Annotated[str | None, "file, node or load; null: all"] = None

    @classmethod
    def of(cls, severity: str, code: str, text: str, subject: str | None = None) -> Caveat:
        """Build a caveat from the columns of a row; tables of an older version may hold codes that are not in `Code`."""
        known = next((member for member in Code if member == code), cast(Code, code))
        return cls(Severity(severity), known, text, subject)

    @classmethod
    def error(cls, code: Code, text: str, subject: str | None = None) -> Caveat:
        """Build an error: figures are wrong."""
        return cls(Severity.ERROR, code, text, subject)

    @classmethod
    def warning(cls, code: Code, text: str, subject: str | None = None) -> Caveat:
        """Build a warning: figures may be wrong."""
        return cls(Severity.WARNING, code, text, subject)

    @classmethod
    def note(cls, code: Code, text: str, subject: str | None = None) -> Caveat:
        """Build a note."""
        return cls(Severity.NOTE, code, text, subject)

    def columns(self) -> tuple[str, str, str, str | None]:
        """Return the columns of its row."""
        return self.severity.value, self.code.value, self.text, self.subject


CAVEAT = pa.struct(fields_of(Caveat))


def caveats(about: str, *, always: bool = True) -> pa.Field:
    """Return the column `warnings` of a table."""
    return (required if always else optional)("warnings", several(CAVEAT), about)
