"""How the versions of the servers lay keys out in memory: what differs between them, as numbers.

Read from ``object.c`` (`objectComputeSize`), ``server.h``, ``quicklist.h``, ``stream.h`` and ``dict.c`` of each version.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cluster_core.rdb.grammar import measured_types

KEY_APART, KEY_IN_ENTRY, KEY_IN_OBJECT = range(3)
"""Where a key's name is: in a string of its own, in the entry of the key space, in the object of its value."""

EMBSTR_LENGTH, EMBSTR_ALLOCATED, EMBSTR_AFTER_POINTER, EMBSTR_FOR_POINTER = range(4)
"""What a string embedded in its object counts: its length, the allocation, that with the key, that without the pointer's place."""

FIELD_APART, FIELD_MSTR, FIELD_ENTRY = range(3)
"""How a hash table holds a field: two strings, an ``mstr`` and a string, an entry that embeds what fits."""

DICT, BUCKETS = range(2)
"""Kinds of hash tables: ``dict`` with an entry an element, ``hashtable`` with buckets."""


class Layout(NamedTuple):
    """Sizes in bytes of one server version on 64-bit machines; *types* are the RDB value types whose memory is known for it."""

    name: str
    types: frozenset[str]
    key_place: int
    slot_link: int  # what an entry of the key space has more in cluster mode
    embstr: int
    embeds_max: int  # bytes of an object with its key and value inside, where that is the rule
    packed_exact: bool  # whether packed values count their own length, not their allocation
    list_node: int
    set_entry: int
    hash_entry: int
    zset_entry: int
    field_form: int
    table_kind: int
    table: int
    hash_extra: int  # what a hash's table has more
    hash_steps: int  # buckets that an insertion moves while the table grows
    set_presized: tuple[int, int]  # counts, from and to, at which a table is taken for presized
    integers_presized: tuple[int, int]  # of a set of integers
    hash_presized: tuple[int, int]  # of a hash without long fields and values
    zset_presized: tuple[int, int]
    zset_embeds: bool  # whether a node of a sorted set embeds its member
    zset: int
    stream: int
    tree_is_exact: bool  # whether radix trees count their allocations, not a guess by nodes
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
"""What a user may name a layout: ``redis-8.0``."""

_UNRELEASED = 255
"""Major version of a build from the branch that releases are cut from."""
_BY_RDB_VERSION = {
    ("redis", 9): (6, 2), ("redis", 10): (7, 0), ("redis", 11): (7, 2), ("valkey", 10): (7, 2), ("valkey", 11): (8, 0),
}  # fmt: skip
_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


def layout_of(server: str) -> Layout | None:
    """Return the layout of the writer that a dump names, ``redis 7.0.15`` or ``valkey 9.1.2``; None for one that is not known."""
    family, number = _family_and_number(server)
    return _BY_VERSION.get(family, {}).get(number)


def layout_named(name: str) -> Layout:
    """Return the layout that a user names; KeyError if it is not in `LAYOUT_NAMES`."""
    return _BY_NAME[name]


def nearest_layout(server: str, rdb_version: int) -> Layout | None:
    """Return the layout of the known version next before the writer's, else of the first one; None if it names no version.

    A build that was not released says 255.255.255: its RDB version tells how old it is.
    """
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
