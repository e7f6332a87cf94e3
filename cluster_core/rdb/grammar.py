"""Grammar of all RDB versions: value types, opcodes, and limits.

Codes depend on the magic: type 22 and opcode 243 differ between ``REDIS`` and ``VALKEY`` files. `Grammar` has the meaning
of each byte in one file. A new type is a row here and a golden value in the tests.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

DIALECT_REDIS = "REDIS"
DIALECT_VALKEY = "VALKEY"
VERSIONS = {DIALECT_REDIS: (1, 15), DIALECT_VALKEY: (80, 80)}
"""First and last supported RDB version of each dialect."""

KEY_TYPES: tuple[str, ...] = ("string", "list", "set", "zset", "hash", "stream", "module", "array")
"""Replies of TYPE; a type's code is its index."""
STRING, LIST, SET, ZSET, HASH, STREAM, MODULE, ARRAY = range(8)

ENCODINGS: tuple[str, ...] = (
    "int", "embstr", "raw", "quicklist", "listpack", "ziplist", "zipmap", "linkedlist", "intset", "hashtable", "skiplist",
    "stream", "module", "listpackex", "sliced-array", "template-listpack", "template-array",
)  # fmt: skip
"""Replies of OBJECT ENCODING; an encoding's code is its index."""
(
    INT, EMBSTR, RAW, QUICKLIST, LISTPACK, ZIPLIST, ZIPMAP, LINKEDLIST, INTSET, HASHTABLE, SKIPLIST,
    STREAM_ENCODING, MODULE_ENCODING, LISTPACKEX, SLICED_ARRAY, TEMPLATE_LISTPACK, TEMPLATE_ARRAY,
) = range(17)  # fmt: skip

# Layouts of values.
(
    L_UNREAD,  # unsupported: no released server writes it
    L_STRING,
    L_ELEMENTS,  # a count, then elements of strings
    L_PACKED,  # one string: a listpack, ziplist, intset or zipmap
    L_QUICKLIST,  # a count, then packed values as nodes
    L_STREAM,
    L_MODULE,
    L_ARRAY,
    L_TEMPLATE,  # the number of a template of the file, then one string per field
) = range(9)

# Layouts of elements of `L_ELEMENTS`.
(
    E_ONE,
    E_PAIR,
    E_SCORE,  # member, then eight bytes
    E_SCORE_TEXT,  # member, then a score in digits
    E_EXPIRY_AFTER,  # field, value, eight bytes
    E_EXPIRY_BEFORE,  # a length, field, value
) = range(6)

# Forms of packed values.
F_LISTPACK, F_ZIPLIST, F_INTSET, F_ZIPMAP = range(4)

# Measures of values in memory (`cluster_core.memory`).
(
    M_UNKNOWN,
    M_STRING,
    M_PACKED,
    M_PACKED_EXPIRY,
    M_LIST,
    M_SET,
    M_ZSET,
    M_HASH,
    M_STREAM,
) = range(9)

Releases = tuple[tuple[str, tuple[int, int], tuple[int, int]], ...]
"""Family of servers, first and last release."""
_LAST = (255, 255)
_ALWAYS: Releases = (("redis", (6, 2), _LAST), ("valkey", (7, 2), _LAST))
_REDIS_62: Releases = (("redis", (6, 2), (6, 2)),)
_FROM_70: Releases = (("redis", (7, 0), _LAST), ("valkey", (7, 2), _LAST))
_FROM_72: Releases = (("redis", (7, 2), _LAST), ("valkey", (7, 2), _LAST))
_FROM_74: Releases = (("redis", (7, 4), _LAST),)
_VALKEY_90: Releases = (("valkey", (9, 0), _LAST),)

NO_NUMBER = -1


