"""Changes that save memory, ranked by savings; the bytes of summed changes are disjoint.

An upgrade or allocator counts only keys that no limit of packed values re-encodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from cluster_core.memory.layouts import layout_named
from cluster_core.memory.model import MemoryModel
from cluster_core.memory.structures import ALLOCATORS

SERVERS = ("redis-6.2", "redis-7.0", "redis-7.2", "redis-8.0", "valkey-8.0", "valkey-8.1", "valkey-9.0", "valkey-9.1")
"""Layouts to compare."""


class PackedLimits(NamedTuple):
    """Limits on entries and lengths of packed values; *list_bytes* is ``list-max-listpack-size -2``."""

    hash_entries: int = 512
    hash_value: int = 64
    zset_entries: int = 128
    zset_value: int = 64
    set_integers: int = 512
    set_entries: int = 128
    set_value: int = 64
    list_bytes: int = 8192


class Condition(NamedTuple):
    """A server version, allocator and packed limits, with all keys as loaded from a dump."""

    model: MemoryModel
    limits: PackedLimits = PackedLimits()

    @property
    def server(self) -> str:
        """Return the version, ``redis 7.0``."""
        return self.model.layout.name

    @property
    def allocator(self) -> str:
        """Return the allocator's name."""
        return ALLOCATORS[self.model.allocator]

    def rules(self) -> tuple[int, ...]:
        """Return the limits that `cluster_core.rdb.shapes` uses to choose encodings, in the order of its names."""
        limits, types = self.limits, self.model.layout.types
        packs_sets = "SET_LISTPACK" in types
        sets = (limits.set_entries, limits.set_value) if packs_sets else (0, 0)
        embstr_rule = self.model.layout.embeds_max or 2
        return (
            limits.hash_entries, limits.hash_value, limits.zset_entries, limits.zset_value, limits.set_integers, *sets, limits.list_bytes if packs_sets else 0, int("HASH_LISTPACK" not in types), embstr_rule,
        )  # fmt: skip


def condition_subject(server: str, allocator: str) -> bytes:
    """Return the name of a change to this server and allocator."""
    return f"{server}, {allocator}".encode()


def conditions_for(own: MemoryModel) -> list[Condition]:
    """Return conditions to compare: the dump's server after a load, other allocators, then all `SERVERS`."""
    loaded = own._replace(loaded=True)
    allocators = [loaded._replace(allocator=code) for code in range(len(ALLOCATORS)) if code != own.allocator]
    layouts = [layout_named(name) for name in SERVERS]
    versions = [loaded._replace(layout=layout) for layout in layouts if layout != own.layout]
    return [Condition(model) for model in (loaded, *allocators, *versions)]


KNEE_SHARE = 0.8
"""The recommended limit is the first with this share of the largest limit's savings."""


class Setting(NamedTuple):
    """A limit of packed values: its values are entries if *by_entries*, else bytes of the longest; *integers*: sets of integers."""

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
    """Return cumulative sums of *steps* by value; the knee is the first point with `KNEE_SHARE` of the maximum."""
    points: list[Point] = []
    keys = saved = walked = 0
    for step in steps:
        keys, saved, walked = keys + step.keys, saved + step.saved_bytes, max(walked, step.walked_max)
        points.append(Point(setting, step.value, keys, saved, walked, False))
    most = max((point.saved_bytes for point in points), default=0)
    knee = next((at for at, point in enumerate(points) if most > 0 and point.saved_bytes >= KNEE_SHARE * most), None)
    return [point._replace(is_knee=at == knee) for at, point in enumerate(points)]


SAVED_SHARE_MIN = 0.001
"""Minimum share of all memory that a listed change saves."""


class Kind(StrEnum):
    """Kind of change."""

    UPGRADE = "upgrade"
    ALLOCATOR = "allocator"
    RESTART = "restart"
    SETTING = "setting"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of *subject* (version or setting): savings, keys, application, risk and rollback.

    *counted*: its bytes are in the sum; otherwise it is an alternative.
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


def rank_changes(sums: AdviceSums) -> list[Change]:
    """Return relevant changes: counted ones first, each group by descending savings."""
    least = max(int(sums.now * SAVED_SHARE_MIN), 1)
    claimed = [0] * len(sums.conditions)
    changes = [*_settings(sums, claimed, least), *_conditions(sums, claimed, least)]
    return sorted(changes, key=lambda item: (not item.counted, -item.saved_bytes, item.kind, item.subject))


def _settings(sums: AdviceSums, claimed: list[int], least: int) -> list[Change]:
    """Return the recommended limits, and add what each saves under every condition to *claimed*."""
    result = []
    for point in sums.curves:
        if not point.is_knee or point.saved_bytes < least:
            continue
        usual = next(item.usual for item in SETTINGS if item.name == point.setting)
        beside = _BESIDE.get(point.setting, "")
        result.append(
            Change(
                Kind.SETTING, point.setting.encode(), point.saved_bytes, point.keys,
                f"CONFIG SET {point.setting} {point.value}{beside.format(point.value)}, then load the keys anew: restart, or resync a replica and fail over",
                f"commands on these keys walk up to {point.walked_max:,} elements",
                f"CONFIG SET {point.setting} {usual}{beside.format(512)}, and the same again",
            )
        )  # fmt: skip
        for at, size in enumerate(sums.setting_saved.get(point.setting, ())):
            claimed[at] += size
    return result


_BESIDE = {"set-max-listpack-entries": " set-max-intset-entries {}"}
"""Settings to change together: a larger integer set would become a table on load."""


def _conditions(sums: AdviceSums, claimed: Sequence[int], least: int) -> list[Change]:
    """Return a restart, another allocator and later versions; only one counts, as each re-encodes the same keys."""
    server, result = sums.conditions[0][0], []
    for at, (name, other) in enumerate(sums.conditions):
        saved = sums.now - sums.memory[at] - claimed[at]
        kind = Kind.RESTART if at == 0 else Kind.ALLOCATOR if name == server else Kind.UPGRADE
        if saved >= least and (kind is not Kind.UPGRADE or _is_later(server, name)):
            result.append(Change(kind, condition_subject(name, other), saved, sums.keys, *_EXPLANATIONS[kind]))
    best = max(result, key=lambda item: item.saved_bytes, default=None)
    return [replace(item, counted=item is best) for item in result]


_EXPLANATIONS = {
    Kind.RESTART: (
        "restart, or resync a replica and fail over: tables are made to measure, room to grow is given back",
        "memory rises again as values grow; the last node of a stream takes 4 kB with the next entry",
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
    """Return whether *name* loads dumps of *own*: later in the family, or Valkey after Redis up to 7.2."""
    (family, version), (other, later) = (_parts(name_text) for name_text in (own, name))
    if family == other:
        return later > version
    return other == "valkey" and family == "redis" and version <= (7, 2)


def _parts(server: str) -> tuple[str, tuple[int, ...]]:
    family, _, version = server.partition(" ")
    return family, tuple(int(part) for part in version.split("."))
