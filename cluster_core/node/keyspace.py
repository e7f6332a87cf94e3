"""What a node must know of its data: how many keys are in a slot, and whether a key is there."""

from __future__ import annotations

from typing import Protocol


class Keyspace(Protocol):
    """Questions about the keys of database 0; a driver that holds data answers them."""

    def count(self, slot: int) -> int:
        """How many keys are in *slot*."""

    def keys(self, slot: int, limit: int) -> list[bytes]:
        """At most *limit* keys of *slot*."""

    def holds(self, key: bytes) -> bool:
        """Whether *key* is there."""

    def is_empty(self) -> bool:
        """Whether there is no key at all."""


class NoKeys:
    """A node without data."""

    def count(self, slot: int) -> int:
        """None."""
        return 0

    def keys(self, slot: int, limit: int) -> list[bytes]:
        """None."""
        return []

    def holds(self, key: bytes) -> bool:
        """Never."""
        return False

    def is_empty(self) -> bool:
        """Always."""
        return True
