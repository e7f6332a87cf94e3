"""What a task says of an input that it could not read in full: the facts ``bad_records``, ``unread_bytes``, ``records`` and others.

A fact that is missing is not known, or there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster_core.errors import DecodeError, TruncatedError
from slotscope.sources.files import compression_of

if TYPE_CHECKING:
    from slotscope.sources.key_lists import KeyListReader


def rest_of(path: str, end: int, error: DecodeError, records: int = 1) -> int | None:
    """Return the bytes from *error* to *end*, none of them read; None where offsets are not those of the file as it is stored."""
    if compression_of(path) is not None:
        return None if records else end
    return max(end - error.offset, 0)


def unread_facts(bad: Sequence[DecodeError], unread_bytes: int | None) -> dict[str, str]:
    """Say how many places could not be read, and how many bytes were passed over because of them."""
    if not bad:
        return {}
    facts = {"bad_records": str(len(bad))}
    if unread_bytes is not None:
        facts["unread_bytes"] = str(unread_bytes)
    if any(isinstance(error, TruncatedError) for error in bad):
        facts["ends_early"] = "true"
    return facts


def list_facts(reader: KeyListReader, keys: int) -> dict[str, str]:
    """Say which rows of a list, *keys* of which are there, could not be read, or not in full."""
    if not reader.bad:
        return {}
    unit = reader.unit
    facts = unread_facts(reader.bad, None)
    rows = keys + len(reader.bad) - reader.kept
    if not reader.broke_off:
        return facts | {"records": str(rows), "unread_records": str(min(len(reader.bad), rows))}
    if not keys and not unit.start and unit.size:
        return facts | {"unread_bytes": str(unit.size)}
    if reader.rows_total is not None:
        return facts | {
            "records": str(reader.rows_total),
            "unread_records": str(reader.rows_total - keys + reader.kept),
        }
    if unit.kind == "text" and (rest := rest_of(unit.path, unit.end or unit.size, reader.bad[-1])) is not None:
        return facts | {"unread_bytes": str(rest)}
    return facts
