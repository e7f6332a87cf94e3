"""Records of a report from rows of tables: fields and columns of one name hold the same.

A report is such records: its terminal, its page and whatever else shows it draw from them, and compute no figure of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pyspark.sql import Row

    Record = TypeVar("Record", bound=DataclassInstance)


def record(kind: type[Record], row: Row | Mapping[str, Any], **more: Any) -> Record:
    """Return a *kind* with what the columns of *row* hold, and *more*, which goes before them; a field that neither has keeps its default."""
    names = (field.name for field in fields(kind) if field.name not in more and field.name in row)
    return kind(**{name: _plain(row[name]) for name in names}, **more)


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def grouped(rows: Iterable[Mapping[str, Any]], *columns: str) -> dict[Any, list[Mapping[str, Any]]]:
    """Return *rows* by what they have in *columns* (of several, a tuple), in their order."""
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        key = row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns)
        found.setdefault(key, []).append(row)
    return found
