"""Keys that the compiled writing leaves out, decoded and written one by one: streams, arrays, what modules keep."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from cluster_core.errors import EncodeError
from cluster_core.formats.rdb.crc64 import crc64
from cluster_core.formats.rdb.elements import Field, ModuleValue, Record
from cluster_core.formats.rdb.grammar import DIALECT_REDIS, L_MODULE, MODULE
from cluster_core.formats.rdb.stream_elements import NOT_READ, StreamGroup, StreamId, StreamValue, stream_tail
from cluster_core.formats.rdb.target import Target
from cluster_core.kernels.values.release import Release
from cluster_core.kernels.values.state import CSV, JSON
from cluster_core.kernels.values.texts import BASE64_MARK

_PAYLOAD_VERSION = 9
"""RDB version that the payload of RESTORE names: the oldest with all of its types."""

_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Texts:
    """Strings as text; *marked* of them had to be Base64."""

    def __init__(self) -> None:
        self.marked = 0

    def of(self, data: bytes) -> str:
        """*data* as text, or as its Base64 with the mark."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = None
        if text is not None and not data.startswith(BASE64_MARK):
            return text
        return self._marked(data)

    def cell(self, data: bytes) -> str:
        """*data* as a cell of CSV, where control characters but tabs and line ends are no text either."""
        if _CONTROLS.search(data):
            return self._marked(data)
        return self.of(data)

    def _marked(self, data: bytes) -> str:
        self.marked += 1
        return (BASE64_MARK + base64.b64encode(data)).decode()


def rare_bytes(key: Record, db: int, style: int, release: Release, *, selects: bool) -> tuple[bytes, int]:
    """Return the bytes of *key* of database *db* in *style*, and how many strings were no text; commands begin with SELECT if it *selects*.

    Raises EncodeError for what *release* cannot hold.
    """
    texts = _Texts()
    if style == JSON:
        out = _json(_document(key, db, texts)).encode() + b"\n"
    elif style == CSV:
        out = b"".join(_lines(key, db, texts))
    else:
        select = [command_of(b"SELECT", b"%d" % db)] if selects else []
        out = b"".join([*select, *_commands(key, release)])
    return out, texts.marked


def stream_tail_bytes(
    data: bytes, generation: int, key: Record, db: int, style: int, release: Release, *, is_empty: bool
) -> tuple[bytes, int]:
    """Return the bytes of what stands in *data* behind the entries of the stream *key*, whose value is not known, and how many strings were no text.

    Raises EncodeError, or one of `elements.DAMAGE`.
    """
    texts = _Texts()
    value = StreamValue([], *stream_tail(generation, data, 0))
    if style == JSON:
        rest = _json(_stream_rest(value, texts))
        return b"]," + rest[1:].encode() + b"}\n", texts.marked
    if style == CSV:
        return b"".join(_lines(key._replace(value=value), db, texts)), texts.marked
    commands = list(_stream_commands(key.key, value, release, is_empty=is_empty))
    if key.expire_at_ms >= 0:
        commands.append(command_of(b"PEXPIREAT", key.key, b"%d" % key.expire_at_ms))
    return b"".join(commands), texts.marked


def _document(key: Record, db: int, texts: _Texts) -> dict[str, Any]:
    found: dict[str, Any] = {"db": db, "key": texts.of(key.key), "type": key.type}
    for name, value in (("expire_at_ms", key.expire_at_ms), ("idle_s", key.idle_s), ("freq", key.freq)):
        if value >= 0:
            found[name] = value
    return {**found, "value": json_value(key.value, texts)}


def json_value(value: object, texts: _Texts) -> Any:
    """A decoded value as JSON has it."""
    if isinstance(value, StreamValue):
        return {
            "entries": [_entry(entry.id, entry.words, texts) for entry in value.entries],
            **_stream_rest(value, texts),
        }
    if isinstance(value, ModuleValue):
        return {"payload": base64.b64encode(value.data).decode()}
    if isinstance(value, bytes):
        return texts.of(value)
    assert isinstance(value, list)
    if value and isinstance(value[0], Field):
        return {
            texts.of(field.name): texts.of(field.value)
            if field.expire_at_ms < 0
            else {"value": texts.of(field.value), "expire_at_ms": field.expire_at_ms}
            for field in value
        }
    if value and isinstance(value[0], tuple):
        return {texts.of(member): score for member, score in value}
    return [texts.of(element) for element in value]


def _stream_rest(value: StreamValue, texts: _Texts) -> dict[str, Any]:
    return {
        "last_id": _id(value.last_id),
        "entries_added": value.added,
        "max_deleted_id": _id(value.deleted_id),
        "groups": [_group(group, texts) for group in value.groups],
    }


def _entry(id_: StreamId, words: tuple[bytes, ...], texts: _Texts) -> dict[str, Any]:
    """An entry; its fields are pairs, since one may come twice."""
    found = [texts.of(word) for word in words]
    return {"id": _id(id_), "fields": [list(pair) for pair in zip(found[::2], found[1::2], strict=True)]}


def _group(group: StreamGroup, texts: _Texts) -> dict[str, Any]:
    return {
        "name": texts.of(group.name),
        "last_id": _id(group.last_id),
        "entries_read": None if group.read == NOT_READ else group.read,
        "pending": [
            {"id": _id(one.id), "delivered_at_ms": one.delivered_at_ms, "deliveries": one.deliveries}
            for one in group.pending
        ],
        "consumers": [
            {
                "name": texts.of(one.name),
                "seen_at_ms": one.seen_at_ms,
                "active_at_ms": one.active_at_ms,
                "pending": [_id(id_) for id_ in one.pending],
            }
            for one in group.consumers
        ],
    }


