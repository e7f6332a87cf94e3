"""Whether a value holds what its headers say, and only what a server can hold: every element decoded, none believed.

A skim takes counts from headers.  Servers check the same things when they load (`lpValidateIntegrity`, `ziplistValidateIntegrity`,
`intsetValidateIntegrity`, `streamValidateListpackIntegrity`, `rdbLoadObject`), some always, some with ``sanitize-dump-payload``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, cast

from cluster_core.errors import DecodeError
from cluster_core.rdb import grammar, packed
from cluster_core.rdb.packed import packed_elements
from cluster_core.rdb.strings import Fault
from cluster_core.rdb.values import (
    NO_EXPIRY,
    Field,
    Record,
    StreamGroup,
    StreamValue,
    decode_record,
    has_empty_node,
    node_entries,
    packed_values,
    type_of,
)

FIELD_EXPIRY_MAX_MS = (1 << 48) - 1
"""Times of Redis's fields beyond this are refused (``EB_EXPIRE_TIME_MAX``)."""


class Flaw(StrEnum):
    """What is wrong with a value."""

    UNDECODABLE = "undecodable"
    """Its bytes stand for nothing."""
    COUNT = "count"
    """A header counts other elements than there are."""
    LINKS = "links"
    """Lengths or offsets between packed entries do not lead from one to the next."""
    TWICE = "twice"
    """A member, field, score's member, group, consumer or pending entry is there twice."""
    SCORE = "score"
    """A score is no number."""
    ORDER = "order"
    """Integers of a set do not rise, or fields are not in the order in which they expire."""
    EXPIRY = "expiry"
    """A field expires beyond the time that a server can hold."""
    PENDING = "pending"
    """A consumer waits for an entry that its group does not list as pending."""


class ValueFlaw(NamedTuple):
    """A flaw in words; *real* is the number of elements that were found, -1 if they cannot be told."""

    flaw: Flaw
    detail: str
    real: int


def value_flaws(data: bytes, dialect: str, elements: int) -> list[ValueFlaw]:
    """Return what is wrong with the value of the record *data*, whose header counts *elements* (-1: it does not say).

    Values of modules, and of hashes whose field names are in a template, are not looked at.
    """
    try:
        is_by_template = type_of(data, dialect).encoding in (grammar.TEMPLATE_LISTPACK, grammar.TEMPLATE_ARRAY)
        return [] if is_by_template else _flaws(data, dialect, elements)
    except (DecodeError, LookupError, ValueError, Fault):
        return [ValueFlaw(Flaw.UNDECODABLE, "its elements cannot be decoded", -1)]


def _flaws(data: bytes, dialect: str, elements: int) -> list[ValueFlaw]:
    record = decode_record(data, dialect)
    if not isinstance(record.value, list | StreamValue):
        return []
    value = record.value
    real = len(value.entries) if isinstance(value, StreamValue) else len(value)
    found = [
        *_packed_flaws(data, dialect),
        *(
            _stream_flaws(value, data, dialect)
            if isinstance(value, StreamValue)
            else _element_flaws(record, data, dialect)
        ),
    ]
    if 0 <= elements != real and not any(flaw == Flaw.COUNT for flaw, _ in found):
        found.insert(0, (Flaw.COUNT, f"its header counts {elements}"))
    return [ValueFlaw(flaw, detail, real) for flaw, detail in found]


def _packed_flaws(data: bytes, dialect: str) -> Iterator[tuple[Flaw, str]]:
    """Flaws of the packed values in a record; the first of each kind."""
    met: set[Flaw] = set()
    for blob, form in packed_values(data, dialect):
        for flaw, detail in _blob_flaws(blob, form):
            if flaw not in met:
                met.add(flaw)
                yield flaw, detail


