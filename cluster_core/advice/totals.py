"""Totals over all values, as input to the ranking; hints on expiry and on splitting large keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from cluster_core.advice.changes import (
    BUCKET_KEYS,
    LIST_SETTING,
    SETTINGS,
    AdviceSums,
    Point,
    PrefixSums,
    Step,
    TextSums,
    curve,
    marked,
)
from cluster_core.advice.conditions import Condition
from cluster_core.memory.layouts import KEY_IN_OBJECT
from cluster_core.memory.model import ENTRY_BYTES, OBJECT_BYTES, MemoryModel
from cluster_core.memory.structures import sds_bytes
from cluster_core.slots.key_slot import hash_tag

BUCKET_NUMBER_BYTES = 4
"""Bytes after the prefix in a bucket's name."""
LISTPACK_HEAD_BYTES = 7
QUANTILES = [NormalDist().inv_cdf((number + 0.5) / 32) for number in range(32)]
"""Equally weighted quantiles of a normal distribution, in standard deviations."""
WALKED = 2
"""Index of the maximum elements walked in the sums of a curve."""


@dataclass(slots=True)
class Totals:
    """Sums under *conditions*, the current one first.

    *keys*: all keys. *memory*: current bytes, bytes under each condition, number of keys measured under the current one
    only. *prefixes*: keys, then the amounts of `PrefixSums` in order, with the number of unmeasured keys after the
    conditions. *curves*, by setting and value: keys, bytes saved, maximum elements walked, then savings under each
    condition on these keys.
    """

    conditions: Sequence[Condition]
    keys: int
    memory: Sequence[int]
    prefixes: dict[bytes, tuple[int, Sequence[int]]]
    curves: dict[tuple[str, int], Sequence[int]]

    def points(self, model: MemoryModel) -> list[Point]:
        """Return the curves of the settings that the server of *model* supports."""
        result: list[Point] = []
        for name in [setting.name for setting in SETTINGS if _has_setting(model, setting.name)]:
            steps = [
                Step(value, sums[0], sums[1], sums[2])
                for (of, value), sums in sorted(self.curves.items())
                if of == name
            ]
            result += curve(name, steps)
        lists = [(value, sums) for (of, value), sums in sorted(self.curves.items(), reverse=True) if of == LIST_SETTING]
        return result + marked(
            [Point(LIST_SETTING, value, sums[0], sums[1], sums[2], is_knee=False) for value, sums in lists]
        )

    def sums(self, model: MemoryModel) -> AdviceSums:
        """Return the input of the ranking."""
        points = self.points(model)
        knees = {point.setting: point.value for point in points if point.is_knee}
        claimed = {
            name: [
                sum(values)
                for values in zip(
                    *(
                        sums[3:]
                        for (of, value), sums in self.curves.items()
                        if of == name and (value <= knee if name != LIST_SETTING else value == knee)
                    ),
                    strict=True,
                )
            ]
            for name, knee in knees.items()
        }
        count = len(self.conditions)
        prefixes = [_prefix_sums(name, keys, amounts, count, model) for name, (keys, amounts) in self.prefixes.items()]
        return AdviceSums(
            self.memory[0], self.keys, [(item.server, item.allocator) for item in self.conditions],
            list(self.memory[1 : 1 + count]), points, claimed, prefixes, _bucket_bytes(model),
        )  # fmt: skip


def _prefix_sums(name: bytes, keys: int, amounts: Sequence[int], conditions: int, model: MemoryModel) -> PrefixSums:
    now, behind = amounts[0], 2 * conditions + 2
    memory, bucket_saved = amounts[1 : conditions + 1], amounts[conditions + 2 : behind]
    bucket_keys, bucket_now, payload, squares, lzf_saving, *texts = amounts[behind:]
    return PrefixSums(
        name, keys, now, memory, bucket_saved, bucket_keys, bucket_now, _packed(model, payload, squares, bucket_keys), lzf_saving, TextSums(*texts)
    )  # fmt: skip


def _has_setting(model: MemoryModel, name: str) -> bool:
    return "SET_LISTPACK" in model.layout.types or not name.startswith("set-max-listpack")


def _bucket_bytes(model: MemoryModel) -> int:
    """Return the bytes of a bucket besides its packed value: name, object, entry."""
    if model.layout.key_place == KEY_IN_OBJECT:
        return OBJECT_BYTES + sds_bytes(BUCKET_NUMBER_BYTES)
    return ENTRY_BYTES + OBJECT_BYTES + model.allocated(sds_bytes(BUCKET_NUMBER_BYTES))