class ValueType(NamedTuple):
    """One value type: its *name* in ``rdb.h``, its numbers in Redis and Valkey files (`NO_NUMBER`: none), layout and cost.

    *element* belongs to `L_ELEMENTS`, *form* to packed values; *entries* is the number of packed entries per element;
    *lead_bytes* precede the value (the earliest expiry of a field); *skipped_entries* precede the first element;
    *generation* counts the forms of streams; *meaning* describes an unread type.
    """

    name: str
    redis: int
    valkey: int
    key_type: int
    encoding: int
    layout: int
    since: int
    element: int = E_ONE
    form: int = F_LISTPACK
    entries: int = 1
    lead_bytes: int = 0
    skipped_entries: int = 0
    generation: int = 0
    measure: int = M_UNKNOWN
    measured: Releases = ()
    meaning: str = ""


_T = ValueType
VALUE_TYPES: tuple[ValueType, ...] = (
    _T("STRING", 0, 0, STRING, RAW, L_STRING, 1, measure=M_STRING, measured=_ALWAYS),
    _T("LIST", 1, 1, LIST, LINKEDLIST, L_ELEMENTS, 1),
    _T("SET", 2, 2, SET, HASHTABLE, L_ELEMENTS, 1, measure=M_SET, measured=_ALWAYS),
    _T("ZSET", 3, 3, ZSET, SKIPLIST, L_ELEMENTS, 1, E_SCORE_TEXT),
    _T("HASH", 4, 4, HASH, HASHTABLE, L_ELEMENTS, 1, E_PAIR, measure=M_HASH, measured=_ALWAYS),
    _T("ZSET_2", 5, 5, ZSET, SKIPLIST, L_ELEMENTS, 8, E_SCORE, measure=M_ZSET, measured=_ALWAYS),
    _T("MODULE_PRE_GA", 6, 6, MODULE, RAW, L_UNREAD, 8,
       meaning="a module of a Redis 4.0 release candidate, which no server reads"),
    _T("MODULE_2", 7, 7, MODULE, RAW, L_MODULE, 8),
    _T("HASH_ZIPMAP", 9, 9, HASH, ZIPMAP, L_PACKED, 2, form=F_ZIPMAP),
    _T("LIST_ZIPLIST", 10, 10, LIST, ZIPLIST, L_PACKED, 2, form=F_ZIPLIST),
    _T("SET_INTSET", 11, 11, SET, INTSET, L_PACKED, 2, form=F_INTSET, measure=M_PACKED, measured=_ALWAYS),
    _T("ZSET_ZIPLIST", 12, 12, ZSET, ZIPLIST, L_PACKED, 2, form=F_ZIPLIST, entries=2, measure=M_PACKED, measured=_REDIS_62),
    _T("HASH_ZIPLIST", 13, 13, HASH, ZIPLIST, L_PACKED, 4, form=F_ZIPLIST, entries=2, measure=M_PACKED, measured=_REDIS_62),
    _T("LIST_QUICKLIST", 14, 14, LIST, QUICKLIST, L_QUICKLIST, 7, form=F_ZIPLIST, measure=M_LIST, measured=_REDIS_62),
    _T("STREAM_LISTPACKS", 15, 15, STREAM, STREAM_ENCODING, L_STREAM, 9, generation=1, measure=M_STREAM, measured=_REDIS_62),
    _T("HASH_LISTPACK", 16, 16, HASH, LISTPACK, L_PACKED, 10, entries=2, measure=M_PACKED, measured=_FROM_70),
    _T("ZSET_LISTPACK", 17, 17, ZSET, LISTPACK, L_PACKED, 10, entries=2, measure=M_PACKED, measured=_FROM_70),
    _T("LIST_QUICKLIST_2", 18, 18, LIST, QUICKLIST, L_QUICKLIST, 10, measure=M_LIST, measured=_FROM_70),
    _T("STREAM_LISTPACKS_2", 19, 19, STREAM, STREAM_ENCODING, L_STREAM, 10, generation=2, measure=M_STREAM, measured=_FROM_70),
    _T("SET_LISTPACK", 20, 20, SET, LISTPACK, L_PACKED, 11, measure=M_PACKED, measured=_FROM_72),
    _T("STREAM_LISTPACKS_3", 21, 21, STREAM, STREAM_ENCODING, L_STREAM, 11, generation=3, measure=M_STREAM, measured=_FROM_72),
    _T("HASH_2", NO_NUMBER, 22, HASH, HASHTABLE, L_ELEMENTS, 80, E_EXPIRY_AFTER, measure=M_HASH, measured=_VALKEY_90),
    _T("HASH_METADATA_PRE_GA", 22, NO_NUMBER, HASH, HASHTABLE, L_ELEMENTS, 12, E_EXPIRY_BEFORE),
    _T("HASH_LISTPACK_EX_PRE_GA", 23, NO_NUMBER, HASH, LISTPACKEX, L_PACKED, 12, entries=3),
    _T("HASH_METADATA", 24, NO_NUMBER, HASH, HASHTABLE, L_ELEMENTS, 12, E_EXPIRY_BEFORE, lead_bytes=8, measure=M_HASH,
       measured=_FROM_74),
    _T("HASH_LISTPACK_EX", 25, NO_NUMBER, HASH, LISTPACKEX, L_PACKED, 12, entries=3, lead_bytes=8, measure=M_PACKED_EXPIRY,
       measured=_FROM_74),
    _T("STREAM_LISTPACKS_4", 26, NO_NUMBER, STREAM, STREAM_ENCODING, L_STREAM, 13, generation=4,
       meaning="a stream with idempotent producers, Redis 8.6"),
    _T("STREAM_LISTPACKS_5", 27, NO_NUMBER, STREAM, STREAM_ENCODING, L_STREAM, 13, generation=5,
       meaning="a stream with entries handed back, Redis 8.8"),
    _T("ARRAY", 28, NO_NUMBER, ARRAY, SLICED_ARRAY, L_ARRAY, 13, meaning="an array, Redis 8.8"),
    _T("HASH_TEMPLATE_LISTPACK", 29, NO_NUMBER, HASH, TEMPLATE_LISTPACK, L_UNREAD, 13,
       meaning="a hash by template as DUMP writes it, Redis 8.10"),
    _T("HASH_TEMPLATE_LISTPACK_REF", 30, NO_NUMBER, HASH, TEMPLATE_LISTPACK, L_PACKED, 13, skipped_entries=1,
       meaning="a hash by template, Redis 8.10"),
    _T("HASH_TEMPLATE_ARRAY", 31, NO_NUMBER, HASH, TEMPLATE_ARRAY, L_UNREAD, 13,
       meaning="a hash by template as DUMP writes it, Redis 8.10"),
    _T("HASH_TEMPLATE_ARRAY_REF", 32, NO_NUMBER, HASH, TEMPLATE_ARRAY, L_TEMPLATE, 13, meaning="a hash by template, Redis 8.10"),
    _T("GCRA", 33, NO_NUMBER, STRING, RAW, L_UNREAD, 13,
       meaning="a rate limiter, experimental builds of Redis 8.8 and later"),
)  # fmt: skip