def _blob_flaws(blob: bytes, form: int) -> Iterator[tuple[Flaw, str]]:
    if form == grammar.F_INTSET:
        width = int.from_bytes(blob[:4], "little")
        numbers = [int.from_bytes(blob[at : at + width], "little", signed=True) for at in range(8, len(blob), width)]
        if any(one >= other for one, other in pairwise(numbers)):
            yield Flaw.ORDER, "an intset whose integers do not rise"
        return
    places = list(packed.entry_places(blob, form))
    starts = [at for at, _, _ in places]
    count = len(starts) // 2 if form == grammar.F_ZIPMAP else len(starts)
    said, *_ = packed.stated_count(blob, 0, len(blob), form)
    name = grammar.FORM_NAMES[form]
    if said < packed.UNKNOWN:
        raise ValueError
    if said not in (packed.UNKNOWN, count):
        yield Flaw.COUNT, f"a {name} counts {said} entries and holds {count}"
    end = sum(places[-1][:2]) if places else packed.HEAD_BYTES[form]
    if end != len(blob) - 1:
        yield Flaw.LINKS, f"a {name} of {len(blob)} bytes ends after {end + 1}"
    if form == grammar.F_ZIPLIST and int.from_bytes(blob[4:8], "little") != (starts[-1] if starts else 10):
        yield Flaw.LINKS, "a ziplist whose tail offset is not its last entry"
    if form == grammar.F_ZIPLIST and any(
        _length_before(blob, at) != at - before for before, at in zip([0, *starts], starts, strict=False) if at > 10
    ):
        yield Flaw.LINKS, "a ziplist entry that gives another length for the one before it"
    if form == grammar.F_LISTPACK and any(not _leads_back(blob, at, size) for at, size, _ in places):
        yield Flaw.LINKS, "a listpack entry whose length at its end is not its own"


def _length_before(blob: bytes, at: int) -> int:
    return blob[at] if blob[at] < 254 else int.from_bytes(blob[at + 1 : at + 5], "little")


def _leads_back(blob: bytes, at: int, whole: int) -> bool:
    """Whether the length after a listpack entry of *whole* bytes, 7 bits a byte from the last byte on, is the entry's (`lpEncodeBacklen`)."""
    last = at + whole - 1
    value = shift = 0
    for place in range(last, at - 1, -1):
        value |= (blob[place] & 127) << shift
        shift += 7
        if blob[place] < 128:
            return value == place - at and value > 0
    return False


def _element_flaws(record: Record, data: bytes, dialect: str) -> Iterator[tuple[Flaw, str]]:
    """Flaws of the elements of a list, set, sorted set or hash."""
    value = cast("list[object]", record.value)
    if record.type == "list" and has_empty_node(data, dialect):
        yield Flaw.COUNT, "a node of one element that has no bytes"
    if record.type in ("list", "array"):
        return
    names = value
    noun = "member"
    if record.type == "zset":
        scored = cast("list[tuple[bytes, float]]", value)
        names = [member for member, _ in scored]
        if any(math.isnan(score) for _, score in scored):
            yield Flaw.SCORE, "a score that is no number"
    elif record.type == "hash":
        fields = cast("list[Field]", value)
        names, noun = [field.name for field in fields], "field"
        yield from _expiry_flaws([field.expire_at_ms for field in fields], data, dialect)
    if len(set(names)) < len(names):
        yield Flaw.TWICE, f"{len(names) - len(set(names))} of its {noun}s were there before"


def _expiry_flaws(times: list[int], data: bytes, dialect: str) -> Iterator[tuple[Flaw, str]]:
    """Flaws of the times at which fields expire, which a listpack has in order, fields that stay at its end (`lpValidateIntegrityAndDups`)."""
    if dialect == grammar.DIALECT_REDIS and max(times, default=0) > FIELD_EXPIRY_MAX_MS:
        yield Flaw.EXPIRY, "a field that expires later than a server can tell"
    if type_of(data, dialect).encoding == grammar.LISTPACKEX and any(
        one != other and (one == NO_EXPIRY or (other != NO_EXPIRY and one > other)) for one, other in pairwise(times)
    ):
        yield Flaw.ORDER, "fields that are not in the order in which they expire"


def _stream_flaws(stream: StreamValue, data: bytes, dialect: str) -> Iterator[tuple[Flaw, str]]:
    nodes = (packed_elements(blob, form) for blob, form in packed_values(data, dialect))
    if any(entry.said != entry.taken for words in nodes for entry in node_entries(words)):
        yield Flaw.LINKS, "a stream entry whose length at its end is not its own"
    for noun, names in (
        ("entries", [entry.id for entry in stream.entries]),
        ("groups", [group.name for group in stream.groups]),
        ("consumers", [(group.name, one.name) for group in stream.groups for one in group.consumers]),
        ("pending entries", [(group.name, one.id) for group in stream.groups for one in group.pending]),
    ):
        repeated = _repeated(names)
        if repeated:
            yield Flaw.TWICE, f"{repeated} of its {noun} were there before"
    lost = sum(map(_not_pending, stream.groups))
    if lost:
        yield Flaw.PENDING, f"{lost} entries wait for a consumer, but not in the group"


def _repeated(names: Iterable[object]) -> int:
    held = list(names)
    return len(held) - len(set(held))


def _not_pending(group: StreamGroup) -> int:
    pending = {one.id for one in group.pending}
    return sum(id_ not in pending for consumer in group.consumers for id_ in consumer.pending)