def _id(id_: StreamId) -> str:
    return f"{id_[0]}-{id_[1]}"


def _lines(key: Record, db: int, texts: _Texts) -> Iterator[bytes]:
    """Lines of CSV: one an entry of a stream, one a group, one for any other value."""
    value = key.value
    rows: Iterable[tuple[str, str]]
    if isinstance(value, StreamValue):
        rows = [(_id(entry.id), _cell_json(_entry(entry.id, entry.words, texts)["fields"])) for entry in value.entries]
        rows += [(f"group {texts.cell(one.name)}", _cell_json(_group(one, texts))) for one in value.groups]
    elif isinstance(value, list) and not (value and isinstance(value[0], (tuple, Field))):
        rows = ((str(index), texts.cell(element)) for index, element in enumerate(value))
    elif isinstance(value, bytes):
        rows = [("", texts.cell(value))]
    else:
        rows = [("", _cell_json(json_value(value, texts)))]
    expire = str(key.expire_at_ms) if key.expire_at_ms >= 0 else ""
    for name, text in rows:
        cells = [str(db), texts.cell(key.key), key.type, expire, name, text, ""]
        yield ",".join(map(_cell, cells)).encode() + b"\r\n"


def _cell_json(value: Any) -> str:
    return _json(value).replace("\x7f", "\\u007f")


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(letter in text for letter in '",\r\n') else text


def command_of(*words: bytes) -> bytes:
    """Return a command as clients send it."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def _commands(key: Record, release: Release) -> Iterator[bytes]:
    """The commands that make *key*."""
    if isinstance(key.value, StreamValue):
        for entry in key.value.entries:
            yield command_of(b"XADD", key.key, _id(entry.id).encode(), *entry.words)
        yield from _stream_commands(key.key, key.value, release, is_empty=not key.value.entries)
    elif isinstance(key.value, ModuleValue):
        kind, _ = Target(DIALECT_REDIS, _PAYLOAD_VERSION).type_of(MODULE, L_MODULE)
        payload = bytes((kind,)) + key.value.data + _PAYLOAD_VERSION.to_bytes(2, "little")
        yield command_of(b"RESTORE", key.key, b"0", payload + crc64(payload).to_bytes(8, "little"))
    elif key.type in _MAKES:
        yield from _plain_commands(key, release)
    else:
        raise EncodeError(f"no command is known here that makes an {key.type}")
    if key.expire_at_ms >= 0:
        yield command_of(b"PEXPIREAT", key.key, b"%d" % key.expire_at_ms)


_MAKES = {"string": b"SET", "list": b"RPUSH", "set": b"SADD", "zset": b"ZADD", "hash": b"HSET"}


def _plain_commands(key: Record, release: Release) -> Iterator[bytes]:
    """The commands of a value that compiled writing leaves out for what stands before it (metadata of modules)."""
    elements: Any = [key.value] if isinstance(key.value, bytes) else key.value
    for one in elements:
        if isinstance(one, Field):
            yield command_of(_MAKES[key.type], key.key, one.name, one.value)
            if one.expire_at_ms >= 0:
                if not release.has_field_expiry:
                    raise EncodeError(f"{release.name} has no fields that expire")
                yield command_of(b"HPEXPIREAT", key.key, b"%d" % one.expire_at_ms, b"FIELDS", b"1", one.name)
        elif isinstance(one, tuple):
            yield command_of(_MAKES[key.type], key.key, repr(one[1]).encode(), one[0])
        else:
            yield command_of(_MAKES[key.type], key.key, one)


def _stream_commands(key: bytes, value: StreamValue, release: Release, *, is_empty: bool) -> Iterator[bytes]:
    """The commands that complete a stream whose entries were added (`rewriteStreamObject`)."""
    if is_empty:  # a stream that holds nothing is made, then emptied
        yield command_of(b"XADD", key, b"MAXLEN", b"0", _id(max(value.last_id, (0, 1))).encode(), b"x", b"y")
    counts = [b"ENTRIESADDED", b"%d" % value.added, b"MAXDELETEDID", _id(value.deleted_id).encode()]
    yield command_of(b"XSETID", key, _id(value.last_id).encode(), *(counts if release.has_stream_counts else []))
    for group in value.groups:
        read = [b"ENTRIESREAD", b"%d" % group.read] if release.has_stream_counts else []
        yield command_of(b"XGROUP", b"CREATE", key, group.name, _id(group.last_id).encode(), *read)
        pending = {one.id: one for one in group.pending}
        for consumer in group.consumers:
            if release.has_empty_consumers:
                yield command_of(b"XGROUP", b"CREATECONSUMER", key, group.name, consumer.name)
            for id_ in consumer.pending:
                one = pending.get(id_)
                if one is None:
                    raise EncodeError("an entry waits for a consumer, but not in its group")
                yield command_of(
                    b"XCLAIM", key, group.name, consumer.name, b"0", _id(id_).encode(), b"TIME", b"%d" % one.delivered_at_ms,
                    b"RETRYCOUNT", b"%d" % one.deliveries, b"JUSTID", b"FORCE",
                )  # fmt: skip