# Opcodes.
OP_RAM_LRU = 107
OP_SLOT_NUMBER = 121
OP_HASH_TEMPLATE = 242
OP_SLOT_IMPORT = OP_KEY_META = 243
OP_SLOT_INFO = 244
OP_FUNCTION2 = 245
OP_FUNCTION_PRE_GA = 246
OP_MODULE_AUX = 247
OP_IDLE = 248
OP_FREQ = 249
OP_AUX = 250
OP_RESIZEDB = 251
OP_EXPIRE_MS = 252
OP_EXPIRE_S = 253
OP_SELECTDB = 254
OP_EOF = 255
OPCODE_MIN = 128
"""First byte reported as an unknown opcode, not as an unknown value type."""

# Kinds of records by their first byte.
(
    B_UNKNOWN,
    B_TYPE,  # the value type of a key
    B_UNREAD_TYPE,
    B_ATTRIBUTE,  # an attribute before the type of a key
    B_INNER_ATTRIBUTE,  # an attribute behind another attribute, else a record
    B_KEY_META,  # module metadata of the next key
    B_RECORD,  # a record other than a key
) = range(7)


class Opcode(NamedTuple):
    """An opcode, its kind, and its first RDB version in each dialect; None if absent."""

    number: int
    begins: int = B_RECORD
    redis: int | None = 1
    valkey: int | None = 1


