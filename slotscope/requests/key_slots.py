"""What ``key-slots`` is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to read and how; see `jobs.key_slots.command` for the words."""

    root: str
    snapshot: str = "current"
    rdb: Sequence[str] = ()
    aof: Sequence[str] = ()
    keys: Sequence[str] = ()
    topology: str | None = None
    dump_node: Sequence[str] = ()
    key_format: str | None = None
    key_column: str | None = None
    size_column: str | None = None
    ops_column: str | None = None
    quoted: bool | None = None
    check_crc: bool = True
    split: bool = True
    keep_keys: bool = False
    deep: bool = False
    permissive: bool = False
    replay: bool = True
    load_truncated: bool = True
    appendfsync: str | None = None
    info: Sequence[str] = ()
    now_ms: int | None = None
    memory: bool = True
    allocator: str = "auto"
    list_compress_depth: int = 0
    loaded: bool = False
    server: str | None = None
