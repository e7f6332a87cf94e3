"""Export chosen keys of a dump as JSON or as commands for a server release (`cluster_core.rdb.value_writing`)."""

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
from cluster_core.rdb.grammar import ARRAY, KEY_TYPES, MODULE
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.skim_state import grammar_array
from cluster_core.rdb.strings import length_at, string_at
from cluster_core.rdb.texts import BASE64_MARK
from cluster_core.rdb.value_state import JSON, RESP
from cluster_core.rdb.value_writing import KeyColumns, write_values
from cluster_core.rdb.walk_records import find_value
from cluster_core.rdb.writer import RdbWriter, target_of_dump

_NAME = re.compile(r"(redis|valkey)-(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?\Z")
_FIRST = {"redis": (5, 0), "valkey": (7, 2)}


class Release(NamedTuple):
    """A server family and release, made by `release_of`."""

    family: str
    number: tuple[int, int]

    @property
    def name(self) -> str:
        """Return the name of the release."""
        return f"{self.family}-{self.number[0]}.{self.number[1]}"

    @property
    def has_field_expiry(self) -> bool:
        """Return whether hash fields can expire (HPEXPIREAT)."""
        return self.number >= ((7, 4) if self.family == "redis" else (9, 0))

    @property
    def has_empty_consumers(self) -> bool:
        """Return whether XGROUP CREATECONSUMER exists, for consumers without entries."""
        return self.number >= (6, 2)

    @property
    def has_stream_counts(self) -> bool:
        """Return whether a stream's counts and largest deleted id, and a group's read entries, can be set."""
        return self.number >= (7, 0)

    @property
    def has_functions(self) -> bool:
        """Return whether there are function libraries (FUNCTION LOAD)."""
        return self.number >= (7, 0)


NEWEST = Release("redis", (255, 255))
"""A server that supports all commands."""


def release_of(name: str) -> Release:
    """Parse ``redis-7.0`` or ``valkey-9.0``; ConditionError for an unknown release."""
    result = _NAME.match(name)
    if result is None:
        raise ConditionError(f"{name!r} is not a release; write redis-7.0 or valkey-9.0", 0)
    family, number = result[1], (int(result[2]), int(result[3]))
    if number < _FIRST[family]:
        first = ".".join(map(str, _FIRST[family]))
        raise ConditionError(f"commands are written for {family} {first} and later", result.start(2))
    return Release(family, number)


MODULE_2 = 7
"""RDB type of a module's value."""
_PAYLOAD_VERSION = 9
"""RDB version in the payload of RESTORE: the oldest with all of its types."""
_NOT_READ = (1 << 64) - 1
"""Entries read by a group, if the server does not know the count (``SCG_INVALID_ENTRIES_READ``)."""
_DAMAGE = (LookupError, ValueError, OverflowError)
"""Exceptions of decoding truncated or invalid bytes."""

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Texts:
    """Formats strings as text; counts the *marked* ones in Base64."""

    def __init__(self) -> None:
        self.marked = 0

    def of(self, data: bytes) -> str:
        """Return *data* as text, or as its Base64 with the mark."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = None
        if text is not None and not data.startswith(BASE64_MARK):
            return text
        self.marked += 1
        return (BASE64_MARK + base64.b64encode(data)).decode()


class _Pending(NamedTuple):
    """A delivered, unacknowledged entry."""

    id: str
    delivered_at_ms: int
    deliveries: int


class _Consumer(NamedTuple):
    """A consumer of a group: when it was last seen and last got an entry, and the ids of its pending entries."""

    name: bytes
    seen_at_ms: int
    active_at_ms: int
    pending: list[str]


class _Group(NamedTuple):
    """A consumer group: last delivered id, entries read (None: unknown), pending entries, consumers."""

    name: bytes
    last_id: str
    read: int | None
    pending: list[_Pending]
    consumers: list[_Consumer]


class _StreamTail(NamedTuple):
    """A stream without its entries: its last id, the entries ever added, the largest id deleted, its groups."""

    last_id: tuple[int, int]
    added: int
    deleted_id: str
    groups: list[_Group]


class _TailReader:
    """Reads the part of a stream after its entries; raises one of `_DAMAGE` for invalid bytes.

    Before the third *generation* a consumer's active time is its seen time; in the first, a group's read entries are unknown.
    """

    def __init__(self, data: bytes, generation: int) -> None:
        self._data = data
        self._at = 0
        self._generation = generation

    def read(self) -> _StreamTail:
        """Return the stream without its entries."""
        added, *last_id = (self._length() for _ in range(3))
        deleted_id = "0-0"
        if self._generation > 1:
            _, _, *deleted, added = (self._length() for _ in range(5))  # behind the first id
            deleted_id = _id_text(*deleted)
        groups = [self._group() for _ in range(self._length())]
        return _StreamTail((last_id[0], last_id[1]), added, deleted_id, groups)

    def _group(self) -> _Group:
        name = self._string()
        last_id = _id_text(self._length(), self._length())
        read = self._length() if self._generation > 1 else _NOT_READ
        pending = [_Pending(self._raw_id(), self._time(), self._length()) for _ in range(self._length())]
        consumers = [self._consumer() for _ in range(self._length())]
        if self._generation >= 5:  # returned entries wait for any consumer
            handed_back = self._length()
            self._bytes(16 * handed_back)
        return _Group(name, last_id, None if read == _NOT_READ else read, pending, consumers)

    def _consumer(self) -> _Consumer:
        name, seen = self._string(), self._time()
        active = self._time() if self._generation >= 3 else seen
        return _Consumer(name, seen, active, [self._raw_id() for _ in range(self._length())])

    def _length(self) -> int:
        value, self._at = length_at(self._data, self._at)
        return value

    def _string(self) -> bytes:
        value, self._at = string_at(self._data, self._at)
        return value

    def _bytes(self, count: int) -> bytes:
        begin, self._at = self._at, self._at + count
        if self._at > len(self._data):
            raise IndexError
        return self._data[begin : self._at]

    def _time(self) -> int:
        return int.from_bytes(self._bytes(8), "little", signed=True)

    def _raw_id(self) -> str:
        return _id_text(int.from_bytes(self._bytes(8), "big"), int.from_bytes(self._bytes(8), "big"))


def _id_text(ms: int, seq: int) -> str:
    """Return an id as servers write it."""
    return f"{ms}-{seq}"


def _stream_document(value: _StreamTail, texts: _Texts) -> dict[str, Any]:
    """Return all of a stream but its entries by name."""
    groups = [
        {
            "name": texts.of(group.name),
            "last_id": group.last_id,
            "entries_read": group.read,
            "pending": [item._asdict() for item in group.pending],
            "consumers": [
                {
                    "name": texts.of(item.name),
                    "seen_at_ms": item.seen_at_ms,
                    "active_at_ms": item.active_at_ms,
                    "pending": item.pending,
                }
                for item in group.consumers
            ],
        }
        for group in value.groups
    ]
    last_id = _id_text(*value.last_id)
    return {"last_id": last_id, "entries_added": value.added, "max_deleted_id": value.deleted_id, "groups": groups}


def command_of(*arguments: bytes | str | int) -> bytes:
    """Return a command as clients send it."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in arguments]
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


