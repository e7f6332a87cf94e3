"""What ``look`` is asked."""

from __future__ import annotations

from typing import Literal

from slotscope.requests.options import BYTES_PER_SECOND, NO_OPTIONS, AccessOptions, Flag, TableOptions, options


@options
class Request(TableOptions):
    """How to look at what was named."""

    seconds: float = 20.0
    """Live: time for measuring keys, at most; all of them are measured where that is enough, else a sample."""
    rate: float | None = None
    """Live: commands a second to a node, at most. Default: as many as keep a server busy half of the time."""
    json: Flag = False
    """Live: write one JSON object."""
    separators: str | None = None
    """Live: characters that end a prefix."""
    prefix_depth: int | None = None
    """Live: number of separators that the longest prefix has."""
    psync: Flag = False
    """Live: read the whole dump of a replica of each master, as `redis-cli --rdb` does, in place of drawing keys; nothing is kept but figures."""
    bytes_per_second: float = BYTES_PER_SECOND
    """With --psync: bytes a second that are read of each server, at most."""
    from_master: Flag = False
    """With --psync: also of a master that has no replica; it forks for it."""
    access: AccessOptions = NO_OPTIONS
    mode: Literal["strict", "permissive"] = "permissive"
    """Files: set bad records aside in bronze/bad_records and go on (permissive, exit code 3), or stop the command that reads them (strict)."""
    dry_run: Flag = False
    """Files: print the commands that read them and run none."""
    snapshot: str = "look"
    """Files, --psync: name of the snapshot that they become; what the tables hold of it is replaced."""
