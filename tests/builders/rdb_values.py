"""Keys of dumps with their values, from the lines of JSON that `cluster_core.rdb.export` writes."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

import numpy as np

from cluster_core.rdb.export import ValueWriter
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.value_state import JSON
from tests.builders.rdb_rows import batches_of


class Field(NamedTuple):
    """A field of a hash; *expire_at_ms* is -1 if it stays."""

    name: bytes
    value: bytes
    expire_at_ms: int


class Record(NamedTuple):
    """One key; *value* is bytes, a list of bytes, of (member, score) or of `Field`, or what JSON has of a stream or module."""

    key: bytes
    type: str
    value: Any
    expire_at_ms: int
    idle_s: int
    freq: int


def unmarked(text: str) -> bytes:
    """The string that a text stands for."""
    return base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()


def _value(kind: str, value: Any) -> Any:
    if kind == "string":
        return unmarked(value)
    if kind in ("list", "set", "array"):
        return [unmarked(element) for element in value]
    if kind == "zset":
        return [(unmarked(member), float(score)) for member, score in value.items()]
    if kind == "hash":
        return [
            Field(unmarked(name), unmarked(field), -1)
            if isinstance(field, str)
            else Field(unmarked(name), unmarked(field["value"]), field["expire_at_ms"])
            for name, field in value.items()
        ]
    return value


def records_of(lines: bytes) -> list[tuple[int, Record]]:
    """The keys of lines of JSON, with their databases."""
    result = []
    for text in lines.splitlines():
        line = json.loads(text, parse_int=lambda digits: -0.0 if digits == "-0" else int(digits))
        facts = (line.get(name, -1) for name in ("expire_at_ms", "idle_s", "freq"))
        value = _value(line["type"], line["value"])
        result.append((line["db"], Record(unmarked(line["key"]), line["type"], value, *facts)))
    return result


def written_by(dump: bytes, style: int, **options: Any) -> tuple[bytes, ValueWriter]:
    """All keys of *dump* in *style*, and who wrote them."""
    data, skimmer = np.frombuffer(bytearray(dump), np.uint8), RdbSkimmer("d.rdb")
    out, writer = [], None
    for batch in batches_of(skimmer, dump):
        writer = writer or ValueWriter(skimmer.head, style, source="d.rdb", **options)
        out += [bytes(piece) for piece in writer.pieces(data, batch, np.arange(len(batch)))]
    assert writer is not None
    return b"".join(out), writer


def read_rows(data: bytes) -> tuple[RdbSkimmer, list[tuple[int, Record]]]:
    """The skim of a file, its CRC checked, and every key as (database, record)."""
    skimmer = RdbSkimmer("d.rdb")
    batches = list(batches_of(skimmer, data))
    assert skimmer.crc_ok is not False
    return skimmer, records_of(written_by(data, JSON)[0]) if batches else []
