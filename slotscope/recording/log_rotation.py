"""Where to go on reading in a log that may have been rotated: renamed and made anew, or copied and truncated.

What was read is known by a mark: the file's inode, its first bytes and how far it was read.  The first bytes tell a copy of a log, and an inode that was
given to another file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

HEAD_BYTES: Final = 256
"""First bytes of a log that tell it from another: its lines have times."""
PACKED: Final = (".gz", ".zst", ".xz", ".bz2", ".lz4")
"""Names of rotated logs that are not read, since they were compressed."""
_ADDED: Final = re.compile(r"[.-]\d[\d.-]*(?:\.[a-z\d]{2,4})?", re.ASCII)
_INSERTED: Final = re.compile(r"[.-]\d{6,}[\d.-]*", re.ASCII)


class Sight(NamedTuple):
    """A file as it was seen: *head* is its first `HEAD_BYTES`."""

    path: str
    inode: tuple[int, int]
    size: int
    changed_ns: int
    head: bytes


class Mark(NamedTuple):
    """How far a log was read; *head* may be shorter than that of the file is now."""

    inode: tuple[int, int]
    offset: int
    head: bytes


class Step(NamedTuple):
    """Read the file that was *seen* from byte *start* to its end."""

    seen: Sight
    start: int


class Steps(NamedTuple):
    """What to read, in this order; the last step is the log itself.  *lost* is why something between cannot be read, empty if nothing is."""

    steps: list[Step]
    lost: str


def steps_of(mark: Mark, current: Sight, siblings: Sequence[Sight], since_ns: int, *, is_read: bool = False) -> Steps:
    """Where to go on after *mark* in the log *current*, of which *siblings* are rotated parts.

    *since_ns* is when the mark was made; *is_read* says that the marked file was read to its end and nobody writes to it any more.
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
    """Whether *seen* holds what was read, and perhaps more."""
    return seen.size >= mark.offset and seen.head.startswith(mark.head)


def whole_lines(data: bytes) -> bytes:
    """*data* up to its last line feed."""
    return data[: data.rfind(b"\n") + 1]
