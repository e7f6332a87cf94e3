"""Errors of `cluster_core`, all under `ClusterCoreError`; messages include source, offset and reason."""

from __future__ import annotations


class ClusterCoreError(Exception):
    """Root of all errors raised by `cluster_core`."""


class DecodeError(ClusterCoreError):
    """Input bytes do not follow their format.

    *reason*: the fault; *offset*: byte position in *source* (a file name, stream name or ``<bytes>``).
    """

    def __init__(self, reason: str, *, offset: int, source: str = "<bytes>") -> None:
        super().__init__(f"{source}: offset {offset}: {reason}")
        self.reason = reason
        self.offset = offset
        self.source = source

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.reason, self.offset, self.source)


class TruncatedError(DecodeError):
    """Input ends before an announced value does."""


class MissingInputError(DecodeError):
    """A file is missing or cannot be opened."""

    def __init__(self, reason: str, *, offset: int = 0, source: str) -> None:
        super().__init__(reason, offset=offset, source=source)
        self.args = (f"{source}: {reason}",)


class EncodeError(ClusterCoreError):
    """A value does not fit the chosen format or version."""


class ConditionError(ClusterCoreError):
    """A condition on keys cannot be parsed: *reason*, and the position *at* in its text (from 0)."""

    def __init__(self, reason: str, at: int, text: str = "", option: str = "") -> None:
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        super().__init__(f"{option}line {line}, column {column}: {reason}")
        self.reason = reason
        self.at = at

    def within(self, option: str, text: str) -> ConditionError:
        """Return the same error for *text*, the value of *option*."""
        return ConditionError(self.reason, self.at, text, f"{option} {text!r}: ")


class UnrecordedError(ClusterCoreError):
    """A condition on keys needs data that no dump records."""


class ProtocolError(ClusterCoreError):
    """A peer or caller violated the protocol in this state."""


class PlanError(ClusterCoreError):
    """A rebalancing request that cannot be planned, with the reason."""


def _rebuild(kind: type[DecodeError], reason: str, offset: int, source: str) -> DecodeError:
    return kind(reason, offset=offset, source=source)
