"""Options of the commands that read keys: key-slots, advise and export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from slotscope.options import (
    BYTES_PER_SECOND,
    NO_OPTIONS,
    AccessOptions,
    BytesPerSecond,
    Flag,
    FromMaster,
    Html,
    Paths,
    Rdb,
    SnapshotOptions,
    TableOptions,
    Topology,
    options,
)

if TYPE_CHECKING:
    from slotscope.servers.dump_link import DumpOptions


@options
class KeyOptions(SnapshotOptions):
    """Options of `key-slots`."""

    rdb: Rdb = ()
    aof: Paths = ()
    """Append-only files: appendonlydir folders, manifests, or single files"""
    keys: Paths = ()
    """Key lists: text (one key per line), CSV, JSON lines or Parquet, with optional size and ops columns"""
    topology: Topology = None
    manifest: str | None = None
    """TOML file with a table of options per cluster, or a landing folder with LANDING/CLUSTER/POINT/rdb (docs/fleet.md)"""
    key_format: str | None = None
    """Format of key lists: text, csv, jsonl or parquet. Default: by file name"""
    key_column: str | None = None
    """Column of keys. Default: key, key_base64 or the only column"""
    size_column: str | None = None
    """Column of sizes in bytes. Default: serialized_bytes, size, bytes or memory_bytes"""
    ops_column: str | None = None
    """Column of operation counts. Default: ops"""
    quoted: bool | None = None
    """Text key lists quoted as by redis-cli --quoted-input. Default: detected per line"""
    keep_keys: Flag = False
    """Every key of the dumps, written to bronze/keys"""
    no_replay: Flag = False
    """Counts of logged writes only, without a replay to live keys"""
    allocator: str = "auto"
    """Memory allocator of the servers: jemalloc (bundled), jemalloc-16 (Linux distributions) or libc. Default: jemalloc-16 for Redis, libc for Valkey"""
    loaded: Flag = False
    """Keys in memory as loaded from a file: servers restarted since, or are replicas"""
    server: str | None = None
    """Version for the memory model, as redis-8.0 or valkey-9.1. Default: that of the dump or the nearest known"""
    lfu_log_factor: int = 10
    """lfu-log-factor of the servers, to convert LFU counters to accesses per second"""
    lfu_decay_time: int = 1
    """lfu-decay-time of the servers in minutes; 0: no rates"""
    top: int = 100
    """Number of keys listed per cluster, node and type"""
    separators: str = ":"
    """Characters that end a prefix"""
    bytes_per_second: BytesPerSecond = BYTES_PER_SECOND
    from_master: FromMaster = False
    access: AccessOptions = NO_OPTIONS
    html: Html = None


@options
class ExportOptions(TableOptions):
    """Options of `export`; conditions are joined by "and", several values of one by "or"."""

    rdb: Rdb
    to: Literal["json", "resp"]
    """Format: json (line per key) or resp (commands for redis-cli --pipe)"""
    out: Annotated[str, Parameter(allow_leading_hyphen=True)]
    """Folder of the parts, a single file ending in .json, .jsonl or .resp, or - for standard output"""
    match: Paths = ()
    """Glob patterns of key names, as for KEYS"""
    prefix: Paths = ()
    """Key name prefixes"""
    type: Paths = ()
    """Types: string, list, set, zset, hash, stream, module, array"""
    db: Paths = ()
    """Database numbers"""
    slot: str | None = None
    """Slots, as 0-5460,12000"""
    size: str | None = None
    """Bytes of the record in the dump, as >1kb or 100-200"""
    ttl: str | None = None
    """Time to live at dump time: <1h, 7d-30d, none (no expiry) or any"""
    idle: str | None = None
    """Time since the last access, as >30d; needs an LRU policy"""
    freq: str | None = None
    """LFU counter, as >=10; needs an LFU policy"""
    limit: str | None = None
    """Maximum number of keys, in file order"""
    target: str | None = None
    """Server version for commands, as redis-6.2 or valkey-9.0; unsupported values are refused, or skipped in permissive mode. Default: all supported"""
    mode: Literal["strict", "permissive"] = "strict"
    """Damaged dump or unwritable value: strict stops and leaves no output; permissive skips it, names it, and ends with 3"""
    parallelism: int | None = None
    """Parts written at a time. Default: number of cores"""
    bytes_per_second: BytesPerSecond = BYTES_PER_SECOND
    from_master: FromMaster = False
    access: AccessOptions = NO_OPTIONS

    @property
    def permissive(self) -> bool:
        """Whether to go on after bad input."""
        return self.mode == "permissive"


def dump_options(request: KeyOptions | ExportOptions) -> DumpOptions:
    """Return how live servers are asked for their dumps."""
    from slotscope.servers.dump_link import DumpOptions  # connects to servers: imported only for one

    access = request.access.with_password(request.access.password())
    return DumpOptions(access, request.bytes_per_second, request.from_master)


@options
class AdviceOptions(KeyOptions):
    """Options of `advise`."""

    snapshot: str | None = None
    """Snapshot of key-slots to measure. Default: latest. With --rdb: name of a new one; an existing one is overwritten"""
