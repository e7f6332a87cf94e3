"""Cluster state in the view of one node, updated by bus messages and time."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
