"""Every error that the core raises, one tree under `ClusterCoreError`.

The message of an error holds everything a reader needs (source, offset, reason): only text travels from a Spark executor
to the driver.
"""

from __future__ import annotations


class ClusterCoreError(Exception):
    """Root of all errors raised by `cluster_core`."""


class DecodeError(ClusterCoreError):
    """Bytes from outside that do not follow their format.

    *reason* says what is wrong, *offset* is the byte position in *source* (a file name, stream name or ``<bytes>``).
    """

    def __init__(self, reason: str, *, offset: int, source: str = "<bytes>") -> None:
        super().__init__(f"{source}: offset {offset}: {reason}")
        self.reason = reason
        self.offset = offset
        self.source = source

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.reason, self.offset, self.source)


class TruncatedError(DecodeError):
    """Bytes that end before the value that they announce."""


class MissingInputError(DecodeError):
    """A file that is not there, or cannot be opened: there is no place in it to name."""

    def __init__(self, reason: str, *, offset: int = 0, source: str) -> None:
        super().__init__(reason, offset=offset, source=source)
        self.args = (f"{source}: {reason}",)


class EncodeError(ClusterCoreError):
    """A value that the chosen format, or the chosen version of it, cannot hold."""


class ConditionError(ClusterCoreError):
    """A condition on keys that cannot be read: *reason*, and *at* which place of its text (counted from 0)."""

    def __init__(self, reason: str, at: int, text: str = "", option: str = "") -> None:
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        super().__init__(f"{option}line {line}, column {column}: {reason}")
        self.reason = reason
        self.at = at

    def within(self, option: str, text: str) -> ConditionError:
        """Return the same, told of *text*, the value of *option*."""
        return ConditionError(self.reason, self.at, text, f"{option} {text!r}: ")


class UnrecordedError(ClusterCoreError):
    """A condition on keys that nothing in a dump answers."""


class ProtocolError(ClusterCoreError):
    """A peer, or a caller, that did what the protocol forbids in this state."""


class PlanError(ClusterCoreError):
    """A rebalancing request that cannot be planned, with the reason."""


class NoRoomError(PlanError):
    """All data of *resource* is more than the capacity of all masters that may hold it."""

    def __init__(self, reason: str, *, resource: str) -> None:
        super().__init__(reason)
        self.resource = resource


def _rebuild(kind: type[DecodeError], reason: str, offset: int, source: str) -> DecodeError:
    return kind(reason, offset=offset, source=source)
