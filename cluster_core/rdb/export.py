"""Export chosen keys of a dump as JSON or as commands for a server release.

`cluster_core.rdb.value_writing` does most of the work; streams and module values are written here by the plain decoder.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import ConditionError, DecodeError, EncodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb import value_state as at
from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.grammar import KEY_TYPES
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.skim_state import grammar_array
from cluster_core.rdb.texts import BASE64_MARK
from cluster_core.rdb.value_state import JSON
from cluster_core.rdb.value_writing import Keys, write_values
from cluster_core.rdb.values import (
    DAMAGE,
    Field,
    ModuleValue,
    Record,
    StreamId,
    StreamValue,
    decode_record,
    id_text,
    stream_document,
    stream_tail,
)

_NAME = re.compile(r"(redis|valkey)-(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?\Z")
_FIRST = {"redis": (5, 0), "valkey": (7, 2)}


class Release(NamedTuple):
    """A family of servers and a release of it; make one with `release_of`."""

    family: str
    number: tuple[int, int]

    @property
    def name(self) -> str:
        """Return the name of the release."""
        return f"{self.family}-{self.number[0]}.{self.number[1]}"

    @property
    def has_field_expiry(self) -> bool:
        """Whether fields of a hash can expire (HPEXPIREAT)."""
        return self.number >= ((7, 4) if self.family == "redis" else (9, 0))

    @property
    def has_empty_consumers(self) -> bool:
        """Whether a consumer can be made that owns nothing (XGROUP CREATECONSUMER)."""
        return self.number >= (6, 2)

    @property
    def has_stream_counts(self) -> bool:
        """Whether a stream's added entries and largest deleted id, and a group's read entries, can be set."""
        return self.number >= (7, 0)

    @property
    def has_functions(self) -> bool:
        """Whether it has function libraries (FUNCTION LOAD)."""
        return self.number >= (7, 0)


NEWEST = Release("redis", (255, 255))
"""A server that supports all commands."""


def release_of(name: str) -> Release:
    """Return the release that ``redis-7.0`` or ``valkey-9.0`` names; raises ConditionError for one that is not known."""
    result = _NAME.match(name)
    if result is None:
        raise ConditionError(f"{name!r} is no release: redis-7.0 or valkey-9.0 is", 0)
    family, number = result[1], (int(result[2]), int(result[3]))
    if number < _FIRST[family]:
        first = ".".join(map(str, _FIRST[family]))
        raise ConditionError(f"commands are written for {family} {first} and later", result.start(2))
    return Release(family, number)


_MODULE_2 = 7
"""RDB type of a module's value."""
_PAYLOAD_VERSION = 9
"""RDB version that the payload of RESTORE names: the oldest with all of its types."""

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
        self.marked += 1
        return (BASE64_MARK + base64.b64encode(data)).decode()


def rare_bytes(key: Record, db: int, style: int, release: Release, *, selects: bool) -> tuple[bytes, int]:
    """Return the bytes of *key* of database *db* in *style*, and how many strings were no text; commands begin with SELECT if it *selects*.

    Raises EncodeError for what *release* cannot hold.
    """
    texts = _Texts()
    if style == JSON:
        out = _json(_document(key, db, texts)).encode() + b"\n"
    else:
        select = [command_of(b"SELECT", b"%d" % db)] if selects else []
        out = b"".join([*select, *_commands(key, release)])
    return out, texts.marked


def stream_tail_bytes(
    data: bytes, generation: int, key: Record, db: int, style: int, release: Release, *, is_empty: bool
) -> tuple[bytes, int]:
    """Return the bytes of the stream *key* after its entries in *data*, and the number of strings that are not text.

    Raises EncodeError, or one of `elements.DAMAGE`.
    """
    texts = _Texts()
    value = StreamValue([], *stream_tail(generation, data, 0))
    if style == JSON:
        rest = _json(stream_document(value, texts.of))
        return b"]," + rest[1:].encode() + b"}\n", texts.marked
    commands = list(_stream_commands(key.key, value, release, is_empty=is_empty))
    if key.expire_at_ms >= 0:
        commands.append(command_of(b"PEXPIREAT", key.key, b"%d" % key.expire_at_ms))
    return b"".join(commands), texts.marked


