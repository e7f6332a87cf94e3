"""Memory of the compiled gossip loop: arrays made, shown to plain Python as memoryviews, and handed over at little cost."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from typing import Any, Final

import numpy as np

LINE_BYTES: Final = 64
NO_RESERVE: Final = 0x4000
"""MAP_NORESERVE of Linux: pages of reports exist once they are written."""


def direct(function: Any) -> Callable[..., Any]:
    """What is compiled of *function* for the arguments of the first call: to look at the types of all arrays costs more than most steps."""
    found: list[Callable[..., Any]] = []

    def call(*values: Any) -> Any:
        if found:
            return found[0](*values)
        answer = function(*values)
        found.append(next(iter(function.overloads.values())).entry_point)
        return answer

    return call


def flat(numbers: Any) -> memoryview:
    """The numbers of an array in one line."""
    return memoryview(numbers.reshape(-1))


def fields_of(cells: Any) -> list[memoryview]:
    """Each field of [n, n, fields], flat."""
    flat = cells.reshape(-1, cells.shape[2])
    return [memoryview(flat[:, field]) for field in range(cells.shape[2])]


def in_lines(shape: tuple[int, ...], kind: type) -> Any:
    """Zeros that begin where a line of the processor's cache begins."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    room = np.zeros(size + LINE_BYTES, np.uint8)
    begin = -room.ctypes.data % LINE_BYTES
    return room[begin : begin + size].view(kind).reshape(shape)


def sparse(rows: int, columns: int) -> Any:
    """Zeros that take memory only where something is written."""
    size = 4 * rows * columns
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.int32).reshape(rows, columns)
    except (AttributeError, OSError, ValueError):
        return np.zeros((rows, columns), np.int32)