def _stream_commands(key: bytes, value: _StreamTail, release: Release, *, is_empty: bool) -> Iterator[bytes]:
    """Yield the commands that complete a stream after its entries (`rewriteStreamObject`)."""
    last_id = _id_text(*value.last_id)
    if is_empty:  # an empty stream is created by an XADD that trims its own entry
        yield command_of("XADD", key, "MAXLEN", 0, _id_text(*max(value.last_id, (0, 1))), "x", "y")
    counts: list[str | int] = ["ENTRIESADDED", value.added, "MAXDELETEDID", value.deleted_id]
    yield command_of("XSETID", key, last_id, *(counts if release.has_stream_counts else []))
    for group in value.groups:
        read: list[str | int] = ["ENTRIESREAD", -1 if group.read is None else group.read]
        yield command_of(
            "XGROUP", "CREATE", key, group.name, group.last_id, *(read if release.has_stream_counts else [])
        )
        pending = {item.id: item for item in group.pending}
        for consumer in group.consumers:
            if release.has_empty_consumers:
                yield command_of("XGROUP", "CREATECONSUMER", key, group.name, consumer.name)
            for id_ in consumer.pending:
                item = pending.get(id_)
                if item is None:
                    raise EncodeError("an entry waits for a consumer, but not in its group")
                yield command_of(
                    "XCLAIM", key, group.name, consumer.name, 0, id_, "TIME", item.delivered_at_ms, "RETRYCOUNT", item.deliveries, "JUSTID", "FORCE",
                )  # fmt: skip


BUFFER_BYTES = 1 << 20
"""Bytes of a piece, unless one element is larger."""
_SCRATCH_BYTES = 1 << 16


