"""A small key space in memory: strings, so that a node that owns a slot can serve it.  No replication, no disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster_core.slots.key_slot import key_slot
from cluster_core.wire.resp import RespError

BYTES_MAX: Final = 256 << 20
"""Room for keys and values; a write beyond it is refused."""


class SmallData:
    """Keys and values; answers what the node asks of its data (`cluster_core.node.state`) and a few commands."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._slots: dict[int, dict[bytes, None]] = {}
        self._bytes = 0

    def count(self, slot: int) -> int:
        """How many keys are in *slot*."""
        return len(self._slots.get(slot, ()))

    def keys(self, slot: int, limit: int) -> list[bytes]:
        """At most *limit* keys of *slot*."""
        return list(self._slots.get(slot, ()))[: max(0, limit)]

    def holds(self, key: bytes) -> bool:
        """Whether *key* is there."""
        return key in self._values

    def is_empty(self) -> bool:
        """Whether there is no key at all."""
        return not self._values

    def drop(self, slots: int) -> None:
        """Delete the keys of the slots whose bits are set."""
        for slot in [slot for slot in self._slots if slots >> slot & 1]:
            for key in list(self._slots[slot]):
                self._delete(key)

    def clear(self) -> None:
        """Delete all keys."""
        self._values, self._slots, self._bytes = {}, {}, 0

    def execute(self, words: Sequence[bytes]) -> Any:
        """Carry out a command on keys; None for one that this data does not know."""
        command = _COMMANDS.get(words[0].lower())
        return None if command is None else command(self, words[1:])

    def _set(self, words: Sequence[bytes]) -> Any:
        if len(words) != 2:
            return RespError("ERR syntax error")
        key, value = words
        if self._bytes + len(key) + len(value) > BYTES_MAX:
            return RespError("OOM command not allowed when used memory > 'maxmemory'.")
        self._delete(key)
        self._values[key] = value
        self._slots.setdefault(key_slot(key), {})[key] = None
        self._bytes += len(key) + len(value)
        return "OK"

    def _delete(self, key: bytes) -> int:
        value = self._values.pop(key, None)
        if value is None:
            return 0
        slot = key_slot(key)
        del self._slots[slot][key]
        if not self._slots[slot]:
            del self._slots[slot]
        self._bytes -= len(key) + len(value)
        return 1

    def _incr(self, words: Sequence[bytes]) -> Any:
        try:
            value = int(self._values.get(words[0], b"0")) + 1
        except ValueError:
            return RespError("ERR value is not an integer or out of range")
        stored = self._set((words[0], b"%d" % value))
        return value if stored == "OK" else stored


_COMMANDS: Final[dict[bytes, Callable[[SmallData, Sequence[bytes]], Any]]] = {
    b"get": lambda data, words: data._values.get(words[0]),
    b"set": SmallData._set,
    b"del": lambda data, words: sum(data._delete(key) for key in words),
    b"unlink": lambda data, words: sum(data._delete(key) for key in words),
    b"exists": lambda data, words: sum(data.holds(key) for key in words),
    b"incr": SmallData._incr,
    b"dbsize": lambda data, words: len(data._values),
}
