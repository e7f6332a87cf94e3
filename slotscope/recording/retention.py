"""Choose the recorded files to delete so that a point keeps its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Stored(NamedTuple):
    """A file of a point; *to_ns* is None while it is written."""

    path: str
    size: int
    to_ns: int | None


class Bounds(NamedTuple):
    """Bounds of a point: total bytes, and age (None: unbounded)."""

    bytes_max: int
    age_ns_max: int | None = None


def files_to_delete(files: Sequence[Stored], bounds: Bounds, now_ns: int) -> list[Stored]:
    """The fewest oldest finished files to delete; never an open file."""
    finished = sorted((file.to_ns, file.path, file) for file in files if file.to_ns is not None)
    total = sum(file.size for file in files)
    found = []
    for to_ns, _, file in finished:
        is_old = bounds.age_ns_max is not None and to_ns < now_ns - bounds.age_ns_max
        if not is_old and total <= bounds.bytes_max:
            break
        total -= file.size
        found.append(file)
    return found