def _packed(model: MemoryModel, payload: int, squares: int, keys: int) -> int:
    """Return the bytes of packed buckets for *keys*; entries take *payload* bytes, *squares* is the sum of their
    squares.

    A bucket sums many entries: sizes are normal about the mean, each rounded up.
    """
    buckets = -(-keys // BUCKET_KEYS)
    if model.layout.packed_exact or not buckets:
        return payload + buckets * LISTPACK_HEAD_BYTES
    mean = payload * BUCKET_KEYS // keys + LISTPACK_HEAD_BYTES
    spread = math.sqrt(max(squares - payload**2 / keys, 0.0) / keys * BUCKET_KEYS)
    sizes = [model.allocated(max(round(mean + spread * item), 1)) for item in QUANTILES]
    return round(sum(sizes) / len(sizes) / mean * (payload + buckets * LISTPACK_HEAD_BYTES))


EXPIRY_SHARE_MIN = 0.01
"""Minimum share of all memory of a listed prefix."""
PIECE_SHARE = 0.01
"""A key or tag above this share of a master's mean is split into smaller pieces."""
LISTED_MAX = 10


class Held(NamedTuple):
    """A prefix: keys, keys with expiry (None: unknown), bytes, and bytes idle for 30 days (None: not recorded)."""

    name: bytes
    keys: int
    expires: int | None
    size: int
    untouched_30d: int | None


class Splittable(NamedTuple):
    """A key (*parts*: elements; bytes of a string) or a hash tag (*parts*: keys) in *slot*."""

    kind: str
    name: bytes
    slot: int
    size: int
    parts: int
    unit: str


class Hint(NamedTuple):
    """A row of ``gold/savings`` outside the ranking; *saved_bytes* is None if unknown."""

    kind: str
    subject: bytes
    saved_bytes: int | None
    keys: int
    how: str
    risk: str
    undo: str


def expiries(held: Iterable[Held], whole: int) -> list[Hint]:
    """Return prefixes without any expiry, most idle memory first; longer prefixes of a listed one are omitted."""
    result: list[Held] = []
    for item in sorted(held, key=lambda item: (-(item.untouched_30d or 0), -item.size, len(item.name), item.name)):
        nested = any(item.name.startswith(other.name) or other.name.startswith(item.name) for other in result)
        if item.expires == 0 and item.keys > 1 and item.size >= whole * EXPIRY_SHARE_MIN and not nested:
            result.append(item)
    return [
        Hint(
            "expire", item.name, item.untouched_30d, item.keys,
            f"EXPIRE on its keys: none of {item.keys:,} ever expires, {item.size:,} bytes in all; "
            + ("what nobody touched for 30 days would come free" if item.untouched_30d is not None else "how much is unused is not recorded"),
            "keys vanish: only where they can be made again", "PERSIST, before they expire",
        )
        for item in result[:LISTED_MAX]
    ]  # fmt: skip


def splits(heavy: Iterable[Splittable], slots: Mapping[int, int], mean_node: int) -> list[Hint]:
    """Return keys and tags above `PIECE_SHARE` of a master's mean, and the number of pieces to split them into.

    Keys come before tags: a tag is split by its keys, except those that are split themselves. *slots* are bytes by
    slot.
    """
    least = max(int(mean_node * PIECE_SHARE), 1)
    result: list[Hint] = []
    cut: dict[bytes | None, list[int]] = {}
    for item in heavy:
        is_key = item.kind == "split_key"
        sizes = [] if is_key else cut.get(item.name, [])
        if is_key and item.size > least:
            cut.setdefault(hash_tag(item.name), []).append(item.size)
        size, parts = item.size - sum(sizes), item.parts - len(sizes)
        pieces = min(-(-size // least), parts)
        if size <= least or pieces < 2 or len(result) == 2 * LISTED_MAX:
            continue
        before = slots.get(item.slot, item.size)
        after = before - size + size // pieces
        beside = f", beside {len(sizes):,} told by themselves," if sizes else ""
        result.append(
            Hint(
                item.kind, item.name, None, 1 if is_key else item.parts,
                f"{pieces} pieces of about {parts // pieces:,} {item.unit}{beside} under names with different hash tags, each about {100 * PIECE_SHARE:.0f} % of what a "
                f"master holds in the mean: slot {item.slot} goes from {before:,} to about {after:,} bytes, and the pieces can be balanced",
                "programs change; commands and transactions over all pieces end", "write the pieces back into one",
            )
        )  # fmt: skip
    return result
