"""A complete sentinel without IO: monitoring, quorum, leader election, failover (docs/design/sentinel.md)."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
