"""Topologies: nodes, and readers of CLUSTER NODES, SHARDS, SLOTS and nodes.conf."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
