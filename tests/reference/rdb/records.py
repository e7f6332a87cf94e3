"""Records of the plain RDB skim that are no keys: databases, aux fields, slot info, functions, modules' aux data."""

from __future__ import annotations

import re

from cluster_core.rdb import faults
from cluster_core.rdb.grammar import (
    AUX_NAME_BYTES_MAX,
    AUX_VALUE_BYTES_MAX,
    B_INNER_ATTRIBUTE,
    B_UNKNOWN,
    DATABASES_MAX,
    DIALECT_VALKEY,
    ELEMENTS_MAX,
    KEY_META_CLASSES_MAX,
    MODULE_UINT,
    OP_AUX,
    OP_EOF,
    OP_FUNCTION2,
    OP_FUNCTION_PRE_GA,
    OP_MODULE_AUX,
    OP_RESIZEDB,
    OP_SELECTDB,
    OP_SLOT_IMPORT,
    OP_SLOT_INFO,
    TEMPLATES_MAX,
)
from cluster_core.rdb.head import FileFacts
from cluster_core.rdb.strings import RAW_STRING, Fault, string_at, string_prefix
from cluster_core.slots.key_slot import SLOT_COUNT
from tests.reference.rdb.buffer import Work
from tests.reference.rdb.values import Values

_SLOT_INFO = re.compile(rb"([0-9]{1,15}),([0-9]{1,15}),([0-9]{1,15})(?:,[0-9]{1,15})*")


class OtherRecords(Values):
    """Decoders of the records between keys; all return the position after the record."""

    def __init__(self, source: str, start: int, end: int | None, facts: FileFacts, check_crc: bool) -> None:
        super().__init__(source, start, end, facts, check_crc)
        self.function_count = 0
        self.module_aux_count = 0
        self.declared_slot_keys = [-1] * SLOT_COUNT
        self.declared_slot_expires = [-1] * SLOT_COUNT

    def _other_record(self, op: int, pos: int) -> Work[int]:
        """Decode the record whose opcode *op* is at *pos*."""
        begins = self.head.grammar.begins[op]
        if begins == B_UNKNOWN:
            raise Fault(faults.unknown(op), pos, op, int(self.head.dialect == DIALECT_VALKEY))
        if op == OP_AUX:
            return (yield from self._aux(pos))
        if op == OP_EOF:
            return pos + 1
        offset = self._base + pos
        if op == OP_SELECTDB:
            (db,), _, pos = yield from self._lengths(pos + 1, 1)
            if db >= DATABASES_MAX:
                raise Fault(faults.DATABASE, offset - self._base, db)
            self._facts.select(db, self._base + pos)
        elif op == OP_RESIZEDB:
            (keys, expires), _, pos = yield from self._lengths(pos + 1, 2)
            if max(keys, expires) > ELEMENTS_MAX:
                raise Fault(faults.COUNT, offset - self._base, keys if keys > ELEMENTS_MAX else expires)
            self._facts.resize(keys, expires)
        elif op == OP_SLOT_INFO:
            (slot, keys, expires), _, pos = yield from self._lengths(pos + 1, 3)
            if not self._note_slot(slot, keys, expires):
                raise Fault(faults.SLOT_INFO, offset - self._base)
        elif op == OP_MODULE_AUX:
            (_, when), _, pos = yield from self._lengths(pos + 1, 2)
            if when != MODULE_UINT:
                raise Fault(faults.MODULE_WHEN, offset - self._base, when)
            _, _, pos = yield from self._lengths(pos, 1)
            pos = yield from self._module(pos)
            self.module_aux_count += 1
        elif op in (OP_FUNCTION2, OP_FUNCTION_PRE_GA):
            pos = yield from self._function(op, pos + 1)
        elif op == OP_SLOT_IMPORT:
            pos = yield from self._slot_import(pos + 1)
        elif begins == B_INNER_ATTRIBUTE:
            _, _, pos = yield from self._lengths(pos + 1, 1)
        else:  # a hash template
            (number, count), _, pos = yield from self._lengths(pos + 1, 2)
            if number >= TEMPLATES_MAX or count > ELEMENTS_MAX:
                is_number = number >= TEMPLATES_MAX
                code = faults.TEMPLATE_NUMBER if is_number else faults.COUNT
                raise Fault(code, offset - self._base, number if is_number else count)
            self._templates[number] = count
            for _ in range(count):
                pos = yield from self._string(pos)
        return pos

    def _key_meta(self, pos: int) -> Work[int]:
        """What modules keep beside a key: classes of four bytes, a module's opcodes each (`rdbLoadKeyMetadata`)."""
        (classes,), at, pos = yield from self._lengths(pos, 1)
        if classes > KEY_META_CLASSES_MAX:
            raise Fault(faults.KEY_META, at, classes)
        for _ in range(classes):
            pos = yield from self._module(pos + 4)
        return pos

    def _aux(self, pos: int) -> Work[int]:
        """An aux field: a name and a value, both strings; slot info is one of Valkey's."""
        while True:
            buffer = self._buffer
            try:
                name_at, name_body, name_raw, name_form = string_prefix(buffer, pos + 1)
                if max(name_body, name_raw) > AUX_NAME_BYTES_MAX:
                    raise Fault(faults.AUX_NAME, pos + 1, max(name_body, name_raw))
                value_at = name_at + name_body
                start, body, raw, form = string_prefix(buffer, value_at)
                if max(body, raw) > AUX_VALUE_BYTES_MAX:
                    return (yield from self._pass_string(value_at, start, body, raw, form))
                value = string_at(buffer, value_at)
                name = string_at(buffer, pos + 1)
            except IndexError:
                pos = yield from self._more(pos, len(buffer) - pos + 1)
            else:
                break
        if name == b"slot-info" and name_form == form == RAW_STRING:
            found = _SLOT_INFO.fullmatch(value)
            if not found or not self._note_slot(*map(int, found.groups())):
                raise Fault(faults.SLOT_INFO, pos)
        else:
            self._facts.add_aux(name, value)
        return start + body

    def _note_slot(self, slot: int, keys: int, expires: int) -> bool:
        """Add up what the file declares for a slot (several databases may); False if it cannot be."""
        if slot >= SLOT_COUNT or keys > ELEMENTS_MAX or expires > keys:
            return False
        self.declared_slot_keys[slot] = max(self.declared_slot_keys[slot], 0) + keys
        self.declared_slot_expires[slot] = max(self.declared_slot_expires[slot], 0) + expires
        return True

    def _function(self, op: int, pos: int) -> Work[int]:
        """A function library: its code; in Redis 7.0 release candidates name, engine, perhaps a description, code."""
        if op == OP_FUNCTION_PRE_GA:
            pos = yield from self._string(pos)
            pos = yield from self._string(pos)
            (is_described,), _, pos = yield from self._lengths(pos, 1)
            if is_described:
                pos = yield from self._string(pos)
        pos = yield from self._string(pos)
        self.function_count += 1
        return pos

    def _slot_import(self, pos: int) -> Work[int]:
        """A slot import of Valkey 9: the job's name, then ranges of slots (`clusterRDBLoadSlotImport`)."""
        pos = yield from self._string(pos)
        ranges, pos = yield from self._count(pos)
        for _ in range(ranges):
            _, _, pos = yield from self._lengths(pos, 2)
        return pos
