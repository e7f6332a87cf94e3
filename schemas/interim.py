"""What a task of the key distribution returns: partial sums, never a row a key.  Not a table on disk."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

SLOT, TOP_SLOT, TOP_TYPE, TOP_OWNER, TAG, PREFIX, TTL, UNIT, BAD = range(9)
FLAW = 14
LOG_SLOT, LOG_COMMAND, LOG_KEY, LOG_PREFIX, LOG_DOUBT = range(9, 14)
"""Kinds of partial rows.  Those of logs have writes in *ops*, bytes of the log in *serialized_bytes*, the beginning of the hour
(`LOG_SLOT`) or minute (`LOG_COMMAND`) in *offset* (epoch in s, null without timestamps); *number* is 1 for a slot's bytes in a
base, and for a command that servers are known to have.  A `FLAW` has what a header counts in *elements*, what is there in *keys*.
"""


Fact = bool | int | str | list[str] | None


@dataclass(slots=True, kw_only=True)
class UnitFacts:
    """What one task found in a file, or in a range of one; what is None, false or empty was not found, or is not known."""

    source: str = ""
    kind: str = ""
    keys: int = 0
    file_bytes: int = 0

    # of a dump
    aux: dict[str, str] = field(default_factory=dict)
    """Its aux fields; those of the dump that a log begins with have ``dump_`` before their names."""
    rdb: str | None = None
    """Dialect and version."""
    ctime: int | None = None
    """When it was begun, epoch in s; of a log that is replayed, the latest time that it knows."""
    stored_crc: str | None = None
    functions: int | None = None
    slot_info: bool = False
    """Whether it declares how many keys each slot has."""
    trailing_bytes: int | None = None
    split_failed: str | None = None
    """Why it cannot be read in ranges."""
    hollow_keys: int | None = None
    """Collections without elements, and the first of them."""
    hollow_key: str | None = None
    twin_keys: int | None = None
    """Keys that are there more than once, and some of them; they were sought among the first *twins_sought* keys only."""
    twins: list[str] = field(default_factory=list)
    twins_sought: int | None = None
    decoded_values: int | None = None
    flawed_values: int | None = None
    undecoded_values: int | None = None
    flaws: list[str] = field(default_factory=list)
    memory_model: str | None = None
    memory_estimate: str | None = None
    memory_total: int | None = None
    unmeasured_keys: int | None = None

    # of a log
    role: str | None = None
    """base, increment or single; state for the replay of all its files."""
    file: str | None = None
    commands: int | None = None
    cut: str | None = None
    """How a crash has cut it, and up to where a server loads it."""
    loaded_end: int | None = None
    first_s: int | None = None
    last_s: int | None = None
    second_bytes_max: int | None = None
    base: str | None = None
    replayed: int | None = None
    refused: int | None = None
    replayed_to: str | None = None
    """Where damage ended the replay."""
    not_modelled: str | None = None
    uncertain_keys: int | None = None

    # what could not be read
    bad_records: int | None = None
    unread_bytes: int | None = None
    records: int | None = None
    """Keys, or rows, that the file says it holds."""
    unread_records: int | None = None
    ends_early: bool = False

    # what its sums know
    knows_serialized_bytes: bool = False
    knows_memory_bytes: bool = False
    knows_expires: bool = False
    knows_ops: bool = False
    missed_tag_keys: int | None = None
    """Most that a group which is not listed can have."""
    missed_tag_bytes: int | None = None
    missed_prefix_keys: int | None = None
    missed_prefix_bytes: int | None = None
    missed_log_keys: int | None = None
    missed_log_bytes: int | None = None
    missed_log_prefix_bytes: int | None = None
    untracked_keys: int | None = None
    """Keys whose tag or prefixes are too long to group."""

    @property
    def holds_keys(self) -> bool:
        """Whether it counts the keys of a node: a dump, or a log that is replayed."""
        return self.kind == "rdb" or self.role == "state"

    def words(self) -> dict[str, str]:
        """What was found, as the words of ``silver/sources``."""
        found = {name: getattr(self, name) for name in FACTS.names if name != "aux"}
        return {name: _word(value) for name, value in found.items() if _is_said(value)} | self.aux


def _is_said(value: Fact) -> bool:
    return value is not None and value is not False and value != []


def _word(value: Fact) -> str:
    return "\n".join(value) if isinstance(value, list) else "true" if value is True else str(value)


COUNTED = frozenset(
    [
        "functions",
        "trailing_bytes",
        "hollow_keys",
        "twin_keys",
        "twins_sought",
        "decoded_values",
        "flawed_values",
        "undecoded_values",
        "unmeasured_keys",
        "bad_records",
        "unread_bytes",
        "records",
        "unread_records",
        "missed_tag_keys",
        "missed_tag_bytes",
        "missed_prefix_keys",
        "missed_prefix_bytes",
        "untracked_keys",
    ]
)
"""Facts that add up over the ranges of a dump."""


def joined(before: UnitFacts, later: UnitFacts) -> UnitFacts:
    """The facts of a file from those of two of its units.

    Of two ranges of a dump counts add up and examples stand together; all else is as the later says, where it says something.
    """
    both: dict[str, Any] = {"keys": before.keys + later.keys, "aux": before.aux | later.aux}
    if later.kind == "aof":
        both["file_bytes"] = before.file_bytes + later.file_bytes
    for name in (f.name for f in fields(UnitFacts) if f.name not in both):
        old, new = getattr(before, name), getattr(later, name)
        adds = later.kind == "rdb" and (name in COUNTED or isinstance(new, list)) and None not in (old, new)
        both[name] = old + new if adds else new if _is_said(new) else old
    return UnitFacts(**both)


_KINDS: dict[str, DataType] = {
    "bool": BooleanType(),
    "int | None": LongType(),
    "str | None": StringType(),
    "list[str]": ArrayType(StringType(), containsNull=False),
    "dict[str, str]": MapType(StringType(), StringType(), valueContainsNull=False),
}
_IN_ROW = ("source", "kind", "keys", "file_bytes")
"""Facts that have columns of their own: ``source``, ``text``, ``keys`` and ``serialized_bytes`` of a `UNIT` row."""
FACTS = StructType([StructField(f.name, _KINDS[str(f.type)]) for f in fields(UnitFacts) if f.name not in _IN_ROW])

PARTIAL = StructType(
    [
        StructField("kind", IntegerType(), nullable=False),
        StructField("source", StringType(), nullable=False),
        StructField("part", IntegerType(), nullable=False),
        StructField("slot", IntegerType()),
        StructField("owner_id", StringType()),
        StructField("name", BinaryType()),
        StructField("name_text", StringType()),
        StructField("hash_tag", BinaryType()),
        StructField("hash_tag_text", StringType()),
        StructField("keys", LongType()),
        StructField("serialized_bytes", LongType()),
        StructField("expires", LongType()),
        StructField("ops", LongType()),
        StructField("keys_error", LongType()),
        StructField("bytes_error", LongType()),
        StructField("number", IntegerType()),
        StructField("db", IntegerType()),
        StructField("type", StringType()),
        StructField("encoding", StringType()),
        StructField("elements", LongType()),
        StructField("expire_at_ms", LongType()),
        StructField("idle_s", LongType()),
        StructField("freq", ShortType()),
        StructField("offset", LongType()),
        StructField("text", StringType()),
        StructField("facts", FACTS),
        StructField("flaw", StringType()),
        StructField("memory_bytes", LongType()),
        StructField("estimate", StringType()),
    ]
)
"""*number* is a prefix's depth, a time-to-live bucket, or the keys that a slot's own record in the dump declares (-1: none)."""
