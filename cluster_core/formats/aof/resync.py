"""Cutting a log into ranges that decode alone: a place to begin near any offset.

Nothing marks the beginning of a command, and a value may hold what looks like commands.  So a cut is a guess, made well
(several whole commands with names of letters follow it) and then proven: a range that decodes from its own beginning must
end exactly where the next begins.  The first range begins where the file does, so if all ranges meet, every cut is a
true boundary; if one does not, the file is read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import CommandReader

PROOF_COMMANDS = 8
"""Whole commands that must follow a candidate (fewer at the end of what is looked at)."""
LOOK_BYTES = 1 << 20
_CANDIDATE = re.compile(rb"\r\n(?=\*[1-9]\d{0,9}\r\n\$[1-9]\d?\r\n[A-Za-z])")
_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9._|-]{0,63}")


def find_boundary(data: bytes, *, first: int = 0, at_end: bool = True) -> int | None:
    """Return the first place from *first* on at which commands seem to begin in *data*, a piece of a log; None if none does.

    *data* begins anywhere; *at_end* says that the file ends with it, so that a command that reaches its last byte is
    enough.
    """
    for found in _CANDIDATE.finditer(data, max(first - 2, 0)):
        if _holds(data[found.end() :], at_end):
            return found.end()
    return None


def _holds(data: bytes, at_end: bool) -> bool:
    reader = CommandReader("<candidate>")
    reader.feed(data)
    seen = 0
    try:
        for command in reader.commands():
            if not _NAME.fullmatch(command.words[0]):
                return False
            seen += 1
            if seen == PROOF_COMMANDS:
                return True
    except DecodeError:
        return False
    return seen > 0 and (at_end or not reader.left or len(data) >= LOOK_BYTES // 2)


def find_cuts(read_at: Callable[[int, int], bytes], start: int, size: int, parts: int) -> list[int]:
    """Return at most *parts* - 1 rising offsets between *start* and *size* at which ranges of a log may begin.

    ``read_at(offset, count)`` returns up to *count* bytes of the file.
    """
    cuts: list[int] = []
    for part in range(1, parts):
        aim = start + (size - start) * part // parts
        begin = max(aim - 2, start)
        data = read_at(begin, LOOK_BYTES)
        place = find_boundary(data, first=2, at_end=begin + len(data) >= size)
        if place is not None and begin + place > (cuts[-1] if cuts else start) and begin + place < size:
            cuts.append(begin + place)
    return cuts
