"""What a walk over an append-only log works with besides its window and its state: the batch that it fills, the names of commands."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.aof.command_keys import command_names, rules_of

NAMES_MAX = 4096
"""Names of commands that are listed; the commands of further names are counted as one, of the empty name."""
NAME_BYTES_MAX = 64
UNLISTED = 0
"""Code of a command that has no place in the table of names."""
KEY_DATA_BYTES = 8 << 20
KEY_NAMES_BYTES_MAX = 1 << 30
_BUCKETS = 4 * NAMES_MAX


class Keys(NamedTuple):
    """A row a key; *offsets* into *data* has one place more than the others, *share* are the bytes of the command that are the key's."""

    offsets: NDArray[np.int32]
    slot: NDArray[np.uint16]
    tag_start: NDArray[np.int32]
    tag_length: NDArray[np.int32]
    share: NDArray[np.int64]
    data: NDArray[np.uint8]

    def with_more_rows(self) -> Keys:
        """Return these keys with twice the room for rows."""
        return Keys._make([*(np.resize(column, 2 * len(column)) for column in self[:-1]), self.data])

    def with_more_data(self, count: int) -> Keys:
        """Return these keys with twice the room for names, and *count* bytes."""
        data: NDArray[np.uint8] = np.empty(2 * len(self.data) + count, np.uint8)
        data[: len(self.data)] = self.data
        return self._replace(data=data)


class Commands(NamedTuple):
    """A row a command; its keys are the rows ``first_key[i]`` to ``first_key[i + 1] - 1`` of `Keys`."""

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    code: NDArray[np.uint16]
    words: NDArray[np.int64]
    db: NDArray[np.int32]
    time_s: NDArray[np.int64]
    first_key: NDArray[np.int32]


class Names(NamedTuple):
    """Codes of commands by their names: hash buckets, where each name begins, all names; by code, whether `written_keys` must find the
    keys, and two rules; the codes of three commands.
    """

    buckets: NDArray[np.int32]
    starts: NDArray[np.int64]
    text: NDArray[np.uint8]
    rules: NDArray[np.int64]
    select: int
    multi: int
    exec: int

    def list(self, code: int, name: bytes) -> None:
        """Add a name, in lower case and at most `NAME_BYTES_MAX` long, as the one of the next *code*."""
        start = int(self.starts[code])
        self.text[start : start + len(name)] = np.frombuffer(name, np.uint8)
        self.starts[code + 1] = start + len(name)
        digest = 2166136261
        for byte in name:
            digest = ((digest ^ byte) * 16777619) & 0xFFFFFFFF
        bucket = (digest ^ (digest >> 15)) & (_BUCKETS - 1)
        while self.buckets[bucket] >= 0:
            bucket = (bucket + 1) & (_BUCKETS - 1)
        self.buckets[bucket] = code


def new_keys(rows: int) -> Keys:
    """Return room for that many keys."""
    columns = [np.empty(rows, kind) for kind in (np.uint16, np.int32, np.int32, np.int64)]
    return Keys._make([np.zeros(rows + 1, np.int32), *columns, np.empty(KEY_DATA_BYTES, np.uint8)])


def new_commands(rows: int) -> Commands:
    """Return room for that many commands."""
    kinds = (np.int64, np.int64, np.uint16, np.int64, np.int32, np.int64)
    return Commands._make([*(np.empty(rows, kind) for kind in kinds), np.zeros(rows + 1, np.int32)])


@cache
def known_names() -> Names:
    """Return the table of the commands that servers have; further names take no rules."""
    commands = command_names()
    names = Names(
        np.full(_BUCKETS, -1, np.int32),
        np.zeros(NAMES_MAX + 3, np.int64),
        np.zeros((NAMES_MAX + 2) * NAME_BYTES_MAX, np.uint8),
        np.zeros((NAMES_MAX + 2, 11), np.int64),
        *(1 + commands.index(name) for name in ("select", "multi", "exec")),
    )
    for code, name in enumerate(commands, start=1):
        names.list(code, name.encode())
        rules = rules_of(name)
        if rules is None:
            names.rules[code, 0] = 1
        else:
            names.rules[code, 1:6], names.rules[code, 6:11] = rules
    return names
