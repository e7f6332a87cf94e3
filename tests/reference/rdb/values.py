"""Values that are not strings, of the plain RDB skim: how many elements, and where they end (`rdbLoadObject`)."""

from __future__ import annotations

from cluster_core.rdb import faults
from cluster_core.rdb import grammar as of
from cluster_core.rdb.grammar import ELEMENTS_MAX, LZF_WALK_BYTES_MAX
from cluster_core.rdb.strings import INT_STRING, LZF_STRING, RAW_STRING, Fault, integer_length, length_at, string_prefix
from tests.reference.rdb import packed
from tests.reference.rdb.buffer import Buffer, Work
from tests.reference.rdb.lzf import expand, expand_head, is_whole
from tests.reference.rdb.meter import KeyMeter
from tests.reference.rdb.packed_walk import Walk

_STRINGS = {of.E_ONE: 1, of.E_PAIR: 2, of.E_SCORE: 1, of.E_SCORE_TEXT: 2, of.E_EXPIRY_AFTER: 3, of.E_EXPIRY_BEFORE: 2}
"""What an element is counted as: strings, and what stands between them."""
_NO_EXPIRY = b"\xff" * 8
_LZF_HEAD_BYTES = 40  # give at least ten bytes


class Values(Buffer):
    """Decoders of one value each; all return the position after it."""

    def _value(self, kind: int, pos: int) -> Work[tuple[int, int, int]]:
        """Return (elements, encoding, position after it) of the value of type *kind* at *pos*."""
        row = self.head.grammar.types[kind]
        if self._meter is not None:
            self._meter.begin(row)
        if row.lead_bytes:
            pos = yield from self._more(pos + row.lead_bytes, 0)  # the earliest expiry of a field
        if row.layout == of.L_PACKED:
            offset = self._base + pos
            units, length, _, pos = yield from self._packed(pos, pos, row.form)
            if self._meter is not None:
                self._meter.packed(length)
            left = units - row.skipped_entries
            if left < 0 or left % row.entries:
                raise Fault(faults.PACKED_UNITS, offset - self._base, max(left, 0), row.entries)
            return left // row.entries, row.encoding, pos
        if row.layout == of.L_MODULE:
            _, _, pos = yield from self._lengths(pos, 1)
            return -1, row.encoding, (yield from self._module(pos))
        offset = self._base + pos
        count, pos = yield from self._count(pos)
        if row.layout == of.L_TEMPLATE:
            if count not in self._templates:
                raise Fault(faults.TEMPLATE, offset - self._base, count)
            fields = self._templates[count]
            return fields, row.encoding, (yield from self._elements(pos, fields, of.E_ONE))
        if row.layout == of.L_ARRAY:
            return count, row.encoding, (yield from self._array(count, pos))
        if row.layout == of.L_QUICKLIST:
            return (yield from self._quicklist(row, count, pos))
        if row.layout == of.L_STREAM:
            return (yield from self._stream(row, count, pos))
        return count, row.encoding, (yield from self._elements(pos, _STRINGS[row.element] * count, row.element))

    def _lengths(self, pos: int, count: int) -> Work[tuple[list[int], int, int]]:
        """Return (*count* lengths, position of the last, position after it)."""
        while True:
            values = []
            last = after = pos
            try:
                for _ in range(count):
                    last = after
                    value, after = length_at(self._buffer, last)
                    values.append(value)
            except IndexError:
                pos = yield from self._more(pos, len(self._buffer) - pos + 1)
            else:
                return values, last, after

    def _count(self, pos: int) -> Work[tuple[int, int]]:
        """Return (element count, position after it)."""
        (count,), at, after = yield from self._lengths(pos, 1)
        if count > ELEMENTS_MAX:
            raise Fault(faults.COUNT, at, count)
        return count, after

    def _elements(self, pos: int, left: int, mode: int) -> Work[int]:
        """Pass over *left* strings, or strings and scores."""
        while left:
            pos, left, lzf = _pass_elements(self._buffer, pos, left, mode, self._meter)
            if lzf is not None:
                pos = yield from self._pass_string(*lzf, LZF_STRING)
                pos = yield from self._more(pos + (8 if mode == of.E_SCORE else 0), 0)
                if self._meter is not None:
                    self._meter.text(lzf[3], False)
                left -= 1
            elif left:
                pos = yield from self._more(pos, max(len(self._buffer) - pos + 1, 0))
        return (yield from self._more(pos, 0))

    def _packed(self, begin: int, pos: int, form: int) -> Work[tuple[int, int, int, int]]:
        """Return (entries, bytes, compressed bytes or -1, position after it) of the packed value whose prefix is at *pos*."""
        while True:
            try:
                start, body, raw, kind = string_prefix(self._buffer, pos)
                if kind == INT_STRING:
                    raise Fault(faults.PACKED_EMPTY, pos, body)
                need = min(body, _LZF_HEAD_BYTES if kind == LZF_STRING else packed.HEAD_BYTES_MAX)
                if start + need > len(self._buffer):
                    raise IndexError
            except IndexError:
                moved = yield from self._more(begin, len(self._buffer) - begin + 1)
                pos += moved - begin
                begin = moved
            else:
                break
        head = self._buffer[start : start + need]
        if kind == LZF_STRING:
            try:
                head = expand_head(head, min(raw, packed.HEAD_BYTES_MAX))
            except ValueError:
                raise Fault(faults.LZF, pos, body, raw) from None
        count = packed.entry_count(head, raw, form, pos)
        lzf_bytes = body if kind == LZF_STRING else -1
        if count != packed.UNKNOWN:
            pos = yield from self._pass_string(pos, start, body, raw, kind)
        elif kind == LZF_STRING:
            count, pos = yield from self._walk_compressed(pos, start, body, raw, form)
        else:
            count, pos = yield from self._walk(pos, start, body, form)
        return count, raw, lzf_bytes, pos

    def _walk(self, prefix: int, start: int, body: int, form: int) -> Work[tuple[int, int]]:
        """Count the entries of a packed value by walking them."""
        offset = self._base + prefix
        head = packed.HEAD_BYTES[form]
        walk = Walk(form, body - head)
        pos = start + head
        while walk.left:
            try:
                pos = yield from self._more(pos, 1)
                pos = walk.go(self._buffer, pos)
            except IndexError as short:
                pos = yield from self._more(short.args[0], len(self._buffer) - short.args[0] + 1)
            except ValueError:
                raise Fault(faults.PACKED_ENTRY, offset - self._base, walk.count) from None
        return walk.count, pos

    def _walk_compressed(self, prefix: int, start: int, body: int, raw: int, form: int) -> Work[tuple[int, int]]:
        if max(raw, body) > LZF_WALK_BYTES_MAX:
            raise Fault(faults.WALK_BYTES, prefix, max(raw, body))
        moved = yield from self._more(prefix, start + body - prefix)
        start += moved - prefix
        try:
            data = expand(self._buffer[start : start + body], raw)
        except ValueError:
            raise Fault(faults.LZF, moved, body, raw) from None
        head = packed.HEAD_BYTES[form]
        walk = Walk(form, raw - head)
        try:
            walk.go(data, head)
            if walk.left:
                raise ValueError
        except (IndexError, ValueError):
            raise Fault(faults.PACKED_ENTRY, moved, walk.count) from None
        return walk.count, start + body

    def _quicklist(self, row: of.ValueType, nodes: int, pos: int) -> Work[tuple[int, int, int]]:
        """A list of packed nodes; one such node alone is a listpack to newer servers."""
        elements = 0
        encoding = row.encoding
        for place in range(nodes):
            container = of.PACKED_NODE
            begin = pos
            if row.form == of.F_LISTPACK:
                (container,), at, pos = yield from self._lengths(pos, 1)
                if container not in (of.PACKED_NODE, of.PLAIN_NODE):
                    raise Fault(faults.CONTAINER, at, container)
                begin = pos
            if container == of.PLAIN_NODE:
                length, lzf_bytes, pos = yield from self._plain_node(pos)
                elements += 1
            else:
                count, length, lzf_bytes, pos = yield from self._packed(begin, pos, row.form)
                elements += count
            if self._meter is not None:
                self._meter.list_node(place, nodes, length, lzf_bytes)
            if container == of.PLAIN_NODE:
                continue
            if nodes == 1 and row.form == of.F_LISTPACK and self.head.small_lists_are_listpacks:
                encoding = of.LISTPACK
        return elements, encoding, pos

    def _plain_node(self, pos: int) -> Work[tuple[int, int, int]]:
        """Return (bytes, compressed bytes or -1, position after it) of a node that is one element."""
        while True:
            try:
                _, body, _, form = string_prefix(self._buffer, pos)
            except IndexError:
                pos = yield from self._more(pos, len(self._buffer) - pos + 1)
            else:
                break
        length, pos = yield from self._text(pos)
        return length, (body if form == LZF_STRING else -1), pos

    def _stream(self, row: of.ValueType, nodes: int, pos: int) -> Work[tuple[int, int, int]]:
        """A stream: nodes of an id and a listpack, ids, then groups with pending entries and consumers."""
        meter = self._meter
        for _ in range(nodes):
            pos = yield from self._stream_id(pos)
            size, pos = yield from self._text(pos)
            if meter is not None:
                meter.stream_node(size)
        if meter is not None:
            meter.stream_nodes_end()
        (length,), at, pos = yield from self._lengths(pos, 1)
        if length > ELEMENTS_MAX or (length and not nodes):
            raise Fault(faults.COUNT if length > ELEMENTS_MAX else faults.STREAM_EMPTY, at, length)
        _, _, pos = yield from self._lengths(pos, 2 if row.generation == 1 else 7)
        groups, pos = yield from self._count(pos)
        for _ in range(groups):
            pos = yield from self._string(pos)
            _, _, pos = yield from self._lengths(pos, 2 if row.generation == 1 else 3)
            pending, pos = yield from self._count(pos)
            for _ in range(pending):
                pos = yield from self._pending_id(pos)
                pos = yield from self._more(pos + 8, 0)
                _, _, pos = yield from self._lengths(pos, 1)
            if meter is not None:
                meter.group_pending_end()
            consumers, pos = yield from self._count(pos)
            for _ in range(consumers):
                name, pos = yield from self._text(pos)
                pos = yield from self._more(pos + (16 if row.generation >= 3 else 8), 0)
                pending, pos = yield from self._count(pos)
                if meter is None:
                    pos = yield from self._more(pos + 16 * pending, 0)
                    continue
                for _ in range(pending):
                    pos = yield from self._pending_id(pos)
                meter.consumer_pending_end(name)
            if row.generation >= 5:
                handed_back, pos = yield from self._count(pos)
                pos = yield from self._more(pos + 16 * handed_back, 0)
        if row.generation >= 4:
            pos = yield from self._producers(pos)
        return length, row.encoding, pos

    def _producers(self, pos: int) -> Work[int]:
        """Idempotent producers of a stream: two limits; ids that each has used, with the entries they made; two counters."""
        _, _, pos = yield from self._lengths(pos, 2)
        producers, pos = yield from self._count(pos)
        for _ in range(producers):
            pos = yield from self._string(pos)
            used, pos = yield from self._count(pos)
            for _ in range(used):
                pos = yield from self._string(pos)
                _, _, pos = yield from self._lengths(pos, 2)
        _, _, pos = yield from self._lengths(pos, 2)
        return pos

    def _array(self, count: int, pos: int) -> Work[int]:
        """An array: whether and where it inserts next, then elements with their index and kind."""
        (flag,), at, pos = yield from self._lengths(pos, 1)
        if flag > 1:
            raise Fault(faults.ARRAY, at, flag)
        if flag:
            _, _, pos = yield from self._lengths(pos, 1)
        for _ in range(count):
            (_, kind), at, pos = yield from self._lengths(pos, 2)
            if kind in (of.ARRAY_INTEGER, of.ARRAY_FLOAT):
                pos = yield from self._more(pos + 8, 0)
            elif kind in (of.ARRAY_STRING, of.ARRAY_SHORT_STRING):
                pos = yield from self._string(pos)
            else:
                raise Fault(faults.ARRAY, at, kind)
        return pos

    def _pending_id(self, pos: int) -> Work[int]:
        pos = yield from self._more(pos, 16)
        if self._meter is not None:
            self._meter.stream_id(self._buffer[pos : pos + 16])
        return pos + 16

    def _stream_id(self, pos: int) -> Work[int]:
        while True:
            try:
                start, body, raw, form = string_prefix(self._buffer, pos)
            except IndexError:
                pos = yield from self._more(pos, len(self._buffer) - pos + 1)
            else:
                break
        if raw != 16:
            raise Fault(faults.STREAM_ID, pos)
        if self._meter is not None and form == LZF_STRING:
            self._meter.stream_id(b"")
        elif self._meter is not None:
            moved = yield from self._more(pos, start + 16 - pos)
            start += moved - pos
            pos = moved
            self._meter.stream_id(self._buffer[start : start + 16])
        return (yield from self._pass_string(pos, start, body, raw, form))

    def _module(self, pos: int) -> Work[int]:
        """Pass over a module's data by its opcodes, whatever the module."""
        while True:
            (opcode,), at, pos = yield from self._lengths(pos, 1)
            if opcode == of.MODULE_EOF:
                return pos
            if opcode in (of.MODULE_SINT, of.MODULE_UINT):
                _, _, pos = yield from self._lengths(pos, 1)
            elif opcode in (of.MODULE_FLOAT, of.MODULE_DOUBLE):
                pos = yield from self._more(pos + (4 if opcode == of.MODULE_FLOAT else 8), 0)
            elif opcode == of.MODULE_STRING:
                pos = yield from self._string(pos)
            else:
                raise Fault(faults.MODULE_OPCODE, at, opcode)