def _document(key: Record, db: int, texts: _Texts) -> dict[str, Any]:
    result: dict[str, Any] = {"db": db, "key": texts.of(key.key), "type": key.type}
    for name, value in (("expire_at_ms", key.expire_at_ms), ("idle_s", key.idle_s), ("freq", key.freq)):
        if value >= 0:
            result[name] = value
    return {**result, "value": json_value(key.value, texts)}


def json_value(value: object, texts: _Texts) -> Any:
    """A decoded value as JSON has it."""
    if isinstance(value, StreamValue):
        return {
            "entries": [_entry(entry.id, entry.words, texts) for entry in value.entries],
            **stream_document(value, texts.of),
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


def _entry(id_: StreamId, words: tuple[bytes, ...], texts: _Texts) -> dict[str, Any]:
    """An entry; its fields are pairs, since one may come twice."""
    result = [texts.of(word) for word in words]
    return {"id": id_text(id_), "fields": [list(pair) for pair in zip(result[::2], result[1::2], strict=True)]}


def command_of(*words: bytes) -> bytes:
    """Return a command as clients send it."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def _commands(key: Record, release: Release) -> Iterator[bytes]:
    """The commands that make *key*."""
    if isinstance(key.value, StreamValue):
        for entry in key.value.entries:
            yield command_of(b"XADD", key.key, id_text(entry.id).encode(), *entry.words)
        yield from _stream_commands(key.key, key.value, release, is_empty=not key.value.entries)
    elif isinstance(key.value, ModuleValue):
        payload = bytes((_MODULE_2,)) + key.value.data + _PAYLOAD_VERSION.to_bytes(2, "little")
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
    for item in elements:
        if isinstance(item, Field):
            yield command_of(_MAKES[key.type], key.key, item.name, item.value)
            if item.expire_at_ms >= 0:
                if not release.has_field_expiry:
                    raise EncodeError(f"{release.name} has no fields that expire")
                yield command_of(b"HPEXPIREAT", key.key, b"%d" % item.expire_at_ms, b"FIELDS", b"1", item.name)
        elif isinstance(item, tuple):
            yield command_of(_MAKES[key.type], key.key, repr(item[1]).encode(), item[0])
        else:
            yield command_of(_MAKES[key.type], key.key, item)


def _stream_commands(key: bytes, value: StreamValue, release: Release, *, is_empty: bool) -> Iterator[bytes]:
    """Yield the commands that complete a stream after its entries (`rewriteStreamObject`)."""
    if is_empty:  # an empty stream is created by an XADD that trims its own entry
        yield command_of(b"XADD", key, b"MAXLEN", b"0", id_text(max(value.last_id, (0, 1))).encode(), b"x", b"y")
    counts = [b"ENTRIESADDED", b"%d" % value.added, b"MAXDELETEDID", id_text(value.deleted_id).encode()]
    yield command_of(b"XSETID", key, id_text(value.last_id).encode(), *(counts if release.has_stream_counts else []))
    for group in value.groups:
        read = [b"ENTRIESREAD", b"%d" % group.read] if release.has_stream_counts else []
        yield command_of(b"XGROUP", b"CREATE", key, group.name, id_text(group.last_id).encode(), *read)
        pending = {item.id: item for item in group.pending}
        for consumer in group.consumers:
            if release.has_empty_consumers:
                yield command_of(b"XGROUP", b"CREATECONSUMER", key, group.name, consumer.name)
            for id_ in consumer.pending:
                item = pending.get(id_)
                if item is None:
                    raise EncodeError("an entry waits for a consumer, but not in its group")
                yield command_of(
                    b"XCLAIM", key, group.name, consumer.name, b"0", id_text(id_).encode(), b"TIME", b"%d" % item.delivered_at_ms,
                    b"RETRYCOUNT", b"%d" % item.deliveries, b"JUSTID", b"FORCE",
                )  # fmt: skip


BUFFER_BYTES = 1 << 20
"""Bytes of a piece; one element that takes more has a larger one."""
_SCRATCH_BYTES = 1 << 16


class ValueWriter:
    """Writes keys of the file that *head* begins in *style* (`state.JSON` or ``RESP``), commands for a server of *release*.

    *source* names the file in errors.  With *permissive* a value that cannot be read, or that the server cannot hold, is left out:
    `left_out` counts why; one that is larger than a piece is therefore walked once before any of it is given away.  Pieces have up to
    *buffer_bytes*, more only for one element that takes more.
    """

    def __init__(
        self,
        head: RdbHead,
        style: int,
        *,
        source: str,
        release: Release = NEWEST,
        permissive: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.keys = 0
        self.left_out: Counter[str] = Counter()
        self._head = head
        self._style = style
        self._source = source
        self._release = release
        self._permissive = permissive
        self._grammar = grammar_array(head.dialect, head.version, None)
        self._out: NDArray[np.uint8] = np.empty(buffer_bytes, np.uint8)
        self._scratch: NDArray[np.uint8] = np.empty(_SCRATCH_BYTES, np.uint8)
        self._state: NDArray[np.int64] = np.zeros(at.STATE_LENGTH, np.int64)
        self._state[at.FORMAT] = style
        self._state[at.DB] = -1
        self._state[at.FIELDS_STAY] = style == at.RESP and not release.has_field_expiry

    @property
    def not_text(self) -> int:
        """Strings that are no text and were written as Base64."""
        return int(self._state[at.NOT_TEXT])

    def pieces(self, data: NDArray[np.uint8], batch: KeyBatch, rows: NDArray[np.int64]) -> Iterator[memoryview]:
        """Yield the output for the keys *rows* of *batch*; *data* are the file's bytes.

        A piece is valid until the next one.

        Raises DecodeError with the offset of an invalid value, EncodeError for one that the server cannot hold.
        """
        st = self._state
        columns = Keys(*(getattr(batch, name) for name in Keys._fields))
        st[at.ROW] = st[at.OUT] = 0
        st[at.PHASE], st[at.BEGUN] = at.P_BEGIN, -1
        while True:
            answer = write_values(data, columns, rows, self._grammar, st, self._out, self._scratch)
            if answer == at.SCRATCH:
                self._scratch = np.empty(int(st[at.WANT]), np.uint8)
            elif answer in (at.DONE, at.FULL):
                is_begun = st[at.PHASE] != at.P_BEGIN and st[at.BEGUN] >= 0
                if answer == at.FULL and self._permissive and is_begun:
                    yield from self._set_apart(data, batch, int(rows[st[at.ROW]]))
                else:
                    yield from self._flush()
                if answer == at.DONE:
                    break
                if st[at.WANT] > len(self._out):
                    self._out = np.empty(int(st[at.WANT]), np.uint8)
            elif answer == at.RARE:
                yield from self._flush()
                yield from self._rare(data, batch, int(rows[st[at.ROW]]))
                st[at.ROW] += 1
            elif answer == at.TAIL:
                yield from self._tail(data, batch, int(rows[st[at.ROW]]))
                st[at.PHASE] = at.P_BEGIN
                st[at.ROW] += 1
            else:
                self._leave_out(batch, int(rows[st[at.ROW]]), answer)
        self.keys += len(rows)

    def _set_apart(self, data: NDArray[np.uint8], batch: KeyBatch, row: int) -> Iterator[memoryview]:
        """Let the key at hand begin a piece; one that fills a piece is walked to its end before any of it is given away."""
        begun = int(self._state[at.BEGUN])
        if begun:
            yield self._out.data[:begun]
            self._forget(kept=0)
            return
        trial = ValueWriter(self._head, self._style, source=self._source, release=self._release)
        try:
            for _ in trial.pieces(data, batch, np.array([row])):
                pass
        except (DecodeError, EncodeError) as error:
            self._refuse(batch, row, error.__cause__ if isinstance(error.__cause__, EncodeError) else None)
            self._forget(kept=0)
            self._state[at.ROW] += 1
        else:
            yield from self._flush()

    def _forget(self, kept: int) -> None:
        """Go back to the first *kept* bytes of the piece, before the key at hand."""
        st = self._state
        st[at.OUT], st[at.BEGUN], st[at.PHASE] = kept, -1, at.P_BEGIN
        st[at.NOT_TEXT] = st[at.BEGUN_NOT_TEXT]
        st[at.DB] = -1  # its SELECT may be among the removed output

    def _flush(self) -> Iterator[memoryview]:
        st = self._state
        if st[at.OUT]:
            yield self._out.data[: int(st[at.OUT])]
        st[at.OUT], st[at.BEGUN] = 0, -1

    def _rare(self, data: NDArray[np.uint8], batch: KeyBatch, row: int) -> Iterator[memoryview]:
        begin, size = int(batch.offset[row]), int(batch.serialized_bytes[row])
        record = data[begin : begin + size].tobytes()
        try:
            key = decode_record(record, self._head.dialect, source=self._source, offset=begin)
            db = int(batch.db[row])
            piece, not_text = rare_bytes(key, db, self._style, self._release, selects=db != self._state[at.DB])
        except EncodeError as error:
            self._refuse(batch, row, error)
            return
        except DecodeError:
            self._refuse(batch, row, None)
            return
        self._state[at.DB] = db
        self._state[at.NOT_TEXT] += not_text
        yield memoryview(piece)

    def _tail(self, data: NDArray[np.uint8], batch: KeyBatch, row: int) -> Iterator[memoryview]:
        """Write what stands behind the entries of a stream."""
        st = self._state
        begin, end = int(st[at.POS]), int(batch.offset[row] + batch.serialized_bytes[row])
        generation = self._head.grammar.types[int(st[at.KIND])].generation
        try:
            piece, not_text = stream_tail_bytes(
                data[begin:end].tobytes(),
                generation,
                Record(batch.key(row), KEY_TYPES[batch.type[row]], None, int(batch.expire_at_ms[row])),
                int(batch.db[row]),
                self._style,
                self._release,
                is_empty=not st[at.DONE_ELEMENTS],
            )
        except EncodeError as error:
            self._take_back(batch, row, error)
            return
        except DAMAGE:
            self._take_back(batch, row, None)
            return
        st[at.NOT_TEXT] += not_text
        if st[at.OUT] + len(piece) > len(self._out):
            yield from self._flush()
            if len(piece) > len(self._out):
                yield memoryview(piece)
                return
        put = int(st[at.OUT])
        self._out[put : put + len(piece)] = np.frombuffer(piece, np.uint8)
        st[at.OUT] += len(piece)

    def _leave_out(self, batch: KeyBatch, row: int, answer: int) -> None:
        """Remove the output of a key and continue with the next, or raise its error."""
        no_expiry = EncodeError(f"{self._release.name} has no fields that expire")
        self._take_back(batch, row, no_expiry if answer == at.REFUSED else None)
        self._state[at.ROW] += 1

    def _take_back(self, batch: KeyBatch, row: int, refusal: EncodeError | None) -> None:
        begun = int(self._state[at.BEGUN])
        self._refuse(batch, row, refusal, is_gone=begun < 0)
        self._forget(kept=begun)

    def _refuse(self, batch: KeyBatch, row: int, refusal: EncodeError | None, *, is_gone: bool = False) -> None:
        """Count the key, or raise: *refusal*, or that its value cannot be read; also where the beginning of the key *is_gone* out already."""
        offset = int(batch.offset[row])
        reason = str(refusal) if refusal else "its value is not what its header says"
        if self._permissive and not is_gone:
            self.left_out[f"{KEY_TYPES[batch.type[row]]}: {reason}"] += 1
            self.keys -= 1
        elif refusal:
            raise EncodeError(f"{self._source}: offset {offset}: {reason}") from refusal
        else:
            raise DecodeError(reason, offset=offset, source=self._source)
