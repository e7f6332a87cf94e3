"""The names of commands as the compiled walk looks them up: a hash table over their bytes, and the rules of their keys."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.aof.command_keys import command_names, rules_of
from cluster_core.kernels.aof import walk as at

NAMES_MAX = 4096
"""Names of commands that are listed; the commands of further names are counted as one, of the empty name."""
_BUCKETS = 4 * NAMES_MAX


class Names(NamedTuple):
    """The table of names that the kernel reads: hash buckets, where each name begins, all names, rules by code."""

    buckets: NDArray[np.int32]
    starts: NDArray[np.int64]
    text: NDArray[np.uint8]
    rules: NDArray[np.int64]


@cache
def known_names() -> Names:
    """Return the table of the commands that servers have; further names take no rules."""
    names = Names(
        np.full(_BUCKETS, -1, np.int32),
        np.zeros(NAMES_MAX + 3, np.int64),
        np.zeros((NAMES_MAX + 2) * at.NAME_BYTES_MAX, np.uint8),
        np.zeros((NAMES_MAX + 2, 11), np.int64),
    )
    for code, name in enumerate(command_names(), start=1):
        list_name(names.buckets, names.starts, names.text, code, name.encode())
        rules = rules_of(name)
        if rules is None:
            names.rules[code, 0] = 1
        else:
            names.rules[code, 1:6], names.rules[code, 6:11] = rules
    return names


def list_name(
    buckets: NDArray[np.int32], starts: NDArray[np.int64], text: NDArray[np.uint8], code: int, name: bytes
) -> None:
    """Add a name, in lower case and at most `NAME_BYTES_MAX` long, as the one of the next *code*."""
    start = int(starts[code])
    text[start : start + len(name)] = np.frombuffer(name, np.uint8)
    starts[code + 1] = start + len(name)
    digest = 2166136261
    for byte in name:
        digest = ((digest ^ byte) * 16777619) & 0xFFFFFFFF
    bucket = (digest ^ (digest >> 15)) & (_BUCKETS - 1)
    while buckets[bucket] >= 0:
        bucket = (bucket + 1) & (_BUCKETS - 1)
    buckets[bucket] = code