def _pass_elements(
    data: bytes, pos: int, left: int, mode: int, meter: KeyMeter | None
) -> tuple[int, int, tuple[int, int, int, int] | None]:
    """Pass over strings as far as *data* goes: return (position, strings left, None or a cut compressed string).

    The position may lie beyond *data*.  A compressed string that is cut is not counted as passed.  The expiry after a field and
    its value is counted as a string.
    """
    stop = len(data)
    post = 8 if mode == of.E_SCORE else 0
    try:
        while left and pos < stop:
            at = pos
            if mode in (of.E_SCORE_TEXT, of.E_EXPIRY_AFTER, of.E_EXPIRY_BEFORE):
                if mode == of.E_SCORE_TEXT:
                    if left & 1:
                        size = data[at]
                        if not size:
                            raise Fault(faults.SCORE, at)
                        pos = at + 1 + (0 if size >= 253 else size)
                        left -= 1
                        continue
                elif mode == of.E_EXPIRY_AFTER:
                    if left % 3 == 1:
                        if at + 8 > stop:
                            raise IndexError
                        if meter is not None:
                            meter.expiry_after(data[at : at + 8] != _NO_EXPIRY)
                        pos = at + 8
                        left -= 1
                        continue
                elif not left & 1:
                    expiry, at = length_at(data, at)
                    if meter is not None:
                        meter.expiry_before(expiry != 0)
            first = data[at]
            form = RAW_STRING
            if first < 0x40:
                raw = first
                pos = at + 1 + first + post
            elif first < 0x80:
                raw = (first & 0x3F) << 8 | data[at + 1]
                pos = at + 2 + raw + post
            else:
                start, body, raw, form = string_prefix(data, at)
                if form == INT_STRING:
                    raw = integer_length(data, start, body)
                if form == LZF_STRING:
                    if start + body > stop:
                        return at, left, (at, start, body, raw)
                    if not is_whole(data, start, start + body, raw):
                        raise Fault(faults.LZF, at, body, raw)
                pos = start + body + post
            if meter is not None:
                meter.text(raw, form == INT_STRING)
            left -= 1
    except IndexError:
        pass
    return pos, left, None
