"""A value of RESP on its way between two simulated processes, in the place of a message of the cluster bus."""

from __future__ import annotations

from typing import Any


class RespMessage:
    """A command (a list of words) or a reply; the network asks its *header* for the size, as it does with the bus."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def header(self) -> RespMessage:
        """Itself: it has a size and nothing else."""
        return self

    @property
    def totlen(self) -> int:
        """About how many bytes; nothing depends on it here."""
        value = self.value
        return len(value) if isinstance(value, bytes) else 32 * len(value) if isinstance(value, list) else 8

    @property
    def words(self) -> tuple[bytes, ...]:
        """The words of a command; none for anything else."""
        value = self.value
        return tuple(value) if isinstance(value, list) and all(isinstance(word, bytes) for word in value) else ()