OPCODES: tuple[Opcode, ...] = (
    Opcode(OP_RAM_LRU, B_INNER_ATTRIBUTE, valkey=None),  # Redis Enterprise
    Opcode(OP_SLOT_NUMBER, B_INNER_ATTRIBUTE, valkey=None),  # Redis Enterprise
    Opcode(OP_HASH_TEMPLATE, redis=13, valkey=None),
    Opcode(OP_SLOT_IMPORT, redis=None),
    Opcode(OP_KEY_META, B_KEY_META, redis=13, valkey=None),
    Opcode(OP_SLOT_INFO),
    Opcode(OP_FUNCTION2),
    Opcode(OP_FUNCTION_PRE_GA),
    Opcode(OP_MODULE_AUX),
    Opcode(OP_IDLE, B_ATTRIBUTE),
    Opcode(OP_FREQ, B_ATTRIBUTE),
    Opcode(OP_AUX),
    Opcode(OP_RESIZEDB),
    Opcode(OP_EXPIRE_MS, B_ATTRIBUTE),
    Opcode(OP_EXPIRE_S, B_ATTRIBUTE),
    Opcode(OP_SELECTDB),
    Opcode(OP_EOF),
)

# Opcodes inside a module's value.
MODULE_EOF, MODULE_SINT, MODULE_UINT, MODULE_FLOAT, MODULE_DOUBLE, MODULE_STRING = range(6)

# Kinds of an array's elements.
ARRAY_STRING, ARRAY_INTEGER, ARRAY_FLOAT, ARRAY_SHORT_STRING = range(4)

# Containers of a quicklist's node: the element itself, or a packed value.
PLAIN_NODE, PACKED_NODE = 1, 2

_SETTLED = 12
"""Redis files up to this version may hold every type up to it: development builds wrote types early."""


class Grammar(NamedTuple):
    """Meaning of a file's bytes: value types by number, and the kind of each of the 256 first bytes."""

    types: dict[int, ValueType]
    begins: tuple[int, ...]


@cache
def grammar_of(dialect: str, version: int = 0) -> Grammar:
    """Return the grammar of a file of that dialect and RDB version; by default of the latest."""
    is_redis = dialect == DIALECT_REDIS
    known = max(version or VERSIONS[dialect][1], _SETTLED)
    numbered = ((row.redis if is_redis else row.valkey, row) for row in VALUE_TYPES)
    types = {number: row for number, row in numbered if number != NO_NUMBER and row.since <= known}
    begins = [B_UNKNOWN] * 256
    for number, row in types.items():
        begins[number] = B_UNREAD_TYPE if row.layout == L_UNREAD else B_TYPE
    for op in OPCODES:
        since = op.redis if is_redis else op.valkey
        if since is not None and since <= known:
            begins[op.number] = op.begins
    return Grammar(types, tuple(begins))


def meaning_of(number: int) -> str:
    """Describe a Redis value type that is unsupported here or in some files; else empty."""
    return next((row.meaning for row in VALUE_TYPES if row.redis == number), "")


def measured_types(family: str, release: tuple[int, int]) -> frozenset[str]:
    """Return the names of the value types with a known memory model for a release of ``redis`` or ``valkey``."""
    return frozenset(
        row.name
        for row in VALUE_TYPES
        for name, first, last in row.measured
        if name == family and first <= release <= last
    )


KEY_BYTES_MAX = 16 << 20
AUX_NAME_BYTES_MAX = 4096
AUX_VALUE_BYTES_MAX = 65_536
AUX_FIELDS_MAX = 256
DATABASES_MAX = 65_536
STRING_BYTES_MAX = 1 << 40
ELEMENTS_MAX = 1 << 40
LZF_WALK_BYTES_MAX = 32 << 20
TEMPLATES_MAX = 1 << 20
KEY_META_CLASSES_MAX = 7
