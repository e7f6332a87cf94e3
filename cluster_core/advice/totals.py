"""What was measured of all values, added up, and made into what changes are ranked by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from cluster_core.advice.changes import BUCKET_KEYS, AdviceSums, PrefixSums
from cluster_core.advice.compression import TextSums
from cluster_core.advice.conditions import Condition
from cluster_core.advice.curves import LIST_SETTING, SETTINGS, Point, Step, curve, marked
from cluster_core.memory.layouts import KEY_IN_OBJECT
from cluster_core.memory.model import ENTRY_BYTES, OBJECT_BYTES, MemoryModel
from cluster_core.memory.strings import sds_bytes

BUCKET_NUMBER_BYTES = 4
"""What a bucket's name has behind its prefix."""
LISTPACK_HEAD_BYTES = 7
QUANTILES = [NormalDist().inv_cdf((number + 0.5) / 32) for number in range(32)]
"""Of sizes that are spread normally, in standard deviations: each stands for as many."""
WALKED = 2
"""The place of the most elements walked among the sums of a curve."""


@dataclass(slots=True)
class Totals:
    """Sums under *conditions*, the own one first.

    *keys* in all.  *memory*: bytes now, under each condition, keys that count as now.  *prefixes*: keys, then the amounts of `PrefixSums` in their order,
    with keys that count as now after the conditions.  *curves*, by setting and value: keys, bytes saved, most elements walked, then what
    each condition saves of these keys.  *shared*: keys whose values are there several times, and what sharing these saves.
    """

    conditions: Sequence[Condition]
    keys: int
    memory: Sequence[int]
    prefixes: dict[bytes, tuple[int, Sequence[int]]]
    curves: dict[tuple[str, int], Sequence[int]]
    shared: tuple[int, int] = field(default=(0, 0))

    def points(self, model: MemoryModel) -> list[Point]:
        """The curves of the settings that the server of *model* has."""
        found: list[Point] = []
        for name in [setting.name for setting in SETTINGS if _has_setting(model, setting.name)]:
            steps = [
                Step(value, sums[0], sums[1], sums[2])
                for (of, value), sums in sorted(self.curves.items())
                if of == name
            ]
            found += curve(name, steps)
        lists = [(value, sums) for (of, value), sums in sorted(self.curves.items(), reverse=True) if of == LIST_SETTING]
        return found + marked(
            [Point(LIST_SETTING, value, sums[0], sums[1], sums[2], is_knee=False) for value, sums in lists]
        )

    def sums(self, model: MemoryModel) -> AdviceSums:
        """What changes are ranked by."""
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
        values, size = self.shared
        return AdviceSums(
            self.memory[0], self.keys, [(one.server, one.allocator) for one in self.conditions],
            list(self.memory[1 : 1 + count]), points, claimed, prefixes, size, values, _bucket_bytes(model),
        )  # fmt: skip


def _prefix_sums(name: bytes, keys: int, amounts: Sequence[int], conditions: int, model: MemoryModel) -> PrefixSums:
    now, behind = amounts[0], 2 * conditions + 2
    memory, bucket_saved = amounts[1 : conditions + 1], amounts[conditions + 2 : behind]
    names, bucket_keys, bucket_now, payload, squares, bucket_names, lzf_saving, *texts = amounts[behind:]
    return PrefixSums(
        name, keys, now, memory, bucket_saved, names, bucket_keys, bucket_now, _packed(model, payload, squares, bucket_keys), bucket_names, lzf_saving, TextSums(*texts)
    )  # fmt: skip


def _has_setting(model: MemoryModel, name: str) -> bool:
    return "SET_LISTPACK" in model.layout.types or not name.startswith("set-max-listpack")


def _bucket_bytes(model: MemoryModel) -> int:
    """What a bucket takes besides its packed value: name, object, entry."""
    if model.layout.key_place == KEY_IN_OBJECT:
        return OBJECT_BYTES + sds_bytes(BUCKET_NUMBER_BYTES)
    return ENTRY_BYTES + OBJECT_BYTES + model.allocated(sds_bytes(BUCKET_NUMBER_BYTES))


def _packed(model: MemoryModel, payload: int, squares: int, keys: int) -> int:
    """What the packed values of buckets of *keys* take whose entries take *payload*, and *squares* by the sum of their squares.

    A bucket is the sum of many entries: buckets are spread normally about their mean, and each is rounded up.
    """
    buckets = -(-keys // BUCKET_KEYS)
    if model.layout.packed_exact or not buckets:
        return payload + buckets * LISTPACK_HEAD_BYTES
    mean = payload * BUCKET_KEYS // keys + LISTPACK_HEAD_BYTES
    spread = math.sqrt(max(squares - payload**2 / keys, 0.0) / keys * BUCKET_KEYS)
    sizes = [model.allocated(max(round(mean + spread * one), 1)) for one in QUANTILES]
    return round(sum(sizes) / len(sizes) / mean * (payload + buckets * LISTPACK_HEAD_BYTES))
