"""Changes that save memory, ranked by savings; the bytes of summed changes are disjoint.

Limits of packed values cover collections, buckets cover whole string keys, compression covers string contents. An
upgrade counts only keys that no other change re-encodes. An allocator also rounds strings, so it counts only if no
strings change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cluster_core.advice.conditions import condition_subject

SAMPLED_MIN = 30
"""Minimum sample per group; smaller samples of a larger group give no estimate."""
VALUE_BYTES_MAX = 1 << 16
"""Compressed bytes per value; the rest is assumed to compress alike. Larger values are always sampled."""
ERRORS_95 = 1.96
"""Standard errors of a 95 % confidence interval."""
UNIT_BITS = 4
"""Squares use units of 16 bytes, so that sums fit 64 bits."""


class TextSums(NamedTuple):
    """Sums for compression: number and bytes of eligible values; number of compressed samples; their weighted bytes and
    savings; variance-weighted squares and products of both, in units.
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
    """Bytes that compression saves, and the half-width of the 95 % confidence interval."""

    saved_bytes: int
    error_bytes: int


def estimate(sums: TextSums) -> Estimate | None:
    """Estimate the savings of compressing all strings from the sample; None if the sample is too small."""
    if not sums.sampled_bytes or sums.sampled < min(SAMPLED_MIN, sums.texts):
        return None
    share = sums.saved_bytes / sums.sampled_bytes
    scale = sums.text_bytes / sums.sampled_bytes
    squares = sums.saved_squares - 2 * share * sums.products + share**2 * sums.bytes_squares
    error = ERRORS_95 * scale * math.sqrt(max(squares, 0)) * (1 << UNIT_BITS)
    return Estimate(round(share * sums.text_bytes), math.ceil(error))


KNEE_SHARE = 0.8
"""The recommended limit is the first with this share of the largest limit's savings."""


class Setting(NamedTuple):
    """A limit of packed values: setting name, type, default, candidate values, whether it counts entries (else bytes of
    the longest), and whether it applies to integer sets only.
    """

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
"""Values, and the bytes per node that each allows; the default -2 allows 8,192."""


class Step(NamedTuple):
    """Keys that become packed at a value but not at the previous one: number, bytes saved, maximum elements per key."""

    value: int
    keys: int
    saved_bytes: int
    walked_max: int


class Point(NamedTuple):
    """Keys packed at *value* and not packed now; finding an element walks at most *walked_max* elements."""

    setting: str
    value: int
    keys: int
    saved_bytes: int
    walked_max: int
    is_knee: bool


def curve(setting: str, steps: Sequence[Step]) -> list[Point]:
    """Return cumulative sums of *steps*, in ascending order of value, with the knee marked if anything is saved."""
    points: list[Point] = []
    keys = saved = walked = 0
    for step in steps:
        keys, saved, walked = keys + step.keys, saved + step.saved_bytes, max(walked, step.walked_max)
        points.append(Point(setting, step.value, keys, saved, walked, False))
    return marked(points)


def marked(points: Sequence[Point]) -> list[Point]:
    """Return *points* with the knee marked if anything is saved: the first with `KNEE_SHARE` of the maximum."""
    most = max((point.saved_bytes for point in points), default=0)
    knee = next((at for at, point in enumerate(points) if most > 0 and point.saved_bytes >= KNEE_SHARE * most), None)
    return [point._replace(is_knee=at == knee) for at, point in enumerate(points)]


BUCKET_KEYS = 100
PREFIXES_MAX = 10
"""Maximum changes of one kind listed by prefix, largest savings first."""
SAVED_SHARE_MIN = 0.001
"""Minimum share of all memory that a listed change saves."""
KEYS_MIN = 100
"""Minimum keys of a prefix; fewer do not justify a change of applications."""


class Kind(StrEnum):
    """Kind of change."""

    UPGRADE = "upgrade"
    ALLOCATOR = "allocator"
    RESTART = "restart"
    SETTING = "setting"
    BUCKET = "bucket"
    COMPRESS = "compress"


