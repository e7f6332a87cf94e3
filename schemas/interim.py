"""Rows that a task of the key distribution returns: partial sums, never a row a key.  Not a table on disk."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from schemas.table import BYTES, FLAG, INTEGER, LONG, SHORT, TEXT, by_name, several

SLOT, TOP_SLOT, TOP_TYPE, TOP_OWNER, TAG, PREFIX, TTL, UNIT, BAD = range(9)
TYPE, OWNER, RANGE, ADVICE = range(14, 18)
LOG_SLOT, LOG_COMMAND, LOG_KEY, LOG_UNCERTAIN = range(9, 13)
"""Kinds of partial rows.  Those of logs have writes in *ops*, bytes of the log in *serialized_bytes*, the beginning of the hour
(`LOG_SLOT`) or minute (`LOG_COMMAND`) in *offset* (epoch in s, null without timestamps); *number* is 1 for a
command that servers are known to have.

A task sums all inputs of one node: *source* of a `SLOT`, `TYPE`, `RANGE` or `TTL` is the first input of that node, that of a `TAG` or
`PREFIX` the first of the task.  A `RANGE` counts keys of a type by the digits (*number*) of a measure (*text*); *offset* is the sum of the measure.  `OWNER` counts the keys of one input by the owner of their slots.  `ADVICE` is a row of `ADVICE_PARTIAL`: its kind in *text*, its number in *offset*.
"""


Fact = bool | int | str | list[str] | None


def _counted() -> Any:
    return field(default=None, metadata={"adds_up": True})


@dataclass(slots=True, kw_only=True)
class UnitFacts:
    """Facts of one task about a file, or a range of one; None, false or empty where absent or unknown."""

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
    """Start of the dump, epoch in s; of a replayed log its latest time."""
    stored_crc: str | None = None
    functions: int | None = _counted()
    trailing_bytes: int | None = _counted()
    split_failed: str | None = None
    """Why it cannot be read in ranges."""
    hollow_keys: int | None = _counted()
    """Collections without elements, and the first of them."""
    hollow_key: str | None = None
    memory_model: str | None = None
    memory_estimate: str | None = None
    memory_total: int | None = None
    unmeasured_keys: int | None = _counted()

    # of a log
    role: str | None = None
    """base, increment or single; state for the replay of all its files."""
    file: str | None = None
    commands: int | None = None
    cut: str | None = None
    """How a crash has cut it, and up to where a server loads it."""
    loaded_end: int | None = None
    last_s: int | None = None
    base: str | None = None
    replayed: int | None = None
    refused: int | None = None
    replayed_to: str | None = None
    """Where damage ended the replay."""
    not_modelled: str | None = None
    uncertain_keys: int | None = None

    # unreadable parts
    bad_records: int | None = _counted()
    unread_bytes: int | None = _counted()
    records: int | None = _counted()
    """Keys, or rows, that the file says it holds."""
    unread_records: int | None = _counted()
    ends_early: bool = False

    # known sums
    knows_serialized_bytes: bool = False
    knows_memory_bytes: bool = False
    knows_expires: bool = False
    knows_ops: bool = False
    knows_idle: bool = False
    """Whether the file has idle times of keys, and their LFU counters."""
    knows_counters: bool = False
    missed_tag_keys: int | None = _counted()
    """Most that a group which is not listed can have."""
    missed_tag_bytes: int | None = _counted()
    missed_tag_memory: int | None = _counted()
    missed_prefix_keys: int | None = _counted()
    missed_prefix_bytes: int | None = _counted()
    missed_prefix_memory: int | None = _counted()
    missed_log_keys: int | None = None
    missed_log_bytes: int | None = None
    untracked_keys: int | None = _counted()
    """Keys with a tag or prefixes too long to group."""

    @property
    def holds_keys(self) -> bool:
        """Whether it counts the keys of a node: a dump, or a log that is replayed."""
        return self.kind == "rdb" or self.role == "state"

    def texts(self) -> dict[str, str]:
        """Return the facts as texts for ``silver/sources``."""
        values = {name: getattr(self, name) for name in [fact.name for fact in FACTS] if name != "aux"}
        return {name: _text(value) for name, value in values.items() if _is_set(value)} | self.aux


def _is_set(value: Fact) -> bool:
    return value is not None and value is not False and value != []


def _text(value: Fact) -> str:
    return "\n".join(value) if isinstance(value, list) else "true" if value is True else str(value)


COUNTED = frozenset(f.name for f in fields(UnitFacts) if f.metadata.get("adds_up"))
"""Facts that add up over the ranges of a dump."""


def joined(before: UnitFacts, later: UnitFacts) -> UnitFacts:
    """The facts of a file from those of two of its units.

    Counts of two ranges of a dump add up and examples are joined; other facts come from the later unit if it has them.
    """
    both: dict[str, Any] = {"keys": before.keys + later.keys, "aux": before.aux | later.aux}
    if later.kind == "aof":
        both["file_bytes"] = before.file_bytes + later.file_bytes
    for name in (f.name for f in fields(UnitFacts) if f.name not in both):
        old, new = getattr(before, name), getattr(later, name)
        adds = later.kind == "rdb" and (name in COUNTED or isinstance(new, list)) and None not in (old, new)
        both[name] = old + new if adds else new if _is_set(new) else old
    return UnitFacts(**both)


_KINDS: dict[str, pa.DataType] = {
    "bool": FLAG,
    "int | None": LONG,
    "str | None": TEXT,
    "list[str]": several(TEXT),
    "dict[str, str]": by_name(TEXT),
}
_IN_ROW = ("source", "kind", "keys", "file_bytes")
"""Facts that have columns of their own: ``source``, ``text``, ``keys`` and ``serialized_bytes`` of a `UNIT` row."""
FACTS = pa.struct([pa.field(f.name, _KINDS[str(f.type)]) for f in fields(UnitFacts) if f.name not in _IN_ROW])

PARTIAL = pa.schema(
    [
        pa.field("kind", INTEGER, nullable=False),
        pa.field("source", TEXT, nullable=False),
        pa.field("part", INTEGER, nullable=False),
        pa.field("slot", INTEGER),
        pa.field("owner_id", TEXT),
        pa.field("name", BYTES),
        pa.field("name_text", TEXT),
        pa.field("hash_tag", BYTES),
        pa.field("hash_tag_text", TEXT),
        pa.field("keys", LONG),
        pa.field("serialized_bytes", LONG),
        pa.field("expires", LONG),
        pa.field("ops", LONG),
        pa.field("keys_error", LONG),
        pa.field("bytes_error", LONG),
        pa.field("memory_error", LONG),
        pa.field("number", INTEGER),
        pa.field("db", INTEGER),
        pa.field("type", TEXT),
        pa.field("encoding", TEXT),
        pa.field("elements", LONG),
        pa.field("expire_at_ms", LONG),
        pa.field("idle_s", LONG),
        pa.field("freq", SHORT),
        pa.field("offset", LONG),
        pa.field("text", TEXT),
        pa.field("facts", FACTS),
        pa.field("memory_bytes", LONG),
        pa.field("estimate", TEXT),
        pa.field("amounts", several(LONG)),
    ]
)
"""*amounts* are those of `cluster_core.kernels.keys.slot_tally.USES`; *number* is a prefix's depth, a time-to-live bucket."""

ADVICE_PARTIAL = pa.schema(
    [
        pa.field("kind", TEXT, nullable=False),
        pa.field("number", LONG, nullable=False),
        pa.field("name", BYTES),
        pa.field("amounts", several(LONG), nullable=False),
    ]
)
"""Rows that `slotscope.sources.rdb.tally` returns of a unit: sums by kind (slot, type, keys, prefix, curve), number and name."""
