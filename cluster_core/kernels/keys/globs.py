"""Patterns of key names, as KEYS and SCAN take them (`stringmatchlen`), matched over the keys of a batch."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import ConditionError
from cluster_core.kernels.compiled import borrowing

_STAR = -1


class Glob(NamedTuple):
    """A pattern: *steps* are rows of *bytes_taken* (256 bytes: those that the step takes), or `_STAR`."""

    steps: NDArray[np.int64]
    bytes_taken: NDArray[np.bool_]


def glob_of(pattern: bytes) -> Glob:
    """Return the pattern that *pattern* is: ``*``, ``?``, ``[a-c]``, ``[^a]``, ``\\`` before what stands for itself.

    Raises ConditionError with the place of a ``[`` that nothing closes, and of a ``\\`` at the end.
    """
    steps: list[int] = []
    taken: list[NDArray[np.bool_]] = []
    at = 0
    while at < len(pattern):
        row = np.zeros(256, np.bool_)
        letter = pattern[at : at + 1]
        if letter == b"*":
            if not steps or steps[-1] != _STAR:
                steps.append(_STAR)
            at += 1
            continue
        if letter == b"?":
            row[:] = True
        elif letter == b"[":
            at = _fill_class(pattern, at, row)
        elif letter == b"\\":
            if at + 1 == len(pattern):
                raise ConditionError("nothing follows the \\", at)
            at += 1
            row[pattern[at]] = True
        else:
            row[pattern[at]] = True
        steps.append(len(taken))
        taken.append(row)
        at += 1
    table = np.array(taken, np.bool_).reshape(len(taken), 256)
    return Glob(np.array(steps, np.int64), table)


def prefix_glob(prefix: bytes) -> Glob:
    """Return the pattern of all keys that begin with *prefix*."""
    table = np.zeros((len(prefix), 256), np.bool_)
    table[np.arange(len(prefix)), list(prefix)] = True
    return Glob(np.array([*range(len(prefix)), _STAR], np.int64), table)


def _fill_class(pattern: bytes, begin: int, row: NDArray[np.bool_]) -> int:
    """Mark the bytes of the class that begins with the ``[`` at *begin*; return the place of its ``]``."""
    at = begin + 1
    negated = pattern[at : at + 1] == b"^"
    at += negated
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
            row[pattern[at + 1]] = True
            at += 2
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at], pattern[at + 2]))
            row[low : high + 1] = True
            at += 3
        else:
            row[pattern[at]] = True
            at += 1
    if at >= len(pattern):
        raise ConditionError("no ] closes this [", begin)
    if negated:
        np.logical_not(row, out=row)
    return at


@borrowing()
def mark_matches(names: Any, offsets: Any, steps: Any, taken: Any, chosen: Any, found: Any) -> None:
    """Set *found* for each key that is *chosen* and matches."""
    count = steps.size
    for i in range(chosen.size):
        if not chosen[i]:
            continue
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        step = np.int64(0)
        star = np.int64(-1)
        again = at
        is_match = True
        while at < end:
            if step < count and steps[step] == _STAR:
                star = step
                again = at
                step += 1
                if step == count:
                    break
            elif step < count and taken[steps[step], names[at]]:
                step += 1
                at += 1
            elif star >= 0:
                step = star + 1
                again += 1
                at = again
            else:
                is_match = False
                break
        while step < count and steps[step] == _STAR:
            step += 1
        if is_match and step == count:
            found[i] = True
