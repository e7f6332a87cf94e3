"""What ``follow`` is asked."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from slotscope.requests.history import Request as Replay
from slotscope.requests.options import SHARED, Flag, LogOptions, Text, options


@options
class Request(LogOptions):
    """Which landing to follow, and what to do when something happened."""

    landing: str
    """Folder or URI of recordings, as record leaves them: LANDING/CLUSTER/POINT/KIND."""
    once: Flag = False
    """Take what is there and end, for a schedule. Default: go on until Ctrl-C or SIGTERM."""
    every: timedelta = timedelta(seconds=10)
    """Time between two looks for new files: 10s, 1m."""
    lateness: timedelta = timedelta(seconds=90)
    """How much older than the newest recorded moment what a file tells may be when it comes; what is older is left out, and said. More than recorders
    take for a file (record's --every) and the way here.
    """
    on_incident: Text = ""
    """Command that is run when an incident has closed, without a shell: it gets the incident as JSON on its input, and SLOTSCOPE_CLUSTER,
    SLOTSCOPE_INCIDENT_ID, SLOTSCOPE_KIND and SLOTSCOPE_PAGE. Default: none.
    """
    webhook: Text = ""
    """http(s) address to which the same JSON is posted. Default: none."""
    node_timeout_ms: int | None = None
    """cluster-node-timeout of the servers. Default: read off the traffic."""
    profile: str | None = None
    """Rules of the servers: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1. Default: by what each node
    sends and its log says.
    """
    mode: Annotated[Literal["strict", "permissive"], SHARED] = "permissive"
    """What to do with bad input: stop at the first (strict), or write it to bronze/bad_records and go on (permissive)."""

    def replay(self, cluster: str) -> Replay:
        """What a replay of one cluster is asked; its snapshot is called as the cluster is."""
        return Replay(
            root=self.root,
            snapshot=cluster,
            mode=self.mode,
            node_timeout_ms=self.node_timeout_ms,
            profile=self.profile,
            log_zone=self.log_zone,
            log_node=self.log_node,
        )
