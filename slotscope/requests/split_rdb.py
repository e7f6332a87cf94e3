"""What ``split-rdb`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Common, Flag, Paths, options


@options
class Request(Common):
    """What to cut, after what, and where to; *plan* or *topology*, by default the latest plan."""

    rdb: Paths
    """RDB dumps, one of each shard: files, globs, folders or URIs; gzip and zstd are recognised."""
    out: str
    """Folder of the parts; it holds no other dumps."""
    plan: str | None = None
    """Id of the plan, the beginning of it, or latest. Default: the latest plan."""
    topology: str | None = None
    """CLUSTER NODES, nodes.conf, CLUSTER SHARDS or CLUSTER SLOTS output: cut after the owners as they are there, not after a plan."""
    no_crc: Flag = False
    """Do not check the CRC64 of the dumps."""
