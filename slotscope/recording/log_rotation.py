"""Find the read position in a log after a rotation: renamed and created again, or copied and truncated.

A mark is the inode, the first bytes and the offset of the last read.  The first bytes identify a copy of a log, and an inode that
was reused for another file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

HEAD_BYTES: Final = 256
"""First bytes of a log that identify it; its lines have times."""
PACKED: Final = (".gz", ".zst", ".xz", ".bz2", ".lz4")
"""Endings of compressed rotated logs, which are not read."""
_ADDED: Final = re.compile(r"[.-]\d[\d.-]*(?:\.[a-z\d]{2,4})?", re.ASCII)
_INSERTED: Final = re.compile(r"[.-]\d{6,}[\d.-]*", re.ASCII)


class Sight(NamedTuple):
    """State of a file; *head* is its first `HEAD_BYTES`."""

    path: str
    inode: tuple[int, int]
    size: int
    changed_ns: int
    head: bytes


class Mark(NamedTuple):
    """Read position of a log; *head* may be shorter than the present head of the file."""

    inode: tuple[int, int]
    offset: int
    head: bytes


class Step(NamedTuple):
    """Read the file *seen* from byte *start* to its end."""

    seen: Sight
    start: int


class Steps(NamedTuple):
    """Files to read in order; the last step is the log itself.  *lost* is the reason for lost lines between them, empty for none."""

    steps: list[Step]
    lost: str


def steps_of(mark: Mark, current: Sight, siblings: Sequence[Sight], since_ns: int, *, is_read: bool = False) -> Steps:
    """Return the reads that continue after *mark* in the log *current* with the rotated parts *siblings*.

    *since_ns* is the time of the mark; *is_read* says that the marked file was read to its end and has no writer.
    """
    readable = [one for one in siblings if not one.path.endswith(PACKED)]
    newer = [one for one in readable if one.changed_ns > since_ns]
    if current.inode == mark.inode and _goes_on(mark, current) and (mark.head or not newer):
        return Steps([Step(current, mark.offset)], "")
    held = [one for one in readable if mark.head and _goes_on(mark, one)]
    rest = max(held, key=lambda one: (one.inode == mark.inode, one.changed_ns), default=None)
    after = newer if rest is None else [one for one in readable if one.changed_ns > rest.changed_ns and one not in held]
    between = sorted(after, key=lambda one: one.changed_ns)
    packed = [one for one in siblings if one.path.endswith(PACKED) and one.changed_ns >= since_ns]
    steps = [Step(rest, mark.offset)] if rest is not None and rest.size > mark.offset else []
    steps += [Step(one, 0) for one in between]
    lost = ""
    if rest is None and mark.head and not is_read:
        lost = "what followed was rotated away" + (f", {packed[-1].path} is compressed" if packed else "")
    return Steps([*steps, Step(current, 0)], lost)


def is_rotated_name(name: str, log: str) -> bool:
    """Whether a file beside *log* is a rotated part of it, as logrotate and the kubelet name them.

    >>> [is_rotated_name(name, "a.log") for name in ("a.log.1", "a.log.2.gz", "a.log-20261122", "a-20261122.log", "a.log", "a-2.log", "ab.log.1")]
    [True, True, True, True, False, False, False]
    """
    if name.startswith(log):
        return bool(_ADDED.fullmatch(name[len(log) :]))
    stem, dot, ending = log.rpartition(".")
    if not dot or not name.startswith(stem):
        return False
    rest = name[len(stem) :]
    return any(
        rest.endswith(f".{ending}{packed}") and bool(_INSERTED.fullmatch(rest[: -len(f".{ending}{packed}")]))
        for packed in ("", *PACKED)
    )


def _goes_on(mark: Mark, seen: Sight) -> bool:
    """Whether *seen* begins with the bytes that were read."""
    return seen.size >= mark.offset and seen.head.startswith(mark.head)


def whole_lines(data: bytes) -> bytes:
    """*data* up to its last line feed."""
    return data[: data.rfind(b"\n") + 1]
