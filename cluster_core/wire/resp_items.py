"""What one direction of a client connection is cut into: values, dumps that begin and end, bytes that are neither."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_core.wire.tcp_stream import Mark


@dataclass(frozen=True, slots=True)
class Skimmed:
    """A whole value.  *kind*: simple, error, number, bulk, array, push, inline, newline and the like.

    *words*: its own text, or those of its first elements, each cut; *elements*: of the outermost aggregate, else 1;
    *total*: all its bytes; *end*: bytes of the direction up to its end.
    """

    mark: Mark
    kind: str
    words: tuple[bytes, ...]
    elements: int
    total: int
    end: int


@dataclass(frozen=True, slots=True)
class DumpBegun:
    """A dump begins: *announced* bytes, or None when a mark will end it; *total* bytes say so; *end* as above."""

    mark: Mark
    announced: int | None
    total: int
    end: int


@dataclass(frozen=True, slots=True)
class DumpEnded:
    """A dump ends, or what there is of it: *received* bytes without the end mark; *head*: its first ones."""

    mark: Mark
    received: int
    head: bytes
    complete: bool
    end: int


@dataclass(frozen=True, slots=True)
class Unread:
    """*count* bytes that are no value, or whose beginning was not seen; *end* as above."""

    mark: Mark
    count: int
    sample: bytes
    end: int


Item = Skimmed | DumpBegun | DumpEnded | Unread
