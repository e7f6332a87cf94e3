"""Totals over all values, as input to the ranking; hints on expiry and on splitting large keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cluster_core.advice.changes import SETTINGS, AdviceSums, Condition, Point, Step, curve
from cluster_core.memory.model import MemoryModel
from cluster_core.slots.key_slot import hash_tag

WALKED = 2
"""Index of the maximum elements walked in the sums of a curve."""


@dataclass(slots=True)
class Totals:
    """Sums under *conditions*, the current one first.

    *keys*: all keys. *memory*: current bytes, bytes under each condition, number of keys measured under the current one
    only. *prefixes*: keys, then amounts as in *memory*. *curves*, by setting and value: keys, bytes saved, maximum elements
    walked, then savings under each condition.
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
        return result

    def sums(self, model: MemoryModel) -> AdviceSums:
        """Return the input of the ranking."""
        points = self.points(model)
        claimed = {}
        for point in points:
            if point.is_knee:
                steps = [
                    sums for (of, value), sums in self.curves.items() if of == point.setting and value <= point.value
                ]
                claimed[point.setting] = [sum(saved) for saved in zip(*(sums[3:] for sums in steps), strict=True)]
        count = len(self.conditions)
        conditions = [(item.server, item.allocator) for item in self.conditions]
        return AdviceSums(self.memory[0], self.keys, conditions, list(self.memory[1 : 1 + count]), points, claimed)


def _has_setting(model: MemoryModel, name: str) -> bool:
    return "SET_LISTPACK" in model.layout.types or not name.startswith("set-max-listpack")


EXPIRY_SHARE_MIN = 0.01
"""Minimum share of all memory of a listed prefix."""
PIECE_SHARE = 0.01
"""A key or tag above this share of a master's mean is split into smaller pieces."""
LISTED_MAX = 10


class PrefixTotals(NamedTuple):
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


def expiries(held: Iterable[PrefixTotals], whole: int) -> list[Hint]:
    """Return prefixes without any expiry, most idle memory first; longer prefixes of a listed one are omitted."""
    result: list[PrefixTotals] = []
    for item in sorted(held, key=lambda item: (-(item.untouched_30d or 0), -item.size, len(item.name), item.name)):
        nested = any(item.name.startswith(other.name) or other.name.startswith(item.name) for other in result)
        if item.expires == 0 and item.keys > 1 and item.size >= whole * EXPIRY_SHARE_MIN and not nested:
            result.append(item)
    return [
        Hint(
            "expire", item.name, item.untouched_30d, item.keys,
            f"EXPIRE on its keys: none of {item.keys:,} expires, {item.size / 1e6:,.1f} MB in all; "
            + ("keys unused for 30 days would be freed" if item.untouched_30d is not None else "idle times are not recorded"),
            "keys vanish: only where they can be made again", "PERSIST, before they expire",
        )
        for item in result[:LISTED_MAX]
    ]  # fmt: skip


def splits(heavy: Iterable[Splittable], slots: Mapping[int, int], mean_node: int) -> list[Hint]:
    """Return keys and tags above `PIECE_SHARE` of a master's mean, and the number of pieces to split them into.

    Tags do not count keys that are split themselves. *slots* are bytes by slot.
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
        beside = f", beside {len(sizes):,} listed separately," if sizes else ""
        result.append(
            Hint(
                item.kind, item.name, None, 1 if is_key else item.parts,
                f"{pieces} pieces of about {parts // pieces:,} {item.unit}{beside} under names with different hash tags, each about {100 * PIECE_SHARE:.0f} % of a "
                f"master's mean: slot {item.slot} falls from {before / 1e6:,.2f} to about {after / 1e6:,.2f} MB",
                "programs change; commands and transactions over all pieces end", "write the pieces back into one",
            )
        )  # fmt: skip
    return result
