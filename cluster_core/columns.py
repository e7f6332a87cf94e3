"""Rows with annotated columns: `schemas.table` derives a table's types and comments from them.

class VoteRow(NamedTuple):
    voter: Annotated[str, "node that was asked"]
    epoch: Annotated[Unsigned, "epoch of the election"]
    answered_ns: Annotated[Instant | None, "time of the vote; null if refused"]
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints


class Kind(Enum):
    """Column kinds that a Python type does not express."""

    PLAIN = "plain"
    SMALL = "small"
    """A 32-bit number."""
    UNSIGNED = "unsigned"
    """An unsigned 64-bit number, such as epochs and offsets."""
    INSTANT = "instant"
    """Nanoseconds since the epoch in a field ``NAME_ns``; tables add a timestamp ``NAME``."""
    INSTANT_AT = "instant-at"
    """The same with a timestamp ``NAME_at``."""
    MESSAGE = "message"
    """Number of the message that shows the fact; -1 if none, null in tables."""


Small = Annotated[int, Kind.SMALL]
Unsigned = Annotated[int, Kind.UNSIGNED]
Instant = Annotated[int, Kind.INSTANT]
InstantAt = Annotated[int, Kind.INSTANT_AT]
MessageRef = Annotated[int, Kind.MESSAGE]

MESSAGE_COLUMN = "message_id"
"""Column name of `Kind.MESSAGE` in tables."""


class Column(NamedTuple):
    """A column of a row: *type* without None, and *optional*."""

    name: str
    type: Any
    kind: Kind
    optional: bool
    about: str

    @property
    def timestamp(self) -> str:
        """Return the timestamp column of the same time; empty for other columns."""
        stem = self.name.removesuffix("_ns")
        return {Kind.INSTANT: stem, Kind.INSTANT_AT: f"{stem}_at"}.get(self.kind, "")


@cache
def columns_of(row: type) -> tuple[Column, ...]:
    """Return the columns that the NamedTuple *row* declares, in order; KeyError for a field without a comment."""
    return tuple(_column(name, hint, row) for name, hint in get_type_hints(row, include_extras=True).items())


def _column(name: str, hint: Any, row: type) -> Column:
    inner, notes = _without_notes(hint)
    optional = NoneType in get_args(inner)
    if optional:
        (inner,) = (choice for choice in get_args(inner) if choice is not NoneType)
        inner, more = _without_notes(inner)
        notes += more
    kind = next((note for note in notes if isinstance(note, Kind)), Kind.PLAIN)
    about = next((note for note in notes if isinstance(note, str)), "")
    if not about:
        raise KeyError(f"{row.__name__}.{name} has no comment")
    if kind is Kind.MESSAGE:
        name, optional = MESSAGE_COLUMN, True
    return Column(name, inner, kind, optional, about)


def _without_notes(hint: Any) -> tuple[Any, list[Any]]:
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return inner, notes
    return hint, []