class ValueWriter:
    """Writes keys of the file with *head* in *style* (`state.JSON` or ``RESP``), as commands for a server of *release*.

    *source* names the file in errors. *permissive*: omit unreadable or unsupported values and count them in `left_out`; a
    value larger than a piece is then checked before output. Pieces have up to *buffer_bytes*, more for one large element.
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
        """Return the number of strings written as Base64."""
        return int(self._state[at.NOT_TEXT])

    def pieces(self, data: NDArray[np.uint8], batch: KeyBatch, rows: NDArray[np.int64]) -> Iterator[memoryview]:
        """Yield the output for the keys *rows* of *batch*, with the file's bytes *data*; a piece is valid until the next.

        Raises DecodeError with the offset of an invalid value, EncodeError for one that the server does not support.
        """
        st = self._state
        columns = KeyColumns(*(getattr(batch, name) for name in KeyColumns._fields))
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
        """Start a piece with the current key; if it fills the piece, check its value to the end before output."""
        start = int(self._state[at.BEGUN])
        if start:
            yield self._out.data[:start]
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
        """Truncate the piece to its first *kept* bytes, before the current key."""
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
        """Write the serialized value of a module; refuse a hash by template."""
        if batch.type[row] != MODULE:
            self._refuse(batch, row, None)
            return
        begin, db, expire = int(batch.offset[row]), int(batch.db[row]), int(batch.expire_at_ms[row])
        end = begin + int(batch.serialized_bytes[row])
        _, place = find_value(data, begin, end, self._grammar)
        key, value, texts = batch.key(row), data[place:end].tobytes(), _Texts()
        if self._style == JSON:
            facts = (("expire_at_ms", expire), ("idle_s", int(batch.idle_s[row])), ("freq", int(batch.freq[row])))
            known = {name: number for name, number in facts if number >= 0}
            shown = {"payload": base64.b64encode(value).decode()}
            line = {"db": db, "key": texts.of(key), "type": KEY_TYPES[MODULE], **known, "value": shown}
            piece = _json(line).encode() + b"\n"
        else:
            payload = bytes((MODULE_2,)) + value + _PAYLOAD_VERSION.to_bytes(2, "little")
            piece = command_of("SELECT", db) if db != self._state[at.DB] else b""
            piece += command_of("RESTORE", key, 0, payload + crc64(payload).to_bytes(8, "little"))
            piece += command_of("PEXPIREAT", key, expire) if expire >= 0 else b""
        self._state[at.DB] = db
        self._state[at.NOT_TEXT] += texts.marked
        yield memoryview(piece)

    def _tail(self, data: NDArray[np.uint8], batch: KeyBatch, row: int) -> Iterator[memoryview]:
        """Write the part of a stream after its entries."""
        st = self._state
        begin, end = int(st[at.POS]), int(batch.offset[row] + batch.serialized_bytes[row])
        generation = self._head.grammar.types[int(st[at.KIND])].generation
        texts, key, expire = _Texts(), batch.key(row), int(batch.expire_at_ms[row])
        try:
            value = _TailReader(data[begin:end].tobytes(), generation).read()
            if self._style == JSON:
                piece = b"]," + _json(_stream_document(value, texts))[1:].encode() + b"}\n"
            else:
                piece = b"".join(_stream_commands(key, value, self._release, is_empty=not st[at.DONE_ELEMENTS]))
                piece += command_of("PEXPIREAT", key, expire) if expire >= 0 else b""
        except EncodeError as error:
            self._take_back(batch, row, error)
            return
        except _DAMAGE:
            self._take_back(batch, row, None)
            return
        st[at.NOT_TEXT] += texts.marked
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
        refusal = EncodeError(f"{self._release.name} has no fields that expire")
        if batch.type[row] == ARRAY:
            refusal = EncodeError("no command is known here that makes an array")
        self._take_back(batch, row, refusal if answer == at.REFUSED else None)
        self._state[at.ROW] += 1

    def _take_back(self, batch: KeyBatch, row: int, refusal: EncodeError | None) -> None:
        start = int(self._state[at.BEGUN])
        self._refuse(batch, row, refusal, is_gone=start < 0)
        self._forget(kept=start)

    def _refuse(self, batch: KeyBatch, row: int, refusal: EncodeError | None, *, is_gone: bool = False) -> None:
        """Count the key as left out, or raise *refusal* or a decoding error; raise also if part of the key was output (*is_gone*)."""
        offset = int(batch.offset[row])
        reason = str(refusal) if refusal else "its value does not match its header"
        if self._permissive and not is_gone:
            self.left_out[f"{KEY_TYPES[batch.type[row]]}: {reason}"] += 1
            self.keys -= 1
        elif refusal:
            raise EncodeError(f"{self._source}: offset {offset}: {reason}") from refusal
        else:
            raise DecodeError(reason, offset=offset, source=self._source)


PAYLOAD_KEY = b"key"


def payload_commands(payload: bytes) -> Iterator[memoryview]:
    """Yield the commands that create `PAYLOAD_KEY` from a DUMP payload; DecodeError, EncodeError."""
    writer = RdbWriter(target_of_dump(payload), checksum=False)
    dump = writer.head() + writer.database(0) + writer.dumped(PAYLOAD_KEY, payload, -1) + writer.end()
    data = np.frombuffer(bytearray(dump), np.uint8)  # compiled code needs a writable array
    skimmer = RdbSkimmer("payload", check_crc=False)
    while not skimmer.done:
        skimmer.feed(lambda at, count: data[at : at + count].data)
        for batch in skimmer.batches():
            yield from ValueWriter(skimmer.head, RESP, source="payload").pieces(data, batch, np.arange(len(batch)))
