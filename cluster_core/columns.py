"""Rows that say what their columns hold: a field's type, and beside it the sentence that tables show as its comment.

    class VoteRow(NamedTuple):
        voter: Annotated[str, "node that was asked"]
        epoch: Annotated[Unsigned, "epoch of the election"]
        answered_ns: Annotated[Instant | None, "when the vote left; null if refused"]

`schemas.table` makes a table's columns of them, Arrow and Delta follow from these.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints


class Kind(Enum):
    """What a type alone does not say of a column."""

    PLAIN = "plain"
    SMALL = "small"
    """A number of 32 bits."""
    UNSIGNED = "unsigned"
    """A number of 64 bits without sign, as epochs and offsets are on the wire."""
    INSTANT = "instant"
    """A time in ns since the epoch in a field ``NAME_ns``; tables have it as timestamp ``NAME``, too."""
    INSTANT_AT = "instant-at"
    """The same where the timestamp is called ``NAME_at``."""
    MESSAGE = "message"
    """The number of the message that shows the fact; -1 where none does, which is null in tables."""


Small = Annotated[int, Kind.SMALL]
Unsigned = Annotated[int, Kind.UNSIGNED]
Instant = Annotated[int, Kind.INSTANT]
InstantAt = Annotated[int, Kind.INSTANT_AT]
MessageRef = Annotated[int, Kind.MESSAGE]

MESSAGE_COLUMN = "message_id"
"""What tables call a `Kind.MESSAGE`, whatever its field is called."""


class Column(NamedTuple):
    """A column of a row: *type* without None, which *optional* stands for."""

    name: str
    type: Any
    kind: Kind
    optional: bool
    about: str

    @property
    def timestamp(self) -> str:
        """The column that has the same time as timestamp; empty for what is no time."""
        stem = self.name.removesuffix("_ns")
        return {Kind.INSTANT: stem, Kind.INSTANT_AT: f"{stem}_at"}.get(self.kind, "")


@cache
def columns_of(row: type) -> tuple[Column, ...]:
    """The columns that the NamedTuple *row* declares, in its order; KeyError for a field without its sentence."""
    return tuple(_column(name, hint, row) for name, hint in get_type_hints(row, include_extras=True).items())


def _column(name: str, hint: Any, row: type) -> Column:
    inner, notes = _without_notes(hint)
    optional = NoneType in get_args(inner)
    if optional:
        (inner,) = (one for one in get_args(inner) if one is not NoneType)
        inner, more = _without_notes(inner)
        notes += more
    kind = next((note for note in notes if isinstance(note, Kind)), Kind.PLAIN)
    about = next((note for note in notes if isinstance(note, str)), "")
    if not about:
        raise KeyError(f"{row.__name__}.{name} does not say what it holds")
    if kind is Kind.MESSAGE:
        name, optional = MESSAGE_COLUMN, True
    return Column(name, inner, kind, optional, about)


def _without_notes(hint: Any) -> tuple[Any, list[Any]]:
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return inner, notes
    return hint, []
