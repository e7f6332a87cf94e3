"""The plain RDB skim: one row a key, with no element ever built.

How this works.  `PlainSkim` is fed pieces of a file and appends rows to `rows`.  A generator decodes *atoms* (a
record's attributes, type and key; a length; the prefix of a string; the head of a packed value); each must lie
whole in the buffer, and one that does not is begun anew when more bytes have come.  The bytes of a string are
not looked at but passed over, far beyond the buffer if need be.  Compressed strings are followed by their
control bytes, to see that they give the length that they claim.

The compiled twin is `cluster_core.rdb.walk`; a property test holds the two equal, errors and offsets included.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import NamedTuple

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.memory.model import MODEL, UNMEASURED, MemorySettings, model_of
from cluster_core.rdb import faults
from cluster_core.rdb.grammar import (
    B_ATTRIBUTE,
    B_INNER_ATTRIBUTE,
    B_KEY_META,
    B_TYPE,
    B_UNREAD_TYPE,
    EMBSTR,
    ENCODINGS,
    INT,
    KEY_BYTES_MAX,
    KEY_TYPES,
    OP_EOF,
    OP_EXPIRE_MS,
    OP_EXPIRE_S,
    OP_FREQ,
    RAW,
)
from cluster_core.rdb.head import MAGIC_BYTES, FileFacts, RdbHead, SplitError, embstr_bytes_max, read_magic
from cluster_core.rdb.strings import INT_STRING, LZF_STRING, RAW_STRING, Fault, length_at, string_at, string_prefix
from cluster_core.slots.key_slot import hash_tag
from tests.reference.rdb.buffer import Work
from tests.reference.rdb.meter import KeyMeter
from tests.reference.rdb.plain_model import PlainModel
from tests.reference.rdb.records import OtherRecords

IDLE_SECONDS_MAX = (1 << 40) - 1
ATTRIBUTE_BYTES_MAX = 64
_HYPERLOGLOG = b"HYLL"


class KeyRow(NamedTuple):
    """One key: *hash_tag* is None when all of it is hashed; -1 stands for what the file does not say or nobody measured."""

    db: int
    key: bytes
    slot: int
    hash_tag: bytes | None
    type: str
    encoding: str
    elements: int
    serialized_bytes: int
    expire_at_ms: int
    idle_s: int
    freq: int
    offset: int
    memory_bytes: int = -1
    estimate: int = MODEL


class PlainSkim(OtherRecords):
    """Skims one RDB file, or the range [*start*, *end*) of one.

    `feed` pieces of the file, b"" at its end, and take what has come to `rows`.  `feed` raises DecodeError,
    TruncatedError or SplitError with the offset in the file; the rows before it are in `rows` then.
    """

    def __init__(
        self,
        source: str,
        *,
        start: int = 0,
        end: int | None = None,
        head: RdbHead | None = None,
        check_crc: bool = True,
        memory: MemorySettings | None = None,
    ) -> None:
        facts = FileFacts(head, source=source, start=start, end=end)
        super().__init__(source, start, end, facts, check_crc)
        self.rows: list[KeyRow] = []
        self.done = False
        self.trailing_bytes = 0
        self._mismatch: DecodeError | None = None
        self._memory = memory
        if memory is not None and head is not None:
            self._set_meter(memory)
        self._work = self._file()
        self._advance(None)

    def feed(self, piece: bytes) -> None:
        """Decode the next *piece* of the file; b"" says that the file has ended."""
        if self.done:
            self.trailing_bytes += len(piece)
        else:
            self._advance(piece)

    def _advance(self, piece: bytes | None) -> None:
        try:
            if piece is None:
                next(self._work)
            else:
                self._work.send(piece)
        except StopIteration:
            self.done = True
            self.trailing_bytes += len(self._buffer) - self._pos
            self._buffer = self._buffer[: self._pos]
            if self._mismatch is not None:
                raise self._mismatch from None
        except Fault as fault:
            if fault.code == faults.TEMPLATE and self._start:
                reason = "a hash by template lies in a range: templates are at the file's beginning"
                raise SplitError(reason, offset=self._base + fault.at, source=self._source) from None
            reason = faults.describe(fault.code, fault.a, fault.b)
            raise DecodeError(reason, offset=self._base + fault.at, source=self._source) from None

    def _file(self) -> Work[None]:
        """Decode the whole file or range."""
        pos = 0
        if not self._start:
            try:
                pos = yield from self._more(0, MAGIC_BYTES)
            except TruncatedError:
                read_magic(self._buffer, self._source)
                raise
            self._facts.head = read_magic(self._buffer[:MAGIC_BYTES], self._source)
            if self._memory is not None:
                self._set_meter(self._memory)
            pos = MAGIC_BYTES
        pos = yield from self._records(pos)
        self._fold_crc(pos)
        if self._end is None and self.head.version >= 5:
            pos = yield from self._read_stored_crc(pos)
        self._pos = pos

    def _read_stored_crc(self, pos: int) -> Work[int]:
        """Read the eight bytes after the end mark, and compare."""
        try:
            pos = yield from self._more(pos, 8)
        except TruncatedError as error:
            raise TruncatedError("the file ends within its CRC", offset=error.offset, source=self._source) from None
        self.stored_crc = int.from_bytes(self._buffer[pos : pos + 8], "little")
        self._crc_at = pos + 8
        if self._check_crc and not self._start and self.stored_crc and self.stored_crc != self.crc:
            reason = f"CRC64 is {self.crc:016x}, but the file says {self.stored_crc:016x}"
            self._mismatch = DecodeError(reason, offset=self._base + pos, source=self._source)
        return pos + 8

    def _refuse_end(self, pos: int) -> None:
        """Raise SplitError if the end mark at *pos* lies within a range that is not the last."""
        if self._end is not None:
            reason = "the file's end lies within a range that is not the last"
            raise SplitError(reason, offset=self._base + pos, source=self._source)

    def _set_meter(self, memory: MemorySettings) -> None:
        model = model_of(self.head, memory)
        self._meter = None if model is None else KeyMeter(PlainModel(*model))

    def _size(self, op: int, encoding: int, elements: int, key_bytes: int, expires: bool) -> tuple[int, int]:
        """Return the size in memory of the key at hand, `UNMEASURED` if no model knows its layout, and whose model it is."""
        if self._meter is None:
            return UNMEASURED, MODEL
        model = self._meter.model
        if op == 0 and "STRING" in model.layout.types:
            return model.string_bytes(key_bytes, expires, encoding, elements), model.estimate
        return self._meter.finish(encoding, elements, key_bytes, expires), model.estimate

    def _records(self, pos: int) -> Work[int]:
        """Decode records up to the end mark, or to the range's end; return the position after it."""
        buffer, rows = self._buffer, self.rows
        rule, grammar = self._embstr_rule, self.head.grammar
        measured = self._memory is not None
        memory, estimate = -1, MODEL
        before: tuple[int, int, int, int] | None = None  # offset and attributes of a record whose metadata was passed
        while True:
            if self._base + pos == self._end and before is None:
                return pos
            begin = pos
            try:
                op = buffer[pos]
                expire = idle = freq = -1
                if before is not None:
                    _, expire, idle, freq = before
                elif grammar.begins[op] == B_ATTRIBUTE:
                    pos, expire, idle, freq = _attributes(buffer, pos, grammar.begins)
                    op = buffer[pos]
                begins = grammar.begins[op]
                if begins == B_KEY_META and before is None:
                    before = self._base + begin, expire, idle, freq
                    pos = yield from self._key_meta(pos + 1)
                    buffer = self._buffer
                    continue
                if begins not in (B_TYPE, B_UNREAD_TYPE):
                    if pos != begin or before is not None:
                        raise Fault(faults.ATTRIBUTE, pos, op)
                    pos = yield from self._other_record(op, pos)
                    buffer = self._buffer
                    rule = self._embstr_rule  # an aux field may have named the writer
                    if self._memory is not None:
                        self._set_meter(self._memory)
                    if op == OP_EOF:
                        self._refuse_end(pos - 1)
                        return pos
                    continue
                if begins == B_UNREAD_TYPE:
                    raise Fault(faults.UNREAD_TYPE, pos, op)
                key, pos = _key(buffer, pos + 1)
                if op == 0:
                    limit = 44 if rule == 2 else embstr_bytes_max(rule, len(key), expire >= 0)
                    start, body, raw, form = string_prefix(buffer, pos)
                    encoding, elements = _string_facts(buffer, start, body, raw, form, limit, idle < 0 > freq)
            except IndexError:
                pos = yield from self._more(begin, len(buffer) - begin + 1)
                buffer = self._buffer
                continue
            base = self._base + begin
            if before is not None:
                base, before = before[0], None
            if op != 0:
                elements, encoding, pos = yield from self._value(op, pos)
                buffer = self._buffer
            elif form == LZF_STRING or start + body > len(buffer):
                pos = yield from self._pass_string(pos, start, body, raw, form)
                buffer = self._buffer
            else:
                pos = start + body
            tag = hash_tag(key)
            if measured:
                memory, estimate = self._size(op, encoding, elements, len(key), expire >= 0)
            rows.append(
                KeyRow(
                    self._facts.db,
                    key,
                    crc_hqx(key if tag is None else tag, 0) & 16383,
                    tag,
                    KEY_TYPES[grammar.types[op].key_type],
                    ENCODINGS[encoding],
                    elements,
                    self._base + pos - base,
                    expire,
                    idle,
                    freq,
                    base,
                    memory,
                    estimate,
                )
            )


