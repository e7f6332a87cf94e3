"""Options of the commands that reconstruct the history of a cluster: history and follow."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from cyclopts import Parameter

from slotscope.options import (
    SHARED,
    Flag,
    Interval,
    LogOptions,
    NewCluster,
    NodeTimeout,
    Paths,
    ServerVersion,
    Text,
    options,
)


@options
class HistoryOptions(LogOptions):
    """Options of `history`."""

    pcap: Paths = ()
    """Captures of the bus ports: pcap or pcapng; files, globs, folders, URIs, gzip, zstd. Rotated files are joined; simultaneous captures are merged"""
    polls: Annotated[Paths, Parameter(alias="--nodes")] = ()
    """Answers to CLUSTER NODES, from collect and record: files, globs, folders, landings"""
    log: Paths = ()
    """Server logs: files, globs, folders, URIs"""
    prometheus: Paths = ()
    """Metrics of redis_exporter: saved answers of Prometheus range queries"""
    prometheus_url: str | None = None
    """Prometheus to query, as http://HOST:9090; needs --from and --to, keeps answers in ROOT/evidence. Credentials: SLOTSCOPE_PROMETHEUS_TOKEN, or SLOTSCOPE_PROMETHEUS_USER and SLOTSCOPE_PROMETHEUS_PASSWORD"""
    prometheus_match: Text = ""
    """Label matchers of the cluster: namespace="prod",job="redis". Default: none"""
    from_: Annotated[str | None, Parameter(name="--from")] = None
    """Start of the Prometheus query, as 2026-11-23T02:00:00Z"""
    to: str | None = None
    """End of the Prometheus query, at most 7 days later"""
    node_timeout_ms: NodeTimeout = None
    profile: ServerVersion = None
    snapshot: str | None = None
    """Name of the snapshot; continued with new files, overwritten with others. Default: the latest one if its files are given again, else time and cluster"""
    cluster: NewCluster = None
    restart: Flag = False
    """Full read of all files, instead of new ones only"""


@options
class FollowOptions(LogOptions):
    """Options of `follow`."""

    landing: str
    """Folder or URI of recordings: LANDING/CLUSTER/POINT/KIND, as record writes"""
    clusters: Paths = ()
    """Clusters to follow, as names or globs like eu-*; followers of one root must have disjoint sets. Default: all"""
    once: Flag = False
    """One pass over the new files, for a schedule. Default: until Ctrl-C or SIGTERM"""
    every: Interval = timedelta(seconds=10)
    """Interval between looks for new files, as 10s or 1m"""
    lateness: Interval = timedelta(seconds=45)
    """Watermark delay; later data is dropped and reported. Longer than --every of record plus the transfer"""
    keep: Interval = timedelta(days=30)
    """Retention of messages and polls (bronze/bus_messages, bronze/node_polls), as 12h or 30d. Beliefs, events and incidents stay"""
    on_incident: Text = ""
    """Command run when an incident opens, closes or is withdrawn, without a shell: JSON on standard input; SLOTSCOPE_CLUSTER, SLOTSCOPE_INCIDENT_ID, SLOTSCOPE_KIND, SLOTSCOPE_STATE, SLOTSCOPE_PAGE in the environment"""
    webhook: Text = ""
    """HTTP address that gets the same by POST"""
    webhook_format: Literal["json", "alertmanager", "slack"] = "json"
    """Body of the POST"""
    reports_url: Text = ""
    """HTTP address of ROOT/reports, for links to pages. Default: their paths"""
    node_timeout_ms: NodeTimeout = None
    profile: ServerVersion = None
    mode: Annotated[Literal["strict", "permissive"], SHARED] = "permissive"
    """Bad input: strict stops at the first record; permissive records it in bronze/bad_records and continues"""

    def replay(self, cluster: str) -> HistoryOptions:
        """Options for a replay of one cluster; its snapshot has the cluster's name."""
        return HistoryOptions(
            root=self.root,
            snapshot=cluster,
            mode=self.mode,
            node_timeout_ms=self.node_timeout_ms,
            profile=self.profile,
            log_zone=self.log_zone,
            log_node=self.log_node,
        )
