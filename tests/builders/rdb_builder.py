"""A small writer of RDB files for tests: every type and encoding of both servers, and the lies of hostile files."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.writer import length_bytes as length

EOF = b"\xff"


def string(value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return length(len(raw)) + raw


def integer(value: int) -> bytes:
    """A string that is a small integer."""
    for form, code in enumerate("bhi"):
        if -(1 << (8 << form) - 1) <= value < 1 << (8 << form) - 1:
            return bytes([0xC0 | form]) + struct.pack(f"<{code}", value)
    return string(b"%d" % value)


def lzf(raw: bytes) -> bytes:
    """*raw*, not empty, compressed: runs of one byte become references, all else literals."""
    out = bytearray()
    at = 0
    while at < len(raw):
        run = 1
        while at + run < len(raw) and raw[at + run] == raw[at] and run < 265:
            run += 1
        if run < 4:
            stop = min(at + 32, len(raw))
            out += bytes([stop - at - 1]) + raw[at:stop]
            at = stop
            continue
        out += bytes([0, raw[at]])
        left = run - 1  # at least 3: a reference of that many bytes, one back
        out += bytes([(left - 2) << 5, 0]) if left < 9 else bytes([7 << 5, left - 9, 0])
        at += run
    return bytes(out)


def compressed(raw: bytes, *, claim: int | None = None, packed: bytes | None = None) -> bytes:
    """A compressed string; *claim* another length than the true one, or other compressed bytes."""
    body = lzf(raw) if packed is None else packed
    return b"\xc3" + length(len(body)) + length(len(raw) if claim is None else claim) + body


def listpack(entries: Iterable[bytes | int], *, count: int | None = None) -> bytes:
    """A listpack (not as a string); *count* another entry count than the true one."""
    out = bytearray()
    number = 0
    for entry in entries:
        out += _listpack_entry(entry)
        number += 1
    stored = min(number, 65535) if count is None else count
    return struct.pack("<IH", len(out) + 7, stored) + bytes(out) + b"\xff"


def _listpack_entry(entry: bytes | int) -> bytes:
    if isinstance(entry, int):
        if 0 <= entry < 128:
            body = bytes([entry])
        elif -4096 <= entry < 4096:
            body = bytes([0xC0 | (entry & 0x1FFF) >> 8, entry & 0xFF])
        else:
            code, size = next((c, s) for c, s in ((0xF1, 2), (0xF2, 3), (0xF3, 4), (0xF4, 8)) if _fits(entry, s))
            body = bytes([code]) + (entry & (1 << 8 * size) - 1).to_bytes(size, "little")
    elif len(entry) < 64:
        body = bytes([0x80 | len(entry)]) + entry
    elif len(entry) < 4096:
        body = bytes([0xE0 | len(entry) >> 8, len(entry) & 0xFF]) + entry
    else:
        body = b"\xf0" + struct.pack("<I", len(entry)) + entry
    size = len(body)
    back = 1 if size <= 127 else 2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5
    return body + bytes([size >> 7 * (back - 1), *(size >> 7 * place & 127 | 128 for place in range(back - 2, -1, -1))])


def _fits(value: int, size: int) -> bool:
    return -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1


def ziplist(entries: Iterable[bytes | int], *, count: int | None = None) -> bytes:
    out = bytearray()
    number = before = 0
    tail = 10
    for entry in entries:
        tail = 10 + len(out)
        head = bytes([before]) if before < 254 else b"\xfe" + struct.pack("<I", before)
        body = head + _ziplist_entry(entry)
        before = len(body)
        out += body
        number += 1
    stored = min(number, 65535) if count is None else count
    return struct.pack("<IIH", len(out) + 11, tail, stored) + bytes(out) + b"\xff"


def _ziplist_entry(entry: bytes | int) -> bytes:
    if isinstance(entry, int):
        if 0 <= entry <= 12:
            return bytes([0xF1 + entry])
        code, size = next((c, s) for c, s in ((0xFE, 1), (0xC0, 2), (0xF0, 3), (0xD0, 4), (0xE0, 8)) if _fits(entry, s))
        return bytes([code]) + (entry & (1 << 8 * size) - 1).to_bytes(size, "little")
    if len(entry) < 64:
        return bytes([len(entry)]) + entry
    if len(entry) < 16384:
        return bytes([0x40 | len(entry) >> 8, len(entry) & 0xFF]) + entry
    return b"\x80" + len(entry).to_bytes(4, "big") + entry


def intset(values: Iterable[int], width: int = 2) -> bytes:
    body = b"".join((value & (1 << 8 * width) - 1).to_bytes(width, "little") for value in values)
    return struct.pack("<II", width, len(body) // width) + body


def zipmap(pairs: Iterable[tuple[bytes, bytes]], *, count: int | None = None) -> bytes:
    """A zipmap (not as a string); values have one free byte each."""
    out = bytearray()
    number = 0
    for name, value in pairs:
        out += _zipmap_length(name) + name + _zipmap_length(value) + b"\x01" + value + b"\0"
        number += 1
    stored = min(number, 254) if count is None else count
    return bytes([stored]) + bytes(out) + b"\xff"


def _zipmap_length(raw: bytes) -> bytes:
    return bytes([len(raw)]) if len(raw) < 254 else b"\xfe" + struct.pack("<I", len(raw))


def stream(
    kind: int, entries: int, nodes: Iterable[bytes] = (b"node",), groups: int = 0, pending: int = 0, consumers: int = 0
) -> bytes:
    """A stream's value of type *kind* (15, 19, 21, 26 or 27); each consumer has half of the pending entries."""
    blobs = list(nodes)
    out = length(len(blobs)) + b"".join(string(bytes(16)) + string(blob) for blob in blobs)
    out += length(entries) + length((1 << 64) - 1) + length(7)
    if kind != 15:
        out += length(1) + length(2) + length(0) + length(0) + length(entries + 3)
    out += length(groups)
    for group in range(groups):
        out += string(f"group-{group}") + length(5) + length(6)
        if kind != 15:
            out += length((1 << 64) - 1)
        out += length(pending) + b"".join(bytes(24) + length(index * 50) for index in range(pending))
        out += length(consumers)
        for consumer in range(consumers):
            out += string(f"consumer-{consumer}") + bytes(16 if kind >= 21 else 8)
            out += length(pending // 2) + bytes(16 * (pending // 2))
        if kind == 27:
            out += length(1) + bytes(16)
    if kind >= 26:
        out += length(100) + length(70) + length(1) + string("producer") + length(2)
        out += 2 * (string("id") + length(1 << 40) + length(0)) + length(9) + length(300)
    return out


def module(*parts: bytes) -> bytes:
    """A module's value of type 7: its id, opcodes, the end."""
    return length(0x1234567890ABCDEF) + b"".join(parts) + b"\0"


MODULE_PARTS = (b"\1" + length(70_000), b"\2\x05", b"\3" + bytes(4), b"\4" + bytes(8), b"\5" + string("x" * 90))


def template(number: int, *fields: bytes) -> bytes:
    """A hash template of Redis 8.10: the names of fields, once for all hashes that have them."""
    return b"\xf2" + length(number) + length(len(fields)) + b"".join(map(string, fields))


def key_meta(*classes: bytes) -> bytes:
    """What modules keep beside the key that follows, opcodes of each class (Redis 8.6)."""
    return b"\xf3" + length(len(classes)) + b"".join(bytes(4) + parts + b"\0" for parts in classes)


def array(*elements: bytes | int | float, insert_at: int | None = None) -> bytes:
    """An array of Redis 8.8, elements at every third index."""
    out = length(len(elements)) + (b"\0" if insert_at is None else b"\1" + length(insert_at))
    for place, element in enumerate(elements):
        out += length(3 * place)
        if isinstance(element, bytes):
            out += length(3 if len(element) < 8 else 0) + string(element)
        else:
            out += (
                b"\1" + struct.pack("<q", element) if isinstance(element, int) else b"\2" + struct.pack("<d", element)
            )
    return out


def key(
    name: bytes | str,
    kind: int,
    value: bytes,
    *,
    expire_ms: int | None = None,
    expire_s: int | None = None,
    idle: int | None = None,
    freq: int | None = None,
) -> bytes:
    """The record of one key, *value* encoded by the functions above."""
    out = b""
    if expire_ms is not None:
        out += b"\xfc" + struct.pack("<q", expire_ms)
    if expire_s is not None:
        out += b"\xfd" + struct.pack("<i", expire_s)
    if idle is not None:
        out += b"\xf8" + length(idle)
    if freq is not None:
        out += b"\xf9" + bytes([freq])
    return out + bytes([kind]) + string(name) + value


def aux(name: str, value: bytes | str | int) -> bytes:
    return b"\xfa" + string(name) + (integer(value) if isinstance(value, int) else string(value))


def select(db: int) -> bytes:
    """The beginning of a database."""
    return b"\xfe" + length(db)


def resize(keys: int, expires: int) -> bytes:
    """The announced size of a database."""
    return b"\xfb" + length(keys) + length(expires)


def slot_info(slot: int, keys: int, expires: int = 0) -> bytes:
    """Redis 8's opcode before a slot's keys."""
    return b"\xf4" + length(slot) + length(keys) + length(expires)


def slot_info_aux(slot: int, keys: int, expires: int = 0) -> bytes:
    """Valkey's aux field before a slot's keys."""
    return aux("slot-info", f"{slot},{keys},{expires},0")


def rdb(*records: bytes, magic: str = "REDIS0011", checksum: bool = True) -> bytes:
    """A whole file; without *checksum* the CRC is 0, as a server writes it that has checksums off."""
    out = magic.encode() + b"".join(records) + EOF
    if magic.startswith("REDIS") and int(magic[5:]) < 5:
        return out
    return out + (crc64(out) if checksum else 0).to_bytes(8, "little")


def pairs(count: int) -> list[bytes]:
    """Names and values in turn."""
    return [part for index in range(count) for part in (b"field-%d" % index, b"value-%d" % index)]


# One record of each type: name, type byte, value, type, encoding, elements; for REDIS0012.
SAMPLES: tuple[tuple[str, int, bytes, str, str, int], ...] = (
    ("int8", 0, integer(-7), "string", "int", 2),
    ("int16", 0, integer(-1234), "string", "int", 5),
    ("int32", 0, integer(123_456_789), "string", "int", 9),
    ("int64", 0, string("-9223372036854775808"), "string", "int", 20),
    ("not-int64", 0, string("9223372036854775808"), "string", "embstr", 19),
    ("leading-zero", 0, string("012345678901"), "string", "embstr", 12),
    ("empty", 0, string(""), "string", "embstr", 0),
    ("embstr", 0, string("x" * 44), "string", "embstr", 44),
    ("raw", 0, string("x" * 45), "string", "raw", 45),
    ("lzf", 0, compressed(b"a" * 3000 + b"tail"), "string", "raw", 3004),
    ("lzf-embstr", 0, compressed(b"a" * 30), "string", "embstr", 30),
    ("hyperloglog", 0, string(b"HYLL" + bytes(23)), "string", "raw", 27),
    ("linkedlist", 1, length(3) + string("a") + integer(5) + compressed(b"b" * 99), "list", "linkedlist", 3),
    ("set", 2, length(2) + string("a") + integer(-70_000), "set", "hashtable", 2),
    (
        "zset-1",
        3,
        length(4) + string("a") + b"\x033.5" + string("b") + b"\xfd" + string("c") + b"\xfe" + string("d") + b"\xff",
        "zset",
        "skiplist",
        4,
    ),
    ("hash", 4, length(2) + b"".join(map(string, pairs(2))), "hash", "hashtable", 2),
    ("zset-2", 5, length(2) + string("a") + bytes(8) + compressed(b"b" * 70) + bytes(8), "zset", "skiplist", 2),
    ("module", 7, module(*MODULE_PARTS), "module", "raw", -1),
    ("zipmap", 9, string(zipmap([(b"a", b"b"), (b"c", b"d" * 300)])), "hash", "zipmap", 2),
    ("zipmap-walked", 9, string(zipmap([(b"%d" % i, b"v" * i) for i in range(300)])), "hash", "zipmap", 300),
    ("list-ziplist", 10, string(ziplist([b"a", 5, 100, 70_000, 1 << 40, -5])), "list", "ziplist", 6),
    ("intset", 11, string(intset([1, 2, 3])), "set", "intset", 3),
    ("intset-lzf", 11, compressed(intset([7] * 50, 8)), "set", "intset", 50),
    ("zset-ziplist", 12, string(ziplist(pairs(3))), "zset", "ziplist", 3),
    ("hash-ziplist", 13, string(ziplist([b"a" * 300, b"b" * 20_000])), "hash", "ziplist", 1),
    ("hash-ziplist-lzf", 13, compressed(ziplist([b"a" * 300, b"b" * 700])), "hash", "ziplist", 1),
    (
        "quicklist",
        14,
        length(2) + string(ziplist([b"a", b"b"])) + compressed(ziplist([b"c" * 90, 1, 2])),
        "list",
        "quicklist",
        5,
    ),
    ("stream-1", 15, stream(15, 9, groups=2, pending=4, consumers=2), "stream", "stream", 9),
    ("stream-empty", 15, stream(15, 0, nodes=()), "stream", "stream", 0),
    ("hash-listpack", 16, string(listpack(pairs(4))), "hash", "listpack", 4),
    ("hash-listpack-walked", 16, string(listpack(pairs(4), count=65535)), "hash", "listpack", 4),
    ("hash-lzf-walked", 16, compressed(listpack([b"a" * 90, b"b" * 5000], count=65535)), "hash", "listpack", 1),
    ("zset-listpack", 17, string(listpack([b"m", 1, b"n", -300, b"o", 1 << 50])), "zset", "listpack", 3),
    ("one-node", 18, length(1) + length(2) + string(listpack([b"a", b"b" * 5000])), "list", "listpack", 2),
    (
        "quicklist-2",
        18,
        length(2) + length(2) + string(listpack([b"a"])) + length(1) + string("p" * 9000),
        "list",
        "quicklist",
        2,
    ),
    ("plain-node", 18, length(1) + length(1) + compressed(b"p" * 9000), "list", "quicklist", 1),
    ("stream-2", 19, stream(19, 3, groups=1, pending=2, consumers=1), "stream", "stream", 3),
    ("set-listpack", 20, string(listpack([b"a", 1, 128, 4095])), "set", "listpack", 4),
    ("set-lzf", 20, compressed(listpack([b"a" * 60, b"b" * 60])), "set", "listpack", 2),
    ("stream-3", 21, stream(21, 5, groups=1, pending=6, consumers=3), "stream", "stream", 5),
    (
        "fields-expire-pre",
        22,
        length(2) + length(0) + string("a") + string("b") + length(1 << 40) + string("c") + string("d"),
        "hash",
        "hashtable",
        2,
    ),
    ("listpackex-pre", 23, string(listpack([b"a", b"b", 0])), "hash", "listpackex", 1),
    (
        "fields-expire",
        24,
        bytes(8) + length(2) + length(1) + string("a") + string("b") + length(0) + string("c") + string("d"),
        "hash",
        "hashtable",
        2,
    ),
    ("listpackex", 25, bytes(8) + string(listpack([b"a", b"b", 0, b"c", b"d", 99])), "hash", "listpackex", 2),
)

LATER_TEMPLATES = template(5, b"age", b"name") + template(70, b"f" * 90)
LATER_SAMPLES: tuple[tuple[str, int, bytes, str, str, int], ...] = (
    ("stream-4", 26, stream(26, 5, groups=1, pending=6, consumers=3), "stream", "stream", 5),
    ("stream-5", 27, stream(27, 5, groups=2, pending=2, consumers=1), "stream", "stream", 5),
    ("array", 28, array(b"short", 5, 2.5, b"x" * 300, insert_at=1 << 40), "array", "sliced-array", 4),
    ("array-empty", 28, array(), "array", "sliced-array", 0),
    ("template-lp", 30, string(listpack([5, b"42", b"edith"])), "hash", "template-listpack", 2),
    ("template-array", 32, length(5) + integer(42) + string("edith"), "hash", "template-array", 2),
    ("template-array-70", 32, length(70) + compressed(b"v" * 500), "hash", "template-array", 1),
)
"""The same for REDIS0015, after `LATER_TEMPLATES`."""

VALKEY_HASH_2 = length(2) + string("a") + string("b") + b"\xff" * 8 + string("c") + compressed(b"d" * 50) + bytes(8)
"""A value of type 22 as Valkey means it: field, value, expiry."""
