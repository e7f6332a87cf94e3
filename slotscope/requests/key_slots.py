"""What ``key-slots`` is asked."""

from __future__ import annotations

from slotscope.requests.options import (
    BYTES_PER_SECOND,
    NO_OPTIONS,
    AccessOptions,
    Flag,
    Paths,
    SnapshotOptions,
    options,
)
from slotscope.runtime.settings import Settings, read_settings


@options
class Request(SnapshotOptions):
    """What to read and how."""

    rdb: Paths = ()
    """RDB dumps: files, globs, folders or URIs; gzip and zstd are recognised. redis://HOST:PORT: a dump that this server makes now, as for a replica."""
    aof: Paths = ()
    """Append-only logs: folders with a manifest (appendonlydir, or what holds it), manifests, or single files."""
    keys: Paths = ()
    """Key lists: text (one key a line), CSV, JSON lines, Parquet files or a Delta table, with optional size and ops columns."""
    topology: str | None = None
    """CLUSTER NODES, nodes.conf, CLUSTER SHARDS or CLUSTER SLOTS output, or polls of record and collect; without it slots have no owners."""
    manifest: str | None = None
    """Many clusters in one run: a TOML file with a table of these options a cluster, or a landing with LANDING/CLUSTER/POINT/rdb (docs/fleet.md)."""
    dump_node: Paths = ()
    """FILE=NODE: whose dump FILE (a path or its last part) is; NODE is an id or host:port. Default: seen from its keys."""
    key_format: str | None = None
    """text, csv, jsonl, parquet or delta. Default: by the file's name."""
    key_column: str | None = None
    """Column of the keys. Default: key, key_base64 or the only one."""
    size_column: str | None = None
    """Column of sizes in bytes. Default: the first of serialized_bytes, size, bytes, memory_bytes."""
    ops_column: str | None = None
    """Column of operation counts. Default: ops."""
    quoted: bool | None = None
    """Text lines are all quoted as redis-cli --quoted-input takes them (or, with --no-quoted, none is). Default: seen from the line."""
    no_crc: Flag = False
    """Do not check the CRC64 of dumps."""
    no_split: Flag = False
    """Read each dump in one task, as compressed ones are; else large ones are cut for all cores."""
    keep_keys: Flag = False
    """Also write every key to bronze/keys."""
    deep: Flag = False
    """Decode every value of the dumps, not only its header, and say which are not what they claim (slower)."""
    no_replay: Flag = False
    """Do not replay logs: only what they write is counted, not which keys live."""
    no_load_truncated: Flag = False
    """A log whose last file a crash has cut is an error, as with the server's aof-load-truncated no."""
    appendfsync: str | None = None
    """always, everysec or no: what the servers of the logs have, for what a crash may lose. Default: all three are told."""
    info: Paths = ()
    """INFO replies of the servers, for what a crash would lose: JSON lines (slotscope collect --persistence) or a whole reply as text."""
    no_memory: Flag = False
    """Do not estimate what keys take in the servers' memory."""
    allocator: str = "auto"
    """What the servers allocate with: jemalloc (their own build), jemalloc-16 (of Linux distributions) or libc, as INFO's
    mem_allocator says. Default: jemalloc-16 for Redis, libc for Valkey.
    """
    list_compress_depth: int = 0
    """The servers' list-compress-depth. Default: 0, or seen from lists in dumps that are not compressed."""
    loaded: Flag = False
    """The servers were restarted, or are replicas, and their keys are as they loaded them from a file."""
    server: str | None = None
    """Whose layout in memory keys are measured by: redis-8.0, valkey-9.1, … Default: that of the server that the dump names, or of
    the nearest version that is known.
    """
    lfu_log_factor: int = 10
    """The servers' lfu-log-factor, by which counters of dumps become accesses a second (maxmemory-policy allkeys-lfu or volatile-lfu)."""
    lfu_decay_time: int = 1
    """The servers' lfu-decay-time in minutes; with 0 counters never fall, and tell no rate."""
    top: int | None = None
    """Keys listed for the cluster and for each node and type."""
    top_per_slot: int | None = None
    """Keys listed for each slot."""
    separators: str | None = None
    """Characters that end a prefix."""
    prefix_depth: int | None = None
    """Number of separators that the longest prefix has."""
    bytes_per_second: float = BYTES_PER_SECOND
    """Dumps of live servers: bytes a second that are read of each, at most."""
    from_master: Flag = False
    """Dumps of live servers: also of a master, which forks for it."""
    access: AccessOptions = NO_OPTIONS
    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/SNAPSHOT.html."""

    @property
    def spark_paths(self) -> tuple[str, ...]:
        """Tables, and key lists that may be tables."""
        return (self.root, *self.keys)

    def settings(self) -> Settings:
        """The settings, with what the user gave here."""
        return read_settings(
            self.conf_file,
            top=self.top,
            top_per_slot=self.top_per_slot,
            separators=self.separators,
            prefix_depth=self.prefix_depth,
        )
