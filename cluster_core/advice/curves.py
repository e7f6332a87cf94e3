"""Settings of packed values: what each larger limit would save, and the one to take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
