"""Memory layouts of the server versions (``object.c``, ``server.h``, ``quicklist.h``, ``stream.h``, ``dict.c``)."""

from __future__ import annotations

import re
from typing import NamedTuple

from cluster_core.rdb.grammar import measured_types

KEY_APART, KEY_IN_ENTRY, KEY_IN_OBJECT = range(3)
"""Storage of a key's name: its own string, the entry of the key space, or the object of its value."""

EMBSTR_LENGTH, EMBSTR_ALLOCATED, EMBSTR_AFTER_POINTER, EMBSTR_FOR_POINTER = range(4)
"""Bytes of an embedded string: length, allocation, allocation with the key, or that minus the pointer."""

FIELD_APART, FIELD_MSTR, FIELD_ENTRY = range(3)
"""Storage of a field in a hash table: two strings, an ``mstr`` and a string, or an entry with embedded strings."""

DICT, BUCKETS = range(2)
"""Kinds of hash tables: ``dict`` with one entry per element, ``hashtable`` with buckets."""


class Layout(NamedTuple):
    """Sizes in bytes of one server version on 64-bit machines; *types* are the supported RDB value types."""

    name: str
    types: frozenset[str]
    key_place: int
    slot_link: int  # extra bytes of a key space entry in cluster mode
    embstr: int
    embeds_max: int  # maximum bytes of an object with embedded key and value, if this limit applies
    packed_exact: bool  # packed values count their length, not their allocation
    list_node: int
    set_entry: int
    hash_entry: int
    zset_entry: int
    field_form: int
    table_kind: int
    table: int
    hash_extra: int  # extra bytes of a hash's table
    hash_steps: int  # buckets moved per insertion while the table grows
    set_presized: tuple[int, int]  # range of counts at which the table is presized
    integers_presized: tuple[int, int]  # same for a set of integers
    hash_presized: tuple[int, int]  # same for a hash without long fields and values
    zset_presized: tuple[int, int]
    zset_embeds: bool  # nodes of a sorted set embed the member
    zset: int
    stream: int
    tree_is_exact: bool  # radix trees count allocations instead of an estimate per node
    group: int
    consumer: int


_NEVER = (1, 0)

_REDIS_62 = Layout(
    name="redis 6.2",
    types=measured_types("redis", (6, 2)),
    key_place=KEY_APART, slot_link=0, embstr=EMBSTR_LENGTH, embeds_max=0, packed_exact=True, list_node=32,
    set_entry=24, hash_entry=24, zset_entry=24, field_form=FIELD_APART, table_kind=DICT, table=96, hash_extra=0,
    hash_steps=2, set_presized=_NEVER, integers_presized=(513, 1024), hash_presized=_NEVER, zset_presized=_NEVER,
    zset_embeds=False, zset=16 + 32, stream=40, tree_is_exact=False, group=32, consumer=24,
)  # fmt: skip
_REDIS_70 = _REDIS_62._replace(
    name="redis 7.0", types=measured_types("redis", (7, 0)), slot_link=16, embstr=EMBSTR_ALLOCATED, packed_exact=False,
    list_node=40, table=56, hash_presized=(513, 1024), stream=80, group=40,
)  # fmt: skip
_REDIS_72 = _REDIS_70._replace(
    name="redis 7.2", types=measured_types("redis", (7, 2)), hash_steps=1,
    set_presized=(129, 512), zset_presized=(129, 512), consumer=32,
)  # fmt: skip
_REDIS_74 = _REDIS_72._replace(
    name="redis 7.4", types=measured_types("redis", (7, 4)), slot_link=0, field_form=FIELD_MSTR
)
_VALKEY_80 = _REDIS_72._replace(name="valkey 8.0", key_place=KEY_IN_ENTRY, slot_link=0, set_entry=5)
_VALKEY_81 = _VALKEY_80._replace(
    name="valkey 8.1", key_place=KEY_IN_OBJECT, embstr=EMBSTR_AFTER_POINTER, embeds_max=64, set_entry=0, hash_entry=0, zset_entry=0,
    field_form=FIELD_ENTRY, table_kind=BUCKETS, table=80, tree_is_exact=True,
)  # fmt: skip
_VALKEY_90 = _VALKEY_81._replace(
    name="valkey 9.0", types=measured_types("valkey", (9, 0)), embstr=EMBSTR_FOR_POINTER, hash_extra=8
)
_VALKEY_91 = _VALKEY_90._replace(name="valkey 9.1", embeds_max=128, zset_embeds=True, zset=16 + 528)

_BY_VERSION = {
    "redis": {
        (6, 2): _REDIS_62,
        (7, 0): _REDIS_70,
        (7, 2): _REDIS_72,
        (7, 4): _REDIS_74,
        (8, 0): _REDIS_74._replace(name="redis 8.0"),
    },
    "valkey": {
        (7, 2): _REDIS_72._replace(name="valkey 7.2"),
        (8, 0): _VALKEY_80,
        (8, 1): _VALKEY_81,
        (9, 0): _VALKEY_90,
        (9, 1): _VALKEY_91,
    },
}
_BY_NAME = {layout.name.replace(" ", "-"): layout for family in _BY_VERSION.values() for layout in family.values()}
LAYOUT_NAMES = tuple(_BY_NAME)
"""Layout names that users can choose, such as ``redis-8.0``."""

_UNRELEASED = 255
"""Major version of unreleased builds."""
_BY_RDB_VERSION = {
    ("redis", 9): (6, 2), ("redis", 10): (7, 0), ("redis", 11): (7, 2), ("valkey", 10): (7, 2), ("valkey", 11): (8, 0),
}  # fmt: skip
_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


def layout_of(server: str) -> Layout | None:
    """Return the layout of the writer named in a dump, ``redis 7.0.15`` or ``valkey 9.1.2``; None if unknown."""
    family, number = _family_and_number(server)
    return _BY_VERSION.get(family, {}).get(number)


def layout_named(name: str) -> Layout:
    """Return the layout that a user chose; KeyError if it is not in `LAYOUT_NAMES`."""
    return _BY_NAME[name]


def nearest_layout(server: str, rdb_version: int) -> Layout | None:
    """Return the layout of the closest earlier version, else of the first one; unreleased builds go by *rdb_version*."""
    family, number = _family_and_number(server)
    known = _BY_VERSION.get(family)
    if known is None or not number[0]:
        return None
    if number[0] >= _UNRELEASED:
        number = _BY_RDB_VERSION.get((family, rdb_version), number)
    return known[max((version for version in known if version <= number), default=min(known))]


def _family_and_number(server: str) -> tuple[str, tuple[int, int]]:
    family, _, version = server.partition(" ")
    match = _VERSION.match(version)
    return family, (int(match[1]), int(match[2])) if match else (0, 0)
