"""Rows of tables as values of a report, and values as JSON."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar, cast

from slotscope.runtime.text import shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from schemas.table import Table

Record = TypeVar("Record")


NAME_LENGTH_MAX: Final = 1000
"""Characters of a name in bytes, as in the text columns of tables."""


def record(kind: type[Record], row: Mapping[str, Any], **more: Any) -> Record:
    """Return a *kind* (a dataclass or a named tuple) from *more* and the columns of *row*; other fields keep their defaults."""
    own = vars(kind).get("_fields") or [field.name for field in fields(cast("type[DataclassInstance]", kind))]
    return kind(**{name: _plain(row[name]) for name in own if name not in more and name in row}, **more)


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


class Row(SimpleNamespace):
    """A row of a table: each column is an attribute."""


def read(root: str, table: Table, **query: Any) -> list[Row]:
    """Return rows of *table*, see `read_rows`, without the columns that a run stamps; none where the table does not exist."""
    from slotscope.runtime.storage.delta_files import exists, read_rows

    if not exists(root, table):
        return []
    columns = [name for name in table.columns if name not in table.labels]
    return [Row(**row) for row in read_rows(root, table, **{"columns": columns, **query})]


def grouped(rows: Iterable[Mapping[str, Any]], *columns: str) -> dict[Any, list[Mapping[str, Any]]]:
    """Group *rows* by their values in *columns* (a tuple for several), in their order."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        key = row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns)
        groups.setdefault(key, []).append(row)
    return groups


def print_records(records: Any, lines: Callable[[], Iterable[str]], *, as_json: bool, stream: TextIO) -> None:
    """Write *records* as JSON, or as *lines*."""
    if as_json:
        write_json(records, stream)
    else:
        stream.writelines(f"{line}\n" for line in lines())


def write_json(records: Any, stream: TextIO) -> None:
    """Write *records* as one line of JSON."""
    stream.write(json_text(records) + "\n")


def json_text(records: Any) -> str:
    """Return *records* as one line without control characters."""
    return json.dumps(json_value(records), allow_nan=False)


def json_value(value: Any) -> Any:
    """Convert *value* for JSON.  Fields in bytes become texts as in reports, with the bytes in a field ``NAME_base64``."""
    if is_dataclass(value) and not isinstance(value, type):
        return json_value({field.name: getattr(value, field.name) for field in fields(value)})
    if hasattr(value, "_asdict"):
        return json_value(value._asdict())
    if isinstance(value, Row):
        return json_value(vars(value))
    if isinstance(value, Mapping):
        members = {}
        for key, member in value.items():
            name = " ".join(map(str, key)) if isinstance(key, tuple) else str(json_value(key))
            members[name] = json_value(member)
            if isinstance(member, bytes | bytearray):
                members[f"{name}_base64"] = b64encode(member).decode("ascii")
        return members
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return shown(bytes(value), NAME_LENGTH_MAX)
    if isinstance(value, Enum):
        return json_value(value.value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


RUN_COLUMNS: Final = (
    "job", "snapshot_id", "cluster", "run_id", "version", "started_at", "ended_at", "data_at", "partial", "inputs", "rows", "checks",
)  # fmt: skip


def summaries(root: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the complete runs of the snapshots, or plans, *names*, in order of time, with the count and bytes of their inputs."""
    from schemas.runs import RUNS
    from slotscope.runtime.storage.delta_files import any_of, exists, read_rows
    from slotscope.runtime.storage.runs import State

    if not names or not exists(root, RUNS):
        return []
    where = any_of("snapshot_id", names)
    complete_runs = read_rows(
        root, RUNS, columns=RUN_COLUMNS, where=where, order_by="started_at", state=str(State.COMPLETE)
    )
    return [_summary(row) for row in complete_runs]


def _summary(row: dict[str, Any]) -> dict[str, Any]:
    inputs = row.pop("inputs") or {}
    counts = {"input_files": len(inputs), "input_bytes": sum(inputs.values())}
    return {**row, "seconds": (row["ended_at"] - row["started_at"]).total_seconds(), **counts}
