"""Opcodes, value types and names of an RDB file, by the dialect that the magic announces.

Two servers number on from a common past: from version 12 on, type 22 and opcode 243 mean one thing after ``REDIS`` and
another after ``VALKEY`` (`rdb.h` of both).  So a byte says nothing before the magic is known.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DIALECT_REDIS = "REDIS"
DIALECT_VALKEY = "VALKEY"

REDIS_VERSION_MIN = 1
REDIS_VERSION_MAX = 15
VALKEY_VERSION_MIN = 80
VALKEY_VERSION_MAX = 80

KEY_TYPES: tuple[str, ...] = ("string", "list", "set", "zset", "hash", "stream", "module", "array")
"""What TYPE answers; a type's code is its index."""

ENCODINGS: tuple[str, ...] = (
    "int",
    "embstr",
    "raw",
    "quicklist",
    "listpack",
    "ziplist",
    "zipmap",
    "linkedlist",
    "intset",
    "hashtable",
    "skiplist",
    "stream",
    "module",
    "listpackex",
    "sliced-array",
    "template-listpack",
    "template-array",
)
"""What OBJECT ENCODING answers; an encoding's code is its index."""

STRING, LIST, SET, ZSET, HASH, STREAM, MODULE, ARRAY = range(8)
(
    INT,
    EMBSTR,
    RAW,
    QUICKLIST,
    LISTPACK,
    ZIPLIST,
    ZIPMAP,
    LINKEDLIST,
    INTSET,
    HASHTABLE,
    SKIPLIST,
    STREAM_ENCODING,
    MODULE_ENCODING,
    LISTPACKEX,
    SLICED_ARRAY,
    TEMPLATE_LISTPACK,
    TEMPLATE_ARRAY,
) = range(17)

# Opcodes.
OP_RAM_LRU = 107  # Redis Enterprise: of the key that follows
OP_SLOT_NUMBER = 121  # Redis Enterprise
OP_HASH_TEMPLATE = 242  # REDIS from version 13 on
OP_SLOT_IMPORT = 243  # VALKEY
OP_KEY_META = 243  # REDIS from version 13 on: what modules keep beside the key that follows
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

# Value types.
T_STRING = 0
T_LIST = 1
T_SET = 2
T_ZSET = 3
T_HASH = 4
T_ZSET_2 = 5
T_MODULE_PRE_GA = 6
T_MODULE_2 = 7
T_HASH_ZIPMAP = 9
T_LIST_ZIPLIST = 10
T_SET_INTSET = 11
T_ZSET_ZIPLIST = 12
T_HASH_ZIPLIST = 13
T_LIST_QUICKLIST = 14
T_STREAM = 15
T_HASH_LISTPACK = 16
T_ZSET_LISTPACK = 17
T_LIST_QUICKLIST_2 = 18
T_STREAM_2 = 19
T_SET_LISTPACK = 20
T_STREAM_3 = 21
T_HASH_2 = 22  # VALKEY: a hash of (field, value, expiry)
T_HASH_LISTPACK_EX_PRE_GA = 23
T_HASH_METADATA = 24
T_HASH_LISTPACK_EX = 25
T_STREAM_4 = 26  # with idempotent producers, Redis 8.6
T_STREAM_5 = 27  # with entries that were handed back, Redis 8.8
T_ARRAY = 28  # Redis 8.8
T_HASH_TEMPLATE_LISTPACK = 29  # in DUMP payloads only, Redis 8.10
T_HASH_TEMPLATE_LISTPACK_REF = 30
T_HASH_TEMPLATE_ARRAY = 31  # in DUMP payloads only
T_HASH_TEMPLATE_ARRAY_REF = 32
T_GCRA = 33  # in builds with a rate limiter only

REDIS_TYPE_MAX = 33
VALKEY_TYPE_MAX = 22
UNREADABLE_TYPES = (T_HASH_TEMPLATE_LISTPACK, T_HASH_TEMPLATE_ARRAY, T_GCRA)
"""Value types that no file of a released server should hold, and that are not read."""

TEMPLATE_TYPES = (T_HASH_TEMPLATE_LISTPACK_REF, T_HASH_TEMPLATE_ARRAY_REF)
"""Hashes whose field names stand once in the file, in a template."""

_REDIS_74_TYPE_MAX = 25
_TYPES_GREW = 13
"""First RDB version of Redis with more value types, key metadata and hash templates."""

# Opcodes inside a module's value.
MODULE_EOF = 0
MODULE_SINT = 1
MODULE_UINT = 2
MODULE_FLOAT = 3
MODULE_DOUBLE = 4
MODULE_STRING = 5

# Kinds of an array's elements.
ARRAY_STRING, ARRAY_INTEGER, ARRAY_FLOAT, ARRAY_SHORT_STRING = range(4)

# Bounds: what is longer is an error that says so, not an allocation.
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


class RdbHead(NamedTuple):
    """What the first bytes of a file settle for every byte after them.

    *server* is the writer's own word, ``valkey 9.1.2`` or ``redis 7.0.15`` (from aux ``valkey-ver`` or
    ``redis-ver``, empty if absent); *db* is the database that a range starts in; *bits* is 32 for a writer that was built so (aux ``redis-bits``).
    """

    dialect: str
    version: int
    server: str = ""
    db: int = 0
    bits: int = 64

    @property
    def type_max(self) -> int:
        """The largest value type that the version has; below 26 it has neither hash templates nor key metadata."""
        if self.dialect == DIALECT_VALKEY:
            return VALKEY_TYPE_MAX
        return REDIS_TYPE_MAX if self.version >= _TYPES_GREW else _REDIS_74_TYPE_MAX

    @property
    def small_lists_are_listpacks(self) -> bool:
        """Whether a list of one packed node is a listpack: Redis from 7.2, Valkey (`listTypeTryConversion`)."""
        if self.dialect == DIALECT_VALKEY or self.version >= 11:
            return True
        return self.server.startswith("valkey") or _number(self.server) >= (7, 2)

    @property
    def embstr_rule(self) -> int:
        """How the writer decides between embstr and raw: the code of a rule, see `embstr_bytes_max`.

        0: never embstr; 1: up to 39 bytes (Redis 3.0); 2: up to 44; 64 and 128: header, key, expiry and value together
        (Valkey 8.1 and 9.1, `shouldEmbedStringObject`).
        """
        if self.dialect == DIALECT_VALKEY or self.server.startswith("valkey"):
            number = _number(self.server) or (9, 1)
            return 128 if number >= (9, 1) else 64 if number >= (8, 1) else 2
        if self.version <= 5:
            return 0
        return 1 if self.version == 6 else 2


def _number(server: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,9}", server)[:2])


def embstr_bytes_max(rule: int, key_bytes: int, expires: bool) -> int:
    """Return the longest string that the writer embeds, under *rule* of `RdbHead.embstr_rule`; -1 if none."""
    if rule < 64:
        return (-1, 39, 44)[rule]
    key_header = 1 if key_bytes < 32 else 3 if key_bytes < 256 else 5 if key_bytes < 65_536 else 9
    return min(255, rule - 8 - (key_header + key_bytes + 2) - (8 if expires else 0) - 4)