@dataclass(frozen=True, slots=True)
class Change:
    """One change: savings, number of keys, how to apply it, its risk and how to undo it.

    *subject*: the prefix, version or setting. *counted*: its bytes are in the sum; otherwise it is an alternative.
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
    """Sums of a prefix: keys and amounts (`slotscope.sources.keys.advice_tally.BEHIND`); *bucket_saved* by condition."""

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
    """Totals of all dumps.

    *conditions* are (server, allocator), the current one first, with *memory* under each; *setting_saved* is the
    savings under each condition on the keys that the recommended setting packs.
    """

    now: int
    keys: int
    conditions: Sequence[tuple[str, str]]
    memory: Sequence[int]
    curves: Sequence[Point]
    setting_saved: Mapping[str, Sequence[int]]
    prefixes: Sequence[PrefixSums]
    bucket_bytes: int


def rank_changes(sums: AdviceSums) -> list[Change]:
    """Return relevant changes: counted ones first, each group by descending savings."""
    least = max(int(sums.now * SAVED_SHARE_MIN), 1)
    claimed = [0] * len(sums.conditions)
    settings = _settings(sums, claimed, least)
    buckets = _buckets(sums, claimed, least)
    texts = _texts(sums, least)
    changes = [*settings, *buckets, *texts, *_conditions(sums, claimed, least, rounds=not texts)]
    return sorted(changes, key=lambda item: (not item.counted, -item.saved_bytes, item.kind, item.subject))


def _settings(sums: AdviceSums, claimed: list[int], least: int) -> list[Change]:
    result = []
    for point in sums.curves:
        if not point.is_knee or point.saved_bytes < least:
            continue
        usual = next((item.usual for item in SETTINGS if item.name == point.setting), -2)
        result.append(
            Change(
                Kind.SETTING, point.setting.encode(), point.saved_bytes, point.keys,
                f"CONFIG SET {point.setting} {point.value}{_BESIDE.get(point.setting, '').format(point.value)}, then {_ANEW[point.setting == LIST_SETTING]}",
                f"commands on these keys walk up to {point.walked_max:,} {'bytes' if point.setting == LIST_SETTING else 'elements'}",
                f"CONFIG SET {point.setting} {usual}{_BESIDE.get(point.setting, '').format(512)}, and the same again",
            )
        )  # fmt: skip
        _claim(claimed, sums.setting_saved.get(point.setting, ()))
    return result


_BESIDE = {"set-max-listpack-entries": " set-max-intset-entries {}"}
"""Settings to change together: a larger integer set would become a table on load."""
_ANEW = (
    "load the keys anew: restart, or resync a replica and fail over",
    "write the lists anew, since a server that loads them keeps their nodes: slotscope export --type list --to resp",
)


def _claim(claimed: list[int], more: Sequence[int]) -> None:
    for at, size in enumerate(more):
        claimed[at] += size


def _buckets(sums: AdviceSums, claimed: list[int], least: int) -> list[Change]:
    """Return hashes of `BUCKET_KEYS` small strings that replace the strings."""
    result = []
    for item in sums.prefixes:
        if item.bucket_keys < KEYS_MIN or _cuts_tag(item.name):
            continue
        buckets = -(-item.bucket_keys // BUCKET_KEYS)
        saved = item.bucket_now - item.bucket_payload - buckets * (sums.bucket_bytes + len(item.name))
        if saved >= least:
            result.append((saved, item))
    result.sort(key=lambda pair: (-pair[0], pair[1].name))
    for _, item in result[:PREFIXES_MAX]:
        _claim(claimed, item.bucket_saved)
    return [
        Change(
            Kind.BUCKET, item.name, saved, item.bucket_keys,
            f"HSET PREFIX:BUCKET FIELD VALUE, {BUCKET_KEYS} keys a bucket, in the place of SET PREFIX:FIELD VALUE",
            "programs change; no expiry of single keys (before HEXPIRE: Redis 7.4, Valkey 9.0), a hash is in one slot",
            "write the strings anew from the hashes",
        )
        for saved, item in result[:PREFIXES_MAX]
    ]  # fmt: skip


def _cuts_tag(prefix: bytes) -> bool:
    """Return whether *prefix* ends inside a hash tag, so that a bucket would change the slot of its keys."""
    return b"{" in prefix and b"}" not in prefix[prefix.index(b"{") :]


def _texts(sums: AdviceSums, least: int) -> list[Change]:
    result = []
    for item in sums.prefixes:
        estimated = estimate(item.texts)
        if estimated is None or estimated.saved_bytes < least:
            continue
        held, texts = item.texts.text_bytes, item.texts
        share, error = (100 * size / held for size in estimated)
        near = f"± {error:.2g}, " if estimated.error_bytes else ""
        known = f"{near}{'all' if texts.sampled == texts.texts else f'{texts.sampled:,}'} were compressed"
        lzf = f"; LZF, as the dump has it: {100 * item.lzf_saving / held:.0f} %" if item.lzf_saving else ""
        result.append(
            Change(
                Kind.COMPRESS, item.name, estimated.saved_bytes, texts.texts,
                f"compress values{'' if item.name else ' of keys without a prefix'} in the program before SET: zstd saves {share:.0f} % of {held:,} bytes ({known}){lzf}",
                "programs change; processor time; APPEND, GETRANGE and SETRANGE no longer work on them",
                "write the values anew uncompressed",
            )
        )  # fmt: skip
    return sorted(result, key=lambda change: -change.saved_bytes)[:PREFIXES_MAX]


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
    """Return a restart, another allocator (if *rounds*) and later versions; only one counts, as each re-encodes the
    same keys.
    """
    server, result = sums.conditions[0][0], []
    for at, (name, other) in enumerate(sums.conditions):
        saved = sums.now - sums.memory[at] - claimed[at]
        kind = Kind.RESTART if at == 0 else Kind.ALLOCATOR if name == server else Kind.UPGRADE
        if saved >= least and (kind is not Kind.UPGRADE or _is_later(server, name)):
            result.append(Change(kind, condition_subject(name, other), saved, sums.keys, *_WORDS[kind]))
    counting = [item for item in result if item.kind is not Kind.ALLOCATOR or rounds]
    best = max(counting, key=lambda item: item.saved_bytes, default=None)
    return [item if item is best else _uncounted(item) for item in result]


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
    """Return whether server *name* loads dumps of *own*: a later version of the family, or Valkey after Redis up to
    7.2.
    """
    (family, version), (other, later) = (_parts(words) for words in (own, name))
    if family == other:
        return later > version
    return other == "valkey" and family == "redis" and version <= (7, 2)


def _parts(words: str) -> tuple[str, tuple[int, ...]]:
    family, _, version = words.partition(" ")
    return family, tuple(int(part) for part in version.split("."))
