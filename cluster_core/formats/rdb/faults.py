"""What can be wrong with an RDB file, as codes that the plain skim and its compiled twin share.

A kernel cannot raise, so it returns a code and two numbers; `describe` makes the sentence for both twins.
"""

from __future__ import annotations

from cluster_core.formats.rdb.opcodes import (
    AUX_NAME_BYTES_MAX,
    KEY_BYTES_MAX,
    KEY_META_CLASSES_MAX,
    LZF_WALK_BYTES_MAX,
    TEMPLATES_MAX,
)

LENGTH_PREFIX = 1
LENGTH_IS_STRING = 2
STRING_PREFIX = 3
STRING_BYTES = 4
COUNT = 5
KEY_BYTES = 6
LZF = 7
TYPE = 8
OPCODE = 9
ATTRIBUTE = 10
EXPIRY = 11
IDLE = 12
DATABASE = 13
PACKED_BYTES = 14
PACKED_COUNT = 15
PACKED_UNITS = 16
PACKED_ENTRY = 17
PACKED_EMPTY = 18
WALK_BYTES = 19
CONTAINER = 20
STREAM_ID = 21
SCORE = 22
MODULE_PRE_GA = 23
MODULE_OPCODE = 24
MODULE_WHEN = 25
SLOT_INFO = 26
AUX_NAME = 27
INTSET_WIDTH = 28
STREAM_EMPTY = 29
TYPE_UNREADABLE = 30
TEMPLATE = 31
TEMPLATE_NUMBER = 32
KEY_META = 33
ARRAY = 34

_SENTENCES = {
    LENGTH_PREFIX: "length prefix 0x{a:02x} is not defined",
    LENGTH_IS_STRING: "0x{a:02x} stands where a length is due, but it announces an encoded string",
    STRING_PREFIX: "string encoding 0x{a:02x} is not defined",
    STRING_BYTES: "a string claims {a} bytes, more than any server can hold",
    COUNT: "a count claims {a} elements, more than any server can hold",
    KEY_BYTES: f"a key name of {{a}} bytes is longer than this reader takes ({KEY_BYTES_MAX} bytes)",
    LZF: "compressed data of {a} bytes does not give the {b} bytes that it claims",
    TYPE: "value type {a} is unknown",
    TYPE_UNREADABLE: "value type {a} is not read",
    TEMPLATE: "hash template {a} was not defined before",
    TEMPLATE_NUMBER: f"hash template number {{a}} is larger than this reader takes ({TEMPLATES_MAX})",
    KEY_META: f"a key has metadata of {{a}} classes, more than a server can have ({KEY_META_CLASSES_MAX})",
    ARRAY: "an array's element of kind {a}, or flag, is unknown",
    OPCODE: "opcode {a} is unknown",
    ATTRIBUTE: "opcode {a} stands between a key's expiry, idle time or frequency and the key",
    EXPIRY: "an expiry of {a} lies before 1970",
    IDLE: "an idle time of {a} s is not possible",
    DATABASE: "database number {a} is not possible",
    PACKED_BYTES: "a packed value says that it has {a} bytes, but its string has {b}",
    PACKED_COUNT: "a packed value of {b} bytes cannot hold {a} entries",
    PACKED_UNITS: "{a} packed entries do not make elements of {b} entries each",
    PACKED_ENTRY: "a packed value has an entry that runs past its end or has no defined form (after {a} entries)",
    PACKED_EMPTY: "a packed value of {a} bytes is too short for its own header",
    WALK_BYTES: (
        "a compressed packed value of {a} bytes must be expanded to count its entries, and is larger"
        f" than this reader takes ({LZF_WALK_BYTES_MAX} bytes)"
    ),
    CONTAINER: "quicklist container {a} is unknown",
    STREAM_ID: "a stream node's key is not an id of 16 bytes",
    SCORE: "a score's length {a} is not possible",
    MODULE_PRE_GA: "value type 6 is a module of a Redis 4.0 release candidate, which no server reads",
    MODULE_OPCODE: "module opcode {a} is unknown",
    MODULE_WHEN: "module aux data begins with opcode {a} instead of 2",
    SLOT_INFO: "slot info is not a slot with its keys and, no more than these, its expiring keys",
    AUX_NAME: f"an aux field's name of {{a}} bytes is longer than this reader takes ({AUX_NAME_BYTES_MAX} bytes)",
    INTSET_WIDTH: "an intset's width is {a}, not 2, 4 or 8",
    STREAM_EMPTY: "a stream says that it has {a} entries, but it has no node",
}


_LATER_TYPES = {
    26: "a stream with idempotent producers, Redis 8.6",
    27: "a stream with entries handed back, Redis 8.8",
    28: "an array, Redis 8.8",
    29: "a hash by template as DUMP writes it, Redis 8.10",
    30: "a hash by template, Redis 8.10",
    31: "a hash by template as DUMP writes it, Redis 8.10",
    32: "a hash by template, Redis 8.10",
    33: "a rate limiter, experimental builds of Redis 8.8 and later",
}


def describe(code: int, a: int, b: int) -> str:
    """Return the sentence of fault *code* with its two numbers; *b* of a type is whether the file is one of Valkey."""
    if a < 0 and code != EXPIRY:  # a kernel's 64 bits have a sign
        a += 1 << 64
    sentence = _SENTENCES[code].format(a=a, b=b)
    if code in (TYPE, TYPE_UNREADABLE) and not b and a in _LATER_TYPES:
        return f"{sentence}: {_LATER_TYPES[a]}"
    return sentence