def _attributes(buffer: bytes, pos: int, begins: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return (position of the type, expiry in ms, idle seconds, frequency) of the record that begins at *pos*."""
    begin = pos
    expire = idle = freq = -1
    while begins[op := buffer[pos]] in (B_ATTRIBUTE, B_INNER_ATTRIBUTE):
        at = pos + 1
        if op in (OP_EXPIRE_MS, OP_EXPIRE_S):
            stop = at + (8 if op == OP_EXPIRE_MS else 4)
            if stop >= len(buffer):
                raise IndexError
            expire = int.from_bytes(buffer[at:stop], "little", signed=True) * (1 if op == OP_EXPIRE_MS else 1000)
            if expire < 0:
                raise Fault(faults.EXPIRY, pos, expire)
        elif begins[op] == B_INNER_ATTRIBUTE:
            _, stop = length_at(buffer, at)
        elif op == OP_FREQ:
            freq, stop = buffer[at], at + 1
        else:
            idle, stop = length_at(buffer, at)
            if stop >= len(buffer):
                raise IndexError
            if idle > IDLE_SECONDS_MAX:
                raise Fault(faults.IDLE, pos, idle)
        if stop >= len(buffer):
            raise IndexError
        pos = stop
        if pos - begin > ATTRIBUTE_BYTES_MAX:
            raise Fault(faults.ATTRIBUTE, pos, op)
    return pos, expire, idle, freq


def _key(buffer: bytes, at: int) -> tuple[bytes, int]:
    """Return a key's name and the position after it, where at least one byte more must be."""
    start, body, raw, form = string_prefix(buffer, at)
    if body > KEY_BYTES_MAX or raw > KEY_BYTES_MAX:
        raise Fault(faults.KEY_BYTES, at, max(body, raw))
    stop = start + body
    if stop >= len(buffer):
        raise IndexError
    return (buffer[start:stop] if form == RAW_STRING else string_at(buffer, at)), stop


def _string_facts(
    buffer: bytes, start: int, body: int, raw: int, form: int, embstr_max: int, is_new: bool
) -> tuple[int, int]:
    """Return (encoding, length) of the string whose body is at *start*.

    PFADD makes a HyperLogLog in place, so that it is raw however short, until a server loads it from a file;
    the file does not say which.  *is_new*, no idle time and no frequency, is taken for the sign of a server
    that has not loaded its keys.
    """
    if form == INT_STRING:
        if start + body > len(buffer):
            raise IndexError
        return INT, len(str(int.from_bytes(buffer[start : start + body], "little", signed=True)))
    encoding = EMBSTR if raw <= embstr_max else RAW
    if form == RAW_STRING and 0 < raw <= 20:
        if start + body > len(buffer):
            raise IndexError
        return (INT if _is_integer(buffer[start : start + body]) else encoding), raw
    if encoding == EMBSTR and is_new:
        if min(start + body, start + 5) > len(buffer):
            raise IndexError
        at = start + (form == LZF_STRING)
        if body >= 5 and buffer[at : at + 4] == _HYPERLOGLOG:
            encoding = RAW
    return encoding, raw


def _is_integer(text: bytes) -> bool:
    """Whether *text* is a 64-bit integer written as a server writes it (`string2ll`)."""
    digits = text[1:] if text[0] == 45 else text
    if not digits.isdigit() or (digits[0] == 48 and len(text) > 1):
        return False
    return -(1 << 63) <= int(text) < 1 << 63
