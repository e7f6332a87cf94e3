"""Changes that save memory, ranked by what they save; no two of those that are added up claim the same bytes.

Who claims what: limits of packed values claim collections, buckets whole string keys, compression the texts of values.  An upgrade claims what is left: of keys that another change lays
out anew it claims nothing; an allocator, which rounds texts otherwise, too, counts only where these are not to be changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cluster_core.advice.conditions import condition_subject

SAMPLED_MIN = 30
"""Of fewer values than this, others being there, nothing is said."""
VALUE_BYTES_MAX = 1 << 16
"""Of a larger value the beginning is compressed, and the rest taken for the same; none of them is left to chance."""
ERRORS_95 = 1.96
"""Standard errors to either side within which the truth is in 95 of 100 samples."""
UNIT_BITS = 4
"""Squares are of units of 16 bytes, so that their sums stay within 64 bits."""


class TextSums(NamedTuple):
    """Of values that are worth compressing: how many, and bytes in memory.  Of those that were compressed: how many, and weighted by how many each
    stands for, bytes in memory and what they save; squares and products of both, in units, weighted by what their variances weigh.
    """

    texts: int = 0
    text_bytes: int = 0
    sampled: int = 0
    sampled_bytes: int = 0
    saved_bytes: int = 0
    saved_squares: int = 0
    products: int = 0
    bytes_squares: int = 0


class Estimate(NamedTuple):
    """What compression saves of all texts, and half the range that holds the truth in 95 of 100 samples."""

    saved_bytes: int
    error_bytes: int


def estimate(sums: TextSums) -> Estimate | None:
    """Return what compressing all texts saves, by the share that the compressed ones save; None where they are too few to say."""
    if not sums.sampled_bytes or sums.sampled < min(SAMPLED_MIN, sums.texts):
        return None
    share = sums.saved_bytes / sums.sampled_bytes
    scale = sums.text_bytes / sums.sampled_bytes
    squares = sums.saved_squares - 2 * share * sums.products + share**2 * sums.bytes_squares
    error = ERRORS_95 * scale * math.sqrt(max(squares, 0)) * (1 << UNIT_BITS)
    return Estimate(round(share * sums.text_bytes), math.ceil(error))


KNEE_SHARE = 0.8
"""The recommended limit is the first that brings this share of what the largest brings."""


class Setting(NamedTuple):
    """A limit of packed values: its name in the configuration, of which type, its usual value, the values that are tried, whether it counts
    entries (else bytes of the longest), and whether its sets are of integers only."""

    name: str
    type: str
    usual: int
    tried: tuple[int, ...]
    by_entries: bool
    integers: bool = False


_ENTRIES = (128, 256, 512, 1024, 2048, 4096)
_BYTES = (64, 128, 256, 512, 1024)
SETTINGS = (
    Setting("hash-max-listpack-entries", "hash", 512, _ENTRIES, True),
    Setting("hash-max-listpack-value", "hash", 64, _BYTES, False),
    Setting("zset-max-listpack-entries", "zset", 128, _ENTRIES, True),
    Setting("zset-max-listpack-value", "zset", 64, _BYTES, False),
    Setting("set-max-listpack-entries", "set", 128, _ENTRIES, True),
    Setting("set-max-listpack-value", "set", 64, _BYTES, False),
    Setting("set-max-intset-entries", "set", 512, (512, 1024, 2048, 4096, 8192), True, integers=True),
)
LIST_SETTING = "list-max-listpack-size"
LIST_SIZES = {-3: 16_384, -4: 32_768, -5: 65_536}
"""Its values, and the bytes of a node that each allows; -2, 8,192 bytes, is usual."""


class Step(NamedTuple):
    """What becomes packed at a value of a setting, beside the value before it: keys, bytes that they save, the most elements of one of them."""

    value: int
    keys: int
    saved_bytes: int
    walked_max: int


class Point(NamedTuple):
    """A setting at *value*: all that is packed then and is not now; *walked_max* elements must be walked to find one, at most."""

    setting: str
    value: int
    keys: int
    saved_bytes: int
    walked_max: int
    is_knee: bool


def curve(setting: str, steps: Sequence[Step]) -> list[Point]:
    """Return the running sums of *steps*, in rising order of their values, the knee marked where anything is saved."""
    points: list[Point] = []
    keys = saved = walked = 0
    for step in steps:
        keys, saved, walked = keys + step.keys, saved + step.saved_bytes, max(walked, step.walked_max)
        points.append(Point(setting, step.value, keys, saved, walked, False))
    return marked(points)


def marked(points: Sequence[Point]) -> list[Point]:
    """Return *points* with the knee marked, where anything is saved: the first that brings `KNEE_SHARE` of the most."""
    most = max((point.saved_bytes for point in points), default=0)
    knee = next((at for at, point in enumerate(points) if most > 0 and point.saved_bytes >= KNEE_SHARE * most), None)
    return [point._replace(is_knee=at == knee) for at, point in enumerate(points)]


BUCKET_KEYS = 100
PREFIXES_MAX = 10
"""Changes of one kind that are told apart by prefix: those that save most."""
SAVED_SHARE_MIN = 0.001
"""A change that saves less of the whole is not told."""
KEYS_MIN = 100
"""A prefix of fewer keys is not worth a change of programs."""


class Kind(StrEnum):
    """What is changed."""

    UPGRADE = "upgrade"
    ALLOCATOR = "allocator"
    RESTART = "restart"
    SETTING = "setting"
    BUCKET = "bucket"
    COMPRESS = "compress"


OF_ALL_KEYS = frozenset([Kind.UPGRADE, Kind.ALLOCATOR, Kind.RESTART])
"""Changes to another of the conditions, which lay out all keys anew."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: what it saves, of how many keys, how it is made, what it may cost, how it is undone.

    *subject* is the prefix, version or setting; *counted*: whether its bytes are in the sum, or it is another way to save the same.
    """

    kind: Kind
    subject: bytes
    saved_bytes: int
    keys: int
    how: str
    risk: str
    undo: str
    counted: bool = True


@dataclass(frozen=True, slots=True)
class PrefixSums:
    """Of a prefix: keys, and what the tasks add up (`slotscope.sources.keys.advice_tally.BEHIND`); *bucket_saved* by condition."""

    name: bytes
    keys: int
    now: int
    memory: Sequence[int]
    bucket_saved: Sequence[int]
    bucket_keys: int
    bucket_now: int
    bucket_payload: int
    lzf_saving: int
    texts: TextSums


@dataclass(frozen=True, slots=True)
class AdviceSums:
    """What all dumps come to: *conditions* are (server, allocator), the own one first, with *memory* under each; *setting_saved* is what each
    condition saves of the keys that the recommended value of a setting packs."""

    now: int
    keys: int
    conditions: Sequence[tuple[str, str]]
    memory: Sequence[int]
    curves: Sequence[Point]
    setting_saved: Mapping[str, Sequence[int]]
    prefixes: Sequence[PrefixSums]
    bucket_bytes: int


def rank_changes(sums: AdviceSums) -> list[Change]:
    """Return the changes worth a word, those that are added up first, each by what it saves, the largest first."""
    least = max(int(sums.now * SAVED_SHARE_MIN), 1)
    claimed = [0] * len(sums.conditions)
    settings = _settings(sums, claimed, least)
    buckets = _buckets(sums, claimed, least)
    texts = _texts(sums, least)
    changes = [*settings, *buckets, *texts, *_conditions(sums, claimed, least, rounds=not texts)]
    return sorted(changes, key=lambda one: (not one.counted, -one.saved_bytes, one.kind, one.subject))


def _settings(sums: AdviceSums, claimed: list[int], least: int) -> list[Change]:
    found = []
    for point in sums.curves:
        if not point.is_knee or point.saved_bytes < least:
            continue
        usual = next((one.usual for one in SETTINGS if one.name == point.setting), -2)
        found.append(
            Change(
                Kind.SETTING, point.setting.encode(), point.saved_bytes, point.keys,
                f"CONFIG SET {point.setting} {point.value}{_BESIDE.get(point.setting, '').format(point.value)}, then {_ANEW[point.setting == LIST_SETTING]}",
                f"commands on these keys walk up to {point.walked_max:,} {'bytes' if point.setting == LIST_SETTING else 'elements'}",
                f"CONFIG SET {point.setting} {usual}{_BESIDE.get(point.setting, '').format(512)}, and the same again",
            )
        )  # fmt: skip
        _claim(claimed, sums.setting_saved.get(point.setting, ()))
    return found


_BESIDE = {"set-max-listpack-entries": " set-max-intset-entries {}"}
"""What must be set, too: of a set that is larger than integers may be packed a server that loads it makes a table at once."""
_ANEW = (
    "load the keys anew: restart, or resync a replica and fail over",
    "write the lists anew, since a server that loads them keeps their nodes: slotscope export --type list --to resp",
)


def _claim(claimed: list[int], more: Sequence[int]) -> None:
    for at, size in enumerate(more):
        claimed[at] += size


def _buckets(sums: AdviceSums, claimed: list[int], least: int) -> list[Change]:
    """Hashes of `BUCKET_KEYS` small strings in the place of the strings."""
    found = []
    for one in sums.prefixes:
        if one.bucket_keys < KEYS_MIN or _cuts_tag(one.name):
            continue
        buckets = -(-one.bucket_keys // BUCKET_KEYS)
        saved = one.bucket_now - one.bucket_payload - buckets * (sums.bucket_bytes + len(one.name))
        if saved >= least:
            found.append((saved, one))
    found.sort(key=lambda pair: (-pair[0], pair[1].name))
    for _, one in found[:PREFIXES_MAX]:
        _claim(claimed, one.bucket_saved)
    return [
        Change(
            Kind.BUCKET, one.name, saved, one.bucket_keys,
            f"HSET PREFIX:BUCKET FIELD VALUE, {BUCKET_KEYS} keys a bucket, in the place of SET PREFIX:FIELD VALUE",
            "programs change; no expiry of single keys (before HEXPIRE: Redis 7.4, Valkey 9.0), a hash is in one slot",
            "write the strings anew from the hashes",
        )
        for saved, one in found[:PREFIXES_MAX]
    ]  # fmt: skip


def _cuts_tag(prefix: bytes) -> bool:
    """Whether *prefix* ends inside a hash tag: another one, or a hash behind it, takes keys from where their tag puts them."""
    return b"{" in prefix and b"}" not in prefix[prefix.index(b"{") :]


def _texts(sums: AdviceSums, least: int) -> list[Change]:
    found = []
    for one in sums.prefixes:
        told = estimate(one.texts)
        if told is None or told.saved_bytes < least:
            continue
        held, texts = one.texts.text_bytes, one.texts
        share, error = (100 * size / held for size in told)
        near = f"± {error:.2g}, " if told.error_bytes else ""
        known = f"{near}{'all' if texts.sampled == texts.texts else f'{texts.sampled:,}'} were compressed"
        lzf = f"; LZF, as the dump has it: {100 * one.lzf_saving / held:.0f} %" if one.lzf_saving else ""
        found.append(
            Change(
                Kind.COMPRESS, one.name, told.saved_bytes, texts.texts,
                f"compress values{'' if one.name else ' of keys without a prefix'} in the program before SET: zstd saves {share:.0f} % of {held:,} bytes ({known}){lzf}",
                "programs change; processor time; APPEND, GETRANGE and SETRANGE no longer work on them",
                "write the values anew uncompressed",
            )
        )  # fmt: skip
    return sorted(found, key=lambda change: -change.saved_bytes)[:PREFIXES_MAX]


def _uncounted(change: Change) -> Change:
    return Change(
        change.kind,
        change.subject,
        change.saved_bytes,
        change.keys,
        change.how,
        change.risk,
        change.undo,
        counted=False,
    )


def _conditions(sums: AdviceSums, claimed: Sequence[int], least: int, *, rounds: bool) -> list[Change]:
    """A restart, another allocator (if *rounds*), another version that loads these dumps: all of them lay the same keys out anew, so one of them counts."""
    server, found = sums.conditions[0][0], []
    for at, (name, other) in enumerate(sums.conditions):
        saved = sums.now - sums.memory[at] - claimed[at]
        kind = Kind.RESTART if at == 0 else Kind.ALLOCATOR if name == server else Kind.UPGRADE
        if saved >= least and (kind is not Kind.UPGRADE or _is_later(server, name)):
            found.append(Change(kind, condition_subject(name, other), saved, sums.keys, *_WORDS[kind]))
    counting = [one for one in found if one.kind is not Kind.ALLOCATOR or rounds]
    best = max(counting, key=lambda one: one.saved_bytes, default=None)
    return [one if one is best else _uncounted(one) for one in found]


_WORDS = {
    Kind.RESTART: (
        "restart, or resync a replica and fail over: tables are made to measure, room to grow is given back",
        "what grows again takes its room again, a stream's last node 4 kB with the next entry",
        "none needed",
    ),
    Kind.ALLOCATOR: (
        "build or install the same version with this allocator (MALLOC=jemalloc or libc), and load the keys anew",
        "fragmentation is not in this figure: measure it",
        "go back to the old program",
    ),
    Kind.UPGRADE: (
        "upgrade, replica by replica, and fail over",
        "another version: read its release notes; a dump of a newer server is not read by an older one",
        "keep a replica of the old version until the new one has proven itself: it cannot follow the new one",
    ),
}


def _is_later(own: str, name: str) -> bool:
    """Whether server *name* can load dumps of *own*: the same family's later version, or Valkey after Redis up to 7.2."""
    (family, version), (other, later) = (_parts(words) for words in (own, name))
    if family == other:
        return later > version
    return other == "valkey" and family == "redis" and version <= (7, 2)


def _parts(words: str) -> tuple[str, tuple[int, ...]]:
    family, _, version = words.partition(" ")
    return family, tuple(int(part) for part in version.split("."))
