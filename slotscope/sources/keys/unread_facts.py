"""What a task says of an input that it could not read in full (`schemas.interim.UnitFacts`)."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.errors import DecodeError, TruncatedError
from schemas.interim import UnitFacts
from slotscope.sources.files import compression_of
from slotscope.sources.keys.lists import KeyListReader


def rest_of(path: str, end: int, error: DecodeError, records: int = 1) -> int | None:
    """Return the bytes from *error* to *end*, none of them read; None where offsets are not those of the file as it is stored."""
    if compression_of(path) is not None:
        return None if records else end
    return max(end - error.offset, 0)


def note_unread(facts: UnitFacts, bad: Sequence[DecodeError], unread_bytes: int | None) -> None:
    """Say how many places could not be read, and how many bytes were passed over because of them."""
    if bad:
        facts.bad_records = len(bad)
        facts.unread_bytes = unread_bytes
        facts.ends_early = any(isinstance(error, TruncatedError) for error in bad)


def note_list(facts: UnitFacts, reader: KeyListReader, keys: int) -> None:
    """Say which rows of a list, *keys* of which are there, could not be read, or not in full."""
    if not reader.bad:
        return
    unit = reader.unit
    note_unread(facts, reader.bad, None)
    rows = keys + len(reader.bad) - reader.kept
    if not reader.broke_off:
        facts.records, facts.unread_records = rows, min(len(reader.bad), rows)
    elif not keys and not unit.start and unit.size:
        facts.unread_bytes = unit.size
    elif reader.rows_total is not None:
        facts.records, facts.unread_records = reader.rows_total, reader.rows_total - keys + reader.kept
    elif unit.kind == "text":
        facts.unread_bytes = rest_of(unit.path, unit.end or unit.size, reader.bad[-1])
