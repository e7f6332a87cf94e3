"""A complete sentinel without IO: monitoring, quorum, leader election, failover (docs/design/sentinel.md)."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
