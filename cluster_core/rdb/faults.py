"""Faults of an RDB file as codes with two numbers, for kernels; `describe` makes the sentence."""

from __future__ import annotations

from cluster_core.rdb.grammar import (
    AUX_NAME_BYTES_MAX,
    KEY_BYTES_MAX,
    KEY_META_CLASSES_MAX,
    LZF_WALK_BYTES_MAX,
    OPCODE_MIN,
    TEMPLATES_MAX,
    meaning_of,
)

(
    LENGTH_PREFIX,
    LENGTH_IS_STRING,
    STRING_PREFIX,
    STRING_BYTES,
    COUNT,
    KEY_BYTES,
    LZF,
    TYPE,
    OPCODE,
    ATTRIBUTE,
    EXPIRY,
    IDLE,
    DATABASE,
    PACKED_BYTES,
    PACKED_COUNT,
    PACKED_UNITS,
    PACKED_ENTRY,
    PACKED_EMPTY,
    WALK_BYTES,
    CONTAINER,
    STREAM_ID,
    SCORE,
    MODULE_OPCODE,
    MODULE_WHEN,
    AUX_NAME,
    INTSET_WIDTH,
    STREAM_EMPTY,
    UNREAD_TYPE,
    TEMPLATE,
    TEMPLATE_NUMBER,
    KEY_META,
    ARRAY,
) = range(1, 33)

_SENTENCES = {
    LENGTH_PREFIX: "length prefix 0x{a:02x} is not defined",
    LENGTH_IS_STRING: "0x{a:02x} stands where a length is due, but it announces an encoded string",
    STRING_PREFIX: "string encoding 0x{a:02x} is not defined",
    STRING_BYTES: "a string claims {a} bytes, more than any server can hold",
    COUNT: "a count claims {a} elements, more than any server can hold",
    KEY_BYTES: f"a key name of {{a}} bytes is longer than this reader takes ({KEY_BYTES_MAX} bytes)",
    LZF: "compressed data of {a} bytes does not give the {b} bytes that it claims",
    TYPE: "value type {a} is unknown",
    UNREAD_TYPE: "value type {a} is not read",
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
    MODULE_OPCODE: "module opcode {a} is unknown",
    MODULE_WHEN: "module aux data begins with opcode {a} instead of 2",
    AUX_NAME: f"an aux field's name of {{a}} bytes is longer than this reader takes ({AUX_NAME_BYTES_MAX} bytes)",
    INTSET_WIDTH: "an intset's width is {a}, not 2, 4 or 8",
    STREAM_EMPTY: "a stream says that it has {a} entries, but it has no node",
}


def unknown(number: int) -> int:
    """Return the fault of an invalid first byte: an unknown opcode or value type."""
    return OPCODE if number >= OPCODE_MIN else TYPE


def describe(code: int, a: int, b: int) -> str:
    """Return the sentence of fault *code* with its two numbers; for a type, *b* is 1 for a Valkey file."""
    if a < 0 and code != EXPIRY:  # kernels have signed 64-bit integers only
        a += 1 << 64
    sentence = _SENTENCES[code].format(a=a, b=b)
    meaning = meaning_of(a) if code in (TYPE, UNREAD_TYPE) and not b else ""
    return f"{sentence}: {meaning}" if meaning else sentence
