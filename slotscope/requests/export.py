"""What ``export`` is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from slotscope.requests.options import (
    BYTES_PER_SECOND,
    NO_OPTIONS,
    AccessOptions,
    Flag,
    Paths,
    TableOptions,
    options,
)


@options
class Request(TableOptions):
    """Which keys of which dumps to write, as what, and where to; conditions are joined by "and", several values of one by "or"."""

    rdb: Paths = ()
    """RDB dumps: files, globs, folders or URIs; gzip and zstd are recognised. redis://HOST:PORT: a dump that this server makes now, as for a replica."""
    aof: Paths = ()
    """Append-only logs (appendonlydir, a manifest, or one file): the keys that they leave, which are held in memory meanwhile."""
    to: Literal["json", "csv", "resp", "parquet", "delta"]
    """json: a line a key; csv: a line an element; resp: the commands that make the keys, for redis-cli --pipe; parquet, delta: a row a key,
    with column value as the Data Source has it.
    """
    out: Annotated[str, Parameter(allow_leading_hyphen=True)]
    """Folder of the parts, one a dump or range of a dump; or one file, if it ends with .json, .jsonl, .csv, .resp or .parquet; - is the standard output."""
    match: Paths = ()
    """Patterns of names, as KEYS takes them: user:*, [ab]?."""
    prefix: Paths = ()
    """Beginnings of names."""
    regex: str | None = None
    """Regular expression (RE2) that is found in the name; ^ and $ are its ends."""
    type: Paths = ()
    """Types: string, list, set, zset, hash, stream, module, array."""
    db: Paths = ()
    """Database numbers."""
    slot: str | None = None
    """Slots: 0-5460,12000."""
    size: str | None = None
    """Bytes of the key's record in the dump: >1kb, 100-200, >=1mb,<1gb."""
    ttl: str | None = None
    """Time to live when the dump was taken: <1h, 7d-30d; none: keys that never expire; any: those that do."""
    idle: str | None = None
    """Time since the last access: >30d; recorded under an LRU policy."""
    freq: str | None = None
    """LFU counter: >=10; recorded under an LFU policy."""
    sample: str | None = None
    """Share of the keys, by a hash of their names, the same ones each time: 0.01 or 1%."""
    limit: str | None = None
    """Keys at most, the first ones in the files' order."""
    target: str | None = None
    """Server that commands are for: redis-6.2, valkey-9.0, …; what it cannot hold is refused, with --mode permissive left out and named.
    Default: one that holds all.
    """
    mode: Literal["strict", "permissive"] = "strict"
    """At a damaged dump, or a value that cannot be written: stop, and leave nothing behind (strict); or leave it out, name it, and end with 3."""
    parallelism: int | None = None
    """Parts written at the same time. Default: the machine's cores."""
    no_crc: Flag = False
    """Do not check the CRC64 of the dumps."""
    bytes_per_second: float = BYTES_PER_SECOND
    """Dumps of live servers: bytes a second that are read of each, at most."""
    from_master: Flag = False
    """Dumps of live servers: also of a master, which forks for it."""
    access: AccessOptions = NO_OPTIONS

    @property
    def permissive(self) -> bool:
        """Whether to go on after bad input."""
        return self.mode == "permissive"
