"""Makes key-space reports for tests: three masters, skewed load, and hostile names on request."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from cluster_core.slots.key_slot import key_slot
from schemas.caveats import Caveat
from slotscope.reports.keyspace.parts import SavingsReport, UseReport
from slotscope.reports.keyspace.report import SLOT_COUNT, KeyspaceReport, SlotLoad
from slotscope.reports.records import Row

TAKEN_AT_MS = 1_790_000_000_000
HOSTILE_KEYS = (
    b"<script>alert(1)</script>",
    b"</script><script>alert(2)</script><!--",
    b"\"><img src=x onerror=alert(3)>'",
    b"{{ 7*7 }}{% raw %}",
    b"[bold red]markup[/]",
    b"\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "right\u202eleft\u2066isolate".encode(),
    b"nul\x00byte",
    b"\xff\xfe not utf-8 \xc3",
    "line\u2028separator\u2029paragraph".encode(),
    "zero\u200bwidth\ufeff".encode(),
    ("z" + "\u0301" * 40 + "algo").encode(),
    b"new\r\nline\ttab",
    b'=HYPERLINK("x")',
    b"back\\slash\\x00",
    b" spaces ",
    b"",
    b"k" * 10_240,
)
Changed = TypeVar("Changed", bound=Row)
_RANGES = (range(5461), range(5461, 10923), range(10923, 16384))


def changed(row: Changed, **values: Any) -> Changed:
    """Return *row* with other *values*."""
    return type(row)(**vars(row) | values)


def key_group(name: bytes, slot: int | None = None, keys: int = 0, size: int | None = None, **more: Any) -> Row:
    """A hash tag or a prefix."""
    errors = dict.fromkeys(("keys_error", "bytes_error", "memory_error", "depth"), 0)
    return Row(
        **{"name": name, "slot": slot, "keys": keys, "serialized_bytes": size, "memory_bytes": None, **errors, **more}
    )


@cache
def keyspace_report(*, seed: int = 7, hostile: bool = False, sizes: bool = True, masters: int = 3) -> KeyspaceReport:
    """Build a snapshot in which ``big:list`` and ``{user1}`` weigh most; *hostile* adds `HOSTILE_KEYS`."""
    chance = random.Random(seed)
    slots = _slots(chance, masters)
    nodes = _nodes(slots, masters)
    big_keys = _big_keys(chance, slots, nodes)
    if hostile:
        slots, big_keys = _with_hostile_keys(slots, big_keys)
    user_slot, names = key_slot(b"user1"), (HOSTILE_KEYS if hostile else ())
    report = KeyspaceReport(
        snapshot_id="2026-09-21<b>\x1b[1m" if hostile else "2026-09-21",
        taken_at_ms=TAKEN_AT_MS,
        sources=_sources(nodes),
        warnings=_warnings(names),
        nodes=nodes,
        slots=slots,
        big_keys=big_keys,
        hash_tags=[
            key_group(
                b"user1",
                user_slot,
                slots[user_slot].keys * 4 // 5,
                (slots[user_slot].serialized_bytes or 0) * 4 // 5,
            ),
            *(
                key_group(
                    f"tenant:{n}".encode(),
                    key_slot(f"tenant:{n}".encode()),
                    400 - n,
                    90_000 - n,
                    keys_error=12,
                    bytes_error=900,
                )
                for n in range(20)
            ),
            *(key_group(name, key_slot(name), 3, 300) for name in names),
        ],
        prefixes=[
            key_group(b"cache:", None, 90_000, 41_200_000),
            key_group(b"cache:page:", None, 70_000, 32_000_000, depth=1),
            key_group(b"session:", None, 40_000, 9_000_000, keys_error=40, bytes_error=9_000),
            *(key_group(name + b":", None, 2, 200) for name in names),
        ],
        ttl_buckets=_ttl_buckets(slots),
        bad_records=2 if hostile else 0,
        sizes=[
            Row(at_least=64 << bits, keys=90_000 >> bits, total=(90_000 >> bits) * (80 << bits)) for bits in range(14)
        ],
        elements=[Row(at_least=1 << bits, keys=500 >> bits, total=700) for bits in range(8)],
    )
    return report if sizes else without_sizes(report)


def without_sizes(report: KeyspaceReport) -> KeyspaceReport:
    """Return *report* as made from a key list that knows no sizes."""
    return replace(
        report,
        slots=[replace(slot, serialized_bytes=None, top_key_bytes=None) for slot in report.slots],
        nodes=[changed(node, serialized_bytes=None) for node in report.nodes],
        big_keys=[],
        hash_tags=[changed(tag, serialized_bytes=None) for tag in report.hash_tags],
        prefixes=[changed(prefix, serialized_bytes=None) for prefix in report.prefixes],
        ttl_buckets=[changed(bucket, serialized_bytes=None) for bucket in report.ttl_buckets],
        sizes=[],
    )


def empty_report() -> KeyspaceReport:
    """Return the report of an empty snapshot without a topology."""
    slots = [SlotLoad(slot, None, 0, None, 0, None, None) for slot in range(SLOT_COUNT)]
    return KeyspaceReport("empty", None, [], [], [], slots, [], [], [], [])


def _owners(masters: int) -> list[int]:
    if masters == len(_RANGES):
        return [next(at for at, slots in enumerate(_RANGES) if slot in slots) for slot in range(SLOT_COUNT)]
    return [slot * masters // SLOT_COUNT for slot in range(SLOT_COUNT)]


def _slots(chance: random.Random, masters: int) -> list[SlotLoad]:
    owners, slots = _owners(masters), []
    user_slot, list_slot = key_slot(b"user1"), key_slot(b"big:list")
    for slot in range(SLOT_COUNT):
        keys = chance.randrange(0, 24) * (2 if owners[slot] == 0 else 1)
        top = chance.randrange(100, 4000)
        size = keys * chance.randrange(80, 600) + (top if keys else 0)
        name = f"cache:page:{chance.randrange(10**6)}".encode()
        if slot == user_slot:
            keys, top, size, name = 12_345, 900, 6_000_000, b"{user1}:cart"
        elif slot == list_slot:
            keys, top, size, name = 14, 14_200_000, 14_600_000, b"big:list"
        known = keys > 0
        slots.append(
            SlotLoad(slot, owners[slot], keys, size, keys // 3, name if known else None, top if known else None)
        )
    return slots


def _nodes(slots: list[SlotLoad], masters: int) -> list[Row]:
    owned: list[list[SlotLoad]] = [[] for _ in range(masters)]
    for slot in slots:
        owned[slot.owner or 0].append(slot)
    return [
        Row(
            node_id=f"{(at + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}" + "0" * 24,
            address=f"10.0.{at // 250}.{at % 250 + 1}:6379",
            slots=len(mine),
            keys=sum(slot.keys for slot in mine),
            expires=sum(slot.expires for slot in mine),
            serialized_bytes=sum(slot.serialized_bytes or 0 for slot in mine),
            memory_bytes=None,
            ops=None,
            unread_share=0.0,
        )
        for at, mine in enumerate(owned)
    ]


def _big_keys(chance: random.Random, slots: list[SlotLoad], nodes: list[Row]) -> list[Row]:
    heaviest = sorted((slot for slot in slots if slot.top_key), key=lambda slot: -(slot.top_key_bytes or 0))[:40]
    return [
        Row(
            key=slot.top_key or b"",
            db=0,
            slot=slot.slot,
            node_id=nodes[slot.owner or 0].node_id,
            type=chance.choice(["string", "list", "hash", "zset"]),
            encoding=chance.choice(["raw", "quicklist", "hashtable", "skiplist"]),
            elements=chance.randrange(1, 100_000),
            serialized_bytes=slot.top_key_bytes,
            expire_at_ms=TAKEN_AT_MS + 86_400_000 if chance.random() < 0.4 else None,
            memory_bytes=None,
            estimate=None,
        )
        for slot in heaviest
    ]


def _with_hostile_keys(slots: list[SlotLoad], big_keys: list[Row]) -> tuple[list[SlotLoad], list[Row]]:
    slots = list(slots)
    for key in HOSTILE_KEYS:
        slot = key_slot(key)
        slots[slot] = replace(slots[slot], keys=max(slots[slot].keys, 1), top_key=key, top_key_bytes=20_000)
    hostile = [changed(big_keys[0], key=key, slot=key_slot(key)) for key in HOSTILE_KEYS]
    return slots, hostile + big_keys


def _sources(nodes: list[Row]) -> list[Row]:
    dumps = [
        source_row(f"dumps/node-{at}.rdb", node_id=node.node_id, keys=node.keys, file_bytes=1_000_000 + at)
        for at, node in enumerate(nodes)
    ]
    return [*dumps, source_row("dumps/nodes.txt", kind="topology", facts={"masters": str(len(nodes))})]


def source_row(source: str, **more: Any) -> Row:
    """An input file, by default an empty dump of an unknown node."""
    facts = {"version": "80", "slot-info": "yes"}
    known = {"kind": "rdb", "node_id": None, "keys": 0, "file_bytes": 900, "facts": facts, "unread_share": 0.0}
    return Row(source=source, **known | more)


def _warnings(names: tuple[bytes, ...]) -> list[Caveat]:
    return [
        Caveat(
            "warning",
            "foreign-keys",
            "dumps/node-1.rdb holds 12 keys in 3 slots that its node does not own (117, 118, 4002)",
        ),
        Caveat("error", "cut-short", "dumps/node-2.rdb: offset 904211: the file ends inside a value"),
        Caveat("note", "no-memory", "no source tells memory; bytes are those of the dump"),
        *(Caveat("warning", "hostile", "key " + name.decode("utf-8", "surrogateescape")) for name in names),
    ]


def _ttl_buckets(slots: list[SlotLoad]) -> list[Row]:
    expires, keys = sum(slot.expires for slot in slots), sum(slot.keys for slot in slots)
    labels = ("already expired", "under 1 hour", "under 1 day", "under 30 days", "30 days or more")
    parts = [expires * share // 100 for share in (2, 18, 40, 30)]
    parts.append(expires - sum(parts))
    sized = [
        Row(label=label, keys=part, serialized_bytes=part * 310) for label, part in zip(labels, parts, strict=True)
    ]
    return [*sized, Row(label="never", keys=keys - expires, serialized_bytes=(keys - expires) * 300)]


def _use_of(name: bytes, size: int, rate: float) -> Row:
    spans = ("untouched_1d", "untouched_7d", "untouched_30d", "expiring_1h", "expiring_1d", "expiring_7d", "expiring")
    sizes = (size // 2, size // 4, 0, 10, 20, 30, size // 2)
    known = {f"{span}_bytes": part for span, part in zip(spans, sizes, strict=True)}
    rates = {"ops_per_s": rate, "ops_per_s_error": 0.5}
    return Row(name=name, keys=100, weight_bytes=size, expires=40, never_expiring=60, **known, **rates)


def full_report() -> KeyspaceReport:
    """A hostile report with as much use and as many savings as a page shows."""
    names = [*HOSTILE_KEYS, *(b"prefix-%d:" % number for number in range(500))]
    use = UseReport(
        _use_of(b"", 9_000_000, 5.0), [_use_of(b"1" * 40, 9, 1.0)], [_use_of(name, 90_000, 2.0) for name in names]
    )
    changes = [
        Row(
            rank=rank, kind=kind, name=kind, subject=name, saved_bytes=1000, keys=10, how="how " * 20, risk="risk " * 20,
            undo="undo " * 10, counted=kind != "expire",
        )
        for rank, (name, kind) in enumerate(zip(names[:60], ["bucket", "compress", "expire"] * 20, strict=True))
    ]  # fmt: skip
    server = Row(server="redis 7.0", allocator="libc", now_bytes=10**7, memory_bytes=9 * 10**6, unmeasured_keys=3)
    savings = SavingsReport(changes, [server] * 10)
    return replace(keyspace_report(hostile=True), use=use, savings=savings)
