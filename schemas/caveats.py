"""Warnings in tables: severity, code, text and subject."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple

import pyarrow as pa

from cluster_core.kinds import Severity
from schemas.table import fields_of, optional, required, several


class Code(StrEnum):
    """Code of a warning."""

    # of the key space
    BAD_RECORDS = "bad_records"
    PARTIAL = "partial"
    FOREIGN_KEYS = "foreign_keys"
    SAME_NODE_TWICE = "same_node_twice"
    TRAILING_BYTES = "trailing_bytes"
    NO_CHECKSUM = "no_checksum"
    LONG_NAMES = "long_names"
    HOLLOW_KEYS = "hollow_keys"
    UNCOVERED_SLOTS = "uncovered_slots"
    UNKNOWN_NODE = "unknown_node"
    SNAPSHOT_AGE = "snapshot_age"
    MEMORY_NEAREST = "memory_nearest"
    MEMORY_UNKNOWN = "memory_unknown"
    MEMORY_EXCEEDS = "memory_exceeds"
    LOG_TRUNCATED = "log_truncated"
    UNCERTAIN_KEYS = "uncertain_keys"
    LOG_DAMAGED = "log_damaged"
    # of plans
    NOT_BALANCED = "not-balanced"
    FOREIGN_LOAD = "foreign-keys"
    MEMORY_MODEL = "memory-model"
    OPS_ESTIMATED = "ops-estimated"
    MEMORY_SAMPLED = "memory-sampled"
    MEMORY_MIXED = "memory-mixed"
    TOLERANCE_RAISED = "tolerance-raised"
    CAPACITY_NOT_KEPT = "capacity-not-kept"
    CAPACITY_OF_SERVERS = "capacity-of-servers"
    EVICTION = "eviction"
    GROWTH = "growth"
    GONE = "gone"
    WINDOWS_LEFT_OUT = "windows-left-out"
    LIMITS_AT_ODDS = "limits-at-odds"
    LIMITS_NOT_REACHED = "limits-not-reached"
    GOAL_GIVEN_UP = "goal-given-up"
    NO_ROOM = "no-room"
    ZONE_MAJORITY = "zone-majority"
    ZONE_COPIES = "zone-copies"
    ABOVE_CAPACITY = "above-capacity"
    # of replays
    STATE = "state"
    TWO_CLUSTERS = "two-clusters"
    NODE_TIMEOUT = "node-timeout"
    SET_UP = "set-up"
    PROFILE = "profile"
    NO_MESSAGES = "no-messages"
    CLOCK = "clock"
    CLOCKS = "clocks"
    LOG_CLOCK = "log-clock"
    GAPS = "gaps"
    SNAP_LENGTH = "snap-length"
    OTHER_TRAFFIC = "other-traffic"
    FOREIGN_LINES = "foreign-lines"
    UNKNOWN_SENTINEL = "unknown-sentinel"
    BAD_EVIDENCE = "bad-records"
    LATE = "late"


class Caveat(NamedTuple):
    """A warning; *subject* is a file, node or load, None for all."""

    severity: Annotated[Severity, "error, warning or note"]
    code: Annotated[Code, "warning code"]
    text: Annotated[str, "text"]
    subject: Annotated[str | None, "file, node or load; null: all"] = None

    @classmethod
    def of(cls, severity: str, code: str, text: str, subject: str | None = None) -> Caveat:
        """Build a caveat from the columns of a row."""
        return cls(Severity(severity), Code(code), text, subject)

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
